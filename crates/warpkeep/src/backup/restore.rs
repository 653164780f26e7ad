//! Making a store out of a backup.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use warpkeep_log::{Disk as _, LogOptions, OsDisk};

use super::note::{Note, NotedFile, damaged};
use super::{clear_log, is_vacant, parent, partial, sync_directory};
use crate::look::{LogContents, Look};
use crate::options::LOG;
use crate::{Error, Result, Store, StoreOptions};

/// Bytes that are copied at once.
const PIECE: usize = 1 << 20;

/// The result of a restoration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RestoreReport {
    /// The store, in hexadecimal: the one that the backup was made of.
    pub store_id: String,
    /// Tables in it.
    pub tables: u64,
    /// Items in them.
    pub items: u64,
    /// Bytes of the backup.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
}

/// Makes a store out of a backup, and closes it. Every file of the backup is checked against its checksum on the
/// way, and the store against the backup's note. If anything is wrong, nothing is left of the store.
///
/// A directory with a store in it is refused. The new store has the old one's identity: do not mix the files of the
/// two.
///
/// ```
/// use warpkeep::{Durability, Store, StoreOptions, restore};
/// # let directory = tempfile::tempdir().unwrap();
/// # let (home, backup, anew) = (directory.path().join("a"), directory.path().join("b"), directory.path().join("c"));
/// let store = Store::open(&home)?;
/// store.create_typed::<u64, u64>("t", 10)?.put(&1, &2, Durability::Process)?;
/// store.backup(&backup, &mut |_done, _of| ())?;
///
/// restore(&backup, &anew, StoreOptions::default(), &mut |_done, _of| ())?;
/// assert_eq!(Store::open(&anew)?.typed::<u64, u64>("t")?.get(&1)?, Some(2));
/// # Ok::<(), warpkeep::Error>(())
/// ```
pub fn restore(
    backup: &Path,
    directory: &Path,
    options: StoreOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<RestoreReport> {
    let begun = Instant::now();
    let note = Note::read(backup)?;
    let Some(log) = options.log_path(directory) else {
        return Err(Error::Invalid(
            "a store is restored with its log; leave `without_log` off, and open it without one afterwards"
                .into(),
        ));
    };
    let image = options.image_path(directory);
    if image.try_exists().map_err(Error::io(&image, "look for it"))? {
        return Err(Error::StoreExists { path: image });
    }
    if !is_vacant(&log)? {
        return Err(Error::StoreExists { path: log });
    }
    let disk = copy(backup, &note, &log, &options.log, progress)?;
    match build(backup, directory, options, &note, disk) {
        Ok(items) => Ok(RestoreReport {
            store_id: note.store_id.clone(),
            tables: note.tables.len() as u64,
            items,
            bytes: note.bytes(),
            seconds: begun.elapsed().as_secs_f64(),
        }),
        Err(error) => {
            // Both were made here, and the backup has all that was in them; unless another process has the store open.
            if let Ok(_lock) = OsDisk::open(&log) {
                let _ = std::fs::remove_file(&image);
                let _ = std::fs::remove_dir_all(&log);
            }
            Err(error)
        }
    }
}

/// Makes the log directory: under another name until it is whole. It stays locked, so that no other process opens the
/// store before it is built.
fn copy(
    backup: &Path,
    note: &Note,
    log: &Path,
    options: &LogOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<OsDisk> {
    let partial = partial(log)?;
    // Its lock keeps a second restoration away.
    let mut disk = OsDisk::open_with(&partial, options)?;
    clear_log(&partial)?;
    let copied = copy_files(backup, note, &disk, progress).and_then(|()| {
        disk.rename_directory(log).map_err(Error::io(log, "give the log its name"))?;
        sync_directory(parent(log))
    });
    match copied {
        Ok(()) => Ok(disk),
        Err(error) => {
            let _ = std::fs::remove_dir_all(&partial);
            Err(error)
        }
    }
}

/// Copies the files of a backup and checks them.
fn copy_files(backup: &Path, note: &Note, to: &OsDisk, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
    let (mut done, total) = (0, note.bytes());
    let mut piece = vec![0; PIECE];
    for file in &note.files {
        copy_file(backup, file, to, &mut piece, &mut |bytes| {
            done += bytes;
            progress(done, total);
        })?;
    }
    sync_directory(to.path())
}

fn copy_file(
    backup: &Path,
    file: &NotedFile,
    disk: &OsDisk,
    piece: &mut [u8],
    each: &mut dyn FnMut(u64),
) -> Result<()> {
    let (from, to) = (backup.join(LOG).join(&file.name), disk.path().join(&file.name));
    let mut source = match File::open(&from) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(damaged(backup, format!("{} is missing", file.name)));
        }
        source => source.map_err(Error::io(&from, "open it"))?,
    };
    // With the permissions of the log's own files.
    disk.create(&file.name).map_err(Error::io(&to, "create it"))?;
    let mut target = File::options().write(true).open(&to).map_err(Error::io(&to, "open it"))?;
    let (mut crc, mut bytes) = (0, 0);
    loop {
        let read = match source.read(piece) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            read => read.map_err(Error::io(&from, "read it"))?,
        };
        if read == 0 {
            break;
        }
        target.write_all(&piece[..read]).map_err(Error::io(&to, "write it"))?;
        crc = crc32c::crc32c_append(crc, &piece[..read]);
        bytes += read as u64;
        if bytes > file.bytes {
            break;
        }
        each(read as u64);
    }
    if bytes != file.bytes {
        let way = if bytes < file.bytes { "shorter" } else { "longer" };
        return Err(damaged(backup, format!("{} is {way} than it was", file.name)));
    }
    if crc != file.crc32c {
        return Err(damaged(backup, format!("{} fails its checksum", file.name)));
    }
    target.sync_all().map_err(Error::io(&to, "make it durable"))
}

