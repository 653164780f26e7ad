//! The memory of the value cache.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_epoch::Guard;
use warpkeep_core::ValueSpec;
use warpkeep_device::{Buffer, Device, DevicePtr};

use super::{ValueRoom, ValuesStats};
use crate::TableError;
use crate::gpu::params::{TALLIES, ValuesParams, tail_words};

/// Of so many rows one is kept free, so that a value that changes can move to another.
const SPARE: u64 = 16;

/// How many rows there are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) rows: u64,
    value_bytes: u64,
    tail_bytes: u64,
}

impl Plan {
    pub(super) fn new(room: ValueRoom, items: u64, key_row: usize, value: ValueSpec) -> Plan {
        let value_bytes = 8 * value.max_len().div_ceil(8) as u64;
        let tail_bytes = 8 * tail_words(key_row) as u64;
        let plan = Plan { rows: 0, value_bytes, tail_bytes };
        let rows = match room {
            ValueRoom::Bytes(bytes) => (bytes / plan.row_bytes()).min(items + items / SPARE + 1),
            ValueRoom::Share(share) => {
                let filled = (share.clamp(0.0, 1.0) * items as f64).ceil() as u64;
                if filled == 0 { 0 } else { filled + filled / SPARE + 1 }
            }
        };
        Plan { rows: rows.min(u64::from(u32::MAX)), ..plan }
    }

    /// A row, what is beside it, and its places in three lists.
    fn row_bytes(&self) -> u64 {
        self.value_bytes + self.tail_bytes + 12
    }

    /// As much of it as the device's budget allows, and what else is wanted of its memory.
    fn fitting(&self, device: &Device) -> Result<Plan, TableError> {
        let free = device.budget_left().min(device.memory()?.0);
        // Batches need their columns.
        let most = (free - free / 4).saturating_sub(16 * TALLIES as u64) / self.row_bytes();
        Ok(Plan { rows: self.rows.min(most), ..*self })
    }
}

/// Which spare rows can be used. For whoever has the turn.
#[derive(Clone, Debug, Default)]
struct Listed {
    /// From `next` to `end` of this list.
    list: usize,
    next: u64,
    end: u64,
    /// How many there were at first.
    at_first: u64,
    /// So many in the other list, when nobody reads them any more.
    coming: Option<(u64, Arc<AtomicBool>)>,
}

/// Rows for values.
pub(crate) struct Rows {
    values: Buffer,
    tails: Buffer,
    tallies: Buffer,
    /// A word for each row: whether an entry leads to it, while that is found out.
    pub(super) used: Buffer,
    /// Two lists of rows that no entry leads to, and what of them can be used.
    lists: [Buffer; 2],
    listed: Mutex<Listed>,
    pub(super) count: u64,
    /// Rows that had values after the last load.
    pub(super) cached: AtomicU64,
    plan: Plan,
}

impl Rows {
    /// Memory for what is planned, or for as much of it as there is; `None` if that is nothing. No row has a value yet.
    pub(super) fn new(device: &Device, plan: &Plan) -> Result<Option<Rows>, TableError> {
        let mut fitting = plan.fitting(device)?;
        while fitting.rows > 0 {
            match Rows::of(device, plan, &fitting) {
                // What is free can be in pieces, and others take from it, too.
                Err(error) if error.is_out_of_memory() => fitting.rows /= 2,
                made => return Ok(Some(made?)),
            }
        }
        Ok(None)
    }

    fn of(device: &Device, plan: &Plan, fitting: &Plan) -> Result<Rows, warpkeep_device::DeviceError> {
        let rows = fitting.rows as usize;
        Ok(Rows {
            values: device.allocate(rows * fitting.value_bytes as usize)?,
            tails: device.allocate(rows * fitting.tail_bytes as usize)?,
            tallies: device.allocate_zeroed(16 * TALLIES)?,
            used: device.allocate(4 * rows)?,
            lists: [device.allocate(4 * rows)?, device.allocate(4 * rows)?],
            listed: Mutex::default(),
            count: fitting.rows,
            cached: AtomicU64::new(0),
            plan: *plan,
        })
    }

    /// Whether it does for what is planned: tables that grow a little need no other rows.
    pub(super) fn suits(&self, plan: &Plan) -> bool {
        let asked = self.plan.rows;
        plan.rows >= asked - asked / 4 && plan.rows <= asked + asked / 16
    }

    /// Rows that values are loaded into; the others are kept free.
    pub(super) fn to_fill(&self) -> u64 {
        self.count - self.count.div_ceil(SPARE + 1)
    }

