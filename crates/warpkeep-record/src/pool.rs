//! Threads that are kept for batches large enough to be worth several.

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;

/// How often a thread polls for more work, or for the others to finish, before it sleeps: the parts of one batch
/// follow each other closely, and waking up takes longer than most waits.
const LOOKS: u32 = 4096;
/// A machine with this many cores leaves one free: see [`Pool::new`].
const SPARES_ONE: usize = 8;

/// Threads that help with large jobs. They are started when they are first needed, and have ended when this is
/// dropped.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use warpkeep_record::Pool;
///
/// let (pool, sum) = (Pool::new(2), AtomicUsize::new(0));
/// pool.run(100, |part| {
///     sum.fetch_add(part, Ordering::Relaxed);
/// });
/// assert_eq!(sum.into_inner(), 4950);
/// ```
pub struct Pool {
    threads: usize,
    shared: Arc<Shared>,
    helpers: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    /// Signals new work, or the end.
    news: Condvar,
    /// A helper has left its job.
    left: Condvar,
    /// Jobs that were posted so far, to be looked at without the lock.
    posted: AtomicUsize,
}

#[derive(Default)]
struct State {
    jobs: Vec<Arc<Job>>,
    over: bool,
}

/// Parts to be done, of which each thread takes the next.
struct Job {
    work: Work,
    parts: usize,
    next: AtomicUsize,
    /// Helpers that work on it. They join under the lock, and none joins once the job is off the list; a helper's
    /// last access to the work is to count itself down.
    at_it: AtomicUsize,
    panicked: AtomicBool,
}

/// The function that helpers call; it lives in the stack frame of the poster.
struct Work(*const (dyn Fn(usize) + Sync));

// SAFETY: the pointee is `Sync`, and the poster of the job keeps it until no helper works on it: see
// `Pool::run_beside`.
unsafe impl Send for Work {}
// SAFETY: the same.
unsafe impl Sync for Work {}

impl Job {
    /// Whether there are parts that no thread has taken.
    fn has_more(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.parts
    }

