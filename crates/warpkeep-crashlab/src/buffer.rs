//! Raw memory at a fixed address. All of this crate's allocation by hand is here.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages are aligned so in production; code under test may rely on it.
const ALIGNMENT: usize = 4096;

/// Zeroed memory that never moves, of which the first `len` bytes count.
pub(crate) struct Buffer {
    base: NonNull<u8>,
    capacity: usize,
    len: AtomicU64,
}

// SAFETY: the buffer owns its bytes, and hands out only raw pointers, atomics, and slices under `&mut self`.
unsafe impl Send for Buffer {}
// SAFETY: as above; code that uses the raw pointers must justify its accesses.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub(crate) fn new(capacity: u64) -> Buffer {
        let capacity =
            usize::try_from(capacity).expect("a test's memory fits the address space").max(ALIGNMENT);
        let layout = Buffer::layout(capacity);
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc_zeroed(layout) };
        let base = NonNull::new(base).unwrap_or_else(|| handle_alloc_error(layout));
        Buffer { base, capacity, len: AtomicU64::new(0) }
    }

    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, ALIGNMENT).expect("a test's memory fits the address space")
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub(crate) fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity as u64
    }

    /// Extends the length to `len`; the new bytes are zeroed.
    pub(crate) fn grow(&self, len: u64) {
        let old = self.len();
        assert!(old <= len && len <= self.capacity(), "growth stays within the capacity");
        // SAFETY: the range lies inside the allocation, and no code may touch bytes past the length.
        unsafe { self.base().add(old as usize).write_bytes(0, (len - old) as usize) };
        self.len.store(len, Ordering::Release);
    }

    /// All bytes that count from now on, to be overwritten by the caller.
    pub(crate) fn reset(&mut self, len: u64) -> &mut [u8] {
        assert!(len <= self.capacity(), "the bytes fit the capacity");
        self.len = AtomicU64::new(len);
        // SAFETY: the range lies inside the allocation, is initialised since `new`, and `&mut self` proves that no
        // other code holds the buffer.
        unsafe { std::slice::from_raw_parts_mut(self.base(), len as usize) }
    }

    /// The aligned word at `offset`.
    ///
    /// # Panics
    /// If it is not aligned, or not within the length.
    pub(crate) fn word(&self, offset: u64) -> &AtomicU64 {
        assert!(
            offset.is_multiple_of(8) && offset.checked_add(8).is_some_and(|end| end <= self.len()),
            "no word at {offset:#x} of {} bytes",
            self.len()
        );
        // SAFETY: aligned, inside the allocation, initialised, and words are only ever accessed atomically or by
        // writers that guarantee exclusive access.
        unsafe { AtomicU64::from_ptr(self.base().add(offset as usize).cast()) }
    }

    /// Where the bytes first differ from `expected`, word by word.
    pub(crate) fn first_difference(&self, expected: &[u8]) -> Option<u64> {
        let len = self.len().min(expected.len() as u64) & !7;
        let words = expected.chunks_exact(8).take((len / 8) as usize);
        words.enumerate().find_map(|(index, bytes)| {
            let offset = index as u64 * 8;
            let word = u64::from_ne_bytes(bytes.try_into().expect("chunks are of 8 bytes"));
            (self.word(offset).load(Ordering::Relaxed) != word).then_some(offset)
        })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.base(), Buffer::layout(self.capacity)) };
    }
}
