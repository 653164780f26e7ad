//! Plain memory as a backing: for tests, and for images that need not outlive the process.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Backing, ImageError};

const ALIGNMENT: usize = 4096;

/// Zeroed memory of the process, with room to grow.
pub struct PlainMemory {
    base: *mut u8,
    layout: Layout,
    len: AtomicU64,
}

// SAFETY: the memory belongs to this value alone; access to it is governed by the image above.
unsafe impl Send for PlainMemory {}
// SAFETY: as above.
unsafe impl Sync for PlainMemory {}

impl PlainMemory {
    /// `len` zeroed bytes that can grow to `max_len`.
    ///
    /// # Panics
    /// If `max_len` is zero, less than `len`, or beyond what can be addressed.
    pub fn new(len: u64, max_len: u64) -> PlainMemory {
        assert!(len <= max_len && max_len > 0, "{len} bytes cannot grow to {max_len}");
        let layout = Layout::from_size_align(max_len as usize, ALIGNMENT).expect("an addressable size");
        // SAFETY: the layout is not of size zero.
        let base = unsafe { alloc_zeroed(layout) };
        if base.is_null() {
            handle_alloc_error(layout);
        }
        PlainMemory { base, layout, len: AtomicU64::new(len) }
    }
}

impl Drop for PlainMemory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and freed nowhere else.
        unsafe { dealloc(self.base, self.layout) };
    }
}

// SAFETY: the whole capacity is allocated at once and freed only on drop; growing moves nothing.
unsafe impl Backing for PlainMemory {
    fn base(&self) -> *mut u8 {
        self.base
    }

    fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    fn max_len(&self) -> u64 {
        self.layout.size() as u64
    }

    fn grow(&self, len: u64) -> Result<(), ImageError> {
        if len > self.max_len() {
            let why = format!("the memory was reserved for {} bytes; reserve more", self.max_len());
            return Err(ImageError::OutOfSpace { wanted: len, why });
        }
        self.len.fetch_max(len, Ordering::AcqRel);
        Ok(())
    }

    fn sync(&self, _site: &'static str) -> Result<(), ImageError> {
        Ok(())
    }
}
