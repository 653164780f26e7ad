//! Batches whose columns lie in device memory: read and written there, on the caller's stream. Parts for the CPU,
//! that is the log and duplicate keys, are copied to the host.
#![allow(unsafe_code, reason = "columns in device memory are promises of those who made them")]

use warpkeep_core::{
    BatchView, Cells, Column, ColumnMut, Durability, MemorySpace, Op, Operation, Ops, Output, OutputValues,
    Results, Status,
};
use warpkeep_device::{DeviceChoice, DevicePtr, Stream};
use warpkeep_gphash::gpu::{DeviceEngine, GetRows, HostRows, RowOps, StraightRows, WriteRows};
use warpkeep_gphash::{Table, TableError};
use warpkeep_image::Persist;
use warpkeep_log::ChangeBatch;
use warpkeep_record::LockKey;

use super::logged::Logged;
use super::on_device::{log_changes, step_back};
use super::{Answer, Target, execute_on, refusal, run, stage};
use crate::index::{Planned, with_table};
use crate::tables::{NamedTable, Tables};
use crate::{Error, Keeper, Result};

/// Where the answers go.
#[derive(Clone, Copy)]
struct Places {
    statuses: DevicePtr,
    versions: DevicePtr,
    values: DevicePtr,
    /// Null if values are rows.
    spans: DevicePtr,
    /// Bytes that there is room for, if they are not.
    room: usize,
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

impl Places {
    fn of(output: Output<'_>) -> Places {
        let (statuses, versions, values) = output.into_columns();
        let (values, spans, room) = match &values {
            OutputValues::None => (DevicePtr::NULL, DevicePtr::NULL, 0),
            OutputValues::Rows { bytes, .. } => (pointer_mut(bytes), DevicePtr::NULL, bytes.len()),
            OutputValues::Spans { spans, bytes } => (pointer_mut(bytes), pointer_mut(spans), bytes.len()),
        };
        let versions = versions.as_ref().map_or(DevicePtr::NULL, pointer_mut);
        Places { statuses: pointer_mut(&statuses), versions, values, spans, room }
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

/// The memory of a table's device.
fn space_of<P: Persist>(engine: &DeviceEngine<P>) -> MemorySpace {
    match engine.device().choice() {
        DeviceChoice::Cuda(ordinal) => MemorySpace::Device(ordinal),
        DeviceChoice::Cpu | DeviceChoice::Sim => MemorySpace::Device(0),
    }
}

/// Everything about one batch.
struct Rows<'a, P: Persist> {
    keeper: &'a Keeper<P, Tables<P>>,
    named: &'a Target<'a, P, Table<P>>,
    engine: &'a DeviceEngine<P>,
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
    let table = with_table!(&named.table, table => table.for_devices());
    let (Some(table), Some(engine)) = (table, named.engine.writer()) else {
        return Err(Error::Invalid(
            "columns lie in device memory, and no device works this table of rows; copy them to host memory first"
                .into(),
        ));
    };
    let named = &Target { id: named.id, engine: &named.engine, table };
    let ours = space_of(engine);
    for space in [batch.space(), output.space()] {
        if space != MemorySpace::Host && space != ours {
            return Err(Error::Invalid(format!(
                "columns lie in the memory of {space}, and the table is worked by {ours}; copy them first"
            )));
        }
    }
    let rows = Rows { keeper, named, engine, batch, durability, stream };
    match (batch.host(), output.space()) {
        (Some(host), MemorySpace::Host) => match output.into_host() {
            Some(mut answers) => execute_on(keeper, named, &host, durability, &mut answers),
            None => unreachable!("all of an output is in one memory"),
        },
        (Some(host), MemorySpace::Device(_)) => {
            let mut results = Results::new(batch);
            run(keeper, named, host.iter().collect(), durability, &mut results)?;
            rows.upload(&results, Places::of(output))
        }
        (None, MemorySpace::Host) => {
            let host = rows.copied(&rows_of(batch, table.key_row_len())?)?;
            match output.into_host() {
                Some(mut answers) => rows.on_host(&host, &mut answers),
                None => unreachable!("all of an output is in one memory"),
            }
        }
        (None, MemorySpace::Device(_)) => {
            rows.on_device(&rows_of(batch, table.key_row_len())?, Places::of(output))
        }
    }
}

impl<P: Persist> Rows<'_, P> {
    fn on_device(&self, rows: &WriteRows, target: Places) -> Result<()> {
        if target.spans != DevicePtr::NULL {
            return self.through_host(rows, target);
        }
        if let Some(done) = self.write_straight(rows, target) {
            return done;
        }
        let done = match rows.ops {
            RowOps::Uniform(Op::Get) => self.read(rows, target).and_then(|done| {
                self.keeper.confirm(self.durability)?;
                Ok(done)
            }),
            _ => self.write(rows, target),
        };
        match done {
            // With `Process` each is tried on its own.
            Err(error) if refusal(&error).is_some() => self.through_host(rows, target),
            Ok(true) => Ok(()),
            Ok(false) => self.through_host(rows, target),
            Err(error) => Err(error),
        }
    }

