//! Clearing: slabs with few blocks in use are closed, so that what is in them can be moved to others and their chunks
//! become free.

use super::{Block, Heap};
use crate::{ImageError, Persist};

/// Which slabs are to be cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clear {
    /// As many as the free blocks of the others can make up for, those with the fewest blocks in use first.
    Surplus,
    /// All: what is in them comes to lie together anew.
    All,
}

/// A slab that is being cleared.
struct Closed {
    pool: u16,
    shard: usize,
    slab: u32,
    first_chunk: u64,
}

/// Slabs that nothing is allocated from while this exists: whoever refers to blocks in them moves those blocks.
///
/// A slab whose last block is freed gives its chunks back at once. Those that still have blocks when this is dropped
/// are used again as before.
pub struct Clearing<'h, P: Persist> {
    heap: &'h Heap<P>,
    closed: Vec<Closed>,
    /// Whether a chunk belongs to one of them.
    chunks: Vec<bool>,
    blocks: u64,
}

impl<P: Persist> Heap<P> {
    /// Closes slabs, so that they can be cleared.
    pub fn begin_clearing(&self, which: Clear) -> Clearing<'_, P> {
        let mut clearing =
            Clearing { heap: self, closed: Vec::new(), chunks: vec![false; self.locators.len()], blocks: 0 };
        for (index, pool) in self.pools.iter() {
            let mut slabs = Vec::new();
            for shard in 0..pool.shard_count() {
                slabs.extend(
                    pool.shard(shard)
                        .slabs()
                        .map(|(slab, first_chunk, used)| (used, shard, slab, first_chunk)),
                );
            }
            slabs.sort_unstable();
            let used: u64 = slabs.iter().map(|&(used, ..)| u64::from(used)).sum();
            let needed = used.div_ceil(u64::from(pool.blocks)) as usize;
            // Slabs that are nearly full are not worth the copying.
            let sparse = slabs.iter().take_while(|&&(used, ..)| used <= pool.blocks / 4 * 3).count();
            let surplus = match which {
                Clear::Surplus => slabs.len().saturating_sub(needed.max(1)).min(sparse),
                Clear::All => slabs.len(),
            };
            for &(used, shard, slab, first_chunk) in &slabs[..surplus] {
                if pool.shard(shard).set_closed(slab, first_chunk, true) {
                    clearing.blocks += u64::from(used);
                    let chunks = first_chunk as usize..first_chunk as usize + usize::from(pool.span);
                    clearing.chunks[chunks].fill(true);
                    clearing.closed.push(Closed { pool: index as u16, shard, slab, first_chunk });
                }
            }
        }
        clearing
    }
}

impl<P: Persist> Clearing<'_, P> {
    /// Slabs that are being cleared.
    pub fn slabs(&self) -> u64 {
        self.closed.len() as u64
    }

    /// Blocks that were in use in them at the beginning.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Whether the block at an offset is to be moved.
    #[inline]
    pub fn contains(&self, offset: u64) -> bool {
        self.chunks.get((offset / self.heap.image.chunk_size()) as usize).copied().unwrap_or(false)
    }

    /// A block for what is in the one at `offset`, elsewhere.
    pub fn allocate_for(&self, offset: u64) -> Result<Block<'_, P>, ImageError> {
        let pool = self.heap.pool_at(offset)?;
        let taken = self.heap.take_leftover(pool);
        taken.map_or_else(|| self.heap.allocate_from(pool), Ok)
    }

    /// A copy, elsewhere, of what is in the block at `offset`. Not flushed yet.
    ///
    /// # Safety
    /// A block begins there, and nobody frees it or writes to it meanwhile.
    pub unsafe fn copy_of(&self, offset: u64) -> Result<Block<'_, P>, ImageError> {
        let mut copy = self.allocate_for(offset)?;
        let image = self.heap.image();
        for (place, part) in copy.cut().parts(offset, 0, copy.size()) {
            if !part.is_empty() {
                // SAFETY: the caller's promise.
                copy.write(part.start, unsafe { image.bytes(place, part.end - part.start) })?;
            }
        }
        Ok(copy)
    }
}

impl<P: Persist> Drop for Clearing<'_, P> {
    fn drop(&mut self) {
        for closed in &self.closed {
            let pool = self.heap.pool_of(closed.pool);
            pool.shard(closed.shard).set_closed(closed.slab, closed.first_chunk, false);
        }
    }
}
