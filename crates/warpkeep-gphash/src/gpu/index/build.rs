//! The memory of a device index, and its construction from the items in the image.
//!
//! The keys are read over the link, which is several times as fast in address order as in slot order. So a build goes
//! over the slots in groups: a first kernel collects the records of a group, three more sort them by address, and the
//! last one inserts an entry for each. Where memory is short the groups are smaller, and at last they are not sorted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use warpkeep_device::{Buffer, Device, DevicePtr, PartitionPlan};
use warpkeep_image::Persist;

use super::IndexReport;
use crate::bucket::Body;
use crate::gpu::engine::{Columns, DeviceEngine, THREADS, Workspace, check_fixed};
use crate::gpu::params::{
    BuildParams, CollectParams, IndexParams, LINE_ENTRIES, Run, TableParams, UNWRITTEN, ValuesParams,
};
use crate::gpu::write::params::SortParams;
use crate::{Table, TableError};

const ENTRY_BYTES: u64 = 16;
/// Entries for each item of a new index: `SPARSE` if that takes at most one part in `SPARSE_SHARE` of the free
/// memory, `DENSE` otherwise. With `SPARSE`, one in fifty absent keys meets a full line and is probed further; with
/// `DENSE`, one in seven, and a warp waits for all of its keys.
const DENSE: u64 = 2;
const SPARSE: u64 = 4;
const SPARSE_SHARE: u64 = 8;
/// A small index still has space for a batch or two.
const LEAST_LINES: u64 = 1 << 10;

/// Slots of a group, at most: their records take a few hundred megabytes of device memory during the build.
const MOST_SLOTS: u64 = 1 << 24;
/// Slots of a group from which down sorting is not worth its memory.
const UNSORTED_SLOTS: u64 = 1 << 8;

impl<P: Persist> DeviceEngine<P> {
    /// Builds the device index of a table: the record of every key, in device memory. From then on batches of gets
    /// use it, writes keep it up to date, and it grows with the table. Where the device's memory budget does not
    /// allow an index there is none, as the report says, and kernels read the image.
    ///
    /// Keys that are longer than their hashes are stored in the index as well, unless the budget does not allow it or
    /// [`keep_keys`](DeviceEngine::keep_keys) is off; then kernels compare such keys with the records in the image.
    ///
    /// Tables whose slots hold the values have no index. Batches that write wait meanwhile.
    pub fn build_index(&self, table: &Table<P>) -> Result<IndexReport, TableError> {
        check_fixed(table)?;
        let begun = Instant::now();
        let _lock = self.write_lock();
        let mut state = self.device_index.state();
        state.enabled = table.shape.body == Body::Packed;
        if state.enabled {
            state.build(self, table, 0)?;
        }
        let report = IndexReport { items: 0, bytes: 0, key_bytes: 0, took: begun.elapsed() };
        Ok(state.memory.as_ref().map_or(report, |memory| IndexReport {
            items: memory.used.load(Ordering::Relaxed),
            bytes: memory.bytes(),
            key_bytes: memory.key_bytes(),
            ..report
        }))
    }

    /// Whether indexes [built](DeviceEngine::build_index) from now on store keys that are longer than their hashes.
    /// They do by default; without them the memory is free for values.
    pub fn keep_keys(&self, keep: bool) {
        self.device_index.state().omit_keys = !keep;
    }

    /// Frees the device index.
    pub fn drop_index(&self, table: &Table<P>) {
        let _lock = self.write_lock();
        let mut state = self.device_index.state();
        state.enabled = false;
        state.replace(None, &table.changes);
    }

    /// Device memory of the [device index](DeviceEngine::build_index), or of the [cuckoo
    /// index](DeviceEngine::build_cuckoo_index).
    pub fn index_bytes(&self) -> u64 {
        self.device_index.bytes() + self.signatures.bytes()
    }
}

/// The lines of an index of one size.
pub(super) struct IndexMemory {
    entries: Buffer,
    /// The key of each entry, where keys can share a hash and memory allows it.
    keys: Option<Buffer>,
    lines: u64,
    /// How many keys found no entry.
    pub(super) unplaced: Buffer,
    /// Entries that are not vacant, at most.
    pub(super) used: AtomicU64,
}

