//! How a slab hash is laid out, and what is in it.

/// Two bits of a pair say what it is: those that the number of the bucket saves.
const LEAST_BITS: u32 = 2;
const MOST_BITS: u32 = 30;

/// How a [`SlabMap`](crate::SlabMap), [`SlabSet`](crate::SlabSet) or [`SlabMultiMap`](crate::SlabMultiMap) is laid
/// out, and how large it may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabHashOptions {
    /// Pairs that there is room for at first.
    pub capacity: u64,
    /// Bytes of a slab: 64 for 7 pairs, or 128 for 15.
    pub slab_bytes: u32,
    /// Slabs behind the first ones of all buckets, at most.
    pub most_slabs: u32,
    /// Buckets, at most; rounded down to a power of two, of which four is the least.
    pub most_buckets: u32,
    /// What keys are mixed with. Who chooses keys should not know it.
    pub seed: u64,
}

impl Default for SlabHashOptions {
    fn default() -> Self {
        Self { capacity: 0, slab_bytes: 64, most_slabs: 1 << 28, most_buckets: 1 << MOST_BITS, seed: 0 }
    }
}

/// What is in a [`SlabMap`](crate::SlabMap), [`SlabSet`](crate::SlabSet) or [`SlabMultiMap`](crate::SlabMultiMap).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlabHashStats {
    /// Pairs.
    pub len: u64,
    /// Places of deleted pairs, which a flush frees. Unless keys may have several values, their keys take them again, too.
    pub tombstones: u64,
    /// Buckets.
    pub buckets: u64,
    /// Slabs behind the first ones of the buckets.
    pub chained_slabs: u64,
    /// Bytes of pairs in proportion to the bytes of all slabs.
    pub utilisation: f64,
    /// Bytes of device memory.
    pub bytes: u64,
}

impl SlabHashOptions {
    /// The buckets for this many places, as a power of two: at most 0.9 slabs each.
    pub(crate) fn bits_for(&self, slots: u64) -> u32 {
        let each = u64::from(self.slab_bytes / 8 - 1);
        let buckets = slots.saturating_mul(10).div_ceil(9 * each).max(1);
        let most = self.most_buckets.max(1).ilog2().clamp(LEAST_BITS, MOST_BITS);
        buckets.next_power_of_two().ilog2().clamp(LEAST_BITS, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_a_power_of_two_with_nine_tenths_of_a_slab_each() {
        let options = SlabHashOptions { most_buckets: 1 << 20, ..SlabHashOptions::default() };
        assert_eq!([0, 25, 26, 50, 51].map(|slots| options.bits_for(slots)), [2, 2, 3, 3, 4]);
        assert_eq!(options.bits_for(u64::MAX), 20);
        assert_eq!(SlabHashOptions { slab_bytes: 128, ..options }.bits_for(100), 3);
    }
}
