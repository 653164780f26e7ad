//! Free blocks in device memory: whole slabs of the heap, and blocks of records that are gone.
//!
//! Blocks that are used again lie anywhere, and a device that writes anywhere over the link is slow: it keeps translations of few addresses. So they wait until there
//! are many, are put in order, and then are handed out one after the other: those of a small batch lie near each other. Until there are so many, batches take new
//! ones. That costs space, a thirty-second of what the items take at the most; if there is none, they are used at once.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crossbeam_epoch::Guard;
use warpkeep_device::{Buffer, Device, DevicePtr, Stream};
use warpkeep_image::{Heap, Persist, PoolId};
use warpkeep_record::RecordForm;

use super::params::{BlockRun, SpellParams};
use super::provider::{Provider, Slab};
use super::returns::Returns;
use super::sorting::{List, Sorting, put_together, sort};
use crate::TableError;
use crate::gpu::engine::Workplace;
use crate::gpu::kernels::Kernels;

/// The free blocks of a table. They count as allocated until they are given back; after a crash, marking finds them.
pub(crate) struct Supply<P: Persist> {
    heap: Weak<Heap<P>>,
    pool: Option<PoolId>,
    form: RecordForm,
    /// Those that come next, from `next` to `end`.
    blocks: Option<Buffer>,
    next: u64,
    end: u64,
    returns: Returns,
    /// Memory that can be used again.
    spare: Vec<Buffer>,
    /// Blocks that are being put in order for the next batch, once there has been one that was worth it.
    sorting: Option<Sorting>,
    /// Who takes slabs ahead of need, if anybody does.
    provider: Option<Provider>,
    /// Items of the table when the last batch began.
    items: u64,
}

/// Epochs that pass before nobody can be reading what was retired in the first of them, and some more for what others have to free.
const RECLAIMS: usize = 8;
/// How often a batch that finds no space looks whether somebody has ceased to read: for ten milliseconds or so.
const PATIENCE: usize = 100;
/// Blocks that come together before they are used again: one for so many items, but no more than that. A batch of 16,384 from half a million, of items that take
/// 2.5 GiB, lies within 80 MiB then.
const STOCK_ITEMS: u64 = 32;
const MOST_STOCK: u64 = 1 << 20;
/// Blocks of small batches that are left when it is seen to that there are more, at the most: to make the image grow can take as long as many of them.
const MOST_LEAD: u64 = 1 << 16;
/// Buffers that are kept to be used again.
const MOST_SPARE: usize = 16;

/// A buffer of at least so many bytes.
fn buffer_of(device: &Device, spare: &mut Vec<Buffer>, bytes: u64) -> Result<Buffer, TableError> {
    let bytes = bytes.max(8) as usize;
    let fitting = (0..spare.len()).filter(|&at| spare[at].len() >= bytes);
    match fitting.min_by_key(|&at| spare[at].len()) {
        Some(at) => Ok(spare.swap_remove(at)),
        None => {
            // Small ones would lie about; but freeing one waits for whatever the device is doing, so not each time.
            if spare.len() >= MOST_SPARE {
                spare.clear();
            }
            Ok(device.allocate(bytes.next_power_of_two())?)
        }
    }
}

impl<P: Persist> Supply<P> {
    pub(crate) fn new(heap: &Arc<Heap<P>>, pool: Option<PoolId>, form: RecordForm) -> Supply<P> {
        let (blocks, spare) = (None, Vec::new());
        Supply {
            heap: Arc::downgrade(heap),
            pool,
            form,
            blocks,
            next: 0,
            end: 0,
            returns: Returns::default(),
            spare,
            sorting: None,
            provider: None,
            items: 0,
        }
    }

    /// The table has so many items.
    pub(super) fn serve(&mut self, items: u64) {
        self.items = items;
    }

    /// Has slabs taken ahead of need from now on. Without a thread for it they are taken when they are needed.
    pub(super) fn provide(&mut self) {
        if let (None, Some(pool)) = (&self.provider, self.pool) {
            self.provider = Provider::start(&self.heap, pool).ok();
        }
    }

    /// There will be more batches like one of so many operations: two of them, or many that are small, are to find their blocks ready.
    pub(super) fn look_ahead(&self, count: u64) {
        if let Some(provider) = &self.provider {
            let again = if self.is_worth_it() { self.returned() } else { 0 };
            provider.want(self.lead(count).saturating_sub(self.left() + self.coming() + again));
        }
    }

