//! Many blocks of one size, allocated and freed together: for batches of a million records, which single
//! allocations would slow down.

use std::sync::MutexGuard;

use super::pool::{Given, Locator, Shard};
use super::{Heap, PoolId, home_shard};
use crate::{ImageError, Persist};

/// Freshly allocated blocks of one size, owned by the code that allocated them until their offsets are published.
///
/// Dropping them frees those that were not [handed over](Blocks::hand_over).
pub struct Blocks<'a, P: Persist> {
    heap: &'a Heap<P>,
    /// 0 where the block has been handed over: no block lies there.
    offsets: Vec<u64>,
}

impl<P: Persist> Blocks<'_, P> {
    /// The offset of each in the image; 0 for those that have been handed over.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// Assigns a block, in order, to each of `count` positions that `takes` selects; the others get none.
    ///
    /// # Panics
    /// If more positions are selected than there are blocks.
    #[must_use]
    pub fn spread(mut self, count: usize, takes: impl Fn(usize) -> bool) -> Self {
        if self.offsets.len() < count {
            let mut left = std::mem::take(&mut self.offsets).into_iter();
            self.offsets.extend((0..count).map(|index| match takes(index) {
                true => left.next().expect("a block for each that is named"),
                false => 0,
            }));
            // Surplus blocks are freed with the others.
            self.offsets.extend(left);
        }
        self
    }

    /// Hands one over: its offset has been published, so it is no longer given back.
    #[inline]
    pub fn hand_over(&mut self, index: usize) -> u64 {
        std::mem::take(&mut self.offsets[index])
    }
}

impl<P: Persist> Drop for Blocks<'_, P> {
    fn drop(&mut self) {
        self.offsets.retain(|&offset| offset != 0);
        // They were allocated by this heap and are freed once, so this cannot fail.
        let freed = self.heap.free_many(&self.offsets);
        debug_assert!(freed.is_ok(), "{freed:?}");
    }
}

/// The shard that was locked last, so that neighbours need not lock it again.
struct Held<'h> {
    pool: u16,
    shard: u8,
    guard: MutexGuard<'h, Shard>,
}

impl<P: Persist> Heap<P> {
    /// Allocates `count` blocks from a pool; all of them, or an error.
    pub fn allocate_many(&self, pool: PoolId, count: usize) -> Result<Blocks<'_, P>, ImageError> {
        let mut blocks = Blocks { heap: self, offsets: Vec::with_capacity(count) };
        self.take_many(pool, count, usize::MAX, &mut blocks.offsets)?;
        Ok(blocks)
    }

    /// Takes blocks from a pool until there are `count`: together they cost less than one by one. Each turn
    /// allocates one block, which may create a new slab; after `turns` turns it returns with what it has.
    pub(super) fn take_many(
        &self,
        pool: PoolId,
        count: usize,
        turns: usize,
        offsets: &mut Vec<u64>,
    ) -> Result<(), ImageError> {
        let (of_pool, chunk_size) = (self.pool_of(pool.0), self.image.chunk_size());
        let take = |offsets: &mut Vec<u64>, shard: usize| {
            let missing = count - offsets.len();
            of_pool.shard(shard).take_many(missing, |first_chunk, number| {
                offsets.push(of_pool.cut.name(first_chunk * chunk_size, u64::from(number)));
            });
        };
        let home = home_shard(self.shards);
        take(offsets, home);
        for _ in 0..turns {
            if offsets.len() >= count {
                break;
            }
            // If there was room for a new slab, it has more blocks for the home shard. Otherwise this block came
            // from another shard, which is likely to have more: taking them one by one would dominate the cost.
            offsets.push(self.allocate_from(pool)?.into_offset());
            take(offsets, home);
            let mut others = (0..self.shards).filter(|&shard| shard != home);
            while offsets.len() < count
                && let Some(other) = others.next()
            {
                take(offsets, other);
            }
        }
        Ok(())
    }

    /// Frees the block at `offset`. See the contract above.
    pub fn free(&self, offset: u64) -> Result<(), ImageError> {
        self.give_back(offset, &mut None)
    }

    /// Frees many blocks. A block that cannot be freed does not affect the others; the first error is returned.
    pub fn free_many(&self, offsets: &[u64]) -> Result<(), ImageError> {
        if let [offset] = *offsets {
            return self.free(offset);
        }
        let mut held = None;
        let mut freed = Ok(());
        // Sorted by shard, so that each shard is locked once.
        let shard_of = |offset: u64| self.locator(offset).map(|locator| (locator.pool, locator.shard));
        let mut by_shard: Vec<_> = offsets.iter().map(|&offset| (shard_of(offset), offset)).collect();
        by_shard.sort_by_key(|&(shard, _)| shard);
        for (_, offset) in by_shard {
            freed = freed.and(self.give_back(offset, &mut held));
        }
        freed
    }

    fn give_back<'h>(&'h self, offset: u64, held: &mut Option<Held<'h>>) -> Result<(), ImageError> {
        let wrong = |what: &str| ImageError::Invalid(format!("no block can be freed at {offset}: {what}"));
        let locator = self.locator(offset).ok_or_else(|| wrong("no slab is there"))?;
        let Locator { pool: number, shard, slab } = locator;
        let pool = self.pool_of(number);
        if held.as_ref().is_none_or(|held| (held.pool, held.shard) != (number, shard)) {
            // The old one first: two at once could wait for each other.
            *held = None;
            *held = Some(Held { pool: number, shard, guard: pool.shard(usize::from(shard)) });
        }
        let guard = &mut held.as_mut().expect("it has just been locked").guard;
        let first_chunk = guard.first_chunk(slab).ok_or_else(|| wrong("its slab is gone"))?;
        let block = pool.cut.number(first_chunk * self.image.chunk_size(), offset);
        let block = block.ok_or_else(|| wrong("no block begins there"))?;
        match guard.give(slab, block as u32) {
            Given::Kept => Ok(()),
            Given::NotInUse => Err(wrong("it is free already")),
            Given::Emptied { first_chunk } => {
                *held = None;
                self.forget_slab(first_chunk, u64::from(pool.span));
                Ok(())
            }
        }
    }
}
