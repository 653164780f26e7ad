//! The files under the log: a small trait, so that tests can record them, tear them and fail them.
//!
//! Every file of a log lies in one flat directory. Each call that makes something durable names its *site*, a
//! fixed word for the place in the code it is called from: the mutation gate drops the sites one by one and
//! expects the crash explorer to notice.

use std::io;

/// A directory of files.
pub trait Disk: Send + Sync + 'static {
    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Creates a file; [`io::ErrorKind::AlreadyExists`] if there is one of that name.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Gives a file another name, replacing atomically what had that name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// The names of all files, in no particular order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// How many bytes more there is room for, if that is known.
    fn free_bytes(&self) -> Option<u64> {
        None
    }
    /// Makes creations, renames and removals durable.
    fn sync_dir(&self, site: &'static str) -> io::Result<()>;
}

/// An open file. Offsets are explicit and calls from many threads are fine.
#[allow(clippy::len_without_is_empty)] // no caller needs it, and every implementation would have to provide it
pub trait DiskFile: Send + Sync {
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Reads as many bytes as there are, up to the buffer's length.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all the bytes.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Reserves space up to `len` and extends the file to it, so that writing there cannot run out of disk.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// `fdatasync`: the bytes, and the length where it is needed to read them, are durable afterwards.
    fn sync(&self, site: &'static str) -> io::Result<()>;
}
