//! Holding an image so that nobody opens it for writing, or saying who has it.

use std::fs::{File, TryLockError};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use warpkeep_image::{Holder, ImageError};

/// Where the two state slots of an image lie, and their parts; see section 2.2 of docs/format.md.
const SLOTS: [u64; 2] = [4096, 8192];
const MAGIC: &[u8; 8] = b"WKSTATE1";
const SLOT: usize = 256;
const CRC_AT: usize = 252;

/// An image's file under a shared lock.
pub(crate) struct Held {
    pub(super) path: PathBuf,
    pub(super) file: File,
}

impl Held {
    /// Takes the lock; others may look at the image, too.
    pub(crate) fn take(path: &Path) -> Result<Held, ImageError> {
        let io = |doing| move |source| ImageError::Io { path: path.to_path_buf(), doing, source };
        let file = File::open(path).map_err(io("open it"))?;
        match file.try_lock_shared() {
            Ok(()) => Ok(Held { path: path.to_path_buf(), file }),
            Err(TryLockError::Error(source)) => Err(io("lock it")(source)),
            Err(TryLockError::WouldBlock) => {
                let holder = last_holder(&file).map(|holder| holder.to_string());
                let holder = holder.unwrap_or_else(|| "another process".to_owned());
                Err(ImageError::Held { path: path.to_path_buf(), holder })
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Closing is not enough: a process being started at this moment has the file, too, until it runs its program.
        let _ = self.file.unlock();
    }
}

/// Who is written down as the last holder, if it still runs.
fn last_holder(file: &File) -> Option<Holder> {
    let slot = |at: u64| {
        let mut bytes = [0; SLOT];
        file.read_exact_at(&mut bytes, at).ok()?;
        let word = |at: usize| bytes[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        let crc = bytes[CRC_AT..].try_into().map(u32::from_le_bytes).ok()?;
        let whole = bytes.starts_with(MAGIC) && crc32c::crc32c(&bytes[..CRC_AT]) == crc;
        whole.then_some(())?;
        Some((word(8)?, Holder { pid: word(72)?, start_time: word(80)? }))
    };
    let (_, holder) = SLOTS.into_iter().filter_map(slot).max_by_key(|(sequence, _)| *sequence)?;
    holder.is_alive().is_ok_and(|alive| alive).then_some(holder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpkeep_image::{Coherent, CreateOptions, Image};

    #[test]
    fn names_who_has_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("image");
        let image = Image::create(&path, Coherent, &CreateOptions::default()).expect("room");
        image.begin(7).expect("begun");
        let me = Holder::current().expect("there is /proc");
        assert_eq!(last_holder(&File::open(&path).expect("it is there")), Some(me));
        match Held::take(&path).map(|_| ()) {
            Err(ImageError::Held { holder, .. }) => {
                assert!(holder.contains(&std::process::id().to_string()), "{holder}");
            }
            other => panic!("{other:?}"),
        }
        image.close(0).expect("closed");
        let (_first, _second) = (Held::take(&path).expect("free"), Held::take(&path).expect("shared"));
    }
}
