//! Having the system write to the disk what it has been given, before it is asked to wait for it.

use std::fs::File;

/// Has the system begin with bytes that were just written, so that the disk is at work while the next are copied. Only a hint: where it is not
/// taken nothing is lost, for the sync that follows is what counts, and it tells of errors.
///
/// Unlike advice that they are not needed any more, it does not look for pages that could be given up, which under way to the disk none can
/// be; and for which the system asks every core.
#[cfg(target_os = "linux")]
pub(crate) fn begin(file: &File, offset: u64, len: usize) {
    use std::os::fd::AsRawFd;
    let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else { return };
    // SAFETY: the descriptor is open while `file` is borrowed; nothing is read or written but what the file has.
    unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn begin(_file: &File, _offset: u64, _len: usize) {}
