//! Log sequence numbers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The place of a record in the history of a store: larger is later.
///
/// The upper 24 bits are the *epoch*, which grows by one each time the store is opened for writing; the lower
/// 40 bits count records within it. Numbers drawn by a process that died before logging them are therefore never
/// drawn again, although none of them was stored.
///
/// ```
/// use warpkeep_core::Lsn;
/// let first = Lsn::new(3, 1);
/// assert!(first > Lsn::new(2, 900));
/// assert_eq!(first.next(), Lsn::new(3, 2));
/// assert_eq!(first.to_string(), "3.1");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lsn(u64);

impl Lsn {
    /// Before every record.
    pub const ZERO: Lsn = Lsn(0);
    /// How many bits count records within an epoch.
    pub const COUNTER_BITS: u32 = 40;
    /// The largest epoch.
    pub const MAX_EPOCH: u64 = (1 << (64 - Self::COUNTER_BITS)) - 1;
    /// The largest count within an epoch.
    pub const MAX_COUNTER: u64 = (1 << Self::COUNTER_BITS) - 1;

    /// The number of record `counter` in `epoch`; both are cut to their widths.
    pub const fn new(epoch: u64, counter: u64) -> Lsn {
        Lsn(((epoch & Self::MAX_EPOCH) << Self::COUNTER_BITS) | (counter & Self::MAX_COUNTER))
    }

    /// From its bits, as stored on disk.
    pub const fn from_bits(bits: u64) -> Lsn {
        Lsn(bits)
    }

    /// Its bits, as stored on disk.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Which opening of the store drew it.
    pub const fn epoch(self) -> u64 {
        self.0 >> Self::COUNTER_BITS
    }

    /// Its count within the epoch; the first record has 1.
    pub const fn counter(self) -> u64 {
        self.0 & Self::MAX_COUNTER
    }

    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Lsn {
        Lsn(self.0 + 1)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch(), self.counter())
    }
}