    fn copied(&self, rows: &WriteRows) -> Result<HostRows> {
        // SAFETY: the maker of the view has promised that its columns are valid for as long as they are borrowed,
        // and the view has checked their lengths.
        Ok(unsafe { self.engine.copy_rows(self.named.table, rows, self.stream)? })
    }

    /// Does a batch that has been copied.
    fn on_host(&self, host: &HostRows, answers: &mut dyn warpkeep_core::Answers) -> Result<()> {
        let mut operations = Vec::with_capacity(self.batch.len());
        for index in 0..self.batch.len() {
            match host.operation(index) {
                Some(operation) => operations.push(operation),
                None => answers.answer(index, Status::Malformed, 0),
            }
        }
        run(self.keeper, self.named, operations, self.durability, answers)
    }

    fn through_host(&self, rows: &WriteRows, target: Places) -> Result<()> {
        let host = self.copied(rows)?;
        let mut results = Results::new(self.batch);
        self.on_host(&host, &mut results)?;
        self.upload(&results, target)
    }

    /// Puts answers where the caller wants them.
    fn upload(&self, results: &Results, target: Places) -> Result<()> {
        let mut statuses: Vec<u8> = results.statuses().iter().map(|&status| status as u8).collect();
        let values = (0..results.len()).filter_map(|index| Some((index, results.value(index)?)));
        if target.spans == DevicePtr::NULL {
            if target.values != DevicePtr::NULL {
                for (index, value) in values {
                    self.put(target.values.offset((index * value.len()) as u64), value)?;
                }
            }
        } else {
            let mut spans = vec![u64::MAX; 2 * results.len()];
            let mut bytes = Vec::new();
            spans.iter_mut().skip(1).step_by(2).for_each(|len| *len = 0);
            for (index, value) in values {
                if bytes.len() + value.len() > target.room {
                    statuses[index] = Status::OutputFull as u8;
                    continue;
                }
                spans[2 * index] = bytes.len() as u64;
                spans[2 * index + 1] = value.len() as u64;
                bytes.extend_from_slice(value);
            }
            self.put(target.values, &bytes)?;
            self.put(target.spans, bytemuck::cast_slice(&spans))?;
        }
        self.put_answers(target, &statuses, results.versions())
    }

    fn put_answers(&self, target: Places, statuses: &[u8], versions: &[u64]) -> Result<()> {
        self.put(target.statuses, statuses)?;
        if target.versions == DevicePtr::NULL {
            return Ok(());
        }
        self.put(target.versions, bytemuck::cast_slice(versions))
    }

    fn put(&self, to: DevicePtr, bytes: &[u8]) -> Result<()> {
        // SAFETY: the maker of the output has promised that its columns are valid and that no other code uses them,
        // and the output has checked their lengths.
        unsafe { self.engine.copy_bytes(to, bytes, self.stream)? };
        Ok(())
    }

    /// Looks keys up; `false` if the device has stepped back.
    fn read(&self, rows: &WriteRows, target: Places) -> Result<bool> {
        let asked = GetRows {
            count: rows.count,
            keys: rows.keys,
            statuses: target.statuses,
            versions: target.versions,
            values: target.values,
        };
        // SAFETY: as in `copied` and `put`.
        match unsafe { self.engine.get_bytes(self.named.table, &asked, self.stream) } {
            Ok(()) => Ok(true),
            Err(error) => {
                let _turn = self.engine.turn();
                step_back(self.named, error).map(|()| false)
            }
        }
    }

    /// Runs a batch of which only statuses are requested; without a log it needs no host round trip. `None` if that
    /// is not possible.
    fn write_straight(&self, rows: &WriteRows, target: Places) -> Option<Result<()>> {
        let RowOps::Uniform(op) = rows.ops else { return None };
        let in_words = |at: DevicePtr, len: usize| len.is_multiple_of(8) && at.address().is_multiple_of(8);
        let table = self.named.table;
        let log = self.keeper.log();
        // `Power` without a log is refused on the ordinary path.
        let possible = (log.is_some() || self.durability == Durability::Process)
            && target.versions.is_null()
            && !op.answers_value()
            && table.key_row_len().is_some_and(|len| in_words(rows.keys, len))
            && in_words(rows.values, table.value_spec().max_len());
        if !possible {
            return None;
        }
        let straight = StraightRows {
            op,
            count: rows.count,
            keys: rows.keys,
            values: rows.values,
            statuses: target.statuses,
        };
        if log.is_some() {
            return self.write_logged(rows, &straight).transpose();
        }
        if let Err(refused) = self.keeper.admit(self.durability) {
            return Some(Err(refused));
        }
        let mut turn = self.engine.turn();
        let first_version = self.keeper.next_versions(rows.count);
        // SAFETY: as in `copied` and `put`.
        match unsafe { turn.write_straight(table, &straight, first_version, self.stream) } {
            Ok(Some(_)) => Some(Ok(())),
            Ok(None) => None,
            Err(error) => {
                // Some of it may have been done, so it is not done again in another way.
                if let TableError::Device(lost) = &error
                    && !lost.is_out_of_memory()
                {
                    self.named.engine.take_over(table);
                }
                Some(Err(error.into()))
            }
        }
    }

