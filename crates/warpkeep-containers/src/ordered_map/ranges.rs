//! The pairs of ranges.

use std::ops::Range;

/// The pairs of several ranges, one range behind the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderedRanges<K, V> {
    /// Where the pairs of each range begin in `keys` and `values`, and behind the last, where they end.
    pub offsets: Vec<usize>,
    /// How many keys each range has: more than there are pairs of it here, if there was a limit.
    pub counts: Vec<u64>,
    /// The keys, in order within each range.
    pub keys: Vec<K>,
    /// Their values.
    pub values: Vec<V>,
}

impl<K, V> OrderedRanges<K, V> {
    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The keys and values of a range.
    ///
    /// # Panics
    /// If there are fewer ranges.
    pub fn of(&self, range: usize) -> (&[K], &[V]) {
        let at = self.place(range);
        (&self.keys[at.clone()], &self.values[at])
    }

    /// Whether a range has more keys than the limit was.
    ///
    /// # Panics
    /// If there are fewer ranges.
    pub fn is_truncated(&self, range: usize) -> bool {
        (self.place(range).len() as u64) < self.counts[range]
    }

    fn place(&self, range: usize) -> Range<usize> {
        self.offsets[range]..self.offsets[range + 1]
    }
}
