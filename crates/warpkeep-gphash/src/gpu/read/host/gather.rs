//! Gather: the device locates records, and threads of the host copy the values.
//!
//! A slice has several launches, the first one small, so that threads have records to copy early. Keys and records
//! stay in host memory, where the kernel reads and writes them sequentially. While one thread launches, the others
//! stage keys, wait for records and copy values.

use std::ops::Range;

use warpkeep_core::{AnswerRows, HostCells};
use warpkeep_device::{Grid, TimedBatch};
use warpkeep_image::Persist;
use warpkeep_record::Pool;

use super::copy::{StagingTask, ValueCopier};
use super::launches::{GatherTimer, LaunchColumns, Launches};
use super::{Gathered, GatheredCounters, HostGets, TASK_ROWS};
use crate::gpu::engine::{DeviceEngine, THREADS, Workspace};
use crate::gpu::index::{IndexAccess, IndexSnapshot};
use crate::gpu::params::{HostLocateParams, TableParams};
use crate::gpu::write::two_phase::words;
use crate::{Table, TableError};

/// Keys of a slice, at most: a batch of any length must not delay freeing for long, nor take much memory.
const MOST_SLICE_KEYS: usize = 1 << 22;
/// Keys of a copy task, at least and at most: so few that the last tasks do not delay the batch.
const COPY_KEYS: (usize, usize) = (1 << 6, 1 << 10);
/// Copy tasks for each thread, about.
const TASKS_PER_THREAD: usize = 4;
/// Keys of the first launch: enough that every thread has something to copy while the next is launched. Each later
/// one is twice as large, since no thread waits for it yet, but a slice has at least this many launches of the
/// largest size, because a launch delivers its records all at once.
const FIRST_LAUNCH: usize = 16 * COPY_KEYS.1;
const LARGEST_LAUNCHES: usize = 4;

/// Keys of a copy task: a power of two.
fn copy_keys(count: usize, threads: usize) -> usize {
    1 << (count / (TASKS_PER_THREAD * threads.max(1))).clamp(COPY_KEYS.0, COPY_KEYS.1).ilog2()
}

impl<P: Persist> DeviceEngine<P> {
    /// Looks keys up: the device locates their records, and threads of the host copy the values. No value crosses the
    /// link. `None`, with nothing answered, if the device cannot locate records: see
    /// [`DeviceEngine::locates_for_host`].
    pub fn gather_rows(&self, table: &Table<P>, gets: HostGets<'_>) -> Result<Option<Gathered>, TableError> {
        let mut timed = self.fused.timer.begin();
        gets.check(table)?;
        if !self.locates_for_host(table) {
            return Ok(None);
        }
        let gathered = self.gather_from(table, gets, 0, &mut timed)?;
        timed.finish()?;
        Ok(gathered)
    }

    /// Gathers keys from `first` on, as many as there are answers, of a batch that has been checked.
    pub(super) fn gather_from(
        &self,
        table: &Table<P>,
        gets: HostGets<'_>,
        mut first: usize,
        timed: &mut TimedBatch<'_>,
    ) -> Result<Option<Gathered>, TableError> {
        let HostGets { keys, answers, pool, at_once } = gets;
        let (batch_keys, mut gathered) = (answers.len(), Gathered::default());
        for answers in answers.chunks(slice_keys(at_once)) {
            let count = answers.len();
            if count == 0 {
                break;
            }
            let launches = launch_ranges(count, at_once);
            let mut workspaces = Vec::with_capacity(launches.len());
            while workspaces.len() < launches.len() {
                workspaces.push(self.take_workspace()?);
            }
            timed.host("gather: take workspaces");
            let slice = BatchSlice { keys, first, launches, batch_keys, pool };
            let done = self.gather_slice(table, &mut workspaces, &slice, answers, timed);
            if done.is_ok() {
                // After an error a kernel may still be running: then they are dropped, which waits for the device.
                // Kept in reverse order, so that each launch of the next batch gets a workspace with buffers of its
                // size.
                workspaces.into_iter().rev().for_each(|workspace| self.keep_workspace(workspace));
            }
            let Some(counts) = done? else { return Ok(None) };
            gathered += counts;
            first += count;
        }
        timed.host("gather: return workspaces");
        Ok(Some(gathered))
    }

