//! Batches whose columns lie in device memory: read and written there, on the caller's stream. Columns that the CPU
//! needs, for the log and for the operations that the device leaves to it, are copied to the host.
#![allow(unsafe_code, reason = "the makers of columns in device memory promise that they are valid")]

use std::cell::OnceCell;

use warpkeep_core::{
    Answers, BatchView, Cells, Column, ColumnMut, Durability, MemorySpace, Op, Operation, Ops, Output,
    OutputValues, Results, Status,
};
use warpkeep_device::{Device, DeviceChoice, DevicePtr, Stream};
use warpkeep_image::Persist;

use super::fused::FusedCommit;
use super::{fall_back, fall_back_from_read, run, two_phase};
use crate::index::{
    DeviceReads as _, DeviceTable as _, EnqueuedGets, FusedRows, FusedWrites as _, GetRows, HostRows,
    PinnedColumns as _, Planned, RowOps, TwoPhaseStage, WriteLock, WriteRows, with_placed,
};
use crate::planner::{Answer, Target, execute_on, refusal};
use crate::tables::{NamedTable, Tables};
use crate::{Error, Keeper, Result};

/// Where the answers go.
#[derive(Clone, Copy)]
struct OutputPointers {
    statuses: DevicePtr,
    versions: DevicePtr,
    values: DevicePtr,
    /// Null if values are rows.
    spans: DevicePtr,
    /// The length of `values` in bytes.
    value_bytes: usize,
}

fn pointer<T>(column: &Column<'_, T>) -> DevicePtr {
    match column {
        Column::Host(_) => DevicePtr::NULL,
        Column::Device(slice) => DevicePtr::new(slice.address()),
    }
}

fn pointer_mut<T>(column: &ColumnMut<'_, T>) -> DevicePtr {
    match column {
        ColumnMut::Host(_) => DevicePtr::NULL,
        ColumnMut::Device(slice) => DevicePtr::new(slice.address()),
    }
}

impl OutputPointers {
    fn of(output: &Output<'_>) -> OutputPointers {
        let (statuses, versions, values) = output.columns();
        let (values, spans, value_bytes) = match values {
            OutputValues::None => (DevicePtr::NULL, DevicePtr::NULL, 0),
            OutputValues::Rows { bytes, .. } => (pointer_mut(bytes), DevicePtr::NULL, bytes.len()),
            OutputValues::Spans { spans, bytes } => (pointer_mut(bytes), pointer_mut(spans), bytes.len()),
        };
        let versions = versions.map_or(DevicePtr::NULL, pointer_mut);
        OutputPointers { statuses: pointer_mut(statuses), versions, values, spans, value_bytes }
    }
}

/// The rows of a batch for a table whose keys take `key_row` bytes in them.
fn rows_of(batch: &BatchView<'_>, key_row: Option<usize>) -> Result<WriteRows> {
    let columns = batch.columns();
    if let (Cells::Fixed { len, .. }, Some(row)) = (&columns.keys, key_row)
        && *len != row
    {
        return Err(Error::Invalid(format!(
            "keys of {len} bytes in device memory, and the table takes them in cells of {row} bytes there; make those with KeyCells"
        )));
    }
    let cells = |cells: &Cells<'_>| {
        match cells {
        Cells::Empty => Ok(DevicePtr::NULL),
        Cells::Fixed { bytes, .. } => Ok(pointer(bytes)),
        Cells::Variable { .. } => Err(Error::Invalid(
            "cells of any length in device memory are not possible yet; give rows of one length, or copy them to host memory"
                .into(),
        )),
    }
    };
    Ok(WriteRows {
        count: batch.len() as u64,
        ops: match &columns.ops {
            Ops::Uniform(op) => RowOps::Uniform(*op),
            Ops::Each(codes) => RowOps::Each(pointer(codes)),
        },
        keys: cells(&columns.keys)?,
        values: cells(&columns.values)?,
        arguments: columns.arguments.as_ref().map_or(DevicePtr::NULL, pointer),
    })
}

