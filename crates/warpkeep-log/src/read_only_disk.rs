//! A log directory opened for reading only. It takes a shared lock, which keeps writers out, and writes nothing, so
//! it works on a read-only file system.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::layout::LOCK;
use crate::os_disk::list_files;
use crate::{Disk, DiskFile, LogError};

/// A log directory for readers.
#[derive(Debug)]
pub struct ReadOnlyDisk {
    path: PathBuf,
    /// Holds the shared lock as long as it is open. A directory that never held a log has no lock file.
    _lock: Option<File>,
}

impl ReadOnlyDisk {
    /// Opens an existing directory; [`LogError::Held`] if a writer has it.
    pub fn open(path: &Path) -> Result<ReadOnlyDisk, LogError> {
        let shown = path.display().to_string();
        let failed = |action, source| LogError::Io { action, file: shown.clone(), source };
        fs::read_dir(path).map_err(|error| failed("open the log directory", error))?;
        let lock = match File::open(path.join(LOCK)) {
            Ok(lock) => Some(lock),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed("open the lock of", error)),
        };
        if let Some(lock) = &lock {
            match lock.try_lock_shared() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let pid = fs::read_to_string(path.join(LOCK)).ok();
                    let pid = pid.and_then(|text| text.trim().parse().ok());
                    return Err(LogError::Held { directory: shown, pid });
                }
                Err(TryLockError::Error(error)) => return Err(failed("lock", error)),
            }
        }
        Ok(ReadOnlyDisk { path: path.to_path_buf(), _lock: lock })
    }
}

fn refuse<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "the log directory was opened to be read only"))
}

impl Disk for ReadOnlyDisk {
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(ReadOnlyFile(File::open(self.path.join(name))?)))
    }

    fn create(&self, _name: &str) -> io::Result<Box<dyn DiskFile>> {
        refuse()
    }

    fn rename(&self, _from: &str, _to: &str) -> io::Result<()> {
        refuse()
    }

    fn remove(&self, _name: &str) -> io::Result<()> {
        refuse()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        list_files(&self.path)
    }

    fn sync_dir(&self, _site: &'static str) -> io::Result<()> {
        refuse()
    }
}

struct ReadOnlyFile(File);

impl DiskFile for ReadOnlyFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(&self.0, buffer, offset)
    }

    fn write_at(&self, _bytes: &[u8], _offset: u64) -> io::Result<()> {
        refuse()
    }

    fn allocate(&self, _len: u64) -> io::Result<()> {
        refuse()
    }

    fn sync(&self, _site: &'static str) -> io::Result<()> {
        refuse()
    }
}
