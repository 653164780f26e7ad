//! The memory of the value cache, its free rows, and the redirection of entries whose values change.
//!
//! A fused write that replaces a cached value puts the new value into a free row, so that the key stays cached. Free
//! rows are listed in one of two lists. When half of a list is used, a kernel lists the rows that no entry refers to
//! in the other list. Kernels that are running may still read those rows, so the other list is used only when every
//! epoch has ended that was pinned then.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_epoch::Guard;
use warpkeep_core::ValueSpec;
use warpkeep_device::{Buffer, Device, DevicePtr};
use warpkeep_image::Persist;

use super::load::Release;
use super::{ValueRoom, ValuesStats};
use crate::TableError;
use crate::gpu::engine::{DeviceEngine, THREADS, Workspace};
use crate::gpu::params::{GetParams, HIT_COUNTERS, TableParams, ValuesParams, tail_words};
use crate::gpu::write::params::{FusedParams, RedirectParams};

/// One row is kept free for each of this many that are filled, so that a value that changes can move to another row.
const FILLED_PER_FREE: u64 = 16;

/// How many rows there should be, and their sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowPlan {
    pub(super) rows: u64,
    value_bytes: u64,
    tail_bytes: u64,
}

impl RowPlan {
    pub(super) fn new(size: ValueRoom, items: u64, key_row: usize, value: ValueSpec) -> RowPlan {
        let value_bytes = 8 * value.max_len().div_ceil(8) as u64;
        let tail_bytes = 8 * tail_words(key_row) as u64;
        let plan = RowPlan { rows: 0, value_bytes, tail_bytes };
        let rows = match size {
            ValueRoom::Bytes(bytes) => (bytes / plan.row_bytes()).min(items + items / FILLED_PER_FREE + 1),
            ValueRoom::Share(share) => {
                let filled = (share.clamp(0.0, 1.0) * items as f64).ceil() as u64;
                if filled == 0 { 0 } else { filled + filled / FILLED_PER_FREE + 1 }
            }
        };
        RowPlan { rows: rows.min(u64::from(u32::MAX)), ..plan }
    }

    /// A row with its tail, its flag in `used`, and its word in each of the two lists.
    fn row_bytes(&self) -> u64 {
        self.value_bytes + self.tail_bytes + 12
    }

    /// With as many rows as the device's budget allows.
    fn fitting(&self, device: &Device) -> Result<RowPlan, TableError> {
        let free = device.budget_left().min(device.memory()?.0);
        // A quarter stays free for the columns of batches.
        let most = (free - free / 4).saturating_sub(16 * HIT_COUNTERS as u64) / self.row_bytes();
        Ok(RowPlan { rows: self.rows.min(most), ..*self })
    }
}

/// The free rows that can be used. Only the holder of the write lock changes it.
#[derive(Clone, Debug, Default)]
struct FreeRows {
    /// Rows `next` to `end` of this list.
    list: usize,
    next: u64,
    end: u64,
    /// How many rows the list had when it came into use.
    initial: u64,
    /// Rows of the other list, and whether no kernel can read them any more.
    pending: Option<(u64, Arc<AtomicBool>)>,
}

/// The rows of a value cache.
pub(crate) struct Rows {
    values: Buffer,
    tails: Buffer,
    hit_counters: Buffer,
    /// A word for each row, for the kernels that find free rows: whether an entry refers to it.
    pub(super) used: Buffer,
    /// Two lists of row numbers.
    lists: [Buffer; 2],
    free: Mutex<FreeRows>,
    pub(super) count: u64,
    /// Rows that had values after the last load.
    pub(super) cached: AtomicU64,
    plan: RowPlan,
}

impl Rows {
    /// Rows as planned, or as many as memory allows; `None` if it allows none. No row has a value yet.
    pub(super) fn new(device: &Device, plan: &RowPlan) -> Result<Option<Rows>, TableError> {
        let mut fitting = plan.fitting(device)?;
        while fitting.rows > 0 {
            match Rows::allocate(device, plan, &fitting) {
                // Free memory can be fragmented, and others allocate as well.
                Err(error) if error.is_out_of_memory() => fitting.rows /= 2,
                allocated => return Ok(Some(allocated?)),
            }
        }
        Ok(None)
    }