/// The memory of a device.
fn space_of(device: &Device) -> MemorySpace {
    match device.choice() {
        DeviceChoice::Cuda(ordinal) => MemorySpace::Device(ordinal),
        DeviceChoice::Cpu | DeviceChoice::Sim => MemorySpace::Device(0),
    }
}

/// Everything about one batch.
struct Rows<'a, P: Persist, T: Planned<P>> {
    keeper: &'a Keeper<P, Tables<P>>,
    target: &'a Target<'a, P, T>,
    device: &'a T::Device,
    batch: &'a BatchView<'a>,
    durability: Durability,
    stream: &'a Stream,
}

/// Runs a batch with columns or answers in device memory, after the work already in the stream. All is done when it
/// returns.
pub(crate) fn execute_rows<P: Persist>(
    keeper: &Keeper<P, Tables<P>>,
    named: &NamedTable<P>,
    batch: &BatchView<'_>,
    durability: Durability,
    output: Output<'_>,
    stream: &Stream,
) -> Result<()> {
    with_placed!(&named.table, placed => {
        execute_rows_on(keeper, &Target::new(named.id, placed), batch, durability, output, stream)
    })
}

/// Enqueues a batch of gets whose columns and answers lie in device memory. `None`, with nothing enqueued, for other batches, which
/// [`execute_rows`] runs.
///
/// # Safety
/// The columns of the batch and of the output stay, and no other code uses them, until the gets are finished or dropped.
pub(crate) unsafe fn enqueue_rows<'r, 'o, P: Persist>(
    named: &'r NamedTable<P>,
    batch: &BatchView<'_>,
    output: Output<'o>,
    stream: &'r Stream,
) -> Result<EnqueuedOr<'r, 'o>> {
    with_placed!(&named.table, placed => {
        // SAFETY: as this function's contract says.
        unsafe { enqueue_rows_on(&Target::new(named.id, placed), batch, output, stream) }
    })
}

/// # Safety
/// As [`enqueue_rows`].
unsafe fn enqueue_rows_on<'r, 'o, P: Persist, T: Planned<P>>(
    target: &Target<'r, P, T>,
    batch: &BatchView<'_>,
    output: Output<'o>,
    stream: &'r Stream,
) -> Result<EnqueuedOr<'r, 'o>> {
    let Some(device) = target.execution.writer() else { return Ok(Err(output)) };
    let ours = space_of(device.device());
    let is_on_device = batch.space() == ours && output.space() == ours;
    let pointers = OutputPointers::of(&output);
    if !is_on_device || batch.uniform_op() != Some(Op::Get) || !pointers.spans.is_null() {
        return Ok(Err(output));
    }
    let rows = rows_of(batch, target.table.key_row_len())?;
    let gets = GetRows {
        count: rows.count,
        keys: rows.keys,
        statuses: pointers.statuses,
        versions: pointers.versions,
        values: pointers.values,
    };
    // SAFETY: as this function's contract says; the view and the output have checked the lengths.
    match unsafe { device.enqueue_rows(target.table, &gets, stream) } {
        Ok(Some(gets)) => Ok(Ok(gets)),
        // The ordinary path answers, and takes the table over from a device that is lost.
        Ok(None) => Ok(Err(output)),
        Err(error) if error.device_failure().is_some() => Ok(Err(output)),
        Err(error) => Err(error),
    }
}

/// Enqueued gets, or the output of a batch that has to be run.
pub(crate) type EnqueuedOr<'r, 'o> = std::result::Result<Box<dyn EnqueuedGets + 'r>, Output<'o>>;

