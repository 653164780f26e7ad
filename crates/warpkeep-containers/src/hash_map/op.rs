//! Operations of a batch, and their answers.

use bytemuck::CheckedBitPattern;

use super::width::{MapKey, MapValue};

/// What an operation does with its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, bytemuck::NoUninit, CheckedBitPattern)]
#[repr(u8)]
pub enum MapOpKind {
    /// Adds the key, or keeps the value that it has.
    Insert = 0,
    /// Adds the key, or replaces its value.
    Put = 1,
    /// Adds the key, or adds to its value, modulo 2^32 or 2^64.
    Add = 2,
    /// Adds the key, or keeps the smaller value.
    Min = 3,
    /// Adds the key, or keeps the larger value.
    Max = 4,
    /// Asks for the value.
    Find = 5,
    /// Asks whether the key is there.
    Contains = 6,
    /// Removes the key.
    Erase = 7,
}

impl MapOpKind {
    /// Whether it adds a key that is not there.
    pub fn inserts(self) -> bool {
        self as u8 <= Self::Max as u8
    }

    /// Whether it adds or compares values.
    pub(super) fn computes(self) -> bool {
        matches!(self, Self::Add | Self::Min | Self::Max)
    }
}

/// One operation of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MapOp<K = u64, V = u64> {
    /// What it does.
    pub kind: MapOpKind,
    /// The key. Every key will do.
    pub key: K,
    /// The value to insert, to add or to compare with; nothing to the others.
    pub value: V,
}

impl<K: MapKey, V: MapValue> MapOp<K, V> {
    /// An operation with a value.
    pub fn new(kind: MapOpKind, key: K, value: V) -> Self {
        Self { kind, key, value }
    }

    /// Adds a key, or keeps the value that it has.
    pub fn insert(key: K, value: V) -> Self {
        Self::new(MapOpKind::Insert, key, value)
    }

    /// Adds a key, or replaces its value.
    pub fn put(key: K, value: V) -> Self {
        Self::new(MapOpKind::Put, key, value)
    }

    /// Adds a key, or adds to its value, which has to be a number.
    pub fn add(key: K, value: V) -> Self {
        Self::new(MapOpKind::Add, key, value)
    }

    /// Asks for a value.
    pub fn find(key: K) -> Self {
        Self::new(MapOpKind::Find, key, V::zeroed())
    }

    /// Asks whether a key is there.
    pub fn contains(key: K) -> Self {
        Self::new(MapOpKind::Contains, key, V::zeroed())
    }

    /// Removes a key.
    pub fn erase(key: K) -> Self {
        Self::new(MapOpKind::Erase, key, V::zeroed())
    }
}

/// What came of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, bytemuck::NoUninit, CheckedBitPattern)]
#[repr(u8)]
#[non_exhaustive]
pub enum MapStatus {
    /// The key is new.
    Inserted = 1,
    /// The key was there, and its value was replaced, added to or compared.
    Updated = 2,
    /// The key was there.
    Found = 3,
    /// The key was not there.
    Absent = 4,
    /// The key was there, and is gone.
    Erased = 5,
    /// The key was not there and was not added: the map is full and has no memory to grow.
    Full = 6,
}

/// The answer to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MapAnswer<V = u64> {
    /// What came of it.
    pub status: MapStatus,
    /// The value that the key had before; zero if it was not there, and for [`MapOpKind::Contains`].
    pub before: V,
}
