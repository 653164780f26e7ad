//! The block pool: free record blocks of a table, as a list of offsets in device memory.
//!
//! Kernels that write records need free blocks without a round trip to the host. The pool allocates whole slabs of the
//! heap and reuses the [retired blocks](retired) of replaced and removed records. A batch takes the next blocks of the
//! list.
//!
//! Retired blocks lie at random addresses, and a device that stores at random addresses over the link is slow, because
//! it caches few address translations. The pool therefore keeps retired blocks until their number reaches the *reuse
//! threshold*, sorts them by address once, and then allocates them in order: the blocks of a small batch lie near each
//! other. Until then batches take new blocks. That costs at most 1/32 of the space of the items. If the image cannot
//! grow, retired blocks are reused at once.
//!
//! When fewer blocks are available than the *low-water mark*, the pool sorts retired blocks while a batch is published,
//! and the [refill thread](refill) allocates slabs.
//!
//! Invariants:
//! - blocks of the pool count as allocated in the heap until the pool is dropped; after a crash, marking finds them
//!   free;
//! - a block is allocated to one batch only, even if the batch fails: see [`BlockPool::mark_used`];
//! - no block is reused before the epoch in which it was retired has passed.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crossbeam_epoch::Guard;
use warpkeep_device::{Buffer, Device, DevicePtr, Stream};
use warpkeep_image::{Heap, Persist, PoolId};
use warpkeep_record::RecordForm;

mod refill;
mod retired;

use crate::TableError;
use crate::gpu::blocks::refill::{Refill, Slab};
use crate::gpu::blocks::retired::{BlockList, BlockSort, RetiredBlocks, concatenate, sort};
use crate::gpu::engine::{THREADS, Workspace};
use crate::gpu::kernels::Kernels;
use crate::gpu::write::params::{BlockRun, ExpandParams};

/// The free blocks of a table.
pub(crate) struct BlockPool<P: Persist> {
    heap: Weak<Heap<P>>,
    pool: Option<PoolId>,
    form: RecordForm,
    /// The list of free blocks: those from `next` to `end` are available.
    blocks: Option<Buffer>,
    next: u64,
    end: u64,
    retired: RetiredBlocks,
    spare_buffers: Vec<Buffer>,
    /// Made for the first sort.
    sort: Option<BlockSort>,
    refill: Option<Refill>,
    /// Items of the table when the last batch began.
    items: u64,
}

/// Epochs that are advanced for retired blocks: enough that no reader can be at them, and some more for what other
/// threads have deferred.
const EPOCH_ADVANCES: usize = 8;
/// How often a batch that finds no space looks for blocks that readers have left, 100 µs apart.
const RECLAIM_ATTEMPTS: usize = 100;
/// The reuse threshold is one block for this many items, up to a maximum. A batch of 16,384 of half a million blocks,
/// for items of 2.5 GiB, then lies within 80 MiB.
const ITEMS_PER_RETIRED_BLOCK: u64 = 32;
const MAX_REUSE_THRESHOLD: u64 = 1 << 20;
/// The maximum low-water mark of small batches: to make the image grow can take as long as many of them.
const MAX_SMALL_LOW_WATER: u64 = 1 << 16;
const MAX_SPARE_BUFFERS: usize = 16;

/// A buffer of at least `bytes` bytes, from the spare ones if one is large enough.
fn take_buffer(device: &Device, spare: &mut Vec<Buffer>, bytes: u64) -> Result<Buffer, TableError> {
    let bytes = bytes.max(8) as usize;
    let fitting = (0..spare.len()).filter(|&at| spare[at].len() >= bytes);
    match fitting.min_by_key(|&at| spare[at].len()) {
        Some(at) => Ok(spare.swap_remove(at)),
        None => {
            // Small buffers would accumulate. To free one waits for all work of the device, so they are freed together.
            if spare.len() >= MAX_SPARE_BUFFERS {
                spare.clear();
            }
            Ok(device.allocate(bytes.next_power_of_two())?)
        }
    }
}

