//! One writer at a time.
//!
//! A writer holds an exclusive `flock` on the image file for as long as it has it open; the kernel releases it when
//! the process ends, however it ends. Opening read-only takes no lock: inspecting an image in use must stay
//! possible, and such a reader may see it change.

use std::fs::{File, TryLockError};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::ImageError;

/// How often the list of locks is read before the holder counts as unknown.
const READINGS: usize = 20;

/// An open file whose lock, if it has one, is released with it.
///
/// Closing the file is not enough: a process that is being started at that moment also has the file open, until it
/// runs its own program, and would keep the lock that long. And a copy of this process made by `fork` must not
/// release the lock when it cleans up.
#[derive(Debug)]
pub(crate) struct LockableFile {
    file: File,
    owner: u32,
}

impl LockableFile {
    pub(crate) fn new(file: File) -> Self {
        Self { file, owner: std::process::id() }
    }

    /// Takes the writer's lock; `false` if another opener has it.
    pub(crate) fn try_lock_exclusive(&self) -> io::Result<bool> {
        match self.file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Takes a lock that keeps writers away; `false` if one is there.
    pub(crate) fn try_lock_shared(&self) -> io::Result<bool> {
        match self.file.try_lock_shared() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The process that opened it.
    pub(crate) fn owner(&self) -> u32 {
        self.owner
    }

    /// Whether this is the process that opened it, and not a copy made by `fork`.
    pub(crate) fn is_in_its_process(&self) -> bool {
        self.owner == std::process::id()
    }
}

impl Deref for LockableFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for LockableFile {
    fn drop(&mut self) {
        if self.is_in_its_process() {
            let _ = self.file.unlock();
        }
    }
}

/// The error for a locked file, with its holder if the system reports it.
pub(crate) fn held(path: &Path, file: &File) -> ImageError {
    let holder = match holder_of(file) {
        Some(pid) if pid == std::process::id() => "this very process".to_owned(),
        Some(pid) => match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
            Ok(name) => format!("process {pid} ({})", name.trim_end()),
            Err(_) => format!("process {pid}"),
        },
        None => "another process".to_owned(),
    };
    ImageError::Held { path: path.to_path_buf(), holder }
}

/// The process that holds the writer's lock on `file`, if the system reports it. It does not for a process in
/// another container, nor on file systems whose files have two device numbers.
fn holder_of(file: &File) -> Option<u32> {
    let metadata = file.metadata().ok()?;
    let (device, inode) = (metadata.dev(), metadata.ino());
    let wanted = format!("{:02x}:{:02x}:{inode}", libc::major(device), libc::minor(device));
    // The system delivers the list in pieces: a lock released between two of them, by any process, makes the next
    // piece skip one.
    (0..READINGS).find_map(|_| holder_in(&std::fs::read_to_string("/proc/locks").ok()?, &wanted))
}

/// Finds the writer of `file` (major:minor:inode) in the text of `/proc/locks`.
fn holder_in(locks: &str, file: &str) -> Option<u32> {
    // 3: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF; a waiter has `->` before FLOCK and so does not match.
    locks.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (kind, mode) = (fields.next()?, fields.nth(1)?);
        let pid: i64 = fields.next()?.parse().ok()?;
        let held = kind == "FLOCK" && mode == "WRITE" && fields.next()? == file;
        if held { u32::try_from(pid).ok().filter(|&pid| pid > 0) } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::{LockableFile, holder_in};
    use std::fs::File;

    const LOCKS: &str = "\
1: POSIX  ADVISORY  WRITE 7 fe:00:42 0 EOF
2: FLOCK  ADVISORY  READ  8 fe:00:42 0 EOF
3: FLOCK  ADVISORY  WRITE 9 fe:00:43 0 EOF
3: -> FLOCK  ADVISORY  WRITE 11 fe:00:44 0 EOF
4: FLOCK  ADVISORY  WRITE 10 fe:00:42 0 EOF
5: FLOCK  ADVISORY  WRITE -1 fe:00:45 0 EOF
";

    #[test]
    fn the_lock_ends_with_the_file_also_when_another_process_has_a_copy() {
        let path = tempfile::NamedTempFile::new().expect("a file").into_temp_path();
        let open = || LockableFile::new(File::open(&path).expect("a file"));
        let first = open();
        assert!(first.try_lock_exclusive().expect("an answer"));
        let copy = first.try_clone().expect("a copy, as a started process has it");
        let second = open();
        assert!(!second.try_lock_exclusive().expect("an answer"));
        drop(first);
        assert!(second.try_lock_exclusive().expect("an answer"));
        drop(copy);
        assert!(!open().try_lock_exclusive().expect("an answer"), "a late copy takes nothing with it");

        // As the copy of a process made by `fork` would behave.
        let elsewhere = LockableFile { file: second.try_clone().expect("a copy"), owner: 0 };
        drop(elsewhere);
        assert!(!open().try_lock_exclusive().expect("an answer"));
    }

    #[test]
    fn finds_the_writer_and_nobody_else() {
        assert_eq!(holder_in(LOCKS, "fe:00:42"), Some(10));
        assert_eq!(holder_in(LOCKS, "fe:00:43"), Some(9));
        assert_eq!(holder_in(LOCKS, "fe:00:44"), None, "a waiter is no holder");
        assert_eq!(holder_in(LOCKS, "fe:00:45"), None, "a holder in another container has no number here");
        assert_eq!(holder_in("garbage\n\n1:", "fe:00:42"), None);
    }
}
