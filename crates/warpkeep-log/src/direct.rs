//! Large writes that go past the system's cache.
//!
//! The log is not read back, so its pages in the page cache are of no use; and getting fresh page-cache memory can
//! be slower than the disk, especially on a virtual machine. A record of hundreds of megabytes would wait for
//! pages. So such a record is written from a few reused buffers, each filled and written by its own thread: while
//! one is filled the others are being written. As after any other write, only the following sync makes the bytes
//! durable.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::layout::PAGE;

/// Bytes of a buffer, and of one write.
const PIECE: usize = 4 << 20;
/// Buffers, and threads that fill and write them.
const WRITERS: usize = 3;
/// Writes of fewer bytes are not worth starting threads for.
const WORTH: usize = 2 * PIECE;

/// Memory for pieces, kept from write to write.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    fn take(&self) -> Vec<u8> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        // More than a piece, so that one that begins with a page fits wherever it lies.
        kept.unwrap_or_else(|| vec![0; PIECE + PAGE as usize])
    }

    fn keep(&self, buffer: Vec<u8>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < WRITERS {
            kept.push(buffer);
        }
    }
}

/// A second way to a file.
#[derive(Debug)]
pub(crate) struct Direct {
    path: PathBuf,
    /// Opened by the first large write; `None` if it cannot be opened.
    file: OnceLock<Option<File>>,
    /// The file system accepted the open but refuses the writes.
    refused: AtomicBool,
    buffers: Arc<Buffers>,
}

impl Direct {
    /// To the file that was opened by this path.
    pub(crate) fn new(path: PathBuf, buffers: &Arc<Buffers>) -> Direct {
        Direct { path, file: OnceLock::new(), refused: AtomicBool::new(false), buffers: Arc::clone(buffers) }
    }

    /// Writes bytes to `file` if they are many and cover whole pages. Returns `false` if the caller must write them
    /// the usual way; some of them may have been written by then.
    pub(crate) fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<bool> {
        let suits =
            bytes.len() >= WORTH && offset.is_multiple_of(PAGE) && bytes.len().is_multiple_of(PAGE as usize);
        if !suits || self.refused.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let Some(direct) = self.file.get_or_init(|| open(&self.path, file)) else { return Ok(false) };
        let (next, failure) = (AtomicUsize::new(0), Mutex::new(None));
        let work = || {
            let mut buffer = self.buffers.take();
            while let Some(piece) =
                bytes.get(next.fetch_add(PIECE, Ordering::Relaxed)..).filter(|rest| !rest.is_empty())
            {
                let at = offset + (bytes.len() - piece.len()) as u64;
                if let Err(error) = write_piece(direct, &mut buffer, &piece[..PIECE.min(piece.len())], at) {
                    failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    // Stop the other threads.
                    next.fetch_max(bytes.len(), Ordering::Relaxed);
                }
            }
            self.buffers.keep(buffer);
        };
        std::thread::scope(|scope| {
            for _ in 1..WRITERS {
                // If no thread can be started, this one writes everything.
                let _ = std::thread::Builder::new().name("warpkeep-write".into()).spawn_scoped(scope, work);
            }
            work();
        });
        match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(true),
            Some(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => {
                self.refused.store(true, Ordering::Relaxed);
                Ok(false)
            }
            Some(error) => Err(error),
        }
    }
}

/// Writes a piece from a buffer that has room for it, from the first page that begins in it.
fn write_piece(direct: &File, buffer: &mut [u8], piece: &[u8], at: u64) -> io::Result<()> {
    let begin = buffer.as_ptr().addr().next_multiple_of(PAGE as usize) - buffer.as_ptr().addr();
    let aligned = &mut buffer[begin..begin + piece.len()];
    aligned.copy_from_slice(piece);
    direct.write_all_at(aligned, at)
}

/// Opens a file a second time, with the page cache bypassed. `None` if the system does not support that, or if
/// another file has the path by now.
#[cfg(target_os = "linux")]
fn open(path: &std::path::Path, file: &File) -> Option<File> {
    let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
    let direct = File::options().write(true).custom_flags(flags).open(path).ok()?;
    let (one, other) = (file.metadata().ok()?, direct.metadata().ok()?);
    ((one.dev(), one.ino()) == (other.dev(), other.ino())).then_some(direct)
}

#[cfg(not(target_os = "linux"))]
fn open(_path: &std::path::Path, _file: &File) -> Option<File> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(len: usize) -> Vec<u8> {
        (0..len as u64).map(|number| ((number * number) >> 9) as u8).collect()
    }

    fn create(path: &std::path::Path, buffers: &Arc<Buffers>) -> (File, Direct) {
        let file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
        file.set_len(32 << 20).unwrap();
        (file, Direct::new(path.to_owned(), buffers))
    }

    fn read(file: &File, len: usize, offset: u64) -> Vec<u8> {
        let mut read = vec![0; len];
        file.read_exact_at(&mut read, offset).unwrap();
        read
    }

    /// Pieces that fill a buffer and one that does not, written over cached bytes and read back through the cache.
    #[test]
    fn what_is_written_is_read() {
        let (directory, buffers) = (tempfile::tempdir().unwrap(), Arc::default());
        let (file, direct) = create(&directory.path().join("file"), &buffers);
        for (round, len) in [WORTH, 3 * PIECE + PAGE as usize, WORTH + PIECE].into_iter().enumerate() {
            let (written, offset) = (bytes(len + round), (1 + round as u64) * PAGE);
            file.write_all_at(&[0xaa; 8192], offset).unwrap();
            if direct.write(&file, &written[round..], offset).unwrap() {
                assert!(read(&file, len, offset) == written[round..], "{len}");
                assert_eq!(buffers.0.lock().unwrap().len(), WRITERS);
            }
        }
    }

    #[test]
    fn what_does_not_suit_is_left_to_others() {
        let (directory, buffers) = (tempfile::tempdir().unwrap(), Arc::default());
        let (file, direct) = create(&directory.path().join("file"), &buffers);
        let many = bytes(WORTH + 1);
        for (bytes, offset) in [(&many[..WORTH - 4096], 0), (&many[..], 0), (&many[..WORTH], 512)] {
            assert!(!direct.write(&file, bytes, offset).unwrap());
        }
        assert!(read(&file, WORTH, 0).iter().all(|&byte| byte == 0));
    }

    #[test]
    fn another_file_of_the_same_name_is_not_written() {
        let (directory, buffers) = (tempfile::tempdir().unwrap(), Arc::default());
        let path = directory.path().join("file");
        let (file, direct) = create(&path, &buffers);
        std::fs::remove_file(&path).unwrap();
        let (other, _) = create(&path, &buffers);
        assert!(!direct.write(&file, &bytes(WORTH), 0).unwrap());
        assert!(read(&other, WORTH, 0).iter().all(|&byte| byte == 0));
        // Nor is there one when the name is gone.
        std::fs::remove_file(&path).unwrap();
        let direct = Direct::new(path, &buffers);
        assert!(!direct.write(&file, &bytes(WORTH), 0).unwrap());
    }
}
