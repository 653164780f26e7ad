//! An image in a private, copy-on-write view of its file: recovery works there, and the file does not change.

use std::sync::Arc;

use memmap2::{MmapOptions, MmapRaw};
use warpkeep_image::{
    Access, Attached, Backing, Coherent, Domain, Holder, Identity, Image, ImageError, ImageHold, OpenOptions,
    Surroundings, boot_id,
};

/// The view. Only pages that are changed take memory of their own.
struct PrivateView {
    map: MmapRaw,
}

// SAFETY: the mapping is private, readable and writable, and stays where it is until it is dropped; it never grows.
unsafe impl Backing for PrivateView {
    fn base(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    fn len(&self) -> u64 {
        self.map.len() as u64
    }

    fn max_len(&self) -> u64 {
        self.len()
    }

    fn grow(&self, len: u64) -> Result<(), ImageError> {
        let why = "this is only a look at the image; open the store to change it".to_owned();
        Err(ImageError::OutOfSpace { wanted: len, why })
    }

    fn sync(&self, _site: &'static str) -> Result<(), ImageError> {
        Ok(())
    }
}

/// Opens an image that is held. All that opening for writing checks is checked.
pub(super) fn open(held: &ImageHold) -> Result<Attached<Coherent>, ImageError> {
    let path = held.path();
    // Looking at a copy does no harm.
    let options = OpenOptions { adopt: true, ..OpenOptions::default() };
    let opened = Image::open(path, Coherent, Access::ReadOnly, &options)?;
    let file = opened.image.file().ok_or_else(|| ImageError::Invalid("an image without a file".into()))?;
    let (identity, placement) = (file.identity(), file.placement().clone());
    drop(opened);
    let io = |doing| move |source| ImageError::Io { path: path.to_path_buf(), doing, source };
    // SAFETY: the mapping is private, and the shared lock excludes every process that would truncate the file under
    // it; all data read is checked before it is trusted.
    let map = unsafe { MmapOptions::new().no_reserve_swap().map_copy(&**held) };
    let view = PrivateView { map: map.map_err(io("map a private view of it"))?.into() };
    let holder = Holder::current()?;
    let surroundings = Surroundings {
        identity: Identity {
            boot_id: boot_id()?,
            device: identity.device,
            inode: identity.inode,
            born: identity.born,
        },
        persistent: placement.domain() == Domain::WriteBack,
        pid: holder.pid,
        start_time: holder.start_time,
        now: 0,
        adopt: true,
    };
    Image::attach(Arc::new(view), Coherent, path, surroundings, true)
}
