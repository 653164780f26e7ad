//! Shards: runs of buckets, each a hash table of its own.
//!
//! The product of a key's hash and the number of shards has 128 bits. The upper half is the shard; the top bits of the
//! lower half, the fraction, are the home bucket, however many buckets the shard has.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use warpkeep_image::{Image, Persist};

use crate::bucket::{BUCKET, Bucket, Shape, Words};

/// How many buckets from its home on a key may be in.
pub const PROBING_SCOPE: usize = 16;
/// The most shards of a table.
pub(crate) const MAX_SHARDS: u32 = 1 << 20;
/// How full a table is when it has the items it was created for, as a share of the slots that items can be in.
pub(crate) const CREATION_LOAD: f64 = 0.86;

/// The fewest shards, however small the table, so that many writers can work at once.
const MIN_SHARDS: u64 = 1024;
/// Buckets that a shard of a large table begins with, as bits: with fewer, chance fills some shards long before the
/// others.
const USUAL_BITS: u32 = 7;

/// The offset and number of a shard's buckets: one word, so that one load reads both.
///
/// | bits | meaning |
/// | --- | --- |
/// | 0..6 | the number of buckets is 2 to this |
/// | 6 | items were displaced within it, so one may exist twice after a crash |
/// | 7..48 | offset of the first bucket, in units of 256 bytes |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) offset: u64,
    pub(crate) bits: u32,
    pub(crate) crowded: bool,
}

/// The largest shard, in bits: larger than any image.
const MAX_BITS: u32 = 39;

impl Run {
    pub(crate) fn to_word(self) -> u64 {
        debug_assert!(self.offset.is_multiple_of(BUCKET) && self.offset >> 49 == 0);
        (self.offset / BUCKET) << 7 | u64::from(self.crowded) << 6 | u64::from(self.bits)
    }

    pub(crate) fn from_word(word: u64) -> Run {
        Run { offset: (word >> 7) * BUCKET, bits: (word & 63) as u32, crowded: word >> 6 & 1 == 1 }
    }

    pub(crate) fn buckets(self) -> u64 {
        1 << self.bits
    }

    /// Bytes in a run of 2^`bits` buckets; `None` if there is no such run.
    pub(crate) fn bytes_of(bits: u32) -> Option<u64> {
        (bits <= MAX_BITS).then(|| BUCKET << bits)
    }

    pub(crate) fn bytes(self) -> u64 {
        BUCKET << self.bits
    }

    /// Slots that items can be in.
    pub(crate) fn usable(self, shape: Shape) -> u64 {
        self.buckets() * shape.usable() as u64
    }

    pub(crate) fn slots(self, shape: Shape) -> u64 {
        self.buckets() * shape.slots() as u64
    }
}

/// The shard of a hash among `shards`, and the fraction that determines the position in it.
#[inline]
pub(crate) fn locate(hash: u64, shards: usize) -> (usize, u64) {
    let product = u128::from(hash) * shards as u128;
    ((product >> 64) as usize, product as u64)
}

/// The home bucket of a fraction, of 2 to the `bits`.
#[inline]
pub(crate) fn home(fraction: u64, bits: u32) -> usize {
    fraction.checked_shr(64 - bits).unwrap_or(0) as usize
}

/// The buckets of a shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shard<'a> {
    buckets: &'a [Words],
    pub(crate) run: Run,
}

