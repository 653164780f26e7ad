//! A file mapped into memory: the [`Backing`] of an image in production.

mod creation;
mod reservation;
mod space;

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use rustix::io::Errno;
use rustix::mm::{MsyncFlags, mlock, msync};

use crate::limits::{self, Bytes, round_up};
use crate::lock::{LockableFile, held};
use crate::pages::{self, HUGE_PAGE, HugePages, PageReport};
use crate::placement::directory_and_name;
use crate::{Backing, ImageError, Medium, Placement};
use reservation::Reservation;

/// Addresses reserved for growth by default. They cost nothing.
const DEFAULT_MAX_LEN: u64 = 1 << 40;

/// The permitted access to an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Change it; one opener at a time.
    ReadWrite,
    /// Read it. Takes no lock, so it works beside a writer, and may see the image change; it shows the length the
    /// file had when it was opened.
    ReadOnly,
}

/// How to map an image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MapOptions {
    /// The most the image may grow to while it is open; by default 1 TiB, or the system's limit.
    pub max_len: Option<u64>,
    /// Keep it from being swapped out.
    pub lock_memory: bool,
    /// Whether to request huge pages.
    pub huge_pages: HugePages,
    /// Create an image on a persistent-memory device even if the device is not empty.
    pub overwrite_device: bool,
}

/// Which file it is, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// The device number.
    pub device: u64,
    /// The inode number on it.
    pub inode: u64,
    /// Its creation time, in nanoseconds since 1970; 0 where the system does not report it, and for a device.
    pub born: u64,
}

/// A file mapped at one address for as long as it is open, also while it grows.
///
/// ```
/// use warpkeep_image::{Access, Backing, MapOptions, MappedFile};
///
/// let directory = tempfile::tempdir().expect("a directory");
/// let path = directory.path().join("image");
/// let file = MappedFile::create(&path, 1 << 20, &MapOptions::default())?;
/// // The owner writes its header here; until then no other process sees the file.
/// file.publish()?;
/// file.grow(2 << 20)?;
/// drop(file);
///
/// let file = MappedFile::open(&path, Access::ReadWrite, &MapOptions::default())?;
/// assert_eq!(file.len(), 2 << 20);
/// # Ok::<(), warpkeep_image::ImageError>(())
/// ```
#[derive(Debug)]
pub struct MappedFile {
    path: PathBuf,
    /// Before the file, so that the mapping is gone when the lock is.
    reservation: Reservation,
    file: LockableFile,
    identity: FileIdentity,
    placement: Placement,
    access: Access,
    options: MapOptions,
    len: AtomicU64,
    /// Held by the thread that changes the length.
    resizing: Mutex<()>,
    /// The name it has until it is published.
    temporary: Mutex<Option<PathBuf>>,
    /// After a failed sync the kernel may have dropped the unwritten pages, and a second sync would report a false
    /// success.
    sync_failed: AtomicBool,
}

impl MappedFile {
    /// Makes a file of `len` zero bytes, with all its space allocated, under a temporary name; [`Self::publish`] gives it
    /// its own. Dropped before that, it is removed. A persistent-memory device is used in place.
    pub fn create(path: &Path, len: u64, options: &MapOptions) -> Result<Self, ImageError> {
        let placement = Placement::of(path)?;
        check_len(&placement, len)?;
        if placement.medium == Medium::DevDax {
            return Self::create_on_device(placement, len, options);
        }
        let (directory, name) = directory_and_name(path)?;
        let path = directory.join(name);
        if path.symlink_metadata().is_ok() {
            return Err(ImageError::Exists { path });
        }
        let temporary = creation::name_while_creating(&directory, name);
        let file = creation::begin(&temporary)?;
        // Queried again for the file itself: unlike its directory, it may be mapped without a page cache.
        let created = Placement::of(&temporary)
            .map(|placement| Placement { path: path.clone(), ..placement })
            .and_then(|placement| Self::around(path, file, placement, Access::ReadWrite, options, len))
            .and_then(|mapped| mapped.resize_to(len).map(|()| mapped));
        match created {
            Ok(mut mapped) => {
                mapped.temporary = Mutex::new(Some(temporary));
                Ok(mapped)
            }
            Err(error) => {
                let _ = std::fs::remove_file(&temporary);
                Err(error)
            }
        }
    }

