//! Operations of a batch, and their answers.

use bytemuck::CheckedBitPattern;

use super::NO_LOCATION;

/// What an operation does with the entries of its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, bytemuck::NoUninit, CheckedBitPattern)]
#[repr(u8)]
pub enum IndexOpKind {
    /// Adds an entry. The same may be there already.
    Insert = 0,
    /// Gives the entry with the old location the new one; adds an entry if there is none.
    Replace = 1,
    /// Removes the entry with this location, once.
    Delete = 2,
    /// Asks for the locations of all entries that match.
    Search = 3,
}

/// One operation of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IndexOp {
    /// What it does.
    pub kind: IndexOpKind,
    /// The hash of the key.
    pub hash: u64,
    /// The location to add or to remove; nothing to a search.
    pub location: u32,
    /// The location to replace; nothing to the others.
    pub old: u32,
}

impl IndexOp {
    /// Adds an entry.
    pub fn insert(hash: u64, location: u32) -> Self {
        Self { kind: IndexOpKind::Insert, hash, location, old: NO_LOCATION }
    }

    /// Gives the entry with the location `old` another; adds one if there is none.
    pub fn replace(hash: u64, old: u32, location: u32) -> Self {
        Self { kind: IndexOpKind::Replace, hash, location, old }
    }

    /// Removes an entry.
    pub fn delete(hash: u64, location: u32) -> Self {
        Self { kind: IndexOpKind::Delete, hash, location, old: NO_LOCATION }
    }

    /// Asks for the entries that match.
    pub fn search(hash: u64) -> Self {
        Self { kind: IndexOpKind::Search, hash, location: NO_LOCATION, old: NO_LOCATION }
    }
}

/// What came of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, bytemuck::NoUninit, CheckedBitPattern)]
#[repr(u8)]
#[non_exhaustive]
pub enum IndexStatus {
    /// There is an entry more.
    Inserted = 1,
    /// The entry with the old location has the new one.
    Replaced = 2,
    /// One or two entries match.
    Found = 3,
    /// None does.
    Absent = 4,
    /// The entry was there, and is there once less.
    Deleted = 5,
    /// No cell was found for the entry, and it was not added. All others are where searches find them.
    Full = 6,
    /// There is an entry more, and others went to their other buckets for it.
    Displaced = 7,
    /// More than two entries match: the lowest two locations are given.
    /// [`search_all`](super::CuckooIndex::search_all) gives all.
    Truncated = 8,
    /// The location cannot be stored: it is [`NO_LOCATION`]. Nothing was changed.
    BadLocation = 9,
}

impl IndexStatus {
    /// Whether there is an entry more.
    pub fn is_added(self) -> bool {
        matches!(self, Self::Inserted | Self::Displaced)
    }
}

/// The answer to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IndexAnswer {
    /// What came of it.
    pub status: IndexStatus,
    /// How many entries matched: those that were found, the one that was replaced, the one that was deleted.
    pub matches: u8,
    pub(super) found: [u32; 2],
}

impl IndexAnswer {
    pub(super) fn new(status: IndexStatus) -> Self {
        Self { status, matches: 0, found: [NO_LOCATION; 2] }
    }

    pub(super) fn of_one(status: IndexStatus, location: u32) -> Self {
        Self { status, matches: 1, found: [location, NO_LOCATION] }
    }

    /// The locations of the entries that matched, the lowest first; of more than two, the lowest two.
    pub fn locations(&self) -> &[u32] {
        &self.found[..usize::from(self.matches).min(2)]
    }
}
