//! An allocated block that is not reachable yet.

use super::Heap;
use super::cut::Cut;
use crate::{ImageError, Persist};

/// A freshly allocated block, owned by the code that allocated it until its offset is published.
///
/// Dropping it gives the space back: an insert that fails half way leaks nothing.
pub struct Block<'a, P: Persist> {
    heap: &'a Heap<P>,
    offset: u64,
    cut: Cut,
}

impl<'a, P: Persist> Block<'a, P> {
    pub(crate) fn new(heap: &'a Heap<P>, offset: u64, cut: Cut) -> Block<'a, P> {
        Block { heap, offset, cut }
    }

    /// Where it lies in the image; of a block in a [`Tile`](super::Tile), its name.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Its size in bytes; at least the requested size.
    pub fn size(&self) -> u64 {
        self.cut.block()
    }

    pub(crate) fn cut(&self) -> Cut {
        self.cut
    }

    /// Copies bytes into it, `at` bytes from its start.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), ImageError> {
        if at.checked_add(bytes.len() as u64).is_none_or(|end| end > self.size()) {
            return Err(ImageError::Invalid(format!(
                "{} bytes at {at} do not fit a block of {}",
                bytes.len(),
                self.size()
            )));
        }
        for (place, part) in self.cut.parts(self.offset, at, bytes.len() as u64) {
            if !part.is_empty() {
                // SAFETY: the block is not reachable yet, and `&mut self` is the only handle to it.
                unsafe { self.heap.image().write(place, &bytes[part.start as usize..part.end as usize]) };
            }
        }
        Ok(())
    }

    /// Flushes its first `len` bytes; they are durable after the next fence. In a tile, the tail lies elsewhere and
    /// has a site of its own.
    pub fn flush(&self, [site, tail]: [&'static str; 2], len: u64) {
        for ((place, part), site) in
            self.cut.parts(self.offset, 0, len.min(self.size())).into_iter().zip([site, tail])
        {
            if !part.is_empty() {
                self.heap.image().flush(site, place, part.end - part.start);
            }
        }
    }

    /// Makes its first `len` bytes durable and returns the offset, which can be published now.
    #[must_use = "a block that is not published is lost until the image is opened again"]
    pub fn persist(self, site: &'static str, len: u64) -> u64 {
        self.flush([site; 2], len);
        self.heap.image().fence(site);
        self.into_offset()
    }

    /// Returns the offset without making the block durable: for callers that flush and fence many blocks at once.
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
