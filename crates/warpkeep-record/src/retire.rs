//! Records that are gone, freed once no reader can see them.
//!
//! `crossbeam-epoch` keeps deferred work with the thread that deferred it, until that thread has deferred 64 pieces: a thread that
//! writes a little and then rests would keep its blocks from everyone. So the work waits in lists that any thread can hand on.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_epoch::Guard;
use warpkeep_image::{Heap, Persist};

/// Threads share this many lists, so that they rarely meet.
const LISTS: usize = 16;
/// Pieces of work that are handed on together.
const TOGETHER: usize = 64;

type Work = Box<dyn FnOnce() + Send>;

/// Work that has not been handed to the epochs yet.
static WAITING: [Mutex<Vec<Work>>; LISTS] = [const { Mutex::new(Vec::new()) }; LISTS];
/// Pieces of work that are not done yet, handed on or not.
static UNDONE: AtomicUsize = AtomicUsize::new(0);

/// Frees records once no reader can hold them.
pub fn retire<P: Persist>(heap: &Arc<Heap<P>>, offsets: Vec<u64>, guard: &Guard) {
    if offsets.is_empty() {
        return;
    }
    let count = offsets.len() as u64;
    heap.count_retired(count);
    let work = heap.later(move |heap| {
        let freed = heap.free_soon(offsets);
        debug_assert!(freed.is_ok(), "{freed:?}");
        heap.count_returned(count);
    });
    when_unseen(work, guard);
}

/// Does something once no reader can see what was unlinked before this call.
pub fn when_unseen(work: impl FnOnce() + Send + 'static, guard: &Guard) {
    UNDONE.fetch_add(1, Ordering::Relaxed);
    let mut list = list(own_list());
    list.push(Box::new(work));
    if list.len() >= TOGETHER {
        let full = std::mem::take(&mut *list);
        drop(list);
        hand_on(full, guard);
    }
}

/// Whether something waits for readers.
pub fn is_something_retired() -> bool {
    UNDONE.load(Ordering::Relaxed) > 0
}

/// Frees some of what was replaced and can no longer be seen, whichever thread replaced it; otherwise that happens in the course
/// of later writes. All of it is free after a few calls, unless a reader stays in its epoch.
pub fn hasten_freeing() {
    let guard = crossbeam_epoch::pin();
    for number in 0..LISTS {
        let waiting = std::mem::take(&mut *list(number));
        if !waiting.is_empty() {
            hand_on(waiting, &guard);
        }
    }
    guard.flush();
}

/// Hands work to the epochs: it is done when every reader of now has gone.
fn hand_on(list: Vec<Work>, guard: &Guard) {
    guard.defer(move || {
        UNDONE.fetch_sub(list.len(), Ordering::Relaxed);
        list.into_iter().for_each(|work| work());
    });
    // Out of this thread's bag, which others cannot empty.
    guard.flush();
}

fn list(number: usize) -> MutexGuard<'static, Vec<Work>> {
    WAITING[number].lock().unwrap_or_else(PoisonError::into_inner)
}

fn own_list() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed) % LISTS);
    OWN.with(|own| *own)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn what_an_idle_thread_retired_is_freed_by_others() {
        let done = Arc::new(AtomicUsize::new(0));
        let (retired, is_retired) = mpsc::channel();
        let (end, may_end) = mpsc::channel::<()>();
        let idle = std::thread::spawn({
            let done = Arc::clone(&done);
            move || {
                let guard = crossbeam_epoch::pin();
                for _ in 0..5 {
                    let done = Arc::clone(&done);
                    let count = move || {
                        done.fetch_add(1, Ordering::Relaxed);
                    };
                    when_unseen(count, &guard);
                }
                drop(guard);
                retired.send(()).expect("the test waits");
                // It lives on and does nothing: its end would hand its work on.
                let _ = may_end.recv();
            }
        });
        is_retired.recv().expect("the thread retires");
        // Other tests may be reading; they do not for ever.
        for _ in 0..100_000 {
            hasten_freeing();
            if done.load(Ordering::Relaxed) == 5 {
                break;
            }
            std::thread::yield_now();
        }
        assert_eq!(done.load(Ordering::Relaxed), 5);
        drop(end);
        idle.join().expect("it ends");
    }
}
