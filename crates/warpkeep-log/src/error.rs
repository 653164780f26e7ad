//! Errors, each with what to do about it.

use std::io;
use std::sync::Arc;

use warpkeep_core::Lsn;

/// Everything a log can fail with. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The operating system refused something.
    #[error(
        "cannot {action} {file}: {source}. Check the disk and the system's log, then open the store again"
    )]
    Io {
        /// The failed action.
        action: &'static str,
        /// On which file.
        file: String,
        /// The system's error.
        source: io::Error,
    },
    /// The disk, or the quota, is full.
    #[error(
        "cannot {action} {file}: no space left ({source}). Free some space or raise the quota and try again; what was \
         committed is safe"
    )]
    DiskFull {
        /// The failed action.
        action: &'static str,
        /// On which file.
        file: String,
        /// The system's error.
        source: io::Error,
    },
    /// The directory or a file in it cannot be written.
    #[error(
        "cannot {action} {file}: {source}. Make the log directory writable for this user, or choose another"
    )]
    NotWritable {
        /// The failed action.
        action: &'static str,
        /// On which file.
        file: String,
        /// The system's error.
        source: io::Error,
    },
    /// Another process, or another handle of this one, has the directory open.
    #[error(
        "the log directory {directory} is in use by {}. Close that store first, or drop it and all handles of its tables; two \
         writers would destroy the log. What a \
         server has open can be read by its clients, and backed up by `warpkeep backup --address`",
        holder(.pid)
    )]
    Held {
        /// The directory.
        directory: String,
        /// The process id in the lock file, if it could be read.
        pid: Option<u32>,
    },
    /// A log is to be created where there is one.
    #[error("the directory already holds a log. Open it, or choose an empty directory")]
    AlreadyExists,
    /// A log is to be opened where there is none.
    #[error("the directory holds no log (no MANIFEST). Create one, or check the path")]
    NoLog,
    /// There are segments or checkpoints with data, but no manifest.
    #[error(
        "{file} holds data, but the directory has no MANIFEST. Restore MANIFEST from where these files came from, or make it \
         again from them with `warpkeep repair STORE --manifest`; to start afresh, move them away"
    )]
    ManifestMissing {
        /// A file that holds data.
        file: String,
    },
    /// A file that is not part of a log, or does not match its name.
    #[error("{file} is not a file of this log: {what}. Move it away, or restore what belongs there")]
    ForeignFile {
        /// The file.
        file: String,
        /// Why it is not part of a log.
        what: String,
    },
    /// A file of another store.
    #[error(
        "{file} belongs to store {}, not to store {}. Files of two stores have been mixed: restore the right one",
        hex(.found),
        hex(.expected)
    )]
    ForeignStore {
        /// The file.
        file: String,
        /// The store of the manifest.
        expected: [u8; 16],
        /// The store of the file.
        found: [u8; 16],
    },
    /// A file written by a later version of Warpkeep.
    #[error("{file} has format version {version}; this program reads version 1. Use a newer program")]
    NewerVersion {
        /// The file.
        file: String,
        /// Its version.
        version: u32,
    },
    /// The manifest cannot be trusted.
    #[error(
        "MANIFEST is damaged: {what}. Make it again from the segments and checkpoints beside it, which are untouched, with \
         `warpkeep repair STORE --manifest`, or restore it from a backup of the log directory"
    )]
    ManifestDamaged {
        /// The fault.
        what: String,
    },
    /// The log is damaged where a crash cannot have damaged it.
    #[error(
        "{file} is damaged at byte {offset}: {what} (expected the record after {after}). The medium has lost data: restore \
         the log directory from a backup. Nothing has been changed"
    )]
    Corrupt {
        /// The segment.
        file: String,
        /// Where the damage begins.
        offset: u64,
        /// The last record that can be trusted.
        after: Lsn,
        /// The fault.
        what: String,
    },
    /// The log does not end where it is known to end, or ends before it.
    #[error(
        "the log ends at {found}, but {promise} {expected}. Segments are missing or damaged, or the manifest is not theirs: \
         restore the log directory from a backup. Nothing has been changed"
    )]
    EndMissing {
        /// The last record found.
        found: Lsn,
        /// The record it must reach.
        expected: Lsn,
        /// The source of the expectation.
        promise: &'static str,
    },
    /// A segment that the manifest needs is missing.
    #[error(
        "{file} is missing, and the checkpoint alone is not the whole store. Restore the file. Nothing has been changed"
    )]
    SegmentMissing {
        /// Its name.
        file: String,
    },
    /// The checkpoint the manifest names is missing, cut or damaged.
    #[error(
        "{file} is damaged at byte {offset}: {what}. Restore the file from a backup; without it the log is only the tail of \
         the store. Nothing has been changed"
    )]
    CheckpointDamaged {
        /// The checkpoint.
        file: String,
        /// Where the damage begins.
        offset: u64,
        /// The fault.
        what: String,
    },
    /// A write or sync of the log failed earlier; this handle does nothing more.
    #[error(
        "the log stopped after a failure, and whether the last commits are durable is unknown; open the store again to find \
         out. The failure was: {first}"
    )]
    Poisoned {
        /// The first failure.
        first: Arc<LogError>,
    },
    /// The contents of the log could not be applied to the image.
    #[error("what the log holds could not be applied: {why}. Open the store again: it is applied then")]
    GivenUp {
        /// Why not.
        why: String,
    },
    /// There is no room for the batch, and no further segment could be made.
    #[error(
        "no further log segment could be made ({}), so writes are refused; what was committed is safe. Free some space, or take \
         a checkpoint so that old segments can go; writing then goes on",
        .cause.bare()
    )]
    NoSegment {
        /// Why not.
        cause: Arc<LogError>,
    },
    /// `Power` is not on offer until a checkpoint has completed.
    #[error(
        "the image holds writes that the log lacks (it was re-attached after a crash), so `Power` cannot be promised yet. \
         Take a checkpoint first"
    )]
    CheckpointNeeded,
    /// A batch is larger than the options allow.
    #[error("a batch of {bytes} bytes is over the limit of {limit}. Split it, or raise `max_batch_bytes`")]
    BatchTooLarge {
        /// Its encoded size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// A key, a value or the number of changes does not fit into 32 bits.
    #[error("{what} of {len} does not fit the format's 32 bits. Split the value or the batch")]
    TooLong {
        /// The part that is too long.
        what: &'static str,
        /// Its length.
        len: u64,
    },
    /// An invalid change: a delete with a value, or a delete in a checkpoint.
    #[error(
        "not a change that can be written here: {what}. This is a mistake of the caller; the change was not written"
    )]
    BadChange {
        /// The fault.
        what: &'static str,
    },
    /// All log sequence numbers of this opening are used up.
    #[error("this opening has drawn all its log sequence numbers. Close the store and open it again")]
    LsnExhausted,
    /// The epoch to open with has been used before, or cannot be written down.
    #[error(
        "epoch {asked} cannot follow epoch {last} (it must be larger, and at most {max}). Pass the largest epoch of image and \
         log, plus one",
        max = Lsn::MAX_EPOCH
    )]
    BadEpoch {
        /// The epoch asked for.
        asked: u64,
        /// The epoch of the manifest.
        last: u64,
    },
    /// An option out of range.
    #[error("option {option} = {value}: {what}")]
    BadOption {
        /// Its name.
        option: &'static str,
        /// Its value.
        value: u64,
        /// The accepted values.
        what: &'static str,
    },
    /// This process is a child of the one that opened the log.
    #[error(
        "the log was opened by process {pid}, and this is another one, made of it by fork. Open the store in the process that uses \
         it, after the fork and when no other has it open, or start processes without fork"
    )]
    Forked {
        /// The process that opened it.
        pid: u32,
    },
    /// A caller waits for a record that was never appended.
    #[error(
        "record {asked} was not appended here (the last is {last}). Wait only for numbers that `append` returned"
    )]
    NotAppended {
        /// The number asked for.
        asked: Lsn,
        /// The last number appended.
        last: Lsn,
    },
}

