//! System limits, and available space.

use std::fmt;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

/// Memory this process may lock (RLIMIT_MEMLOCK); `None` is no limit.
pub(crate) fn locked_memory() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

/// Address space this process may have (RLIMIT_AS); `None` is no limit.
pub(crate) fn address_space() -> Option<u64> {
    getrlimit(Resource::As).current
}

/// Address space this process has.
pub(crate) fn address_space_used() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or(0);
    pages * page_size()
}

/// The longest file this process may write (RLIMIT_FSIZE); `None` is no limit. Exceeding it raises a signal that
/// ends the process, so it must be checked beforehand.
pub(crate) fn file_size() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

/// The page size of the machine.
pub(crate) fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// Room on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Space {
    /// The total space; 0 where the file system sets no limit of its own.
    pub(crate) total: u64,
    /// The space that this user may still take.
    pub(crate) free: u64,
}

impl Space {
    /// The room on the file system that holds `path`.
    pub(crate) fn at(path: &Path) -> std::io::Result<Self> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(Self {
            total: stat.f_blocks.saturating_mul(stat.f_frsize),
            free: stat.f_bavail.saturating_mul(stat.f_frsize),
        })
    }
}

/// Memory that can be allocated before the system starts to kill processes: free, reclaimable and swap. `None`
/// where the system does not report it.
pub(crate) fn available_memory() -> Option<u64> {
    available_in(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn available_in(meminfo: &str) -> Option<u64> {
    let kib = |name: &str| -> Option<u64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some((kib("MemAvailable")? + kib("SwapFree").unwrap_or(0)).saturating_mul(1024))
}

/// Whether any swap is on.
pub(crate) fn swap_is_on() -> bool {
    std::fs::read_to_string("/proc/swaps").is_ok_and(|swaps| swaps.lines().count() > 1)
}

/// Bytes in huge pages of one size that are neither used nor promised.
pub(crate) fn free_huge_pages(page_size: u64) -> u64 {
    let pool = format!("/sys/kernel/mm/hugepages/hugepages-{}kB", page_size / 1024);
    let count = |name: &str| -> u64 {
        let text = std::fs::read_to_string(format!("{pool}/{name}")).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    };
    let reserved = count("free_hugepages").saturating_sub(count("resv_hugepages"));
    let surplus = count("nr_overcommit_hugepages").saturating_sub(count("surplus_hugepages"));
    reserved.saturating_add(surplus).saturating_mul(page_size)
}

/// Whether this looks like the 64 MB `/dev/shm` that a container gets by default.
pub(crate) fn is_small_container_shm(mount_point: &Path, space: Space) -> bool {
    mount_point == Path::new("/dev/shm") && space.total == 64 << 20
}

/// A number of bytes for people.
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(f, "{} bytes", self.0);
        }
        let unit = (self.0.ilog2() / 10) as usize;
        let amount = self.0 as f64 / (1_u64 << (unit * 10)) as f64;
        let digits = usize::from(amount.fract() != 0.0);
        write!(f, "{amount:.digits$} {}", UNITS[unit - 1])
    }
}

/// `len` rounded up to a multiple of `unit`; `None` past the end of numbers.
pub(crate) fn round_up(len: u64, unit: u64) -> Option<u64> {
    len.checked_next_multiple_of(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_for_people() {
        let shown: Vec<String> = [0, 1023, 1024, 4096, 1536, 64 << 20, (1 << 40) + (1 << 39), u64::MAX]
            .map(|n| Bytes(n).to_string())
            .into();
        assert_eq!(
            shown,
            ["0 bytes", "1023 bytes", "1 KiB", "4 KiB", "1.5 KiB", "64 MiB", "1.5 TiB", "16 EiB"]
        );
    }

    #[test]
    fn available_memory_counts_swap_and_survives_nonsense() {
        let text = "MemTotal:  9 kB\nMemAvailable:   1000 kB\nSwapFree:  24 kB\n";
        assert_eq!(available_in(text), Some(1024 * 1024));
        assert_eq!(available_in("MemAvailable: 3 kB\n"), Some(3072));
        assert_eq!(available_in("MemAvailable: many\n"), None);
        assert_eq!(available_in(""), None);
        assert!(available_memory().is_none_or(|bytes| bytes > 0));
    }

    #[test]
    fn the_shm_of_a_container_is_known_by_place_and_size() {
        let small = Space { total: 64 << 20, free: 1 };
        assert!(is_small_container_shm(Path::new("/dev/shm"), small));
        assert!(!is_small_container_shm(Path::new("/mnt"), small));
        assert!(!is_small_container_shm(Path::new("/dev/shm"), Space { total: 128 << 20, ..small }));
    }
}
