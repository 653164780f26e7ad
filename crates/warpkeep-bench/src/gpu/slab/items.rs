//! Keys and values of 32 bits, each by a number.

use warpkeep_core::{Seed, mix64};

use crate::kernels::RESERVED_KEYS;

/// Numbers from here on are of keys that are never in a table.
pub(crate) const ABSENT: u32 = 1 << 31;

/// Keys and their values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Items {
    seed: u64,
}

impl Items {
    pub(crate) fn new(seed: u64) -> Items {
        Items { seed: mix64(Seed(seed), 0) }
    }

    /// Every number below the reserved keys has another, and none of them is reserved.
    pub(crate) fn key(&self, number: u32) -> u32 {
        let mut key = mix32(self.seed as u32, number);
        // A bijection of all numbers becomes one of those below a bound if it is applied until the result is one of them.
        while key >= RESERVED_KEYS {
            key = mix32(self.seed as u32, key);
        }
        key
    }

    /// Never the largest number, which a cuckoo index cannot store.
    pub(crate) fn value(&self, number: u32) -> u32 {
        (mix64(Seed(self.seed), u64::from(number)) >> 33) as u32
    }
}

/// A bijection of numbers of 32 bits.
pub(crate) fn mix32(seed: u32, number: u32) -> u32 {
    let mut x = number ^ seed;
    for multiplier in [0x7feb_352d_u32, 0x846c_a68b] {
        x = (x ^ (x >> 16)).wrapping_mul(multiplier);
        x ^= x >> 15;
    }
    x ^ (x >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_and_none_is_reserved() {
        let items = Items::new(3);
        let ends = [(0, 5000), (ABSENT, ABSENT + 5000), (RESERVED_KEYS - 5000, RESERVED_KEYS)];
        let numbers = ends.into_iter().flat_map(|(from, to)| from..to);
        let mut keys: Vec<u32> = numbers.map(|number| items.key(number)).collect();
        assert!(keys.iter().all(|&key| key < RESERVED_KEYS));
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }
}
