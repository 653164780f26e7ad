//! Whole slabs, for callers that manage the blocks themselves.

use super::descriptor::Descriptor;
use super::slab::Slab;
use super::{FREED_AT_ONCE, Heap, PoolId, home_shard};
use crate::{ImageError, Persist};

impl<P: Persist> Heap<P> {
    /// All blocks of a new slab: the offset of the first and their number, side by side or in [tiles](super::Tile).
    /// They count as allocated, one by one, and each is [freed](Heap::free) like any other; unreachable ones are
    /// free when the image is opened again.
    pub fn allocate_slab(&self, pool: PoolId) -> Result<(u64, u64), ImageError> {
        let of_pool = self.pool_of(pool.0);
        // Freeing postponed blocks may free whole chunks, so that the image need not grow.
        let first_chunk = loop {
            if let Ok(first_chunk) = self.take_chunks(u64::from(of_pool.span), false) {
                break first_chunk;
            }
            if self.free_postponed(FREED_AT_ONCE)? == 0 {
                break self.take_chunks(u64::from(of_pool.span), true)?;
            }
        };
        self.image.describe(first_chunk, Descriptor::Slab { cut: of_pool.cut, span: of_pool.span });
        self.image.flush_descriptor("heap.slab", first_chunk);
        // Another thread may publish a block of this slab, and its fence does not cover our flush.
        self.image.fence("heap.slab");
        let used = vec![u64::MAX; of_pool.blocks.div_ceil(64) as usize].into_boxed_slice();
        let slab = Slab::with_used(first_chunk, of_pool.span, of_pool.blocks, used);
        self.register(pool, home_shard(self.shards), slab);
        Ok((first_chunk * self.image.chunk_size(), u64::from(of_pool.blocks)))
    }
}
