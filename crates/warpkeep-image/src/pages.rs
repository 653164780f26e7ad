//! Huge pages, without privilege.
//!
//! Random access to an image is bound by address translation: 2 MiB pages make it several times faster than
//! 4 KiB ones. On tmpfs they can be had for any mapping by asking the kernel to collapse a range
//! (`MADV_COLLAPSE`, Linux 6.1): no mount option, no setting, no privilege. On ordinary file systems an aligned
//! mapping of a preallocated file gets them by itself where the file system has large folios. hugetlbfs has
//! nothing else. All of this is best effort: a refusal costs speed and is never an error.

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate};
use serde::Serialize;

use crate::limits::Bytes;
use crate::{ImageError, Medium};

/// The huge page that mappings are aligned to.
pub(crate) const HUGE_PAGE: u64 = 2 << 20;

/// How long opening may spend on collapsing existing small pages: each costs a copy.
pub(crate) const OPENING_BUDGET: Duration = Duration::from_secs(5);

/// Whether to request huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HugePages {
    /// Wherever the kernel gives them.
    #[default]
    Auto,
    /// Do not request any.
    Off,
}

/// Advises the kernel to use huge pages in this range.
///
/// # Safety
/// `base..base + len` must be mapped.
pub(crate) unsafe fn welcome(base: *mut u8, len: u64) {
    // SAFETY: the caller guarantees the range, and the advice changes no byte. A refusal is not an error.
    unsafe { libc::madvise(base.cast(), len as usize, libc::MADV_HUGEPAGE) };
}

/// The smallest share of a thread; a larger range is divided, because the kernel clears or copies every byte of it.
const SHARE: u64 = 32 << 20;
/// Threads that collapse at the same time, at most: more wait for the kernel's locks.
const MOST_THREADS: u64 = 8;

/// Collapses the whole huge pages within `from..to` of a tmpfs mapping that begins at `base`, until the kernel
/// refuses or `budget` is spent.
///
/// If `seed` is the file, the range is new and may have holes: each piece gets one page first, because the
/// kernel collapses no empty range. That creates the huge page directly, at a quarter of the cost of filling
/// the range with small pages and copying them together.
///
/// # Safety
/// `base..base + to` must be mapped, and `base` aligned to a huge page.
pub(crate) unsafe fn collapse(
    base: *mut u8,
    from: u64,
    to: u64,
    seed: Option<&File>,
    budget: Option<Duration>,
) {
    let collapsing = Collapsing {
        base: base.expose_provenance(),
        from,
        to,
        seed,
        until: budget.map(|budget| Instant::now() + budget),
        next: AtomicU64::new(from - from % HUGE_PAGE),
        failures: AtomicU32::new(0),
    };
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let threads = ((to - from) / SHARE).min(cores).clamp(1, MOST_THREADS);
    // SAFETY: the caller's promise.
    let work = || unsafe { collapsing.work() };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // If no thread can be started, the existing ones do it.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
}

/// A range that some threads collapse piece by piece.
struct Collapsing<'c> {
    base: usize,
    from: u64,
    to: u64,
    seed: Option<&'c File>,
    until: Option<Instant>,
    /// The next piece that no thread has taken.
    next: AtomicU64,
    failures: AtomicU32,
}

impl Collapsing<'_> {
    /// Collapses pieces until none are left, or the kernel keeps refusing.
    ///
    /// # Safety
    /// As for [`collapse`].
    unsafe fn work(&self) {
        // Collapsing can fail temporarily, because a page is in use; that costs this piece. Repeated failures mean
        // that it always will.
        const PATIENCE: u32 = 8;
        while self.failures.load(Ordering::Relaxed) < PATIENCE
            && self.until.is_none_or(|until| Instant::now() < until)
        {
            let piece = self.next.fetch_add(HUGE_PAGE, Ordering::Relaxed);
            if piece + HUGE_PAGE > self.to {
                return;
            }
            if let Some(file) = self.seed.filter(|_| piece >= self.from)
                && fallocate(file, FallocateFlags::empty(), piece, 4096).is_err()
            {
                return self.failures.store(PATIENCE, Ordering::Relaxed);
            }
            let at = std::ptr::with_exposed_provenance_mut::<u8>(self.base).wrapping_add(piece as usize);
            // SAFETY: the caller guarantees the mapping; the piece lies inside. Collapsing changes no byte.
            let refused = unsafe { libc::madvise(at.cast(), HUGE_PAGE as usize, libc::MADV_COLLAPSE) != 0 };
            if refused {
                match std::io::Error::last_os_error().raw_os_error() {
                    Some(libc::EAGAIN | libc::EBUSY | libc::EINTR) => {
                        self.failures.fetch_add(1, Ordering::Relaxed);
                    }
                    _ => return self.failures.store(PATIENCE, Ordering::Relaxed),
                }
            }
        }
    }
}