    pub(crate) fn params(&self) -> ValuesParams {
        ValuesParams { rows: self.values.ptr(), tails: self.tails.ptr(), tallies: self.tallies.ptr() }
    }

    pub(crate) fn bytes(&self) -> u64 {
        [&self.values, &self.tails, &self.tallies, &self.used, &self.lists[0], &self.lists[1]]
            .iter()
            .map(|buffer| buffer.len() as u64)
            .sum()
    }

    /// Of the first list, rows from `next` to `end` can be used, and no others.
    pub(in crate::gpu) fn have_spares(&self, next: u64, end: u64) {
        *self.listed() = Listed { list: 0, next, end, at_first: end - next, coming: None };
    }

    /// Where the first list is, or the other.
    pub(super) fn list(&self, which: usize) -> DevicePtr {
        self.lists[which].ptr()
    }

    fn listed(&self) -> MutexGuard<'_, Listed> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Spare rows that can be used: where they are listed, and how many.
    pub(super) fn spare(&self) -> (DevicePtr, u64) {
        let listed = self.listed();
        (self.lists[listed.list].ptr().offset(4 * listed.next), listed.end - listed.next)
    }

    /// So many of them are used now.
    pub(crate) fn took(&self, count: u64) {
        let mut listed = self.listed();
        listed.next = (listed.next + count).min(listed.end);
    }

    /// The list that others are to be put into, if half of those that can be used are used, and nobody has looked for more.
    pub(super) fn wants_spares(&self) -> Option<usize> {
        let mut listed = self.listed();
        let ready = |(_, ready): &mut (u64, Arc<AtomicBool>)| ready.load(Ordering::Acquire);
        // Those that are left of this list are found again.
        match listed.coming.take_if(ready) {
            Some((count, _)) if count > listed.end - listed.next => {
                let list = 1 - listed.list;
                *listed = Listed { list, next: 0, end: count, at_first: count, coming: None };
            }
            _ => {}
        }
        let few = 2 * (listed.end - listed.next) <= listed.at_first;
        (few && listed.coming.is_none()).then_some(1 - listed.list)
    }

    /// So many are in the other list, and can be used when all that are pinned now are not any more.
    pub(super) fn await_spares(&self, count: u64, guard: &Guard) {
        let ready = Arc::new(AtomicBool::new(false));
        self.listed().coming = Some((count, Arc::clone(&ready)));
        guard.defer(move || ready.store(true, Ordering::Release));
        guard.flush();
    }

    /// Counts gets anew.
    pub(super) fn begin_count(&self) -> Result<(), TableError> {
        Ok(self.tallies.fill(0)?)
    }

    pub(super) fn stats(&self) -> Result<ValuesStats, TableError> {
        let cached = self.cached.load(Ordering::Relaxed);
        let mut stats =
            ValuesStats { rows: self.count, cached, bytes: self.bytes(), ..ValuesStats::default() };
        for pair in self.tallies.to_vec::<[u64; 2]>()? {
            stats.gets += pair[0];
            stats.hits += pair[1];
        }
        Ok(stats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(room: ValueRoom, items: u64) -> u64 {
        Plan::new(room, items, 8, ValueSpec::fixed(128).unwrap()).rows
    }

    #[test]
    fn room_is_counted_in_rows() {
        assert_eq!(rows(ValueRoom::Share(0.0), 1000), 0);
        assert_eq!(rows(ValueRoom::Share(0.2), 1600), 320 + 20 + 1);
        // A row has 128 bytes, a record's offset, a version, and its places in three lists.
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
    fn rows_are_used_again_when_nobody_can_be_reading_them() {
        let device = Device::simulated(warpkeep_device::Mode::fast()).unwrap();
        let plan = Plan::new(ValueRoom::Share(1.0), 100, 8, ValueSpec::fixed(16).unwrap());
        let rows = Rows::new(&device, &plan).unwrap().unwrap();
        let heap = warpkeep_suites::heap(8);
        let reader = heap.pin();
        assert_eq!(rows.wants_spares(), Some(1));
        rows.await_spares(5, &heap.pin());
        for _ in 0..100 {
            heap.reclaim();
            assert_eq!((rows.wants_spares(), rows.spare().1), (None, 0), "somebody may be reading them");
        }
        drop(reader);
        (0..4).for_each(|_| heap.reclaim());
        assert_eq!(rows.wants_spares(), None, "they can be used");
        assert_eq!((rows.spare().1, rows.spare().0), (5, rows.list(1)));
        rows.took(2);
        assert_eq!((rows.wants_spares(), rows.spare().1), (None, 3), "there are enough");
        rows.took(1);
        assert_eq!(rows.wants_spares(), Some(0));
    }
}
