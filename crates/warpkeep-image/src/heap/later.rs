//! Work on a heap that waits for others, and is left undone if the heap is gone by then.
//!
//! Such work is done by whoever finds that the waiting is over, on a thread that need not know the store at all. It must not still be at it when
//! the heap's owner has let go of it and somebody opens the image again: what it frees may be in use there.

use std::sync::{Arc, PoisonError, RwLock};

use super::Heap;
use crate::Persist;

/// Those who do late work on the heap of an image.
#[derive(Clone, Debug, Default)]
pub struct Latecomers(Arc<RwLock<()>>);

impl Latecomers {
    /// Waits until none of those is left who had begun. With the heap let go of before, nobody begins after that.
    pub fn wait(&self) {
        drop(self.0.write().unwrap_or_else(PoisonError::into_inner));
    }
}

impl<P: Persist> Heap<P> {
    /// Work to be done some time later, by anybody; nothing, if all owners have let go of the heap by then. What was to be freed is found free
    /// when the image is opened again.
    ///
    /// The work must not wait for an owner, nor do other late work: an owner may be waiting for it.
    pub fn later(
        self: &Arc<Self>,
        work: impl FnOnce(&Heap<P>) + Send + 'static,
    ) -> impl FnOnce() + Send + 'static {
        // Weak, so that what waits does not keep a store from being closed.
        let (heap, latecomers) = (Arc::downgrade(self), self.image.latecomers().clone());
        let owner = self.image.owner();
        move || {
            // A child made by `fork` has the work, too, and shares the image; and the thread that holds the lock may not exist there.
            if !owner.is_here() {
                return;
            }
            let _at_work = latecomers.0.read().unwrap_or_else(PoisonError::into_inner);
            let Some(heap) = heap.upgrade() else { return };
            work(&heap);
            // Here, while it is waited for: with it goes the image, and the lock on its file.
            drop(heap);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::{Coherent, Format, HeapOptions, Image, ImageError, MIN_CHUNK, PlainMemory, Surroundings};

    fn image() -> Arc<Image<Coherent>> {
        let memory = PlainMemory::new(4 * MIN_CHUNK, 8 * MIN_CHUNK);
        let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
        let surroundings = Surroundings::default();
        let image = Image::format(Arc::new(memory), Coherent, Path::new("memory"), &format, surroundings);
        let image = Arc::new(image.unwrap());
        image.begin(1).unwrap();
        image
    }

    fn heap(image: &Arc<Image<Coherent>>) -> Arc<Heap<Coherent>> {
        Arc::new(Heap::recover::<ImageError>(image, HeapOptions::default(), |_| Ok(())).unwrap())
    }

    #[test]
    fn who_opens_an_image_again_waits_for_those_still_at_work_on_it() {
        let image = image();
        let old = heap(&image);
        let done = Arc::new(AtomicBool::new(false));
        let (begun, has_begun) = mpsc::channel();
        let work = old.later({
            let done = Arc::clone(&done);
            move |heap| {
                begun.send(()).unwrap();
                std::thread::sleep(Duration::from_millis(200));
                assert_eq!(heap.usage().used_blocks(), 0);
                done.store(true, Ordering::SeqCst);
            }
        });
        let worker = std::thread::spawn(work);
        has_begun.recv().unwrap();
        drop(old);
        let _new = heap(&image);
        assert!(done.load(Ordering::SeqCst), "the image was opened again while the old heap was at work");
        worker.join().unwrap();
    }

    #[test]
    fn nothing_is_done_to_a_heap_that_is_gone() {
        let heap = heap(&image());
        let work = heap.later(|_| panic!("it is gone"));
        drop(heap);
        work();
    }
}
