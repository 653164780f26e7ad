//! The index of a table: one of several, dispatched once a call or once a batch.

mod figures;
mod kind;
mod options;
mod spec;
mod stats;

use std::sync::Arc;

use warpkeep_core::Change;
use warpkeep_image::{Clearing, Guard, Heap, Image, Marker, Owner, Persist};
use warpkeep_record::{DamagedItem, Kept, ScanPosition, Staging, Value};

pub(crate) use figures::{Figures, Size};
pub use kind::IndexKind;
pub use options::IndexOptions;
pub(crate) use spec::{Form, Spec};
pub use stats::TableStats;

use crate::{Error, Result};

/// A table with any index. Neither is behind a pointer: single-key reads are sensitive to every cache line.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Index<P: Persist> {
    GpHash(warpkeep_gphash::Table<P>),
    TurboHash(warpkeep_turbohash::Table<P>),
}

/// Does the same with the table of any index.
macro_rules! with_table {
    ($index:expr, $table:ident => $result:expr) => {
        match $index {
            $crate::index::Index::GpHash($table) => $result,
            $crate::index::Index::TurboHash($table) => $result,
        }
    };
}
pub(crate) use with_table;

/// The planner's view of a table.
pub(crate) trait Planned<P: Persist>: Staging<P, Error: Into<Error>> {
    /// The table, if devices can work such tables.
    fn for_devices(&self) -> Option<&warpkeep_gphash::Table<P>>;
}

impl<P: Persist> Planned<P> for warpkeep_gphash::Table<P> {
    fn for_devices(&self) -> Option<&warpkeep_gphash::Table<P>> {
        Some(self)
    }
}

impl<P: Persist> Planned<P> for warpkeep_turbohash::Table<P> {
    fn for_devices(&self) -> Option<&warpkeep_gphash::Table<P>> {
        None
    }
}

impl<P: Persist> Index<P> {
    /// Lays out an empty table, which is not reachable yet.
    pub(crate) fn create(heap: &Arc<Heap<P>>, spec: &Spec) -> Result<Index<P>> {
        let mut index = match spec.form {
            Form::GpHash { geometry, layout } => {
                let Spec { key, value, capacity, merge, seed, .. } = *spec;
                let spec = warpkeep_gphash::TableSpec { key, value, geometry, capacity, layout, merge, seed };
                Index::GpHash(warpkeep_gphash::Table::create(heap, &spec)?)
            }
            Form::TurboHash { shards } => {
                let Spec { key, value, capacity, merge, seed, .. } = *spec;
                let spec = warpkeep_turbohash::TableSpec { key, value, capacity, shards, merge, seed };
                Index::TurboHash(warpkeep_turbohash::Table::create(heap, &spec)?)
            }
        };
        index.check_gets(spec.check_gets);
        Ok(index)
    }

    /// Whether values are to be checked when they are looked up. The table is not in use yet.
    pub(crate) fn check_gets(&mut self, on: bool) {
        with_table!(self, table => table.check_gets(on));
    }

    /// Marks everything that a table's header leads to, and checks it on the way.
    pub(crate) fn mark(kind: IndexKind, image: &Image<P>, marker: &Marker<'_, P>, header: u64) -> Result<()> {
        match kind {
            IndexKind::GpHash => Ok(warpkeep_gphash::Table::mark(image, marker, header)?),
            IndexKind::TurboHash => Ok(warpkeep_turbohash::Table::mark(image, marker, header)?),
        }
    }

    /// Opens a table that has just been marked.
    pub(crate) fn attach(kind: IndexKind, heap: &Arc<Heap<P>>, header: u64) -> Result<Index<P>> {
        Ok(match kind {
            IndexKind::GpHash => Index::GpHash(warpkeep_gphash::Table::attach(heap, header)?),
            IndexKind::TurboHash => Index::TurboHash(warpkeep_turbohash::Table::attach(heap, header)?),
        })
    }

    /// The process that opened it.
    pub(crate) fn owner(&self) -> Owner {
        with_table!(self, table => table.heap().image().owner())
    }

    pub(crate) fn kind(&self) -> IndexKind {
        match self {
            Index::GpHash(_) => IndexKind::GpHash,
            Index::TurboHash(_) => IndexKind::TurboHash,
        }
    }

    /// The spec that would create this table.
    pub(crate) fn spec(&self) -> Spec {
        match self {
            Index::GpHash(table) => {
                let warpkeep_gphash::TableSpec { key, value, geometry, capacity, layout, merge, seed } =
                    table.spec();
                let (form, check_gets) = (Form::GpHash { geometry, layout }, table.checks_gets());
                Spec { key, value, capacity, merge, seed, form, check_gets }
            }
            Index::TurboHash(table) => {
                let warpkeep_turbohash::TableSpec { key, value, capacity, shards, merge, seed } =
                    table.spec();
                let (form, check_gets) = (Form::TurboHash { shards }, table.checks_gets());
                Spec { key, value, capacity, merge, seed, form, check_gets }
            }
        }
    }

    pub(crate) fn len(&self) -> u64 {
        with_table!(self, table => table.len())
    }

    /// Where its header lies in the image.
    pub(crate) fn header(&self) -> u64 {
        with_table!(self, table => table.header())
    }

