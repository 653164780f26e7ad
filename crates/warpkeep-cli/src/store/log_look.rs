//! A log directory, looked at without changing it.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use warpkeep_log::{CheckpointInfo, Log, LogError, LogOptions, ReadOnlyDisk, Recovery, RecoveryReport};

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