    fn allocate(
        device: &Device,
        plan: &RowPlan,
        fitting: &RowPlan,
    ) -> Result<Rows, warpkeep_device::DeviceError> {
        let rows = fitting.rows as usize;
        Ok(Rows {
            values: device.allocate(rows * fitting.value_bytes as usize)?,
            tails: device.allocate(rows * fitting.tail_bytes as usize)?,
            hit_counters: device.allocate_zeroed(16 * HIT_COUNTERS)?,
            used: device.allocate(4 * rows)?,
            lists: [device.allocate(4 * rows)?, device.allocate(4 * rows)?],
            free: Mutex::default(),
            count: fitting.rows,
            cached: AtomicU64::new(0),
            plan: *plan,
        })
    }

    /// Whether these rows serve a plan as well: a table that grows a little keeps its rows.
    pub(super) fn suit(&self, plan: &RowPlan) -> bool {
        let planned = self.plan.rows;
        plan.rows >= planned - planned / 4 && plan.rows <= planned + planned / 16
    }

    /// Rows that a load fills; the others are kept free.
    pub(super) fn fill_target(&self) -> u64 {
        self.count - self.count.div_ceil(FILLED_PER_FREE + 1)
    }

    pub(crate) fn params(&self) -> ValuesParams {
        ValuesParams {
            rows: self.values.ptr(),
            tails: self.tails.ptr(),
            hit_counters: self.hit_counters.ptr(),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        [&self.values, &self.tails, &self.hit_counters, &self.used, &self.lists[0], &self.lists[1]]
            .iter()
            .map(|buffer| buffer.len() as u64)
            .sum()
    }

    /// Rows `next` to `end` of the first list are free, and no others.
    pub(in crate::gpu) fn set_free_rows(&self, next: u64, end: u64) {
        *self.free() = FreeRows { list: 0, next, end, initial: end - next, pending: None };
    }

    /// The address of a list.
    pub(super) fn list(&self, which: usize) -> DevicePtr {
        self.lists[which].ptr()
    }

    fn free(&self) -> MutexGuard<'_, FreeRows> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The free rows that can be used: the address of their numbers, and how many there are.
    pub(super) fn free_rows(&self) -> (DevicePtr, u64) {
        let free = self.free();
        (self.lists[free.list].ptr().offset(4 * free.next), free.end - free.next)
    }

    /// The first `count` free rows are used now.
    pub(crate) fn use_free_rows(&self, count: u64) {
        let mut free = self.free();
        free.next = (free.next + count).min(free.end);
    }

    /// The list to put free rows into, if half of those in the current list are used and the other list is not
    /// pending. Switches to the other list first if that is ready and has more.
    pub(super) fn list_to_refill(&self) -> Option<usize> {
        let mut free = self.free();
        let is_ready = |(_, ready): &mut (u64, Arc<AtomicBool>)| ready.load(Ordering::Acquire);
        // The rest of the current list is found again by the next search.
        match free.pending.take_if(is_ready) {
            Some((count, _)) if count > free.end - free.next => {
                let list = 1 - free.list;
                *free = FreeRows { list, next: 0, end: count, initial: count, pending: None };
            }
            _ => {}
        }
        let is_low = 2 * (free.end - free.next) <= free.initial;
        (is_low && free.pending.is_none()).then_some(1 - free.list)
    }

    /// The other list has `count` rows, which can be used once every epoch has ended that is pinned now.
    pub(super) fn free_after_epoch(&self, count: u64, guard: &Guard) {
        let ready = Arc::new(AtomicBool::new(false));
        self.free().pending = Some((count, Arc::clone(&ready)));
        guard.defer(move || ready.store(true, Ordering::Release));
        guard.flush();
    }

    pub(super) fn reset_hit_counters(&self) -> Result<(), TableError> {
        Ok(self.hit_counters.fill(0)?)
    }

    pub(super) fn stats(&self) -> Result<ValuesStats, TableError> {
        let cached = self.cached.load(Ordering::Relaxed);
        let mut stats =
            ValuesStats { rows: self.count, cached, bytes: self.bytes(), ..ValuesStats::default() };
        for pair in self.hit_counters.to_vec::<[u64; 2]>()? {
            stats.gets += pair[0];
            stats.hits += pair[1];
        }
        Ok(stats)
    }
}

impl<P: Persist> DeviceEngine<P> {
    /// Searches for free rows if fewer than half of a list remain. The caller holds the write lock.
    pub(in crate::gpu) fn find_free_rows(
        &self,
        workspace: &mut Workspace,
        params: TableParams,
        rows: &Rows,
        guard: &Guard,
    ) -> Result<(), TableError> {
        if let Some(list) = rows.list_to_refill() {
            let count = self.release(workspace, params, rows, &Release::NONE, list)?;
            rows.free_after_epoch(count, guard);
        }
        Ok(())
    }

