//! Starts write-back of written pages before a sync waits for it.

use std::fs::File;

/// Has the system start writing back bytes that were just written, so that the disk works while the next bytes are
/// copied. Only a hint: ignoring it loses nothing, because the following sync makes the bytes durable and reports
/// errors.
///
/// Unlike the advice that the pages are no longer needed, it does not search for pages to drop. Pages under
/// write-back cannot be dropped, and the search interrupts every core.
#[cfg(target_os = "linux")]
pub(crate) fn begin(file: &File, offset: u64, len: usize) {
    use std::os::fd::AsRawFd;
    let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else { return };
    // SAFETY: the descriptor is open while `file` is borrowed; nothing is read or written but what the file has.
    unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn begin(_file: &File, _offset: u64, _len: usize) {}
