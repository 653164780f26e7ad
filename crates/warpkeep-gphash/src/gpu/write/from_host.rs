//! Fused writes of batches in host memory.
//!
//! Keys and values have to reach the device before it can decide. A batch is sent in parts: while the device writes one
//! part, host threads copy the next one to pinned memory. Where the host publishes words and trailers, it also stores
//! the values ([`HostValues`]): then only keys are sent, because over the link and back the values would cost the
//! device twice, and the host as much as to store them.
//!
//! Two workspaces alternate. A part's workspace is reused only after its stream is synchronised, and after an error
//! both are dropped, which waits for the device.

use std::sync::atomic::Ordering;

use warpkeep_core::{Answers, HostBatch, HostCells, Op, Status};
use warpkeep_device::{Device, DevicePtr, Stream};
use warpkeep_image::Persist;
use warpkeep_record::Pool;

use crate::gpu::engine::{DeviceEngine, Workspace, WriteLock, check_fixed};
use crate::gpu::profile::PublishBy;
use crate::gpu::read::host::copy::StagingTask;
use crate::gpu::read::host::{TASK_ROWS, check_cells};
use crate::gpu::write::stage::FusedStage;
use crate::gpu::write::store_list::StoreListForm;
use crate::gpu::write::two_phase::words;
use crate::gpu::write::{FusedRows, WriteCounts};
use crate::{Table, TableError};

/// A batch whose values are sent has this many parts, of sizes within these bounds: large enough to keep the device
/// busy, and small enough that the host copies one part while the device writes another.
const PARTS: usize = 4;
const MIN_PART: usize = 1 << 16;
const MAX_PART: usize = 1 << 19;
/// Operations of a part of which only keys are sent: that takes too little time to overlap it.
const KEYS_PART: usize = 1 << 20;

/// A batch in host memory whose operations are all of one kind.
pub struct HostWrites<'b> {
    /// A put, an insert, an update or a delete. Deletes are answered without versions: the versions of removed items
    /// are not known afterwards.
    pub op: Op,
    /// The batch.
    pub batch: HostBatch<'b>,
    /// The threads that copy keys and values.
    pub pool: &'b Pool,
    /// Operations of a part; 0 for a number that suits the batch.
    pub at_once: usize,
}

/// A part of such a batch that was sent to the device.
pub struct SentPart<'p, P: Persist> {
    /// The index of its first operation in the batch.
    pub first: usize,
    /// The version that the first operation writes.
    pub version: u64,
    table: &'p Table<P>,
    rows: FusedRows,
    /// The values, if the host stores them.
    values: Option<HostValues<'p>>,
    /// The stream that sends it.
    stream: &'p Stream,
}

impl<P: Persist> SentPart<'_, P> {
    /// Writes the part [without a log](WriteLock::write_fused).
    pub fn write(&self, lock: &mut WriteLock<'_, P>) -> Result<Option<WriteCounts>, TableError> {
        let SentPart { table, rows, version, stream, .. } = self;
        // SAFETY: the columns have the length of the part, and live as long as it in a workspace that no other batch
        // uses.
        unsafe {
            match self.values {
                Some(values) => lock.write_host_values(table, rows, values, *version, stream),
                None => lock.write_fused(table, rows, *version, stream),
            }
        }
    }

    /// [Decides](WriteLock::decide_fused) the part.
    pub fn decide<'s, 'e>(
        &'s self,
        lock: &'s mut WriteLock<'e, P>,
    ) -> Result<Option<FusedStage<'s, 'e, P>>, TableError> {
        let SentPart { table, rows, version, stream, .. } = self;
        // SAFETY: the columns have the length of the part, and the part outlives the stage.
        unsafe {
            match self.values {
                Some(values) => lock.decide_host_values(table, rows, values, *version, stream),
                None => lock.decide_fused(table, rows, *version, stream),
            }
        }
    }
}

