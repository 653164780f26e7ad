//! Blocks picked at random, so that a caller that evicts finds items, of one size or of any.

use std::sync::atomic::Ordering;

use super::{Heap, PoolId};
use crate::Persist;

/// Slabs that are tried for each block.
const TRIES: usize = 8;

impl<P: Persist> Heap<P> {
    /// The pool of blocks for this many bytes of variable-length data, if there has been one since the heap was opened.
    pub fn class_pool(&self, bytes: u64) -> Option<PoolId> {
        let class = super::size_class(bytes)?;
        let known = self.class_pools[super::class_index(class)].get().copied();
        known.or_else(|| self.pool(class).ok())
    }

    /// Used blocks, picked at random, each with its size: up to `count`, of one pool or of all. The same block may
    /// come twice, and may be free by the time it is read. In a pool every slab is equally likely, among all pools
    /// every chunk.
    pub fn sample(&self, pool: Option<PoolId>, count: usize) -> Vec<(u64, u64)> {
        let chunks = self.chunk_map().chunks();
        (0..count)
            .filter_map(|_| {
                (0..TRIES).find_map(|_| match pool {
                    Some(pool) => self.sample_in(pool, self.draw(), self.draw()),
                    None => {
                        let chunk = self.draw() % chunks.max(1);
                        let locator = self.locator(chunk * self.image.chunk_size())?;
                        self.block_of(locator.pool, usize::from(locator.shard), locator.slab, self.draw())
                    }
                })
            })
            .collect()
    }

    /// A random number: the next of a sequence that every heap has for itself.
    pub(super) fn draw(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut mixed = self.drawn.fetch_add(STEP, Ordering::Relaxed);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn sample_in(&self, pool: PoolId, which: u64, block: u64) -> Option<(u64, u64)> {
        let of_pool = self.pool_of(pool.0);
        let shards = of_pool.shard_count() as u64;
        let (shard, slab) = (0..shards).find_map(|step| {
            let shard = ((which + step) % shards) as usize;
            Some((shard, of_pool.shard(shard).state_from(which / shards)?))
        })?;
        self.block_of(pool.0, shard, slab.index, block)
    }

    fn block_of(&self, pool: u16, shard: usize, slab: u32, draw: u64) -> Option<(u64, u64)> {
        let of_pool = self.pool_of(pool);
        let guard = of_pool.shard(shard);
        let first_chunk = guard.first_chunk(slab)?;
        let from = (draw % u64::from(of_pool.blocks)) as u32;
        let number = guard.used_from(slab, from).next()?;
        let name = of_pool.cut.name(first_chunk * self.image.chunk_size(), u64::from(number));
        Some((name, of_pool.cut.block()))
    }
}
