//! The manifest: which checkpoint is current, and where redo begins. It is kept twice, so that one damaged page does not
//! lock out a store that is whole otherwise.

use warpkeep_core::Lsn;

use crate::error::LogError;
use crate::files::Directory;
use crate::image_note::ImageNote;
use crate::layout::{MANIFEST, PAGE, SECOND_MANIFEST};
use crate::page::Page;
use crate::site;

const MAGIC: &[u8; 8] = b"WKMANIFT";

/// Each copy: its name, its name until it is complete, and the site of its sync.
const COPIES: [Copy; 2] = [
    Copy { name: MANIFEST, temporary: "MANIFEST.tmp", site: site::MANIFEST_FILE },
    Copy { name: SECOND_MANIFEST, temporary: "MANIFEST.2.tmp", site: site::SECOND_MANIFEST_FILE },
];

struct Copy {
    name: &'static str,
    temporary: &'static str,
    site: &'static str,
}

/// The contents of the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) store_id: [u8; 16],
    /// Incremented by every write.
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
    /// The image it is used with, if that is known.
    pub(crate) image: Option<ImageNote>,
}

/// A manifest that was read, and the damage to its other copy, if any.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) manifest: Manifest,
    /// The other copy is damaged; the next manifest that is written replaces it.
    pub(crate) damaged_copy: Option<String>,
}

impl Manifest {
    /// Whether one of these names is a manifest, valid or not.
    pub(crate) fn is_among(names: &[String]) -> bool {
        names.iter().any(|name| COPIES.iter().any(|copy| copy.name == name))
    }

    /// Reads the newer of the valid copies; `None` if there is no copy at all.
    pub(crate) fn read(directory: &Directory) -> Result<Option<Found>, LogError> {
        let mut found: Option<Manifest> = None;
        let mut damaged = Vec::new();
        for Copy { name, .. } in &COPIES {
            match Manifest::read_copy(directory, name) {
                Ok(None) => {}
                Ok(Some(manifest)) => match &found {
                    None => found = Some(manifest),
                    Some(first) if first.store_id != manifest.store_id => {
                        let (expected, found) = (first.store_id, manifest.store_id);
                        return Err(LogError::ForeignStore { file: (*name).to_owned(), expected, found });
                    }
                    // A crash hit between the two writes, or an older program wrote only the first.
                    Some(first) if first.generation < manifest.generation => found = Some(manifest),
                    Some(_) => {}
                },
                Err(LogError::ManifestDamaged { what }) => damaged.push((*name, what)),
                Err(error) => return Err(error),
            }
        }
        let damaged = damaged.into_iter().map(|(name, what)| format!("of {name}, {what}"));
        let damaged: Vec<String> = damaged.collect();
        match found {
            Some(manifest) => Ok(Some(Found { manifest, damaged_copy: damaged.into_iter().next() })),
            None if damaged.is_empty() => Ok(None),
            None => Err(LogError::ManifestDamaged { what: damaged.join("; ") }),
        }
    }

    fn read_copy(directory: &Directory, name: &str) -> Result<Option<Manifest>, LogError> {
        let Some(file) = directory.open_if_there(name)? else { return Ok(None) };
        let mut bytes = vec![0; PAGE as usize];
        let read = file.read(&mut bytes, 0)?;
        let page = Page::check(&bytes[..read], MAGIC).map_err(|fault| {
            fault.into_error(name, |what| LogError::ManifestDamaged { what: what.to_owned() })
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
            image: ImageNote::from_page(&page)?,
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
        if let Some(image) = &self.image {
            image.to_page(&mut page);
        }
        page
    }

    /// Replaces both copies of the manifest on disk, with space from the reserve if there is no other.
    ///
    /// Both are written and synced under other names before either is renamed, so a full disk changes nothing; and one
    /// sync of the directory makes both names durable, since a crash before it leaves each copy old or new, and both are
    /// right as long as nothing relies on the new one.
    ///
    /// After an error the old one is still in force, unless the directory is poisoned: then either may be.
    pub(crate) fn write(&self, directory: &Directory) -> Result<(), LogError> {
        directory.with_reserve(|| self.try_to_write(directory))
    }

    fn try_to_write(&self, directory: &Directory) -> Result<(), LogError> {
        let page = self.page().sealed();
        for copy in &COPIES {
            if let Err(error) = copy.write(directory, &page[..]) {
                discard(directory);
                return Err(error);
            }
        }
        for (done, copy) in COPIES.iter().enumerate() {
            if let Err(error) = directory.rename(copy.temporary, copy.name) {
                // A rename that reported an error may have happened all the same. Only reading back the old copy
                // proves that it has not; and once the first copy is replaced, the new manifest is in force.
                let unchanged = match Manifest::read_copy(directory, copy.name) {
                    Ok(Some(found)) => found.generation != self.generation,
                    Ok(None) => self.generation == 1,
                    // It was damaged before.
                    Err(LogError::ManifestDamaged { .. }) => true,
                    Err(_) => false,
                };
                if done > 0 || !unchanged {
                    return Err(directory.poison().set(error));
                }
                discard(directory);
                return Err(error);
            }
        }
        directory.sync(site::MANIFEST_DIR)
    }
}

impl Copy {
    fn write(&self, directory: &Directory, page: &[u8]) -> Result<(), LogError> {
        // Left behind by an attempt whose own clean-up failed.
        directory.remove(self.temporary)?;
        let file = directory.create(self.temporary)?;
        file.write(page, 0)?;
        file.sync(self.site)
    }
}

/// Removes an incomplete manifest.
fn discard(directory: &Directory) {
    COPIES.iter().for_each(|copy| directory.discard(copy.temporary));
}
