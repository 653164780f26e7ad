//! A value that threads share until it is ended: calls in progress are waited for, later ones are refused, and the value can be taken out.
//!
//! There are two ways to use the value. A call that may take long *enters*: it increments a counter, checks that the value was not ended, and
//! decrements the counter when it returns. A single lookup *reads*: it pins the epochs of the heap, as it does anyway, and checks the same
//! word after that, so it stores nothing else. Ending the value sets the word; the value can be taken when every
//! counter was zero once since then, and every pin of that time is gone.

use std::cell::{RefCell, UnsafeCell};
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use warpkeep_image::{Epochs, Guard};

/// Threads share this many counters, so that two of them rarely write to one line.
const SHARDS: usize = 32;
/// How long a thread sleeps between two attempts to take the value.
const PAUSE: Duration = Duration::from_micros(100);

#[repr(align(128))]
#[derive(Default)]
struct Shard(AtomicUsize);

/// A value that can be ended while other threads use it.
pub(crate) struct Closable<T> {
    /// [`OPEN`], or the code that it was ended with.
    state: AtomicU8,
    value: UnsafeCell<Option<T>>,
    epochs: Epochs,
    calls: [Shard; SHARDS],
    ending: Mutex<Ending>,
}

const OPEN: u8 = 0;

/// The state of the users that had the value when it was ended.
#[derive(Default)]
struct Ending {
    /// Counters that were zero since.
    drained: usize,
    /// Set once no pin of that time is left.
    unpinned: Option<Arc<AtomicBool>>,
}

/// A lookup that uses the value.
pub(crate) struct Read<'a, T> {
    value: &'a T,
    /// Keeps the value from being taken.
    guard: Guard,
}

/// A call that uses the value. It stays on the thread that made it.
pub(crate) struct Entered<'a, T> {
    count: &'a AtomicUsize,
    value: &'a T,
    _thread: PhantomData<*const ()>,
}

// SAFETY: the value is shared as in an `RwLock`: `&T` is given out while it is open, and it is moved out by the one thread that finds
// it ended and no longer used, under the lock of `ending`.
unsafe impl<T: Send + Sync> Sync for Closable<T> {}

thread_local! {
    /// The counters that calls of this thread have incremented, innermost last.
    static INSIDE: RefCell<Vec<*const AtomicUsize>> = const { RefCell::new(Vec::new()) };
}

fn shard_of_this_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static SHARD: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
    SHARD.with(|shard| *shard)
}

impl<T> Closable<T> {
    /// Lookups pin these epochs.
    pub(crate) fn new(value: T, epochs: Epochs) -> Closable<T> {
        Closable {
            state: AtomicU8::new(OPEN),
            value: UnsafeCell::new(Some(value)),
            epochs,
            calls: Default::default(),
            ending: Mutex::default(),
        }
    }

    /// The value, for a lookup; the code that it was ended with otherwise.
    #[inline]
    pub(crate) fn read(&self) -> Result<Read<'_, T>, u8> {
        let guard = self.epochs.pin();
        match self.state.load(Ordering::Acquire) {
            // SAFETY: it was open after the epochs were pinned, and it is not taken before that pin is gone.
            OPEN => Ok(Read { value: unsafe { self.shared() }, guard }),
            code => Err(code),
        }
    }

    /// The value, until the call ends; the code that it was ended with otherwise.
    pub(crate) fn enter(&self) -> Result<Entered<'_, T>, u8> {
        let count = &self.calls[shard_of_this_thread()].0;
        // The counter before the state, and `end` the state before the counters: one of the two sees the other.
        count.fetch_add(1, Ordering::SeqCst);
        match self.state.load(Ordering::SeqCst) {
            OPEN => {
                INSIDE.with_borrow_mut(|inside| inside.push(count));
                // SAFETY: it was open after this call was counted, and it is not taken before the counter is zero.
                let value = unsafe { self.shared() };
                Ok(Entered { count, value, _thread: PhantomData })
            }
            code => {
                count.fetch_sub(1, Ordering::Release);
                Err(code)
            }
        }
    }

    /// # Safety
    ///
    /// The value is not taken while the reference lives.
    #[inline]
    unsafe fn shared(&self) -> &T {
        // SAFETY: nothing refers to it mutably but `try_take`, which the caller excludes.
        let value = unsafe { &*self.value.get() };
        match value {
            Some(value) => value,
            None => unreachable!("it is taken only after it was ended"),
        }
    }

    /// Whether this thread is in a call that uses the value: it would wait for itself.
    pub(crate) fn is_entered_here(&self) -> bool {
        let own = self.calls.as_ptr_range();
        let own = own.start.cast::<AtomicUsize>()..own.end.cast();
        INSIDE.with_borrow(|inside| inside.iter().any(|count| own.contains(count)))
    }

    /// Refuses all calls from now on with this code, which is not zero, unless it was ended before.
    pub(crate) fn end(&self, code: u8) {
        let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        if ending.unpinned.is_some() {
            return;
        }
        self.state.store(code, Ordering::SeqCst);
        let unpinned = Arc::new(AtomicBool::new(false));
        ending.unpinned = Some(Arc::clone(&unpinned));
        let guard = self.epochs.pin();
        guard.defer(move || unpinned.store(true, Ordering::Release));
        // Out of this thread's bag, which other threads cannot empty.
        guard.flush();
    }

    /// Takes the value out, if it was ended and is no longer used; `None` also if it was taken before.
    pub(crate) fn try_take(&self) -> Option<T> {
        let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        let unpinned = ending.unpinned.as_ref()?.load(Ordering::Acquire);
        while ending.drained < SHARDS {
            // A call that is counted after this sees that the value was ended.
            if self.calls[ending.drained].0.load(Ordering::SeqCst) != 0 {
                return None;
            }
            ending.drained += 1;
        }
        if !unpinned {
            return None;
        }
        // SAFETY: no thread uses it: calls and pins that found it open are gone, and this lock excludes other
        // takers.
        unsafe { &mut *self.value.get() }.take()
    }

    /// Takes the value out once the calls in progress have returned; `None` if it was taken before. It was ended, and this thread is in none of the
    /// calls.
    pub(crate) fn take(&self) -> Option<T> {
        loop {
            if let Some(value) = self.try_take() {
                return Some(value);
            }
            if self.is_taken() {
                return None;
            }
            self.advance();
            std::thread::sleep(PAUSE);
        }
    }

    /// Advances the epochs, unless a reader pins them: no other thread may be doing so.
    pub(crate) fn advance(&self) {
        self.epochs.pin().flush();
    }

    fn is_taken(&self) -> bool {
        let _ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the lock excludes takers; all other accesses only read.
        unsafe { &*self.value.get() }.is_none()
    }
}

