//! Checkpoints of a store: one at a time, those that no caller requests by a background thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use warpkeep_image::Persist;
use warpkeep_log::CheckpointInfo;

use crate::{Items, Keeper, Result, metrics};

/// How long the thread waits after the first failure; twice as long after each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The state of a store's checkpoints: the running one, the completed ones, failures.
#[derive(Default)]
pub(crate) struct Checkpoints {
    state: Mutex<State>,
    /// A run has ended, a checkpoint is requested, or the thread is to end.
    changed: Condvar,
    /// The run in progress is to be given up.
    cancelled: AtomicBool,
    /// Items that the run in progress has written, and about how many there are; 0 of 0 if there is none.
    written: AtomicU64,
    expected: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Runs that were begun.
    begun: u64,
    is_running: bool,
    /// The last completed run: its number, its time, and the checkpoint.
    last: Option<(u64, SystemTime, CheckpointInfo)>,
    /// Runs that were completed, and runs that failed.
    completed: u64,
    failed: u64,
    /// Failures since the last success, and the last of them.
    failed_in_a_row: u32,
    error: Option<String>,
    /// The thread in the background is to make one, but not before this moment.
    requested: bool,
    not_before: Option<Instant>,
    stop: bool,
}

/// How checkpoints stand.
#[derive(Clone, Debug, Default)]
pub(crate) struct CheckpointStatus {
    pub(crate) is_running: bool,
    /// Items that the run in progress has written, and about how many there are to write.
    pub(crate) written: u64,
    pub(crate) expected: u64,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    /// The time of the last completed one, and the checkpoint.
    pub(crate) last: Option<(SystemTime, CheckpointInfo)>,
    /// Why the last attempt failed, if it did.
    pub(crate) error: Option<String>,
}

/// Ends the run even if the checkpoint panics: otherwise other callers would wait for ever.
struct Running<'a>(&'a Checkpoints);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.expect(0);
        self.0.lock().is_running = false;
        self.0.changed.notify_all();
    }
}

impl Checkpoints {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a checkpoint with `make`, or shares one that another caller begins after this call: it includes
    /// everything this caller has seen. One that is already in progress is waited for, not shared.
    pub(crate) fn run(&self, make: impl FnOnce() -> Result<CheckpointInfo>) -> Result<CheckpointInfo> {
        let mut state = self.lock();
        let first_shared = state.begun + 1;
        loop {
            if let Some((run, _, info)) = state.last
                && run >= first_shared
            {
                return Ok(info);
            }
            if !state.is_running {
                break;
            }
            state = self.wait(state);
        }
        self.lead(state, make)
    }

    /// Makes a checkpoint with `make` while it is needed, checked again after one in progress.
    pub(crate) fn run_while(
        &self,
        is_needed: impl Fn() -> bool,
        make: impl FnOnce() -> Result<CheckpointInfo>,
    ) -> Result<()> {
        let mut state = self.lock();
        while is_needed() {
            if !state.is_running {
                return self.lead(state, make).map(drop);
            }
            state = self.wait(state);
        }
        Ok(())
    }

    fn lead(
        &self,
        mut state: MutexGuard<'_, State>,
        make: impl FnOnce() -> Result<CheckpointInfo>,
    ) -> Result<CheckpointInfo> {
        state.begun += 1;
        state.is_running = true;
        let run = state.begun;
        drop(state);
        let running = Running(self);
        let made = make();
        let mut state = self.lock();
        match &made {
            Ok(info) => {
                state.completed += 1;
                state.last = Some((run, SystemTime::now(), *info));
                (state.failed_in_a_row, state.error, state.not_before) = (0, None, None);
                // Requests made meanwhile, too: if the log is still too long, a checkpoint is requested again.
                state.requested = false;
            }
            Err(_) if self.is_cancelled() => {}
            Err(error) => {
                let pause = FIRST_PAUSE.saturating_mul(1 << state.failed_in_a_row.min(16)).min(LONGEST_PAUSE);
                state.failed += 1;
                state.failed_in_a_row += 1;
                state.error = Some(error.to_string());
                state.not_before = Some(Instant::now() + pause);
                metrics::checkpoint_failed();
            }
        }
        drop(state);
        drop(running);
        made
    }

