//! The manifest: which checkpoint is current, and where redo begins.

use warpkeep_core::Lsn;

use crate::error::LogError;
use crate::files::Directory;
use crate::layout::{MANIFEST, PAGE};
use crate::page::Page;
use crate::site;

const MAGIC: &[u8; 8] = b"WKMANIFT";
const MANIFEST_TMP: &str = "MANIFEST.tmp";

/// What the manifest says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) store_id: [u8; 16],
    /// One more with every write.
    pub(crate) generation: u64,
    pub(crate) epoch: u64,
    /// 0: none yet, and then the next three are 0 too.
    pub(crate) checkpoint: u64,
    pub(crate) checkpoint_start: Lsn,
    pub(crate) checkpoint_changes: u64,
    pub(crate) checkpoint_bytes: u64,
    /// The first segment that redo needs.
    pub(crate) first_segment: u64,
    /// If closed cleanly: the last record in the log.
    pub(crate) clean_at: Option<Lsn>,
}

impl Manifest {
    /// Reads it; `None` if there is none.
    pub(crate) fn read(directory: &Directory) -> Result<Option<Manifest>, LogError> {
        let Some(file) = directory.open_if_there(MANIFEST)? else { return Ok(None) };
        let mut bytes = vec![0; PAGE as usize];
        let read = file.read(&mut bytes, 0)?;
        let page = Page::check(&bytes[..read], MAGIC).map_err(|fault| {
            fault.into_error(MANIFEST, |what| LogError::ManifestDamaged { what: what.to_owned() })
        })?;
        let clean = match page.flag() {
            0 => false,
            1 => true,
            other => return Err(LogError::ManifestDamaged { what: format!("unknown state {other}") }),
        };
        Ok(Some(Manifest {
            store_id: page.store_id(),
            generation: page.word(32),
            epoch: page.word(40),
            checkpoint: page.word(48),
            checkpoint_start: Lsn::from_bits(page.word(56)),
            checkpoint_changes: page.word(64),
            checkpoint_bytes: page.word(72),
            first_segment: page.word(80),
            clean_at: clean.then(|| Lsn::from_bits(page.word(88))),
        }))
    }

    fn page(&self) -> Page {
        let mut page = Page::new(MAGIC, &self.store_id);
        page.set_flag(u32::from(self.clean_at.is_some()));
        page.set_word(32, self.generation);
        page.set_word(40, self.epoch);
        page.set_word(48, self.checkpoint);
        page.set_word(56, self.checkpoint_start.bits());
        page.set_word(64, self.checkpoint_changes);
        page.set_word(72, self.checkpoint_bytes);
        page.set_word(80, self.first_segment);
        page.set_word(88, self.clean_at.unwrap_or(Lsn::ZERO).bits());
        page
    }

    /// Replaces the manifest on disk, with space from the reserve if there is no other.
    ///
    /// After an error the old one is still in force, unless the directory is poisoned: then either may be.
    pub(crate) fn write(&self, directory: &Directory) -> Result<(), LogError> {
        directory.with_reserve(|| self.try_to_write(directory))
    }

    fn try_to_write(&self, directory: &Directory) -> Result<(), LogError> {
        // Left behind by an attempt whose own clean-up failed.
        directory.remove(MANIFEST_TMP)?;
        let file = directory.create(MANIFEST_TMP)?;
        let written = file.write(&self.page().sealed()[..], 0).and_then(|()| file.sync(site::MANIFEST_FILE));
        drop(file);
        if let Err(error) = written {
            directory.discard(MANIFEST_TMP);
            return Err(error);
        }
        if let Err(error) = directory.rename(MANIFEST_TMP, MANIFEST) {
            // A rename that failed halfway down the stack may have happened all the same. Only the old manifest,
            // read back, proves that it has not.
            return match Manifest::read(directory) {
                Ok(Some(found)) if found.generation != self.generation => {
                    directory.discard(MANIFEST_TMP);
                    Err(error)
                }
                Ok(None) if self.generation == 1 => {
                    directory.discard(MANIFEST_TMP);
                    Err(error)
                }
                _ => Err(directory.poison().set(error)),
            };
        }
        directory.sync(site::MANIFEST_DIR)
    }
}
