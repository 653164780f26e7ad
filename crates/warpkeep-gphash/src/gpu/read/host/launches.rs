//! The launches of a batch, for threads that stage their keys and that wait for their records.
//!
//! One thread launches, in order. The others help to stage the keys of a launch, and wait for launches that may not
//! even have begun. A launch that never begins, because of an error or a panic, must not be waited for:
//! [`CancelOnDrop`] cancels it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use warpkeep_device::{DeviceError, DevicePtr, StagedBuffer, Stream, TimedBatch};

use super::copy::StagingTask;
use crate::TableError;

/// Iterations that a thread spins before it blocks: to sleep and be woken takes as long as most launches.
const SPINS: u32 = 4096;

/// The stream of a launch, and where its keys and records are for the device.
#[derive(Clone, Copy)]
pub(super) struct LaunchColumns<'p> {
    pub(super) count: usize,
    pub(super) keys: DevicePtr,
    pub(super) records: DevicePtr,
    pub(super) stream: &'p Stream,
    /// The staging buffer of the records.
    pub(super) staged_records: &'p StagedBuffer,
}

/// The launches of a slice of a batch.
pub(super) struct Launches<'p>(Vec<Launch<'p>>);

struct Launch<'p> {
    columns: LaunchColumns<'p>,
    /// Tasks that stage the keys; the number of the next one to take; and how many are complete.
    tasks: Vec<Mutex<Option<StagingTask<'p>>>>,
    next_task: AtomicUsize,
    staged: AtomicUsize,
    /// Set when the kernel is in its stream, or is known to be never launched.
    is_launched: OnceLock<bool>,
    /// Whether a thread waits for the stream already.
    has_waiter: AtomicBool,
    outcome: OnceLock<Result<(), DeviceError>>,
}

/// Cancels the launches that have not begun when it is dropped, so that no thread waits for them.
pub(super) struct CancelOnDrop<'l, 'p>(&'l Launches<'p>);

impl Drop for CancelOnDrop<'_, '_> {
    fn drop(&mut self) {
        for launch in &self.0.0 {
            let _ = launch.is_launched.set(false);
        }
    }
}

/// Counts a task as complete when it is dropped, also after a panic, so that no thread waits for it.
struct CountOnDrop<'c>(&'c AtomicUsize);

impl Drop for CountOnDrop<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

impl<'p> Launches<'p> {
    pub(super) fn new() -> Launches<'p> {
        Launches(Vec::new())
    }

    /// Adds a launch, whose keys are staged by these tasks.
    pub(super) fn add(&mut self, columns: LaunchColumns<'p>, tasks: Vec<StagingTask<'p>>) {
        self.0.push(Launch {
            columns,
            tasks: tasks.into_iter().map(|task| Mutex::new(Some(task))).collect(),
            next_task: AtomicUsize::new(0),
            staged: AtomicUsize::new(0),
            is_launched: OnceLock::new(),
            has_waiter: AtomicBool::new(false),
            outcome: OnceLock::new(),
        });
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// How many tasks stage the keys of a launch.
    pub(super) fn task_count(&self, number: usize) -> usize {
        self.0[number].tasks.len()
    }

    /// Runs one task of a launch; `false` if all have been taken.
    pub(super) fn stage(&self, number: usize) -> bool {
        let Launch { tasks, next_task, staged, .. } = &self.0[number];
        let Some(task) = tasks.get(next_task.fetch_add(1, Ordering::Relaxed)) else { return false };
        let _counted = CountOnDrop(staged);
        let task = task.lock().unwrap_or_else(PoisonError::into_inner).take();
        task.into_iter().for_each(StagingTask::run);
        true
    }

    /// Runs the remaining tasks of a launch and waits for those of other threads. The launch can begin then.
    pub(super) fn finish_staging(&self, number: usize) -> LaunchColumns<'p> {
        let Launch { tasks, staged, columns, .. } = &self.0[number];
        while self.stage(number) {}
        let mut spins = 0;
        while staged.load(Ordering::Acquire) < tasks.len() {
            spins += 1;
            // A thread that has taken a task may not be running.
            if spins % SPINS == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        *columns
    }

    /// For the thread that launches; to be dropped after its last launch.
    pub(super) fn cancel_on_drop(&self) -> CancelOnDrop<'_, 'p> {
        CancelOnDrop(self)
    }

    /// The kernel of a launch is in its stream.
    pub(super) fn set_launched(&self, number: usize) {
        let _ = self.0[number].is_launched.set(true);
    }

    /// Waits for the records of a launch; `None` if it failed or was cancelled. The first thread waits for the
    /// device, and the others for that thread.
    pub(super) fn wait_for(&self, number: usize) -> Option<&'p [u64]> {
        let Launch { columns, is_launched, has_waiter, outcome, .. } = &self.0[number];
        spin_until_set(is_launched);
        if !*is_launched.wait() {
            return None;
        }
        if has_waiter.swap(true, Ordering::Relaxed) {
            spin_until_set(outcome);
        }
        // Two threads may wait for one stream; both see the same outcome.
        let outcome = outcome.get_or_init(|| columns.stream.synchronize());
        outcome.is_ok().then(|| columns.staged_records.fetched::<u64>(columns.count))
    }

    /// Waits for all launches; returns the first error.
    pub(super) fn finish(self) -> Result<(), TableError> {
        let outcomes = self.0.into_iter().filter_map(|Launch { columns, is_launched, outcome, .. }| {
            let is_launched = is_launched.into_inner().unwrap_or(false);
            outcome.into_inner().or_else(|| is_launched.then(|| columns.stream.synchronize()))
        });
        // Collected, because all are waited for, also after an error.
        let outcomes: Vec<Result<(), DeviceError>> = outcomes.collect();
        outcomes.into_iter().try_for_each(|outcome| outcome.map_err(TableError::from))
    }
}