fn execute_rows_on<P: Persist, T: Planned<P>>(
    keeper: &Keeper<P, Tables<P>>,
    target: &Target<'_, P, T>,
    batch: &BatchView<'_>,
    durability: Durability,
    output: Output<'_>,
    stream: &Stream,
) -> Result<()> {
    let Some(device) = target.execution.writer() else {
        return Err(Error::Invalid(
            "columns lie in device memory, and no device works this table of rows; copy them to host memory first"
                .into(),
        ));
    };
    let ours = space_of(device.device());
    for space in [batch.space(), output.space()] {
        if space != MemorySpace::Host && space != ours {
            return Err(Error::Invalid(format!(
                "columns lie in the memory of {space}, and the table runs on {ours}; copy them first"
            )));
        }
    }
    let rows = Rows { keeper, target, device, batch, durability, stream };
    match (batch.host(), output.space()) {
        (Some(host), MemorySpace::Host) => match output.into_host() {
            Some(mut answers) => execute_on(keeper, target, &host, durability, &mut answers),
            None => unreachable!("all of an output is in one memory"),
        },
        (Some(host), MemorySpace::Device(_)) => {
            let mut results = Results::new(batch);
            run(keeper, target, host.iter().collect(), durability, &mut results)?;
            rows.upload(&results, OutputPointers::of(&output))
        }
        (None, MemorySpace::Host) => {
            let host = rows.copied(&rows_of(batch, target.table.key_row_len())?)?;
            match output.into_host() {
                Some(mut answers) => rows.on_host(&host, &mut answers),
                None => unreachable!("all of an output is in one memory"),
            }
        }
        (None, MemorySpace::Device(_)) => {
            rows.on_device(&rows_of(batch, target.table.key_row_len())?, OutputPointers::of(&output))
        }
    }
}