    /// The run in progress has about this many items to write.
    pub(crate) fn expect(&self, items: u64) {
        self.written.store(0, Ordering::Relaxed);
        self.expected.store(items, Ordering::Relaxed);
    }

    /// The run in progress has written this many.
    pub(crate) fn note_written(&self, items: u64) {
        self.written.store(items, Ordering::Relaxed);
    }

    /// Has a checkpoint made in the background, soon.
    pub(crate) fn request(&self) {
        let mut state = self.lock();
        if !state.requested {
            state.requested = true;
            self.changed.notify_all();
        }
    }

    /// Whether the run in progress is to be given up: the store is being closed.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// How checkpoints stand.
    pub(crate) fn status(&self) -> CheckpointStatus {
        let state = self.lock();
        CheckpointStatus {
            is_running: state.is_running,
            written: self.written.load(Ordering::Relaxed),
            expected: self.expected.load(Ordering::Relaxed),
            completed: state.completed,
            failed: state.failed,
            last: state.last.map(|(_, at, info)| (at, info)),
            error: state.error.clone(),
        }
    }

    /// Waits until a checkpoint is requested and may be tried; `false` once the thread is to end.
    fn wait_for_request(&self) -> bool {
        let mut state = self.lock();
        while !state.stop {
            let pause = state.not_before.map(|at| at.saturating_duration_since(Instant::now()));
            match pause.filter(|pause| !pause.is_zero()) {
                _ if !state.requested => state = self.wait(state),
                Some(pause) => {
                    let waited = self.changed.wait_timeout(state, pause);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                None => {
                    state.requested = false;
                    return true;
                }
            }
        }
        false
    }
}

/// The thread that makes the checkpoints that are [requested](Checkpoints::request).
pub(crate) struct Checkpointer {
    checkpoints: Arc<Checkpoints>,
    thread: JoinHandle<()>,
}

impl Checkpointer {
    /// Starts it; `None` if the system gives no thread.
    pub(crate) fn start<P: Persist, I: Items<P> + 'static>(
        keeper: &Arc<Keeper<P, I>>,
    ) -> Option<Checkpointer> {
        let checkpoints = Arc::clone(keeper.checkpoints());
        let keeper = Arc::clone(keeper);
        let thread = std::thread::Builder::new().name("warpkeep-checkpoints".into());
        let thread = thread.spawn(move || {
            while keeper.checkpoints().wait_for_request() {
                let made = match keeper.log() {
                    // A `Power` batch may be making it.
                    Some(log) if log.owes_checkpoint() => keeper.checkpoint_if_owed(log),
                    _ => keeper.checkpoint().map(drop),
                };
                // Why it failed is kept in the status; it is tried again after a pause.
                if made.is_err() {
                    keeper.checkpoints().request();
                }
            }
        });
        thread.ok().map(|thread| Checkpointer { checkpoints, thread })
    }

