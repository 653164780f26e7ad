//! A permutation of numbers, so that those requested most do not lie side by side.

use warpkeep_core::{Seed, mix64};

/// A permutation of the numbers below an end, so that it changes no distribution.
///
/// ```
/// use warpkeep_bench::workload::Scramble;
///
/// let scramble = Scramble::new(10, 1);
/// let mut all: Vec<u64> = (0..10).map(|number| scramble.apply(number)).collect();
/// all.sort_unstable();
/// assert_eq!(all, (0..10).collect::<Vec<_>>());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Scramble {
    end: u64,
    /// All bits that a number below `end` can have.
    mask: u64,
    shift: u32,
    factors: [u64; 2],
    offset: u64,
}

impl Scramble {
    /// Of the numbers below `end`.
    pub fn new(end: u64, seed: u64) -> Scramble {
        let bits = 64 - end.saturating_sub(1).leading_zeros();
        let mask = if bits == 0 { 0 } else { u64::MAX >> (64 - bits) };
        let word = |part| mix64(Seed(seed), part);
        Scramble { end, mask, shift: bits / 2 + 1, factors: [word(1) | 1, word(2) | 1], offset: word(3) }
    }

    /// The image of a number. Numbers from `end` on are not accepted.
    #[inline]
    pub fn apply(&self, number: u64) -> u64 {
        debug_assert!(number < self.end.max(1), "{number} of {}", self.end);
        let mut x = number;
        // A walk along the cycle of a permutation of all such bit patterns: it returns below `end`, in two steps on
        // average at most.
        loop {
            x = x.wrapping_add(self.offset) & self.mask;
            for factor in self.factors {
                x = x.wrapping_mul(factor) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.end || self.end == 0 {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::fit;

    #[test]
    fn every_number_comes_once() {
        for end in [1, 2, 3, 7, 8, 9, 1000, 1024, 1025, 70_000] {
            let scramble = Scramble::new(end, 5);
            let mut seen = vec![false; end as usize];
            for number in 0..end {
                let to = scramble.apply(number) as usize;
                assert!(!std::mem::replace(&mut seen[to], true), "{number} of {end}");
            }
        }
    }

    #[test]
    fn neighbours_are_torn_apart() {
        let scramble = Scramble::new(1 << 20, 1);
        let near =
            (0..1000).filter(|&number| scramble.apply(number).abs_diff(scramble.apply(number + 1)) < 64);
        assert!(near.count() < 5);
        // The first thousand, which Zipf's law likes best, lie all over.
        let mut counts = [0; 16];
        (0..1000).for_each(|number| counts[(scramble.apply(number) >> 16) as usize] += 1);
        assert!(fit::chi_square(&counts, &[1.0; 16]).abs() < 4.0, "{counts:?}");
        let other = Scramble::new(1 << 20, 2);
        assert!((0..1000).filter(|&number| scramble.apply(number) == other.apply(number)).count() < 5);
    }
}