    fn gather_slice(
        &self,
        table: &Table<P>,
        workspaces: &mut [Workspace],
        slice: &BatchSlice<'_>,
        answers: AnswerRows<'_>,
        timed: &mut TimedBatch<'_>,
    ) -> Result<Option<Gathered>, TableError> {
        let (device, key_words) = (self.device(), words(table.key_row()));
        // The value cache takes this lock for writing before it reuses rows, which name the records of their values.
        let relocation = self.relocation_read();
        // A located record stays valid while the epoch is pinned: records replaced from now on are freed later, and
        // replacements made before are applied to the index first.
        let guard = table.heap.pin();
        let Some(snapshot) = self.device_index.acquire(self, table, IndexAccess::Read)? else {
            return Ok(None);
        };
        timed.host("gather: update the index");
        let mut launches = Launches::new();
        for (range, Workspace { stream, columns, .. }) in slice.launches.iter().zip(workspaces) {
            let (count, first) = (range.len(), slice.first + range.start);
            columns.records.host::<u64>(device, count)?;
            // Keys that the device reaches are not copied.
            let reachable = StagingTask::reachable_keys(device, table, slice.keys, (first, count));
            if reachable.is_none() {
                columns.keys.host::<u64>(device, count * key_words)?;
            }
            let (keys, records) =
                (reachable.unwrap_or_else(|| columns.keys.host_ptr()), columns.records.host_ptr());
            let launch_columns =
                LaunchColumns { count, keys, records, stream, staged_records: &columns.records };
            let tasks = match reachable {
                Some(_) => Vec::new(),
                None => StagingTask::keys(device, &mut columns.keys, table, slice.keys, (first, count))?,
            };
            launches.add(launch_columns, tasks);
        }
        let params = TableParams::new(table, table.levels(&guard), self.image.cover()?);
        let timer = GatherTimer::begin(timed.is_timed());
        let copier = ValueCopier {
            table,
            exact: snapshot.has_exact_keys(table),
            streamed: table.value.max_len() * slice.batch_keys >= self.profile().streamed_from_bytes,
        };
        let counters = GatheredCounters::default();
        let launch = |number: usize| -> Result<(), TableError> {
            let columns = launches.finish_staging(number);
            // SAFETY: the keys are staged; keys and records are not used until `wait_for` or `finish` has
            // synchronised the stream, and the snapshot is kept until then.
            unsafe { self.launch_locate(params, &snapshot, &columns)? };
            launches.set_launched(number);
            Ok(())
        };
        // Keys that are rows already are staged quickly by one thread: then the first launch runs while the tasks are
        // made, which takes as long.
        let early = usize::from(StagingTask::keys_are_rows(table, slice.keys));
        (0..early).try_for_each(launch)?;
        timed.host("gather: first launch");
        let tasks = slice.tasks(&launches, answers);
        timed.host("gather: make tasks");
        let launch_others = || {
            let _cancel = launches.cancel_on_drop();
            (early..launches.len()).try_for_each(launch)?;
            timed.host("gather: other launches");
            Ok(())
        };
        // The caller stages keys and launches. The other threads stage keys, too, and wait for the first records.
        let launched: Result<(), TableError> = slice.pool.share_beside(
            tasks,
            |task| {
                let CopyTask { launch, offset, mut answers } = match task {
                    Task::Stage(launch) => {
                        launches.stage(launch);
                        return;
                    }
                    Task::Copy(task) => task,
                };
                let since = timer.now();
                let Some(records) = launches.wait_for(launch) else { return };
                timer.add_wait(since);
                let since = timer.now();
                let records = &records[offset..][..answers.len()];
                let first = slice.first + slice.launches[launch].start + offset;
                counters.add(copier.copy(records, |index| Some(slice.keys.get(first + index)), &mut answers));
                timer.add_copy(since);
            },
            launch_others,
        );
        timed.host("gather: from the last launch to the end");
        timer.report(timed, slice.pool.threads());
        let finished = launches.finish();
        drop((snapshot, guard, relocation));
        launched.and(finished)?;
        Ok(Some(counters.into_inner()))
    }

    /// Launches the kernel that locates records. It reads keys from host memory and writes records there, both
    /// sequentially: copies would take two more calls of the driver.
    ///
    /// # Safety
    /// The keys are staged, or in the caller's memory. Nothing uses them or the records, and the snapshot is kept,
    /// until the stream is synchronised.
    unsafe fn launch_locate(
        &self,
        table: TableParams,
        snapshot: &IndexSnapshot,
        columns: &LaunchColumns<'_>,
    ) -> Result<(), TableError> {
        let params = HostLocateParams {
            table: table.with_index(snapshot.params()),
            count: columns.count as u64,
            keys: columns.keys,
            records: columns.records,
        };
        let grid = Grid::covering(params.count.max(1), THREADS);
        // SAFETY: the caller's promise; both columns have `count` rows.
        unsafe { self.kernels.index()?.host_locate.launch(grid, &params, columns.stream)? };
        Ok(())
    }
}

