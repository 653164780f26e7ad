//! A range of address space that a file is mapped into piece by piece, so that growth moves nothing.

use std::ffi::c_void;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::limits::{self, Bytes};
use crate::{ImageError, Medium};

/// Address space that nothing else in the process uses. The part not mapped to the file yet faults when touched.
#[derive(Debug)]
pub(super) struct Reservation {
    base: *mut u8,
    /// How far it reaches; less than at first if the kernel let go of a part of it.
    len: AtomicU64,
}

// SAFETY: the reservation owns addresses, not data; its methods may be called from any thread, and `MappedFile` is
// responsible for accesses to the bytes.
unsafe impl Send for Reservation {}
// SAFETY: as above; `len` is atomic, and `MappedFile` keeps growth to one thread at a time.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Reserves as much as possible between `least` and `most`, at an address that is a multiple of `align`.
    /// `least` must be a multiple of it, too.
    pub(super) fn new(path: &Path, least: u64, most: u64, align: u64) -> Result<Self, ImageError> {
        let mut most = most.max(least);
        if let Some(limit) = limits::address_space() {
            // All that is left would starve the rest of the process; half of it does not.
            let left = limit.saturating_sub(limits::address_space_used());
            if least.saturating_add(align) > left {
                return Err(too_little_address_space(least, limit, left));
            }
            most = most.min(left / 2).max(least);
        }
        let mut wanted = most - most % align;
        loop {
            match Self::exactly(wanted.max(least), align) {
                Ok(reservation) => return Ok(reservation),
                Err(Errno::NOMEM | Errno::AGAIN) if wanted > least => wanted /= 2,
                Err(error) => return Err(ImageError::io(path, "reserve addresses for it")(error.into())),
            }
            wanted -= wanted % align;
        }
    }

    fn exactly(len: u64, align: u64) -> Result<Self, Errno> {
        let padded = len.checked_add(align).and_then(|len| usize::try_from(len).ok()).ok_or(Errno::NOMEM)?;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                padded,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let before = start.addr().next_multiple_of(align as usize) - start.addr();
        let after = align as usize - before;
        // SAFETY: both ends lie inside the mapping just made, which no other code knows. A refusal only wastes
        // addresses.
        unsafe {
            let base = start.cast::<u8>().add(before);
            if before > 0 {
                let _ = munmap(start, before);
            }
            if after > 0 {
                let _ = munmap(base.add(len as usize).cast(), after);
            }
            Ok(Self { base, len: AtomicU64::new(len) })
        }
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.base
    }

    pub(super) fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Maps `from..to` of the file at the same distance from the base.
    ///
    /// # Safety
    /// `from` and `to` are multiples of the page size within the reservation, and nothing is mapped or in use
    /// there yet.
    pub(super) unsafe fn map(
        &self,
        file: &File,
        from: u64,
        to: u64,
        writable: bool,
        medium: Medium,
    ) -> Result<(), Errno> {
        debug_assert!(from < to && to <= self.len());
        let protection = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let sharing = match medium {
            // Without this a flushed store could outlive the block it was stored to: the file system would still
            // hold the allocation in memory.
            Medium::FsDax if writable => MapFlags::SHARED_VALIDATE | MapFlags::SYNC,
            _ => MapFlags::SHARED,
        };
        let (at, len) = self.part(from, to);
        // SAFETY: the range is inside the reservation, so replacing its mapping affects no other code.
        let mapped = unsafe { mmap(at, len, protection, sharing | MapFlags::FIXED, file, from) };
        if let Err(error) = mapped {
            self.mend(from, to);
            return Err(error);
        }
        Ok(())
    }

    /// Removes the file mapping of `from..to` and keeps the addresses.
    ///
    /// # Safety
    /// As for [`Self::map`], except that the file may be mapped there; no code may use it any more.
    pub(super) unsafe fn unmap(&self, from: u64, to: u64) -> Result<(), Errno> {
        if from == to {
            return Ok(());
        }
        let (at, len) = self.part(from, to);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: the caller guarantees that no code uses the range, which is inside the reservation.
        unsafe { mmap_anonymous(at, len, ProtFlags::empty(), flags).map(|_| ()) }
    }

    /// A failed mapping may have removed the reservation of its range. Reserves it again, and if other code has
    /// mapped there meanwhile, gives up everything from there on, so as never to map over foreign memory.
    fn mend(&self, from: u64, to: u64) {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
        let (at, len) = self.part(from, to);
        // SAFETY: this flag makes the kernel refuse if anything is mapped there.
        let reserved = unsafe { mmap_anonymous(at, len, ProtFlags::empty(), flags) };
        let is_ours = match reserved {
            Ok(address) => address == at,
            // Something is mapped there. It can only be this reservation's own pages, if the kernel kept them: it
            // then refuses with EEXIST for every page, but does not report the owner.
            Err(Errno::EXIST) => still_reserved(at, len),
            Err(_) => false,
        };
        if !is_ours {
            self.len.store(from, Ordering::Release);
        }
    }

    fn part(&self, from: u64, to: u64) -> (*mut c_void, usize) {
        (self.base.wrapping_add(from as usize).cast(), (to - from) as usize)
    }
}