    /// The same with a log; `None`, with nothing done, if it is to go another way.
    fn write_logged(&self, rows: &WriteRows, straight: &StraightRows) -> Result<Option<()>> {
        let Rows { keeper, named, engine, durability, stream, .. } = *self;
        if !engine.points(named.table) || rows.count == 0 {
            return Ok(None);
        }
        // Logged columns are copied first: once the batch is decided, other writers wait.
        // SAFETY: as in `copied`.
        let host = unsafe { engine.pin_rows(named.table, straight, stream)? };
        keeper.admit(durability)?;
        let mut turn = engine.turn();
        let first_version = keeper.next_versions(rows.count);
        // SAFETY: as in `copied` and `put`.
        let decided = unsafe { turn.decide_straight(named.table, straight, first_version, stream) };
        let stage = match decided {
            Ok(Some(stage)) => stage,
            Ok(None) => return Ok(None),
            Err(error) => return step_back(named, error).map(|()| None),
        };
        let (op, keys, values) = (straight.op, host.keys(), host.values());
        let (cells, value_len) = (named.table.key_cells(), named.table.value_spec().max_len());
        let Some(key_len) = named.table.key_row_len() else { return Ok(None) };
        let row = |index: usize| {
            let key = &keys[key_len * index..][..key_len];
            // An operation on an invalid cell has no effect, and is not left to the CPU.
            let key = cells.map_or(key, |cells| cells.remains_in(key));
            let value = if op.takes_value() { &values[value_len * index..][..value_len] } else { &[] };
            Operation { index, op, key, value, argument: 0 }
        };
        let logged = Logged { keeper, target: named, durability, op };
        let Some(committed) = logged.commit(stage, first_version, row)? else { return Ok(None) };
        for Answer { index, status, .. } in committed.apart {
            self.put(straight.statuses.offset(index as u64), &[status as u8])?;
        }
        Ok(Some(()))
    }

    /// Does a batch that writes; `false` if the device has stepped back, with nothing done.
    fn write(&self, rows: &WriteRows, target: Places) -> Result<bool> {
        let Rows { keeper, named, engine, durability, stream, .. } = *self;
        let table = named.table;
        // Logged columns are copied first: once the batch is staged, other writers wait.
        let mut host = match keeper.log() {
            Some(_) => Some(self.copied(rows)?),
            None => None,
        };
        loop {
            keeper.admit(durability)?;
            let mut turn = engine.turn();
            // SAFETY: as in `copied`.
            let staged = unsafe { turn.stage_rows(table, rows, keeper.next_versions(rows.count), stream) };
            let mut staged = match staged {
                Ok(staged) => staged,
                Err(error) => return step_back(named, error).map(|()| false),
            };
            let left: Vec<usize> = (0..staged.count()).filter(|&index| staged.is_left(index)).collect();
            if !left.is_empty() && host.is_none() {
                host = Some(self.copied(rows)?);
            }
            let operation = |index| host.as_ref().and_then(|host| host.operation(index));
            let mut changes = ChangeBatch::new();
            let changed = log_changes(keeper, named, &staged, operation, &mut changes)?;
            let operations: Vec<Operation<'_>> = left.iter().filter_map(|&index| operation(index)).collect();
            let mut order: Vec<(LockKey, u32)> =
                operations.iter().map(|operation| table.lock_key(operation.key)).zip(0..).collect();
            order.sort_unstable();
            let beside = match stage(keeper, named, &operations, &order, &mut changes)? {
                Ok(beside) => beside,
                Err(full) => {
                    drop(staged);
                    let _moving = named.engine.moving();
                    table.make_room(full)?;
                    continue;
                }
            };
            let given = beside.given;
            let mut published = Ok(());
            let publish = || {
                let held = beside.stage.publish();
                published = staged.publish();
                held
            };
            if changed || beside.changed {
                drop(keeper.write(durability, &changes, publish)?);
            } else {
                // Releases the keys. The write lock may be kept: writers that still have to log visible effects do
                // not need it.
                drop(publish);
                keeper.confirm(durability)?;
            }
            if published.is_err() {
                named.engine.take_over(table);
            }
            let mut statuses: Vec<u8> = staged.statuses().iter().map(|&status| status as u8).collect();
            let mut versions = staged.versions().to_vec();
            // The valid ones of them are answered below.
            left.iter().for_each(|&index| statuses[index] = Status::Malformed as u8);
            if target.values != DevicePtr::NULL {
                // SAFETY: as in `put`.
                unsafe { staged.answer_rows(target.values)? };
            }
            for Answer { index, status, version, value } in given {
                (statuses[index], versions[index]) = (status as u8, version);
                if let Some(value) = value.filter(|_| target.values != DevicePtr::NULL) {
                    self.put(target.values.offset((index * value.len()) as u64), &value)?;
                }
            }
            self.put_answers(target, &statuses, &versions)?;
            return Ok(true);
        }
    }
}