/// The answers of the operations of a part.
pub enum PartAnswers {
    /// The status codes are on the device, in the column of the part.
    OnDevice,
    /// The answers are on the host.
    Here {
        /// The status codes.
        statuses: Vec<u8>,
        /// Answers that replace those, in the order of the batch: index in the batch, status and version.
        apart: Vec<(usize, Status, u64)>,
    },
}

/// The values of a part of a batch, which the host stores in the image.
#[derive(Clone, Copy, Debug)]
pub(in crate::gpu) struct HostValues<'v> {
    cells: HostCells<'v>,
    first: usize,
}

impl<'v> HostValues<'v> {
    /// The values of the operations from `first` on.
    fn new(cells: HostCells<'v>, first: usize) -> HostValues<'v> {
        HostValues { cells, first }
    }

    /// The value of an operation of the part.
    #[inline(always)]
    pub(super) fn of(self, operation: usize) -> &'v [u8] {
        self.cells.get(self.first + operation)
    }
}

impl<P: Persist> DeviceEngine<P> {
    /// Whether [`WriteLock::write_from_host`] supports such a batch.
    pub fn writes_fused(&self, table: &Table<P>, op: Op) -> bool {
        matches!(op, Op::Put | Op::Insert | Op::Update | Op::Delete)
            && check_fixed(table).is_ok()
            && table.key_row_len() == Some(8)
            && self.locates_for_host(table)
    }

    /// Batches in host memory, or parts of them, whose values the host has stored without sending them to the device.
    pub fn stored_by_host(&self) -> u64 {
        self.fused.threads.batches_with_values.load(Ordering::Relaxed)
    }

    /// Whether the host stores the values of such a batch: if it publishes words and trailers, and there is no value
    /// cache, which needs the values on the device.
    fn stores_values_by_host(&self, table: &Table<P>, op: Op, count: u64) -> bool {
        let form = StoreListForm::of(table.form, op, count, 0, table.image().len());
        form.is_some_and(|form| form.trailers().is_some())
            && self.profile().chunks(count, true) > 1
            && self.profile().publish_by != PublishBy::Device
            && !self.device_index.has_value_cache()
    }
}