    fn create_on_device(placement: Placement, len: u64, options: &MapOptions) -> Result<Self, ImageError> {
        let path = placement.path.clone();
        let file = open_file(&path, Access::ReadWrite)?;
        let device_len = placement.total_bytes;
        let mapped = Self::around(path, file, placement, Access::ReadWrite, options, device_len)?;
        mapped.map_first(len)?;
        // SAFETY: the page was just mapped, and no other code has this mapping yet.
        let first_page = unsafe { std::slice::from_raw_parts(mapped.base(), 4096) };
        if !options.overwrite_device && first_page.iter().any(|&byte| byte != 0) {
            return Err(ImageError::Invalid(format!(
                "{} is not empty; open the image on it, or create with the option to overwrite the device",
                mapped.path.display()
            )));
        }
        mapped.clear_device(0, len)?;
        Ok(mapped)
    }

    /// Opens an existing file. For writing, it must not be open for writing anywhere else.
    pub fn open(path: &Path, access: Access, options: &MapOptions) -> Result<Self, ImageError> {
        let mut placement = Placement::of(path)?;
        let path = placement.path.clone();
        let file = open_file(&path, access)?;
        let len = match placement.medium {
            Medium::DevDax => placement.total_bytes - placement.total_bytes % placement.page_size,
            _ => file.metadata().map_err(ImageError::io(&path, "ask for its length"))?.len(),
        };
        if len == 0 {
            return Err(ImageError::Foreign { path, found: "an empty file".to_owned() });
        }
        check_len(&placement, len)?;
        let is_file = placement.medium != Medium::DevDax;
        if access == Access::ReadWrite && is_file {
            fill_holes(&file, &path, len, &mut placement)?;
        }
        let mapped = Self::around(path, file, placement, access, options, len)?;
        mapped.map_first(len)?;
        Ok(mapped)
    }

    /// A file with its addresses reserved and no mapping yet.
    fn around(
        path: PathBuf,
        file: LockableFile,
        mut placement: Placement,
        access: Access,
        options: &MapOptions,
        least: u64,
    ) -> Result<Self, ImageError> {
        let metadata = file.metadata().map_err(ImageError::io(&path, "look at it"))?;
        let identity =
            FileIdentity { device: metadata.dev(), inode: metadata.ino(), born: time_of_birth(&metadata) };
        if placement.medium == Medium::FsDax && access == Access::ReadWrite && !maps_synchronously(&file) {
            placement.downgrade_to_page_cache();
        }
        let most = match (access, placement.medium) {
            (Access::ReadOnly, _) | (_, Medium::DevDax) => least,
            _ => options.max_len.unwrap_or(DEFAULT_MAX_LEN),
        };
        let align = placement.page_size.max(HUGE_PAGE);
        let least = round_up(least, align).ok_or_else(|| too_long(least))?;
        let most = round_up(most, align).ok_or_else(|| too_long(most))?;
        let reservation = Reservation::new(&path, least, most, align)?;
        Ok(Self {
            path,
            file,
            identity,
            placement,
            access,
            options: options.clone(),
            reservation,
            len: AtomicU64::new(0),
            resizing: Mutex::new(()),
            temporary: Mutex::new(None),
            sync_failed: AtomicBool::new(false),
        })
    }

    /// Where the file lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which file it is, whatever its name.
    pub fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Its medium, and the consequences.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// The permitted access.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Whether this is the process that opened it, and not a copy made by `fork`.
    pub(crate) fn is_in_its_process(&self) -> bool {
        self.file.is_in_its_process()
    }

    /// The pages it is mapped with at this moment.
    pub fn page_report(&self) -> Result<PageReport, ImageError> {
        PageReport::read(self.base(), self.mapped_end(self.len()), self.placement.medium)
    }

    /// Makes the bytes of a new file durable where the medium can, and then gives it its name. It is an error if
    /// the name is taken. Once published, or on a device, this does nothing.
    pub fn publish(&self) -> Result<(), ImageError> {
        let mut temporary = self.temporary.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(name) = temporary.as_ref() else { return Ok(()) };
        self.sync("image-publish")?;
        creation::finish(name, &self.path)?;
        *temporary = None;
        match self.path.parent() {
            Some(directory) => creation::sync_directory(directory),
            None => Ok(()),
        }
    }

    /// Cuts the file to `len` bytes: recovery removes a growth that a crash left unpublished. No code may use, or
    /// have a pointer to, anything past `len`.
    pub fn truncate_to(&self, len: u64) -> Result<(), ImageError> {
        self.check_writable()?;
        check_len(&self.placement, len)?;
        let _resizing = self.resizing.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.len();
        if len > old {
            return Err(ImageError::Truncated { path: self.path.clone(), found: old, expected: len });
        }
        self.len.store(len, Ordering::Release);
        self.shrink(old, len)
    }