impl<'a> Shard<'a> {
    /// The buckets of a run that lies within the image.
    #[inline]
    pub(crate) fn new<P: Persist>(image: &'a Image<P>, run: Run) -> Shard<'a> {
        let first = image.pointer(run.offset, run.bytes()).cast::<Words>();
        // SAFETY: `pointer` checked that all buckets lie within the image, which is mapped while it is borrowed; runs
        // begin at multiples of 256 bytes. Words of buckets that can be found are only ever accessed atomically.
        let buckets = unsafe { std::slice::from_raw_parts(first, run.buckets() as usize) };
        Shard { buckets, run }
    }

    #[inline]
    pub(crate) fn bucket(&self, number: usize) -> Bucket<'a> {
        Bucket { words: &self.buckets[number], at: self.run.offset + BUCKET * number as u64 }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Bucket<'a>> + use<'a> {
        let shard = *self;
        (0..self.buckets.len()).map(move |number| shard.bucket(number))
    }

    /// The buckets that a key may be in, its home first.
    #[inline]
    pub(crate) fn path(&self, fraction: u64) -> impl Iterator<Item = Bucket<'a>> + use<'a> {
        let (shard, home) = (*self, home(fraction, self.run.bits));
        let mask = self.buckets.len() - 1;
        (0..PROBING_SCOPE.min(self.buckets.len())).map(move |step| shard.bucket((home + step) & mask))
    }
}

/// The state of a shard, protected by its writer lock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) items: u64,
    /// Slots marked as deleted.
    pub(crate) deleted: u64,
    /// Of them, those since the length of searches was last measured.
    pub(crate) unmeasured: u64,
}

/// The lock of a shard. It has a line of its own, so that writers of neighbours do not meet.
#[repr(align(64))]
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) tally: Mutex<Tally>,
    /// How often the shard was rebuilt. Its run does not show that: freed space is reused.
    pub(crate) rebuilt: AtomicU64,
}

/// The runs of all shards, as readers see them: eight in a line that only growth writes to.
pub(crate) type Mirror = Box<[AtomicU64]>;

/// How many shards suit a capacity, and how many buckets (as bits) each then begins with.
pub(crate) fn layout_for(capacity: u64, shape: Shape, asked: u32) -> (u32, u32) {
    let buckets = (capacity as f64 / CREATION_LOAD / shape.usable() as f64).ceil().max(1.0);
    if asked != 0 {
        let each = (buckets / f64::from(asked)).ceil() as u64;
        return (asked, each.next_power_of_two().trailing_zeros());
    }
    let with = |bits: u32| (buckets / 2_f64.powi(bits as i32)).ceil() as u64;
    let mut bits = USUAL_BITS;
    while bits > 0 && with(bits) < MIN_SHARDS {
        bits -= 1;
    }
    while with(bits) > u64::from(MAX_SHARDS) {
        bits += 1;
    }
    (with(bits).max(MIN_SHARDS) as u32, bits)
}

/// The number of shards of a table with such items and capacity, unless its [`TableSpec`](crate::TableSpec) sets
/// it.
pub fn default_shards(key: warpkeep_core::KeySpec, value: warpkeep_core::ValueSpec, capacity: u64) -> u32 {
    layout_for(capacity, Shape::new(key, value), 0).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_runs() {
        let runs = [(256, 0, false), ((1 << 48) - 256, 39, true)];
        for run in runs.map(|(offset, bits, crowded)| Run { offset, bits, crowded }) {
            assert_eq!(Run::from_word(run.to_word()), run);
            assert_eq!(run.to_word() >> 48, 0);
        }
    }

    #[test]
    fn doubling_a_shard_splits_each_bucket_in_two() {
        for hash in (0..100_u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            let (shard, fraction) = locate(hash, 1000);
            assert!(shard < 1000);
            assert_eq!(home(fraction, 0), 0);
            (0..20).for_each(|bits| assert_eq!(home(fraction, bits + 1) / 2, home(fraction, bits)));
        }
    }

    #[test]
    fn shards_suit_the_capacity() {
        for shape in [Shape::References, Shape::Values { len: 8 }] {
            for capacity in [0, 1, 1000, 100_000, 3_000_000, 1 << 30, 1 << 40] {
                let (shards, bits) = layout_for(capacity, shape, 0);
                let slots = f64::from(shards) * 2_f64.powi(bits as i32) * shape.usable() as f64;
                assert!(slots * CREATION_LOAD >= capacity as f64, "{capacity}: {shards} x 2^{bits}");
                assert!(u64::from(shards) >= MIN_SHARDS && shards <= MAX_SHARDS);
                assert!(capacity < 20_000 || slots * CREATION_LOAD < capacity as f64 * 1.01 + 20_000.0);
            }
        }
        assert_eq!(layout_for(100, Shape::References, 4), (4, 2));
    }
}