    /// Blocks at hand.
    fn left(&self) -> u64 {
        self.end - self.next
    }

    /// Blocks that will be, in order.
    fn coming(&self) -> u64 {
        self.sorting.as_ref().map_or(0, Sorting::coming)
    }

    /// Blocks that can be used again, or soon.
    fn returned(&self) -> u64 {
        self.returns.on_open_page() + self.returns.ready()
    }

    /// As many as are worth it to put in order.
    fn stock(&self) -> u64 {
        (self.items / STOCK_ITEMS).clamp(1, MOST_STOCK)
    }

    /// So many are left when batches of so many operations have it seen to that there are more.
    fn lead(&self, count: u64) -> u64 {
        (2 * count).max(MOST_LEAD.min(self.stock() / 4))
    }

    /// Whether so many have come back.
    fn is_worth_it(&self) -> bool {
        self.returned() >= self.stock()
    }

    /// Begins to put in order what a batch like this one, of so many operations, will need when this one has taken its blocks; after what is in a
    /// stream. It is for speed alone: if it comes to nothing, [`Supply::ensure`] does it, and whoever uses the device next is told why.
    pub(super) fn prepare(&mut self, device: &Device, kernels: &Kernels, count: u64, after: &Stream) {
        let is_time = self.left() < self.lead(count) && self.coming() == 0;
        if !is_time || self.returns.ready() == 0 || !self.is_worth_it() {
            return;
        }
        let Some(heap) = self.heap.upgrade() else { return };
        let mut lists = self.returns.take();
        if self.sorting.is_none() && !lists.is_empty() {
            self.sorting = Sorting::new(device).ok();
        }
        if let Some(sorting) = self.sorting.as_mut().filter(|_| !lists.is_empty()) {
            let room = |count| buffer_of(device, &mut self.spare, 8 * count);
            let _ = sorting.begin(device, kernels, &mut lists, heap.image().len(), after, room);
        }
        self.returns.put_back(lists);
    }

    /// Has what was put in order behind what is at hand.
    fn take_sorted(&mut self, device: &Device, place: &Workplace) -> Result<(), TableError> {
        let Some((sorted, unused)) = self.sorting.as_mut().map(Sorting::finish).transpose()?.flatten() else {
            return Ok(());
        };
        self.spare.extend(unused);
        let left = self.left();
        let (blocks, end) = match self.blocks.take() {
            None => (sorted.buffer, sorted.count),
            Some(old) if left == 0 => {
                self.spare.push(old);
                (sorted.buffer, sorted.count)
            }
            Some(old) => {
                let both = self.put_behind(device, place, &old, &sorted);
                let Ok(both) = both else {
                    self.blocks = Some(old);
                    self.returns.put_back(vec![sorted]);
                    return both.map(drop);
                };
                self.spare.extend([old, sorted.buffer]);
                (both, left + sorted.count)
            }
        };
        self.blocks = Some(blocks);
        (self.next, self.end) = (0, end);
        Ok(())
    }

    /// What is left of a buffer of blocks, and others, in one.
    fn put_behind(
        &mut self,
        device: &Device,
        place: &Workplace,
        old: &Buffer,
        more: &List,
    ) -> Result<Buffer, TableError> {
        let left = self.left();
        let both = buffer_of(device, &mut self.spare, 8 * (left + more.count))?;
        both.copy_from_on(0, old, 8 * self.next as usize, 8 * left as usize, &place.stream)?;
        put_together(&both, 8 * left as usize, std::slice::from_ref(more), &place.stream)?;
        // Whoever uses the old ones again does so in this stream, or after what is in it.
        Ok(both)
    }

    /// A slab, from those taken ahead if there is one. `None` if there is none, somebody takes more, and it is not needed now.
    fn slab(&self, heap: &Heap<P>, pool: PoolId, is_needed: bool) -> Result<Option<Slab>, TableError> {
        let ahead = self.provider.as_ref().and_then(|provider| provider.take(1).pop());
        match ahead {
            None if self.provider.is_none() || is_needed => Ok(Some(heap.allocate_slab(pool)?)),
            ahead => Ok(ahead),
        }
    }

    /// Where the next blocks stand.
    pub(super) fn at(&self) -> DevicePtr {
        self.blocks.as_ref().map_or(DevicePtr::NULL, |blocks| blocks.ptr().offset(8 * self.next))
    }