impl<P: Persist> WriteLock<'_, P> {
    /// Writes a batch with [fused writes](WriteLock::write_fused), and answers it. Operation `i` that writes gives its
    /// item the version `first_version + i`. Counts in `done` the operations that were done, from the first on: all of
    /// them, unless fused writes became impossible meanwhile. After an error, operations that are not answered may or
    /// may not have been done.
    ///
    /// Nothing is logged, so it is for tables of stores without a log.
    pub fn write_from_host(
        &mut self,
        table: &Table<P>,
        writes: &HostWrites<'_>,
        first_version: u64,
        answers: &mut dyn Answers,
        done: &mut usize,
    ) -> Result<(), TableError> {
        let write_part = |lock: &mut WriteLock<'_, P>, part: &SentPart<'_, P>| {
            Ok(part.write(lock)?.map(|_| PartAnswers::OnDevice))
        };
        self.write_from_host_by(table, writes, first_version, answers, done, write_part)
    }

    /// The same, where the caller writes each part and returns its answers. `None`, with nothing of the part done, ends
    /// the batch.
    pub fn write_from_host_by<E: From<TableError>>(
        &mut self,
        table: &Table<P>,
        writes: &HostWrites<'_>,
        first_version: u64,
        answers: &mut dyn Answers,
        done: &mut usize,
        write_part: impl FnMut(&mut WriteLock<'_, P>, &SentPart<'_, P>) -> Result<Option<PartAnswers>, E>,
    ) -> Result<(), E> {
        let (engine, count) = (self.engine, writes.batch.len());
        if !engine.writes_fused(table, writes.op) {
            return Ok(());
        }
        check_cells("keys", writes.batch.keys(), count, |len| table.key.check_len(len))
            .and_then(|()| match writes.op {
                Op::Delete => Ok(()),
                _ => check_cells("values", writes.batch.values(), count, |len| table.value.check_len(len)),
            })
            .map_err(TableError::from)?;
        let keys_only =
            writes.op == Op::Delete || engine.stores_values_by_host(table, writes.op, count as u64);
        let part_operations = match writes.at_once {
            0 if keys_only => KEYS_PART,
            0 => count.div_ceil(PARTS).next_multiple_of(TASK_ROWS).clamp(MIN_PART, MAX_PART),
            at_once => at_once,
        };
        let mut workspaces = [engine.take_workspace()?, engine.take_workspace()?];
        let mut progress = Progress { first_version, part_operations, done };
        let written = self.write_parts(table, writes, &mut progress, &mut workspaces, answers, write_part);
        if written.is_ok() {
            // After an error kernels may still use them: then they are dropped, which waits for the device.
            workspaces.into_iter().for_each(|workspace| engine.keep_workspace(workspace));
        }
        written
    }

    fn write_parts<E: From<TableError>>(
        &mut self,
        table: &Table<P>,
        writes: &HostWrites<'_>,
        progress: &mut Progress<'_>,
        workspaces: &mut [Workspace; 2],
        answers: &mut dyn Answers,
        mut write_part: impl FnMut(&mut WriteLock<'_, P>, &SentPart<'_, P>) -> Result<Option<PartAnswers>, E>,
    ) -> Result<(), E> {
        let (engine, device) = (self.engine, self.engine.device());
        let part_from = |first: usize| {
            let remaining = writes.batch.len().checked_sub(first).filter(|&remaining| remaining > 0)?;
            let count = progress.part_operations.min(remaining);
            let by_host = engine.stores_values_by_host(table, writes.op, count as u64);
            let values = by_host.then(|| HostValues::new(writes.batch.values(), first));
            Some(Part { table, writes, first, count, values })
        };
        let [mut current, mut next] = workspaces.each_mut();
        let mut upcoming = part_from(0);
        if let Some(part) = &upcoming {
            writes.pool.share(part.staging_tasks(device, current)?, StagingTask::run);
        }
        while let Some(part) = upcoming {
            let end = part.first + part.count;
            // SAFETY: the host's side of the columns is used again only after the part is written, which waits for the
            // stream, or the streams are synchronised at the end.
            let rows = unsafe { part.send(device, current)? };
            upcoming = part_from(end);
            let staging_tasks = match &upcoming {
                Some(part) => part.staging_tasks(device, next)?,
                None => Vec::new(),
            };
            let (first, values) = (part.first, part.values);
            let version = progress.first_version + first as u64;
            let sent = SentPart { first, version, table, rows, values, stream: &current.stream };
            let written = writes.pool.share_beside(staging_tasks, StagingTask::run, || {
                // Without space for the part nothing of it is done: a two-phase write then answers each operation.
                match self.has_blocks_for(&rows) {
                    Ok(()) => write_part(self, &sent),
                    Err(_) => Ok(None),
                }
            })?;
            let Some(part_answers) = written else { break };
            part.answer(device, current, version, &part_answers, answers)?;
            (current, next, *progress.done) = (next, current, end);
        }
        Ok(workspaces
            .iter()
            .try_for_each(|workspace| workspace.stream.synchronize())
            .map_err(TableError::from)?)
    }

    fn has_blocks_for(&mut self, rows: &FusedRows) -> Result<(), TableError> {
        let engine = self.engine;
        match rows.op {
            Op::Delete => Ok(()),
            _ => {
                engine.block_pool().ensure(engine.device(), &engine.kernels, &mut self.workspace, rows.count)
            }
        }
    }
}

/// How a batch is split, and how far it is done.
struct Progress<'s> {
    first_version: u64,
    part_operations: usize,
    done: &'s mut usize,
}

/// A part of a batch.
struct Part<'p, P: Persist> {
    table: &'p Table<P>,
    writes: &'p HostWrites<'p>,
    first: usize,
    count: usize,
    /// The values, if the host stores them.
    values: Option<HostValues<'p>>,
}

impl<'p, P: Persist> Part<'p, P> {
    /// Whether its values are sent to the device.
    fn sends_values(&self) -> bool {
        self.writes.op != Op::Delete && self.values.is_none()
    }

