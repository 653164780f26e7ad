//! The source of an image: a file in production, recorded memory in the crash explorer.

use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

use warpkeep_image::{
    Access, Attached, CreateOptions, Domain, Image, ImageError, OpenOptions, Persist, Placement, boot_id,
    fill_random,
};
use warpkeep_log::ImageNote;

use crate::WorkProgress;

/// Opens and creates the image of a store.
pub trait ImagePlace<P: Persist> {
    /// Opens the image for writing; `None` if it does not exist.
    fn open(&self) -> Result<Option<Attached<P>>, ImageError>;

    /// An id for a new store.
    fn new_store_id(&self) -> Result<[u8; 16], ImageError> {
        let mut id = [0; 16];
        fill_random(&mut id)?;
        Ok(id)
    }

    /// Prepares the place of an earlier image, as the log recorded it: on a file system in memory its directory is
    /// gone, too.
    fn prepare(&self, last: Option<&ImageNote>) -> Result<(), ImageError> {
        let _ = last;
        Ok(())
    }

    /// The path of the image, for the log to record; `None` without a file.
    fn note(&self) -> Result<Option<ImageNote>, ImageError> {
        Ok(None)
    }

    /// Whether the image that the store was last used with may be given up, with the `Process` writes that only it
    /// has.
    fn abandons_last(&self) -> bool {
        false
    }

    /// Whether the store may be a copy of one that is still there.
    fn adopts_copies(&self) -> bool {
        false
    }

    /// Where a rebuild reports how far it is.
    fn progress(&self) -> WorkProgress {
        WorkProgress::default()
    }

    /// Creates an image for this store, in place of one that cannot be used any more.
    fn create(&self, store_id: [u8; 16]) -> Result<Image<P>, ImageError>;
}

/// An image in a named file.
#[derive(Clone, Debug)]
pub struct ImageFile<P> {
    /// The file.
    pub path: PathBuf,
    /// How its stores become durable.
    pub persist: P,
    /// How it is created if need be.
    pub create: CreateOptions,
    /// How it is opened.
    pub open: OpenOptions,
    /// See [`StoreOptions::abandon_image`](crate::StoreOptions::abandon_image).
    pub abandon: bool,
    /// See [`StoreOptions::progress`](crate::StoreOptions::progress).
    pub progress: WorkProgress,
}

impl<P> ImageFile<P> {
    /// An image in this file, with the usual options.
    pub fn new(path: impl Into<PathBuf>, persist: P) -> ImageFile<P> {
        ImageFile {
            path: path.into(),
            persist,
            create: CreateOptions::default(),
            open: OpenOptions::default(),
            abandon: false,
            progress: WorkProgress::default(),
        }
    }
}

impl<P: Persist + Clone> ImagePlace<P> for ImageFile<P> {
    fn open(&self) -> Result<Option<Attached<P>>, ImageError> {
        match self.path.symlink_metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            _ => Image::open(&self.path, self.persist.clone(), Access::ReadWrite, &self.open).map(Some),
        }
    }

    fn prepare(&self, last: Option<&ImageNote>) -> Result<(), ImageError> {
        let path = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        match (path.parent(), last) {
            (Some(directory), Some(last)) if last.path() == path && !directory.exists() => {
                std::fs::create_dir_all(directory).map_err(|source| {
                    let (path, doing) = (directory.to_path_buf(), "create it");
                    ImageError::Io { path, doing, source }
                })
            }
            _ => Ok(()),
        }
    }

    fn note(&self) -> Result<Option<ImageNote>, ImageError> {
        let placement = Placement::of(&self.path)?;
        Ok(ImageNote::new(&placement.path, boot_id()?, placement.domain() == Domain::WriteBack))
    }

    fn abandons_last(&self) -> bool {
        self.abandon
    }

    fn adopts_copies(&self) -> bool {
        self.open.adopt
    }

    fn progress(&self) -> WorkProgress {
        self.progress.clone()
    }

    fn create(&self, store_id: [u8; 16]) -> Result<Image<P>, ImageError> {
        let mut options = self.create.clone();
        options.store_id = Some(store_id);
        // A device is written over in place; a file makes way.
        match self.path.symlink_metadata() {
            Ok(found) if found.file_type().is_char_device() => options.map.overwrite_device = true,
            Ok(_) => std::fs::remove_file(&self.path).map_err(|source| {
                let (path, doing) = (self.path.clone(), "replace it");
                ImageError::Io { path, doing, source }
            })?,
            Err(_) => {}
        }
        Image::create(&self.path, self.persist.clone(), &options)
    }
}
