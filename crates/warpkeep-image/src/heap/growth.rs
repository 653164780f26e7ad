//! Preparation of new bytes of a growing image, before they are used.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use super::Heap;
use crate::Persist;

/// Called when the image has grown and the new part is still empty; returns whether it wants to be called again.
type Prepare = dyn Fn() -> bool + Send + Sync;

/// The callbacks that prepare new parts of the image.
#[derive(Default)]
pub(super) struct Growth(RwLock<Vec<Arc<Prepare>>>);

impl Growth {
    pub(super) fn prepare(&self) {
        let all: Vec<Arc<Prepare>> = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        for prepare in all {
            if !prepare() {
                let mut listed = self.0.write().unwrap_or_else(PoisonError::into_inner);
                listed.retain(|other| !Arc::ptr_eq(other, &prepare));
            }
        }
    }
}

impl fmt::Debug for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = self.0.read().unwrap_or_else(PoisonError::into_inner).len();
        write!(f, "Growth({listed})")
    }
}

impl<P: Persist> Heap<P> {
    /// Registers a callback that prepares every new part of the image before it is used, for example by registering
    /// it with a device. The thread that made the image grow calls it, with no locks held, until it returns
    /// `false`; several threads may call it at once.
    pub fn on_growth(&self, prepare: impl Fn() -> bool + Send + Sync + 'static) {
        self.growth.0.write().unwrap_or_else(PoisonError::into_inner).push(Arc::new(prepare));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::{Coherent, Format, HeapOptions, Image, ImageError, MIN_CHUNK, PlainMemory, Surroundings};

    #[test]
    fn new_parts_are_prepared_before_they_are_used() {
        let memory = PlainMemory::new(2 * MIN_CHUNK, 40 * MIN_CHUNK);
        let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
        let surroundings = Surroundings::default();
        let image =
            Image::format(Arc::new(memory), Coherent, Path::new("memory"), &format, surroundings).unwrap();
        image.begin(1).unwrap();
        let image = Arc::new(image);
        let options = HeapOptions::default();
        let heap = Heap::recover::<ImageError>(&image, options, |_| Ok(())).unwrap();
        let prepared = Arc::new(AtomicU64::new(image.len()));
        let (noted, grown, calls) = (Arc::clone(&prepared), Arc::clone(&image), AtomicU64::new(0));
        heap.on_growth(move || {
            noted.store(grown.len(), Ordering::Relaxed);
            calls.fetch_add(1, Ordering::Relaxed) < 20
        });
        let once = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&once);
        heap.on_growth(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            false
        });
        for _ in 0..16 {
            let at = heap.allocate_extent(MIN_CHUNK).unwrap();
            assert!(at + MIN_CHUNK <= prepared.load(Ordering::Relaxed), "{at}");
        }
        assert_eq!(once.load(Ordering::Relaxed), 1);
    }
}