    /// So many of them have records now.
    pub(super) fn used(&mut self, count: u64) {
        self.next += count;
    }

    /// So many of those that were [used](Supply::used) last have none after all.
    pub(super) fn left_over(&mut self, count: u64) {
        self.next -= count;
    }

    /// Room for so many offsets of records that go.
    pub(super) fn room(&mut self, device: &Device, count: u64) -> Result<DevicePtr, TableError> {
        let stock = self.stock();
        self.returns.room(count, stock, |blocks| buffer_of(device, &mut self.spare, 8 * blocks))
    }

    /// So many of them are there: their blocks can be used again, once nobody can be reading them.
    pub(super) fn retire(&mut self, count: u64, guard: &Guard) {
        self.returns.noted(count, guard);
    }

    /// Sees to it that what has come back can be used again soon, if there is so much that it is worth it, and a batch like the last one, of so many operations,
    /// will need it. Whoever calls it has no epoch pinned.
    pub(super) fn recall(&mut self, count: u64) {
        if self.left() < self.lead(count) && self.is_worth_it() {
            self.returns.close();
        }
        self.reclaim();
    }

    /// Makes lists of closed pages, if nobody is reading: left to themselves they wait for some batches
    /// more, which take new blocks instead, and the image grows for nothing. Whoever calls it has no epoch pinned.
    fn reclaim(&self) {
        for _ in 0..RECLAIMS {
            if self.returns.pending() == 0 {
                return;
            }
            if let Some(heap) = self.heap.upgrade() {
                heap.reclaim();
            }
        }
    }

    /// All lists of blocks that can be used again by now.
    fn recalled(&mut self) -> Vec<List> {
        self.returns.close();
        self.reclaim();
        self.returns.take()
    }

