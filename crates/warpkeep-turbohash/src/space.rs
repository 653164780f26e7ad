//! Space for shards and directories: blocks of their exact size, or whole chunks for the largest.

use warpkeep_image::{Guard, Heap, ImageError, Marker, Persist};

/// Larger ones take whole chunks.
const LARGEST_BLOCK: u64 = 1 << 20;

/// Allocates `bytes` bytes, a multiple of 256, at such a multiple. The contents are undefined.
pub(crate) fn allocate<P: Persist>(heap: &Heap<P>, bytes: u64) -> Result<u64, ImageError> {
    if bytes > LARGEST_BLOCK {
        return heap.allocate_extent(bytes);
    }
    // A slab begins with a chunk, so blocks of a multiple of 256 bytes lie at such multiples.
    Ok(heap.allocate_from(heap.pool(bytes)?)?.into_offset())
}

/// Frees space that is no longer reachable.
pub(crate) fn free<P: Persist>(heap: &Heap<P>, offset: u64, bytes: u64) -> Result<(), ImageError> {
    if bytes > LARGEST_BLOCK { heap.free_extent(offset) } else { heap.free(offset) }
}

/// The same, once no reader can see it.
pub(crate) fn retire<P: Persist>(heap: &Heap<P>, offset: u64, bytes: u64, guard: &Guard) {
    let free = move |heap: &Heap<P>| {
        let freed = free(heap, offset, bytes);
        debug_assert!(freed.is_ok(), "{freed:?}");
    };
    heap.defer(free, guard);
}

/// Marks room in use, checked against the heap.
pub(crate) fn mark<P: Persist>(marker: &Marker<'_, P>, offset: u64, bytes: u64) -> Result<bool, ImageError> {
    if bytes > LARGEST_BLOCK { marker.extent(offset, bytes) } else { marker.block(offset, bytes) }
}

/// Space for an object that may not be completed: freed unless it is kept.
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

    /// Keeps the space: the object is complete.
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
