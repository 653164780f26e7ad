//! Clearing: slabs with few used blocks are closed, so that their blocks can be moved to other slabs and their
//! chunks become free.

use super::{Block, Heap, PoolId};
use crate::{ImageError, Persist};

/// Which slabs are to be cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clear {
    /// As many as fit into the free blocks of the others, those with the fewest used blocks first.
    Surplus,
    /// All: their contents are laid out anew.
    All,
}

/// A slab that is being cleared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closed {
    pub(super) pool: u16,
    pub(super) shard: usize,
    pub(super) slab: u32,
    pub(super) first_chunk: u64,
}

/// Slabs closed to allocation while this exists: the tables that refer to blocks in them move those blocks.
///
/// A slab whose last block is freed frees its chunks at once. Those that still have blocks when this is dropped
/// are used again as before, unless they are [being vacated](Heap::begin_vacating).
pub struct Clearing<'h, P: Persist> {
    heap: &'h Heap<P>,
    closed: Vec<Closed>,
    /// The first chunk of all of them.
    first_chunk: u64,
    /// Whether a chunk, counted from there, belongs to one of them.
    chunks: Vec<bool>,
    blocks: u64,
    /// The first chunk of the run that is being vacated.
    run: Option<u64>,
}

impl<P: Persist> Heap<P> {
    /// Closes slabs, so that they can be cleared.
    pub fn begin_clearing(&self, which: Clear) -> Clearing<'_, P> {
        let mut clearing = Clearing::new(self, None);
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
                clearing.close(Closed { pool: index as u16, shard, slab, first_chunk }, used);
            }
        }
        clearing
    }
}

impl<'h, P: Persist> Clearing<'h, P> {
    pub(super) fn new(heap: &'h Heap<P>, run: Option<u64>) -> Clearing<'h, P> {
        Clearing { heap, closed: Vec::new(), first_chunk: 0, chunks: Vec::new(), blocks: 0, run }
    }

    /// Closes a slab that has this many blocks in use, if it is still there.
    pub(super) fn close(&mut self, slab: Closed, used: u32) {
        let pool = self.heap.pool_of(slab.pool);
        if !pool.shard(slab.shard).set_closed(slab.slab, slab.first_chunk, true) {
            return;
        }
        self.blocks += u64::from(used);
        if self.closed.is_empty() {
            self.first_chunk = slab.first_chunk;
        }
        if slab.first_chunk < self.first_chunk {
            let before = (self.first_chunk - slab.first_chunk) as usize;
            self.chunks.splice(0..0, std::iter::repeat_n(false, before));
            self.first_chunk = slab.first_chunk;
        }
        let from = (slab.first_chunk - self.first_chunk) as usize;
        let to = from + usize::from(pool.span);
        if self.chunks.len() < to {
            self.chunks.resize(to, false);
        }
        self.chunks[from..to].fill(true);
        self.closed.push(slab);
    }

    pub(super) fn closed(&self) -> &[Closed] {
        &self.closed
    }

    /// Whether they hold blocks of a pool.
    pub fn is_of(&self, pool: PoolId) -> bool {
        self.closed.iter().any(|closed| closed.pool == pool.0)
    }

    /// The blocks in use in them now, each with its size.
    pub fn blocks_in_use(&self) -> Vec<(u64, u64)> {
        let mut blocks = Vec::new();
        for closed in &self.closed {
            let pool = self.heap.pool_of(closed.pool);
            let shard = pool.shard(closed.shard);
            if shard.first_chunk(closed.slab) == Some(closed.first_chunk) {
                let start = closed.first_chunk * self.heap.image.chunk_size();
                let name = |number: u32| (pool.cut.name(start, u64::from(number)), pool.cut.block());
                blocks.extend(shard.used_from(closed.slab, 0).map(name));
            }
        }
        blocks
    }

    /// Everything in them has been moved or removed: they are empty as soon as no reader sees it.
    pub fn is_vacated(&self) {
        if let Some(run) = self.run {
            self.heap.note_vacated(run);
        }
    }

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
        let chunk = (offset / self.heap.image.chunk_size()).checked_sub(self.first_chunk);
        chunk.and_then(|chunk| self.chunks.get(chunk as usize)).copied().unwrap_or(false)
    }

    /// A new block, elsewhere, for the contents of the one at `offset`.
    pub fn allocate_for(&self, offset: u64) -> Result<Block<'_, P>, ImageError> {
        let pool = self.heap.pool_at(offset)?;
        match self.heap.take_leftover(pool) {
            Some(taken) => Ok(taken),
            // Taking another chunk to empty this one would gain nothing.
            None if self.run.is_some() => Err(ImageError::OutOfSpace {
                wanted: self.heap.pool_of(pool.0).cut.block(),
                why: "no other slab has a free block".into(),
            }),
            None => self.heap.allocate_from(pool),
        }
    }

    /// A copy, elsewhere, of the block at `offset`. Not flushed yet.
    ///
    /// # Safety
    /// A block begins there, and no other thread frees it or writes to it meanwhile.
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
        if self.run.is_none() {
            self.heap.open_again(&self.closed);
        }
    }
}
