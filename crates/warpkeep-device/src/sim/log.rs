//! What a seeded run tells about memory: the stores to the image, and the steps.

use super::error::Place;

/// A registered range of memory, in logs and traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionId(pub(super) u32);

/// A store to image memory. A log lists stores in the order in which each byte got them.
///
/// Steps are memory operations and the ends of launches, counted over all launches of a simulator. A crash after step `n` finds the store in the
/// image for certain if [`fenced`](Self::fenced) is at most `n`; it may or may not find it if [`issued`](Self::issued) is at
/// most `n`; else it does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreRecord {
    /// The range that was stored to.
    pub region: RegionId,
    /// Where in it.
    pub offset: u64,
    /// What.
    pub bytes: Vec<u8>,
    /// The step at which the lane stored.
    pub issued: u64,
    /// The step at which the image got it in this run; `None` if the power went before.
    pub arrived: Option<u64>,
    /// The step at which a fence of system scope, or the end of the launch, had it behind it.
    pub fenced: Option<u64>,
    /// Fences of system scope, by all lanes of the launch, that were over when the lane stored.
    pub epoch: u64,
    /// The lane's block in the grid.
    pub block: u32,
    /// The lane's thread in its block.
    pub thread: u32,
    /// Where in the source.
    pub place: Place,
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TraceKind {
    /// Read; the event's value is what was read.
    Load,
    /// Wrote; the value is what was written.
    Store,
    /// Changed in one step; the value is what was there.
    Change,
    /// Fenced; the value is 0, 1 or 2 for the block, the device and the system.
    Fence,
}

/// One step of a seeded run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceEvent {
    /// Its number, from 1, over all launches.
    pub step: u64,
    /// The lane's block in the grid.
    pub block: u32,
    /// The lane's thread in its block.
    pub thread: u32,
    /// What was done.
    pub kind: TraceKind,
    /// The range it was done to; `None` for shared memory and fences.
    pub region: Option<RegionId>,
    /// Where in it.
    pub offset: u64,
    /// The first 8 bytes of the value.
    pub value: u64,
}