/// The pages of a mapping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PageReport {
    /// Bytes mapped.
    pub mapped_bytes: u64,
    /// Bytes of them that huge pages translate at this moment. Untouched pages do not count.
    pub huge_bytes: u64,
    /// The page size of the mapping as the kernel states it.
    pub page_size: u64,
    /// How the huge pages were obtained, or why there are none.
    pub how: String,
}

impl PageReport {
    /// Reads the report for `base..base + len` of this process.
    pub(crate) fn read(base: *const u8, len: u64, medium: Medium) -> Result<Self, ImageError> {
        let path = Path::new("/proc/self/smaps");
        let smaps = std::fs::read_to_string(path).map_err(ImageError::io(path, "read it"))?;
        Ok(Self::from_smaps(&smaps, base.addr() as u64, len, medium))
    }

    fn from_smaps(smaps: &str, base: u64, len: u64, medium: Medium) -> Self {
        let mut report = Self { mapped_bytes: 0, huge_bytes: 0, page_size: 0, how: String::new() };
        let mut area = 0;
        for line in smaps.lines() {
            if let Some((start, end)) = area_in(line) {
                area = end.min(base + len).saturating_sub(start.max(base));
                report.mapped_bytes += area;
                continue;
            }
            if area == 0 {
                continue;
            }
            match field_in(line) {
                Some(("KernelPageSize", bytes)) => {
                    report.page_size = bytes;
                    if medium == Medium::Hugetlbfs {
                        report.huge_bytes += area;
                    }
                }
                Some(("ShmemPmdMapped" | "FilePmdMapped", bytes)) if medium != Medium::Hugetlbfs => {
                    report.huge_bytes += bytes.min(area);
                }
                _ => {}
            }
        }
        report.how = match (medium, report.huge_bytes) {
            (Medium::Hugetlbfs, _) => "hugetlbfs has no other pages",
            (Medium::Tmpfs, 0) => {
                "none: not asked for, or the kernel cannot collapse tmpfs (Linux 6.1 or newer can)"
            }
            (Medium::Tmpfs, _) => "tmpfs, collapsed on request",
            (_, 0) => "none so far: they come with use where the file system has large folios",
            (Medium::Disk, _) => "large folios of the file system",
            (Medium::FsDax | Medium::DevDax, _) => "persistent memory mapped directly",
        }
        .to_owned();
        report
    }
}

impl fmt::Display for PageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mapped_bytes, huge_bytes, how, .. } = self;
        write!(f, "{} of {} in huge pages ({how})", Bytes(*huge_bytes), Bytes(*mapped_bytes))
    }
}

/// `7f00-7f80 rw-s 00000000 00:1b 42   /dev/shm/x`
fn area_in(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}

/// `ShmemPmdMapped:     2048 kB`
fn field_in(line: &str) -> Option<(&str, u64)> {
    let (name, amount) = line.split_once(':')?;
    let kib: u64 = amount.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((name, kib.saturating_mul(1024)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
100000-200000 r--p 00000000 00:00 0   /usr/lib/other-1-2.so
KernelPageSize:        4 kB
FilePmdMapped:      1024 kB
400000-800000 rw-s 00000000 00:1b 42  /dev/shm/a-b
Size:               4096 kB
KernelPageSize:        4 kB
ShmemPmdMapped:     2048 kB
FilePmdMapped:         0 kB
VmFlags: rd wr sh mr mw me ms hg
800000-a00000 ---p 00000000 00:00 0
KernelPageSize:        4 kB
ShmemPmdMapped:        0 kB
";

    #[test]
    fn only_our_range_counts() {
        let report = PageReport::from_smaps(SMAPS, 0x40_0000, 0x40_0000, Medium::Tmpfs);
        assert_eq!((report.mapped_bytes, report.huge_bytes, report.page_size), (4 << 20, 2 << 20, 4096));
        assert_eq!(report.to_string(), "2 MiB of 4 MiB in huge pages (tmpfs, collapsed on request)");
        let none = PageReport::from_smaps(SMAPS, 0x4000_0000, 4096, Medium::Tmpfs);
        assert_eq!((none.mapped_bytes, none.huge_bytes), (0, 0));
    }

    #[test]
    fn a_hugetlbfs_mapping_is_huge_throughout() {
        let report = PageReport::from_smaps(SMAPS, 0x40_0000, 0x40_0000, Medium::Hugetlbfs);
        assert_eq!((report.mapped_bytes, report.huge_bytes), (4 << 20, 4 << 20));
    }
}
