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

/// The answer to a [`SlabRequest`].
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
}

pub(crate) const DELETE: u32 = 3;
pub(crate) const INSERTED: u32 = 1;
pub(crate) const FULL: u32 = 7;

impl SlabRequest {
    /// The key it is about.
    pub fn key(self) -> u32 {
        match self {
            Self::Search(key) | Self::Insert(key, _) | Self::Replace(key, _) | Self::Delete(key) => key,
        }
    }

    /// Whether it may store a pair.
    pub(crate) fn puts(self) -> bool {
        matches!(self, Self::Insert(..) | Self::Replace(..))
    }

    /// The operation's number, the key and the value.
    pub(crate) fn columns(self) -> [u32; 3] {
        match self {
            Self::Search(key) => [0, key, 0],
            Self::Insert(key, value) => [1, key, value],
            Self::Replace(key, value) => [2, key, value],
            Self::Delete(key) => [DELETE, key, 0],
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
            _ => Self::Full,
        }
    }

    /// The value of the key before the request, if it had one.
    pub fn value(self) -> Option<u32> {
        match self {
            Self::Updated(value) | Self::Found(value) | Self::Removed(value) | Self::Present(value) => {
                Some(value)
            }
            Self::Inserted | Self::Absent | Self::Full => None,
        }
    }
}