/// Opens the store, which builds its image, and compares it with the note; returns the number of items.
fn build(backup: &Path, directory: &Path, options: StoreOptions, note: &Note, disk: OsDisk) -> Result<u64> {
    let looking = options.clone();
    let store = Store::open_with_log(directory, options, disk)?;
    let mut found = BTreeMap::new();
    for name in store.tables() {
        let items = store.table(&name)?.len();
        found.insert(name, items);
    }
    store.close()?;
    let mut noted: BTreeMap<String, u64> =
        note.tables.iter().map(|table| (table.name.clone(), table.items)).collect();
    // Some may have been counted twice, because their table grew while they were backed up.
    if found.iter().any(|(name, items)| noted.get(name).is_some_and(|noted| noted > items))
        && let Some(log) = &Look::hold(directory, &looking)?.log
    {
        let contents = LogContents::read_once(log, |_| Ok(()))?;
        noted = contents.tables().into_iter().map(|table| (table.name, table.items)).collect();
    }
    for (name, noted) in &noted {
        let items = found.get(name).copied().unwrap_or_default();
        if !found.contains_key(name) || items != *noted {
            let what = format!("table '{name}' came back with {items} items, {noted} were backed up");
            return Err(damaged(backup, what));
        }
    }
    if found.len() != note.tables.len() {
        let what = format!("{} tables came back, {} were backed up", found.len(), note.tables.len());
        return Err(damaged(backup, what));
    }
    Ok(found.values().sum())
}

#[cfg(test)]
mod tests {
    use warpkeep_core::Durability;
    use warpkeep_log::LogError;

    use super::*;

    /// Another process cannot open the store before it is whole, so a failure never takes the files of one in use.
    #[test]
    fn a_store_stays_locked_until_it_is_built() {
        let scratch = tempfile::tempdir().expect("a directory");
        let [original, backup, restored] =
            ["original", "backup", "restored"].map(|name| scratch.path().join(name));
        let store = Store::open(&original).expect("a store");
        store
            .create_typed::<u64, u64>("t", 10)
            .expect("a table")
            .put(&1, &11, Durability::Power)
            .expect("put");
        store.backup(&backup, &mut |_, _| ()).expect("a backup");
        store.close().expect("closed");

        let options = StoreOptions::default();
        let note = Note::read(&backup).expect("a backup");
        let log = options.log_path(&restored).expect("with a log");
        let disk = copy(&backup, &note, &log, &options.log, &mut |_, _| ()).expect("copied");
        let error = Store::open(&restored).map(|_| ()).expect_err("it is not built yet");
        assert!(matches!(error, Error::Log(LogError::Held { .. })), "{error}");
        assert!(!options.image_path(&restored).exists(), "nothing was made");
        assert_eq!(build(&backup, &restored, options, &note, disk).expect("built"), 1);
        let store = Store::open(&restored).expect("a store");
        assert_eq!(store.typed::<u64, u64>("t").expect("a table").get(&1).expect("read"), Some(11));
    }
}
