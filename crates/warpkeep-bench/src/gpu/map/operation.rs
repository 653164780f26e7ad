//! What is done with a map.

use std::fmt;

use super::pairs::Pairs;

/// A batch of operations on all keys of a map, or on some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// All keys at once, into an empty map.
    Insert,
    /// All keys.
    Hit,
    /// As many keys that are not there.
    Miss,
    /// Lookups, additions, inserts and erases of a sixteenth of the keys, in one batch.
    Mixed,
    /// All keys at once.
    Erase,
}

impl Operation {
    pub(super) const ALL: [Operation; 5] =
        [Operation::Insert, Operation::Hit, Operation::Miss, Operation::Mixed, Operation::Erase];

    /// Reads that it cannot do with less of: a key that is not there might be in both of its buckets, and a value that is apart is not in the
    /// bucket.
    pub(super) fn reads(self, pairs: Pairs) -> u32 {
        if self == Operation::Miss { 2 } else { 1 + u32::from(pairs.are_apart()) }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Insert => "bulk insert",
            Operation::Hit => "find, hit",
            Operation::Miss => "find, miss",
            Operation::Mixed => "mixed",
            Operation::Erase => "erase",
        })
    }
}