impl<P: Persist> BlockPool<P> {
    pub(crate) fn new(heap: &Arc<Heap<P>>, pool: Option<PoolId>, form: RecordForm) -> BlockPool<P> {
        BlockPool {
            heap: Arc::downgrade(heap),
            pool,
            form,
            blocks: None,
            next: 0,
            end: 0,
            retired: RetiredBlocks::default(),
            spare_buffers: Vec::new(),
            sort: None,
            refill: None,
            items: 0,
        }
    }

    /// Sets the number of items of the table, from which the reuse threshold follows.
    pub(super) fn set_items(&mut self, items: u64) {
        self.items = items;
    }

    /// Starts the refill thread. If the thread cannot be started, batches allocate slabs themselves.
    pub(super) fn start_refill(&mut self) {
        if let (None, Some(pool)) = (&self.refill, self.pool) {
            self.refill = Refill::start(&self.heap, pool).ok();
        }
    }

    /// Requests slabs from the refill thread, so that batches like the last one, of `count` operations, find their
    /// blocks ready: two of them, or many small ones.
    pub(super) fn request_refill(&self, count: u64) {
        if let Some(refill) = &self.refill {
            let reusable = if self.reaches_threshold() { self.reusable() } else { 0 };
            let available = self.available() + self.being_sorted() + reusable;
            refill.request(self.low_water_mark(count).saturating_sub(available));
        }
    }

    fn available(&self) -> u64 {
        self.end - self.next
    }

    fn being_sorted(&self) -> u64 {
        self.sort.as_ref().map_or(0, BlockSort::blocks)
    }

    /// Retired blocks that can be reused, or soon: not those of closed pages.
    fn reusable(&self) -> u64 {
        self.retired.on_open_page() + self.retired.ready()
    }

    /// The number of retired blocks from which on they are sorted and reused.
    fn reuse_threshold(&self) -> u64 {
        (self.items / ITEMS_PER_RETIRED_BLOCK).clamp(1, MAX_REUSE_THRESHOLD)
    }

    fn reaches_threshold(&self) -> bool {
        self.reusable() >= self.reuse_threshold()
    }

    /// With fewer blocks available, batches of `count` operations have more of them sorted and allocated.
    fn low_water_mark(&self, count: u64) -> u64 {
        (2 * count).max(MAX_SMALL_LOW_WATER.min(self.reuse_threshold() / 4))
    }

    /// Starts to sort retired blocks for the next batch, if after this one, of `count` operations, too few blocks are
    /// available. Begins after the work that is in the stream `after`. An error is ignored: [`BlockPool::ensure`] then
    /// sorts them, and an error of the device is returned by its next use.
    pub(super) fn begin_sort(&mut self, device: &Device, kernels: &Kernels, count: u64, after: &Stream) {
        let is_low = self.available() < self.low_water_mark(count) && self.being_sorted() == 0;
        if !is_low || self.retired.ready() == 0 || !self.reaches_threshold() {
            return;
        }
        let Some(heap) = self.heap.upgrade() else { return };
        let mut lists = self.retired.take();
        if self.sort.is_none() && !lists.is_empty() {
            self.sort = BlockSort::new(device).ok();
        }
        if let Some(sort) = self.sort.as_mut().filter(|_| !lists.is_empty()) {
            let buffer = |count| take_buffer(device, &mut self.spare_buffers, 8 * count);
            let _ = sort.begin(device, kernels, &mut lists, heap.image().len(), after, buffer);
        }
        self.retired.put_back(lists);
    }

    /// Appends the blocks of the running sort to those that are available.
    fn append_sorted(&mut self, device: &Device, workspace: &Workspace) -> Result<(), TableError> {
        let Some((sorted, unused)) = self.sort.as_mut().map(BlockSort::finish).transpose()?.flatten() else {
            return Ok(());
        };
        self.spare_buffers.extend(unused);
        let available = self.available();
        let (blocks, end) = match self.blocks.take() {
            None => (sorted.buffer, sorted.count),
            Some(old) if available == 0 => {
                self.spare_buffers.push(old);
                (sorted.buffer, sorted.count)
            }
            Some(old) => {
                let both = self.concatenate_available(device, workspace, &old, &sorted);
                let Ok(both) = both else {
                    self.blocks = Some(old);
                    self.retired.put_back(vec![sorted]);
                    return both.map(drop);
                };
                self.spare_buffers.extend([old, sorted.buffer]);
                (both, available + sorted.count)
            }
        };
        self.blocks = Some(blocks);
        (self.next, self.end) = (0, end);
        Ok(())
    }

