//! Which process has an image open, and whether it still exists.
//!
//! A file lock is released before the process has ended entirely: a killed process with memory registered for a GPU
//! can keep the device busy for seconds after its locks are free. So openers wait for the *process*.
//!
//! Process numbers are reused, so a holder is a number and a start time. Both are those of this machine's
//! current boot and this container: an image from elsewhere has a different [`boot_id`] (or, from another
//! container, a holder that cannot be seen; there only the file lock counts).

use std::fmt;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::ImageError;

/// A process, distinguished from a later one with the same number.
///
/// ```
/// use warpkeep_image::Holder;
///
/// let me = Holder::current()?;
/// assert!(me.is_alive()?);
/// # Ok::<(), warpkeep_image::ImageError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The process number.
    pub pid: u64,
    /// When it started, in clock ticks since boot.
    pub start_time: u64,
}

impl Holder {
    /// This process.
    pub fn current() -> Result<Self, ImageError> {
        let path = Path::new("/proc/self/stat");
        let stat = std::fs::read_to_string(path).map_err(ImageError::io(path, "read it"))?;
        let start_time = start_time_in(&stat)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it has no start time"))
            .map_err(ImageError::io(path, "understand it"))?;
        Ok(Self { pid: u64::from(std::process::id()), start_time })
    }

    /// Whether it still runs. A zombie does not.
    pub fn is_alive(&self) -> Result<bool, ImageError> {
        Ok(!wait_until_gone(self, Duration::ZERO)?)
    }

    /// The name of its program, while it can be seen.
    pub fn command(&self) -> Option<String> {
        if !self.is_same_process() {
            return None;
        }
        let name = std::fs::read_to_string(format!("/proc/{}/comm", self.pid)).ok()?;
        Some(name.trim_end().to_owned())
    }

    /// Whether the process that now has this number has the holder's start time. If its start time cannot be read
    /// (`/proc` mounted to hide other processes), it may be the holder.
    fn is_same_process(&self) -> bool {
        match std::fs::read_to_string(format!("/proc/{}/stat", self.pid)) {
            Ok(stat) => start_time_in(&stat).is_none_or(|start_time| start_time == self.start_time),
            Err(_) => true,
        }
    }
}

impl fmt::Display for Holder {
    /// `process 1234 (its-name)`, for messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        self.command().map_or(Ok(()), |name| write!(f, " ({name})"))
    }
}

/// Waits until the process has ended, at most `timeout`; `true` if it has. Ended means that all its threads have
/// ended and everything they held has been released; a zombie that is not reaped yet counts.
pub fn wait_until_gone(holder: &Holder, timeout: Duration) -> Result<bool, ImageError> {
    let Some(pid) = i32::try_from(holder.pid).ok().and_then(Pid::from_raw) else {
        // No process can have such a number.
        return Ok(true);
    };
    // A wait longer than the clock can count is one without end.
    let until = Instant::now().checked_add(timeout);
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(Errno::SRCH) => return Ok(true),
        // Container profiles may forbid it; the file descriptors may be used up.
        Err(_) => return Ok(watch_proc(holder, until)),
    };
    // Checked after the descriptor is open: from here on the number cannot pass to another process unnoticed.
    if !holder.is_same_process() {
        return Ok(true);
    }
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], left.as_ref()) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(error) => {
                let path = format!("/proc/{}", holder.pid);
                return Err(ImageError::io(Path::new(&path), "wait for the process")(error.into()));
            }
        }
    }
}

/// The way without a descriptor: looks again and again.
fn watch_proc(holder: &Holder, until: Option<Instant>) -> bool {
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", holder.pid));
        let gone = match &stat {
            Ok(stat) => start_time_in(stat) != Some(holder.start_time) || is_zombie(stat),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
        if gone || left.is_zero() {
            return gone;
        }
        std::thread::sleep(left.min(Duration::from_millis(5)));
    }
}

/// Which boot of which machine this is.
pub fn boot_id() -> Result<[u8; 16], ImageError> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let text = std::fs::read_to_string(path).map_err(ImageError::io(path, "read it"))?;
    parse_uuid(text.trim())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is not a UUID"))
        .map_err(ImageError::io(path, "understand it"))
}

/// The fields after the command name, which may itself hold spaces and brackets. The first is field 3.
fn fields_after_name(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace()
}

/// Field 22 of `/proc/<pid>/stat`.
fn start_time_in(stat: &str) -> Option<u64> {
    fields_after_name(stat).nth(22 - 3)?.parse().ok()
}

/// Whether `/proc/<pid>/stat` speaks of a process that has ended.
fn is_zombie(stat: &str) -> bool {
    matches!(fields_after_name(stat).next(), Some("Z" | "X"))
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text.bytes().filter(|&byte| byte != b'-').collect();
    if digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_time_is_found_behind_a_hostile_name() {
        let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20 21";
        assert_eq!(start_time_in(stat), Some(777));
        assert!(!is_zombie(stat));
        assert!(is_zombie("42 (x) Z 1"));
        assert_eq!(start_time_in("42 (x) Z 1"), None);
        assert_eq!(start_time_in(""), None);
    }

    #[test]
    fn uuids() {
        let id = parse_uuid("0c54fd0a-933b-4346-b1ff-194d234c9b83").expect("a UUID");
        assert_eq!((id[0], id[1], id[15]), (0x0c, 0x54, 0x83));
        assert_eq!(parse_uuid("0c54fd0a-933b-4346-b1ff-194d234c9b8"), None);
        assert_eq!(parse_uuid("zc54fd0a-933b-4346-b1ff-194d234c9b83"), None);
    }

    #[test]
    fn watching_proc_agrees_with_the_descriptor() {
        let me = Holder::current().expect("there is /proc");
        assert!(!watch_proc(&me, Some(Instant::now())));
        assert!(watch_proc(&Holder { start_time: me.start_time + 1, ..me }, None));
    }
}
