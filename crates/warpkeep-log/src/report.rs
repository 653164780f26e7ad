//! The report of a recovery.

use serde::Serialize;
use warpkeep_core::Lsn;

/// The state of the log directory as recovery found it, for people and for monitoring.
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
    /// The bytes after the last valid frame: a write that a crash interrupted. They are cut off.
    pub torn_tail: Option<TornTail>,
    /// Torn tails of earlier crashes, after which the log goes on.
    pub old_torn_tails: u64,
    /// Segments written after a re-attach without a later checkpoint. They do not count: the image that they belong
    /// to is lost.
    pub unsealed_segments: Vec<u64>,
    /// The damage to one of the two copies of the manifest. The other copy was used, and opening the log for
    /// writing rewrites both.
    pub damaged_manifest: Option<String>,
    /// Files in the directory that are not of a log. They are left alone.
    pub foreign_files: Vec<String>,
    /// The time recovery took, in seconds.
    pub seconds: f64,
}

/// The remains of a write that a crash interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TornTail {
    /// The segment it is in.
    pub segment: u64,
    /// Where it begins.
    pub offset: u64,
    /// How far its bytes extend; 0 if the file ends early.
    pub bytes: u64,
}
