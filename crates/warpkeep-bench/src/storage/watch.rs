//! A disk that counts the log's calls.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use warpkeep_log::{Disk, DiskFile, OsDisk, site};

/// The counts.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    frames: AtomicU64,
    frame_bytes: AtomicU64,
    checkpoint_read: Mutex<Option<Instant>>,
}

impl Watch {
    /// Frames made durable, and bytes written for them. Zeros written ahead are no frame's bytes.
    pub(crate) fn frames(&self) -> (u64, u64) {
        (self.frames.load(Ordering::Relaxed), self.frame_bytes.load(Ordering::Relaxed))
    }

    /// When a checkpoint was last read from.
    pub(crate) fn checkpoint_read(&self) -> Option<Instant> {
        *self.checkpoint_read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A directory under watch.
pub(crate) struct WatchedDisk {
    inner: OsDisk,
    watch: Arc<Watch>,
}

impl WatchedDisk {
    pub(crate) fn new(inner: OsDisk, watch: &Arc<Watch>) -> WatchedDisk {
        WatchedDisk { inner, watch: Arc::clone(watch) }
    }

    fn wrap(&self, name: &str, inner: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        let is_checkpoint = name.starts_with("ckpt-");
        Box::new(WatchedFile { inner, watch: Arc::clone(&self.watch), is_checkpoint })
    }
}

impl Disk for WatchedDisk {
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.wrap(name, self.inner.open(name)?))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.wrap(name, self.inner.create(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn sync_dir(&self, site: &'static str) -> io::Result<()> {
        self.inner.sync_dir(site)
    }
}

struct WatchedFile {
    inner: Box<dyn DiskFile>,
    watch: Arc<Watch>,
    is_checkpoint: bool,
}

impl DiskFile for WatchedFile {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.inner.read_at(buffer, offset);
        if self.is_checkpoint {
            let mut last = self.watch.checkpoint_read.lock().unwrap_or_else(PoisonError::into_inner);
            *last = Some(Instant::now());
        }
        read
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        // Frames begin with this word: see docs/format.md, section 3.2.
        if bytes.starts_with(b"WKFR") {
            self.watch.frame_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        self.inner.write_at(bytes, offset)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.inner.allocate(len)
    }

    fn sync(&self, site: &'static str) -> io::Result<()> {
        if site == site::FRAME {
            self.watch.frames.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.sync(site)
    }
}
