//! The index of a table: one of several, dispatched once a call or once a batch.

mod device_table;
mod figures;
mod gphash_device;
mod kind;
mod no_device;
mod on_device;
mod options;
mod spec;
mod stats;

use std::sync::Arc;

use warpkeep_core::{Change, KeyCells};
use warpkeep_image::{Clearing, Guard, Heap, Image, Marker, Owner, Persist};
use warpkeep_record::{Budget, DamagedItem, Kept, Progress, ScanPosition, Staging as _, Upkeep, Value};

pub(crate) use device_table::{
    CommitPart, DeviceFailure, DeviceReads, DeviceTable, EnqueuedGets, FusedDecisions, FusedStage,
    FusedWrites, PartAnswers, PinnedColumns, StepTimes, TwoPhaseStage, ValueCache, WriteLock,
};
pub(crate) use figures::{Figures, Size};
pub(crate) use gphash_device::{
    DeviceImage, FusedRows, GetRows, HostGets, HostRows, HostWrites, KeysFound, RowOps, StepTime, StepWatch,
    ValueBudget, ValueCacheStats, WriteRows,
};
pub use gphash_device::{DeviceProfile, PublishBy};
pub use kind::IndexKind;
pub use options::IndexOptions;
pub(crate) use spec::{Form, Spec};
pub use stats::TableStats;
pub use warpkeep_gphash::{
    Geometry, Layout, LevelStats, TableError as GpHashError, TableStats as GpHashStats,
};

use self::gphash_device::GpHashDevice;
use self::no_device::NoDevice;
use crate::device::Execution;
use crate::{Error, Result};

/// A table with any index. Neither is behind a pointer: single-key reads are sensitive to every cache line.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Index<P: Persist> {
    GpHash(PlacedTable<P, warpkeep_gphash::Table<P>>),
    TurboHash(PlacedTable<P, warpkeep_turbohash::Table<P>>),
}

/// A table, and where its batches run.
pub(crate) struct PlacedTable<P: Persist, T: Planned<P>> {
    // Dropped before the table that it refers to.
    pub(crate) execution: Execution<P, T>,
    pub(crate) table: T,
}

/// Does the same with the table of any index, and where its batches run.
macro_rules! with_placed {
    ($index:expr, $placed:ident => $result:expr) => {
        match $index {
            $crate::index::Index::GpHash($placed) => $result,
            $crate::index::Index::TurboHash($placed) => $result,
        }
    };
}
pub(crate) use with_placed;

/// Does the same with the table of any index.
macro_rules! with_table {
    ($index:expr, $table:ident => $result:expr) => {
        match $index {
            Index::GpHash(PlacedTable { table: $table, .. }) => $result,
            Index::TurboHash(PlacedTable { table: $table, .. }) => $result,
        }
    };
}
use with_table;

/// The planner's view of a table.
pub(crate) trait Planned<P: Persist>: Upkeep<P, Error: Into<Error>> + Sized {
    /// The device that can run its batches.
    type Device: DeviceTable<P, Self>;

    /// The cells that represent its keys in device memory, if keys have any length up to a short limit, and values one.
    fn key_cells(&self) -> Option<KeyCells>;

    /// Bytes of a key in device memory: of the key itself, or of its cell; `None` if keys have any length there, too.
    fn key_row_len(&self) -> Option<usize> {
        self.key_cells().map(KeyCells::row_len).or_else(|| self.key_spec().fixed_len())
    }
}

impl<P: Persist> Planned<P> for warpkeep_gphash::Table<P> {
    type Device = GpHashDevice<P>;

    fn key_cells(&self) -> Option<KeyCells> {
        warpkeep_gphash::Table::key_cells(self)
    }
}

impl<P: Persist> Planned<P> for warpkeep_turbohash::Table<P> {
    type Device = NoDevice;

    fn key_cells(&self) -> Option<KeyCells> {
        None
    }
}

impl<P: Persist, T: Planned<P>> PlacedTable<P, T> {
    /// A table on the CPU.
    fn on_cpu(table: T) -> PlacedTable<P, T> {
        PlacedTable { execution: Execution::cpu(), table }
    }
}

