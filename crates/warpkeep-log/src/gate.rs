//! The writers' gate: a checkpoint waits for the writers inside without stopping later ones.
//!
//! A writer counts itself in under the current phase and out again under the same one. To wait for all writers that
//! are inside, the waiter first drains the other phase (writers that read the phase just before it last turned and
//! counted themselves in late), then turns the phase, so that newcomers count elsewhere, and drains the one it
//! left. Each count can only fall once its phase is left, so the wait ends however many writers keep coming.

use std::cell::Cell;
use std::fmt;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Enough that threads seldom share a line; few enough that a waiter looks at them quickly.
const SHARDS: usize = 32;

#[repr(align(128))]
#[derive(Default)]
struct Shard([AtomicUsize; 2]);

#[derive(Default)]
pub(crate) struct Gate {
    phase: AtomicUsize,
    shards: [Shard; SHARDS],
    /// Two waiters at once would turn the phase under each other.
    waiting: Mutex<()>,
}

/// A writer inside the gate. Held from before the writer draws its number or applies its effect, whichever is
/// first, until both have happened.
#[must_use = "the gate is left when the guard is dropped"]
pub struct OpGuard<'a> {
    count: &'a AtomicUsize,
}

impl fmt::Debug for OpGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpGuard").finish_non_exhaustive()
    }
}

impl Drop for OpGuard<'_> {
    fn drop(&mut self) {
        // Release: the waiter that sees this writer gone also sees its writes.
        self.count.fetch_sub(1, Ordering::Release);
    }
}

fn shard_of_this_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
    }
    SHARD.with(Cell::get)
}

impl Gate {
    pub(crate) fn enter(&self) -> OpGuard<'_> {
        let phase = self.phase.load(Ordering::SeqCst) & 1;
        let count = &self.shards[shard_of_this_thread()].0[phase];
        count.fetch_add(1, Ordering::SeqCst);
        OpGuard { count }
    }

    /// Returns when every writer that was inside at the time of the call has left.
    pub(crate) fn wait_for_present(&self) {
        let _alone = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let phase = self.phase.load(Ordering::SeqCst);
        self.drain((phase + 1) & 1);
        self.phase.store(phase.wrapping_add(1), Ordering::SeqCst);
        self.drain(phase & 1);
    }

    fn drain(&self, phase: usize) {
        for shard in &self.shards {
            let mut looks = 0u32;
            while shard.0[phase].load(Ordering::SeqCst) != 0 {
                looks += 1;
                match looks {
                    0..64 => std::hint::spin_loop(),
                    64..96 => std::thread::yield_now(),
                    _ => std::thread::sleep(Duration::from_micros(100)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64};
    use std::sync::{Arc, mpsc};
    use std::thread;

    use super::*;

    #[test]
    fn waits_for_those_inside_and_for_no_one_else() {
        let gate = Arc::new(Gate::default());
        let inside = gate.enter();
        let (done, is_done) = mpsc::channel();
        let waiter = thread::spawn({
            let gate = Arc::clone(&gate);
            move || {
                gate.wait_for_present();
                done.send(()).unwrap();
            }
        });
        assert!(is_done.recv_timeout(Duration::from_millis(30)).is_err());
        let newcomer = gate.enter();
        drop(inside);
        is_done.recv_timeout(Duration::from_secs(10)).expect("the newcomer holds nobody up");
        drop(newcomer);
        waiter.join().unwrap();
    }

    #[test]
    fn what_was_begun_before_is_finished_after() {
        let gate = Gate::default();
        let (begun, finished, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let _guard = gate.enter();
                    begun.fetch_add(1, Ordering::SeqCst);
                    thread::yield_now();
                    finished.fetch_add(1, Ordering::SeqCst);
                }
            });
            for _ in 0..300 {
                let before = begun.load(Ordering::SeqCst);
                gate.wait_for_present();
                assert!(finished.load(Ordering::SeqCst) >= before);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
