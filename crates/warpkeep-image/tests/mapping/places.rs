//! Where the tests run, and how they touch bytes.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tempfile::TempDir;
use warpkeep_image::{Backing, ImageError, MappedFile, Placement};

/// Runs a test in a new directory on the disk and in one on tmpfs.
pub(crate) fn each_place(test: impl Fn(&Path)) {
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    test(disk.path());
    if let Some(memory) = shm() {
        test(memory.path());
    }
}

/// A directory on tmpfs; reports if there is none.
pub(crate) fn shm() -> Option<TempDir> {
    let directory = tempfile::tempdir_in("/dev/shm");
    directory.inspect_err(|error| eprintln!("SKIPPED: no directory in /dev/shm: {error}")).ok()
}

/// A file system mounted for one test, if that is allowed.
pub(crate) struct Mounted {
    pub(crate) directory: TempDir,
}

impl Mounted {
    pub(crate) fn new(kind: &str, options: &str) -> Option<Self> {
        let directory = tempfile::tempdir().expect("a directory");
        let text = |text: &str| CString::new(text).expect("no zero byte");
        let point = CString::new(directory.path().as_os_str().as_bytes()).expect("no zero byte");
        let (kind, options) = (text(kind), text(options));
        // SAFETY: all strings live during the call.
        let failed = unsafe {
            libc::mount(kind.as_ptr(), point.as_ptr(), kind.as_ptr(), 0, options.as_ptr().cast()) != 0
        };
        if failed {
            let error = std::io::Error::last_os_error();
            eprintln!("SKIPPED: cannot mount {}: {error}", kind.to_string_lossy());
            return None;
        }
        Some(Self { directory })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let point = CString::new(self.path().as_os_str().as_bytes()).expect("no zero byte");
        // SAFETY: the string lives during the call.
        unsafe { libc::umount2(point.as_ptr(), libc::MNT_DETACH) };
    }
}

/// Checks that the error for a locked file names its holder. Where files have two device numbers (overlayfs, btrfs)
/// the system does not report it.
pub(crate) fn names_holder(error: &ImageError, directory: &Path, holder: &str) {
    assert!(matches!(error, ImageError::Held { .. }), "{error}");
    let file_system = Placement::of(&directory.join("any")).expect("a placement").file_system;
    let known = ["ext4", "xfs", "tmpfs"].contains(&file_system.as_str()) && Path::new("/proc/locks").exists();
    let holder = if known { holder } else { "process" };
    assert!(error.to_string().contains(holder), "{holder} is missing: {error}");
}

pub(crate) fn load(file: &MappedFile, at: u64) -> u8 {
    assert!(at < file.len());
    // SAFETY: inside the mapping.
    unsafe { file.base().add(at as usize).read_volatile() }
}

pub(crate) fn store(file: &MappedFile, at: u64, byte: u8) {
    assert!(at < file.len());
    // SAFETY: inside the mapping, which the tests open for writing.
    unsafe { file.base().add(at as usize).write_volatile(byte) };
}
