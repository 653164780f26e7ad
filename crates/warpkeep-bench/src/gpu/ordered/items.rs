//! The pairs of a map. Their order is known without a search, so that every answer can be checked at any size.

use std::marker::PhantomData;

use warpkeep_containers::OrderedWord;
use warpkeep_core::{Seed, mix64, reduce};

/// Pairs, each by the rank of its key. The keys are divided into as many intervals as there are pairs: the key of a pair lies anywhere in the lower
/// half of its interval, and a key that is not in the map anywhere in the upper half.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Items<K, V> {
    pub(crate) count: u64,
    seed: Seed,
    /// Half of an interval.
    half: u64,
    types: PhantomData<(K, V)>,
}

impl<K: OrderedWord, V: OrderedWord> Items<K, V> {
    pub(crate) fn new(seed: u64, count: u64) -> Self {
        let half = (K::LARGEST.to_u128() / u128::from(count) / 2) as u64;
        Items { count, seed: Seed(seed), half, types: PhantomData }
    }

    /// The key with this number of keys below it.
    pub(crate) fn key(&self, rank: u64) -> K {
        let within = reduce(mix64(self.seed, rank), self.half);
        K::from_u128(u128::from(2 * rank * self.half + within))
    }

    /// Its value.
    pub(crate) fn value(&self, rank: u64) -> V {
        V::from_u128(mix64(self.seed.derive(1), rank).into())
    }

    /// A key that is not in the map, above the key with this rank and below the next one.
    pub(crate) fn absent(&self, rank: u64) -> K {
        let within = reduce(mix64(self.seed.derive(2), rank), self.half);
        K::from_u128(u128::from((2 * rank + 1) * self.half + within))
    }

    /// The value that is inserted with it.
    pub(crate) fn absent_value(&self, rank: u64) -> V {
        V::from_u128(mix64(self.seed.derive(3), rank).into())
    }

    /// The rank that a number has in a random order of all ranks. Each number below the count has another.
    pub(crate) fn shuffled(&self, number: u64) -> u64 {
        let bits = u64::BITS - (self.count - 1).leading_zeros();
        let (mask, shift) = ((1_u64 << bits) - 1, bits.div_ceil(2));
        let mut rank = number;
        // Every step maps the numbers of these bits one to one; those that are no ranks take it again.
        loop {
            for step in 4..7 {
                let word = self.seed.derive(step).0;
                rank = rank.wrapping_mul(word | 1).wrapping_add(word >> 7) & mask;
                rank ^= rank >> shift;
            }
            if rank < self.count {
                return rank;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn assert_keys_are_in_order<K: OrderedWord, V: OrderedWord>(count: u64) {
        let items = Items::<K, V>::new(3, count);
        let keys = (0..count).flat_map(|rank| [items.key(rank), items.absent(rank)]);
        let keys: Vec<K> = keys.collect();
        assert!(keys.windows(2).all(|two| two[0] < two[1]));
        // They cover most of what a key can be.
        assert!(keys[keys.len() - 1].to_u128() > K::LARGEST.to_u128() / 10 * 9);
    }

    #[test]
    fn ranks_are_in_the_order_of_keys() {
        assert_keys_are_in_order::<u32, u32>(1 << 16);
        assert_keys_are_in_order::<u32, u32>(16);
        assert_keys_are_in_order::<u64, u64>(100_003);
    }

    #[test]
    fn the_largest_map_has_keys_of_32_bits() {
        let items = Items::<u32, u32>::new(3, 1 << 30);
        let last = (1 << 30) - 1;
        assert!(items.key(last) > items.absent(last - 1) && items.absent(last) > items.key(last));
    }

    #[test]
    fn a_random_order_has_every_rank_once() {
        for count in [16_u64, 17, 1000, 1024] {
            let items = Items::<u64, u64>::new(9, count);
            let ranks: Vec<u64> = (0..count).map(|number| items.shuffled(number)).collect();
            assert!(ranks.iter().all(|&rank| rank < count));
            assert_eq!(ranks.iter().collect::<HashSet<_>>().len() as u64, count);
            let ascents = ranks.windows(2).filter(|two| two[0] < two[1]).count() as u64;
            assert!(ascents > count / 4 && ascents < count - count / 5, "{ascents} of {count}");
        }
    }
}