    /// Ends it. A checkpoint in progress is given up: closing a store must not wait for all of its items.
    pub(crate) fn stop(self) {
        self.checkpoints.cancelled.store(true, Ordering::Relaxed);
        self.checkpoints.lock().stop = true;
        self.checkpoints.changed.notify_all();
        // It has no result; a panic in it has failed the checkpoint alone.
        let _ = self.thread.join();
        self.checkpoints.cancelled.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::sync::mpsc;

    use warpkeep_core::Lsn;

    use super::*;
    use crate::Error;

    fn info(id: u64) -> CheckpointInfo {
        CheckpointInfo { id, start: Lsn::ZERO, end: Lsn::ZERO, changes: 0, bytes: 0 }
    }

    /// While one runs, many callers request one: none shares the one that began before its request.
    #[test]
    fn callers_share_a_checkpoint_that_begins_after_they_asked() {
        let checkpoints = Checkpoints::default();
        let (begun, made) = (mpsc::channel(), AtomicU64::new(0));
        let (go, may_go) = mpsc::channel();
        let may_go = Mutex::new(may_go);
        let make = || {
            let id = made.fetch_add(1, Ordering::SeqCst) + 1;
            begun.0.send(id).expect("the test waits");
            may_go.lock().expect("no panic").recv().expect("the test sends");
            Ok(info(id))
        };
        std::thread::scope(|scope| {
            let first = scope.spawn(|| checkpoints.run(make).expect("made").id);
            assert_eq!(begun.1.recv().expect("begun"), 1);
            let later: Vec<_> =
                (0..4).map(|_| scope.spawn(|| checkpoints.run(make).expect("made").id)).collect();
            go.send(()).expect("the first waits");
            assert_eq!(first.join().expect("no panic"), 1);
            // A late caller begins another checkpoint; each of them may end.
            later.iter().for_each(|_| go.send(()).expect("the test holds the other end"));
            let ids: Vec<u64> = later.into_iter().map(|asker| asker.join().expect("no panic")).collect();
            assert!(ids.iter().all(|&id| id >= 2), "{ids:?}");
        });
    }

    #[test]
    fn one_that_is_no_longer_needed_is_not_made() {
        let checkpoints = Checkpoints::default();
        let owed = AtomicBool::new(true);
        let make = || {
            owed.store(false, Ordering::SeqCst);
            Ok(info(1))
        };
        checkpoints.run_while(|| owed.load(Ordering::SeqCst), make).expect("made");
        checkpoints
            .run_while(|| owed.load(Ordering::SeqCst), || panic!("not needed"))
            .expect("nothing to do");
        assert_eq!(checkpoints.status().completed, 1);
    }

    /// A caller that needs one waits for the one in progress, if that will do, and makes none.
    #[test]
    fn one_in_progress_is_waited_for() {
        let checkpoints = Checkpoints::default();
        let owed = AtomicBool::new(true);
        let (begun, has_begun) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let (checkpoints, owed) = (&checkpoints, &owed);
            scope.spawn(move || {
                let make = || {
                    checkpoints.expect(10);
                    checkpoints.note_written(7);
                    begun.send(()).expect("the test waits");
                    may_go.recv().expect("the test sends");
                    owed.store(false, Ordering::SeqCst);
                    Ok(info(1))
                };
                checkpoints.run(make).expect("made");
            });
            has_begun.recv().expect("begun");
            let status = checkpoints.status();
            assert_eq!((status.is_running, status.written, status.expected), (true, 7, 10));
            let waiter = scope.spawn(|| {
                checkpoints.run_while(|| owed.load(Ordering::SeqCst), || panic!("the other one will do"))
            });
            go.send(()).expect("it waits");
            waiter.join().expect("no panic").expect("waited for");
        });
        let status = checkpoints.status();
        assert_eq!((status.completed, status.is_running, status.written, status.expected), (1, false, 0, 0));
    }

    #[test]
    fn a_failure_is_kept_until_one_succeeds() {
        let checkpoints = Checkpoints::default();
        let failed = checkpoints.run(|| Err(Error::NoLog));
        assert!(failed.is_err());
        let status = checkpoints.status();
        assert_eq!((status.completed, status.failed, status.is_running), (0, 1, false));
        assert!(status.error.is_some_and(|error| error.contains("no log")));
        // The thread waits a little before it tries again; a caller does not.
        assert!(checkpoints.lock().not_before.is_some());
        checkpoints.run(|| Ok(info(1))).expect("made");
        let status = checkpoints.status();
        assert_eq!((status.completed, status.failed, status.error), (1, 1, None));
        assert!(checkpoints.lock().not_before.is_none());
    }

    #[test]
    fn a_panic_lets_the_next_one_run() {
        let checkpoints = Checkpoints::default();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = checkpoints.run(|| panic!("on purpose"));
        }));
        assert!(panicked.is_err());
        assert_eq!(checkpoints.run(|| Ok(info(2))).expect("made").id, 2);
    }
}