    /// The available blocks of the list `old`, and `more` after them, in one buffer.
    fn concatenate_available(
        &mut self,
        device: &Device,
        workspace: &Workspace,
        old: &Buffer,
        more: &BlockList,
    ) -> Result<Buffer, TableError> {
        let available = self.available();
        let both = take_buffer(device, &mut self.spare_buffers, 8 * (available + more.count))?;
        both.copy_from_on(0, old, 8 * self.next as usize, 8 * available as usize, &workspace.stream)?;
        concatenate(&both, 8 * available as usize, std::slice::from_ref(more), &workspace.stream)?;
        // No wait: the next use of the old buffers is in this stream, or after the work that is in it.
        Ok(both)
    }

    /// A slab, from the refill thread if it has one. `None` if the refill thread has none yet and the slab is not
    /// needed now.
    fn next_slab(&self, heap: &Heap<P>, pool: PoolId, is_needed: bool) -> Result<Option<Slab>, TableError> {
        let slab = self.refill.as_ref().and_then(|refill| refill.take(1).pop());
        match slab {
            None if self.refill.is_none() || is_needed => Ok(Some(heap.allocate_slab(pool)?)),
            slab => Ok(slab),
        }
    }

    /// The offsets of the next blocks, in device memory.
    pub(super) fn next_blocks(&self) -> DevicePtr {
        self.blocks.as_ref().map_or(DevicePtr::NULL, |blocks| blocks.ptr().offset(8 * self.next))
    }

    /// Takes the next `count` blocks out of the list. A batch calls it with all blocks that it may use before it knows
    /// how many it does use: if it fails or panics, its blocks are lost until the image is opened again, and none is
    /// used twice.
    pub(super) fn mark_used(&mut self, count: u64) {
        self.next += count;
    }

    /// Returns the last `count` of the blocks that were [marked used](BlockPool::mark_used): they hold no records.
    pub(super) fn return_unused(&mut self, count: u64) {
        self.next -= count;
    }

    /// Where a batch can append the offsets of `count` records that it replaces or removes.
    pub(super) fn reserve_retired(&mut self, device: &Device, count: u64) -> Result<DevicePtr, TableError> {
        let threshold = self.reuse_threshold();
        self.retired
            .reserve(count, threshold, |blocks| take_buffer(device, &mut self.spare_buffers, 8 * blocks))
    }

    /// Retires the `count` blocks that a batch has appended. They are reused after the guard's epoch.
    pub(super) fn retire(&mut self, count: u64, guard: &Guard) {
        self.retired.append(count, guard);
    }

    /// Makes retired blocks reusable if they reach the threshold and a batch like the last one, of `count` operations,
    /// needs them. The caller has no epoch pinned.
    pub(super) fn reclaim(&mut self, count: u64) {
        if self.available() < self.low_water_mark(count) && self.reaches_threshold() {
            self.retired.close();
        }
        self.advance_epochs();
    }

    /// Makes lists of closed pages if there are no readers. Otherwise the epoch would pass only some batches later;
    /// those would take new blocks, and the image would grow without need. The caller has no epoch pinned.
    fn advance_epochs(&self) {
        for _ in 0..EPOCH_ADVANCES {
            if self.retired.pending_pages() == 0 {
                return;
            }
            if let Some(heap) = self.heap.upgrade() {
                heap.reclaim();
            }
        }
    }

    /// All retired blocks that can be reused by now.
    fn take_reclaimed(&mut self) -> Vec<BlockList> {
        self.retired.close();
        self.advance_epochs();
        self.retired.take()
    }

