//! The places where something is made durable, by name.
//!
//! Every sync passes one of these words, so that a crash explorer can drop the sites one at a time and see
//! whether recovery notices.

/// A frame of the log: one group commit.
pub const FRAME: &str = "log.frame";
/// The first page of a segment, before a frame is written to it.
pub const SEGMENT_FILE: &str = "log.segment.file";
/// The directory, after a segment was created and before a frame is written to it.
pub const SEGMENT_DIR: &str = "log.segment.dir";
/// The new manifest, before it is renamed over the old one.
pub const MANIFEST_FILE: &str = "log.manifest.file";
/// Its second copy, before that is renamed over the old one.
pub const SECOND_MANIFEST_FILE: &str = "log.manifest.second";
/// The directory, after both copies of the manifest were renamed.
pub const MANIFEST_DIR: &str = "log.manifest.dir";
/// A whole checkpoint, before it is renamed.
pub const CHECKPOINT_FILE: &str = "log.checkpoint.file";
/// The directory, after a checkpoint was renamed and before a manifest names it.
pub const CHECKPOINT_DIR: &str = "log.checkpoint.dir";
/// The last valid frame, written again at opening because it may have been only in the page cache.
pub const REDO_FRAME: &str = "log.redo.frame";
/// Part of a checkpoint, so that commits do not queue behind its dirty pages. Nothing relies on it.
pub const CHECKPOINT_PACE: &str = "log.checkpoint.pace";
/// A file of a copy of the log. The caller decides when a copy counts as complete; this log does not rely on it.
pub const COPY_FILE: &str = "log.copy.file";

/// The sites whose syncs recovery relies on.
pub const NEEDED: [&str; 9] = [
    FRAME,
    SEGMENT_FILE,
    SEGMENT_DIR,
    MANIFEST_FILE,
    SECOND_MANIFEST_FILE,
    MANIFEST_DIR,
    CHECKPOINT_FILE,
    CHECKPOINT_DIR,
    REDO_FRAME,
];

/// The sites that only pace the disk: dropping them may cost time, never data.
pub const PACING: [&str; 1] = [CHECKPOINT_PACE];