    fn check_writable(&self) -> Result<(), ImageError> {
        match self.access {
            Access::ReadWrite if !self.file.is_in_its_process() => {
                Err(ImageError::Forked { pid: self.file.owner() })
            }
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => Err(ImageError::ReadOnly),
        }
    }

    /// Mappings end on a page boundary, past the end of a file that does not.
    fn mapped_end(&self, len: u64) -> u64 {
        len.next_multiple_of(self.placement.page_size)
    }

    /// Maps the bytes that were there when the file was opened.
    fn map_first(&self, len: u64) -> Result<(), ImageError> {
        self.map(0, len)?;
        if self.access == Access::ReadWrite && self.wants_collapsing() {
            // SAFETY: just mapped, from a base that is a multiple of a huge page.
            unsafe { pages::collapse(self.base(), 0, len, None, Some(pages::OPENING_BUDGET)) };
        }
        self.lock_memory(0, len)?;
        self.len.store(len, Ordering::Release);
        Ok(())
    }

    fn resize_to(&self, len: u64) -> Result<(), ImageError> {
        let _resizing = self.resizing.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.len();
        if len <= old {
            return Ok(());
        }
        if len > self.max_len() {
            return Err(ImageError::OutOfSpace {
                wanted: len - old,
                why: format!(
                    "the image would have {} and {} were set aside when it was opened; reopen it with a larger \
                     maximum length",
                    Bytes(len),
                    Bytes(self.max_len())
                ),
            });
        }
        let lengthened = self.lengthen(old, len);
        if lengthened.is_err() {
            // Nothing beyond the old length has been published. If this fails, too, the file stays longer than the
            // image, and the next opening cuts it.
            let _ = self.shrink(len, old);
        } else {
            self.len.store(len, Ordering::Release);
        }
        lengthened
    }

    /// Takes the space, maps it and makes it ready, in the order each medium needs.
    fn lengthen(&self, old: u64, new: u64) -> Result<(), ImageError> {
        if self.placement.medium == Medium::DevDax {
            self.map(old, new)?;
            self.lock_memory(old, new)?;
            return self.clear_device(old, new);
        }
        let space = self.placement.space_now();
        space::check(&self.placement, old, new, space)?;
        let explain = |error| space::explain(error, &self.path, &self.placement, new - old, space);
        if self.wants_collapsing() {
            // The huge pages come first: creating them directly is cheaper than collapsing small ones. The holes
            // are not touched before all space is allocated.
            rustix::fs::ftruncate(&*self.file, new).map_err(explain)?;
            self.map(old, new)?;
            // SAFETY: all up to `new` is mapped, from a base that is a multiple of a huge page.
            unsafe { pages::collapse(self.base(), old, new, Some(&self.file), None) };
            space::take(&self.file, old, new, false).map_err(explain)?;
        } else {
            space::take(&self.file, old, new, false).map_err(explain)?;
            self.map(old, new)?;
        }
        self.lock_memory(old, new)
    }

    /// Maps the range between two lengths.
    fn map(&self, old: u64, new: u64) -> Result<(), ImageError> {
        let (from, to) = (self.mapped_end(old), self.mapped_end(new));
        if from == to {
            return Ok(());
        }
        let writable = self.access == Access::ReadWrite;
        // SAFETY: both ends are page boundaries, within the reservation because lengths are checked against it;
        // mappings end at `mapped_end` of the length, so nothing is mapped there.
        unsafe { self.reservation.map(&self.file, from, to, writable, self.placement.medium) }.map_err(
            |error| match error {
                Errno::NOMEM if self.placement.medium == Medium::Hugetlbfs => {
                    space::explain(error, &self.path, &self.placement, new - old, self.placement.space_now())
                }
                error => ImageError::io(&self.path, "map it")(error.into()),
            },
        )?;
        if self.options.huge_pages == HugePages::Auto {
            // SAFETY: just mapped.
            unsafe { pages::welcome(self.base().add(from as usize), to - from) };
        }
        Ok(())
    }

    fn wants_collapsing(&self) -> bool {
        self.options.huge_pages == HugePages::Auto && self.placement.medium == Medium::Tmpfs
    }

