//! Loading the value cache: rows for the most frequent keys, while batches of gets go on.
//!
//! A load takes the frequency counters of all entries and finds the frequency from which on entries get a row. It
//! releases the rows of entries below that frequency, waits until no kernel can read them, and fills rows in groups,
//! each in address order.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use warpkeep_device::{DevicePtr, PartitionPlan};
use warpkeep_image::Persist;

use super::rows::{RowPlan, Rows};
use super::{Frequencies, ValueRoom, ValuesReport, ValuesStats};
use crate::gpu::engine::{DeviceEngine, THREADS, Workspace, WriteLock, check_fixed};
use crate::gpu::index::IndexAccess;
use crate::gpu::params::{
    CHOICE_BYTES, ChooseParams, FREQUENCIES, FillParams, FreeRowsParams, GetParams, HistogramParams,
    LINE_ENTRIES, ReleaseParams, TableParams,
};
use crate::{Table, TableError};

/// Rows of a group, at most.
const MOST_ROWS: u64 = 1 << 20;
/// Scratch memory for each row of a group.
const SCRATCH_BYTES: u64 = 64;
/// Buckets of the partition that sorts a group, at most: the host scans them.
const MOST_BUCKETS: u64 = 1 << 15;

impl<P: Persist> DeviceEngine<P> {
    /// Starts to count gets for each key, from zero. [`DeviceEngine::load_values`] chooses keys by these counts and
    /// stops counting. Gets take a little longer meanwhile. Returns whether gets are counted: not without a [device
    /// index](DeviceEngine::build_index) or without memory for the counters.
    pub fn learn_values(&self, table: &Table<P>) -> Result<bool, TableError> {
        check_fixed(table)?;
        let _lock = self.write_lock();
        let Some(snapshot) = self.device_index.acquire(self, table, IndexAccess::Write(0))? else {
            return Ok(false);
        };
        let frequencies = Frequencies::new(self.device(), snapshot.entry_count());
        let learns = frequencies.is_some();
        self.device_index.state().values.frequencies = frequencies.map(Arc::new);
        Ok(learns)
    }

    /// Puts the values of the most frequent keys into device memory, up to the given size and the device's memory
    /// budget. Values that are there already and still frequent stay. From then on gets of these keys read device
    /// memory, and writes update it at once. The choice of keys is frozen until the next call. A size of 0 frees the
    /// memory.
    ///
    /// Waits for batches of gets that are running, so the caller must not hold a [`Reading`](crate::gpu::Reading).
    /// Other batches of gets go on meanwhile; batches that write wait. Without a [device
    /// index](DeviceEngine::build_index) there are no rows.
    pub fn load_values(&self, table: &Table<P>, size: ValueRoom) -> Result<ValuesReport, TableError> {
        check_fixed(table)?;
        let begun = Instant::now();
        let mut lock = self.write_lock();
        // Applies the changes of the CPU. The write lock keeps entries from changing after that.
        if self.device_index.acquire(self, table, IndexAccess::Write(0))?.is_none() {
            return Ok(ValuesReport::default());
        }
        let plan = RowPlan::new(size, table.len(), table.key_row(), table.value);
        let Some(rows) = self.rows_for(&mut lock, table, &plan)? else {
            return Ok(ValuesReport { took: begun.elapsed(), ..ValuesReport::default() });
        };
        let filled = match self.fill_most_frequent(&mut lock, table, &rows) {
            // Rows that were filled stay valid.
            Err(TableError::Device(error)) if error.is_out_of_memory() => 0,
            filled => filled?,
        };
        rows.reset_hit_counters()?;
        self.device_index.state().values.frequencies = None;
        let (cached, bytes) = (rows.cached.load(Ordering::Relaxed), rows.bytes());
        Ok(ValuesReport { rows: rows.count, cached, filled, bytes, took: begun.elapsed() })
    }