impl<P: Persist> Index<P> {
    /// Lays out an empty table, which is not reachable yet.
    pub(crate) fn create(heap: &Arc<Heap<P>>, spec: &Spec) -> Result<Index<P>> {
        let mut index = match spec.form {
            Form::GpHash { geometry, layout } => {
                let Spec { key, value, capacity, merge, seed, .. } = *spec;
                let spec = warpkeep_gphash::TableSpec { key, value, geometry, capacity, layout, merge, seed };
                Index::GpHash(PlacedTable::on_cpu(warpkeep_gphash::Table::create(heap, &spec)?))
            }
            Form::TurboHash { shards } => {
                let Spec { key, value, capacity, merge, seed, .. } = *spec;
                let spec = warpkeep_turbohash::TableSpec { key, value, capacity, shards, merge, seed };
                Index::TurboHash(PlacedTable::on_cpu(warpkeep_turbohash::Table::create(heap, &spec)?))
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
            IndexKind::GpHash => {
                Index::GpHash(PlacedTable::on_cpu(warpkeep_gphash::Table::attach(heap, header)?))
            }
            IndexKind::TurboHash => {
                Index::TurboHash(PlacedTable::on_cpu(warpkeep_turbohash::Table::attach(heap, header)?))
            }
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
            Index::GpHash(PlacedTable { table, .. }) => {
                let warpkeep_gphash::TableSpec { key, value, geometry, capacity, layout, merge, seed } =
                    table.spec();
                let (form, check_gets) = (Form::GpHash { geometry, layout }, table.checks_gets());
                Spec { key, value, capacity, merge, seed, form, check_gets }
            }
            Index::TurboHash(PlacedTable { table, .. }) => {
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
        if let Index::GpHash(PlacedTable { table, .. }) = self {
            table.hold_still();
        }
    }

    /// Lets items move again.
    pub(crate) fn let_move(&self) {
        if let Index::GpHash(PlacedTable { table, .. }) = self {
            table.let_move();
        }
    }

    /// Brings an item to the state of a change, unless it already has that state or a later one.
    pub(crate) fn redo(&self, change: &Change<'_>) -> Result<()> {
        with_table!(self, table => Ok(table.redo(change)?))
    }

    /// Makes it twice as large. Items move, so that kernels and other writers wait.
    pub(crate) fn grow(&self) -> Result<()> {
        with_placed!(self, placed => {
            let _exclusive = placed.execution.exclusive();
            Ok(placed.table.grow()?)
        })
    }

    /// Makes it smaller, if its items allow that; returns whether they did. Items move, so that kernels and other
    /// writers wait.
    pub(crate) fn shrink(&self) -> Result<bool> {
        with_placed!(self, placed => {
            let _exclusive = placed.execution.exclusive();
            Ok(placed.table.shrink()?)
        })
    }

    /// Moves records together; returns how many. Other writers wait where a device writes.
    pub(crate) fn defragment(&self, clearing: &Clearing<'_, P>) -> Result<u64> {
        with_placed!(self, placed => {
            let _lock = placed.execution.write_lock();
            Ok(placed.table.defragment(clearing)?)
        })
    }

    /// Moves its records out of blocks that must become free; those that it moved are removed from the list. Other
    /// writers wait where a device writes.
    pub(crate) fn vacate(&self, clearing: &Clearing<'_, P>, blocks: &mut Vec<(u64, u64)>) -> Result<u64> {
        with_placed!(self, placed => {
            let _lock = placed.execution.write_lock();
            Ok(placed.table.vacate(clearing, blocks)?)
        })
    }

    /// A slice of its growth, by the device or the CPU; or of the maintenance of its value cache.
    pub(crate) fn maintain(&self, budget: Budget) -> Result<Progress> {
        match self {
            Index::GpHash(PlacedTable { execution, table }) if !table.wants_maintenance() => {
                execution.maintain_value_cache(table);
                Ok(Progress::Idle)
            }
            Index::GpHash(PlacedTable { execution, table }) => execution.maintain(table, budget),
            // Not only where it needs some: a shard that another thread rebuilds no longer does.
            Index::TurboHash(PlacedTable { execution, table }) => execution.maintain(table, budget),
        }
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
        with_placed!(self, placed => {
            drop(placed.execution);
            Ok(placed.table.demolish()?)
        })
    }

    /// How full it is. Looks at every slot, or at a good part of them.
    pub(crate) fn stats(&self) -> TableStats {
        match self {
            Index::GpHash(PlacedTable { table, .. }) => TableStats::GpHash(table.stats()),
            Index::TurboHash(PlacedTable { table, .. }) => TableStats::TurboHash(table.stats()),
        }
    }
}

impl Error {
    /// The failure of a device, if the error is one.
    pub(crate) fn device_failure(&self) -> Option<DeviceFailure> {
        match self {
            Error::Device(error) if error.is_out_of_memory() => Some(DeviceFailure::OutOfMemory),
            // The second says that the device does not reach all of the image.
            Error::Device(_) | Error::Table(GpHashError::Scattered) => Some(DeviceFailure::Lost),
            _ => None,
        }
    }

    /// Whether a table has no place for a key.
    pub(crate) fn is_table_full(&self) -> bool {
        matches!(
            self,
            Error::Table(GpHashError::Full) | Error::TurboHash(warpkeep_turbohash::TableError::Full)
        )
    }
}

impl From<warpkeep_gphash::TableError> for Error {
    fn from(error: warpkeep_gphash::TableError) -> Error {
        match error {
            warpkeep_gphash::TableError::Image(error) => Error::Image(error),
            warpkeep_gphash::TableError::Device(error) => Error::Device(error),
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

#[cfg(test)]
mod tests {
    use warpkeep_device::DeviceError;

    use super::*;

    #[test]
    fn an_error_of_a_device_is_none_of_the_table() {
        let short = Error::from(GpHashError::Device(DeviceError::OutOfBudget { asked: 2, left: 1 }));
        assert!(matches!(short, Error::Device(_)), "{short:?}");
        assert_eq!(short.device_failure(), Some(DeviceFailure::OutOfMemory));
        assert_eq!(Error::from(GpHashError::Scattered).device_failure(), Some(DeviceFailure::Lost));
        for kind in IndexKind::ALL {
            assert_eq!((kind.full().device_failure(), kind.full().is_table_full()), (None, true), "{kind}");
        }
    }
}
