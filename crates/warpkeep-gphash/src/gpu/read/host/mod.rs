//! Gets from host memory to host memory, by the device and several threads of the host.
//!
//! # Problem
//!
//! The host's threads copy values quickly once they know the offsets of the records; finding these takes dependent
//! cache misses. The device finds records quickly, but a value that it fetches crosses the link twice.
//!
//! # How
//!
//! * *Gather* ([`DeviceEngine::gather_rows`]): the device locates the records, and threads copy the values from the
//!   image. No value crosses the link.
//! * *Split* ([`DeviceEngine::split_rows`]): the device also fetches the values of a share of the keys, where it can
//!   write to the caller's memory, while the host gathers the others. Each alone is limited by its own path to
//!   memory; together they have both.
//!
//! A long batch is processed in slices, each under an epoch guard of its own, so that freeing memory does not wait
//! for the whole batch.
//!
//! | file | contents |
//! | --- | --- |
//! | `mod.rs` | the batch, and split |
//! | `gather.rs` | gather: launches, tasks of threads |
//! | `launches.rs` | launches that threads wait for |
//! | `copy.rs` | copies of keys to pinned memory, and of values to the answers |

pub(in crate::gpu) mod copy;
mod gather;
mod launches;

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use warpkeep_core::{AnswerRows, CoreError, HostCells, Status};
use warpkeep_device::{DevicePtr, TimedBatch};
use warpkeep_image::Persist;
use warpkeep_record::Pool;

use self::copy::{StagingTask, answer_from_workspace};
use self::gather::slice_keys;
use super::get_many::SentKeys;
use crate::bucket::Body;
use crate::gpu::engine::{DeviceEngine, Workspace, check_fixed};
use crate::gpu::write::two_phase::words;
use crate::{Table, TableError};

/// Rows of a task that copies to pinned memory or stores answers.
pub(in crate::gpu) const TASK_ROWS: usize = 1 << 12;

/// A batch of gets in host memory.
pub struct HostGets<'b> {
    /// As many keys as there are answers.
    pub keys: HostCells<'b>,
    /// Where the answers go.
    pub answers: AnswerRows<'b>,
    /// The threads that copy keys and values.
    pub pool: &'b Pool,
    /// Keys of a launch; 0 to choose it by the size of the batch.
    pub at_once: usize,
}

impl HostGets<'_> {
    /// An error if there are not as many keys as answers, or a key has a length that the table does not allow.
    fn check<P: Persist>(&self, table: &Table<P>) -> Result<(), TableError> {
        check_fixed(table)?;
        Ok(check_cells("keys", self.keys, self.answers.len(), |len| table.key.check_len(len))?)
    }
}

/// How many keys of a batch exist: the result of [`DeviceEngine::gather_rows`] and [`DeviceEngine::split_rows`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Keys that were found.
    pub found: u64,
    /// Keys that do not exist.
    pub absent: u64,
}

impl AddAssign for Gathered {
    fn add_assign(&mut self, other: Gathered) {
        self.found += other.found;
        self.absent += other.absent;
    }
}

/// [`Gathered`], added up by several threads.
#[derive(Default)]
struct GatheredCounters {
    found: AtomicU64,
    absent: AtomicU64,
}

impl GatheredCounters {
    fn add(&self, gathered: Gathered) {
        self.found.fetch_add(gathered.found, Ordering::Relaxed);
        self.absent.fetch_add(gathered.absent, Ordering::Relaxed);
    }

    fn into_inner(self) -> Gathered {
        Gathered { found: self.found.into_inner(), absent: self.absent.into_inner() }
    }
}

/// An error if a column does not have `count` cells, or `check` refuses the length of one.
pub(in crate::gpu) fn check_cells(
    column: &'static str,
    cells: HostCells<'_>,
    count: usize,
    check: impl Fn(usize) -> Result<(), CoreError>,
) -> Result<(), CoreError> {
    let found = match cells {
        HostCells::Empty => {
            check(0)?;
            count
        }
        HostCells::Fixed { len, bytes } => {
            check(len)?;
            bytes.len().checked_div(len).unwrap_or(count)
        }
        HostCells::Variable { offsets, .. } => {
            offsets.windows(2).try_for_each(|pair| check(pair[1].saturating_sub(pair[0]) as usize))?;
            offsets.len().saturating_sub(1)
        }
    };
    match found == count {
        true => Ok(()),
        false => Err(CoreError::ColumnLength { column, found: found as u64, expected: count as u64 }),
    }
}

/// A slice of a batch that is split between the device and the host.
struct SplitSlice<'s> {
    keys: HostCells<'s>,
    /// The first key of the slice.
    first: usize,
    answers: AnswerRows<'s>,
    /// The rows of its values, at their address for the device.
    rows: DevicePtr,
    pool: &'s Pool,
    at_once: usize,
}

impl<P: Persist> DeviceEngine<P> {
    /// Whether the device can [locate](DeviceEngine::gather_rows) the records of this table for the host.
    pub fn locates_for_host(&self, table: &Table<P>) -> bool {
        table.shape.body == Body::Packed && self.device_index.is_enabled()
    }

    /// Whether the device can [write](DeviceEngine::split_rows) values of this table to the memory of these answers.
    pub fn can_split(&self, table: &Table<P>, answers: &mut AnswerRows<'_>) -> bool {
        self.locates_for_host(table) && self.reachable_rows(table, answers).is_some()
    }

