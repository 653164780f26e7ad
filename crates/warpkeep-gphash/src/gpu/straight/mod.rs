//! Batches written straight through: with no log between deciding and publishing, nothing has to come back to the host, and nothing
//! crosses the link but records, in the order of their addresses, and one word a key. `kernels/straight.h` says how.
//!
//! It takes a [mirror](super::DeviceEngine::load_mirror), keys of eight bytes, and a table that is not just growing; otherwise a batch is
//! [staged](super::Turn::stage).

mod copies;
mod left;
mod run;
mod supply;

pub(crate) use copies::LevelCopies;
pub(crate) use supply::Supply;

use warpkeep_core::Op;
use warpkeep_device::DevicePtr;

/// A batch in device memory whose operations all do the same. Keys may come more than once: they act in the order of the batch.
#[derive(Clone, Copy, Debug)]
pub struct StraightRows {
    /// A put, an insert, an update or a delete.
    pub op: Op,
    /// How many operations.
    pub count: u64,
    /// The keys, of eight bytes.
    pub keys: DevicePtr,
    /// The values, each of whole words; null for deletes.
    pub values: DevicePtr,
    /// A byte each, for the code of a [`Status`](warpkeep_core::Status).
    pub statuses: DevicePtr,
}

/// What a batch came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wrote {
    /// Keys that are new.
    pub created: u64,
    /// Keys that have another value.
    pub replaced: u64,
    /// Keys that are gone.
    pub removed: u64,
    /// Operations that the CPU had to do.
    pub by_cpu: u64,
}
