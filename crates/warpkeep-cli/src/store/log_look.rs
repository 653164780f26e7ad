//! A log directory, looked at without changing it.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use warpkeep_log::{CheckpointInfo, Log, LogError, LogOptions, ReadOnlyDisk, Recovery, RecoveryReport};

use crate::output::hex;

/// The log's table number of the catalogue: see `docs/format.md`.
const CATALOGUE: u32 = 0;

/// A log directory whose frames have all been read and are valid.
#[derive(Debug)]
pub(crate) struct LogLook {
    pub(crate) recovery: Recovery,
}

/// The state recorded in a log directory.
#[derive(Debug, Serialize)]
pub(crate) struct LogReport {
    pub(crate) store_id: String,
    pub(crate) epoch: u64,
    pub(crate) closed_cleanly: bool,
    pub(crate) last_lsn: String,
    pub(crate) checkpoint: Option<CheckpointReport>,
    pub(crate) found: RecoveryReport,
}

/// The properties of a checkpoint.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct CheckpointReport {
    #[serde(flatten)]
    pub(crate) info: CheckpointInfo,
    /// Items in it; its changes are these and the catalogue entries.
    pub(crate) items: u64,
}

/// Why reading a checkpoint ended: the rest of it is items.
enum Stop {
    Items,
    Failed(LogError),
}

impl From<LogError> for Stop {
    fn from(error: LogError) -> Stop {
        Stop::Failed(error)
    }
}

impl LogLook {
    pub(crate) fn open(path: &Path) -> Result<LogLook, LogError> {
        let disk = ReadOnlyDisk::open(path)?;
        Ok(LogLook { recovery: Recovery::open(Arc::new(disk), LogOptions::default())? })
    }

    /// The checkpoint, if there is one. The catalogue entries are read to be counted; they come before the items.
    pub(crate) fn checkpoint(&self) -> Result<Option<CheckpointReport>, LogError> {
        let Some(info) = self.recovery.checkpoint() else { return Ok(None) };
        let mut others = 0;
        let read = self.recovery.load_checkpoint(|change| match change.table {
            CATALOGUE => {
                others += 1;
                Ok(())
            }
            _ => Err(Stop::Items),
        });
        match read {
            Err(Stop::Failed(error)) => Err(error),
            Ok(()) | Err(Stop::Items) => {
                Ok(Some(CheckpointReport { info, items: info.changes.saturating_sub(others) }))
            }
        }
    }

    pub(crate) fn report(&self) -> Result<LogReport, LogError> {
        let recovery = &self.recovery;
        Ok(LogReport {
            store_id: hex(&recovery.store_id()),
            epoch: recovery.epoch(),
            closed_cleanly: recovery.closed_cleanly(),
            last_lsn: recovery.last_lsn().to_string(),
            checkpoint: self.checkpoint()?,
            found: recovery.report().clone(),
        })
    }

    /// Reads every block of the checkpoint and every record of the log.
    pub(crate) fn read_all(&self) -> Result<(), LogError> {
        self.recovery.load_checkpoint(|_| Ok::<(), LogError>(()))?;
        self.recovery.redo(|_| Ok::<(), LogError>(()))
    }
}

/// Refuses a directory without a log: opening one for writing would begin a new log there.
pub(crate) fn check_is_log(path: &Path) -> Result<(), LogError> {
    match Log::exists(&ReadOnlyDisk::open(path)?)? {
        true => Ok(()),
        false => Err(LogError::NoLog),
    }
}
