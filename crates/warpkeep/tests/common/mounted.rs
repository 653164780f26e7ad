//! File systems mounted for a test.

use std::path::Path;

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};
use tempfile::TempDir;

use super::say;

/// A small tmpfs, mounted for one test if that is allowed.
pub(crate) struct Mounted {
    directory: TempDir,
}

impl Mounted {
    /// One with room for `bytes`; prints a notice if there can be none.
    pub(crate) fn tmpfs(bytes: u64, for_what: &str) -> Option<Mounted> {
        let directory = tempfile::tempdir().expect("a directory");
        let options = std::ffi::CString::new(format!("size={bytes}")).expect("no zero byte");
        match mount("tmpfs", directory.path(), "tmpfs", MountFlags::empty(), &*options) {
            Ok(()) => Some(Mounted { directory }),
            Err(error) => {
                say(&format!("SKIPPED: {for_what}: cannot mount a tmpfs ({error})"));
                None
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Whether it can be written from now on.
    pub(crate) fn set_read_only(&self, read_only: bool) {
        let flags = if read_only { MountFlags::RDONLY } else { MountFlags::empty() };
        mount_remount(self.path(), flags, "").expect("it was mounted here");
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A file that is still open keeps it alive, but out of sight.
        let _ = unmount(self.directory.path(), UnmountFlags::DETACH);
    }
}