impl IndexMemory {
    /// An empty index for `items` items; `None` if the device has no memory for it. Keys of `key_words` words are
    /// stored beside the entries, if there is memory for them.
    pub(super) fn for_items(
        device: &Device,
        items: u64,
        key_words: Option<u64>,
    ) -> Result<Option<IndexMemory>, TableError> {
        let free = device.budget_left().min(device.memory()?.0);
        let sparse_bytes = SPARSE * items * (ENTRY_BYTES + 8 * key_words.unwrap_or_default());
        let entries_each = if sparse_bytes <= free / SPARSE_SHARE { SPARSE } else { DENSE };
        let lines = (entries_each * items).div_ceil(LINE_ENTRIES).max(LEAST_LINES);
        let count = lines * LINE_ENTRIES;
        let bytes = count * ENTRY_BYTES;
        // An eighth stays free for the columns of batches. Kernels number lines with 32 bits.
        if bytes > free - free / 8 || lines > u64::from(u32::MAX) {
            return Ok(None);
        }
        let allocated = device.allocate_zeroed(bytes as usize).and_then(|entries| {
            let unplaced = device.allocate_zeroed(8)?;
            let key_bytes = count * 8 * key_words.unwrap_or_default();
            // An index works without keys, so a larger share stays free for others.
            let keys = match key_bytes > 0 && key_bytes <= (free - free / 4).saturating_sub(bytes) {
                // Readers do not wait until a key is written: they recognise the fill pattern.
                true => device.allocate_unwritten(key_bytes as usize, UNWRITTEN).map(Some),
                false => Ok(None),
            };
            let keys = keys.or_else(|error| if error.is_out_of_memory() { Ok(None) } else { Err(error) })?;
            Ok(IndexMemory { entries, keys, lines, unplaced, used: AtomicU64::new(0) })
        });
        match allocated {
            Err(error) if error.is_out_of_memory() => Ok(None),
            allocated => Ok(Some(allocated?)),
        }
    }

    /// Device memory, with the key column.
    pub(super) fn bytes(&self) -> u64 {
        self.entries.len() as u64 + self.key_bytes()
    }

    /// Device memory of the key column.
    pub(super) fn key_bytes(&self) -> u64 {
        self.keys.as_ref().map_or(0, |keys| keys.len() as u64)
    }

    pub(super) fn entry_count(&self) -> u64 {
        self.lines * LINE_ENTRIES
    }

    /// Whether the load stays below 3/4 with `more` new keys.
    pub(super) fn has_space_for(&self, more: u64) -> bool {
        self.used.load(Ordering::Relaxed) + more <= self.entry_count() / 4 * 3
    }

    pub(super) fn params(&self) -> IndexParams {
        IndexParams {
            entries: self.entries.ptr(),
            lines: self.lines,
            unplaced: self.unplaced.ptr(),
            keys: self.keys.as_ref().map_or(DevicePtr::NULL, Buffer::ptr),
            values: ValuesParams::NONE,
        }
    }
}

/// Inserts the items of an image into an empty index.
pub(super) struct IndexBuilder {
    pub(super) image_len: u64,
    /// Slots of a bucket of the table.
    pub(super) bucket_slots: u64,
}

/// Device memory for the records of a group of slots.
struct RecordLists {
    /// Slots of a group.
    slots: u64,
    /// The records in slot order.
    records: DevicePtr,
    /// For sorting by address; `None` if there is no memory for it.
    sort: Option<SortLists>,
}

#[derive(Clone, Copy)]
struct SortLists {
    ranks: DevicePtr,
    sorted: DevicePtr,
    plan: PartitionPlan,
}

impl RecordLists {
    /// Lists for groups of up to `wanted` slots, or of as many as memory allows.
    fn new(
        device: &Device,
        columns: &mut Columns,
        wanted: u64,
        image_len: u64,
    ) -> Result<RecordLists, TableError> {
        let mut slots = wanted.clamp(1, MOST_SLOTS);
        loop {
            let is_sorted = slots > UNSORTED_SLOTS || wanted <= UNSORTED_SLOTS;
            let plan = is_sorted.then(|| PartitionPlan::for_items(image_len, slots));
            match RecordLists::with_slots(device, columns, slots, plan) {
                Err(TableError::Device(error)) if error.is_out_of_memory() && is_sorted => {
                    *columns = Columns::default();
                    slots = (slots / 4).max(UNSORTED_SLOTS.min(slots));
                    if slots <= UNSORTED_SLOTS {
                        return RecordLists::with_slots(device, columns, slots, None);
                    }
                }
                lists => return lists,
            }
        }
    }

