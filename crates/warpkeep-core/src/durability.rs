//! What an acknowledgement promises.

use serde::{Deserialize, Serialize};

/// What an acknowledged write survives.
///
/// There are two levels: every write names one of them, and each has a test rig that kills
/// the process, or cuts the power, at every point where it could matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// The process dies: nothing acknowledged is lost.
    ///
    /// The effects are in the memory image when the call returns. If the store has a log, they are logged
    /// afterwards, so a power cut loses at most the newest of them, and the rest is always a prefix of the
    /// order in which writes were logged. A batch is not atomic: after a crash each key holds the state after some prefix
    /// of its operations in a batch that was not acknowledged.
    Process,
    /// The machine dies: nothing committed is lost.
    ///
    /// The batch is one log record, made durable by its group's `fdatasync` before any of its effects reach
    /// the image. It is all or nothing after any crash.
    Power,
}
