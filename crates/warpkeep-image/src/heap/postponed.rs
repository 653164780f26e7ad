//! Blocks that are free but not returned to their pools yet. Returning many of them takes a while, and the thread
//! that finds them unreferenced may be a reader.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Heap;
use crate::{ImageError, Persist};

/// Up to this many blocks are freed at once by any thread.
const FEW: usize = 1 << 10;

/// Lists of blocks.
#[derive(Debug, Default)]
pub(super) struct Postponed {
    lists: Mutex<Vec<Vec<u64>>>,
    blocks: AtomicUsize,
}

impl Postponed {
    fn lists(&self) -> MutexGuard<'_, Vec<Vec<u64>>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, offsets: Vec<u64>) {
        self.blocks.fetch_add(offsets.len(), Ordering::Relaxed);
        self.lists().push(offsets);
    }

    /// Some of one list.
    fn take(&self, most: usize) -> Vec<u64> {
        if self.blocks.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut lists = self.lists();
        let Some(mut last) = lists.pop() else { return Vec::new() };
        let taken = last.split_off(last.len().saturating_sub(most));
        if !last.is_empty() {
            lists.push(last);
        }
        self.blocks.fetch_sub(taken.len(), Ordering::Relaxed);
        taken
    }
}

impl<P: Persist> Heap<P> {
    /// Frees blocks, as [`Heap::free_many`] does: at once if they are few, and otherwise when space is needed or a
    /// thread [has time](Heap::free_postponed).
    pub fn free_soon(&self, offsets: Vec<u64>) -> Result<(), ImageError> {
        if offsets.len() <= FEW {
            return self.free_many(&offsets);
        }
        self.postponed.add(offsets);
        Ok(())
    }

    /// Counts blocks that will be freed when no reader can see them any more; returns the total so far.
    pub fn count_retired(&self, blocks: u64) -> u64 {
        self.retired.fetch_add(blocks, Ordering::Relaxed) + blocks
    }

    /// Counts such blocks when they have been freed; returns the total so far.
    pub fn count_returned(&self, blocks: u64) -> u64 {
        self.returned.fetch_add(blocks, Ordering::Relaxed) + blocks
    }

    /// Frees up to `most` of the postponed blocks; returns how many. 0 means that none are left.
    pub fn free_postponed(&self, most: usize) -> Result<usize, ImageError> {
        let offsets = self.postponed.take(most.max(1));
        self.free_many(&offsets).map(|()| offsets.len())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::{Coherent, Format, HeapOptions, Image, MIN_CHUNK, PlainMemory, Surroundings};

    #[test]
    fn many_blocks_are_freed_when_space_is_needed_or_somebody_has_time() {
        let memory = PlainMemory::new(2 * MIN_CHUNK, 64 * MIN_CHUNK);
        let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
        let surroundings = Surroundings::default();
        let image =
            Image::format(Arc::new(memory), Coherent, Path::new("memory"), &format, surroundings).unwrap();
        image.begin(1).unwrap();
        let heap =
            Heap::recover(&Arc::new(image), HeapOptions::default(), |_| Ok::<(), ImageError>(())).unwrap();
        let pool = heap.pool(64).unwrap();
        let take = |count| {
            let mut blocks = heap.allocate_many(pool, count).unwrap();
            (0..count).map(|index| blocks.hand_over(index)).collect::<Vec<u64>>()
        };
        let used = || heap.usage().used_blocks();
        let (many, few) = (take(5 * FEW), take(FEW));
        heap.free_soon(few).unwrap();
        assert_eq!(used(), 5 * FEW as u64, "few are freed at once");
        heap.free_soon(many).unwrap();
        assert_eq!(used(), 5 * FEW as u64, "a thread that frees many need not wait for it");
        assert_eq!(heap.free_postponed(FEW).unwrap(), FEW);
        assert_eq!(used(), 4 * FEW as u64);
        // An allocation finds them before the image grows.
        let length = heap.image().len();
        for _ in 0..40 {
            heap.free_soon(take(4 * FEW)).unwrap();
        }
        assert_eq!(heap.image().len(), length);
        while heap.free_postponed(usize::MAX).unwrap() > 0 {}
        assert_eq!(used(), 0);
    }
}