impl<T> Read<'_, T> {
    /// The guard that pins the epochs.
    #[inline]
    pub(crate) fn guard(&self) -> &Guard {
        &self.guard
    }
}

impl<T> Deref for Read<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.value
    }
}

impl<'a, T> Entered<'a, T> {
    /// The value, independent of the borrow of this call.
    ///
    /// # Safety
    /// The reference is not used after the call is dropped.
    pub(crate) unsafe fn value(&self) -> &'a T {
        self.value
    }
}

impl<T> Deref for Entered<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> Drop for Entered<'_, T> {
    fn drop(&mut self) {
        INSIDE.with_borrow_mut(|inside| {
            let last = inside.iter().rposition(|&count| std::ptr::eq(count, self.count));
            last.map(|last| inside.remove(last));
        });
        // Release: everything the call did happens before the value is taken.
        self.count.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicU64;
    use std::sync::mpsc;

    use warpkeep_image::{
        Coherent, Format, Heap, HeapOptions, Image, ImageError, MIN_CHUNK, PlainMemory, Surroundings,
    };

    use super::*;

    /// A value that readers share by the epochs of some heap.
    fn closable<T>(value: T) -> Closable<T> {
        let memory = PlainMemory::new(4 * MIN_CHUNK, 8 * MIN_CHUNK);
        let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
        let image =
            Image::format(Arc::new(memory), Coherent, Path::new("memory"), &format, Surroundings::default());
        let image = Arc::new(image.expect("formatted"));
        image.begin(1).expect("begun");
        let heap = Heap::recover::<ImageError>(&image, HeapOptions::default(), |_| Ok(())).expect("a heap");
        // The heap is dropped, its epochs stay: as with a handle of a closed store.
        Closable::new(value, heap.epochs().clone())
    }

    /// A value that records whether it is alive.
    struct Alive(AtomicBool);

    impl Drop for Alive {
        fn drop(&mut self) {
            self.0.store(false, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_call_in_progress_is_waited_for_and_later_ones_are_refused() {
        let shared = Arc::new(closable(7));
        let (inside, is_inside) = mpsc::channel();
        let (leave, may_leave) = mpsc::channel::<()>();
        let caller = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let call = shared.enter().expect("open");
                inside.send(()).expect("the test waits");
                may_leave.recv().expect("the test sends");
                *call
            }
        });
        is_inside.recv().expect("it enters");
        shared.end(3);
        shared.end(4);
        assert_eq!(shared.enter().err(), Some(3));
        assert_eq!(shared.read().err(), Some(3));
        for _ in 0..100 {
            shared.advance();
        }
        assert_eq!(shared.try_take(), None, "a call is in progress");
        leave.send(()).expect("it waits");
        assert_eq!(shared.take(), Some(7));
        assert_eq!(shared.take(), None);
        assert_eq!(caller.join().expect("it ends"), 7);
    }

    #[test]
    fn a_read_in_progress_is_waited_for() {
        let shared = closable(7);
        let value = shared.read().expect("open");
        shared.end(1);
        for _ in 0..100 {
            shared.advance();
        }
        assert_eq!(shared.try_take(), None, "a reader has it");
        assert_eq!(*value, 7);
        drop(value);
        assert_eq!(shared.take(), Some(7));
    }

    #[test]
    fn a_thread_knows_what_it_is_in() {
        let (one, other) = (closable(1), closable(2));
        assert!(!one.is_entered_here());
        let outer = one.enter().expect("open");
        let inner = one.enter().expect("open");
        assert!(one.is_entered_here() && !other.is_entered_here());
        drop(outer);
        assert!(one.is_entered_here());
        drop(inner);
        assert!(!one.is_entered_here());
    }

    #[test]
    fn nobody_sees_a_value_that_was_taken() {
        let seen = AtomicU64::new(0);
        for round in 0..16 {
            let shared = closable(Alive(AtomicBool::new(true)));
            std::thread::scope(|scope| {
                for reader in 0..3 {
                    let (shared, seen) = (&shared, &seen);
                    scope.spawn(move || {
                        loop {
                            let ended = if reader == 0 {
                                shared.read().map(|value| assert!(value.0.load(Ordering::SeqCst)))
                            } else {
                                shared.enter().map(|value| assert!(value.0.load(Ordering::SeqCst)))
                            };
                            if ended.is_err() {
                                break;
                            }
                            seen.fetch_add(1, Ordering::Relaxed);
                            std::thread::yield_now();
                        }
                    });
                }
                (0..round).for_each(|_| std::thread::yield_now());
                shared.end(1);
                drop(shared.take());
            });
        }
        assert!(seen.load(Ordering::Relaxed) > 0);
    }
}
