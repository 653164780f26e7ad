//! What is asked of a slab hash, and what is answered.

/// A request of a batch of a [`SlabMap`](crate::SlabMap).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabRequest {
    /// Asks for the value of a key.
    Search(u32),
    /// Stores a pair if there is none with this key.
    Insert(u32, u32),
    /// Stores a pair, in the place of the one with this key if there is one.
    Replace(u32, u32),
    /// Removes the pair with this key.
    Delete(u32),
}

/// A request of a batch of a [`SlabMultiMap`](crate::SlabMultiMap).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabMultiRequest {
    /// Asks for the first value of a key.
    Search(u32),
    /// Stores a pair.
    Insert(u32, u32),
    /// Removes the first pair with this key.
    Delete(u32),
    /// Asks how many pairs have this key.
    Count(u32),
    /// Removes all pairs with this key, and counts them.
    DeleteAll(u32),
}

/// The answer to a [`SlabRequest`] or a [`SlabMultiRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabAnswer {
    /// The pair was stored, and there was none with its key.
    Inserted,
    /// The pair was stored in the place of one with this value.
    Updated(u32),
    /// The key was searched for, and has this value.
    Found(u32),
    /// The pair was removed, and had this value.
    Removed(u32),
    /// The pair was not stored: there is one with its key, which has this value.
    Present(u32),
    /// There is no pair with this key.
    Absent,
    /// The pair was not stored: there is no slab left for it. Let the map have more slabs, or delete and flush.
    Full,
    /// So many pairs with this key were counted or removed.
    Counted(u32),
}

const SEARCH: u32 = 0;
const INSERT: u32 = 1;
const REPLACE: u32 = 2;
const DELETE: u32 = 3;
const COUNT: u32 = 4;
const DELETE_ALL: u32 = 5;
pub(crate) const GATHER: u32 = 6;
pub(crate) const INSERTED: u32 = 1;
pub(crate) const COUNTED: u32 = 8;

/// The operation's number, the key and the value, as kernels read them.
pub(crate) type RawRequest = [u32; 3];

/// Whether a request may store a pair.
pub(crate) fn is_put(request: &RawRequest) -> bool {
    matches!(request[0], INSERT | REPLACE)
}

impl SlabRequest {
    /// The key it is about.
    pub fn key(self) -> u32 {
        self.raw()[1]
    }

    pub(crate) fn raw(self) -> RawRequest {
        match self {
            Self::Search(key) => [SEARCH, key, 0],
            Self::Insert(key, value) => [INSERT, key, value],
            Self::Replace(key, value) => [REPLACE, key, value],
            Self::Delete(key) => [DELETE, key, 0],
        }
    }
}

impl SlabMultiRequest {
    /// The key it is about.
    pub fn key(self) -> u32 {
        self.raw()[1]
    }

    pub(crate) fn raw(self) -> RawRequest {
        match self {
            Self::Search(key) => [SEARCH, key, 0],
            Self::Insert(key, value) => [INSERT, key, value],
            Self::Delete(key) => [DELETE, key, 0],
            Self::Count(key) => [COUNT, key, 0],
            Self::DeleteAll(key) => [DELETE_ALL, key, 0],
        }
    }
}

impl SlabAnswer {
    /// The answer that kernels write as a status and a value.
    pub(crate) fn of(word: u64) -> Self {
        let value = word as u32;
        match (word >> 32) as u32 {
            INSERTED => Self::Inserted,
            2 => Self::Updated(value),
            3 => Self::Found(value),
            4 => Self::Removed(value),
            5 => Self::Present(value),
            6 => Self::Absent,
            COUNTED => Self::Counted(value),
            _ => Self::Full,
        }
    }

    /// The value of the key before the request, if it had one.
    pub fn value(self) -> Option<u32> {
        match self {
            Self::Updated(value) | Self::Found(value) | Self::Removed(value) | Self::Present(value) => {
                Some(value)
            }
            Self::Inserted | Self::Absent | Self::Full | Self::Counted(_) => None,
        }
    }

    /// Whether there may be more pairs or tombstones than before.
    pub(crate) fn may_tell_of_a_change(self) -> bool {
        matches!(self, Self::Inserted | Self::Removed(_) | Self::Counted(_))
    }

    /// How many pairs were counted.
    pub(crate) fn count(self) -> u32 {
        match self {
            Self::Counted(count) => count,
            _ => 0,
        }
    }
}
