//! A block that was allocated and that nothing leads to yet.

use super::Heap;
use crate::{ImageError, Persist};

/// A freshly allocated block, owned by whoever allocated it until its offset is published.
///
/// Dropping it gives the space back: an insert that fails half way leaks nothing.
pub struct Block<'a, P: Persist> {
    heap: &'a Heap<P>,
    offset: u64,
    size: u64,
}

impl<'a, P: Persist> Block<'a, P> {
    pub(crate) fn new(heap: &'a Heap<P>, offset: u64, size: u64) -> Block<'a, P> {
        Block { heap, offset, size }
    }

    /// Where it lies in the image.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// How many bytes it has; at least as many as were asked for.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Copies bytes into it, `at` bytes from its start.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), ImageError> {
        if at.checked_add(bytes.len() as u64).is_none_or(|end| end > self.size) {
            return Err(ImageError::Invalid(format!(
                "{} bytes at {at} do not fit a block of {}",
                bytes.len(),
                self.size
            )));
        }
        // SAFETY: nothing leads to the block yet, and `&mut self` is the only handle to it.
        unsafe { self.heap.image().write(self.offset + at, bytes) };
        Ok(())
    }

    /// Makes its first `len` bytes durable and hands the block over: the offset can be published now.
    #[must_use = "a block that is not published is lost until the image is opened again"]
    pub fn persist(self, site: &'static str, len: u64) -> u64 {
        let image = self.heap.image();
        image.flush(site, self.offset, len.min(self.size));
        image.fence(site);
        self.into_offset()
    }

    /// Hands the block over without making it durable: for those who flush and fence many blocks at once.
    #[must_use = "a block that is not published is lost until the image is opened again"]
    pub fn into_offset(self) -> u64 {
        std::mem::ManuallyDrop::new(self).offset
    }
}

impl<P: Persist> Drop for Block<'_, P> {
    fn drop(&mut self) {
        // It was allocated by this heap and is freed once, so this cannot fail.
        let freed = self.heap.free(self.offset);
        debug_assert!(freed.is_ok(), "{freed:?}");
    }
}
