//! Holding an image that is not opened: to look at it, or to put another in its place.

use std::fs::File;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use crate::ImageError;
use crate::lock::{LockableFile, held};

/// An image's file under a lock, so that no process opens it for writing meanwhile.
#[derive(Debug)]
pub struct ImageHold {
    path: PathBuf,
    file: LockableFile,
}

impl ImageHold {
    /// Takes a shared lock; [`ImageError::Held`] names the process that has the image open.
    pub fn shared(path: &Path) -> Result<ImageHold, ImageError> {
        ImageHold::take(path, LockableFile::try_lock_shared)
    }

    /// Holds it alone.
    pub fn alone(path: &Path) -> Result<ImageHold, ImageError> {
        ImageHold::take(path, LockableFile::try_lock_exclusive)
    }

    fn take(
        path: &Path,
        lock: impl Fn(&LockableFile) -> std::io::Result<bool>,
    ) -> Result<ImageHold, ImageError> {
        let file = File::open(path).map(LockableFile::new).map_err(ImageError::io(path, "open it"))?;
        match lock(&file).map_err(ImageError::io(path, "lock it"))? {
            true => Ok(ImageHold { path: path.to_path_buf(), file }),
            false => Err(held(path, &file)),
        }
    }

    /// The file, as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Deref for ImageHold {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Coherent, CreateOptions, Image};

    #[test]
    fn names_who_has_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("image");
        let image = Image::create(&path, Coherent, &CreateOptions::default()).expect("room");
        image.begin(7).expect("begun");
        for refused in [ImageHold::shared(&path), ImageHold::alone(&path)] {
            match refused {
                Err(ImageError::Held { holder, .. }) => assert_eq!(holder, "this very process"),
                other => panic!("{other:?}"),
            }
        }
        let used = image.last_use();
        assert!(!used.clean && used.attached > 1_600_000_000, "{used:?}");
        assert_eq!(used.holder, crate::Holder::current().expect("there is /proc"));
        image.close(0).expect("closed");
        let (first, _second) =
            (ImageHold::shared(&path).expect("free"), ImageHold::shared(&path).expect("shared"));
        assert!(matches!(ImageHold::alone(&path), Err(ImageError::Held { .. })));
        drop(first);
        drop(_second);
        ImageHold::alone(&path).expect("free again");
    }
}