    /// The same, when there is no other space: waits up to ten milliseconds for readers.
    fn wait_for_reclaimed(&mut self) -> Vec<BlockList> {
        for _ in 0..RECLAIM_ATTEMPTS {
            let lists = self.take_reclaimed();
            if !lists.is_empty() || self.retired.pending_pages() == 0 {
                return lists;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        Vec::new()
    }

    /// Makes at least `count` blocks available: reused ones first, sorted by address, then new ones.
    pub(crate) fn ensure(
        &mut self,
        device: &Device,
        kernels: &Kernels,
        workspace: &mut Workspace,
        count: u64,
    ) -> Result<(), TableError> {
        if self.available() < count {
            self.append_sorted(device, workspace)?;
        }
        if self.available() >= count {
            return Ok(());
        }
        let (Some(heap), Some(pool)) = (self.heap.upgrade(), self.pool) else { return Ok(()) };
        let mut lists = if self.reaches_threshold() { self.take_reclaimed() } else { Vec::new() };
        let blocks_of = |lists: &[BlockList]| lists.iter().map(|list| list.count).sum::<u64>();
        let mut reused = self.available() + blocks_of(&lists);
        let (mut runs, mut new) = (Vec::new(), 0);
        // Twice what this batch can use, if possible: the next batch finds its blocks ready, and while that one is
        // published, the blocks that this one frees are sorted for the one after it. With less, each batch would wait
        // for a sort. For the second half no batch waits for the image to grow if there is a refill thread.
        while reused + new < 2 * count {
            let (offset, blocks) = match self.next_slab(&heap, pool, reused + new < count) {
                Ok(Some(slab)) => slab,
                Ok(None) => break,
                Err(_) if reused + new >= count => break,
                Err(error) => {
                    // No space: reuse retired blocks, however few there are.
                    let more = self.wait_for_reclaimed();
                    if !more.is_empty() {
                        reused += blocks_of(&more);
                        lists.extend(more);
                        continue;
                    }
                    self.retired.put_back(lists);
                    free_slabs(&heap, &runs, new, self.form);
                    return Err(error);
                }
            };
            runs.push(BlockRun { offset, before: new });
            new += blocks;
        }
        let total = reused + new;
        match self.merge(device, kernels, workspace, &heap, &lists, &runs, total) {
            Ok(blocks) => {
                self.spare_buffers.extend(self.blocks.replace(blocks));
                self.spare_buffers.extend(lists.into_iter().map(|list| list.buffer));
                (self.next, self.end) = (0, total);
                Ok(())
            }
            Err(error) => {
                self.retired.put_back(lists);
                free_slabs(&heap, &runs, new, self.form);
                Err(error)
            }
        }
    }

    /// One list of all blocks: the available ones and those of `lists`, sorted, then those of the slabs in `runs`.
    #[allow(clippy::too_many_arguments, reason = "three sources of blocks, and the device's parts")]
    fn merge(
        &mut self,
        device: &Device,
        kernels: &Kernels,
        workspace: &mut Workspace,
        heap: &Heap<P>,
        lists: &[BlockList],
        runs: &[BlockRun],
        total: u64,
    ) -> Result<Buffer, TableError> {
        let available = self.available();
        let reused = available + lists.iter().map(|list| list.count).sum::<u64>();
        let blocks = take_buffer(device, &mut self.spare_buffers, 8 * total)?;
        let unsorted = take_buffer(device, &mut self.spare_buffers, 8 * reused)?;
        if let Some(old) = self.blocks.as_ref().filter(|_| available > 0) {
            let (from, bytes) = (8 * self.next as usize, 8 * available as usize);
            unsorted.copy_from_on(0, old, from, bytes, &workspace.stream)?;
        }
        concatenate(&unsorted, 8 * available as usize, lists, &workspace.stream)?;
        // SAFETY: `unsorted` has `reused` offsets, `blocks` has `total`, and both live until the stream is synchronised
        // below.
        unsafe {
            if reused > 0 {
                sort(device, kernels, workspace, (&unsorted, reused), &blocks, heap.image().len())?;
            }
            if total > reused {
                workspace.columns.blocks.host::<BlockRun>(device, runs.len())?.copy_from_slice(runs);
                let params = ExpandParams {
                    runs: workspace.columns.blocks.send::<BlockRun>(device, runs.len(), &workspace.stream)?,
                    run_count: runs.len() as u64,
                    count: total - reused,
                    block_len: self.form.block_len(),
                    tile_blocks: self.form.tile().map_or(1, |tile| tile.blocks() as u32),
                    value_len: self.form.tile().map_or(0, |tile| tile.value() as u32),
                    blocks: blocks.ptr().offset(8 * reused),
                };
                workspace.launch(&kernels.fused()?.expand_runs, params.count, THREADS, &params)?;
            }
        }
        workspace.stream.synchronize()?;
        self.spare_buffers.push(unsorted);
        Ok(blocks)
    }
}

/// The offset of a block of a slab.
fn block_offset(form: RecordForm, slab: u64, number: u64) -> u64 {
    form.tile().map_or(slab + number * form.block_len(), |tile| tile.name(slab, number))
}

/// Frees the blocks of whole slabs, `total` in all.
fn free_slabs<P: Persist>(heap: &Heap<P>, runs: &[BlockRun], total: u64, form: RecordForm) {
    for (number, run) in runs.iter().enumerate() {
        let end = runs.get(number + 1).map_or(total, |next| next.before);
        for block in 0..end - run.before {
            let freed = heap.free(block_offset(form, run.offset, block));
            debug_assert!(freed.is_ok(), "{freed:?}");
        }
    }
}

/// Frees all blocks of the pool in the heap. Blocks that cannot be read back, because the device is lost or a reader is
/// at them, are found free when the image is opened again.
impl<P: Persist> Drop for BlockPool<P> {
    fn drop(&mut self) {
        let Some(heap) = self.heap.upgrade() else { return };
        let reclaimed = self.take_reclaimed();
        let mut offsets = Vec::new();
        let mut read = |buffer: &Buffer, first: u64, count: u64| {
            let mut list = vec![0_u64; count as usize];
            if buffer.read(8 * first as usize, &mut list).is_ok() {
                offsets.append(&mut list);
            }
        };
        if let Some(blocks) = &self.blocks {
            read(blocks, self.next, self.end - self.next);
        }
        if let Some(Ok(Some((sorted, _)))) = self.sort.as_mut().map(BlockSort::finish) {
            read(&sorted.buffer, 0, sorted.count);
        }
        for list in reclaimed {
            read(&list.buffer, 0, list.count);
        }
        for (first, count) in self.refill.as_mut().map(Refill::stop_and_take).unwrap_or_default() {
            offsets.extend((0..count).map(|number| block_offset(self.form, first, number)));
        }
        let freed = heap.free_many(&offsets);
        debug_assert!(freed.is_ok(), "{freed:?}");
    }
}

#[cfg(all(test, not(no_simulator)))]
mod tests {
    use std::collections::BTreeSet;

    use warpkeep_core::{KeySpec, MergeRule, Seed, ValueSpec};
    use warpkeep_device::Mode;
    use warpkeep_image::{Coherent, MIN_CHUNK};
    use warpkeep_suites::heap;

    use super::*;
    use crate::gpu::engine::DeviceEngine;
    use crate::gpu::image::DeviceImage;
    use crate::{Geometry, Layout, Table, TableSpec};

    /// An empty table whose pool is used as batches use it.
    struct Harness {
        table: Table<Coherent>,
        engine: DeviceEngine<Coherent>,
    }

    impl Harness {
        fn new(max_chunks: u64) -> Harness {
            let device = Device::simulated(Mode::fast()).unwrap();
            let spec = TableSpec {
                key: KeySpec::U64,
                value: ValueSpec::fixed(128).unwrap(),
                geometry: Geometry::default(),
                capacity: 80,
                layout: Layout::Packed,
                merge: MergeRule::None,
                seed: Seed(5),
            };
            let table = Table::create(&heap(max_chunks), &spec).unwrap();
            let image = Arc::new(DeviceImage::new(&device, table.heap().image()).unwrap());
            Harness { engine: DeviceEngine::new(&image, &table).unwrap(), table }
        }

        /// Takes the blocks of a batch.
        fn take(&self, count: u64) -> Result<Vec<u64>, TableError> {
            let (device, kernels, mut lock) =
                (self.engine.device(), &self.engine.kernels, self.engine.write_lock());
            let (mut block_pool, stream) = (self.engine.block_pool(), device.stream()?);
            block_pool.ensure(device, kernels, &mut lock.workspace, count)?;
            let blocks = device.allocate(8 * count as usize)?;
            // SAFETY: `count` blocks are available, and `blocks` has space for them.
            unsafe { device.copy_raw(blocks.ptr(), block_pool.next_blocks(), 8 * count as usize, &stream)? };
            stream.synchronize()?;
            block_pool.begin_sort(device, kernels, count, &stream);
            block_pool.mark_used(count);
            Ok(blocks.to_vec()?)
        }

        /// Retires blocks as a batch of as many operations does. There are no readers.
        fn retire(&self, blocks: &[u64]) {
            let (device, mut block_pool) = (self.engine.device(), self.engine.block_pool());
            let (stream, count) = (device.stream().unwrap(), blocks.len() as u64);
            let from = device.upload(blocks).unwrap();
            let to = block_pool.reserve_retired(device, count).unwrap();
            // SAFETY: `to` was reserved for as many offsets.
            unsafe { device.copy_raw(to, from.ptr(), 8 * blocks.len(), &stream).unwrap() };
            stream.synchronize().unwrap();
            block_pool.retire(count, &self.table.heap.pin());
            block_pool.reclaim(count);
            assert_eq!(block_pool.retired.pending_pages(), 0, "an epoch is pinned");
        }

        fn reuse_threshold(&self) -> u64 {
            self.engine.block_pool().reuse_threshold()
        }
    }

    /// Bytes of the image between the first and the last block.
    fn extent(blocks: &[u64]) -> u64 {
        blocks.iter().max().unwrap() - blocks.iter().min().unwrap()
    }

    #[test]
    fn reused_blocks_of_a_batch_lie_near_each_other() {
        const BATCH: usize = 20;
        let harness = Harness::new(2000);
        // Items all over the image; each batch replaces some at random.
        let mut items: Vec<u64> = (0..200).flat_map(|_| harness.take(100).unwrap()).collect();
        harness.engine.block_pool().set_items(items.len() as u64);
        let before = harness.table.heap().usage().used_blocks();
        let all = extent(&items);
        let (mut retired, mut wide) = (BTreeSet::new(), 0);
        for batch in 0..600_usize {
            let taken = harness.take(BATCH as u64).unwrap();
            assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), BATCH);
            if taken.iter().all(|block| retired.contains(block)) {
                // A few batches have the end of one list and the beginning of the next.
                wide += u64::from(extent(&taken) > all / 8);
            }
            let replaced: Vec<u64> = (0..BATCH)
                .map(|i| {
                    let at = (batch * 7919 + i * 4999) % items.len();
                    std::mem::replace(&mut items[at], taken[i])
                })
                .collect();
            assert!(taken.iter().all(|block| !replaced.contains(block)));
            retired.extend(replaced.iter().copied());
            harness.retire(&replaced);
        }
        assert_eq!(items.iter().collect::<BTreeSet<_>>().len(), items.len(), "a block has two records");
        let grown = harness.table.heap().usage().used_blocks() - before;
        let (slab, threshold) = (2 * MIN_CHUNK / 144, harness.reuse_threshold());
        assert!(
            grown < 2 * threshold + 2 * slab,
            "{grown} more blocks, with a reuse threshold of {threshold}"
        );
        assert!(wide < 600 / 20, "the blocks of {wide} batches lie all over the image");
        assert!(
            items.iter().filter(|block| retired.contains(block)).count() > 1000,
            "hardly any block is reused"
        );
    }

    #[test]
    fn without_space_few_retired_blocks_are_reused_at_once() {
        let harness = Harness::new(40);
        let mut blocks = Vec::new();
        for batch in [20, 1] {
            while let Ok(more) = harness.take(batch) {
                blocks.extend(more);
            }
        }
        assert!(blocks.len() > 1000, "{}", blocks.len());
        harness.engine.block_pool().set_items(blocks.len() as u64);
        let retired: Vec<u64> = blocks[..25].to_vec();
        assert!(harness.reuse_threshold() > retired.len() as u64);
        harness.retire(&retired);
        let reused = harness.take(20).unwrap();
        assert!(reused.iter().all(|block| retired.contains(block)), "{reused:?}");
        assert!(matches!(harness.take(20), Err(TableError::Image(_))));
        // A refused batch loses no blocks.
        harness.retire(&reused);
        harness.take(20).unwrap();
        let Harness { table, engine } = harness;
        let used = table.heap().usage().used_blocks();
        drop(engine);
        assert_eq!(used - table.heap().usage().used_blocks(), 5, "the pool returns its blocks to the heap");
    }
}
