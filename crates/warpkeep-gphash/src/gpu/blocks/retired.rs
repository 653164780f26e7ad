//! Retired blocks: the blocks of replaced and removed records, from the batch that frees them until the block pool
//! reuses them.
//!
//! A block can be reused only when no reader can still be at its record. Batches append the offsets of the blocks they
//! free to an open page in device memory. Each batch that appends also defers a drop of one reference to the page to
//! its epoch. A closed page becomes a [`BlockList`] when the last reference is dropped, that is when no reader can be
//! at any record of the page.
//!
//! Retired blocks lie at random addresses, and a device that stores at random addresses over the link is slow.
//! [`BlockSort`] sorts the lists by address, on a stream of its own, while the current batch is published.
//!
//! Invariants:
//! - a block is on one page or one list;
//! - the inputs of a sort live until its event is complete.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crossbeam_epoch::Guard;
use warpkeep_device::{Buffer, Device, DevicePtr, Event, PartitionPlan, Stream};

use crate::TableError;
use crate::gpu::engine::{THREADS, Workspace};
use crate::gpu::kernels::Kernels;
use crate::gpu::write::params::SortParams;

/// Offsets of free blocks in device memory.
pub(super) struct BlockList {
    pub(super) buffer: Buffer,
    pub(super) count: u64,
}

/// Lists of blocks that no reader can be at, and the number of closed pages that are not lists yet.
#[derive(Default)]
struct ReadyLists {
    lists: Mutex<Vec<BlockList>>,
    pending_pages: AtomicUsize,
}

