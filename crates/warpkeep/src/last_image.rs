//! The image that a store was last used with: where its log says it lay, and what it means that it is not there.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use warpkeep_image::store_id_of;
use warpkeep_log::{ImageNote, Recovery};

use crate::{Error, Result};

/// What an opener may do without the image that the store was last used with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leave {
    /// Give that image up: what only it knows is lost.
    pub(crate) abandon: bool,
    /// Open a copy of the store although the original is there.
    pub(crate) adopt: bool,
}

/// Refuses to go on with another image, or with a new one, as long as that could silently lose `Process` writes.
/// `rebuilding` says that the image at `here` cannot be used or is not there.
pub(crate) fn check(
    recovery: &Recovery,
    here: Option<&ImageNote>,
    rebuilding: bool,
    leave: Leave,
) -> Result<()> {
    // A log of an older program notes nothing, and a place that is no file cannot be elsewhere.
    let (Some(last), Some(here)) = (recovery.image(), here) else { return Ok(()) };
    if leave.abandon {
        return Ok(());
    }
    if !leave.adopt {
        check_elsewhere(last.path(), here.path(), &recovery.store_id())?;
    }
    // After a clean close the log has everything. In another boot a volatile image is lost anyway, and only what the log
    // has was promised to outlive the machine.
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

/// Whether there is an image of the store, or something that cannot be looked at and might be it.
fn may_be_image_of(path: &Path, store_id: &[u8; 16]) -> bool {
    match std::fs::metadata(path) {
        Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        Ok(found) if found.is_dir() => false,
        Ok(_) => store_id_of(path).map_or(true, |id| id.as_ref() == Some(store_id)),
    }
}
