//! Faults: calls of a disk that fail on purpose.

use std::io;

/// A kind of call that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiskCall {
    /// Opening a file.
    Open,
    /// Creating a file.
    Create,
    /// Renaming a file.
    Rename,
    /// Removing a file.
    Remove,
    /// Listing the names.
    List,
    /// Syncing the directory.
    SyncDir,
    /// Asking for a length.
    Len,
    /// Reading.
    Read,
    /// Writing. A write that fails leaves the first half of its sectors written.
    Write,
    /// Reserving space.
    Allocate,
    /// Syncing a file. A sync that fails leaves the pages clean: see [`LabDisk`](crate::LabDisk).
    Sync,
}

/// Which calls fail, and how.
///
/// ```
/// use warpkeep_crashlab::{DiskCall, Fault, LabDisk, Trace};
/// use warpkeep_log::Disk;
///
/// let disk = LabDisk::new(&Trace::new());
/// disk.inject(Fault::nth(DiskCall::Create, 2, libc::ENOSPC));
/// assert!(disk.create("a").is_ok());
/// assert_eq!(disk.create("b").err().unwrap().raw_os_error(), Some(libc::ENOSPC));
/// assert!(disk.create("b").is_ok(), "only the second call failed");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    call: DiskCall,
    /// Calls of the kind that still succeed.
    spared: u64,
    forever: bool,
    errno: i32,
}

impl Fault {
    /// The `nth` call of this kind from now on fails with `errno`; 1 is the next.
    pub fn nth(call: DiskCall, nth: u64, errno: i32) -> Fault {
        Fault { call, spared: nth.saturating_sub(1), forever: false, errno }
    }

    /// After `spared` more calls of this kind all fail with `errno`.
    pub fn after(call: DiskCall, spared: u64, errno: i32) -> Fault {
        Fault { call, spared, forever: true, errno }
    }
}

/// The faults of a disk that have not struck yet.
#[derive(Default)]
pub(crate) struct Faults {
    waiting: Vec<Fault>,
}

impl Faults {
    pub(crate) fn add(&mut self, fault: Fault) {
        self.waiting.push(fault);
    }

    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Counts a call; the error if it is one that fails.
    pub(crate) fn count(&mut self, call: DiskCall) -> io::Result<()> {
        let mut failed = None;
        self.waiting.retain_mut(|fault| {
            if fault.call != call {
                return true;
            }
            if fault.spared > 0 {
                fault.spared -= 1;
                return true;
            }
            failed.get_or_insert(fault.errno);
            fault.forever
        });
        failed.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)))
    }
}
