//! How a store stands: its log, its checkpoints, and whether it takes writes.

use std::time::UNIX_EPOCH;

use serde::Serialize;
use warpkeep_image::Persist;
use warpkeep_log::{Log, LogError};

use crate::{Error, Keeper, Store, Tables};

/// How a store stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StoreStatus {
    /// Why writes are refused, or will be as soon as the log's last segment is full: no space for the log or for the image,
    /// or a failure that stopped the log. `None` if they are not.
    pub refuses_writes: Option<String>,
    /// Its log; `None` if it has none.
    pub log: Option<LogStatus>,
}

/// How the log of a store stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LogStatus {
    /// Bytes that were logged since the last checkpoint began.
    pub since_checkpoint: u64,
    /// Bytes that a checkpoint would take, at most.
    pub checkpoint_bytes: u64,
    /// Whether a checkpoint is being made.
    pub is_checkpointing: bool,
    /// Items that it has written so far; 0 if there is none.
    pub checkpoint_items_written: u64,
    /// About how many items it has to write; 0 if there is none.
    pub checkpoint_items: u64,
    /// Whether `Power` batches wait for a checkpoint: after a process was killed, the image may have writes that its log
    /// lacks, until the first checkpoint is complete. The store begins it when it is opened.
    pub owes_checkpoint: bool,
    /// Checkpoints that were made since the store was opened.
    pub checkpoints: u64,
    /// Attempts that failed since then.
    pub failed_checkpoints: u64,
    /// When the last one was completed, in seconds since 1970; `None` if there was none since the store was opened.
    pub last_checkpoint: Option<u64>,
    /// Why the last attempt failed; `None` if it did not.
    pub checkpoint_error: Option<String>,
    /// Bytes that are set aside for a checkpoint and an opening on a full disk.
    pub reserve: u64,
    /// Bytes that should be.
    pub reserve_wanted: u64,
}

impl<P: Persist> Store<P> {
    /// How the store stands. In another process than the one that opened it, `log` is `None`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// let store = warpkeep::Store::open(directory.path())?;
    /// store.checkpoint()?;
    /// let log = store.status().log.expect("it has a log");
    /// assert_eq!((log.checkpoints, log.failed_checkpoints, log.since_checkpoint), (1, 0, 0));
    /// # Ok::<(), warpkeep::Error>(())
    /// ```
    pub fn status(&self) -> StoreStatus {
        let keeper = &self.keeper;
        // In a child made by fork the locks may be held by threads that are gone.
        let log = keeper.log().filter(|_| keeper.owner().is_here());
        let only_reads = keeper.why_only_reads().cloned().map(|why| Error::OnlyReads { why }.to_string());
        let no_segment = || log?.no_segment().map(|cause| LogError::NoSegment { cause }.to_string());
        let stopped = || log?.failure().map(|failure| failure.to_string());
        StoreStatus {
            refuses_writes: only_reads.or_else(stopped).or_else(no_segment).or_else(|| self.image_full()),
            log: log.map(|log| log_status(keeper, log)),
        }
    }
}

impl<P: Persist> Store<P> {
    /// Why the image cannot grow, if it had to and could not, for lack of space on its medium: writes that need
    /// space are refused until there is some. `None` also if it has reached the limit that it was opened with.
    pub fn image_full(&self) -> Option<String> {
        let why = self.keeper.heap().growth_failure()?;
        Some(format!("writes are refused: the image cannot grow: {why}"))
    }
}

fn log_status<P: Persist>(keeper: &Keeper<P, Tables<P>>, log: &Log) -> LogStatus {
    let checkpoints = keeper.checkpoints().status();
    let (reserve, reserve_wanted) = log.reserve();
    let completed_at = checkpoints.last.and_then(|(at, _)| at.duration_since(UNIX_EPOCH).ok());
    LogStatus {
        since_checkpoint: log.since_checkpoint(),
        checkpoint_bytes: keeper.checkpoint_bytes(),
        is_checkpointing: checkpoints.is_running,
        checkpoint_items_written: checkpoints.written,
        checkpoint_items: checkpoints.expected,
        owes_checkpoint: log.owes_checkpoint(),
        checkpoints: checkpoints.completed,
        failed_checkpoints: checkpoints.failed,
        last_checkpoint: completed_at.map(|since| since.as_secs()),
        checkpoint_error: checkpoints.error,
        reserve,
        reserve_wanted,
    }
}