    /// Puts values of a batch that replace cached values into free rows, as far as there are some. `batch.new_targets`
    /// has a word for each effect, and the kernel adds the number of rows it used to `batch.summary`.
    ///
    /// # Safety
    /// As for the kernels of the batch, between which this one is launched. The batch uses the device index that the
    /// rows belong to.
    pub(in crate::gpu) unsafe fn redirect(
        &self,
        workspace: &Workspace,
        batch: &FusedParams,
        rows: &Rows,
    ) -> Result<(), TableError> {
        let (free_rows, free_count) = rows.free_rows();
        let params = RedirectParams {
            batch: *batch,
            rows: GetParams {
                table: batch.table,
                count: free_count,
                keys: DevicePtr::NULL,
                statuses: DevicePtr::NULL,
                versions: DevicePtr::NULL,
                values: rows.params().rows,
            },
            free_rows,
            free_count,
        };
        // SAFETY: the caller's promise; no kernel reads free rows.
        unsafe { workspace.launch(&self.kernels.values()?.redirect, batch.count, THREADS, &params)? };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(size: ValueRoom, items: u64) -> u64 {
        RowPlan::new(size, items, 8, ValueSpec::fixed(128).unwrap()).rows
    }

    #[test]
    fn plan_has_a_free_row_for_every_sixteen() {
        assert_eq!(rows(ValueRoom::Share(0.0), 1000), 0);
        assert_eq!(rows(ValueRoom::Share(0.2), 1600), 320 + 20 + 1);
        // A row has 128 bytes, the offset of its record, a version, a flag, and a word in each of two lists.
        assert_eq!(rows(ValueRoom::Bytes(1560), 1600), 10);
        assert_eq!(
            rows(ValueRoom::Bytes(u64::MAX), 1600),
            1600 + 100 + 1,
            "no more than the table has items"
        );
        assert_eq!(rows(ValueRoom::Share(7.5), 1 << 40), u64::from(u32::MAX));
    }

    #[test]
    #[cfg(not(no_simulator))]
    fn rows_are_reused_after_all_readers_have_unpinned() {
        let device = Device::simulated(warpkeep_device::Mode::fast()).unwrap();
        let plan = RowPlan::new(ValueRoom::Share(1.0), 100, 8, ValueSpec::fixed(16).unwrap());
        let rows = Rows::new(&device, &plan).unwrap().unwrap();
        let heap = warpkeep_suites::heap(8);
        let reader = heap.pin();
        assert_eq!(rows.list_to_refill(), Some(1));
        rows.free_after_epoch(5, &heap.pin());
        for _ in 0..100 {
            heap.reclaim();
            assert_eq!((rows.list_to_refill(), rows.free_rows().1), (None, 0), "a reader is pinned");
        }
        drop(reader);
        (0..4).for_each(|_| heap.reclaim());
        assert_eq!(rows.list_to_refill(), None, "the other list has come into use");
        assert_eq!((rows.free_rows().1, rows.free_rows().0), (5, rows.list(1)));
        rows.use_free_rows(2);
        assert_eq!((rows.list_to_refill(), rows.free_rows().1), (None, 3), "more than half remain");
        rows.use_free_rows(1);
        assert_eq!(rows.list_to_refill(), Some(0));
    }
}
