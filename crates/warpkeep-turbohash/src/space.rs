//! Room for shards and directories: blocks of just their size, or whole chunks for the largest.

use std::sync::Arc;

use crossbeam_epoch::Guard;
use warpkeep_image::{Heap, ImageError, Marker, Persist};
use warpkeep_record::when_unseen;

/// What is larger takes whole chunks.
const LARGEST_BLOCK: u64 = 1 << 20;

/// Room for so many bytes, a multiple of 256, at such a multiple. It holds whatever was there before.
pub(crate) fn allocate<P: Persist>(heap: &Heap<P>, bytes: u64) -> Result<u64, ImageError> {
    if bytes > LARGEST_BLOCK {
        return heap.allocate_extent(bytes);
    }
    // A slab begins with a chunk, so blocks of a multiple of 256 bytes lie at such multiples.
    Ok(heap.allocate_from(heap.pool(bytes)?)?.into_offset())
}

/// Gives room back that nothing leads to any more.
pub(crate) fn free<P: Persist>(heap: &Heap<P>, offset: u64, bytes: u64) -> Result<(), ImageError> {
    if bytes > LARGEST_BLOCK { heap.free_extent(offset) } else { heap.free(offset) }
}

/// The same, once no reader can see it.
pub(crate) fn retire<P: Persist>(heap: &Arc<Heap<P>>, offset: u64, bytes: u64, guard: &Guard) {
    let work = heap.later(move |heap| {
        let freed = free(heap, offset, bytes);
        debug_assert!(freed.is_ok(), "{freed:?}");
    });
    when_unseen(work, guard);
}

/// Marks room in use, checked against the heap.
pub(crate) fn mark<P: Persist>(marker: &Marker<'_, P>, offset: u64, bytes: u64) -> Result<bool, ImageError> {
    if bytes > LARGEST_BLOCK { marker.extent(offset, bytes) } else { marker.block(offset, bytes) }
}

/// Room for what may not come to be: freed unless it does.
pub(crate) struct Unused<'h, P: Persist> {
    heap: &'h Heap<P>,
    taken: Vec<(u64, u64)>,
}

impl<'h, P: Persist> Unused<'h, P> {
    pub(crate) fn new(heap: &'h Heap<P>) -> Unused<'h, P> {
        Unused { heap, taken: Vec::new() }
    }

    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<u64, ImageError> {
        let offset = allocate(self.heap, bytes)?;
        self.taken.push((offset, bytes));
        Ok(offset)
    }

    /// It has come to be.
    pub(crate) fn keep(mut self) {
        self.taken.clear();
    }
}

impl<P: Persist> Drop for Unused<'_, P> {
    fn drop(&mut self) {
        for &(offset, bytes) in &self.taken {
            let freed = free(self.heap, offset, bytes);
            debug_assert!(freed.is_ok(), "{freed:?}");
        }
    }
}
