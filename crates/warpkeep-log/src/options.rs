//! How a log is to behave.

use std::time::Duration;

use crate::error::LogError;
use crate::layout::PAGE;

/// How a log is to behave. Options are not stored: each opening chooses them.
///
/// ```
/// use warpkeep_log::LogOptions;
/// let options = LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() };
/// assert!(options.check().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The size of a segment file: a multiple of 4096, at least 16 KiB. A batch that does not fit gets a segment of
    /// its own size.
    pub segment_bytes: u64,
    /// How much may be appended but not durable before [`Log::back_pressure`](crate::Log::back_pressure) holds
    /// writers back.
    pub backlog_bytes: u64,
    /// The largest encoded batch that is accepted.
    pub max_batch_bytes: u64,
    /// How long a record may stay unwritten if no caller waits for it.
    pub flush_interval: Duration,
    /// Whether a thread flushes behind the writers. Without it all work happens in the callers' threads, which
    /// makes tests deterministic.
    pub background: bool,
    /// Bytes of zeros to write ahead of small frames, so that later syncs write data only and no file-system
    /// metadata; 0: none.
    pub fill_ahead_bytes: u64,
    /// The permissions of new files: segments, checkpoints, manifests, and those of backups. By default the owner may read
    /// and write them, and other users may do nothing, as with the image. New directories have the same, with the right to
    /// enter them for all who may read. It counts where the directory is opened with [`OsDisk::open_with`]; files that are
    /// there keep what they have.
    ///
    /// [`OsDisk::open_with`]: crate::OsDisk::open_with
    pub file_mode: u32,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            segment_bytes: 64 << 20,
            backlog_bytes: 64 << 20,
            max_batch_bytes: 1 << 30,
            flush_interval: Duration::from_millis(10),
            background: true,
            fill_ahead_bytes: 1 << 20,
            file_mode: 0o600,
        }
    }
}

impl LogOptions {
    /// The smallest segment.
    pub const MIN_SEGMENT_BYTES: u64 = 16 << 10;

    /// The permissions of new directories: those of files, and users that may read may enter.
    pub fn directory_mode(&self) -> u32 {
        self.file_mode | (self.file_mode & 0o444) >> 2
    }

    /// Validates the options; every opening calls it.
    pub fn check(&self) -> Result<(), LogError> {
        let bad = |option, value, what| Err(LogError::BadOption { option, value, what });
        if !self.segment_bytes.is_multiple_of(PAGE) {
            return bad("segment_bytes", self.segment_bytes, "must be a multiple of 4096");
        }
        if !(Self::MIN_SEGMENT_BYTES..=1 << 40).contains(&self.segment_bytes) {
            return bad("segment_bytes", self.segment_bytes, "must be from 16 KiB to 1 TiB");
        }
        if self.file_mode > 0o777 || self.file_mode & 0o600 != 0o600 {
            let what = "must be permissions, such as 0o640, with which the owner may read and write";
            return bad("file_mode", u64::from(self.file_mode), what);
        }
        if self.max_batch_bytes > 1 << 40 {
            return bad("max_batch_bytes", self.max_batch_bytes, "must be at most 1 TiB");
        }
        Ok(())
    }
}