    /// Takes part after part until none is left.
    fn help(&self) {
        // SAFETY: the poster of the job waits for all threads that work on it, and the caller is one of them.
        let work = unsafe { &*self.work.0 };
        while !self.panicked.load(Ordering::Relaxed) {
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if part >= self.parts {
                return;
            }
            if catch_unwind(AssertUnwindSafe(|| work(part))).is_err() {
                self.panicked.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same for threads that have polled for work and all see it at the same time: each needs the lock for a
    /// moment only, and sleeping and waking one after the other would take longer than the work.
    fn state_soon(&self) -> MutexGuard<'_, State> {
        for _ in 0..LOOKS {
            match self.state.try_lock() {
                Ok(state) => return state,
                Err(TryLockError::Poisoned(state)) => return state.into_inner(),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        self.state()
    }

    /// The main loop of a helper.
    fn serve(&self) {
        let mut known = 0;
        loop {
            for _ in 0..LOOKS {
                if self.posted.load(Ordering::Relaxed) != known {
                    break;
                }
                std::hint::spin_loop();
            }
            let mut state = self.state_soon();
            let job = loop {
                known = self.posted.load(Ordering::Relaxed);
                if state.over {
                    return;
                }
                match state.jobs.iter().find(|job| job.has_more()) {
                    Some(job) => break Arc::clone(job),
                    None => state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner),
                }
            };
            job.at_it.fetch_add(1, Ordering::Relaxed);
            drop(state);
            job.help();
            if job.at_it.fetch_sub(1, Ordering::AcqRel) == 1 {
                // Under the lock: a helper either sees it before it sleeps, or is woken.
                let _state = self.state();
                self.left.notify_all();
            }
        }
    }
}

/// A posted job: off the list, with no helper working on it, once this is dropped, also after a panic.
struct Posted<'p> {
    shared: &'p Shared,
    job: Arc<Job>,
}

impl Drop for Posted<'_> {
    fn drop(&mut self) {
        self.shared.state().jobs.retain(|job| !Arc::ptr_eq(job, &self.job));
        let is_done = || self.job.at_it.load(Ordering::Acquire) == 0;
        for _ in 0..LOOKS {
            if is_done() {
                return;
            }
            std::hint::spin_loop();
        }
        let mut state = self.shared.state();
        while !is_done() {
            state = self.shared.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Pool {
    /// This many threads work at a time, including the caller; 0 stands for the number that suits the machine.
    ///
    /// That is one a core, and with eight cores or more one less. A batch is done when its slowest thread is, and
    /// other threads also need to run: the program's, the log's, a device driver's. If all cores are busy, one of
    /// ours waits until the system preempts another, which takes a slice of several milliseconds, longer than a
    /// batch. The free core costs at most an eighth of the rate, and less if memory is the bottleneck.
    pub fn new(threads: usize) -> Pool {
        let threads = match threads {
            0 => usual_threads(std::thread::available_parallelism().map_or(1, NonZero::get)),
            some => some,
        };
        let shared = Shared {
            state: Mutex::default(),
            news: Condvar::new(),
            left: Condvar::new(),
            posted: AtomicUsize::new(0),
        };
        Pool { threads, shared: Arc::new(shared), helpers: Mutex::default() }
    }

    /// How many threads work at a time, the caller among them.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs parts `0..parts`, each once and about in that order, on all threads. Returns when all are done.
    ///
    /// # Panics
    /// If one of them panics.
    pub fn run(&self, parts: usize, work: impl Fn(usize) + Sync) {
        match parts {
            0 => {}
            1 => work(0),
            _ => self.run_beside(parts, work, || ()),
        }
    }

    /// Passes each of these to some thread. Returns when all are done.
    ///
    /// # Panics
    /// If one of them panics.
    pub fn share<T: Send>(&self, parts: Vec<T>, work: impl Fn(T) + Sync) {
        self.share_beside(parts, work, || ());
    }

    /// The same; the caller does other work first, while the other threads have begun, and then helps.
    ///
    /// # Panics
    /// If one of them panics.
    pub fn share_beside<T: Send, R>(
        &self,
        parts: Vec<T>,
        work: impl Fn(T) + Sync,
        meanwhile: impl FnOnce() -> R,
    ) -> R {
        if self.threads == 1 {
            let result = meanwhile();
            parts.into_iter().for_each(work);
            return result;
        }
        let parts: Vec<Mutex<Option<T>>> = parts.into_iter().map(|part| Mutex::new(Some(part))).collect();
        let take = |part: usize| {
            let taken = parts[part].lock().unwrap_or_else(PoisonError::into_inner).take();
            taken.into_iter().for_each(&work);
        };
        self.run_beside(parts.len(), take, meanwhile)
    }

    /// The same; the caller does other work first, while the other threads have begun, and then helps.
    ///
    /// # Panics
    /// If one of them panics.
    pub fn run_beside<R>(
        &self,
        parts: usize,
        work: impl Fn(usize) + Sync,
        meanwhile: impl FnOnce() -> R,
    ) -> R {
        if parts == 0 || self.threads == 1 {
            let result = meanwhile();
            (0..parts).for_each(work);
            return result;
        }
        self.start();
        let work: &(dyn Fn(usize) + Sync) = &work;
        // SAFETY: only the lifetime is removed. Helpers call it while they work on the job, and `Posted` is
        // dropped, which waits for them, before `work` is.
        let work: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(work) };
        let job = Arc::new(Job {
            work: Work(work),
            parts,
            next: AtomicUsize::new(0),
            at_it: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
        });
        let posted = Posted { shared: &self.shared, job: Arc::clone(&job) };
        self.shared.state().jobs.push(Arc::clone(&job));
        self.shared.posted.fetch_add(1, Ordering::Relaxed);
        match parts {
            1 => self.shared.news.notify_one(),
            _ => self.shared.news.notify_all(),
        }
        let result = meanwhile();
        job.help();
        drop(posted);
        assert!(!job.panicked.load(Ordering::Relaxed), "a part of the work has panicked");
        result
    }

    /// Starts the helpers, unless they are running. If the machine has no more threads there are fewer, and the
    /// caller does the rest.
    fn start(&self) {
        let mut helpers = self.helpers.lock().unwrap_or_else(PoisonError::into_inner);
        if !helpers.is_empty() {
            return;
        }
        for _ in 1..self.threads {
            let shared = Arc::clone(&self.shared);
            let started =
                std::thread::Builder::new().name("warpkeep-helper".into()).spawn(move || shared.serve());
            helpers.extend(started.ok());
        }
    }
}

/// The number of threads that suits this many cores.
fn usual_threads(cores: usize) -> usize {
    if cores >= SPARES_ONE { cores - 1 } else { cores }
}

impl Default for Pool {
    /// As many threads as suit the machine.
    fn default() -> Pool {
        Pool::new(0)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.state().over = true;
        self.shared.posted.fetch_add(1, Ordering::Relaxed);
        self.shared.news.notify_all();
        let helpers = std::mem::take(&mut *self.helpers.lock().unwrap_or_else(PoisonError::into_inner));
        for helper in helpers {
            // Its panic was passed on to the poster of the work.
            let _ = helper.join();
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn every_part_once_by_any_number_of_threads() {
        for threads in [1, 2, 5] {
            let pool = Pool::new(threads);
            assert_eq!(pool.threads(), threads);
            for parts in [0, 1, 2, 1000] {
                let done: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
                pool.run(parts, |part| {
                    done[part].fetch_add(1, Ordering::Relaxed);
                });
                assert!(done.iter().all(|times| times.load(Ordering::Relaxed) == 1), "{threads}, {parts}");
            }
        }
    }

    #[test]
    fn several_threads_are_at_it_at_once_and_the_caller_beside_them() {
        let (pool, meeting) = (Pool::new(3), Barrier::new(3));
        // No thread passes it unless all of them arrive.
        let meet = || {
            meeting.wait();
        };
        pool.run_beside(2, |_| meet(), meet);
    }

    #[test]
    fn large_machines_spare_a_core() {
        assert_eq!([1, 2, 7, 8, 16, 64].map(usual_threads), [1, 2, 7, 7, 15, 63]);
        assert!(Pool::new(0).threads() >= 1);
    }

    /// Helpers that leave late, after the caller has gone to sleep, and early, while it still polls.
    #[test]
    fn the_caller_waits_for_those_who_are_at_it() {
        let pool = Pool::new(3);
        for wait in [0, 20] {
            let (done, begun) = (AtomicUsize::new(0), Barrier::new(3));
            pool.run(3, |_| {
                begun.wait();
                std::thread::sleep(std::time::Duration::from_millis(wait));
                done.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(done.into_inner(), 3);
        }
    }

    #[test]
    fn parts_are_given_to_one_each() {
        let mut rows = vec![0_usize; 100];
        for threads in [1, 3] {
            let parts: Vec<_> = rows.chunks_mut(7).enumerate().collect();
            Pool::new(threads).share(parts, |(number, part)| part.iter_mut().for_each(|row| *row += number));
        }
        assert!(rows.iter().enumerate().all(|(index, &row)| row == 2 * (index / 7)));
    }

    #[test]
    fn callers_share_the_helpers() {
        let (pool, sum) = (Pool::new(3), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        pool.run(20, |part| {
                            sum.fetch_add(part + 1, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(sum.into_inner(), 4 * 50 * 210);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = Pool::new(2);
        let failed = catch_unwind(AssertUnwindSafe(|| pool.run(50, |part| assert!(part != 7, "no sevens"))));
        assert!(failed.is_err());
        let sum = AtomicUsize::new(0);
        pool.run(10, |part| {
            sum.fetch_add(part, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 45);
        // The caller's own work may panic, too, and no helper works on a job that is gone.
        let done = AtomicUsize::new(0);
        let count = |_| {
            done.fetch_add(1, Ordering::Relaxed);
        };
        assert!(catch_unwind(AssertUnwindSafe(|| pool.run_beside(5, count, || panic!("no time")))).is_err());
        assert!(done.into_inner() <= 5);
    }

    #[test]
    fn nobody_is_left_when_it_is_dropped() {
        let pool = Pool::new(4);
        pool.run(100, |_| ());
        let shared = Arc::downgrade(&pool.shared);
        assert!(shared.upgrade().is_some());
        drop(pool);
        assert!(shared.upgrade().is_none(), "helpers have it as long as they run");
    }
}
