//! The interface of an index, in small parts: lookup, staging, maintenance, persistence.
//!
//! A table of any index can be used through these traits; none of them is meant to be a trait object. Code with
//! tables of several indexes dispatches once on the index, and does the rest through these.

use std::sync::Arc;

use warpkeep_core::{Change, ChangeKind, KeySpec, MergeRule, ValueSpec};
use warpkeep_image::{Clearing, Heap, Image, Marker, Persist};

use crate::{DamagedItem, Inspection, Located, LockKey, ScanPosition, Seat, Value};

/// The result of a call of [`Upkeep::maintain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is no work.
    Idle,
    /// There is more work.
    Working,
    /// Another thread is doing it, or holds the part that needs it.
    Busy,
    /// Some items have no other place for now; the part they lie in stays, and is tried again later.
    Stuck,
}

/// How much work a call of [`Upkeep::maintain`] may do before other work gets its turn: about this many items are
/// examined or moved.
///
/// ```
/// use warpkeep_record::Budget;
/// // An index whose pieces have room for eight items.
/// assert_eq!([0, 1, 100].map(|items| Budget::items(items).pieces_of(8)), [0, 1, 12]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    items: u64,
}

impl Budget {
    /// About this many items.
    pub const fn items(items: u64) -> Budget {
        Budget { items }
    }

    /// How many pieces of the index, each with room for this many items, fit the budget: at least one, so that
    /// there is progress, but none for an empty budget.
    pub fn pieces_of(self, items: u64) -> u64 {
        (self.items / items.max(1)).max(self.items.min(1))
    }
}

