//! Tables that a device works: batches run as kernels over the same bytes that the CPU uses.
//!
//! # Problem
//!
//! The items of a table are in host memory, and a device reaches them over a link that is fast for sequential
//! accesses and slow for random ones. A hash table is all random accesses.
//!
//! # How
//!
//! The image is registered with the device, so that kernels and the CPU use the same bytes at the same offsets. The
//! index of a table is in device memory, and a batch is planned there: duplicates are combined, and accesses to the
//! image are sorted by address. Only records and slot words cross the link. The image is the source of truth:
//! everything in device memory is derived from it and can be dropped.
//!
//! | module | contents |
//! | --- | --- |
//! | `engine` | a table's kernels, locks, workspaces and thresholds |
//! | `image` | registration of the image, also while it grows |
//! | `kernels`, `params` | kernel sets, their constants, and their parameters |
//! | `profile` | the thresholds that decide how a batch runs |
//! | `index` | the device index: from each key to its record, in device memory |
//! | `change_feed` | changes of the CPU, which the device index applies before the next kernel reads |
//! | `cuckoo` | the cuckoo index of a table with keys or values of any length: from hashes to records, in device memory |
//! | `value_cache` | values of the most frequent keys in device memory |
//! | `read` | gets, with columns in device memory or in host memory |
//! | `batch` | write batches in host memory, and their columns |
//! | `write` | two-phase writes, and fused writes |
//! | `blocks` | the block pool: free blocks for records that the device writes |
//! | `maintenance` | growth and repair |
//! | [`paper`] | the gets of the GPHash paper, as a baseline |
//!
//! # A get
//!
//! 1. `read` checks the batch, takes a workspace and the relocation lock, and pins an epoch.
//! 2. `index` applies pending changes of the `change_feed` and returns an index snapshot.
//! 3. `profile` selects the strategy, and `read::lookup` launches the `kernels` with their `params`: locate the
//!    records, sort them by address or scatter them to buckets, fetch the values from the `value_cache` or from the
//!    `image`, and fall back to the image for keys that the index cannot answer.
//! 4. For answers in host memory, `read::host` copies values with several threads.
//!
//! # A write
//!
//! 1. The caller takes the [`WriteLock`]. `batch` copies operations from host memory to columns; `write` chooses
//!    between a fused write and a two-phase write.
//! 2. `blocks` provides free blocks. A kernel decides each operation: `index` and the copies of the levels determine
//!    its slot.
//! 3. The caller logs the decisions, if the table has a log.
//! 4. Records reach the image, then the slot words that publish them, then the index entries; `write::pipeline` does
//!    it on the device, `write::host_publish` with threads of the host. `value_cache` redirects entries whose values
//!    changed.
//! 5. Operations that the device could not decide fall back to the CPU, and the blocks of replaced records retire.
//!
//! # Invariants
//!
//! * A table has one writer at a time: whether the device or the CPU writes to a table that a device works, the
//!   writer holds its [`WriteLock`].
//! * Items do not move while a kernel probes for them: kernels hold the relocation lock for reading, and movers hold
//!   [`RelocationWrite`].
//! * A record is in the image before the slot word that publishes it.
//! * Records and blocks are freed when no pinned epoch can reach them; a running kernel keeps its epoch pinned.

mod batch;
mod blocks;
pub(crate) mod change_feed;
mod cuckoo;
mod engine;
mod image;
mod index;
mod kernels;
mod maintenance;
pub mod paper;
mod params;
mod profile;
#[cfg(test)]
#[cfg(not(no_simulator))]
mod race;
mod read;
mod value_cache;
mod write;

pub use warpkeep_device::{StepTime, TimedBatch};

pub use self::batch::{BatchRows, DeviceBatch};
pub use self::engine::{DeviceEngine, RelocationWrite, WriteLock};
pub use self::image::DeviceImage;
#[doc(hidden)]
pub use self::index::IndexReport;
pub use self::kernels::programs_for;
pub use self::profile::{DeviceProfile, PublishBy};
pub use self::read::host::{Gathered, HostGets};
pub use self::read::rows::{HostRows, RowOps, WriteRows};
pub use self::read::{GetRows, Reading};
pub use self::value_cache::{ValueRoom, ValuesReport, ValuesStats};
pub use self::write::from_host::{HostWrites, PartAnswers, SentPart};
#[doc(hidden)]
pub use self::write::host_publish::HostStep;
pub use self::write::two_phase::DeviceStage;
pub use self::write::{Decided, FusedRows, FusedStage, PinnedRows, WriteCounts};
