//! Images in named files: create, open, re-attach.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::layout::PAGE;
use crate::placement::Domain;
use crate::static_header::StaticHeader;
use crate::{
    Access, Attached, Backing, DEFAULT_CHUNK, Format, Holder, Identity, Image, ImageError, MapOptions,
    MappedFile, Persist, Surroundings, boot_id, wait_until_gone,
};

/// How to create an image.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Bytes to begin with; rounded up to whole chunks. All of them are reserved on the medium.
    pub len: u64,
    /// Bytes in a chunk.
    pub chunk_size: u64,
    /// Shared with the log directory; drawn at random if not given.
    pub store_id: Option<[u8; 16]>,
    /// How to map it.
    pub map: MapOptions,
}

impl Default for CreateOptions {
    fn default() -> Self {
        CreateOptions { len: 64 << 20, chunk_size: DEFAULT_CHUNK, store_id: None, map: MapOptions::default() }
    }
}

/// How to open an image.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Open a cleanly closed image although its file is a copy.
    pub adopt: bool,
    /// How long to wait for the last holder to end: one that was killed while a GPU was using the image can take a
    /// while.
    pub wait_for_holder: Duration,
    /// How to map it.
    pub map: MapOptions,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions { adopt: false, wait_for_holder: Duration::from_secs(10), map: MapOptions::default() }
    }
}

impl<P: Persist> Image<P> {
    /// Creates an image in a new file. The file appears under its name only when it is whole.
    ///
    /// ```
    /// use warpkeep_image::{Coherent, CreateOptions, Image};
    ///
    /// let directory = tempfile::tempdir().expect("a directory");
    /// let image = Image::create(&directory.path().join("image"), Coherent, &CreateOptions::default())?;
    /// image.begin(1)?;
    /// println!("{}", image.file().expect("it has one").placement());
    /// image.close(0)?;
    /// # Ok::<(), warpkeep_image::ImageError>(())
    /// ```
    pub fn create(path: &Path, persist: P, options: &CreateOptions) -> Result<Image<P>, ImageError> {
        let len = options.len.max(2 * options.chunk_size).checked_next_multiple_of(options.chunk_size);
        let len =
            len.ok_or_else(|| ImageError::Invalid(format!("an image cannot have {} bytes", options.len)))?;
        let file = Arc::new(MappedFile::create(path, len, &options.map)?);
        check_domain::<P>(&file)?;
        let mut seed = [0; 24];
        fill_random(&mut seed)?;
        let (random_id, hash_seed) = seed.split_at(16);
        let random_id: [u8; 16] = random_id.try_into().expect("sixteen bytes");
        let format = Format {
            store_id: options.store_id.unwrap_or(random_id),
            chunk_size: options.chunk_size,
            hash_seed: u64::from_le_bytes(hash_seed.try_into().expect("eight bytes")),
        };
        let surroundings = surroundings(&file, false)?;
        let mut image = Image::format(Arc::clone(&file) as _, persist, file.path(), &format, surroundings)?;
        file.publish()?;
        image.set_file(file);
        Ok(image)
    }

    /// Opens an image, for writing or reading. See [`Image::attach`] for the checks.
    pub fn open(
        path: &Path,
        persist: P,
        access: Access,
        options: &OpenOptions,
    ) -> Result<Attached<P>, ImageError> {
        check_header(path)?;
        let file = Arc::new(MappedFile::open(path, access, &options.map)?);
        let surroundings = surroundings(&file, options.adopt)?;
        let writable = access == Access::ReadWrite;
        if writable {
            check_domain::<P>(&file)?;
        }
        let mut attached =
            Image::attach(Arc::clone(&file) as _, persist, file.path(), surroundings, writable)?;
        if writable {
            attached.image.wait_for_last_holder(options.wait_for_holder)?;
            // A growth that was never published, or the rest of a device.
            if file.len() > attached.image.len() {
                file.truncate_to(attached.image.len())?;
            }
        }
        attached.image.set_file(file);
        Ok(attached)
    }

    fn wait_for_last_holder(&self, timeout: Duration) -> Result<(), ImageError> {
        let (holder, then, clean) = {
            let state = self.state();
            let holder = Holder { pid: state.holder_pid, start_time: state.holder_start };
            (holder, state.identity.boot_id, state.clean)
        };
        let here = self.surroundings();
        let was_us = holder.pid == here.pid && holder.start_time == here.start_time;
        if clean || was_us || then != here.identity.boot_id || wait_until_gone(&holder, timeout)? {
            return Ok(());
        }
        Err(ImageError::Held {
            path: self.path().to_path_buf(),
            holder: format!("{holder}, which is still ending"),
        })
    }
}

/// Refuses another program's file before changing it: opening for writing allocates the space of its holes.
fn check_header(path: &Path) -> Result<(), ImageError> {
    let mut page = [0; PAGE as usize];
    // A missing or short file, or a path that is not a file, is left to the opening itself.
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    match is_file && File::open(path).is_ok_and(|file| file.read_exact_at(&mut page, 0).is_ok()) {
        true => StaticHeader::decode(&page, path).map(|_| ()),
        false => Ok(()),
    }
}

/// The store that the image in a file belongs to; `None` if there is no valid header. Only the header is read, and
/// the image may be in use.
pub fn store_id_of(path: &Path) -> Result<Option<[u8; 16]>, ImageError> {
    let mut page = [0; PAGE as usize];
    let file = File::open(path).map_err(ImageError::io(path, "open it"))?;
    match file.read_exact_at(&mut page, 0) {
        Ok(()) => Ok(StaticHeader::decode(&page, path).ok().map(|header| header.store_id)),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(ImageError::io(path, "read it")(error)),
    }
}

fn surroundings(file: &MappedFile, adopt: bool) -> Result<Surroundings, ImageError> {
    let (holder, identity) = (Holder::current()?, file.identity());
    Ok(Surroundings {
        identity: Identity {
            boot_id: boot_id()?,
            device: identity.device,
            inode: identity.inode,
            born: identity.born,
        },
        persistent: file.placement().domain() == Domain::WriteBack,
        pid: holder.pid,
        start_time: holder.start_time,
        now: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        adopt,
    })
}

fn check_domain<P: Persist>(file: &MappedFile) -> Result<(), ImageError> {
    if file.placement().domain() == Domain::WriteBack && !P::WRITES_BACK {
        return Err(ImageError::Invalid(format!(
            "{} is persistent memory, where stores must be written back; open it with the WriteBack domain",
            file.path().display()
        )));
    }
    Ok(())
}

/// Fills a buffer with random bytes of the system: ids of stores, seeds of hashes.
pub fn fill_random(bytes: &mut [u8]) -> Result<(), ImageError> {
    let got = rustix::rand::getrandom(&mut *bytes, rustix::rand::GetRandomFlags::empty());
    match got {
        Ok(len) if len == bytes.len() => Ok(()),
        Ok(_) => Err(ImageError::Invalid("the system gave too few random bytes".into())),
        Err(error) => {
            Err(ImageError::io(Path::new("the system's random numbers"), "read them")(error.into()))
        }
    }
}