/// Items can be looked up. Readers take no locks.
pub trait Lookup<P: Persist>: Send + Sync {
    /// The keys.
    fn key_spec(&self) -> KeySpec;
    /// The values.
    fn value_spec(&self) -> ValueSpec;
    /// The merge rule.
    fn merge_rule(&self) -> MergeRule;
    /// The number of items. Exact while there are no writers.
    fn len(&self) -> u64;
    /// Whether it has no items.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Looks a key up and passes the value to `then`.
    fn get<R>(&self, key: &[u8], then: impl FnOnce(Value<'_, P>) -> R) -> Option<R>;
    /// Looks many keys up and gives each answer, in order, to `each`.
    fn get_many<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        each: impl FnMut(usize, Option<Value<'_, P>>),
    );
    /// Returns every item, while writers continue. An item that is there throughout is returned at least once.
    fn scan<E>(&self, table: u32, each: impl FnMut(&Change<'_>) -> Result<(), E>) -> Result<(), E>;
    /// Returns a few items from a position on, and advances the position; returns whether there is more. An index
    /// starts over if items may have moved past the position, which returns some of them twice.
    fn scan_some<E>(
        &self,
        table: u32,
        position: &mut ScanPosition,
        each: impl FnMut(&Change<'_>) -> Result<(), E>,
    ) -> Result<bool, E>;
    /// Every item, each checked: that its slot and its record belong together, that its lengths are possible, and
    /// that its checksum is right, if it has one. A damaged item is returned as damage.
    fn scan_checked<E>(
        &self,
        table: u32,
        each: impl FnMut(Result<&Change<'_>, &DamagedItem>) -> Result<(), E>,
    ) -> Result<(), E>;
    /// Whether its records have checksums: those of older tables have none, nor do items that lie in slots.
    fn has_checksums(&self) -> bool;
}

/// Changes to a table whose keys are held, not yet visible. Dropped, it leaves nothing behind.
pub trait Staged<P: Persist> {
    /// Where a search found an item.
    type Found: Located;
    /// How the table stood when it had no place for a key.
    type Seen;
    /// Why a change cannot be staged.
    type Error;
    /// Holds the keys once the changes are visible.
    type Published;

    /// Prepares space for `count` values.
    fn expect_values(&mut self, count: usize);
    /// The position of a key, whose lock key was given to [`Staging::stage`]. It does not see an earlier change of
    /// the same stage to the key: stage one change a key.
    fn seat(&self, key: &[u8], lock: LockKey) -> Seat<Self::Found>;
    /// The value of the key of a seat.
    fn value(&self, seat: &Seat<Self::Found>) -> Option<Value<'_, P>>;
    /// Stages a value for the key of a seat, new or not. After an error that [reports a full table](Full::is_full)
    /// call [`Staging::make_room`] and stage again.
    fn put(
        &mut self,
        seat: &Seat<Self::Found>,
        key: &[u8],
        value: &[u8],
        version: u64,
    ) -> Result<(), Self::Error>;
    /// Stages the end of the key of a seat; `false` if it is not there.
    fn remove(&mut self, seat: &Seat<Self::Found>) -> bool;
    /// How the table stands, if it has no place for a key.
    fn seen(&self) -> Self::Seen;
    /// Makes all changes visible, durably. Cannot fail. The keys are held until the result is dropped.
    fn publish(self) -> Self::Published;
}

/// A key that a writer is about to lock.
#[derive(Clone, Copy, Debug)]
pub struct LockRequest {
    /// The lock key.
    pub lock: LockKey,
    /// Whether the value that it has will be read, and not only replaced or removed.
    pub value_is_read: bool,
}

impl From<LockKey> for LockRequest {
    /// A key whose value may be read.
    fn from(lock: LockKey) -> LockRequest {
        LockRequest { lock, value_is_read: true }
    }
}

/// The best number of keys for a writer to hold at once, with this many locks for all keys.
///
/// Two writers with `n` keys each share a lock about `n * n` times in as many attempts as there are locks; one in eight
/// is rare enough.
///
/// ```
/// assert_eq!([1024, 10_000, 1 << 20].map(warpkeep_record::keys_at_once), [8, 32, 64]);
/// ```
pub fn keys_at_once(locks: usize) -> usize {
    let most = (locks / 8).isqrt().max(1);
    (1 << most.ilog2()).clamp(8, 64)
}

/// Changes can be staged.
pub trait Staging<P: Persist>: Lookup<P> {
    /// Changes that are staged.
    type Stage<'t>: Staged<P, Seen = Self::Seen, Error = Self::Error>
    where
        Self: 't;
    /// How the table stood when it had no place for a key.
    type Seen;
    /// The error type.
    type Error: std::error::Error + Full;

    /// The key for locking and sorting.
    fn lock_key(&self, key: &[u8]) -> LockKey;
    /// Holds these keys against other writers, and prefetches their items.
    fn stage(&self, keys: impl IntoIterator<Item = impl Into<LockRequest>>) -> Self::Stage<'_>;
    /// The best number of keys for a writer to hold at once: enough that their misses overlap, and few enough that
    /// two writers rarely collide.
    fn keys_at_once(&self) -> usize;
    /// Makes room for a key that found none. The caller must not hold a stage any more.
    fn make_room(&self, seen: Self::Seen) -> Result<(), Self::Error>;
    /// Brings an item to the state of a change, unless it already has that state or a later one.
    fn redo(&self, change: &Change<'_>) -> Result<(), Self::Error> {
        let lock = self.lock_key(change.key);
        loop {
            let mut stage = self.stage([lock]);
            let seat = stage.seat(change.key, lock);
            if seat.version().is_some_and(|version| version >= change.version) {
                return Ok(());
            }
            let staged = match change.kind {
                ChangeKind::Put => stage.put(&seat, change.key, change.value, change.version),
                ChangeKind::Delete => {
                    stage.remove(&seat);
                    Ok(())
                }
            };
            match staged {
                Err(error) if error.is_full() => {
                    let seen = stage.seen();
                    drop(stage);
                    self.make_room(seen)?;
                }
                other => {
                    other?;
                    stage.publish();
                    return Ok(());
                }
            }
        }
    }
}

/// An error that may report a full table.
pub trait Full {
    /// Whether a key found no place.
    fn is_full(&self) -> bool;
}

/// A table is looked after while it is in use.
pub trait Upkeep<P: Persist>: Staging<P> {
    /// Whether [`Upkeep::maintain`] has work.
    fn wants_maintenance(&self) -> bool;
    /// Does a slice of the work that is due, within a budget.
    fn maintain(&self, budget: Budget) -> Result<Progress, Self::Error>;
    /// Adds room for items, as much as suits the index, and sees it through.
    fn grow(&self) -> Result<(), Self::Error>;
    /// Gives room back if the table has become too large for its items; whether it did.
    fn shrink(&self) -> Result<bool, Self::Error>;
    /// Moves its records out of slabs that are being cleared; gives how many it moved.
    fn defragment(&self, clearing: &Clearing<'_, P>) -> Result<u64, Self::Error>;
    /// The same for the records in these blocks, each given with its size: moved ones are removed from the list. If
    /// records hold their keys, the cost depends on the blocks and not on the table. Records without another place
    /// stay.
    fn vacate(&self, clearing: &Clearing<'_, P>, blocks: &mut Vec<(u64, u64)>) -> Result<u64, Self::Error>;
}

/// The life of a table: created, dropped, and recovered after a crash.
pub trait Kept<P: Persist>: Upkeep<P> + Sized {
    /// The parameters of a new table.
    type Spec;

    /// Creates an empty table; its position is [`Kept::header`]. It is not reachable yet.
    fn create(heap: &Arc<Heap<P>>, spec: &Self::Spec) -> Result<Self, Self::Error>;
    /// Marks everything that a table's header leads to, and checks it on the way.
    fn mark(image: &Image<P>, marker: &Marker<'_, P>, header: u64) -> Result<(), Self::Error>;
    /// The same for a table that may be damaged: items that lead to no record, or to another item's record, are
    /// removed and returned. Only then are its slots known to be valid; [`Lookup::scan_checked`] checks the records
    /// they refer to.
    fn mark_salvaging(
        image: &Image<P>,
        marker: &Marker<'_, P>,
        header: u64,
    ) -> Result<Vec<DamagedItem>, Self::Error>;
    /// Removes a damaged item from a table that no other thread uses. Its record is free at the next opening.
    fn discard(&self, item: &DamagedItem);
    /// Whether a key may lie in the bucket at an offset.
    fn may_lie_in(&self, key: &[u8], bucket: u64) -> bool;
    /// Opens a table that has just been [marked](Kept::mark), finishes interrupted changes, and counts its items.
    fn attach(heap: &Arc<Heap<P>>, header: u64) -> Result<Self, Self::Error>;
    /// The parameters that would create this table.
    fn spec(&self) -> Self::Spec;
    /// The space it lies in.
    fn heap(&self) -> &Arc<Heap<P>>;
    /// The offset of its header in the image, which the catalogue stores.
    fn header(&self) -> u64;
    /// Inspects every item of the table whose header lies at an offset. Changes nothing; the table has just been
    /// [marked](Kept::mark), so that its references are known to be valid, and no thread writes to it.
    fn inspect(image: &Image<P>, header: u64) -> Result<Inspection, Self::Error>;
    /// The same for a table that is open, and that no thread writes to.
    fn inspection(&self) -> Result<Inspection, Self::Error> {
        Self::inspect(self.heap().image(), self.header())
    }
    /// Frees all its space. It must no longer be reachable, durably.
    fn demolish(self) -> Result<(), Self::Error>;
}

/// Implements all of the above for an index's table, by its own methods of the same names.
#[macro_export]
macro_rules! offer_index {
    ($Table:ident, $TableSpec:ident, $TableError:ident, $Stage:ident, $Published:ident, $Found:ident, $Seen:ident) => {
        impl<P: warpkeep_image::Persist> $crate::Lookup<P> for $Table<P> {
            fn key_spec(&self) -> warpkeep_core::KeySpec {
                $Table::key_spec(self)
            }
            fn value_spec(&self) -> warpkeep_core::ValueSpec {
                $Table::value_spec(self)
            }
            fn merge_rule(&self) -> warpkeep_core::MergeRule {
                $Table::merge_rule(self)
            }
            fn len(&self) -> u64 {
                $Table::len(self)
            }
            #[inline]
            fn get<R>(&self, key: &[u8], then: impl FnOnce($crate::Value<'_, P>) -> R) -> Option<R> {
                $Table::get(self, key, then)
            }
            #[inline]
            fn get_many<'k>(
                &self,
                keys: impl IntoIterator<Item = &'k [u8]>,
                each: impl FnMut(usize, Option<$crate::Value<'_, P>>),
            ) {
                $Table::get_many(self, keys, each)
            }
            fn scan<E>(
                &self,
                table: u32,
                each: impl FnMut(&warpkeep_core::Change<'_>) -> Result<(), E>,
            ) -> Result<(), E> {
                $Table::scan(self, table, each)
            }
            fn scan_some<E>(
                &self,
                table: u32,
                position: &mut $crate::ScanPosition,
                each: impl FnMut(&warpkeep_core::Change<'_>) -> Result<(), E>,
            ) -> Result<bool, E> {
                $Table::scan_some(self, table, position, each)
            }
            fn scan_checked<E>(
                &self,
                table: u32,
                each: impl FnMut(Result<&warpkeep_core::Change<'_>, &$crate::DamagedItem>) -> Result<(), E>,
            ) -> Result<(), E> {
                $Table::scan_checked(self, table, each)
            }
            fn has_checksums(&self) -> bool {
                $Table::has_checksums(self)
            }
        }

        impl $crate::Located for $Found {
            #[inline]
            fn item(&self) -> $crate::ItemRef {
                self.item
            }
        }

        impl<'t, P: warpkeep_image::Persist> $crate::Staged<P> for $Stage<'t, P> {
            type Found = $Found;
            type Seen = $Seen;
            type Error = $TableError;
            type Published = $Published<'t, P>;

            #[inline]
            fn expect_values(&mut self, count: usize) {
                $Stage::expect_values(self, count);
            }
            #[inline]
            fn seat(&self, key: &[u8], lock: $crate::LockKey) -> $crate::Seat<$Found> {
                $Stage::seat(self, key, lock)
            }
            #[inline]
            fn value(&self, seat: &$crate::Seat<$Found>) -> Option<$crate::Value<'_, P>> {
                $Stage::value(self, seat)
            }
            #[inline]
            fn put(
                &mut self,
                seat: &$crate::Seat<$Found>,
                key: &[u8],
                value: &[u8],
                version: u64,
            ) -> Result<(), $TableError> {
                $Stage::put(self, seat, key, value, version)
            }
            #[inline]
            fn remove(&mut self, seat: &$crate::Seat<$Found>) -> bool {
                $Stage::remove(self, seat)
            }
            fn seen(&self) -> $Seen {
                $Stage::seen(self)
            }
            #[inline]
            fn publish(self) -> $Published<'t, P> {
                $Stage::publish(self)
            }
        }

        impl<P: warpkeep_image::Persist> $crate::Staging<P> for $Table<P> {
            type Stage<'t> = $Stage<'t, P>;
            type Seen = $Seen;
            type Error = $TableError;

            #[inline]
            fn lock_key(&self, key: &[u8]) -> $crate::LockKey {
                $Table::lock_key(self, key)
            }
            #[inline]
            fn stage(&self, keys: impl IntoIterator<Item = impl Into<$crate::LockRequest>>) -> $Stage<'_, P> {
                $Table::stage(self, keys)
            }
            #[inline]
            fn keys_at_once(&self) -> usize {
                $crate::keys_at_once(self.locks())
            }
            fn make_room(&self, seen: $Seen) -> Result<(), $TableError> {
                $Table::make_room(self, seen)
            }
        }

        impl $crate::Full for $TableError {
            fn is_full(&self) -> bool {
                matches!(self, $TableError::Full)
            }
        }

        impl<P: warpkeep_image::Persist> $crate::Upkeep<P> for $Table<P> {
            fn wants_maintenance(&self) -> bool {
                $Table::wants_maintenance(self)
            }
            fn maintain(&self, budget: $crate::Budget) -> Result<$crate::Progress, $TableError> {
                $Table::maintain(self, budget.pieces_of(self.bucket_items()))
            }
            fn grow(&self) -> Result<(), $TableError> {
                $Table::grow(self)
            }
            fn shrink(&self) -> Result<bool, $TableError> {
                $Table::shrink(self)
            }
            fn defragment(&self, clearing: &warpkeep_image::Clearing<'_, P>) -> Result<u64, $TableError> {
                $Table::defragment(self, clearing)
            }
            fn vacate(
                &self,
                clearing: &warpkeep_image::Clearing<'_, P>,
                blocks: &mut Vec<(u64, u64)>,
            ) -> Result<u64, $TableError> {
                $Table::vacate(self, clearing, blocks)
            }
        }

        impl<P: warpkeep_image::Persist> $crate::Kept<P> for $Table<P> {
            type Spec = $TableSpec;

            fn create(
                heap: &std::sync::Arc<warpkeep_image::Heap<P>>,
                spec: &$TableSpec,
            ) -> Result<Self, $TableError> {
                $Table::create(heap, spec)
            }
            fn mark(
                image: &warpkeep_image::Image<P>,
                marker: &warpkeep_image::Marker<'_, P>,
                header: u64,
            ) -> Result<(), $TableError> {
                $Table::mark(image, marker, header)
            }
            fn mark_salvaging(
                image: &warpkeep_image::Image<P>,
                marker: &warpkeep_image::Marker<'_, P>,
                header: u64,
            ) -> Result<Vec<$crate::DamagedItem>, $TableError> {
                $Table::mark_salvaging(image, marker, header)
            }
            fn discard(&self, item: &$crate::DamagedItem) {
                $Table::discard(self, item);
            }
            fn may_lie_in(&self, key: &[u8], bucket: u64) -> bool {
                $Table::may_lie_in(self, key, bucket)
            }
            fn attach(
                heap: &std::sync::Arc<warpkeep_image::Heap<P>>,
                header: u64,
            ) -> Result<Self, $TableError> {
                $Table::attach(heap, header)
            }
            fn spec(&self) -> $TableSpec {
                $Table::spec(self)
            }
            fn heap(&self) -> &std::sync::Arc<warpkeep_image::Heap<P>> {
                $Table::heap(self)
            }
            fn header(&self) -> u64 {
                $Table::header(self)
            }
            fn inspect(
                image: &warpkeep_image::Image<P>,
                header: u64,
            ) -> Result<$crate::Inspection, $TableError> {
                $Table::inspect(image, header)
            }
            fn demolish(self) -> Result<(), $TableError> {
                $Table::demolish(self)
            }
        }
    };
}
