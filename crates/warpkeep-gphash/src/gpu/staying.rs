//! Items stay where they are while kernels look for them.

use std::cell::Cell;
use std::marker::PhantomData;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

thread_local! {
    /// How many [`Staying`] this thread has.
    static MINE: Cell<usize> = const { Cell::new(0) };
}

/// Those who look for items, or the one who moves them.
#[derive(Debug, Default)]
pub(super) struct Places(RwLock<()>);

impl Places {
    /// Keeps items where they are. A thread may do so several times: whoever waits to move items waits for the first of them, so the second must
    /// not wait for him.
    pub(super) fn stay(&self) -> Staying<'_> {
        let guard = if MINE.get() == 0 { self.0.read() } else { self.0.read_recursive() };
        MINE.set(MINE.get() + 1);
        Staying { _guard: guard, _of_this_thread: PhantomData }
    }

    /// Keeps those who look for items away.
    pub(super) fn moving(&self) -> Moving<'_> {
        Moving { _guard: self.0.write() }
    }
}

/// Nobody looks for items, which may be moved, for as long as there is this.
#[derive(Debug)]
#[must_use = "others look for items as soon as it is dropped"]
pub struct Moving<'p> {
    _guard: RwLockWriteGuard<'p, ()>,
}

/// Items stay where they are for as long as there is this. It stays with its thread, for which it counts.
#[derive(Debug)]
pub(crate) struct Staying<'p> {
    _guard: RwLockReadGuard<'p, ()>,
    _of_this_thread: PhantomData<*const ()>,
}

impl Drop for Staying<'_> {
    fn drop(&mut self) {
        MINE.set(MINE.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// With a lock that lets nobody past whoever waits for it, the second would wait for ever.
    #[test]
    fn a_thread_stays_twice_beside_one_who_waits_to_move() {
        let places = Places::default();
        let (done, is_done) = mpsc::channel();
        std::thread::scope(|scope| {
            let first = places.stay();
            let mover = scope.spawn(|| drop(places.moving()));
            // Until it waits.
            std::thread::sleep(Duration::from_millis(100));
            assert!(!mover.is_finished());
            let watch = scope.spawn(move || {
                let done: Result<(), _> = is_done.recv_timeout(Duration::from_secs(20));
                // There is no other way out of it.
                if done.is_err() {
                    eprintln!("the second waits for the one who waits for the first");
                    std::process::abort();
                }
            });
            let second = places.stay();
            done.send(()).unwrap();
            drop((first, second));
            mover.join().unwrap();
            watch.join().unwrap();
        });
        assert_eq!(MINE.get(), 0);
    }
}
