//! The file that marks a repair in progress, with its findings: the next repair continues an interrupted one.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use warpkeep_record::{Damage, DamagedItem};

use crate::{Error, Result};

/// Its name, in the directory of the store.
const NAME: &str = "REPAIRING";

/// A damaged item, as it is noted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Noted {
    /// The number of its table.
    pub(super) table: u32,
    /// It is an item, and not a word of a bucket.
    pub(super) is_item: bool,
    pub(super) key: Vec<u8>,
    pub(super) key_belongs: bool,
    pub(super) bucket: u64,
    pub(super) slot: usize,
    pub(super) damage: String,
}

impl Noted {
    pub(super) fn of((table, item): &(u32, DamagedItem)) -> Noted {
        Noted {
            table: *table,
            is_item: item.damage != Damage::CommitWord,
            key: item.key.clone(),
            key_belongs: item.key_belongs,
            bucket: item.bucket,
            slot: item.slot,
            damage: item.damage.to_string(),
        }
    }
}

/// The damage, and how complete the log is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Findings {
    /// The log has every change that the image had.
    pub(super) exact: bool,
    pub(super) damaged: Vec<Noted>,
}

impl Findings {
    /// Adds the findings of an interrupted repair: the items it removed from the image cannot be found there any
    /// more.
    fn take_up(&mut self, before: Findings) {
        self.exact |= before.exact;
        let new = before.damaged.into_iter().filter(|noted| !self.damaged.contains(noted));
        let new: Vec<Noted> = new.collect();
        self.damaged.extend(new);
    }
}

/// A repair that is under way.
pub(crate) struct Marker {
    path: PathBuf,
}

impl Marker {
    /// Writes the marker durably, with the damage found by this repair and an interrupted one before it.
    pub(super) fn set(directory: &Path, findings: &mut Findings) -> Result<Marker> {
        let path = directory.join(NAME);
        match std::fs::read(&path) {
            Ok(bytes) => {
                let unreadable = |error| {
                    Error::Invalid(format!("{} cannot be read: {error}; restore a backup", path.display()))
                };
                findings.take_up(serde_json::from_slice(&bytes).map_err(unreadable)?);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io(&path, "read it")(error)),
        }
        let bytes = serde_json::to_vec(findings)
            .map_err(|error| Error::Invalid(format!("the damage cannot be noted: {error}; try again")))?;
        let temporary = directory.join(format!("{NAME}.tmp"));
        let written = File::create(&temporary).and_then(|mut file| {
            file.write_all(&bytes)?;
            file.sync_all()
        });
        written.map_err(Error::io(&temporary, "write it"))?;
        std::fs::rename(&temporary, &path).map_err(Error::io(&path, "give it its name"))?;
        sync(directory)?;
        Ok(Marker { path })
    }

    /// Refuses a store whose repair was interrupted.
    pub(crate) fn check(directory: &Path) -> Result<()> {
        let path = directory.join(NAME);
        match path.try_exists().map_err(Error::io(&path, "look for it"))? {
            false => Ok(()),
            true => Err(Error::RepairInterrupted { directory: directory.to_path_buf() }),
        }
    }

    /// The repair is done.
    pub(super) fn remove(self) -> Result<()> {
        std::fs::remove_file(&self.path).map_err(Error::io(&self.path, "remove it"))?;
        sync(self.path.parent().unwrap_or(Path::new(".")))
    }
}

fn sync(directory: &Path) -> Result<()> {
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(Error::io(directory, "sync it"))
}