    /// Undoes the extension to `from` beyond `to`.
    fn shrink(&self, from: u64, to: u64) -> Result<(), ImageError> {
        let (start, end) = (self.mapped_end(to), self.mapped_end(from));
        // SAFETY: as for `map`; the range is past the length, so no code uses it. Unmapped before it is cut,
        // because touching a cut mapping raises a signal.
        unsafe { self.reservation.unmap(start, end.min(self.reservation.len()).max(start)) }
            .map_err(|error| ImageError::io(&self.path, "unmap its end")(error.into()))?;
        if self.placement.medium == Medium::DevDax {
            return Ok(());
        }
        rustix::fs::ftruncate(&*self.file, to)
            .map_err(|error| ImageError::io(&self.path, "cut its end")(error.into()))
    }

    fn lock_memory(&self, old: u64, new: u64) -> Result<(), ImageError> {
        if !self.options.lock_memory {
            return Ok(());
        }
        let (from, to) = (self.mapped_end(old), self.mapped_end(new));
        // SAFETY: the range is mapped, and locking changes no byte.
        match unsafe { mlock(self.base().add(from as usize).cast(), (to - from) as usize) } {
            Ok(()) => Ok(()),
            Err(Errno::NOMEM | Errno::PERM | Errno::AGAIN) => Err(ImageError::Limit {
                limit: "the locked-memory limit (RLIMIT_MEMLOCK)",
                needed: format!(
                    "{} of the image were to be locked, the limit is {}",
                    Bytes(to),
                    limits::locked_memory()
                        .map_or("not set, so memory itself is short".to_owned(), |limit| {
                            Bytes(limit).to_string()
                        })
                ),
                remedy:
                    "raise it (`ulimit -l unlimited`; systemd: LimitMEMLOCK=infinity; a container: --ulimit \
                         memlock=-1), or do not lock the memory"
                        .to_owned(),
            }),
            Err(error) => Err(ImageError::io(&self.path, "lock it in memory")(error.into())),
        }
    }

    /// A device keeps its old contents; an image expects zeros.
    #[cfg(target_arch = "x86_64")]
    fn clear_device(&self, from: u64, to: u64) -> Result<(), ImageError> {
        use crate::{Persist, WriteBack};
        let domain = WriteBack::detect().ok_or_else(no_write_back)?;
        let (start, len) = (self.base().wrapping_add(from as usize), (to - from) as usize);
        // SAFETY: the range is mapped and writable, and not yet in use.
        unsafe { start.write_bytes(0, len) };
        domain.flush("device-clear", start, len);
        domain.fence("device-clear");
        Ok(())
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn clear_device(&self, _from: u64, _to: u64) -> Result<(), ImageError> {
        Err(no_write_back())
    }
}

// SAFETY: the base is that of the reservation, which lives as long as `self` and never moves; everything below
// `len` is mapped before `len` is raised, and only `truncate_to`, whose callers guarantee that no code uses that
// range, unmaps any of it.
unsafe impl Backing for MappedFile {
    fn base(&self) -> *mut u8 {
        self.reservation.base()
    }

    fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    fn max_len(&self) -> u64 {
        match self.placement.medium {
            Medium::DevDax => self.placement.total_bytes.min(self.reservation.len()),
            _ => self.reservation.len(),
        }
    }

    fn grow(&self, len: u64) -> Result<(), ImageError> {
        self.check_writable()?;
        check_len(&self.placement, len)?;
        self.resize_to(len)
    }

    fn sync(&self, site: &'static str) -> Result<(), ImageError> {
        self.sync_with(site, || {
            // SAFETY: the range is mapped; syncing changes no byte.
            unsafe { msync(self.base().cast(), self.len() as usize, MsyncFlags::SYNC) }?;
            self.file.sync_all()
        })
    }

