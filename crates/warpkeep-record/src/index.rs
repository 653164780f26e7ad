//! What an index offers to whoever uses its tables, in small parts: to look, to write, to be looked after, to be kept.
//!
//! A table of any index can be used through these; none of them is meant to be a trait object. Who has tables of several
//! indexes asks once which one it is, and does the rest through these.

use std::sync::Arc;

use warpkeep_core::{Change, KeySpec, MergeRule, ValueSpec};
use warpkeep_image::{Clearing, Heap, Image, Marker, Persist};

use crate::{DamagedItem, Value};

/// What a call of [`Upkeep::maintain`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is nothing to do.
    Idle,
    /// There is more to do.
    Working,
    /// Somebody else is at it, or holds what wants it.
    Busy,
    /// Some items have no other place for now; what they lie in stays, and is to be tried again later.
    Stuck,
}

/// Items can be looked up. Readers take no locks.
pub trait Lookup<P: Persist>: Send + Sync {
    /// What keys are.
    fn key_spec(&self) -> KeySpec;
    /// What values are.
    fn value_spec(&self) -> ValueSpec;
    /// What a merge does.
    fn merge_rule(&self) -> MergeRule;
    /// Items in it. Exact while nobody writes.
    fn len(&self) -> u64;
    /// Whether it has no items.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The hash of a key, as [`Staging::stage`] wants it.
    fn hash_of(&self, key: &[u8]) -> u64;
    /// Looks a key up and gives what is found to `then`.
    fn get<R>(&self, key: &[u8], then: impl FnOnce(Value<'_, P>) -> R) -> Option<R>;
    /// Looks many keys up and gives each answer, in order, to `each`.
    fn get_many<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        each: impl FnMut(usize, Option<Value<'_, P>>),
    );
    /// Gives out every item, while writers go on. An item that is there throughout is given out at least once.
    fn scan<E>(&self, table: u32, each: impl FnMut(&Change<'_>) -> Result<(), E>) -> Result<(), E>;
    /// The same, each item checked: that its slot and its record belong together, that its lengths are possible, and that its checksum is
    /// right, if it has one. What is damaged is given out as that, in place of the item.
    fn scan_checked<E>(
        &self,
        table: u32,
        each: impl FnMut(Result<&Change<'_>, &DamagedItem>) -> Result<(), E>,
    ) -> Result<(), E>;
    /// Whether its records have checksums: those of tables that were made before there were any have none, nor do items that lie in slots.
    fn has_checksums(&self) -> bool;
}

/// Where a key is in a table, or that it is not there.
pub trait Seated {
    /// The version of the key's item, if it has one.
    fn version(&self) -> Option<u64>;
}

/// Changes to a table whose keys are held, not yet visible. Dropped, it leaves nothing behind.
pub trait Staged<P: Persist> {
    /// Where a key is.
    type Seat: Seated;
    /// How the table stood when it had no place for a key.
    type Seen;
    /// Why a change cannot be staged.
    type Error;
    /// What holds the keys once the changes are visible.
    type Published;

    /// Has room ready for so many values to come.
    fn expect_values(&mut self, count: usize);
    /// Where a key is, whose hash was given to [`Staging::stage`]. A change to it that was staged before is not seen:
    /// stage one change a key.
    fn seat(&self, key: &[u8], hash: u64) -> Self::Seat;
    /// What the key of a seat has.
    fn value(&self, seat: &Self::Seat) -> Option<Value<'_, P>>;
    /// Stages a value for the key of a seat, new or not. An error that [tells of a full table](Full::is_full) asks for
    /// [`Staging::make_room`] and another stage.
    fn put(&mut self, seat: &Self::Seat, key: &[u8], value: &[u8], version: u64) -> Result<(), Self::Error>;
    /// Stages the end of the key of a seat; `false` if it is not there.
    fn remove(&mut self, seat: &Self::Seat) -> bool;
    /// How the table stands, if it has no place for a key.
    fn seen(&self) -> Self::Seen;
    /// Makes all of it visible, durably. Cannot fail. The keys are held until what it gives is dropped.
    fn publish(self) -> Self::Published;
}

/// A key that something is about to happen to.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Its hash.
    pub hash: u64,
    /// Whether the value that it has will be read, and not only replaced or removed.
    pub value_is_read: bool,
}

impl From<u64> for Expected {
    /// A key of which nothing but its hash is known.
    fn from(hash: u64) -> Expected {
        Expected { hash, value_is_read: true }
    }
}

/// How many keys a writer best holds at once where so many locks stand for all keys.
///
/// Two writers with `n` keys each have a lock in common about `n * n` times in as many turns as there are locks; one in eight
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
    /// Why something cannot be done.
    type Error: std::error::Error + Full;

    /// Holds these keys against other writers, and brings what they have nearer.
    fn stage(&self, keys: impl IntoIterator<Item = impl Into<Expected>>) -> Self::Stage<'_>;
    /// How many keys a writer best holds at once: enough that their misses overlap, and few enough that two writers rarely
    /// meet.
    fn keys_at_once(&self) -> usize;
    /// Makes room for a key that found none. The caller must not hold a stage any more.
    fn make_room(&self, seen: Self::Seen) -> Result<(), Self::Error>;
    /// Brings an item to the state that a change tells of, unless it is there or beyond already.
    fn redo(&self, change: &Change<'_>) -> Result<(), Self::Error>;
}

/// An error that may tell of a full table.
pub trait Full {
    /// Whether a key found no place.
    fn is_full(&self) -> bool;
}

/// A table is looked after while it is in use.
pub trait Upkeep<P: Persist>: Staging<P> {
    /// Whether [`Upkeep::maintain`] would find something to do.
    fn wants_maintenance(&self) -> bool;
    /// Does a slice of whatever is to be done, of about so many buckets.
    fn maintain(&self, buckets: u64) -> Result<Progress, Self::Error>;
    /// Makes the table twice as large.
    fn grow(&self) -> Result<(), Self::Error>;
    /// Makes the table smaller if it has become too large for its items; whether it did.
    fn shrink(&self) -> Result<bool, Self::Error>;
    /// Moves its records out of slabs that are being cleared; gives how many it moved.
    fn defragment(&self, clearing: &Clearing<'_, P>) -> Result<u64, Self::Error>;
    /// The same for the records in these blocks, each given with its size: what is moved is taken from the list. It costs what is in
    /// the blocks, and not what is in the table, where records tell their keys. What finds no other place stays.
    fn vacate(&self, clearing: &Clearing<'_, P>, blocks: &mut Vec<(u64, u64)>) -> Result<u64, Self::Error>;
}

/// A table comes and goes, and comes back after a crash.
pub trait Kept<P: Persist>: Upkeep<P> + Sized {
    /// What it is created with.
    type Spec;

    /// Lays out an empty table and gives it; [`Kept::header`] says where. Nothing leads to it yet.
    fn create(heap: &Arc<Heap<P>>, spec: &Self::Spec) -> Result<Self, Self::Error>;
    /// Marks everything that a table's header leads to, and checks it on the way.
    fn mark(image: &Image<P>, marker: &Marker<'_, P>, header: u64) -> Result<(), Self::Error>;
    /// The same for a table that may be damaged: items that lead to no record, or to that of another item, are taken out,
    /// and given. Only then are its slots known to be good; what they lead to is checked by [`Lookup::scan_checked`].
    fn mark_salvaging(
        image: &Image<P>,
        marker: &Marker<'_, P>,
        header: u64,
    ) -> Result<Vec<DamagedItem>, Self::Error>;
    /// Takes a damaged item out of a table that is used by no other thread. Its record is free at the next opening.
    fn discard(&self, item: &DamagedItem);
    /// Whether a key may lie in the bucket at an offset.
    fn may_lie_in(&self, key: &[u8], bucket: u64) -> bool;
    /// Opens a table that has just been [marked](Kept::mark), finishes what was under way, and counts its items.
    fn attach(heap: &Arc<Heap<P>>, header: u64) -> Result<Self, Self::Error>;
    /// What it would have to be created with to be what it is.
    fn spec(&self) -> Self::Spec;
    /// The space it lies in.
    fn heap(&self) -> &Arc<Heap<P>>;
    /// Where its header lies in the image: what the catalogue keeps.
    fn header(&self) -> u64;
    /// Keys that are there more than once, in a table that has just been marked and that nobody writes to: damage.
    fn doubled(&self) -> Result<u64, Self::Error>;
    /// Whether every item of such a table is where it is looked for, and there once.
    fn is_clean(&self) -> Result<bool, Self::Error>;
    /// Frees everything it has. Nothing must lead to it any more, durably.
    fn demolish(self) -> Result<(), Self::Error>;
}

/// Has the table of an index offer all of the above, by what it has itself under the same names.
#[macro_export]
macro_rules! offer_index {
    ($Table:ident, $TableSpec:ident, $TableError:ident, $Stage:ident, $Published:ident, $Seat:ident, $Seen:ident) => {
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
            fn hash_of(&self, key: &[u8]) -> u64 {
                $Table::hash_of(self, key)
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

        impl $crate::Seated for $Seat {
            #[inline]
            fn version(&self) -> Option<u64> {
                $Seat::version(self)
            }
        }

        impl<'t, P: warpkeep_image::Persist> $crate::Staged<P> for $Stage<'t, P> {
            type Seat = $Seat;
            type Seen = $Seen;
            type Error = $TableError;
            type Published = $Published<'t, P>;

            #[inline]
            fn expect_values(&mut self, count: usize) {
                $Stage::expect_values(self, count);
            }
            #[inline]
            fn seat(&self, key: &[u8], hash: u64) -> $Seat {
                $Stage::seat(self, key, hash)
            }
            #[inline]
            fn value(&self, seat: &$Seat) -> Option<$crate::Value<'_, P>> {
                $Stage::value(self, seat)
            }
            #[inline]
            fn put(
                &mut self,
                seat: &$Seat,
                key: &[u8],
                value: &[u8],
                version: u64,
            ) -> Result<(), $TableError> {
                $Stage::put(self, seat, key, value, version)
            }
            #[inline]
            fn remove(&mut self, seat: &$Seat) -> bool {
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
            fn stage(&self, keys: impl IntoIterator<Item = impl Into<$crate::Expected>>) -> $Stage<'_, P> {
                $Table::stage(self, keys)
            }
            #[inline]
            fn keys_at_once(&self) -> usize {
                $crate::keys_at_once(self.locks())
            }
            fn make_room(&self, seen: $Seen) -> Result<(), $TableError> {
                $Table::make_room(self, seen)
            }
            fn redo(&self, change: &warpkeep_core::Change<'_>) -> Result<(), $TableError> {
                $Table::redo(self, change)
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
            fn maintain(&self, buckets: u64) -> Result<$crate::Progress, $TableError> {
                $Table::maintain(self, buckets)
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
            fn doubled(&self) -> Result<u64, $TableError> {
                Ok($Table::inspect(self.heap().image(), self.header())?.doubled)
            }
            fn is_clean(&self) -> Result<bool, $TableError> {
                Ok($Table::inspect(self.heap().image(), self.header())?.is_clean())
            }
            fn demolish(self) -> Result<(), $TableError> {
                $Table::demolish(self)
            }
        }
    };
}
