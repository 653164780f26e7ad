//! Free blocks in device memory: whole slabs of the heap, and blocks of records that are gone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crossbeam_epoch::Guard;
use warpkeep_device::{Buffer, Device, DevicePtr, Stream};
use warpkeep_image::{Heap, Persist, PoolId};
use warpkeep_record::RecordForm;

use super::params::{BlockRun, SpellParams};
use super::provider::{Provider, Slab};
use super::sorting::{List, Sorting, put_together, sort};
use crate::TableError;
use crate::gpu::engine::{Kernels, Workplace};

/// Lists of blocks that nobody can be reading any more, and how many there are that somebody may be reading still.
#[derive(Default)]
struct Ready {
    lists: Mutex<Vec<List>>,
    pending: AtomicUsize,
}

impl Ready {
    fn lists(&self) -> MutexGuard<'_, Vec<List>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The free blocks of a table. They count as allocated until they are given back; after a crash, marking finds them.
pub(crate) struct Supply<P: Persist> {
    heap: Weak<Heap<P>>,
    pool: Option<PoolId>,
    form: RecordForm,
    /// Those that come next, from `next` to `end`.
    blocks: Option<Buffer>,
    next: u64,
    end: u64,
    ready: Arc<Ready>,
    /// Memory that can be used again.
    spare: Vec<Buffer>,
    /// Blocks that are being put in order for the next batch, once there has been one that was worth it.
    sorting: Option<Sorting>,
    /// Who takes slabs ahead of need, if anybody does.
    provider: Option<Provider>,
}

/// Epochs that pass before nobody can be reading what was retired in the first of them, and some more for what others have to free.
const RECLAIMS: usize = 8;
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
            ready: Arc::default(),
            spare,
            sorting: None,
            provider: None,
        }
    }

    /// Has slabs taken ahead of need from now on. Without a thread for it they are taken when they are needed.
    pub(super) fn provide(&mut self) {
        if let (None, Some(pool)) = (&self.provider, self.pool) {
            self.provider = Provider::start(&self.heap, pool).ok();
        }
    }

    /// There will be more batches like one of so many operations: two of them are to find their blocks ready.
    pub(super) fn look_ahead(&self, count: u64) {
        if let Some(provider) = &self.provider {
            let again = self.ready.lists().iter().map(|list| list.count).sum::<u64>();
            provider.want((2 * count).saturating_sub(self.left() + self.coming() + again));
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

    /// Begins to put in order what a batch like this one, of so many operations, will need when this one has taken its blocks; after what is in a
    /// stream. It is for speed alone: if it comes to nothing, [`Supply::ensure`] does it, and whoever uses the device next is told why.
    pub(super) fn prepare(&mut self, device: &Device, kernels: &Kernels, count: u64, after: &Stream) {
        if self.left() >= 2 * count || self.coming() > 0 {
            return;
        }
        let Some(heap) = self.heap.upgrade() else { return };
        let mut lists = std::mem::take(&mut *self.ready.lists());
        if self.sorting.is_none() && !lists.is_empty() {
            self.sorting = Sorting::new(device).ok();
        }
        if let Some(sorting) = self.sorting.as_mut().filter(|_| !lists.is_empty()) {
            let room = |count| buffer_of(device, &mut self.spare, 8 * count);
            let _ = sorting.begin(device, kernels, &mut lists, heap.image().len(), after, room);
        }
        self.ready.lists().append(&mut lists);
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
                    self.ready.lists().push(sorted);
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
    pub(super) fn room(&mut self, device: &Device, count: u64) -> Result<Buffer, TableError> {
        buffer_of(device, &mut self.spare, 8 * count)
    }

    /// Takes blocks of records that are gone, once nobody can be reading them.
    pub(super) fn retire(&mut self, buffer: Buffer, count: u64, guard: &Guard) {
        if count == 0 {
            return self.spare.push(buffer);
        }
        self.ready.pending.fetch_add(1, Ordering::Relaxed);
        let ready = Arc::downgrade(&self.ready);
        guard.defer(move || {
            if let Some(ready) = ready.upgrade() {
                ready.lists().push(List { buffer, count });
                ready.pending.fetch_sub(1, Ordering::Relaxed);
            }
        });
        guard.flush();
    }

    /// Sees to it that blocks of records that are gone can be used again, if nobody is reading: left to themselves they wait for some batches
    /// more, which take new blocks instead, and the image grows for nothing. Whoever calls it has no epoch pinned.
    pub(super) fn reclaim(&self) {
        for _ in 0..RECLAIMS {
            if self.ready.pending.load(Ordering::Relaxed) == 0 {
                return;
            }
            crate::hasten_freeing();
        }
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
        self.reclaim();
        let mut lists = std::mem::take(&mut *self.ready.lists());
        let again = self.left() + lists.iter().map(|list| list.count).sum::<u64>();
        let (mut runs, mut total) = (Vec::new(), again);
        // Twice what this batch can take, if there is so much: the next one finds it ready, and while that is written, what this one frees is put
        // in order for the one after it. With less, each would have to wait for that. But for the second half nobody waits for the image to grow
        // where a thread sees to that.
        while total < 2 * count {
            let (offset, blocks) = match self.slab(&heap, pool, total < count) {
                Ok(Some(slab)) => slab,
                Ok(None) => break,
                Err(_) if total >= count => break,
                Err(error) => {
                    self.ready.lists().append(&mut lists);
                    give_back(&heap, &runs, total - again, self.form);
                    return Err(error);
                }
            };
            runs.push(BlockRun { offset, before: total - again });
            total += blocks;
        }
        let made = self.gather(device, kernels, place, &heap, &lists, &runs, total);
        match made {
            Ok(blocks) => {
                self.spare.extend(self.blocks.replace(blocks));
                self.spare.extend(lists.into_iter().map(|list| list.buffer));
                (self.next, self.end) = (0, total);
                Ok(())
            }
            Err(error) => {
                self.ready.lists().append(&mut lists);
                give_back(&heap, &runs, total - again, self.form);
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
                place.launch(&kernels.spell, params.count, &params)?;
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
        self.reclaim();
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
        for list in self.ready.lists().drain(..) {
            read(&list.buffer, 0, list.count);
        }
        for (first, count) in self.provider.as_mut().map(Provider::end).unwrap_or_default() {
            offsets.extend((0..count).map(|number| block_of(self.form, first, number)));
        }
        let freed = heap.free_many(&offsets);
        debug_assert!(freed.is_ok(), "{freed:?}");
    }
}
