//! A log directory, looked at without changing it.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use warpkeep_log::{CheckpointInfo, Log, LogError, LogOptions, Recovery, RecoveryReport};

use super::ReadOnlyDisk;
use crate::output::hex;

/// A log directory whose frames have all been read and found good.
#[derive(Debug)]
pub(crate) struct LogLook {
    pub(crate) recovery: Recovery,
}

/// What a log directory says of itself.
#[derive(Debug, Serialize)]
pub(crate) struct LogReport {
    pub(crate) store_id: String,
    pub(crate) epoch: u64,
    pub(crate) closed_cleanly: bool,
    pub(crate) last_lsn: String,
    pub(crate) checkpoint: Option<CheckpointInfo>,
    pub(crate) found: RecoveryReport,
}

/// What was read in full.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Contents {
    /// Items in the checkpoint.
    pub(crate) items: u64,
    /// Records after it.
    pub(crate) records: u64,
    /// Changes in those.
    pub(crate) changes: u64,
    /// One more than the largest cell named, 0 if none is.
    pub(crate) cells: u64,
}

impl LogLook {
    pub(crate) fn open(path: &Path) -> Result<LogLook, LogError> {
        let disk = ReadOnlyDisk::open(path)?;
        Ok(LogLook { recovery: Recovery::open(Arc::new(disk), LogOptions::default())? })
    }

    pub(crate) fn report(&self) -> LogReport {
        let recovery = &self.recovery;
        LogReport {
            store_id: hex(&recovery.store_id()),
            epoch: recovery.epoch(),
            closed_cleanly: recovery.closed_cleanly(),
            last_lsn: recovery.last_lsn().to_string(),
            checkpoint: recovery.checkpoint(),
            found: recovery.report().clone(),
        }
    }

    /// Reads every block of the checkpoint and every record of the log.
    pub(crate) fn read_all(&self) -> Result<Contents, LogError> {
        let mut contents = Contents::default();
        let beyond = |key: &[u8]| key.try_into().map_or(0, |key| u64::from_le_bytes(key).saturating_add(1));
        self.recovery.load_checkpoint(|change| {
            contents.items += 1;
            contents.cells = contents.cells.max(beyond(change.key));
            Ok::<(), LogError>(())
        })?;
        self.recovery.redo(|record| {
            contents.records += 1;
            for change in record.changes() {
                contents.changes += 1;
                contents.cells = contents.cells.max(beyond(change.key));
            }
            Ok::<(), LogError>(())
        })?;
        Ok(contents)
    }
}

/// Refuses a directory without a log: opening one for writing would begin a new log there.
pub(crate) fn check_is_log(path: &Path) -> Result<(), LogError> {
    match Log::exists(&ReadOnlyDisk::open(path)?)? {
        true => Ok(()),
        false => Err(LogError::NoLog),
    }
}
