//! Operations of a batch, and their answers.

use bytemuck::CheckedBitPattern;

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, bytemuck::NoUninit, CheckedBitPattern)]
#[repr(u8)]
pub enum OrderedOpKind {
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
    /// Asks for the smallest key above the given one, and its value.
    Successor = 8,
    /// Asks for the largest key below the given one, and its value.
    Predecessor = 9,
    /// Asks for the smallest key that is not below the given one, and its value.
    Ceiling = 10,
    /// Asks for the largest key that is not above the given one, and its value.
    Floor = 11,
    /// Asks how many keys there are between two bounds, both included.
    Count = 12,
    /// Asks for the pairs between two bounds, both included.
    Range = 13,
}

impl OrderedOpKind {
    /// Whether it adds a key that is not there.
    pub fn inserts(self) -> bool {
        self as u8 <= Self::Max as u8
    }

    /// Whether it changes nothing.
    pub fn only_reads(self) -> bool {
        !self.inserts() && self != Self::Erase
    }

    /// Whether its answer concerns other keys than its own.
    pub fn looks_around(self) -> bool {
        self as u8 >= Self::Successor as u8
    }
}

/// One operation of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OrderedOp<K, V> {
    /// What it does.
    pub kind: OrderedOpKind,
    /// The key, or the lower bound of a range. Every key can be used.
    pub key: K,
    /// The upper bound of a range; nothing to the others.
    pub end: K,
    /// The value to insert, to add or to compare with; nothing to the others.
    pub value: V,
}

impl<K: Copy, V: Default> OrderedOp<K, V> {
    /// An operation with a value.
    pub fn new(kind: OrderedOpKind, key: K, value: V) -> Self {
        Self { kind, key, end: key, value }
    }

    /// Adds a key, or keeps the value that it has.
    pub fn insert(key: K, value: V) -> Self {
        Self::new(OrderedOpKind::Insert, key, value)
    }

    /// Adds a key, or replaces its value.
    pub fn put(key: K, value: V) -> Self {
        Self::new(OrderedOpKind::Put, key, value)
    }

    /// Adds a key, or adds to its value.
    pub fn add(key: K, value: V) -> Self {
        Self::new(OrderedOpKind::Add, key, value)
    }

    /// Asks for a value.
    pub fn find(key: K) -> Self {
        Self::new(OrderedOpKind::Find, key, V::default())
    }

    /// Removes a key.
    pub fn erase(key: K) -> Self {
        Self::new(OrderedOpKind::Erase, key, V::default())
    }

    /// Asks for the smallest key above this one.
    pub fn successor(key: K) -> Self {
        Self::new(OrderedOpKind::Successor, key, V::default())
    }

    /// Asks for the largest key below this one.
    pub fn predecessor(key: K) -> Self {
        Self::new(OrderedOpKind::Predecessor, key, V::default())
    }

    /// Asks how many keys there are from `low` to `high`, both included.
    pub fn count(low: K, high: K) -> Self {
        Self { end: high, ..Self::new(OrderedOpKind::Count, low, V::default()) }
    }

    /// Asks for the pairs from `low` to `high`, both included.
    pub fn range(low: K, high: K) -> Self {
        Self { end: high, ..Self::new(OrderedOpKind::Range, low, V::default()) }
    }
}

/// What came of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, bytemuck::NoUninit, CheckedBitPattern)]
#[repr(u8)]
#[non_exhaustive]
pub enum OrderedStatus {
    /// The key is new.
    Inserted = 1,
    /// The key was there, and its value was replaced, added to or compared.
    Updated = 2,
    /// There is such a key.
    Found = 3,
    /// There is no such key.
    Absent = 4,
    /// The key was there, and is gone.
    Erased = 5,
    /// There are more pairs in the range than there was room for. The count is exact all the same.
    Truncated = 6,
    /// There was no memory for what a kernel wanted to change, and nothing was changed. No answer of a batch.
    Full = 7,
}

/// The answer to an operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OrderedAnswer<K, V> {
    /// What came of it.
    pub status: OrderedStatus,
    /// The key that was found, of operations that ask for a neighbour; 0 otherwise.
    pub key: K,
    /// The value that was found, or that the key had before; 0 if there was none, and for [`OrderedOpKind::Contains`].
    pub value: V,
    /// How many keys a range has.
    pub count: u64,
    /// The pairs of a range, in order.
    pub pairs: Vec<(K, V)>,
}

/// The answer to an operation that concerns its own key alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OrderedChange<V> {
    /// What came of it.
    pub status: OrderedStatus,
    /// The value that the key had before; 0 if it was not there.
    pub before: V,
}
