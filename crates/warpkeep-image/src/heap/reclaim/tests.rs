use std::path::Path;
use std::sync::mpsc;

use super::*;
use crate::{Coherent, Format, HeapOptions, Image, ImageError, MIN_CHUNK, PlainMemory, Surroundings};

/// Calls of [`Heap::reclaim`] after which everything is free that no reader holds up.
const ENOUGH: usize = 8;

fn image() -> Arc<Image<Coherent>> {
    let memory = PlainMemory::new(4 * MIN_CHUNK, 64 * MIN_CHUNK);
    let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
    let surroundings = Surroundings::default();
    let image = Image::format(Arc::new(memory), Coherent, Path::new("memory"), &format, surroundings);
    let image = Arc::new(image.unwrap());
    image.begin(1).unwrap();
    image
}

fn heap() -> Heap<Coherent> {
    Heap::recover::<ImageError>(&image(), HeapOptions::default(), |_| Ok(())).unwrap()
}

fn block(heap: &Heap<Coherent>) -> u64 {
    heap.allocate(64).unwrap().into_offset()
}

fn used(heap: &Heap<Coherent>) -> u64 {
    heap.usage().used_blocks()
}

fn retire_one(heap: &Heap<Coherent>) {
    let block = block(heap);
    heap.retire(vec![block], &heap.pin());
}

fn reclaim(heap: &Heap<Coherent>) {
    (0..ENOUGH).for_each(|_| heap.reclaim());
}

/// A thread that does something with the heap and then rests until it is let go.
fn resting<'s, 'h: 's>(
    scope: &'s std::thread::Scope<'s, '_>,
    heap: &'h Heap<Coherent>,
    first: impl FnOnce(&Heap<Coherent>) -> Option<Guard> + Send + 'h,
) -> mpsc::Sender<()> {
    let (begun, has_begun) = mpsc::channel();
    let (end, may_end) = mpsc::channel::<()>();
    scope.spawn(move || {
        let _guard = first(heap);
        begun.send(()).unwrap();
        let _ = may_end.recv();
    });
    has_begun.recv().unwrap();
    end
}

#[test]
fn other_threads_free_what_a_resting_thread_retired() {
    let heap = heap();
    std::thread::scope(|scope| {
        // It lives on and does nothing: its end would hand its work to the epochs.
        let end = resting(scope, &heap, |heap| {
            (0..5).for_each(|_| retire_one(heap));
            None
        });
        assert_eq!(used(&heap), 5);
        reclaim(&heap);
        assert_eq!((used(&heap), heap.has_deferred()), (0, false));
        drop(end);
    });
}

#[test]
fn only_readers_of_the_same_heap_are_waited_for() {
    let (one, other) = (heap(), heap());
    std::thread::scope(|scope| {
        let end = resting(scope, &other, |other| Some(other.pin()));
        let held = other.pin();
        retire_one(&one);
        retire_one(&other);
        reclaim(&one);
        reclaim(&other);
        assert_eq!((used(&one), used(&other)), (0, 1));
        drop(held);
        reclaim(&other);
        assert_eq!(used(&other), 1, "the other thread is still pinned");
        drop(end);
    });
    reclaim(&other);
    assert_eq!(used(&other), 0);
}

#[test]
fn a_reader_that_ends_leaves_the_other_readers_pinned() {
    let heap = heap();
    let guard = heap.pin();
    for _ in 0..10 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _nested = (heap.pin(), heap.pin());
                retire_one(&heap);
            });
        });
    }
    reclaim(&heap);
    assert_eq!(used(&heap), 10, "this thread may hold them");
    drop(guard);
    reclaim(&heap);
    assert_eq!(used(&heap), 0);
}

#[test]
fn a_heap_that_is_dropped_completes_its_work_and_no_other() {
    let (one, other) = (heap(), heap());
    let image = Arc::clone(one.image());
    let done = Arc::new(AtomicUsize::new(0));
    let count = |heap: &Heap<Coherent>| {
        for _ in 0..100 {
            let done = Arc::clone(&done);
            let extent = heap.allocate_extent(1).unwrap();
            let free = move |heap: &Heap<Coherent>| {
                heap.free_extent(extent).unwrap();
                done.fetch_add(1, Ordering::Relaxed);
            };
            heap.defer(free, &heap.pin());
            if heap.usage().free_chunks == 0 {
                reclaim(heap);
            }
        }
    };
    count(&one);
    let before = done.load(Ordering::Relaxed);
    assert!(before < 100, "something is left");
    let extent = other.allocate_extent(1).unwrap();
    other.defer(move |_| unreachable!("{extent} is of a heap that is in use"), &other.pin());
    drop(one);
    assert_eq!(done.load(Ordering::Relaxed), 100);
    assert_eq!(Arc::strong_count(&image), 1, "and lets go of its image");
    let again = Heap::recover::<ImageError>(&image, HeapOptions::default(), |_| Ok(())).unwrap();
    assert_eq!((used(&again), again.usage().extents), (0, 0));
    // Not to be run: it would fail.
    std::mem::forget(other);
}

#[test]
fn memory_of_a_dropped_heap_does_not_wait_for_resting_threads() {
    let first = Arc::new(heap());
    let memory = Arc::new(());
    std::thread::scope(|scope| {
        let (end, may_end) = mpsc::channel::<()>();
        let (begun, has_begun) = mpsc::channel();
        let heap = Arc::clone(&first);
        scope.spawn(move || {
            drop(heap.pin());
            drop(heap);
            begun.send(()).unwrap();
            // It has been a reader, and lives on.
            let _ = may_end.recv();
        });
        has_begun.recv().unwrap();
        let theirs = Arc::clone(&memory);
        first.pin().defer(move || drop(theirs));
        drop(Arc::into_inner(first).expect("the only owner"));
        assert_eq!(Arc::strong_count(&memory), 1);
        drop(end);
    });
}

#[test]
fn a_thread_forgets_heaps_that_are_gone() {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let kept = heap();
            drop(kept.pin());
            for _ in 0..50 {
                drop(heap().pin());
            }
            drop(kept.pin());
            let known = READERS.with(|readers| readers.borrow().len());
            assert!(known <= 3, "it knows {known}");
        });
    });
}

#[test]
fn a_damaged_heap_can_be_dropped() {
    let heap = heap();
    let block = block(&heap);
    // Twice, as a table does whose words were damaged.
    (0..2).for_each(|_| heap.retire(vec![block], &heap.pin()));
    drop(heap);
}
