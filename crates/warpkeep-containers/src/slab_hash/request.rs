//! What is asked of a slab hash, and what is answered.

use bytemuck::CheckedBitPattern;

use super::cell::CellValue;

/// A request of a batch of a [`SlabMap`](crate::SlabMap), or, with `()` for values, of a [`SlabSet`](crate::SlabSet).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabRequest<K = u32, V = u32> {
    /// Asks for the value of a key.
    Search(K),
    /// Stores a pair if there is none with this key.
    Insert(K, V),
    /// Stores a pair, in the place of the one with this key if there is one.
    Replace(K, V),
    /// Removes the pair with this key.
    Delete(K),
}

/// A request of a batch of a [`SlabMultiMap`](crate::SlabMultiMap).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabMultiRequest<K = u32, V = u32> {
    /// Asks for the first value of a key.
    Search(K),
    /// Stores a pair.
    Insert(K, V),
    /// Removes the first pair with this key.
    Delete(K),
    /// Asks how many pairs have this key.
    Count(K),
    /// Removes all pairs with this key, and counts them.
    DeleteAll(K),
}

/// The answer to a [`SlabRequest`] or a [`SlabMultiRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabAnswer<V = u32> {
    /// The pair was stored, and there was none with its key.
    Inserted,
    /// The pair was stored in the place of one with this value.
    Updated(V),
    /// The key was searched for, and has this value.
    Found(V),
    /// The pair was removed, and had this value.
    Removed(V),
    /// The pair was not stored: there is one with its key, which has this value.
    Present(V),
    /// There is no pair with this key.
    Absent,
    /// The pair was not stored: there is no slab left for it. Let the map have more slabs, or delete and flush.
    Full,
    /// This many pairs with this key were counted or removed.
    Counted(u32),
}

/// What a request of a batch in device memory does. It is a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, bytemuck::NoUninit, CheckedBitPattern)]
#[repr(u8)]
pub enum SlabOpKind {
    /// Asks for the value of a key, or for its first one.
    Search = 0,
    /// Stores a pair. Where keys are unique, only if there is none with this key.
    Insert = 1,
    /// Stores a pair, in the place of the one with this key if there is one. In a multimap it inserts.
    Replace = 2,
    /// Removes the pair with this key, or the first one.
    Delete = 3,
    /// Asks how many pairs have this key.
    Count = 4,
    /// Removes all pairs with this key, and counts them.
    DeleteAll = 5,
}

impl SlabOpKind {
    /// Whether it may store a pair.
    pub fn is_put(self) -> bool {
        matches!(self, Self::Insert | Self::Replace)
    }

    /// Whether it changes nothing.
    pub fn is_read(self) -> bool {
        matches!(self, Self::Search | Self::Count)
    }
}

/// What a request of a batch in device memory came to: [`SlabAnswer`] without the value. It is a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, bytemuck::NoUninit, CheckedBitPattern)]
#[repr(u8)]
#[non_exhaustive]
pub enum SlabStatus {
    /// The pair was stored, and there was none with its key, or keys need not be unique.
    Inserted = 1,
    /// The pair was stored in the place of another.
    Updated = 2,
    /// The key was searched for, and is there.
    Found = 3,
    /// The pair was removed.
    Removed = 4,
    /// The pair was not stored: there is one with its key.
    Present = 5,
    /// There is no pair with this key.
    Absent = 6,
    /// The pair was not stored: there is no slab left for it.
    Full = 7,
    /// Pairs were counted or removed, and the value is how many.
    Counted = 8,
}

/// Kernels write the values of a key to a list. The request's value is where.
pub(super) const GATHER: u8 = 6;

/// A request as kernels read it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawRequest<K, V> {
    pub(super) code: u8,
    pub(super) key: K,
    pub(super) value: V,
}

impl<K, V: CellValue> RawRequest<K, V> {
    pub(super) fn of(kind: SlabOpKind, key: K) -> Self {
        Self { code: kind as u8, key, value: V::default() }
    }

    /// Whether it may store a pair.
    pub(super) fn is_put(&self) -> bool {
        self.code == SlabOpKind::Insert as u8 || self.code == SlabOpKind::Replace as u8
    }
}

impl<K: Copy, V> SlabRequest<K, V> {
    /// The key it is about.
    pub fn key(self) -> K {
        match self {
            Self::Search(key) | Self::Insert(key, _) | Self::Replace(key, _) | Self::Delete(key) => key,
        }
    }
}

impl<K: Copy, V: CellValue> SlabRequest<K, V> {
    pub(super) fn raw(self) -> RawRequest<K, V> {
        match self {
            Self::Search(key) => RawRequest::of(SlabOpKind::Search, key),
            Self::Insert(key, value) => RawRequest { value, ..RawRequest::of(SlabOpKind::Insert, key) },
            Self::Replace(key, value) => RawRequest { value, ..RawRequest::of(SlabOpKind::Replace, key) },
            Self::Delete(key) => RawRequest::of(SlabOpKind::Delete, key),
        }
    }
}

impl<K: Copy, V> SlabMultiRequest<K, V> {
    /// The key it is about.
    pub fn key(self) -> K {
        match self {
            Self::Search(key)
            | Self::Insert(key, _)
            | Self::Delete(key)
            | Self::Count(key)
            | Self::DeleteAll(key) => key,
        }
    }
}

impl<K: Copy, V: CellValue> SlabMultiRequest<K, V> {
    pub(super) fn raw(self) -> RawRequest<K, V> {
        match self {
            Self::Search(key) => RawRequest::of(SlabOpKind::Search, key),
            Self::Insert(key, value) => RawRequest { value, ..RawRequest::of(SlabOpKind::Insert, key) },
            Self::Delete(key) => RawRequest::of(SlabOpKind::Delete, key),
            Self::Count(key) => RawRequest::of(SlabOpKind::Count, key),
            Self::DeleteAll(key) => RawRequest::of(SlabOpKind::DeleteAll, key),
        }
    }
}

impl<V: CellValue> SlabAnswer<V> {
    /// The answer that kernels write as a status and a value.
    pub(super) fn of(status: SlabStatus, value: V) -> Self {
        match status {
            SlabStatus::Inserted => Self::Inserted,
            SlabStatus::Updated => Self::Updated(value),
            SlabStatus::Found => Self::Found(value),
            SlabStatus::Removed => Self::Removed(value),
            SlabStatus::Present => Self::Present(value),
            SlabStatus::Absent => Self::Absent,
            SlabStatus::Full => Self::Full,
            SlabStatus::Counted => Self::Counted(value.count() as u32),
        }
    }
}

impl<V> SlabAnswer<V> {
    /// The value of the key before the request, if it had one.
    pub fn value(self) -> Option<V> {
        match self {
            Self::Updated(value) | Self::Found(value) | Self::Removed(value) | Self::Present(value) => {
                Some(value)
            }
            Self::Inserted | Self::Absent | Self::Full | Self::Counted(_) => None,
        }
    }

    /// Whether there may be more pairs or tombstones than before.
    pub(super) fn may_tell_of_a_change(self) -> bool {
        matches!(self, Self::Inserted | Self::Removed(_) | Self::Counted(_))
    }

    /// How many pairs were counted.
    pub(super) fn count(self) -> u64 {
        match self {
            Self::Counted(count) => count.into(),
            _ => 0,
        }
    }
}
