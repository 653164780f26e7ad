//! The identity of this process. A child made by `fork` has a copy of all memory, and shares the mapped image, the
//! files and their locks with its parent: it must change none of them.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::limits;

/// A page that the kernel gives to a child of `fork` as zeros. Its first word holds the name of the process, once
/// that was drawn.
static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
/// The kernel has no such pages (before Linux 4.14).
static REFUSED: AtomicBool = AtomicBool::new(false);

/// The process that opened something. Checking whether this is still the same process costs one load.
///
/// ```
/// use warpkeep_image::Owner;
///
/// let owner = Owner::here();
/// assert!(owner.is_here());
/// assert_eq!(owner.pid(), std::process::id());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// The word of this process, which is zero or redrawn in a child; `None` if the process number must be queried
    /// instead.
    word: Option<&'static AtomicU64>,
    name: u64,
    pid: u32,
}

impl Owner {
    /// This process.
    pub fn here() -> Owner {
        let pid = std::process::id();
        match page() {
            Some(word) => Owner { word: Some(word), name: name_of_this_process(word, pid), pid },
            None => Owner { word: None, name: u64::from(pid), pid },
        }
    }

    /// Whether this is the same process, and not one made of it by `fork`.
    #[inline]
    pub fn is_here(&self) -> bool {
        match self.word {
            // A child has the memory of the thread that made it, so no ordering is needed.
            Some(word) => word.load(Ordering::Relaxed) == self.name,
            None => u64::from(std::process::id()) == self.name,
        }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.pid
    }
}

/// The name of this process, drawn if the word is still 0. No two processes draw the same name, even if one gets
/// the number of an earlier one.
fn name_of_this_process(word: &AtomicU64, pid: u32) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let drawn = (now ^ u64::from(pid).rotate_left(40)) | 1;
    match word.compare_exchange(0, drawn, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => drawn,
        Err(known) => known,
    }
}

/// The page, made by the first caller. Without a lock, because a child may be forked while a lock is held.
fn page() -> Option<&'static AtomicU64> {
    let known = PAGE.load(Ordering::Acquire);
    if !known.is_null() {
        // SAFETY: it was mapped below, is aligned to a page, and is never unmapped.
        return Some(unsafe { &*known });
    }
    if REFUSED.load(Ordering::Relaxed) {
        return None;
    }
    let len = limits::page_size() as usize;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let mapped = unsafe {
        mmap_anonymous(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
    };
    let Ok(mapped) = mapped else { return None };
    // SAFETY: the page was just mapped, and is not in use yet.
    if unsafe { madvise(mapped, len, Advice::LinuxWipeOnFork) }.is_err() {
        REFUSED.store(true, Ordering::Relaxed);
        // SAFETY: it was just mapped, and has no other user.
        let _ = unsafe { munmap(mapped, len) };
        return None;
    }
    let made = mapped.cast::<AtomicU64>();
    let there = match PAGE.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => made,
        Err(earlier) => {
            // SAFETY: as above.
            let _ = unsafe { munmap(mapped, len) };
            earlier
        }
    };
    // SAFETY: as at the top; a page of zeros is a valid word of 0.
    Some(unsafe { &*there })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child's verdict on an owner: 0 if it is another process.
    fn child_says(owner: &Owner) -> i32 {
        // SAFETY: the child only loads words, queries its number, and ends.
        match unsafe { libc::fork() } {
            0 => {
                let own = Owner::here();
                let wrong = i32::from(owner.is_here()) + 2 * i32::from(!own.is_here());
                // SAFETY: ends the process without any clean-up.
                unsafe { libc::_exit(wrong) }
            }
            child => {
                let mut status = 0;
                // SAFETY: it is our child, and the status has a place.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                assert!(libc::WIFEXITED(status));
                libc::WEXITSTATUS(status)
            }
        }
    }

    #[test]
    fn a_child_is_another_process() {
        let owner = Owner::here();
        assert!(owner.word.is_some(), "Linux from 4.14 on has such pages");
        let by_number = Owner { word: None, name: u64::from(std::process::id()), pid: owner.pid };
        for owner in [owner, by_number] {
            assert!(owner.is_here());
            assert_eq!(child_says(&owner), 0);
            assert!(owner.is_here());
        }
    }
}
