//! What recovery found.

use serde::Serialize;
use warpkeep_core::Lsn;

/// What recovery found in the log directory, for people and for monitoring.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RecoveryReport {
    /// Segments that were read.
    pub segments: u64,
    /// Frames that count.
    pub frames: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of those frames.
    pub bytes: u64,
    /// The last record of the log.
    pub last_lsn: Lsn,
    /// What lies after the last valid frame: a write that a crash interrupted. It is cut off.
    pub torn_tail: Option<TornTail>,
    /// Torn tails of earlier crashes, after which the log goes on.
    pub old_torn_tails: u64,
    /// Segments written after a re-attach that no checkpoint followed; they do not count, and the image that they
    /// belong to is what was lost.
    pub unsealed_segments: Vec<u64>,
    /// What is wrong with one of the two copies of the manifest. The other was taken, and opening the log for writing
    /// makes both anew.
    pub damaged_manifest: Option<String>,
    /// Files in the directory that are not of a log. They are left alone.
    pub foreign_files: Vec<String>,
    /// How long it took to find this out, in seconds.
    pub seconds: f64,
}

/// The remains of a write that a crash interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TornTail {
    /// The segment it is in.
    pub segment: u64,
    /// Where it begins.
    pub offset: u64,
    /// How far it can be seen to reach; 0 if the file ends early.
    pub bytes: u64,
}
