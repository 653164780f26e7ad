//! The directory and its files, with typed errors, and the poison that a failed sync leaves behind.

use std::io;
use std::sync::{Arc, OnceLock};

use crate::disk::{Disk, DiskFile};
use crate::error::LogError;
use crate::reserve::Reserve;

/// Whether an irreversible failure happened. Set once, read often.
#[derive(Clone, Default)]
pub(crate) struct Poison(Arc<OnceLock<Arc<LogError>>>);

impl Poison {
    /// Stores the first failure, and returns the error that every later caller gets.
    pub(crate) fn set(&self, error: LogError) -> LogError {
        let first = match error {
            LogError::Poisoned { first } => first,
            error => Arc::new(error),
        };
        LogError::Poisoned { first: Arc::clone(self.0.get_or_init(|| first)) }
    }

    pub(crate) fn check(&self) -> Result<(), LogError> {
        match self.0.get() {
            None => Ok(()),
            Some(first) => Err(LogError::Poisoned { first: Arc::clone(first) }),
        }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.get().is_some()
    }
}

/// The log directory.
#[derive(Clone)]
pub(crate) struct Directory {
    disk: Arc<dyn Disk>,
    poison: Poison,
    reserve: Arc<Reserve>,
}

impl Directory {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Directory {
        Directory { disk, poison: Poison::default(), reserve: Arc::default() }
    }

    pub(crate) fn poison(&self) -> &Poison {
        &self.poison
    }

    pub(crate) fn reserve(&self) -> &Reserve {
        &self.reserve
    }

    pub(crate) fn free_bytes(&self) -> Option<u64> {
        self.disk.free_bytes()
    }

    /// Refuses a file that certainly does not fit, without trying: an attempt would use up all free space, and
    /// time.
    pub(crate) fn check_room(&self, name: &str, bytes: u64) -> Result<(), LogError> {
        match self.free_bytes() {
            Some(free) if free < bytes => {
                let what = format!("{bytes} bytes are wanted, {free} are free");
                let source = io::Error::new(io::ErrorKind::StorageFull, what);
                Err(LogError::io("reserve space for", name, source))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn list(&self) -> Result<Vec<String>, LogError> {
        self.disk.list().map_err(|e| LogError::io("list", "the log directory", e))
    }

    pub(crate) fn open(&self, name: &str) -> Result<File, LogError> {
        self.disk.open(name).map(|file| File::new(name, file)).map_err(|e| LogError::io("open", name, e))
    }

    /// Like [`Directory::open`], with `None` for a file that is not there.
    pub(crate) fn open_if_there(&self, name: &str) -> Result<Option<File>, LogError> {
        match self.disk.open(name) {
            Ok(file) => Ok(Some(File::new(name, file))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(LogError::io("open", name, e)),
        }
    }

    pub(crate) fn create(&self, name: &str) -> Result<File, LogError> {
        self.disk.create(name).map(|file| File::new(name, file)).map_err(|e| LogError::io("create", name, e))
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), LogError> {
        self.disk.rename(from, to).map_err(|e| LogError::io("rename to", to, e))
    }

    /// Removes a file, or finds it removed.
    pub(crate) fn remove(&self, name: &str) -> Result<(), LogError> {
        match self.disk.remove(name) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(LogError::io("remove", name, e)),
            _ => Ok(()),
        }
    }

    /// Removes a file that does no harm if it stays: the next opening tries again.
    pub(crate) fn discard(&self, name: &str) {
        let _ = self.disk.remove(name);
    }

    /// A failure here poisons: the system reports it once, to whichever caller comes first, so a later sync that
    /// succeeds proves nothing.
    pub(crate) fn sync(&self, site: &'static str) -> Result<(), LogError> {
        self.disk.sync_dir(site).map_err(|e| self.poison.set(LogError::io("sync", "the log directory", e)))
    }
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory").finish_non_exhaustive()
    }
}

/// An open file that knows its name.
pub(crate) struct File {
    name: String,
    inner: Box<dyn DiskFile>,
}

impl File {
    fn new(name: &str, inner: Box<dyn DiskFile>) -> File {
        File { name: name.to_owned(), inner }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn len(&self) -> Result<u64, LogError> {
        self.inner.len().map_err(|e| LogError::io("measure", &self.name, e))
    }

    /// Fills as much of `buffer` as the file has.
    pub(crate) fn read(&self, buffer: &mut [u8], offset: u64) -> Result<usize, LogError> {
        let mut done = 0;
        while done < buffer.len() {
            match self.inner.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(LogError::io("read", &self.name, e)),
            }
        }
        Ok(done)
    }

    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> Result<(), LogError> {
        self.inner.write_at(bytes, offset).map_err(|e| LogError::io("write", &self.name, e))
    }

    pub(crate) fn allocate(&self, len: u64) -> Result<(), LogError> {
        self.inner.allocate(len).map_err(|e| LogError::io("reserve space for", &self.name, e))
    }

    pub(crate) fn sync(&self, site: &'static str) -> Result<(), LogError> {
        self.inner.sync(site).map_err(|e| LogError::io("sync", &self.name, e))
    }
}