impl<P: Persist, T: Planned<P>> Rows<'_, P, T> {
    fn on_device(&self, rows: &WriteRows, output: OutputPointers) -> Result<()> {
        if output.spans != DevicePtr::NULL {
            return self.through_host(rows, output);
        }
        let done = match rows.ops {
            RowOps::Uniform(Op::Get) => self.read(rows, output).and_then(|done| {
                self.keeper.confirm(self.durability)?;
                Ok(done)
            }),
            ops => {
                if let RowOps::Uniform(op) = ops
                    && let Some(done) = self.write_fused(op, rows, output)
                {
                    return done;
                }
                self.write_two_phase(rows, output)
            }
        };
        match done {
            // With `Process` each is tried on its own.
            Err(error) if refusal(&error).is_some() => self.through_host(rows, output),
            Ok(true) => Ok(()),
            Ok(false) => self.through_host(rows, output),
            Err(error) => Err(error),
        }
    }

    fn copied(&self, rows: &WriteRows) -> Result<HostRows> {
        // SAFETY: the maker of the view has promised that its columns are valid for as long as they are borrowed,
        // and the view has checked their lengths.
        unsafe { self.device.copy_rows(self.target.table, rows, self.stream) }
    }

    /// Does a batch that has been copied.
    fn on_host(&self, host: &HostRows, answers: &mut dyn Answers) -> Result<()> {
        let mut operations = Vec::with_capacity(self.batch.len());
        for index in 0..self.batch.len() {
            match host.operation(index) {
                Some(operation) => operations.push(operation),
                None => answers.answer(index, Status::Malformed, 0),
            }
        }
        run(self.keeper, self.target, operations, self.durability, answers)
    }

    fn through_host(&self, rows: &WriteRows, output: OutputPointers) -> Result<()> {
        let host = self.copied(rows)?;
        let mut results = Results::new(self.batch);
        self.on_host(&host, &mut results)?;
        self.upload(&results, output)
    }

    /// Puts answers where the caller wants them.
    fn upload(&self, results: &Results, output: OutputPointers) -> Result<()> {
        let mut statuses: Vec<u8> = results.statuses().iter().map(|&status| status as u8).collect();
        let values = (0..results.len()).filter_map(|index| Some((index, results.value(index)?)));
        if output.spans == DevicePtr::NULL {
            if output.values != DevicePtr::NULL {
                for (index, value) in values {
                    self.put(output.values.offset((index * value.len()) as u64), value)?;
                }
            }
        } else {
            let mut spans = vec![u64::MAX; 2 * results.len()];
            let mut bytes = Vec::new();
            spans.iter_mut().skip(1).step_by(2).for_each(|len| *len = 0);
            for (index, value) in values {
                if bytes.len() + value.len() > output.value_bytes {
                    statuses[index] = Status::OutputFull as u8;
                    continue;
                }
                spans[2 * index] = bytes.len() as u64;
                spans[2 * index + 1] = value.len() as u64;
                bytes.extend_from_slice(value);
            }
            self.put(output.values, &bytes)?;
            self.put(output.spans, bytemuck::cast_slice(&spans))?;
        }
        self.put_answers(output, &statuses, results.versions())
    }

    fn put_answers(&self, output: OutputPointers, statuses: &[u8], versions: &[u64]) -> Result<()> {
        self.put(output.statuses, statuses)?;
        if output.versions == DevicePtr::NULL {
            return Ok(());
        }
        self.put(output.versions, bytemuck::cast_slice(versions))
    }

    fn put(&self, to: DevicePtr, bytes: &[u8]) -> Result<()> {
        // SAFETY: the maker of the output has promised that its columns are valid and that no other code uses them,
        // and the output has checked their lengths.
        unsafe { self.device.copy_bytes(to, bytes, self.stream) }
    }

    /// Looks keys up; `false` if the CPU has to do it.
    fn read(&self, rows: &WriteRows, output: OutputPointers) -> Result<bool> {
        let gets = GetRows {
            count: rows.count,
            keys: rows.keys,
            statuses: output.statuses,
            versions: output.versions,
            values: output.values,
        };
        // SAFETY: as in `copied` and `put`.
        match unsafe { self.device.get_rows(self.target.table, &gets, self.stream) } {
            Ok(()) => Ok(true),
            Err(error) => fall_back_from_read(self.target, self.device, error).map(|()| false),
        }
    }

    /// Runs a batch of which only statuses are requested as a fused write. `None` if that is not possible.
    fn write_fused(&self, op: Op, rows: &WriteRows, output: OutputPointers) -> Option<Result<()>> {
        let Rows { keeper, target, device, durability, stream, .. } = *self;
        let in_words = |at: DevicePtr, len: usize| len.is_multiple_of(8) && at.address().is_multiple_of(8);
        let table = target.table;
        // `Power` without a log is refused on the ordinary path.
        let possible = (keeper.log().is_some() || durability == Durability::Process)
            && output.versions.is_null()
            && !op.answers_value()
            && table.key_row_len().is_some_and(|len| in_words(rows.keys, len))
            && in_words(rows.values, table.value_spec().max_len());
        if !possible {
            return None;
        }
        let (count, keys, values) = (rows.count, rows.keys, rows.values);
        let fused = FusedRows { op, count, keys, values, statuses: output.statuses };
        if keeper.log().is_some() {
            return self.write_fused_logged(&fused).transpose();
        }
        if let Err(refused) = keeper.admit(durability) {
            return Some(Err(refused));
        }
        let mut lock = device.write_lock();
        let first_version = keeper.next_versions(count);
        // SAFETY: as in `copied` and `put`.
        match unsafe { lock.write_rows(table, &fused, first_version, stream) } {
            Ok(true) => Some(Ok(())),
            Ok(false) => None,
            Err(error) => {
                // Some of it may have been done, so it is not done again in another way.
                if let Error::Device(lost) = &error
                    && !lost.is_out_of_memory()
                {
                    target.execution.take_over(table);
                }
                Some(Err(error))
            }
        }
    }

    /// The same with a log; `None`, with nothing done, if the batch has to be done in another way.
    fn write_fused_logged(&self, rows: &FusedRows) -> Result<Option<()>> {
        let Rows { keeper, target, device, durability, stream, .. } = *self;
        let table = target.table;
        if !device.can_gather(table) || rows.count == 0 {
            return Ok(None);
        }
        // Logged columns are copied first: once the batch is decided, other writers wait.
        // SAFETY: as in `copied`.
        let host = unsafe { device.pin_rows(table, rows, stream)? };
        keeper.admit(durability)?;
        let mut lock = device.write_lock();
        let first_version = keeper.next_versions(rows.count);
        // SAFETY: as in `copied` and `put`.
        let decided = unsafe { lock.decide_rows(table, rows, first_version, stream) };
        let stage = match decided {
            Ok(Some(stage)) => stage,
            Ok(None) => return Ok(None),
            Err(error) => return fall_back(target, error).map(|()| None),
        };
        let (op, keys, values) = (rows.op, host.keys(), host.values());
        let (cells, value_len) = (table.key_cells(), table.value_spec().max_len());
        let Some(key_len) = table.key_row_len() else { return Ok(None) };
        let row = |index: usize| {
            let key = &keys[key_len * index..][..key_len];
            // An operation on an invalid cell has no effect, and is not left to the CPU.
            let key = cells.map_or(key, |cells| cells.remains_in(key));
            let value = if op.takes_value() { &values[value_len * index..][..value_len] } else { &[] };
            Operation { index, op, key, value, argument: 0 }
        };
        let commit = FusedCommit { keeper, target, durability, op };
        let Some(answers) = commit.run(stage, first_version, row)? else { return Ok(None) };
        for Answer { index, status, .. } in answers.by_cpu {
            self.put(rows.statuses.offset(index as u64), &[status as u8])?;
        }
        Ok(Some(()))
    }

    /// Writes a batch in two phases; `false`, with nothing done, if the CPU has to do it.
    fn write_two_phase(&self, rows: &WriteRows, output: OutputPointers) -> Result<bool> {
        let source = RowSource { rows: self, columns: rows, host: OnceCell::new() };
        if self.keeper.log().is_some() {
            // Logged columns are copied first: once the batch is staged, other writers wait.
            source.copy()?;
        }
        let Rows { keeper, target, device, durability, .. } = *self;
        two_phase::write_group(keeper, target, device, &source, durability, RowSink { rows: self, output })
    }
}

