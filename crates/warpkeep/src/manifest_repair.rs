//! A log whose manifest cannot be read, made usable again.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use warpkeep_image::{Access, Coherent, Image, ImageError, OpenOptions};
use warpkeep_log::{OsDisk, RepairedManifest};

use crate::{Error, ImageFile, ImagePlace, Result, StoreOptions};

/// Rebuilds the manifest of a store's log, if neither of its two copies can be read or none exists: from the newest
/// checkpoint, the segments, and the image's epoch. `None` if the manifest is valid.
///
/// It is an error if they do not lead to the end of the log without a gap, or if the image exists and cannot be read:
/// then nothing is changed. The log counts as not closed, so the next opening takes as long as after a crash. An image
/// that is not in the directory is found only by its [path](StoreOptions::image).
///
/// ```
/// use warpkeep::{Durability, Store, StoreOptions, repair_manifest};
/// # let directory = tempfile::tempdir().unwrap();
/// # let directory = directory.path();
/// let store = Store::open(directory)?;
/// store.create_typed::<u64, u64>("t", 10)?.put(&1, &2, Durability::Power)?;
/// store.close()?;
/// for copy in ["MANIFEST", "MANIFEST.2"] {
///     std::fs::remove_file(directory.join("log").join(copy)).unwrap();
/// }
/// assert!(Store::open(directory).is_err());
/// assert!(repair_manifest(directory, &StoreOptions::default())?.is_some());
/// assert_eq!(Store::open(directory)?.typed::<u64, u64>("t")?.get(&1)?, Some(2));
/// # Ok::<(), warpkeep::Error>(())
/// ```
pub fn repair_manifest(directory: &Path, options: &StoreOptions) -> Result<Option<RepairedManifest>> {
    let no_store = || Error::NoStore { directory: directory.to_path_buf() };
    let log = options.log_path(directory).filter(|path| path.is_dir()).ok_or_else(no_store)?;
    let disk = OsDisk::open(log)?;
    let image = options.image_path(directory);
    let epoch = epoch_of(&image, options)?;
    // Otherwise the next opening could rebuild the store beside this image, and lose the writes that only it has.
    let note = match epoch {
        Some(_) => ImageFile::new(image, Coherent).note()?,
        None => None,
    };
    Ok(warpkeep_log::repair_manifest(Arc::new(disk), epoch, note)?)
}

/// The epoch of the image; `None` if there is no image that the next opening would use.
fn epoch_of(image: &Path, options: &StoreOptions) -> Result<Option<u64>> {
    if matches!(image.symlink_metadata(), Err(error) if error.kind() == ErrorKind::NotFound) {
        return Ok(None);
    }
    let looking = OpenOptions { adopt: true, ..options.open.clone() };
    match Image::open(image, Coherent, Access::ReadOnly, &looking) {
        // Laid out but never taken into use: a rebuild begins with the log alone.
        Ok(attached) => Ok(Some(attached.image.epoch()).filter(|&epoch| epoch > 0)),
        // Lost with the machine.
        Err(ImageError::NotIntact { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