/// Whether the range lies in one inaccessible private mapping without a file, which is what a reservation is.
fn still_reserved(at: *mut c_void, len: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().any(|line| {
        let mut fields = line.split_whitespace();
        let range = fields.next().and_then(|range| range.split_once('-'));
        let Some((start, end)) = range else { return false };
        let number = |text| usize::from_str_radix(text, 16).ok();
        let holds = number(start).is_some_and(|start| start <= at.addr())
            && number(end).is_some_and(|end| end >= at.addr() + len);
        holds && fields.next() == Some("---p") && fields.nth(2) == Some("0")
    })
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: the range is ours, and the owner of the mapping has stopped using it when it is dropped.
        let _ = unsafe { munmap(self.base.cast(), self.len() as usize) };
    }
}

fn too_little_address_space(needed: u64, limit: u64, left: u64) -> ImageError {
    ImageError::Limit {
        limit: "the address-space limit (RLIMIT_AS)",
        needed: format!(
            "mapping the image takes {}, the limit is {} and {} are left",
            Bytes(needed),
            Bytes(limit),
            Bytes(left)
        ),
        remedy: "raise it (`ulimit -v unlimited`; systemd: LimitAS=infinity)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "image";

    #[test]
    fn aligned_and_as_long_as_asked() {
        for align in [4096, 2 << 20, 1 << 30] {
            let reservation = Reservation::new(Path::new(PATH), align, 4 << 30, align).expect("addresses");
            assert_eq!(reservation.base().addr() as u64 % align, 0);
            assert_eq!(reservation.len(), 4 << 30);
        }
    }

    #[test]
    fn halved_until_the_kernel_agrees() {
        let align = 2 << 20;
        let reservation = Reservation::new(Path::new(PATH), align, 1 << 60, align).expect("addresses");
        assert!(reservation.len() >= 1 << 40, "{} bytes of addresses", reservation.len());
        assert_eq!(reservation.len() % align, 0);
        let error = Reservation::new(Path::new(PATH), 1 << 60, 1 << 60, align).expect_err("too much");
        assert!(error.to_string().contains("reserve addresses"), "{error}");
    }

    #[test]
    fn mending_gives_up_what_another_mapping_took() {
        let align = 2 << 20;
        let reservation = Reservation::new(Path::new(PATH), align, 4 * align, align).expect("addresses");
        reservation.mend(align, 2 * align);
        assert_eq!(reservation.len(), 4 * align, "an untouched reservation stays whole");

        let (at, len) = reservation.part(2 * align, 3 * align);
        // SAFETY: the range is reserved and unused.
        unsafe { munmap(at, len).expect("a hole") };
        reservation.mend(2 * align, 3 * align);
        assert_eq!(reservation.len(), 4 * align, "a hole is filled again");

        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: the range is reserved and unused; this simulates other code of the process that maps there first.
        let other = unsafe { mmap_anonymous(at, len, ProtFlags::READ, flags).expect("another mapping") };
        reservation.mend(2 * align, 3 * align);
        assert_eq!(reservation.len(), 2 * align, "what another took is left alone");
        drop(reservation);
        // SAFETY: `other` is still mapped; this checks exactly that. The rest after it was given up.
        unsafe {
            assert_eq!(other.cast::<u8>().read(), 0);
            munmap(other, 2 * align as usize).expect("clean up");
        }
    }
}
