//! Backups: a copy of checkpoint and log from which a store can be made again.
//!
//! A backup is a directory: `BACKUP.json` describes its contents, `log` holds the contents of the store's log
//! directory when it was made (and the lock file). It is made under another name, which ends in `.partial`, and
//! gets its own when it is complete, durable and has been read back.

mod make;
mod note;
mod restore;
mod written_out;

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use restore::{RestoreReport, restore};

use crate::{Error, Result};

/// Suffix of an incomplete backup.
const PARTIAL: &str = ".partial";

/// The result of a backup.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BackupReport {
    /// Where it is.
    pub path: PathBuf,
    /// The store it is of, in hexadecimal.
    pub store_id: String,
    /// Tables in it.
    pub tables: u64,
    /// Items in them.
    pub items: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
}

/// The temporary name beside `path`.
fn partial(path: &Path) -> Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| {
        Error::Invalid(format!(
            "'{}' names no directory of its own; give the directory a name",
            path.display()
        ))
    })?;
    let mut name = name.to_os_string();
    name.push(PARTIAL);
    Ok(path.with_file_name(name))
}

/// The directory that a path lies in.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the entries of a directory durable.
fn sync_directory(path: &Path) -> Result<()> {
    let synced = File::open(path).and_then(|directory| directory.sync_all());
    synced.map_err(Error::io(path, "make its entries durable"))
}

/// Whether a path does not exist, or is an empty directory.
fn is_vacant(path: &Path) -> Result<bool> {
    match std::fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Ok(false),
        Err(error) => Err(Error::io(path, "look into it")(error)),
    }
}

/// Removes the remains of an interrupted attempt from a directory, if it holds nothing but the files of a log.
fn clear_log(path: &Path) -> Result<()> {
    let entries = match std::fs::read_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(Error::io(path, "look into it"))?,
    };
    for entry in entries {
        let entry = entry.map_err(Error::io(path, "look into it"))?;
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(|name| {
            let log = name.starts_with("ckpt-") || name.starts_with("seg-") || name.starts_with("MANIFEST");
            log || name == LOCK
        });
        if !ours {
            return Err(Error::NotEmpty { path: path.to_path_buf() });
        }
        if name != LOCK {
            std::fs::remove_file(entry.path()).map_err(Error::io(&entry.path(), "remove it"))?;
        }
    }
    Ok(())
}

/// The lock file of a log directory.
const LOCK: &str = "LOCK";
