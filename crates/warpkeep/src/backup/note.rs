//! `BACKUP.json`: the contents of a backup.

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use warpkeep_core::{KeySpec, MergeRule, ValueSpec};

use crate::{Error, Result, TablePeek};

/// The name of the note in a backup.
pub(super) const NOTE: &str = "BACKUP.json";
/// The version of backups that is written, and the only one that is read.
const FORMAT: u32 = 1;

/// The file: the note, under a checksum of its very bytes.
#[derive(Serialize, Deserialize)]
struct Sealed {
    format: u32,
    crc32c: u32,
    backup: Box<RawValue>,
}

/// The contents of a backup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Note {
    /// In hexadecimal.
    pub(super) store_id: String,
    /// Seconds since 1970.
    pub(super) created: u64,
    /// The version of the program.
    pub(super) program: String,
    pub(super) tables: Vec<NotedTable>,
    pub(super) files: Vec<NotedFile>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct NotedTable {
    pub(super) name: String,
    pub(super) id: u32,
    pub(super) key: KeySpec,
    pub(super) value: ValueSpec,
    pub(super) merge: MergeRule,
    pub(super) items: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct NotedFile {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) crc32c: u32,
}

impl From<TablePeek> for NotedTable {
    fn from(table: TablePeek) -> NotedTable {
        let TablePeek { name, id, key, value, merge, items, .. } = table;
        NotedTable { name, id, key, value, merge, items }
    }
}

impl Note {
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    pub(super) fn items(&self) -> u64 {
        self.tables.iter().map(|table| table.items).sum()
    }

    /// Writes the note into a backup, durably.
    pub(super) fn write(&self, backup: &Path, file_mode: u32) -> Result<()> {
        let path = backup.join(NOTE);
        let text = serde_json::to_string(self).and_then(|note| {
            let crc32c = crc32c::crc32c(note.as_bytes());
            serde_json::to_string(&Sealed { format: FORMAT, crc32c, backup: RawValue::from_string(note)? })
        });
        let text = text.map_err(std::io::Error::from).map_err(Error::io(&path, "put it into words"))?;
        let mut options = File::options();
        let created = options.write(true).create(true).truncate(true).mode(file_mode).open(&path);
        let written = created.and_then(|mut file| {
            file.set_permissions(Permissions::from_mode(file_mode))?;
            file.write_all(text.as_bytes())?;
            file.write_all(b"\n")?;
            file.sync_all()
        });
        written.map_err(Error::io(&path, "write it"))
    }

    /// Reads the note of a backup.
    pub(super) fn read(backup: &Path) -> Result<Note> {
        let path = backup.join(NOTE);
        let text = match std::fs::read_to_string(&path) {
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
                ) =>
            {
                return Err(Error::NoBackup { path: backup.to_path_buf() });
            }
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                return Err(damaged(backup, format!("{NOTE} is not text")));
            }
            text => text.map_err(Error::io(&path, "read it"))?,
        };
        let bad = |error: serde_json::Error| damaged(backup, format!("{NOTE} cannot be read: {error}"));
        let sealed: Sealed = serde_json::from_str(&text).map_err(bad)?;
        if sealed.format > FORMAT {
            return Err(Error::NewerBackup { path: backup.to_path_buf(), found: sealed.format });
        }
        if crc32c::crc32c(sealed.backup.get().as_bytes()) != sealed.crc32c {
            return Err(damaged(backup, format!("{NOTE} fails its checksum")));
        }
        let note: Note = serde_json::from_str(sealed.backup.get()).map_err(bad)?;
        // They become paths.
        let plain = |file: &&NotedFile| file.name.contains(['/', '\0']) || file.name.starts_with('.');
        match note.files.iter().find(plain) {
            Some(file) => Err(damaged(backup, format!("{NOTE} names a file '{}'", file.name))),
            None => Ok(note),
        }
    }
}

pub(super) fn damaged(backup: &Path, what: String) -> Error {
    Error::BackupDamaged { path: backup.to_path_buf(), what }
}