    /// The copies of keys and values to the host's side of a workspace, for several threads.
    fn staging_tasks<'f>(
        &self,
        device: &Device,
        workspace: &'f mut Workspace,
    ) -> Result<Vec<StagingTask<'f>>, TableError>
    where
        'p: 'f,
    {
        let (batch, range) = (&self.writes.batch, (self.first, self.count));
        let (columns, value_words) = (&mut workspace.columns, words(self.table.value.max_len()));
        let mut staging_tasks =
            StagingTask::keys(device, &mut columns.keys, self.table, batch.keys(), range)?;
        if self.sends_values() {
            staging_tasks.extend(StagingTask::values(
                device,
                &mut columns.values,
                batch.values(),
                range,
                value_words,
            )?);
        }
        Ok(staging_tasks)
    }

    /// Starts to copy keys and values to the device.
    ///
    /// # Safety
    /// The stream is synchronised before the host's side of the columns is used again.
    unsafe fn send(&self, device: &Device, workspace: &mut Workspace) -> Result<FusedRows, TableError> {
        let (key_words, value_words) = (words(self.table.key_row()), words(self.table.value.max_len()));
        let (columns, stream, count) = (&mut workspace.columns, &workspace.stream, self.count);
        // SAFETY: the caller promises to synchronise the stream before the host's side is used again.
        let (keys, values) = unsafe {
            let keys = columns.keys.send::<u64>(device, count * key_words, stream)?;
            let values = match value_words {
                0 => DevicePtr::NULL,
                _ if !self.sends_values() => DevicePtr::NULL,
                words => columns.values.send::<u64>(device, count * words, stream)?,
            };
            (keys, values)
        };
        let statuses = columns.statuses.reserve(device, count)?;
        Ok(FusedRows { op: self.writes.op, count: count as u64, keys, values, statuses })
    }

    /// Answers the operations, after fetching the statuses if they are on the device.
    fn answer(
        &self,
        device: &Device,
        workspace: &mut Workspace,
        version: u64,
        part_answers: &PartAnswers,
        answers: &mut dyn Answers,
    ) -> Result<(), TableError> {
        let (statuses, apart) = match part_answers {
            PartAnswers::Here { statuses, apart } => (&statuses[..], &apart[..]),
            PartAnswers::OnDevice => {
                // SAFETY: the stream is synchronised next, before the host's side is read.
                unsafe { workspace.columns.statuses.fetch::<u8>(device, self.count, &workspace.stream)? };
                workspace.stream.synchronize()?;
                (workspace.columns.statuses.fetched::<u8>(self.count), &[][..])
            }
        };
        let answer = |index: usize| -> (Status, u64) {
            let in_batch = self.first + index;
            if let Ok(at) = apart.binary_search_by_key(&in_batch, |&(in_batch, ..)| in_batch) {
                return (apart[at].1, apart[at].2);
            }
            let status = Status::try_from(statuses[index]).unwrap_or(Status::Indeterminate);
            let version = match status {
                _ if self.writes.op == Op::Delete => 0,
                Status::Ok | Status::Created => version + index as u64,
                // The device does not read versions. The item does not change meanwhile: the caller has the write lock.
                Status::AlreadyExists => {
                    let key = self.writes.batch.keys().get(in_batch);
                    self.table.get(key, |value| value.version()).unwrap_or(0)
                }
                _ => 0,
            };
            (status, version)
        };
        // By all threads if the answers are arrays: one thread would take longer than the write.
        if let Some(rows) = answers.rows_mut() {
            let (rows, _) = rows.split_at(self.first + self.count);
            let (_, rows) = rows.split_at(self.first);
            let shares: Vec<_> = rows.chunks(TASK_ROWS).into_iter().enumerate().collect();
            self.writes.pool.share(shares, |(share, mut rows)| {
                for index in 0..rows.len() {
                    let (status, version) = answer(share * TASK_ROWS + index);
                    rows.answer(index, status, version);
                }
            });
            return Ok(());
        }
        for index in 0..statuses.len() {
            let (status, version) = answer(index);
            answers.answer(self.first + index, status, version);
        }
        Ok(())
    }
}