    /// Looks a key up and passes the value to `then`.
    #[inline]
    pub(crate) fn get<R>(&self, key: &[u8], then: impl FnOnce(Value<'_, P>) -> R) -> Option<R> {
        with_table!(self, table => table.get(key, then))
    }

    /// The same, for a caller that has pinned the heap's epochs.
    #[inline]
    pub(crate) fn get_pinned<R>(
        &self,
        pinned: &Guard,
        key: &[u8],
        then: impl FnOnce(Value<'_, P>) -> R,
    ) -> Option<R> {
        with_table!(self, table => table.get_pinned(pinned, key, then))
    }

    /// Looks many keys up and gives each answer, in order, to `each`.
    pub(crate) fn get_many<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        each: impl FnMut(usize, Option<Value<'_, P>>),
    ) {
        with_table!(self, table => table.get_many(keys, each));
    }

    /// Gives out every item, while writers go on.
    pub(crate) fn scan<E>(&self, id: u32, each: impl FnMut(&Change<'_>) -> Result<(), E>) -> Result<(), E> {
        with_table!(self, table => table.scan(id, each))
    }

    /// Returns every item, each checked, and damaged ones as damaged.
    pub(crate) fn scan_checked<E>(
        &self,
        id: u32,
        each: impl FnMut(Result<&Change<'_>, &DamagedItem>) -> Result<(), E>,
    ) -> Result<(), E> {
        with_table!(self, table => table.scan_checked(id, each))
    }

    /// Marks everything reachable from a table's header; removes and returns items with invalid references.
    pub(crate) fn mark_salvaging(
        kind: IndexKind,
        image: &Image<P>,
        marker: &Marker<'_, P>,
        header: u64,
    ) -> Result<Vec<DamagedItem>> {
        Ok(match kind {
            IndexKind::GpHash => warpkeep_gphash::Table::mark_salvaging(image, marker, header)?,
            IndexKind::TurboHash => warpkeep_turbohash::Table::mark_salvaging(image, marker, header)?,
        })
    }

    /// Takes a damaged item out. The caller is the only user of the table.
    pub(crate) fn discard(&self, item: &DamagedItem) {
        with_table!(self, table => Kept::discard(table, item));
    }

    /// Whether a key may lie in the bucket at an offset.
    pub(crate) fn may_lie_in(&self, key: &[u8], bucket: u64) -> bool {
        with_table!(self, table => Kept::may_lie_in(table, key, bucket))
    }

    /// Returns the items of a few buckets, from a position on; returns whether there is more.
    pub(crate) fn scan_some<E>(
        &self,
        id: u32,
        position: &mut ScanPosition,
        each: impl FnMut(&Change<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        with_table!(self, table => table.scan_some(id, position, each))
    }

    /// Keeps items in place, except for growth, until [`Index::let_move`] has been called as often.
    pub(crate) fn hold_still(&self) {
        // A scan of the other kind looks again where items may have moved to.
        if let Index::GpHash(table) = self {
            table.hold_still();
        }
    }

    /// Lets items move again.
    pub(crate) fn let_move(&self) {
        if let Index::GpHash(table) = self {
            table.let_move();
        }
    }

    /// Brings an item to the state of a change, unless it already has that state or a later one.
    pub(crate) fn redo(&self, change: &Change<'_>) -> Result<()> {
        with_table!(self, table => Ok(table.redo(change)?))
    }

    pub(crate) fn grow(&self) -> Result<()> {
        with_table!(self, table => Ok(table.grow()?))
    }

    pub(crate) fn shrink(&self) -> Result<bool> {
        with_table!(self, table => Ok(table.shrink()?))
    }

    pub(crate) fn defragment(&self, clearing: &Clearing<'_, P>) -> Result<u64> {
        with_table!(self, table => Ok(table.defragment(clearing)?))
    }

    /// Moves its records out of blocks that must become free; those that it moved are removed from the list.
    pub(crate) fn vacate(&self, clearing: &Clearing<'_, P>, blocks: &mut Vec<(u64, u64)>) -> Result<u64> {
        with_table!(self, table => Ok(table.vacate(clearing, blocks)?))
    }

    /// Bytes of a record with a key and a value of these lengths.
    pub(crate) fn record_len(&self, key: usize, value: usize) -> u64 {
        with_table!(self, table => table.record_len(key, value))
    }

    /// Keys that exist more than once, while there are no writers.
    pub(crate) fn doubled(&self) -> Result<u64> {
        with_table!(self, table => Ok(table.inspection()?.doubled))
    }

    /// Frees everything it has.
    pub(crate) fn demolish(self) -> Result<()> {
        with_table!(self, table => Ok(table.demolish()?))
    }

    /// How full it is. Looks at every slot, or at a good part of them.
    pub(crate) fn stats(&self) -> TableStats {
        match self {
            Index::GpHash(table) => TableStats::GpHash(table.stats()),
            Index::TurboHash(table) => TableStats::TurboHash(table.stats()),
        }
    }
}

impl From<warpkeep_gphash::TableError> for Error {
    fn from(error: warpkeep_gphash::TableError) -> Error {
        match error {
            warpkeep_gphash::TableError::Image(error) => Error::Image(error),
            other => Error::Table(other),
        }
    }
}

impl From<warpkeep_turbohash::TableError> for Error {
    fn from(error: warpkeep_turbohash::TableError) -> Error {
        match error {
            warpkeep_turbohash::TableError::Image(error) => Error::Image(error),
            warpkeep_turbohash::TableError::Core(error) => Error::Core(error),
            other => Error::TurboHash(other),
        }
    }
}
