//! A directory of the operating system.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, FlockOperation};

use crate::direct::{Buffers, Direct};
use crate::disk::{Disk, DiskFile};
use crate::error::LogError;
use crate::layout::{LOCK, MANIFEST};
use crate::options::LogOptions;
use crate::writeback;

/// Longer writes are split into pieces of this size, so that the disk works while the rest is copied to the page
/// cache.
const PIECE: usize = 4 << 20;

/// A directory of the operating system, held by one opener at a time.
///
/// ```
/// use warpkeep_log::{LogError, OsDisk};
/// # let scratch = tempfile::tempdir().unwrap();
/// # let path = scratch.path().join("log");
/// let disk = OsDisk::open(&path)?;
/// assert!(matches!(OsDisk::open(&path), Err(LogError::Held { .. })));
/// drop(disk);
/// OsDisk::open(&path)?;
/// # Ok::<(), LogError>(())
/// ```
#[derive(Debug)]
pub struct OsDisk {
    path: PathBuf,
    directory: fs::File,
    lock: fs::File,
    /// The permissions of new files.
    file_mode: u32,
    /// The process that has the lock.
    owner: u32,
    /// Buffers for writes that bypass the page cache.
    buffers: Arc<Buffers>,
}

impl OsDisk {
    /// Opens a directory, creating it if it is missing, and takes its lock. The lock is released when the value is dropped or
    /// the process ends.
    pub fn open(path: impl AsRef<Path>) -> Result<OsDisk, LogError> {
        OsDisk::open_with(path, &LogOptions::default())
    }

    /// The same, with the [permissions](LogOptions::file_mode) from the options for new files.
    pub fn open_with(path: impl AsRef<Path>, options: &LogOptions) -> Result<OsDisk, LogError> {
        options.check()?;
        let file_mode = options.file_mode;
        let path = path.as_ref().to_owned();
        let shown = path.display().to_string();
        create_for_log(&path, options.directory_mode(), &mut |parent| fs::File::open(parent)?.sync_all())
            .map_err(|e| LogError::io("create the log directory", &shown, e))?;
        let directory =
            fs::File::open(&path).map_err(|e| LogError::io("open the log directory", &shown, e))?;
        let lock_path = path.join(LOCK);
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(file_mode)
            .open(&lock_path)
            .map_err(|e| LogError::io("open", &lock_path.display().to_string(), e))?;
        if let Err(error) = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            if error == rustix::io::Errno::WOULDBLOCK {
                let mut text = String::new();
                let _ = lock.read_to_string(&mut text);
                return Err(LogError::Held { directory: shown, pid: text.trim().parse().ok() });
            }
            return Err(LogError::io("lock", &lock_path.display().to_string(), error.into()));
        }
        // Only a hint for the message above, so a full disk is not an error here.
        let _ = lock.set_len(0).and_then(|()| lock.write_all(format!("{}\n", std::process::id()).as_bytes()));
        Ok(OsDisk { path, directory, lock, file_mode, owner: std::process::id(), buffers: Arc::default() })
    }

    /// Renames the directory, which keeps its lock. No file of it may be open.
    pub fn rename_directory(&mut self, to: &Path) -> io::Result<()> {
        fs::rename(&self.path, to)?;
        to.clone_into(&mut self.path);
        Ok(())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OsDisk {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that is being started at this moment also has it open, until it
        // runs its own program. And a copy of this process made by `fork` must not release the lock.
        if self.owner == std::process::id() {
            let _ = rustix::fs::flock(&self.lock, FlockOperation::Unlock);
        }
    }
}

/// Creates a directory and its missing parents so that they survive the machine: each new entry is synced.
pub fn create_durably(path: &Path, mode: u32) -> io::Result<()> {
    create_with(path, mode, &mut |parent| fs::File::open(parent)?.sync_all())
}

fn create_with(path: &Path, mode: u32, sync: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    create_with(parent, mode, sync)?;
    match fs::DirBuilder::new().mode(mode).create(path) {
        // Made by another process, which may not have synced it yet.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => sync(parent),
        Err(e) => Err(e),
        Ok(()) => sync(parent),
    }
}

/// The directory of a new log, whose entry, and that of the directory around it, must survive the machine: also if both
/// exist, because what made them may have been killed before it synced them.
fn create_for_log(path: &Path, mode: u32, sync: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    create_with(path, mode, sync)?;
    if path.join(MANIFEST).exists() {
        return Ok(());
    }
    let path = path.canonicalize()?;
    for directory in path.ancestors().skip(1).take(2) {
        match sync(directory) {
            // It was there before, and a store below it must not fail because this user cannot sync it.
            Err(e) if is_unsyncable(&e) => {}
            synced => synced?,
        }
    }
    Ok(())
}