    /// The counters of the value cache; all zeros if there is none.
    pub fn values_stats(&self) -> Result<ValuesStats, TableError> {
        let values = self.device_index.state().values.clone();
        let stats = values.rows.map_or(Ok(ValuesStats::default()), |rows| rows.stats())?;
        Ok(ValuesStats { learnt: values.frequencies.map(|frequencies| frequencies.learnt()), ..stats })
    }

    /// Waits for kernels that read. Those that begin later see the index and the rows as they are now.
    fn wait_for_readers(&self) {
        drop(self.relocation_write());
    }

    /// Rows as planned, or as many as memory allows. All readers use them.
    fn rows_for(
        &self,
        lock: &mut WriteLock<'_, P>,
        table: &Table<P>,
        plan: &RowPlan,
    ) -> Result<Option<Arc<Rows>>, TableError> {
        let old = self.device_index.state().values.rows.clone();
        if let Some(rows) = &old {
            if rows.suit(plan) && plan.rows > 0 {
                return Ok(old);
            }
            // Freed before the new rows are allocated, as both may not fit; no entry refers to them by then.
            let params = self.params_with_index(table)?;
            rows.set_free_rows(0, 0);
            self.release(&mut lock.workspace, params, rows, &Release::ALL, 0)?;
            self.wait_for_readers();
            self.device_index.state().values.rows = None;
        }
        drop(old);
        let rows = Rows::new(self.device(), plan)?.map(Arc::new);
        self.device_index.state().values.rows.clone_from(&rows);
        Ok(rows)
    }

    /// The table with its device index as it is now.
    fn params_with_index(&self, table: &Table<P>) -> Result<TableParams, TableError> {
        let guard = &table.heap.pin();
        let params = TableParams::new(table, table.levels(guard), self.image.cover()?);
        let snapshot = self.device_index.state().snapshot();
        Ok(snapshot.map_or(params, |snapshot| params.with_index(snapshot.params())))
    }

    /// Gives rows to the most frequent keys; returns how many had none before. The caller holds the write lock.
    fn fill_most_frequent(
        &self,
        lock: &mut WriteLock<'_, P>,
        table: &Table<P>,
        rows: &Rows,
    ) -> Result<u64, TableError> {
        // Kept until the kernels that read them are done.
        let frequencies = self.device_index.state().values.frequencies.clone();
        let params = self.params_with_index(table)?;
        let entries = params.index.lines * LINE_ENTRIES;
        let workspace = &mut *lock.workspace;
        let counters = frequencies.as_ref().map_or(DevicePtr::NULL, |frequencies| frequencies.ptr());
        let histogram =
            workspace.columns.counters.zeros(self.device(), 8 * FREQUENCIES, &workspace.stream)?;
        let count = HistogramParams { table: params, frequencies: counters, histogram };
        // SAFETY: the index has `entries` entries and the frequencies a byte for each; both stay until `take` has
        // synchronised the stream.
        unsafe { workspace.launch(&self.kernels.values()?.histogram, entries, THREADS, &count)? };
        let histogram: Vec<u64> = workspace.columns.counters.take(FREQUENCIES, &workspace.stream)?;
        let (threshold, ties_kept) = row_threshold(&histogram, rows.fill_target());
        let release = Release { frequencies: counters, threshold, ties_kept };
        rows.set_free_rows(0, 0);
        let free = self.release(&mut lock.workspace, params, rows, &release, 0)?;
        rows.cached.store(rows.count - free, Ordering::Relaxed);
        self.wait_for_readers();
        let kept = rows.count - free;
        let mut filled = 0;
        for (min_frequency, max_frequency) in
            [(threshold + 1, FREQUENCIES as u64 - 1), (threshold, threshold)]
        {
            loop {
                let limit = rows.fill_target().saturating_sub(kept + filled);
                let selection =
                    Selection { params, frequencies: counters, entries, min_frequency, max_frequency, limit };
                let group = self.fill_group(lock, table, rows, &selection, filled)?;
                filled += group;
                rows.cached.store(kept + filled, Ordering::Relaxed);
                // The rest is for values that change.
                rows.set_free_rows(filled, free);
                if group == 0 {
                    break;
                }
            }
        }
        Ok(filled)
    }

