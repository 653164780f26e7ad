//! A slab: a run of chunks cut into blocks of one size.

/// Which blocks of a slab are taken; kept in memory, rebuilt at every opening.
pub(crate) struct Slab {
    pub(crate) first_chunk: u64,
    pub(crate) span: u16,
    blocks: u32,
    free: u32,
    /// A set bit is a block in use.
    used: Box<[u64]>,
    /// The word where the last free block was found.
    hint: usize,
    /// Where the slab stands in its shard's list of slabs with free blocks.
    pub(crate) listed_at: Option<usize>,
    /// Closed to allocation: it is being cleared.
    pub(crate) closed: bool,
}

impl Slab {
    pub(crate) fn empty(first_chunk: u64, span: u16, blocks: u32) -> Slab {
        Slab::with_used(first_chunk, span, blocks, vec![0; blocks.div_ceil(64) as usize].into_boxed_slice())
    }

    pub(crate) fn with_used(first_chunk: u64, span: u16, blocks: u32, mut used: Box<[u64]>) -> Slab {
        // Bits beyond the last block count as taken, so that a search never finds them.
        if !blocks.is_multiple_of(64)
            && let Some(last) = used.last_mut()
        {
            *last |= u64::MAX << (blocks % 64);
        }
        let free = used.iter().map(|word| word.count_zeros()).sum();
        Slab { first_chunk, span, blocks, free, used, hint: 0, listed_at: None, closed: false }
    }

    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    pub(crate) fn in_use(&self) -> u32 {
        self.blocks - self.free
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free == self.blocks
    }

    /// The numbers of the blocks in use, from one on, round to it again.
    pub(crate) fn used_from(&self, from: u32) -> impl Iterator<Item = u32> + '_ {
        let blocks = (from..self.blocks).chain(0..from.min(self.blocks));
        blocks.filter(|&block| self.used[(block / 64) as usize] >> (block % 64) & 1 == 1)
    }

    /// Takes a free block and gives its number.
    pub(crate) fn take(&mut self) -> Option<u32> {
        if self.free == 0 {
            return None;
        }
        let words = self.used.len();
        let at = (self.hint..words).chain(0..self.hint).find(|&at| self.used[at] != u64::MAX)?;
        let bit = self.used[at].trailing_ones();
        self.used[at] |= 1 << bit;
        self.hint = at;
        self.free -= 1;
        Some(at as u32 * 64 + bit)
    }

    /// Takes up to `count` free blocks, a word of them at a time; returns how many it took.
    pub(crate) fn take_many(&mut self, count: usize, mut each: impl FnMut(u32)) -> usize {
        let words = self.used.len();
        let mut left = count.min(self.free as usize);
        let taken = left;
        for at in (self.hint..words).chain(0..self.hint) {
            if left == 0 {
                break;
            }
            let mut free = !self.used[at];
            while free != 0 && left > 0 {
                each(at as u32 * 64 + free.trailing_zeros());
                free &= free - 1;
                left -= 1;
            }
            self.used[at] = !free;
            self.hint = at;
        }
        self.free -= taken as u32;
        taken
    }

    /// Gives a block back; `false` if it was not taken.
    pub(crate) fn give(&mut self, block: u32) -> bool {
        let (at, bit) = ((block / 64) as usize, 1_u64 << (block % 64));
        if block >= self.blocks || self.used[at] & bit == 0 {
            return false;
        }
        self.used[at] &= !bit;
        self.free += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_once() {
        for blocks in [1, 63, 64, 65, 200] {
            let mut slab = Slab::empty(3, 1, blocks);
            let mut taken: Vec<u32> = std::iter::from_fn(|| slab.take()).collect();
            taken.sort_unstable();
            assert_eq!(taken, (0..blocks).collect::<Vec<_>>());
            assert!(slab.give(blocks / 2) && !slab.give(blocks / 2) && !slab.give(blocks));
            assert_eq!((slab.take(), slab.take()), (Some(blocks / 2), None));
        }
    }

    #[test]
    fn every_block_once_when_many_are_taken() {
        for (blocks, at_once) in [(1, 5), (64, 64), (65, 3), (200, 70), (200, 1000)] {
            let mut slab = Slab::empty(3, 1, blocks);
            slab.take();
            let mut taken = vec![0];
            while slab.take_many(at_once, |block| taken.push(block)) > 0 {}
            taken.sort_unstable();
            assert_eq!(taken, (0..blocks).collect::<Vec<_>>());
            assert_eq!((slab.free(), slab.take()), (0, None));
            assert!(slab.give(0) && slab.take_many(7, |block| assert_eq!(block, 0)) == 1);
        }
    }
}