    fn sync_start(&self, site: &'static str, len: u64) -> Result<(), ImageError> {
        let len = len.min(self.len()) as usize;
        // SAFETY: as above. The kernel syncs the file over this range alone.
        self.sync_with(site, || Ok(unsafe { msync(self.base().cast(), len, MsyncFlags::SYNC) }?))
    }
}

impl MappedFile {
    fn sync_with(&self, site: &'static str, sync: impl FnOnce() -> io::Result<()>) -> Result<(), ImageError> {
        match self.placement.medium {
            // Nothing to wait for: memory has no backing store, and a device is durable by flush and fence.
            Medium::Tmpfs | Medium::Hugetlbfs | Medium::DevDax => return Ok(()),
            Medium::Disk | Medium::FsDax => self.check_writable()?,
        }
        if self.sync_failed.load(Ordering::Acquire) {
            let earlier = io::Error::other(format!(
                "an earlier sync failed, so what is on the disk is unknown ({site}); rebuild the image from the log \
                 directory, or restore a backup"
            ));
            return Err(ImageError::io(&self.path, "sync it")(earlier));
        }
        sync().map_err(|error| {
            self.sync_failed.store(true, Ordering::Release);
            ImageError::io(&self.path, "sync it")(error)
        })
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        let temporary = self.temporary.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = temporary.take()
            && self.file.is_in_its_process()
        {
            let _ = std::fs::remove_file(name);
        }
    }
}

/// Opens the file, and for writing locks it. Another file may take the name in between: then it tries again.
fn open_file(path: &Path, access: Access) -> Result<LockableFile, ImageError> {
    for _ in 0..100 {
        let file = OpenOptions::new()
            .read(true)
            .write(access == Access::ReadWrite)
            .open(path)
            .map(LockableFile::new)
            .map_err(ImageError::io(path, "open it"))?;
        if access == Access::ReadOnly {
            return Ok(file);
        }
        if !file.try_lock_exclusive().map_err(ImageError::io(path, "lock it"))? {
            return Err(held(path, &file));
        }
        if creation::is_at(&file, path) {
            return Ok(file);
        }
    }
    Err(ImageError::Held { path: path.to_path_buf(), holder: "processes that keep replacing it".to_owned() })
}

/// A carelessly copied file has holes, and storing into a hole on a full disk raises a signal. Fills them.
fn fill_holes(file: &File, path: &Path, len: u64, placement: &mut Placement) -> Result<(), ImageError> {
    let allocated = |file: &File| file.metadata().map(|metadata| metadata.blocks().saturating_mul(512));
    let looked = |result: io::Result<u64>| result.map_err(ImageError::io(path, "ask for its space"));
    let missing = len.saturating_sub(looked(allocated(file))?);
    if missing == 0 {
        return Ok(());
    }
    let space = placement.space_now();
    space::check(placement, len - missing, len, space)?;
    space::take(file, 0, len, true)
        .map_err(|error| space::explain(error, path, placement, missing, space))?;
    if looked(allocated(file))? < len {
        placement.warnings.push(
            "the file takes less space than its length and the file system would not reserve the rest: a full disk \
             may end the process; keep free space"
                .to_owned(),
        );
    }
    Ok(())
}

/// Whether the file system maps this file straight to persistent memory and keeps its metadata in step.
fn maps_synchronously(file: &File) -> bool {
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    let len = limits::page_size() as usize;
    let flags = MapFlags::SHARED_VALIDATE | MapFlags::SYNC;
    // SAFETY: a new mapping at an address of the kernel's choice, never touched and unmapped at once.
    unsafe {
        let probe = mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags, file, 0);
        probe.is_ok_and(|address| munmap(address, len).is_ok())
    }
}

/// When a file was made. The node of a device is made anew at every start of the machine.
fn time_of_birth(metadata: &Metadata) -> u64 {
    let since_1970 = metadata.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    let nanoseconds = since_1970.filter(|_| metadata.is_file()).map(|since| since.as_nanos());
    nanoseconds.and_then(|nanoseconds| u64::try_from(nanoseconds).ok()).unwrap_or(0)
}

/// Checks that a length can be had on this medium.
fn check_len(placement: &Placement, len: u64) -> Result<(), ImageError> {
    let unit = match placement.medium {
        Medium::Hugetlbfs | Medium::DevDax => placement.page_size,
        Medium::Disk | Medium::Tmpfs | Medium::FsDax => 1,
    };
    if len == 0 || !len.is_multiple_of(unit) {
        return Err(ImageError::Invalid(format!(
            "an image on {} cannot be {len} bytes long; take a multiple of {}",
            placement.file_system,
            Bytes(unit)
        )));
    }
    if placement.medium == Medium::DevDax && len > placement.total_bytes {
        return Err(ImageError::OutOfSpace {
            wanted: len,
            why: format!(
                "the device {} has {}; ask for less, or use a larger one",
                placement.path.display(),
                Bytes(placement.total_bytes)
            ),
        });
    }
    Ok(())
}

fn too_long(len: u64) -> ImageError {
    ImageError::Invalid(format!("no image can be {len} bytes long; ask for less"))
}

fn no_write_back() -> ImageError {
    ImageError::Invalid(
        "this processor has no instruction that writes cache lines back to persistent memory; put the image on \
         tmpfs or a disk"
            .to_owned(),
    )
}