/// Keys of a slice, for launches of `at_once` keys, or 0.
pub(super) fn slice_keys(at_once: usize) -> usize {
    match at_once {
        0 => MOST_SLICE_KEYS,
        keys => keys.saturating_mul(LARGEST_LAUNCHES).min(MOST_SLICE_KEYS),
    }
}

/// The launches of `count` keys: of `at_once` keys each, unless that is 0.
fn launch_ranges(count: usize, at_once: usize) -> Vec<Range<usize>> {
    let (mut launches, mut begin) = (Vec::new(), 0);
    let (mut next, largest) = match at_once {
        0 => {
            let largest = count.div_ceil(LARGEST_LAUNCHES).next_multiple_of(COPY_KEYS.1);
            (FIRST_LAUNCH, largest.max(FIRST_LAUNCH))
        }
        keys => (keys, keys),
    };
    while begin < count {
        let rest = count - begin;
        // A small rest is not worth a launch of its own.
        let is_last = rest <= next || at_once == 0 && rest - next <= FIRST_LAUNCH;
        let end = if is_last { count } else { begin + next };
        launches.push(begin..end);
        begin = end;
        next = (2 * next).min(largest);
    }
    launches
}

/// Keys of a batch that are looked up under one epoch guard.
struct BatchSlice<'s> {
    keys: HostCells<'s>,
    /// The first key of the slice.
    first: usize,
    /// The keys of each launch, counted from `first`.
    launches: Vec<Range<usize>>,
    /// Keys of the whole batch.
    batch_keys: usize,
    pool: &'s Pool,
}

impl BatchSlice<'_> {
    /// The tasks of the threads, in the order in which they are needed: the keys of a launch are staged before the
    /// records of the launch before it are copied.
    fn tasks<'a>(&self, launches: &Launches<'_>, answers: AnswerRows<'a>) -> Vec<Task<'a>> {
        let staging = |launch: usize| {
            let tasks = if launch < launches.len() { launches.task_count(launch) } else { 0 };
            (0..tasks).map(move |_| Task::Stage(launch))
        };
        let copy_keys = copy_keys(answers.len(), self.pool.threads());
        let capacity = answers.len() / copy_keys + answers.len() / TASK_ROWS + 2 * self.launches.len();
        let mut tasks = Vec::with_capacity(capacity);
        tasks.extend(staging(0));
        let mut rest = answers;
        for (launch, range) in self.launches.iter().enumerate() {
            tasks.extend(staging(launch + 1));
            let (own, others) = rest.split_at(range.len());
            rest = others;
            let chunks = own.chunks(copy_keys).into_iter().enumerate();
            tasks.extend(
                chunks.map(|(chunk, answers)| {
                    Task::Copy(CopyTask { launch, offset: chunk * copy_keys, answers })
                }),
            );
        }
        tasks
    }
}

/// A task of one thread.
enum Task<'a> {
    /// Stages some keys of a launch, unless other threads have taken them all.
    Stage(usize),
    /// Copies the values of some records.
    Copy(CopyTask<'a>),
}

/// Answers keys of a launch from `offset` on.
struct CopyTask<'a> {
    launch: usize,
    offset: usize,
    answers: AnswerRows<'a>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_grow_and_cover_every_key_once() {
        for (count, at_once) in [
            (1, 0),
            (FIRST_LAUNCH, 0),
            (2 * FIRST_LAUNCH, 0),
            (2 * FIRST_LAUNCH + 1, 0),
            (100_000, 0),
            (1 << 20, 0),
            (MOST_SLICE_KEYS, 0),
            (301, 50),
        ] {
            let launches = launch_ranges(count, at_once);
            assert_eq!((launches[0].start, launches[launches.len() - 1].end), (0, count));
            assert!(launches.windows(2).all(|pair| pair[0].end == pair[1].start), "{launches:?}");
            assert!(launches.iter().all(|launch| !launch.is_empty()) && launches.len() <= 12, "{launches:?}");
        }
        let sizes: Vec<usize> = launch_ranges(1 << 20, 0).iter().map(|launch| launch.len() >> 10).collect();
        assert_eq!(sizes, [16, 32, 64, 128, 256, 256, 272]);
        assert_eq!(launch_ranges(301, 50).len(), 7);
        assert!(launch_ranges(0, 0).is_empty());
    }
}