impl LogError {
    /// Sorts system errors by remedy.
    pub(crate) fn io(action: &'static str, file: &str, source: io::Error) -> LogError {
        let file = file.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                LogError::DiskFull { action, file, source }
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                LogError::NotWritable { action, file, source }
            }
            _ => LogError::Io { action, file, source },
        }
    }

    /// The cause without the advice, for messages that give their own advice.
    fn bare(&self) -> String {
        match self {
            LogError::Io { action, file, source }
            | LogError::DiskFull { action, file, source }
            | LogError::NotWritable { action, file, source } => format!("cannot {action} {file}: {source}"),
            other => other.to_string(),
        }
    }

    /// Whether the disk is full, including when that stopped the log.
    pub fn is_disk_full(&self) -> bool {
        match self {
            LogError::DiskFull { .. } => true,
            LogError::Poisoned { first: cause } | LogError::NoSegment { cause } => cause.is_disk_full(),
            _ => false,
        }
    }
}

fn holder(pid: &Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

fn hex(id: &[u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_says_each_thing_once() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let cause = Arc::new(LogError::io("make", "log-7", full));
        let message = LogError::NoSegment { cause }.to_string();
        for once in ["what was committed is safe", "Free some space", "cannot make log-7"] {
            assert_eq!(message.matches(once).count(), 1, "{once}: {message}");
        }
        assert!(message.ends_with("writing then goes on"), "{message}");
    }
}