    /// The same where there is nothing else: for a while those who read are waited for.
    fn recalled_with_patience(&mut self) -> Vec<List> {
        for _ in 0..PATIENCE {
            let lists = self.recalled();
            if !lists.is_empty() || self.returns.pending() == 0 {
                return lists;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        Vec::new()
    }

    /// Has so many blocks at hand: those that can be used again, in the order of their addresses, then new ones.
    pub(crate) fn ensure(
        &mut self,
        device: &Device,
        kernels: &Kernels,
        place: &mut Workplace,
        count: u64,
    ) -> Result<(), TableError> {
        if self.left() < count {
            self.take_sorted(device, place)?;
        }
        if self.left() >= count {
            return Ok(());
        }
        let (Some(heap), Some(pool)) = (self.heap.upgrade(), self.pool) else { return Ok(()) };
        let mut lists = if self.is_worth_it() { self.recalled() } else { Vec::new() };
        let blocks_of = |lists: &[List]| lists.iter().map(|list| list.count).sum::<u64>();
        let mut again = self.left() + blocks_of(&lists);
        let (mut runs, mut new) = (Vec::new(), 0);
        // Twice what this batch can take, if there is so much: the next one finds it ready, and while that is written, what this one frees is put
        // in order for the one after it. With less, each would have to wait for that. But for the second half nobody waits for the image to grow
        // where a thread sees to that.
        while again + new < 2 * count {
            let (offset, blocks) = match self.slab(&heap, pool, again + new < count) {
                Ok(Some(slab)) => slab,
                Ok(None) => break,
                Err(_) if again + new >= count => break,
                Err(error) => {
                    // What there is has to do, however little it is.
                    let more = self.recalled_with_patience();
                    if !more.is_empty() {
                        again += blocks_of(&more);
                        lists.extend(more);
                        continue;
                    }
                    self.returns.put_back(lists);
                    give_back(&heap, &runs, new, self.form);
                    return Err(error);
                }
            };
            runs.push(BlockRun { offset, before: new });
            new += blocks;
        }
        let total = again + new;
        let made = self.gather(device, kernels, place, &heap, &lists, &runs, total);
        match made {
            Ok(blocks) => {
                self.spare.extend(self.blocks.replace(blocks));
                self.spare.extend(lists.into_iter().map(|list| list.buffer));
                (self.next, self.end) = (0, total);
                Ok(())
            }
            Err(error) => {
                self.returns.put_back(lists);
                give_back(&heap, &runs, new, self.form);
                Err(error)
            }
        }
    }

    /// All of them in one list.
    #[allow(clippy::too_many_arguments, reason = "what there is, and what to do it with")]
    fn gather(
        &mut self,
        device: &Device,
        kernels: &Kernels,
        place: &mut Workplace,
        heap: &Heap<P>,
        lists: &[List],
        runs: &[BlockRun],
        total: u64,
    ) -> Result<Buffer, TableError> {
        let left = self.left();
        let again = left + lists.iter().map(|list| list.count).sum::<u64>();
        let blocks = buffer_of(device, &mut self.spare, 8 * total)?;
        let mixed = buffer_of(device, &mut self.spare, 8 * again)?;
        if let Some(old) = self.blocks.as_ref().filter(|_| left > 0) {
            mixed.copy_from_on(0, old, 8 * self.next as usize, 8 * left as usize, &place.stream)?;
        }
        put_together(&mixed, 8 * left as usize, lists, &place.stream)?;
        // SAFETY: the lists are as long as the kernels take them to be, and stay until the stream is synchronised, which follows.
        unsafe {
            if again > 0 {
                sort(device, kernels, place, (&mixed, again), &blocks, heap.image().len())?;
            }
            if total > again {
                place.columns.blocks.host::<BlockRun>(device, runs.len())?.copy_from_slice(runs);
                let params = SpellParams {
                    runs: place.columns.blocks.send::<BlockRun>(device, runs.len(), &place.stream)?,
                    run_count: runs.len() as u64,
                    count: total - again,
                    block_len: self.form.block_len(),
                    tile_blocks: self.form.tile().map_or(1, |tile| tile.blocks() as u32),
                    value_len: self.form.tile().map_or(0, |tile| tile.value() as u32),
                    blocks: blocks.ptr().offset(8 * again),
                };
                place.launch(&kernels.fused()?.spell, params.count, &params)?;
            }
        }
        place.stream.synchronize()?;
        self.spare.push(mixed);
        Ok(blocks)
    }
}

/// A block of a slab.
fn block_of(form: RecordForm, slab: u64, number: u64) -> u64 {
    form.tile().map_or(slab + number * form.block_len(), |tile| tile.name(slab, number))
}

/// Frees the blocks of whole slabs, so many in all.
fn give_back<P: Persist>(heap: &Heap<P>, runs: &[BlockRun], total: u64, form: RecordForm) {
    for (number, run) in runs.iter().enumerate() {
        let end = runs.get(number + 1).map_or(total, |next| next.before);
        for block in 0..end - run.before {
            let freed = heap.free(block_of(form, run.offset, block));
            debug_assert!(freed.is_ok(), "{freed:?}");
        }
    }
}

impl<P: Persist> Drop for Supply<P> {
    fn drop(&mut self) {
        let Some(heap) = self.heap.upgrade() else { return };
        // Of what is not ready by then the heap knows when the image is opened again.
        let returned = self.recalled();
        let mut offsets = Vec::new();
        let mut read = |buffer: &Buffer, first: u64, count: u64| {
            let mut some = vec![0_u64; count as usize];
            // If the device is lost they are free when the image is opened again.
            if buffer.read(8 * first as usize, &mut some).is_ok() {
                offsets.append(&mut some);
            }
        };
        if let Some(blocks) = &self.blocks {
            read(blocks, self.next, self.end - self.next);
        }
        if let Some(Ok(Some((sorted, _)))) = self.sorting.as_mut().map(Sorting::finish) {
            read(&sorted.buffer, 0, sorted.count);
        }
        for list in returned {
            read(&list.buffer, 0, list.count);
        }
        for (first, count) in self.provider.as_mut().map(Provider::end).unwrap_or_default() {
            offsets.extend((0..count).map(|number| block_of(self.form, first, number)));
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
    use crate::gpu::{DeviceEngine, DeviceImage};
    use crate::{Geometry, Layout, Table, TableSpec};

    /// A table whose blocks are taken and given back as batches do it, with nothing in it.
    struct Shop {
        table: Table<Coherent>,
        engine: DeviceEngine<Coherent>,
    }

    impl Shop {
        fn new(most_chunks: u64) -> Shop {
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
            let table = Table::create(&heap(most_chunks), &spec).unwrap();
            let on_device = Arc::new(DeviceImage::new(&device, table.heap().image()).unwrap());
            Shop { engine: DeviceEngine::new(&on_device, &table).unwrap(), table }
        }

        /// Blocks for a batch.
        fn take(&self, count: u64) -> Result<Vec<u64>, TableError> {
            let (device, kernels, mut turn) =
                (self.engine.device(), &self.engine.kernels, self.engine.turn());
            let (mut supply, stream) = (self.engine.supply(), device.stream()?);
            supply.ensure(device, kernels, &mut turn.place, count)?;
            let blocks = device.allocate(8 * count as usize)?;
            // SAFETY: there are as many at hand, and room for them.
            unsafe { device.copy_raw(blocks.ptr(), supply.at(), 8 * count as usize, &stream)? };
            stream.synchronize()?;
            supply.prepare(device, kernels, count, &stream);
            supply.used(count);
            Ok(blocks.to_vec()?)
        }

        /// They are given back by a batch of so many operations, and nobody reads them.
        fn give_back(&self, blocks: &[u64]) {
            let (device, mut supply) = (self.engine.device(), self.engine.supply());
            let (stream, count) = (device.stream().unwrap(), blocks.len() as u64);
            let (from, to) = (device.upload(blocks).unwrap(), supply.room(device, count).unwrap());
            // SAFETY: there is room for as many.
            unsafe { device.copy_raw(to, from.ptr(), 8 * blocks.len(), &stream).unwrap() };
            stream.synchronize().unwrap();
            supply.retire(count, &self.table.heap.pin());
            supply.recall(count);
            assert_eq!(supply.returns.pending(), 0, "somebody reads");
        }

        fn stock(&self) -> u64 {
            self.engine.supply().stock()
        }
    }

    /// The part of the image that blocks lie in.
    fn extent(blocks: &[u64]) -> u64 {
        blocks.iter().max().unwrap() - blocks.iter().min().unwrap()
    }

    #[test]
    fn blocks_that_are_used_again_lie_near_each_other() {
        const BATCH: usize = 20;
        let shop = Shop::new(2000);
        // Items all over the image, of which each batch replaces some anywhere.
        let mut items: Vec<u64> = (0..200).flat_map(|_| shop.take(100).unwrap()).collect();
        shop.engine.supply().serve(items.len() as u64);
        let before = shop.table.heap().usage().used_blocks();
        let all = extent(&items);
        let (mut again, mut far) = (BTreeSet::new(), 0);
        for batch in 0..600_usize {
            let taken = shop.take(BATCH as u64).unwrap();
            assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), BATCH);
            if taken.iter().all(|block| again.contains(block)) {
                // A few batches have the end of one list and the beginning of the next.
                far += u64::from(extent(&taken) > all / 8);
            }
            let replaced: Vec<u64> = (0..BATCH)
                .map(|i| {
                    let at = (batch * 7919 + i * 4999) % items.len();
                    std::mem::replace(&mut items[at], taken[i])
                })
                .collect();
            assert!(taken.iter().all(|block| !replaced.contains(block)));
            again.extend(replaced.iter().copied());
            shop.give_back(&replaced);
        }
        assert_eq!(items.iter().collect::<BTreeSet<_>>().len(), items.len(), "a block has two records");
        let grown = shop.table.heap().usage().used_blocks() - before;
        let slab = 2 * MIN_CHUNK / 144;
        assert!(grown < 2 * shop.stock() + 2 * slab, "{grown} blocks more, with a stock of {}", shop.stock());
        assert!(far < 600 / 20, "{far} batches lie all over the image");
        assert!(
            items.iter().filter(|block| again.contains(block)).count() > 1000,
            "hardly any is used again"
        );
    }

    #[test]
    fn what_little_there_is_is_used_if_there_is_no_space() {
        let shop = Shop::new(40);
        let mut blocks = Vec::new();
        for batch in [20, 1] {
            while let Ok(more) = shop.take(batch) {
                blocks.extend(more);
            }
        }
        assert!(blocks.len() > 1000, "{}", blocks.len());
        shop.engine.supply().serve(blocks.len() as u64);
        let some: Vec<u64> = blocks[..25].to_vec();
        assert!(shop.stock() > some.len() as u64);
        shop.give_back(&some);
        let again = shop.take(20).unwrap();
        assert!(again.iter().all(|block| some.contains(block)), "{again:?}");
        assert!(matches!(shop.take(20), Err(TableError::Image(_))));
        // What a refused batch could not have is not lost.
        shop.give_back(&again);
        shop.take(20).unwrap();
        let Shop { table, engine } = shop;
        let used = table.heap().usage().used_blocks();
        drop(engine);
        assert_eq!(used - table.heap().usage().used_blocks(), 5, "what is left over goes back to the heap");
    }
}
