//! Write batches in host memory, and their conversion to the columns that kernels read.

use std::sync::{Mutex, PoisonError};

use warpkeep_core::{CoreError, KeyCells, Op, Operation};
use warpkeep_image::Persist;
use warpkeep_record::in_parallel;

use crate::gpu::engine::Columns;
use crate::{Table, TableError};

/// Rows of a task.
const TASK_ROWS: usize = 1 << 13;

/// The operations of a batch in host memory.
pub trait BatchRows: Sync {
    /// How many there are.
    fn count(&self) -> usize;
    /// Operation `index`, with a value if it takes one.
    fn row(&self, index: usize) -> Operation<'_>;

    /// An error if the columns have different lengths.
    fn check(&self) -> Result<(), CoreError> {
        Ok(())
    }
}

impl BatchRows for [Operation<'_>] {
    fn count(&self) -> usize {
        self.len()
    }

    fn row(&self, index: usize) -> Operation<'_> {
        self[index]
    }
}

/// Operations in columns.
#[derive(Clone, Debug, Default)]
pub struct DeviceBatch<'b> {
    /// The operations.
    pub ops: Vec<Op>,
    /// Their keys.
    pub keys: Vec<&'b [u8]>,
    /// Their values; empty where an operation takes none.
    pub values: Vec<&'b [u8]>,
    /// Their arguments: a version or a number.
    pub arguments: Vec<u64>,
}

impl<'b> DeviceBatch<'b> {
    /// Adds an operation.
    pub fn push(&mut self, op: Op, key: &'b [u8], value: &'b [u8], argument: u64) {
        self.ops.push(op);
        self.keys.push(key);
        self.values.push(value);
        self.arguments.push(argument);
    }
}

impl BatchRows for DeviceBatch<'_> {
    fn count(&self) -> usize {
        self.ops.len()
    }

    fn row(&self, index: usize) -> Operation<'_> {
        Operation {
            index,
            op: self.ops[index],
            key: self.keys[index],
            value: self.values[index],
            argument: self.arguments[index],
        }
    }

    fn check(&self) -> Result<(), CoreError> {
        let expected = self.ops.len() as u64;
        let lengths =
            [("keys", self.keys.len()), ("values", self.values.len()), ("arguments", self.arguments.len())];
        lengths.into_iter().map(|(column, len)| (column, len as u64)).try_for_each(|(column, found)| {
            if found == expected { Ok(()) } else { Err(CoreError::ColumnLength { column, found, expected }) }
        })
    }
}

/// The columns that a batch needs besides operations and keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) values: bool,
    pub(crate) arguments: bool,
    /// Whether an operation answers with a value.
    pub(crate) answers: bool,
    /// Operations that may need a block for a record.
    pub(crate) blocks: usize,
    /// Operations that may create a key.
    pub(crate) new: usize,
}

/// Whether an operation may create a key.
pub(super) fn creates(op: Op) -> bool {
    !matches!(op, Op::Get | Op::Delete | Op::Update | Op::CompareAndSwap)
}

impl Needs {
    pub(crate) fn with_op(self, op: Op) -> Needs {
        Needs {
            values: self.values | op.takes_value(),
            arguments: self.arguments | op.takes_argument(),
            answers: self.answers | op.answers_value(),
            blocks: self.blocks + usize::from(op.writes() && op != Op::Delete),
            new: self.new + usize::from(creates(op)),
        }
    }

    fn merge(self, other: Needs) -> Needs {
        Needs {
            values: self.values | other.values,
            arguments: self.arguments | other.arguments,
            answers: self.answers | other.answers,
            blocks: self.blocks + other.blocks,
            new: self.new + other.new,
        }
    }
}

/// Rows of all columns that one thread fills.
struct Task<'a> {
    first: usize,
    ops: &'a mut [u8],
    keys: &'a mut [u64],
    values: &'a mut [u64],
    arguments: &'a mut [u64],
}

