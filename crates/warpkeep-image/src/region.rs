//! Bounds-checked access to the bytes of an image: the one place that turns offsets into addresses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Backing, ImageError, Persist};

/// The bytes of an image, up to the length that was made valid by [`Region::set_len`].
pub(crate) struct Region {
    backing: Arc<dyn Backing>,
    base: *mut u8,
    len: AtomicU64,
}

// SAFETY: the pointer is to memory that the backing keeps mapped for as long as it lives; bytes shared between
// threads are accessed through atomic words, or by `write`, whose callers guarantee exclusive access.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Access to the first `len` bytes of a backing.
    pub(crate) fn new(backing: Arc<dyn Backing>, len: u64) -> Region {
        assert!(len <= backing.len(), "a region cannot be longer than its backing");
        Region { base: backing.base(), backing, len: AtomicU64::new(len) }
    }

    pub(crate) fn backing(&self) -> &dyn Backing {
        &*self.backing
    }

    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Makes bytes the backing has grown by accessible.
    pub(crate) fn set_len(&self, len: u64) {
        assert!(len <= self.backing.len(), "a region cannot be longer than its backing");
        self.len.store(len, Ordering::Release);
    }

    /// Whether a range lies within the region.
    #[inline]
    pub(crate) fn contains(&self, offset: u64, len: u64) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.len())
    }

    #[inline]
    fn address(&self, offset: u64, len: u64) -> *mut u8 {
        assert!(self.contains(offset, len), "{offset}+{len} lies outside the image of {} bytes", self.len());
        // SAFETY: the range was just found to lie within the mapped bytes.
        unsafe { self.base.add(offset as usize) }
    }

    /// The aligned 8-byte word at an offset.
    #[inline]
    pub(crate) fn word(&self, offset: u64) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8), "a word must be aligned, {offset} is not");
        // SAFETY: in bounds by `address`; aligned because bases are page-aligned; mapped while `self` lives.
        unsafe { AtomicU64::from_ptr(self.address(offset, 8).cast()) }
    }

    /// Copies bytes out, word by word, so that a concurrent store gives an old or a new word and never
    /// undefined behaviour.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        let first = offset & !7;
        let skip = (offset - first) as usize;
        // Lengths of regions are multiples of 8, so whole words around a range lie within them.
        let words = (skip + into.len()).div_ceil(8);
        let base: *mut u64 = self.address(first, 8 * words as u64).cast();
        // SAFETY: `address` checked that all these words lie within the region; its base is page-aligned.
        let load =
            |at: usize| unsafe { AtomicU64::from_ptr(base.add(at)) }.load(Ordering::Relaxed).to_le_bytes();
        let (head, rest) = into.split_at_mut(into.len().min((8 - skip) % 8));
        if !head.is_empty() {
            head.copy_from_slice(&load(0)[skip..skip + head.len()]);
        }
        let at = usize::from(skip > 0);
        let mut chunks = rest.chunks_exact_mut(8);
        let mut done = 0;
        for chunk in &mut chunks {
            chunk.copy_from_slice(&load(at + done));
            done += 1;
        }
        let tail = chunks.into_remainder();
        if !tail.is_empty() {
            let len = tail.len();
            tail.copy_from_slice(&load(at + done)[..len]);
        }
    }

    /// Copies bytes in.
    ///
    /// # Safety
    /// No other thread may access the range meanwhile.
    pub(crate) unsafe fn write<P: Persist>(&self, persist: &P, offset: u64, bytes: &[u8]) {
        let to = self.address(offset, bytes.len() as u64);
        // SAFETY: in bounds by `address`; exclusive by this function's contract.
        unsafe { persist.write(to, bytes) };
    }

    /// Starts the way of a range to the medium.
    #[inline]
    pub(crate) fn flush<P: Persist>(&self, persist: &P, site: &'static str, offset: u64, len: u64) {
        persist.flush(site, self.address(offset, len), len as usize);
    }

    /// Extends the backing; the new bytes are not accessible before [`Region::set_len`].
    pub(crate) fn grow_backing(&self, len: u64) -> Result<(), ImageError> {
        if len > self.backing.len() { self.backing.grow(len) } else { Ok(()) }
    }

    /// A raw address for engines that resolve offsets themselves.
    #[inline]
    pub(crate) fn pointer(&self, offset: u64, len: u64) -> *mut u8 {
        self.address(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Coherent, PlainMemory};

    #[test]
    fn any_range_reads_back() {
        let region = Region::new(Arc::new(PlainMemory::new(4096, 4096)), 4096);
        let bytes: Vec<u8> = (0..4096_u32).map(|i| (i * 7) as u8).collect();
        // SAFETY: no other code has the region.
        unsafe { region.write(&Coherent, 0, &bytes) };
        for offset in (0..40).chain(4040..=4096) {
            for len in (0..40).filter(|len| offset + len <= 4096) {
                let mut out = vec![0; len];
                region.read(offset as u64, &mut out);
                assert_eq!(out, bytes[offset..offset + len], "{offset}+{len}");
            }
        }
    }
}