fn is_unsyncable(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    matches!(error.kind(), InvalidInput | PermissionDenied | ReadOnlyFilesystem | Unsupported)
}

impl Disk for OsDisk {
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let path = self.path.join(name);
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        Ok(Box::new(OsFile { file, direct: Direct::new(path, &self.buffers) }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let path = self.path.join(name);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(self.file_mode).open(&path)?;
        if self.file_mode != 0o600 {
            // The umask may remove permissions; these were requested explicitly.
            file.set_permissions(fs::Permissions::from_mode(self.file_mode))?;
        }
        Ok(Box::new(OsFile { file, direct: Direct::new(path, &self.buffers) }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        list_files(&self.path)
    }

    fn free_bytes(&self) -> Option<u64> {
        let space = rustix::fs::fstatvfs(&self.directory).ok()?;
        // The blocks that a file system reserves are reserved for this user.
        let all = rustix::process::geteuid().is_root();
        let blocks = if all { space.f_bfree } else { space.f_bavail };
        Some(blocks.saturating_mul(space.f_frsize))
    }

    fn sync_dir(&self, _site: &'static str) -> io::Result<()> {
        self.directory.sync_all()
    }
}

/// The names of the files in a directory.
pub(crate) fn list_files(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

struct OsFile {
    file: fs::File,
    direct: Direct,
}

impl DiskFile for OsFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(&self.file, buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.direct.write(&self.file, bytes, offset)? {
            return Ok(());
        }
        let mut at = offset;
        for piece in bytes.chunks(PIECE) {
            self.file.write_all_at(piece, at)?;
            if bytes.len() > PIECE {
                writeback::begin(&self.file, at, piece.len());
            }
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let old = self.file.metadata()?.len();
        if old >= len {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), old, len - old) {
            Ok(()) => Ok(()),
            // The file system cannot reserve: write zeros instead.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => write_zeros(&self.file, old, len),
            Err(error) => Err(error.into()),
        }
    }

    fn sync(&self, _site: &'static str) -> io::Result<()> {
        self.file.sync_data()
    }
}

fn write_zeros(file: &fs::File, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    let mut at = from;
    while at < to {
        let len = zeros.len().min(usize::try_from(to - at).unwrap_or(zeros.len()));
        file.write_all_at(&zeros[..len], at)?;
        at += len as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The directories that are synced while `path` is made.
    fn synced(
        path: &Path,
        make: impl Fn(&Path, u32, &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()>,
    ) -> Vec<PathBuf> {
        let mut synced = Vec::new();
        let mut sync = |directory: &Path| {
            synced.push(directory.to_path_buf());
            fs::File::open(directory)?.sync_all()
        };
        make(path, 0o700, &mut sync).expect("made");
        assert!(path.is_dir());
        synced
    }

    #[test]
    fn each_new_entry_is_synced() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path().canonicalize().expect("a path");
        let [a, b, c] = ["a", "a/b", "a/b/c"].map(|name| root.join(name));
        assert_eq!(synced(&c, create_with), [root, a, b]);
        assert!(synced(&c, create_with).is_empty(), "all of it is there");
    }

    #[test]
    fn the_entries_above_a_new_log_are_synced_although_they_are_there() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path().canonicalize().expect("a path");
        let (store, log) = (root.join("store"), root.join("store/log"));
        fs::create_dir_all(&log).expect("made by a process that was killed");
        assert_eq!(synced(&log, create_for_log), [store, root]);
        fs::write(log.join(MANIFEST), b"").expect("written");
        assert!(synced(&log, create_for_log).is_empty(), "an opening does not need it");
    }

    #[test]
    fn a_sync_that_fails_is_an_error() {
        let scratch = tempfile::tempdir().expect("a directory");
        let mut failing = |_: &Path| Err(io::Error::other("the disk"));
        create_for_log(scratch.path(), 0o700, &mut failing).expect_err("it may be gone after a power cut");
        let mut denied = |_: &Path| Err(io::ErrorKind::PermissionDenied.into());
        create_for_log(scratch.path(), 0o700, &mut denied)
            .expect("another user's directories were not made here");
    }

    #[test]
    fn a_directory_keeps_its_lock_under_another_name() {
        let scratch = tempfile::tempdir().expect("a directory");
        let (old, new) = (scratch.path().join("old"), scratch.path().join("new"));
        let mut disk = OsDisk::open(&old).expect("made");
        disk.rename_directory(&new).expect("renamed");
        assert_eq!(disk.path(), new);
        assert!(matches!(OsDisk::open(&new), Err(LogError::Held { .. })));
        disk.create("file").expect("a file");
        assert!(new.join("file").is_file() && !old.exists());
    }
}