impl ReadyLists {
    fn lists(&self) -> MutexGuard<'_, Vec<BlockList>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Offsets of retired blocks in device memory. Deferred drops hold references to it: the last one makes it a list.
struct Page {
    buffer: Option<Buffer>,
    count: AtomicU64,
    ready: Weak<ReadyLists>,
}

impl Page {
    /// Bytes of the page.
    fn capacity(&self) -> u64 {
        self.buffer.as_ref().map_or(0, |buffer| buffer.len() as u64)
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Where the next batch appends.
    fn end(&self) -> DevicePtr {
        self.buffer.as_ref().map_or(DevicePtr::NULL, |buffer| buffer.ptr().offset(8 * self.count()))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let count = *self.count.get_mut();
        if let (Some(ready), Some(buffer), 1..) = (self.ready.upgrade(), self.buffer.take(), count) {
            ready.lists().push(BlockList { buffer, count });
            ready.pending_pages.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// All retired blocks of a table: the open page, closed pages, and lists that are ready.
#[derive(Default)]
pub(super) struct RetiredBlocks {
    ready: Arc<ReadyLists>,
    open: Option<Arc<Page>>,
}

impl RetiredBlocks {
    /// Where a batch can append the offsets of `count` blocks. If the open page is too short it is closed, and a page
    /// for at least `page_blocks` blocks is opened, in the memory that `buffer` returns for a number of blocks.
    pub(super) fn reserve<E>(
        &mut self,
        count: u64,
        page_blocks: u64,
        buffer: impl FnOnce(u64) -> Result<Buffer, E>,
    ) -> Result<DevicePtr, E> {
        let fits = |open: &Arc<Page>| open.capacity() >= 8 * (open.count() + count);
        if !self.open.as_ref().is_some_and(fits) {
            self.close();
            let buffer = Some(buffer(count.max(page_blocks))?);
            let ready = Arc::downgrade(&self.ready);
            self.open = Some(Arc::new(Page { buffer, count: AtomicU64::new(0), ready }));
        }
        Ok(self.open.as_ref().map_or(DevicePtr::NULL, |open| open.end()))
    }

    /// Counts blocks that a batch has appended where it [reserved](RetiredBlocks::reserve). They are reused after the
    /// guard's epoch.
    pub(super) fn append(&self, count: u64, guard: &Guard) {
        if let Some(open) = self.open.as_ref().filter(|_| count > 0) {
            open.count.fetch_add(count, Ordering::Relaxed);
            let page = Arc::clone(open);
            guard.defer(move || drop(page));
            guard.flush();
        }
    }

    /// Blocks on the open page.
    pub(super) fn on_open_page(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.count())
    }

    /// Blocks of the lists that are ready.
    pub(super) fn ready(&self) -> u64 {
        self.ready.lists().iter().map(|list| list.count).sum()
    }

    /// Closes the open page unless it is empty.
    pub(super) fn close(&mut self) {
        if self.on_open_page() > 0 {
            self.ready.pending_pages.fetch_add(1, Ordering::Relaxed);
            self.open = None;
        }
    }

    /// Closed pages that are not lists yet.
    pub(super) fn pending_pages(&self) -> usize {
        self.ready.pending_pages.load(Ordering::Relaxed)
    }

    /// Takes all lists that are ready.
    pub(super) fn take(&mut self) -> Vec<BlockList> {
        std::mem::take(&mut *self.ready.lists())
    }

    /// Returns lists that were not used.
    pub(super) fn put_back(&mut self, mut lists: Vec<BlockList>) {
        self.ready.lists().append(&mut lists);
    }
}

/// Sorts lists of blocks by address while a batch is published.
pub(super) struct BlockSort {
    workspace: Workspace,
    begun: Event,
    done: Event,
    running: Option<RunningSort>,
}

/// The buffers of a sort until it is complete.
struct RunningSort {
    sorted: BlockList,
    /// The input, which kernels read.
    lists: Vec<BlockList>,
    /// All lists in one buffer, if there are several.
    unsorted: Option<Buffer>,
}

impl BlockSort {
    pub(super) fn new(device: &Device) -> Result<BlockSort, TableError> {
        let (begun, done) = (device.event()?, device.event()?);
        Ok(BlockSort { workspace: Workspace::new(device)?, begun, done, running: None })
    }

    /// Blocks of the running sort.
    pub(super) fn blocks(&self) -> u64 {
        self.running.as_ref().map_or(0, |running| running.sorted.count)
    }

    /// Starts to sort the blocks of `lists`, after the work that is in the stream `after`. No other sort may be
    /// running. `buffer` returns memory for a number of blocks. After an error no sort is running, and `lists` is
    /// unchanged.
    pub(super) fn begin(
        &mut self,
        device: &Device,
        kernels: &Kernels,
        lists: &mut Vec<BlockList>,
        image_len: u64,
        after: &Stream,
        mut buffer: impl FnMut(u64) -> Result<Buffer, TableError>,
    ) -> Result<(), TableError> {
        let count = lists.iter().map(|list| list.count).sum();
        let sorted = buffer(count)?;
        let unsorted = if lists.len() > 1 { Some(buffer(count)?) } else { None };
        let mut launch = || -> Result<(), TableError> {
            self.begun.record(after)?;
            self.workspace.stream.wait_for(&self.begun)?;
            let input = match (&unsorted, lists.as_slice()) {
                (Some(unsorted), _) => {
                    concatenate(unsorted, 0, lists, &self.workspace.stream)?;
                    unsorted
                }
                (None, [only]) => &only.buffer,
                (None, _) => return Ok(()),
            };
            // SAFETY: the buffers live until `done` is complete; after an error the stream is synchronised before they
            // are dropped.
            unsafe { sort(device, kernels, &mut self.workspace, (input, count), &sorted, image_len)? };
            Ok(self.done.record(&self.workspace.stream)?)
        };
        if let Err(error) = launch() {
            // Kernels may still use the buffers that are dropped next. Only the first error is reported.
            let _ = self.workspace.stream.synchronize();
            return Err(error);
        }
        let sorted = BlockList { buffer: sorted, count };
        self.running = Some(RunningSort { sorted, lists: std::mem::take(lists), unsorted });
        Ok(())
    }

    /// Waits for the running sort. Returns its sorted list, and the buffers that are free again.
    pub(super) fn finish(&mut self) -> Result<Option<(BlockList, Vec<Buffer>)>, TableError> {
        let Some(RunningSort { sorted, lists, unsorted }) = self.running.take() else { return Ok(None) };
        self.done.synchronize()?;
        Ok(Some((sorted, lists.into_iter().map(|list| list.buffer).chain(unsorted).collect())))
    }
}

/// Copies lists one after the other into a buffer, from byte `at` on.
pub(super) fn concatenate(
    to: &Buffer,
    mut at: usize,
    lists: &[BlockList],
    stream: &Stream,
) -> Result<(), TableError> {
    for list in lists {
        let bytes = 8 * list.count as usize;
        to.copy_from_on(at, &list.buffer, 0, bytes, stream)?;
        at += bytes;
    }
    Ok(())
}

/// Partitions `count` blocks by address range into another buffer: their order within a range is arbitrary.
///
/// # Safety
/// Both buffers have at least `count` offsets, and live until the workspace's stream is synchronised.
pub(super) unsafe fn sort(
    device: &Device,
    kernels: &Kernels,
    workspace: &mut Workspace,
    (unsorted, count): (&Buffer, u64),
    sorted: &Buffer,
    image_len: u64,
) -> Result<(), TableError> {
    let Workspace { stream, columns, .. } = workspace;
    let params = SortParams {
        blocks: unsorted.ptr(),
        count,
        ranks: columns.ranks.reserve(device, 4 * count as usize)?,
        partition: PartitionPlan::for_items(image_len, count).zeroed(
            device,
            &mut columns.partition,
            stream,
        )?,
        sorted: sorted.ptr(),
    };
    // SAFETY: the caller promises the length and lifetime of both buffers; the columns were reserved for `count` blocks
    // above.
    unsafe {
        workspace.launch(&kernels.fused()?.sort_count, count, THREADS, &params)?;
        params.partition.scan(&kernels.fused()?.scan, &workspace.stream)?;
        workspace.launch(&kernels.fused()?.sort, count, THREADS, &params)?;
    }
    Ok(())
}
