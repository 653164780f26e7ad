//! How a table is laid out: levels, hash locations, slots a bucket.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use warpkeep_core::{reduce, second_hash};

use crate::TableError;

/// Slots that can hold a key: one warp looks at all of them at once.
pub const CANDIDATES: u32 = 32;
/// The most hash locations of a geometry.
pub(crate) const MAX_HASHES: usize = 8;

/// Levels x hash locations x slots a bucket; the product is always 32.
///
/// ```
/// use warpkeep_gphash::Geometry;
/// assert_eq!(Geometry::default().to_string(), "2L-2H-8S");
/// assert_eq!("2L-4H-4S".parse::<Geometry>()?, Geometry::new(2, 4, 4)?);
/// assert!(Geometry::new(3, 2, 8).is_err());
/// # Ok::<(), warpkeep_gphash::TableError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Geometry {
    levels: u8,
    hashes: u8,
    slots: u8,
}

impl Default for Geometry {
    fn default() -> Geometry {
        Geometry { levels: 2, hashes: 2, slots: 8 }
    }
}

impl Geometry {
    /// A geometry, if it is one: each part a power of two, 32 candidates in all.
    pub fn new(levels: u8, hashes: u8, slots: u8) -> Result<Geometry, TableError> {
        let parts = [levels, hashes, slots];
        let product: u32 = parts.iter().map(|&part| u32::from(part)).product();
        let fits = product == CANDIDATES && usize::from(hashes) <= MAX_HASHES && slots >= 2 && levels <= 8;
        match fits {
            true => Ok(Geometry { levels, hashes, slots }),
            false => Err(TableError::Geometry { levels, hashes, slots }),
        }
    }

    /// Levels; the top one is addressed by hash, the others are shared by the buckets above them.
    pub fn levels(self) -> usize {
        usize::from(self.levels)
    }

    /// Hash locations of a key.
    pub fn hashes(self) -> usize {
        usize::from(self.hashes)
    }

    /// Slots in a bucket.
    pub fn slots(self) -> usize {
        usize::from(self.slots)
    }

    /// The top bucket of each hash location, among `buckets`.
    #[inline]
    pub(crate) fn locations(self, hash: u64, buckets: u64) -> Locations {
        let mut tops = [0; MAX_HASHES];
        let mut hash = hash;
        for top in &mut tops[..self.hashes()] {
            *top = reduce(hash, buckets);
            hash = second_hash(hash);
        }
        Locations { tops, count: self.hashes }
    }

    /// Buckets of the top level for this many items, so that the table is at most `load` full.
    pub(crate) fn buckets_for(self, items: u64, load: f64) -> u64 {
        // Each level has half the buckets of the one above.
        let shares: f64 = (0..self.levels).map(|level| 0.5_f64.powi(i32::from(level))).sum();
        let buckets = (items as f64 / load / shares / f64::from(self.slots)).ceil() as u64;
        let unit = 1 << (self.levels - 1);
        buckets.max(2).next_multiple_of(unit)
    }

    /// As stored with a table.
    pub fn to_word(self) -> u64 {
        u64::from_le_bytes([self.levels, self.hashes, self.slots, 0, 0, 0, 0, 0])
    }

    /// From what was stored with a table; `None` if it is no geometry.
    pub fn from_word(word: u64) -> Option<Geometry> {
        let [levels, hashes, slots, 0, 0, 0, 0, 0] = word.to_le_bytes() else {
            return None;
        };
        Geometry::new(levels, hashes, slots).ok()
    }
}

/// The top buckets of a key.
#[derive(Clone, Copy)]
pub(crate) struct Locations {
    tops: [u64; MAX_HASHES],
    count: u8,
}

impl Locations {
    #[inline]
    pub(crate) fn tops(&self) -> &[u64] {
        &self.tops[..usize::from(self.count)]
    }
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}L-{}H-{}S", self.levels, self.hashes, self.slots)
    }
}

impl FromStr for Geometry {
    type Err = TableError;

    fn from_str(text: &str) -> Result<Geometry, TableError> {
        let bad = || TableError::GeometryText { text: text.to_owned() };
        let mut parts =
            text.split('-').zip(["L", "H", "S"]).map(|(part, unit)| part.strip_suffix(unit)?.parse().ok());
        let mut next = || parts.next().flatten().ok_or_else(bad);
        let (levels, hashes, slots) = (next()?, next()?, next()?);
        match text.split('-').count() {
            3 => Geometry::new(levels, hashes, slots),
            _ => Err(bad()),
        }
    }
}