    /// Makes entries refer to their records again unless they are frequent enough, and lists the rows that no entry
    /// refers to; returns how many. Running kernels may still read some of those.
    pub(in crate::gpu) fn release(
        &self,
        workspace: &mut Workspace,
        params: TableParams,
        rows: &Rows,
        release: &Release,
        list: usize,
    ) -> Result<u64, TableError> {
        rows.used.fill_on(0, rows.used.len(), 0, &workspace.stream)?;
        let counters = workspace.columns.counters.zeros(self.device(), 16, &workspace.stream)?;
        let release = ReleaseParams {
            table: params,
            frequencies: release.frequencies,
            threshold: release.threshold,
            ties_kept: release.ties_kept,
            tie_count: counters,
            used: rows.used.ptr(),
        };
        let find = FreeRowsParams {
            count: rows.count,
            used: rows.used.ptr(),
            free_count: counters.offset(8),
            free_rows: rows.list(list),
        };
        // Free rows of the current list must not be in the other list as well.
        let (listed, listed_count) = rows.free_rows();
        let keep = FreeRowsParams { count: listed_count, free_rows: listed, ..find };
        let entries = params.index.lines * LINE_ENTRIES;
        // SAFETY: the lists have a word for each row and the frequencies a byte for each entry; all stay until `take`
        // has synchronised the stream.
        let counted: Vec<u64> = unsafe {
            workspace.launch(&self.kernels.values()?.release, entries, THREADS, &release)?;
            workspace.launch(&self.kernels.values()?.keep, listed_count, THREADS, &keep)?;
            workspace.launch(&self.kernels.values()?.free, rows.count, THREADS, &find)?;
            workspace.columns.counters.take(2, &workspace.stream)?
        };
        Ok(counted[1])
    }

    /// Fills free rows with the values of a group of entries; returns how many. No kernel reads those rows.
    fn fill_group(
        &self,
        lock: &mut WriteLock<'_, P>,
        table: &Table<P>,
        rows: &Rows,
        selection: &Selection,
        filled: u64,
    ) -> Result<u64, TableError> {
        let Some(fill) = self.choose(&mut lock.workspace, table, rows, selection, filled)? else {
            return Ok(0);
        };
        // SAFETY: the lists have `count` items and stay until the stream is synchronised below; so do the records,
        // because the write lock keeps others from replacing them. No kernel reads rows that no entry refers to.
        unsafe { lock.workspace.launch(&self.kernels.values()?.fill, fill.count, THREADS, &fill)? };
        lock.workspace.stream.synchronize()?;
        Ok(fill.count)
    }

