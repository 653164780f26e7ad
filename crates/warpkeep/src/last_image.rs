//! The image that a store was last used with: its path recorded in the log, and the consequences if it is missing.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use warpkeep_image::store_id_of;
use warpkeep_log::{ImageNote, Recovery};

use crate::{Error, Result};

/// What an opener may do without the image that the store was last used with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leave {
    /// Give that image up: writes that only it has are lost.
    pub(crate) abandon: bool,
    /// Open a copy of the store although the original is there.
    pub(crate) adopt: bool,
}

/// Refuses to continue with another image, or with a new one, as long as that could silently lose `Process` writes.
/// `rebuilding` means that the image at `here` cannot be used or does not exist.
pub(crate) fn check(
    recovery: &Recovery,
    here: Option<&ImageNote>,
    rebuilding: bool,
    leave: Leave,
) -> Result<()> {
    // A log of an older program records no image, and a place that is not a file has no other path.
    let (Some(last), Some(here)) = (recovery.image(), here) else { return Ok(()) };
    if leave.abandon {
        return Ok(());
    }
    if !leave.adopt {
        check_elsewhere(last.path(), here.path(), &recovery.store_id())?;
    }
    // After a clean close the log has everything. In another boot a volatile image is lost anyway, and only logged
    // writes were promised to outlive the machine.
    let promised = last.persistent || last.boot_id == here.boot_id;
    match rebuilding && promised && !recovery.closed_cleanly() {
        true => Err(Error::ImageLost { path: last.path().to_path_buf() }),
        false => Ok(()),
    }
}

/// Refuses another path than the last one while the image of this store is still there.
pub fn check_elsewhere(last: &Path, here: &Path, store_id: &[u8; 16]) -> Result<()> {
    match last != here && !is_same_file(last, here) && may_be_image_of(last, store_id) {
        true => Err(Error::ImageElsewhere { path: here.to_path_buf(), last: last.to_path_buf() }),
        false => Ok(()),
    }
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let number = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    number(one).is_some_and(|one| number(other) == Some(one))
}

/// Whether there is an image of the store, or a file that cannot be read and might be it.
fn may_be_image_of(path: &Path, store_id: &[u8; 16]) -> bool {
    match std::fs::metadata(path) {
        Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        Ok(found) if found.is_dir() => false,
        Ok(_) => store_id_of(path).map_or(true, |id| id.as_ref() == Some(store_id)),
    }
}
