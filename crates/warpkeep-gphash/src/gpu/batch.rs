//! Batches that are written, as whoever has them, and how they come into columns.

use std::sync::{Mutex, PoisonError};

use warpkeep_core::{CoreError, KeyCells, Op, Operation};
use warpkeep_image::Persist;
use warpkeep_record::in_parallel;

use super::columns::Columns;
use crate::{Table, TableError};

/// Rows that one thread copies at a time.
const SHARE: usize = 1 << 13;

/// The operations of a batch, in host memory.
pub trait BatchRows: Sync {
    /// How many there are.
    fn count(&self) -> usize;
    /// Operation `index`, with a value if it takes one.
    fn row(&self, index: usize) -> Operation<'_>;

    /// An error if the columns do not go with each other.
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

/// Operations, by columns.
#[derive(Clone, Debug, Default)]
pub struct DeviceBatch<'b> {
    /// What to do.
    pub ops: Vec<Op>,
    /// To which key.
    pub keys: Vec<&'b [u8]>,
    /// The value that goes with it; empty if it takes none.
    pub values: Vec<&'b [u8]>,
    /// The version or the number that goes with it.
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

/// Which columns a batch needs beside operations and keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) values: bool,
    pub(crate) arguments: bool,
    /// Some operation answers with a value.
    pub(crate) answers: bool,
    /// Operations that may need a block for a record.
    pub(crate) blocks: usize,
    /// Operations that may bring a new key.
    pub(crate) new: usize,
}

/// Whether an operation may bring a new key.
pub(super) fn creates(op: Op) -> bool {
    !matches!(op, Op::Get | Op::Delete | Op::Update | Op::CompareAndSwap)
}

impl Needs {
    pub(crate) fn of(self, op: Op) -> Needs {
        Needs {
            values: self.values | op.takes_value(),
            arguments: self.arguments | op.takes_argument(),
            answers: self.answers | op.answers_value(),
            blocks: self.blocks + usize::from(op.writes() && op != Op::Delete),
            new: self.new + usize::from(creates(op)),
        }
    }

    fn with(self, other: Needs) -> Needs {
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
struct Part<'a> {
    first: usize,
    ops: &'a mut [u8],
    keys: &'a mut [u64],
    values: &'a mut [u64],
    arguments: &'a mut [u64],
}

/// Copies a batch to the host's side of the columns, by as many threads as it is worth, and checks every operation: kernels take it for granted.
pub(crate) fn fill<P: Persist>(
    table: &Table<P>,
    batch: &(impl BatchRows + ?Sized),
    columns: &mut Columns,
    device: &warpkeep_device::Device,
) -> Result<Needs, TableError> {
    batch.check()?;
    let count = batch.count();
    let (key_words, value_words) = (table.key_row().div_ceil(8), table.value.max_len().div_ceil(8));
    let parts = {
        let ops = columns.ops.host::<u8>(device, count)?.chunks_mut(SHARE);
        let keys = columns.keys.host::<u64>(device, count * key_words)?.chunks_mut(SHARE * key_words);
        let arguments = columns.arguments.host::<u64>(device, count)?.chunks_mut(SHARE);
        let values = columns.values.host::<u64>(device, count * value_words)?;
        // Values may have no bytes at all.
        let mut values = values.chunks_mut((SHARE * value_words).max(1));
        let columns = ops.zip(keys).zip(arguments).enumerate();
        let part = |(number, ((ops, keys), arguments))| Part {
            first: number * SHARE,
            ops,
            keys,
            values: values.next().unwrap_or_default(),
            arguments,
        };
        columns.map(part).collect::<Vec<_>>()
    };
    let (count, needs) = (parts.len() as u64, Mutex::new(Needs::default()));
    let parts = Mutex::new(parts.into_iter());
    in_parallel(count, 1, |numbers| {
        for _ in numbers {
            let part = parts.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(part) = part else { return Ok(()) };
            let found = fill_part(table, batch, part, (key_words, value_words))?;
            let mut needs = needs.lock().unwrap_or_else(PoisonError::into_inner);
            *needs = needs.with(found);
        }
        Ok::<(), TableError>(())
    })?;
    Ok(needs.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn fill_part<P: Persist>(
    table: &Table<P>,
    batch: &(impl BatchRows + ?Sized),
    part: Part<'_>,
    (key_words, value_words): (usize, usize),
) -> Result<Needs, CoreError> {
    let (mut needs, cells) = (Needs::default(), table.key_cells());
    let values: &mut [u8] = bytemuck::cast_slice_mut(part.values);
    let keys: &mut [u8] = bytemuck::cast_slice_mut(part.keys);
    for (row, (to_op, to_argument)) in part.ops.iter_mut().zip(part.arguments).enumerate() {
        let index = part.first + row;
        let Operation { op, key, value, argument, .. } = batch.row(index);
        let fits = table.key.check(key).and_then(|()| match (op.takes_value(), value.len()) {
            (false, 0) => Ok(()),
            (false, len) => Err(CoreError::ValueLength { len: len as u64, spec: table.value }),
            (true, _) => table.value.check(value),
        });
        fits.map_err(|reason| CoreError::Operation { index, op, reason: Box::new(reason) })?;
        needs = needs.of(op);
        *to_op = op as u8;
        *to_argument = argument;
        put_key(&mut keys[8 * key_words * row..][..8 * key_words], key, cells);
        if op.takes_value() {
            put_row(&mut values[8 * value_words * row..][..8 * value_words], value);
        }
    }
    Ok(needs)
}

/// A row of whole words, with zeros behind it.
pub(super) fn put_row(to: &mut [u8], row: &[u8]) {
    let (bytes, padding) = to.split_at_mut(row.len());
    bytes.copy_from_slice(row);
    padding.fill(0);
}

/// The row of a key, which has been checked: with cells, its cell.
#[inline]
pub(super) fn put_key(to: &mut [u8], key: &[u8], cells: Option<KeyCells>) {
    match cells.and_then(|cells| cells.cell(key)) {
        Some(cell) => to.copy_from_slice(cell.as_bytes()),
        None => put_row(to, key),
    }
}

/// Rows of whole words from keys, as [`fill`] does for a batch.
pub(crate) fn fill_keys<P: Persist>(table: &Table<P>, keys: &[&[u8]], to: &mut [u64]) {
    let (rows, cells): (&mut [u8], _) = (bytemuck::cast_slice_mut(to), table.key_cells());
    for (key, to) in keys.iter().zip(rows.chunks_exact_mut(8 * table.key_row().div_ceil(8).max(1))) {
        put_key(to, key, cells);
    }
}
