//! Making a backup of a store that is in use.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use warpkeep_image::Persist;
use warpkeep_log::{CopiedFile, Disk, Log, LogCopy, LogOptions, OsDisk, Recovery, create_durably};

use super::note::{NOTE, Note, NotedFile, damaged};
use super::written_out::write_out;
use super::{BackupReport, clear_log, is_vacant, parent, partial, sync_directory};
use crate::look::LogContents;
use crate::opening::hex;
use crate::options::LOG;
use crate::{Error, Result, Store};

impl<P: Persist> Store<P> {
    /// Makes a backup while other threads read and write: everything acknowledged before the call is in it,
    /// whatever its durability, and perhaps some later writes; its contents are a prefix of the order in which
    /// writes were logged. `to` must not exist, or be an empty directory.
    ///
    /// A checkpoint is taken first, and further checkpoints wait until the backup is done. The backup is read back
    /// before it counts. If the process dies meanwhile, the incomplete backup is called `to` with `.partial` at the
    /// end; the next backup to the same place removes it. `progress` receives the bytes copied so far and the
    /// estimated total.
    ///
    /// Of a store [opened for reading](Store::open_read_only) the items themselves are written to the backup, as a
    /// checkpoint.
    ///
    /// See [`restore`](crate::restore) for the way back.
    pub fn backup(&self, to: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<BackupReport> {
        self.keeper.check_process()?;
        let begun = Instant::now();
        if !self.is_read_only() {
            self.keeper.written_log()?;
        }
        if !is_vacant(to)? {
            return Err(Error::NotEmpty { path: to.to_path_buf() });
        }
        let partial = partial(to)?;
        create_durably(parent(to), 0o777).map_err(Error::io(parent(to), "create it"))?;
        // As private as the log is.
        let defaults = LogOptions::default();
        let file_mode = self.keeper.log().map_or(defaults.file_mode, Log::file_mode);
        let options = LogOptions { file_mode, ..defaults };
        // Its lock keeps a second backup away until this one has its name.
        let disk = Arc::new(OsDisk::open_with(partial.join(LOG), &options)?);
        clear_log(&partial.join(LOG))?;
        let note = partial.join(NOTE);
        if note.is_file() {
            // Whole, but it never got its name; older than this one in any case.
            std::fs::remove_file(&note).map_err(Error::io(&note, "clear it away"))?;
        }
        let live = |name: &str| self.table(name).map_or(0, |table| table.len());
        let copied = match self.keeper.log() {
            Some(log) => self.copy(log, &disk, progress),
            None => write_out(self, &disk, &partial.join(LOG), progress),
        };
        let made = copied.and_then(|copy| finish(&disk, &partial, to, &copy, options.file_mode, live));
        match made {
            Ok(note) => Ok(BackupReport {
                path: to.to_path_buf(),
                store_id: note.store_id.clone(),
                tables: note.tables.len() as u64,
                items: note.items(),
                bytes: note.bytes(),
                seconds: begun.elapsed().as_secs_f64(),
            }),
            Err(error) => {
                // Best effort: leftovers are called partial, and the next backup tries again.
                let _ = std::fs::remove_dir_all(&partial);
                Err(error)
            }
        }
    }

    fn copy(&self, log: &Log, to: &Arc<OsDisk>, progress: &mut dyn FnMut(u64, u64)) -> Result<LogCopy> {
        // The image may have writes that the log lacks; and the newer the checkpoint, the shorter the log.
        self.keeper.checkpoint()?;
        Ok(log.copy_to(Arc::clone(to) as Arc<dyn Disk>, progress)?)
    }
}

/// Reads the copy back, writes its contents note, and gives it its name. `live` returns the current number of items
/// of a table.
fn finish(
    disk: &Arc<OsDisk>,
    partial: &Path,
    to: &Path,
    copy: &LogCopy,
    file_mode: u32,
    live: impl Fn(&str) -> u64,
) -> Result<Note> {
    let recovery = Recovery::open(Arc::clone(disk) as Arc<dyn Disk>, LogOptions::default())?;
    if recovery.last_lsn() < copy.last_lsn {
        let what = format!("its log ends at {}, not at {}", recovery.last_lsn(), copy.last_lsn);
        return Err(damaged(partial, what));
    }
    let mut contents = LogContents::read(&recovery, |_| Ok(()))?;
    if contents.tables().iter().any(|table| table.items > live(&table.name)) {
        contents = LogContents::read_once(&recovery, |_| Ok(()))?;
    }
    let file =
        |file: &CopiedFile| NotedFile { name: file.name.clone(), bytes: file.bytes, crc32c: file.crc32c };
    let note = Note {
        store_id: hex(&recovery.store_id()),
        created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        tables: contents.tables().into_iter().map(Into::into).collect(),
        files: copy.files.iter().map(file).collect(),
    };
    sync_directory(&partial.join(LOG))?;
    note.write(partial, file_mode)?;
    sync_directory(partial)?;
    std::fs::rename(partial, to).map_err(|error| match error.kind() {
        ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists => Error::NotEmpty { path: to.to_path_buf() },
        _ => Error::io(to, "give the backup its name")(error),
    })?;
    sync_directory(parent(to))?;
    Ok(note)
}