    /// The rows of the values at their address for the device, if it reaches them and kernels can write them.
    fn reachable_rows(&self, table: &Table<P>, answers: &mut AnswerRows<'_>) -> Option<DevicePtr> {
        let (count, len) = (answers.len(), table.value.max_len());
        let bytes = answers.values_mut()?;
        let rows = self.device().reach(bytes)?;
        // Kernels write rows of the table's value length; shorter rows would overlap.
        let have_value_len = bytes.len() == count * len;
        (have_value_len && len.is_multiple_of(8) && rows.address().is_multiple_of(8)).then_some(rows)
    }

    /// Looks up keys whose values go to [memory that the device reaches](warpkeep_device::Device::reach): the device
    /// fetches a share of the values and writes them there itself, while the host
    /// [gathers](DeviceEngine::gather_rows) the others. `None`, with nothing answered, if
    /// [`can_split`](DeviceEngine::can_split) is false.
    pub fn split_rows(&self, table: &Table<P>, gets: HostGets<'_>) -> Result<Option<Gathered>, TableError> {
        let mut timed = self.fused.timer.begin();
        gets.check(table)?;
        let HostGets { keys, mut answers, pool, at_once } = gets;
        let Some(rows) = self.reachable_rows(table, &mut answers).filter(|_| self.locates_for_host(table))
        else {
            return Ok(None);
        };
        let (mut first, mut gathered) = (0, Gathered::default());
        for answers in answers.chunks(slice_keys(at_once)) {
            let count = answers.len();
            let rows = rows.offset((first * table.value.max_len()) as u64);
            let slice = SplitSlice { keys, first, answers, rows, pool, at_once };
            let Some(counts) = self.split_slice(table, slice, &mut timed)? else { return Ok(None) };
            gathered += counts;
            first += count;
        }
        timed.finish()?;
        Ok(Some(gathered))
    }

    fn split_slice(
        &self,
        table: &Table<P>,
        slice: SplitSlice<'_>,
        timed: &mut TimedBatch<'_>,
    ) -> Result<Option<Gathered>, TableError> {
        let SplitSlice { keys, first, answers, rows, pool, at_once } = slice;
        let count = answers.len();
        let device_count = self.profile().device_keys(count);
        let host_count = count - device_count;
        let (host_answers, device_answers) = answers.split_at(host_count);
        let gets = HostGets { keys, answers: host_answers, pool, at_once };
        if device_count == 0 {
            return self.gather_from(table, gets, first, timed);
        }
        let wants_versions = device_answers.wants_versions();
        let mut workspace = self.take_workspace()?;
        let relocation = self.relocation_read();
        // Records that kernels find stay while the epoch is pinned.
        let guard = &table.heap.pin();
        let (mut snapshot, mut gathered) = (None, None);
        let work = || {
            let (begun, ended) = (self.device().event()?, self.device().event()?);
            begun.record(&workspace.stream)?;
            let range = (first + host_count, device_count);
            let sent = SentKeys {
                count: device_count,
                keys: self.send_keys(table, &mut workspace, keys, range, pool)?,
                wants_versions,
                values: Some(rows.offset((host_count * table.value.max_len()) as u64)),
            };
            timed.host("split: send keys");
            // SAFETY: the stream sends `device_count` keys, and the rows are those of `device_answers`, which are not
            // used until the stream is synchronised.
            snapshot = unsafe { self.get_sent(table, &mut workspace, sent, guard)? };
            ended.record(&workspace.stream)?;
            timed.host("split: launch the device's share");
            let counts = self.gather_from(table, gets, first, timed)?;
            workspace.stream.synchronize()?;
            timed.host("split: wait for the device");
            let Some(mut counts) = counts else { return Ok(()) };
            timed.add_host("split: the device's share, by its clock", ended.elapsed_since(&begun)?);
            counts += answer_device_share(&workspace, device_answers, pool);
            gathered = Some(counts);
            timed.host("split: answers of the device's share");
            Ok(())
        };
        let done = work();
        self.return_workspaces([workspace], (relocation, snapshot), done)?;
        Ok(gathered)
    }

    /// Enqueues the transfer of `count` keys from `first` on to the device: from the caller's memory if the device
    /// reaches it, otherwise through pinned memory. Returns their address for kernels.
    fn send_keys(
        &self,
        table: &Table<P>,
        workspace: &mut Workspace,
        keys: HostCells<'_>,
        (first, count): (usize, usize),
        pool: &Pool,
    ) -> Result<DevicePtr, TableError> {
        let (device, row) = (self.device(), 8 * words(table.key_row()));
        let Workspace { stream, columns, .. } = workspace;
        if let Some(from) = StagingTask::reachable_keys(device, table, keys, (first, count)) {
            let to = columns.keys.reserve(device, count * row)?;
            // SAFETY: both have `count` rows; the caller lends the keys until the stream is synchronised.
            unsafe { device.copy_raw(to, from, count * row, stream)? };
            return Ok(to);
        }
        let tasks = StagingTask::keys(device, &mut columns.keys, table, keys, (first, count))?;
        pool.share(tasks, StagingTask::run);
        // SAFETY: the stream is synchronised before the workspace is used again.
        Ok(unsafe { columns.keys.send::<u64>(device, count * row / 8, stream)? })
    }
}

/// Stores the answers of the device's share, whose values are in their rows already.
fn answer_device_share(workspace: &Workspace, answers: AnswerRows<'_>, pool: &Pool) -> Gathered {
    let counters = GatheredCounters::default();
    let tasks: Vec<_> = answers.chunks(TASK_ROWS).into_iter().enumerate().collect();
    pool.share(tasks, |(task, answers)| {
        counters.add(answer_from_workspace(
            workspace,
            task * TASK_ROWS,
            answers,
            |answers, index, version| {
                answers.answer_filled(index, Status::Ok, version);
            },
        ));
    });
    counters.into_inner()
}