    /// Chooses a group of entries and sorts them by the address of their records. They get the free rows of the first
    /// list from `filled` on.
    pub(in crate::gpu) fn choose(
        &self,
        workspace: &mut Workspace,
        table: &Table<P>,
        rows: &Rows,
        selection: &Selection,
        filled: u64,
    ) -> Result<Option<FillParams>, TableError> {
        let device = self.device();
        let capacity = selection.limit.min(MOST_ROWS).min((device.budget_left() / SCRATCH_BYTES).max(32));
        if capacity == 0 || selection.min_frequency > selection.max_frequency {
            return Ok(None);
        }
        let (columns, stream) = (&mut workspace.columns, &workspace.stream);
        let buckets = capacity.next_power_of_two().clamp(64, MOST_BUCKETS) as u32;
        let plan = PartitionPlan::with_buckets(table.image().len(), buckets);
        let choose = ChooseParams {
            table: selection.params,
            frequencies: selection.frequencies,
            min_frequency: selection.min_frequency,
            max_frequency: selection.max_frequency,
            capacity,
            chosen_count: columns.counters.zeros(device, 8, stream)?,
            choices: columns.pending.reserve(device, CHOICE_BYTES * capacity as usize)?,
            ranks: columns.ranks.reserve(device, 4 * capacity as usize)?,
            partition: plan.zeroed(device, &mut columns.partition, stream)?,
        };
        // SAFETY: the lists hold `capacity` choices and stay until `take` has synchronised the stream.
        unsafe { workspace.launch(&self.kernels.values()?.choose, selection.entries, THREADS, &choose)? };
        let (columns, stream) = (&mut workspace.columns, &workspace.stream);
        let chosen: Vec<u64> = columns.counters.take(1, stream)?;
        let count = chosen[0].min(capacity);
        if count == 0 {
            return Ok(None);
        }
        // An exclusive scan. The words before and after the counts are zero.
        let mut begins: Vec<u32> = columns.partition.take(plan.bytes() / 4, stream)?;
        let mut begin = 0;
        for bucket in &mut begins {
            begin += std::mem::replace(bucket, begin);
        }
        let row = 8 * table.value.max_len().div_ceil(8) as u64;
        let fill = FillParams {
            get: GetParams {
                table: selection.params,
                count,
                keys: DevicePtr::NULL,
                statuses: DevicePtr::NULL,
                versions: DevicePtr::NULL,
                values: selection.params.index.values.rows,
            },
            count,
            choices: choose.choices,
            ranks: choose.ranks,
            partition: plan.at(columns.partition.put(device, &begins, stream)?),
            ordered: columns.fetches.reserve(device, CHOICE_BYTES * count as usize)?,
            free_rows: rows.list(0).offset(4 * filled),
            wide: u64::from((row | table.form.value_step()).is_multiple_of(16)),
        };
        // SAFETY: the lists have `count` items; the caller synchronises the stream before they are used again.
        unsafe { workspace.launch(&self.kernels.values()?.partition, count, THREADS, &fill)? };
        Ok(Some(fill))
    }
}

/// Which entries keep their rows: those above a frequency, and this many of those that have exactly that frequency.
pub(in crate::gpu) struct Release {
    frequencies: DevicePtr,
    threshold: u64,
    ties_kept: u64,
}

impl Release {
    /// Releases all rows.
    pub(in crate::gpu) const ALL: Release =
        Release { frequencies: DevicePtr::NULL, threshold: FREQUENCIES as u64, ties_kept: 0 };
    /// Releases no row.
    pub(super) const NONE: Release =
        Release { frequencies: DevicePtr::NULL, threshold: 0, ties_kept: u64::MAX };
}

/// Entries that should get rows.
pub(in crate::gpu) struct Selection {
    pub(in crate::gpu) params: TableParams,
    pub(in crate::gpu) frequencies: DevicePtr,
    /// Entries of the device index.
    pub(in crate::gpu) entries: u64,
    /// Both included.
    pub(in crate::gpu) min_frequency: u64,
    pub(in crate::gpu) max_frequency: u64,
    /// How many entries, at most.
    pub(in crate::gpu) limit: u64,
}

/// The frequency above which all entries have one of `rows` rows, and how many entries of exactly that frequency have
/// one. `histogram` has the number of entries of each frequency.
fn row_threshold(histogram: &[u64], rows: u64) -> (u64, u64) {
    let mut above = 0;
    for (frequency, &count) in histogram.iter().enumerate().rev() {
        if above + count > rows {
            return (frequency as u64, rows - above);
        }
        above += count;
    }
    (0, rows)
}

#[cfg(test)]
mod tests {
    use super::row_threshold;

    #[test]
    fn most_frequent_entries_get_rows() {
        let histogram = [100, 20, 5, 3];
        assert_eq!(row_threshold(&histogram, 0), (3, 0));
        assert_eq!(row_threshold(&histogram, 3), (2, 0));
        assert_eq!(row_threshold(&histogram, 6), (2, 3));
        assert_eq!(row_threshold(&histogram, 50), (0, 22));
        // Fewer items than rows.
        assert_eq!(row_threshold(&histogram, 500), (0, 500));
        assert_eq!(row_threshold(&[0; 4], 7), (0, 7));
    }
}
