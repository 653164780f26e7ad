//! Which neighbours of a key count.

use super::key::OrderedWord;

/// What [`successor`](super::OrderedMap::successor) and [`predecessor`](super::OrderedMap::predecessor) accept.
///
/// ```
/// use warpkeep_containers::Near;
///
/// // An as-of join: the quote at the time of the trade or before, not older than five seconds, of the same symbol, which the
/// // upper 24 bits of the key number.
/// let as_of = Near::or_equal().within(5_000_000_u64).in_group(40);
/// # let _ = as_of;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Near<K> {
    pub(super) or_equal: bool,
    pub(super) tolerance: K,
    pub(super) group_bits: u32,
}

impl<K: OrderedWord> Near<K> {
    /// Keys that differ from the one that was given.
    pub fn strict() -> Self {
        Self { or_equal: false, tolerance: K::LARGEST, group_bits: 128 }
    }

    /// The key itself if it is there, or the nearest other.
    pub fn or_equal() -> Self {
        Self { or_equal: true, ..Self::strict() }
    }

    /// Only keys whose difference from the given one is not more than this.
    #[must_use]
    pub fn within(self, tolerance: K) -> Self {
        Self { tolerance, ..self }
    }

    /// Only keys that differ from the given one in the lowest `bits` bits alone: for keys that have an entity in the upper bits and a time
    /// in the lower ones.
    #[must_use]
    pub fn in_group(self, bits: u32) -> Self {
        Self { group_bits: bits.min(128), ..self }
    }

    pub(super) fn accepts(&self, key: K, found: K) -> bool {
        let (key, found) = (key.to_u128(), found.to_u128());
        key.abs_diff(found) <= self.tolerance.to_u128()
            && (self.group_bits >= 128 || (key ^ found) >> self.group_bits == 0)
    }
}