/// Where the answers of a batch in two phases go, in device memory.
struct RowSink<'a, P: Persist, T: Planned<P>> {
    rows: &'a Rows<'a, P, T>,
    output: OutputPointers,
}

impl<P: Persist, T: Planned<P>> two_phase::Sink for RowSink<'_, P, T> {
    fn answer(self, staged: &impl TwoPhaseStage, by_cpu: Vec<Answer>) -> Result<()> {
        let RowSink { rows, output } = self;
        let count = staged.count();
        let status = |index| match staged.is_for_cpu(index) {
            // The CPU has answered all operations that it was left, but malformed ones.
            true => Status::Malformed as u8,
            false => staged.status(index) as u8,
        };
        let mut statuses: Vec<u8> = (0..count).map(status).collect();
        let mut versions: Vec<u64> = (0..count).map(|index| staged.version(index)).collect();
        if output.values != DevicePtr::NULL {
            // SAFETY: as in `Rows::put`.
            unsafe { staged.answer_rows(output.values)? };
        }
        for Answer { index, status, version, value } in by_cpu {
            (statuses[index], versions[index]) = (status as u8, version);
            if let Some(value) = value.filter(|_| output.values != DevicePtr::NULL) {
                rows.put(output.values.offset((index * value.len()) as u64), &value)?;
            }
        }
        rows.put_answers(output, &statuses, &versions)
    }
}

/// The operations of a batch in device memory, and a copy in host memory if one is needed.
struct RowSource<'a, P: Persist, T: Planned<P>> {
    rows: &'a Rows<'a, P, T>,
    columns: &'a WriteRows,
    host: OnceCell<HostRows>,
}

impl<P: Persist, T: Planned<P>> RowSource<'_, P, T> {
    fn copy(&self) -> Result<()> {
        if self.host.get().is_none() {
            let _ = self.host.set(self.rows.copied(self.columns)?);
        }
        Ok(())
    }
}

impl<P: Persist, T: Planned<P>> two_phase::Source<T> for RowSource<'_, P, T> {
    fn count(&self) -> u64 {
        self.columns.count
    }

    fn stage<'s>(
        &'s self,
        lock: &'s mut impl WriteLock<T>,
        table: &'s T,
        first_version: u64,
    ) -> Result<impl TwoPhaseStage> {
        // SAFETY: as in `Rows::copied`.
        unsafe { lock.stage_rows(table, self.columns, first_version, self.rows.stream) }
    }

    fn fetch(&self) -> Result<()> {
        self.copy()
    }

    fn operation(&self, index: usize) -> Option<Operation<'_>> {
        self.host.get()?.operation(index)
    }
}