/// Copies a batch to the host side of the columns, with as many threads as pay off, and checks every operation:
/// kernels do not.
pub(crate) fn fill<P: Persist>(
    table: &Table<P>,
    batch: &(impl BatchRows + ?Sized),
    columns: &mut Columns,
    device: &warpkeep_device::Device,
) -> Result<Needs, TableError> {
    batch.check()?;
    let count = batch.count();
    let (key_words, value_words) = (table.key_row().div_ceil(8), table.value.max_len().div_ceil(8));
    let tasks = {
        let ops = columns.ops.host::<u8>(device, count)?.chunks_mut(TASK_ROWS);
        let keys = columns.keys.host::<u64>(device, count * key_words)?.chunks_mut(TASK_ROWS * key_words);
        let arguments = columns.arguments.host::<u64>(device, count)?.chunks_mut(TASK_ROWS);
        let values = columns.values.host::<u64>(device, count * value_words)?;
        // Values may have no bytes at all.
        let mut values = values.chunks_mut((TASK_ROWS * value_words).max(1));
        let columns = ops.zip(keys).zip(arguments).enumerate();
        let task = |(number, ((ops, keys), arguments))| Task {
            first: number * TASK_ROWS,
            ops,
            keys,
            values: values.next().unwrap_or_default(),
            arguments,
        };
        columns.map(task).collect::<Vec<_>>()
    };
    let (count, needs) = (tasks.len() as u64, Mutex::new(Needs::default()));
    let tasks = Mutex::new(tasks.into_iter());
    in_parallel(count, 1, |numbers| {
        for _ in numbers {
            let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(task) = task else { return Ok(()) };
            let task_needs = fill_task(table, batch, task, (key_words, value_words))?;
            let mut needs = needs.lock().unwrap_or_else(PoisonError::into_inner);
            *needs = needs.merge(task_needs);
        }
        Ok::<(), TableError>(())
    })?;
    Ok(needs.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn fill_task<P: Persist>(
    table: &Table<P>,
    batch: &(impl BatchRows + ?Sized),
    task: Task<'_>,
    (key_words, value_words): (usize, usize),
) -> Result<Needs, CoreError> {
    let (mut needs, cells) = (Needs::default(), table.key_cells());
    let values: &mut [u8] = bytemuck::cast_slice_mut(task.values);
    let keys: &mut [u8] = bytemuck::cast_slice_mut(task.keys);
    for (row, (to_op, to_argument)) in task.ops.iter_mut().zip(task.arguments).enumerate() {
        let index = task.first + row;
        let Operation { op, key, value, argument, .. } = batch.row(index);
        let checked = table.key.check(key).and_then(|()| match (op.takes_value(), value.len()) {
            (false, 0) => Ok(()),
            (false, len) => Err(CoreError::ValueLength { len: len as u64, spec: table.value }),
            (true, _) => table.value.check(value),
        });
        checked.map_err(|reason| CoreError::Operation { index, op, reason: Box::new(reason) })?;
        needs = needs.with_op(op);
        *to_op = op as u8;
        *to_argument = argument;
        put_key(&mut keys[8 * key_words * row..][..8 * key_words], key, cells);
        if op.takes_value() {
            put_row(&mut values[8 * value_words * row..][..8 * value_words], value);
        }
    }
    Ok(needs)
}

/// Writes a row of whole words, padded with zeros.
pub(super) fn put_row(to: &mut [u8], row: &[u8]) {
    let (bytes, padding) = to.split_at_mut(row.len());
    bytes.copy_from_slice(row);
    padding.fill(0);
}

/// Writes the row of a key that has been checked: its cell, where the table stores keys in cells.
#[inline]
pub(super) fn put_key(to: &mut [u8], key: &[u8], cells: Option<KeyCells>) {
    match cells.and_then(|cells| cells.cell(key)) {
        Some(cell) => to.copy_from_slice(cell.as_bytes()),
        None => put_row(to, key),
    }
}

/// Writes the rows of keys, as [`fill`] does for a batch.
pub(crate) fn fill_keys<P: Persist>(table: &Table<P>, keys: &[&[u8]], to: &mut [u64]) {
    let (rows, cells): (&mut [u8], _) = (bytemuck::cast_slice_mut(to), table.key_cells());
    for (key, to) in keys.iter().zip(rows.chunks_exact_mut(8 * table.key_row().div_ceil(8).max(1))) {
        put_key(to, key, cells);
    }
}
