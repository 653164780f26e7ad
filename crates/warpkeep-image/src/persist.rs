//! How stores to an image become durable.
//!
//! Code that writes to an image states, besides the data, two things that a persistent medium needs: which lines
//! must leave the caches ([`Persist::flush`]) and before which later stores ([`Persist::fence`]). On coherent
//! memory both compile to nothing. A recording implementation in the crash explorer turns the same calls into the
//! set of images a crash could leave.
//!
//! Every flush and fence names its *site*, a fixed word for the place in the code: the mutation gate drops
//! the sites one by one and expects the explorer to notice.

use std::sync::atomic::{AtomicU64, Ordering};

/// A domain of persistence; chosen once per image, monomorphised into everything that writes to it.
pub trait Persist: Send + Sync + 'static {
    /// Whether flushed stores reach a persistent medium. Where they do not, an image on such a medium is refused.
    const WRITES_BACK: bool = true;

    /// Stores a word with release order: 8 aligned bytes, never torn.
    #[inline(always)]
    fn store(&self, word: &AtomicU64, value: u64) {
        word.store(value, Ordering::Release);
    }

    /// Replaces a word if it still is `current`; returns the old value, as `Ok` if it was replaced.
    #[inline(always)]
    fn cas(&self, word: &AtomicU64, current: u64, new: u64) -> Result<u64, u64> {
        word.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Copies bytes into the image. Not atomic: nothing may reach the bytes before they are fenced.
    ///
    /// # Safety
    /// `to` must be valid for writes of `bytes.len()` bytes, and no other thread may access them meanwhile.
    #[inline(always)]
    unsafe fn write(&self, to: *mut u8, bytes: &[u8]) {
        // SAFETY: the caller guarantees that `to` is valid, and a shared slice cannot overlap bytes that no other
        // code accesses.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// Starts writing these bytes back to the medium; they are durable after the next fence of this thread.
    fn flush(&self, site: &'static str, start: *const u8, len: usize);

    /// Returns when everything this thread flushed is durable, and orders stores before it with those after.
    fn fence(&self, site: &'static str);
}