    fn with_slots(
        device: &Device,
        columns: &mut Columns,
        slots: u64,
        plan: Option<PartitionPlan>,
    ) -> Result<RecordLists, TableError> {
        let count = slots as usize;
        let records = columns.records.reserve(device, 8 * count)?;
        let sort = match plan {
            Some(plan) => {
                columns.partition.reserve(device, plan.bytes())?;
                let ranks = columns.ranks.reserve(device, 4 * count)?;
                Some(SortLists { ranks, sorted: columns.fetches.reserve(device, 8 * count)?, plan })
            }
            None => None,
        };
        Ok(RecordLists { slots, records, sort })
    }
}

impl IndexBuilder {
    /// Inserts the items of all runs; returns how many there are. The caller holds the write lock, and no kernel
    /// reads the index yet.
    pub(super) fn build_all<P: Persist>(
        &self,
        engine: &DeviceEngine<P>,
        workspace: &mut Workspace,
        table: TableParams,
        runs: &[Run],
    ) -> Result<u64, TableError> {
        let longest = runs.iter().map(|run| run.buckets * self.bucket_slots).max().unwrap_or(0);
        let lists = RecordLists::new(engine.device(), &mut workspace.columns, longest, self.image_len)?;
        let mut items = 0;
        for &run in runs {
            let slots = run.buckets * self.bucket_slots;
            for first in (0..slots).step_by(lists.slots as usize) {
                let group = CollectParams {
                    table,
                    run,
                    first,
                    count: lists.slots.min(slots - first),
                    records: lists.records,
                    items: workspace.columns.counters.put(engine.device(), &[0_u64], &workspace.stream)?,
                };
                items += self.build_group(engine, workspace, group, &lists)?;
            }
        }
        // Builds are rare: the memory is freed for others.
        workspace.columns = Columns::default();
        Ok(items)
    }

    /// Inserts the items of a group of slots; returns how many there are.
    fn build_group<P: Persist>(
        &self,
        engine: &DeviceEngine<P>,
        workspace: &mut Workspace,
        group: CollectParams,
        lists: &RecordLists,
    ) -> Result<u64, TableError> {
        let (device, kernels) = (engine.device(), &engine.kernels);
        // SAFETY: the list holds a record for each slot of the group and stays until `take` has synchronised the
        // stream; the write lock keeps writers away from the table.
        unsafe { workspace.launch(&kernels.index()?.collect, group.count, THREADS, &group)? };
        let items: Vec<u64> = workspace.columns.counters.take(1, &workspace.stream)?;
        let count = items[0];
        if count == 0 {
            return Ok(0);
        }
        let mut build = BuildParams { table: group.table, records: group.records, count };
        if let Some(SortLists { ranks, sorted, plan }) = lists.sort {
            let partition = plan.zeroed(device, &mut workspace.columns.partition, &workspace.stream)?;
            let sort = SortParams { blocks: group.records, count, ranks, partition, sorted };
            // SAFETY: the lists hold `count` records and ranks, and stay until the stream is synchronised below.
            unsafe {
                workspace.launch(&kernels.index()?.sort_count, count, THREADS, &sort)?;
                partition.scan(&kernels.index()?.scan, &workspace.stream)?;
                workspace.launch(&kernels.index()?.sort, count, THREADS, &sort)?;
            }
            build.records = sorted;
        }
        // SAFETY: the list has `count` records, the index has as many lines as its parameters say, and both stay
        // until the stream is synchronised below.
        unsafe { workspace.launch(&kernels.index()?.build, count, THREADS, &build)? };
        // The next group uses the same columns.
        workspace.stream.synchronize()?;
        Ok(count)
    }
}

#[cfg(test)]
#[cfg(not(no_simulator))]
mod tests {
    use warpkeep_device::Mode;

    use super::*;

    #[test]
    fn index_is_sparse_while_memory_is_plentiful() {
        const ITEMS: u64 = 1 << 16;
        let device = Device::simulated(Mode::fast()).unwrap();
        let entries = |budget: u64, key_words| {
            let memory = IndexMemory::for_items(&device.with_budget(budget), ITEMS, key_words).unwrap();
            memory.map(|memory| memory.entry_count())
        };
        let sparse = SPARSE * ITEMS * ENTRY_BYTES;
        assert_eq!(entries(SPARSE_SHARE * sparse, None), Some(SPARSE * ITEMS));
        assert_eq!(entries(SPARSE_SHARE * sparse - 1, None), Some(DENSE * ITEMS));
        // The key column counts as well.
        assert_eq!(entries(SPARSE_SHARE * sparse, Some(4)), Some(DENSE * ITEMS));
        assert_eq!(entries(sparse / 4, None), None);
    }
}