/// Spins for a while, or until the cell is set.
fn spin_until_set<T>(cell: &OnceLock<T>) {
    for _ in 0..SPINS {
        if cell.get().is_some() {
            return;
        }
        std::hint::spin_loop();
    }
}

/// Where the threads that gather a batch spend their time, if the batch is timed.
pub(super) struct GatherTimer {
    begun: Option<Instant>,
    /// Nanoseconds until the first records.
    first: AtomicU64,
    waited: AtomicU64,
    copied: AtomicU64,
    longest: AtomicU64,
}

impl GatherTimer {
    pub(super) fn begin(is_timed: bool) -> GatherTimer {
        let zero = AtomicU64::default;
        GatherTimer {
            begun: is_timed.then(Instant::now),
            first: AtomicU64::new(u64::MAX),
            waited: zero(),
            copied: zero(),
            longest: zero(),
        }
    }

    /// The time, if the batch is timed.
    pub(super) fn now(&self) -> Option<Instant> {
        self.begun.map(|_| Instant::now())
    }

    /// Adds the time that a thread has waited for records.
    pub(super) fn add_wait(&self, since: Option<Instant>) {
        if let (Some(begun), Some(since)) = (self.begun, since) {
            self.waited.fetch_add(nanos(since.elapsed()), Ordering::Relaxed);
            self.first.fetch_min(nanos(begun.elapsed()), Ordering::Relaxed);
        }
    }

    /// Adds the time that a thread has copied the values of a task.
    pub(super) fn add_copy(&self, since: Option<Instant>) {
        let Some(took) = since.map(|since| nanos(since.elapsed())) else { return };
        self.copied.fetch_add(took, Ordering::Relaxed);
        self.longest.fetch_max(took, Ordering::Relaxed);
    }

    /// Reports the times, as averages over `threads` threads.
    pub(super) fn report(&self, timed: &mut TimedBatch<'_>, threads: usize) {
        let all = |nanos: &AtomicU64| Duration::from_nanos(nanos.load(Ordering::Relaxed));
        let each = |nanos: &AtomicU64| all(nanos) / threads.max(1) as u32;
        if self.begun.is_some() {
            timed.add_host("gather: until the first records", all(&self.first));
            timed.add_host("gather: wait for records, per thread", each(&self.waited));
            timed.add_host("gather: copy values, per thread", each(&self.copied));
            timed.add_host("gather: longest copy task", all(&self.longest));
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[cfg(not(no_simulator))]
mod tests {
    use warpkeep_core::HostCells;

    use super::*;
    use crate::gpu::engine::Workspace;

    fn workspaces(count: usize) -> Vec<Workspace> {
        let device = warpkeep_device::Device::simulated(warpkeep_device::Mode::fast()).unwrap();
        (0..count).map(|_| Workspace::new(&device).unwrap()).collect()
    }

    fn launches(workspaces: &[Workspace]) -> Launches<'_> {
        let mut launches = Launches::new();
        for Workspace { stream, columns, .. } in workspaces {
            let (keys, records) = (DevicePtr::NULL, DevicePtr::NULL);
            let columns = LaunchColumns { count: 0, keys, records, stream, staged_records: &columns.records };
            launches.add(columns, Vec::new());
        }
        launches
    }

    #[test]
    fn cancelled_launches_are_not_waited_for() {
        let workspaces = workspaces(3);
        let launches = launches(&workspaces);
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..3)
                .map(|number| {
                    scope.spawn({
                        let launches = &launches;
                        move || launches.wait_for(number).is_none()
                    })
                })
                .collect();
            drop(launches.cancel_on_drop());
            assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap()));
        });
        launches.finish().unwrap();
    }

    #[test]
    fn all_threads_see_a_launch_complete() {
        let workspaces = workspaces(2);
        let launches = launches(&workspaces);
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..4).map(|_| scope.spawn(|| launches.wait_for(0).is_some())).collect();
            let cancel = launches.cancel_on_drop();
            launches.set_launched(0);
            drop(cancel);
            assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap()));
            assert!(launches.wait_for(1).is_none());
        });
        launches.finish().unwrap();
    }

    /// The thread that launches goes on when the last task is complete, whichever thread has run it.
    #[test]
    fn keys_are_staged_by_several_threads() {
        let device = warpkeep_device::Device::simulated(warpkeep_device::Mode::fast()).unwrap();
        let mut workspace = Workspace::new(&device).unwrap();
        let numbers: Vec<u64> = (0..10_000).collect();
        let cells = HostCells::Fixed { len: 8, bytes: bytemuck::cast_slice(&numbers) };
        {
            let Workspace { stream, columns, .. } = &mut workspace;
            let tasks = StagingTask::values(&device, &mut columns.keys, cells, (0, 10_000), 1).unwrap();
            let (keys, records) = (DevicePtr::NULL, DevicePtr::NULL);
            let mut launches = Launches::new();
            let columns = LaunchColumns { count: 0, keys, records, stream, staged_records: &columns.records };
            launches.add(columns, tasks);
            assert_eq!((launches.len(), launches.task_count(0)), (1, 3));
            std::thread::scope(|scope| {
                scope.spawn(|| launches.stage(0));
                launches.finish_staging(0);
            });
            assert!(!launches.stage(0), "all tasks have been taken");
            drop(launches.cancel_on_drop());
            launches.finish().unwrap();
        }
        assert_eq!(workspace.columns.keys.fetched::<u64>(10_000), numbers);
    }
}
