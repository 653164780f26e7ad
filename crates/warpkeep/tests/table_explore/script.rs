//! The steps of a scenario.

use warpkeep::Durability::{self, Power, Process};

/// One of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    /// 64-bit keys, values of 8 bytes; merges add.
    Numbers,
    /// Keys and values of any length; merges append.
    Words,
    /// Like the first, created after recovery.
    After,
}
use Name::{After, Numbers, Words};

/// An operation on a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Do {
    Put(u64),
    Insert(u64),
    Update(u64),
    Delete(u64),
    /// Fetch-add, of numbers only.
    Add(u64),
    /// Compare-and-swap with the version the key has.
    Swap(u64),
    /// Compare-and-swap with a version that no key has.
    Stale(u64),
    Merge(u64),
    Get(u64),
}
use Do::{Add, Delete, Get, Insert, Merge, Put, Stale, Swap, Update};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Create(Name),
    Drop(Name),
    /// Skipped if there is no such table.
    Batch(Durability, Name, &'static [Do]),
    /// A bucket's worth of growth, as the thread in the background would do it.
    Maintain,
    Checkpoint,
    Flush,
    /// Close and open again.
    Reopen,
}
use Step::{Batch, Checkpoint, Create, Drop, Flush, Maintain, Reopen};

impl Step {
    /// Whether a power cut must spare it, and all before it, once it is acknowledged.
    pub(crate) fn survives_power(self) -> bool {
        matches!(self, Create(_) | Drop(_) | Batch(Power, ..) | Flush | Reopen)
    }
}

/// Tables are created and dropped; every operation occurs.
pub(crate) const COMING_AND_GOING: &[Step] = &[
    Create(Numbers),
    Batch(Process, Numbers, &[Put(1), Insert(2)]),
    Create(Words),
    Batch(Power, Words, &[Put(1), Insert(2), Merge(3)]),
    Batch(Process, Numbers, &[Update(1), Delete(2), Put(3), Put(3)]),
    Checkpoint,
    Batch(Power, Numbers, &[Add(1), Add(4), Delete(3)]),
    // Committed and removed items must not come back.
    Batch(Process, Numbers, &[Delete(4), Update(1)]),
    Batch(Process, Words, &[Merge(1), Swap(2), Delete(3)]),
    Drop(Numbers),
    Reopen,
    Batch(Process, Words, &[Put(1)]),
    Create(Numbers),
    Batch(Process, Numbers, &[Put(1), Merge(1)]),
    Flush,
    Batch(Process, Words, &[Delete(1), Put(4)]),
    Drop(Words),
    Batch(Process, Numbers, &[Add(1)]),
];

/// A table of eight slots grows: drained bucket by bucket while its items are replaced and removed, and once more because
/// a writer finds no place.
pub(crate) const GROWING: &[Step] = &[
    Create(Numbers),
    Batch(Process, Numbers, &[Put(1), Put(2), Put(3), Put(4), Put(5), Put(6), Put(7), Put(8)]),
    Maintain,
    Batch(Process, Numbers, &[Put(9), Update(1), Delete(2)]),
    Maintain,
    Maintain,
    Batch(Process, Numbers, &[Update(1), Update(3), Delete(4), Update(5)]),
    Batch(Process, Numbers, &[Delete(6), Update(7), Update(8), Put(2)]),
    Maintain,
    Checkpoint,
    Batch(Process, Numbers, &[Update(1), Update(3), Update(5), Delete(7), Update(8)]),
    Maintain,
    Batch(Power, Numbers, &[Put(4), Put(10), Put(11), Put(12), Put(13), Put(14), Put(15)]),
    Reopen,
    Batch(Power, Numbers, &[Put(16), Put(17), Put(18), Put(19), Add(1)]),
    Maintain,
    Maintain,
    Batch(Process, Numbers, &[Update(4), Update(12), Update(16), Delete(17), Delete(8), Swap(9)]),
    Drop(Numbers),
];

/// A commit, and writes that undo a part of it.
pub(crate) const COMMITTING: &[Step] = &[
    Create(Numbers),
    // From here on.
    Batch(Power, Numbers, &[Put(3), Put(4), Put(5)]),
    Batch(Process, Numbers, &[Delete(5), Put(6)]),
];

/// `Power` batches that change nothing, each after a `Process` write that its answers depend on.
pub(crate) const DECLINING: &[Step] = &[
    Create(Numbers),
    Batch(Power, Numbers, &[Put(1), Put(2)]),
    // From here on.
    Batch(Process, Numbers, &[Delete(1)]),
    Batch(Power, Numbers, &[Delete(1)]),
    Batch(Process, Numbers, &[Put(3)]),
    Batch(Power, Numbers, &[Insert(3)]),
    Batch(Process, Numbers, &[Delete(2)]),
    Batch(Power, Numbers, &[Update(2), Swap(2)]),
    Batch(Process, Numbers, &[Update(3)]),
    Batch(Power, Numbers, &[Stale(3)]),
    Batch(Process, Numbers, &[Put(4)]),
    Batch(Power, Numbers, &[Put(1), Delete(1)]),
    Batch(Process, Numbers, &[Update(4)]),
    // Gets alone, gets that are looked up apart from the rest, and one that is not.
    Batch(Power, Numbers, &[Get(4)]),
    Batch(Process, Numbers, &[Delete(4)]),
    Batch(
        Power,
        Numbers,
        &[Get(1), Get(2), Get(3), Get(4), Get(5), Get(6), Get(7), Get(8), Get(9), Insert(3)],
    ),
    Batch(Process, Numbers, &[Delete(3)]),
    Batch(Power, Numbers, &[Get(3), Delete(4)]),
    Batch(Process, Numbers, &[Put(5)]),
];

/// A bucket that is drained, and writes to the items that were in it.
pub(crate) const MOVING: &[Step] = &[
    Create(Numbers),
    Batch(Process, Numbers, &[Put(1), Put(2), Put(3), Put(4), Put(5), Put(6), Put(7), Put(8)]),
    Maintain,
    Maintain,
    // From here on.
    Maintain,
    Batch(Process, Numbers, &[Update(1), Update(2), Delete(6)]),
];

/// The work after every recovery: items that were being moved or committed are replaced and removed, and a `Power`
/// batch depends on that before anything else is logged.
pub(crate) const AFTERWARDS: &[Step] = &[
    Batch(Process, Numbers, &[Put(1), Delete(3), Delete(4), Update(5), Delete(7), Update(8)]),
    Batch(Power, Numbers, &[Get(1)]),
    Create(After),
    Batch(Process, After, &[Put(1), Put(2)]),
    Batch(Power, After, &[Update(1), Delete(2), Put(3)]),
    Batch(Process, Words, &[Put(1)]),
];
