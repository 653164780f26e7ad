//! Batches whose columns are in device memory in the layout of the caller: rows exactly as long as keys and values,
//! one behind the other.
//!
//! Kernels work on rows of whole words. Rows that are not whole words are unpacked to such rows before the batch, and
//! answers are packed again after it.

use warpkeep_core::{KeyCells, Op, Operation};
use warpkeep_device::{DevicePtr, Grid, StagedBuffer, Stream};
use warpkeep_image::Persist;

use super::GetRows;
use crate::gpu::batch::creates;
use crate::gpu::engine::{Columns, DeviceEngine, THREADS, WriteLock, check_count, check_fixed};
use crate::gpu::params::{PackParams, UnpackParams};
use crate::gpu::write::two_phase::{DeviceStage, Input, words};
use crate::{Table, TableError};

/// The operations of a batch in device memory.
#[derive(Clone, Copy, Debug)]
pub enum RowOps {
    /// The same operation for all keys.
    Uniform(Op),
    /// A byte each: the code of an [`Op`]. An unknown code, or one without its value or argument, is answered
    /// [`Malformed`](warpkeep_core::Status::Malformed).
    Each(DevicePtr),
}

/// A batch in device memory.
#[derive(Clone, Copy, Debug)]
pub struct WriteRows {
    /// How many operations.
    pub count: u64,
    /// The operations.
    pub ops: RowOps,
    /// The keys, or their [cells](Table::key_cells) if the table stores keys in cells.
    pub keys: DevicePtr,
    /// The values; null if no operation takes one.
    pub values: DevicePtr,
    /// Eight bytes each; null if no operation takes one.
    pub arguments: DevicePtr,
}

/// A copy of a [`WriteRows`] batch in host memory.
#[derive(Clone, Debug)]
pub struct HostRows {
    ops: Vec<u8>,
    keys: Vec<u8>,
    values: Vec<u8>,
    arguments: Vec<u64>,
    key_len: usize,
    cells: Option<KeyCells>,
    value_len: usize,
}

impl HostRows {
    /// Operation `index`; `None` if it is malformed.
    pub fn operation(&self, index: usize) -> Option<Operation<'_>> {
        let op = Op::try_from(self.ops[index]).ok()?;
        let value = match op.takes_value() {
            true => self.values.get(self.value_len * index..)?.get(..self.value_len)?,
            false => &[],
        };
        let argument = if op.takes_argument() { *self.arguments.get(index)? } else { 0 };
        let row = &self.keys[self.key_len * index..][..self.key_len];
        let key = match self.cells {
            None => row,
            Some(cells) => cells.key_in(row)?,
        };
        Some(Operation { index, op, key, value, argument })
    }
}

/// Whether rows of `len` bytes are aligned rows of whole words.
fn are_words(at: DevicePtr, len: usize) -> bool {
    len.is_multiple_of(8) && at.address().is_multiple_of(8)
}

impl<P: Persist> DeviceEngine<P> {
    /// Unpacks rows to rows of whole words, unless they are such rows already.
    ///
    /// # Safety
    /// There are `count` rows of `len` bytes, and they stay until the stream has been synchronised; so does the column.
    unsafe fn unpack(
        &self,
        rows: (DevicePtr, usize, usize),
        column: &mut StagedBuffer,
        stream: &Stream,
    ) -> Result<DevicePtr, TableError> {
        let (from, count, len) = rows;
        if are_words(from, len) {
            return Ok(from);
        }
        let to = column.reserve(self.device(), 8 * count * words(len))?;
        let params =
            UnpackParams { count: count as u64, from, to, len: len as u32, words: words(len) as u32 };
        let grid = Grid::covering((count * words(len)).max(1) as u64, THREADS);
        // SAFETY: the caller's promise; the column was reserved for `count` rows.
        unsafe { self.kernels.read()?.unpack.launch(grid, &params, stream)? };
        Ok(to)
    }

    /// Whether [`DeviceEngine::get_rows`] takes these rows as they are: rows exactly as long as keys and values that are whole words.
    pub fn takes_rows(&self, table: &Table<P>, rows: &GetRows) -> bool {
        are_words(rows.keys, table.key_row())
            && (rows.values.is_null() || are_words(rows.values, table.value.max_len()))
    }

    /// As [`DeviceEngine::get_rows`], with rows exactly as long as keys and values. The answers are complete when
    /// this returns.
    ///
    /// # Safety
    /// The columns are memory of this engine's device, as long as [`GetRows`] says, and nothing else uses them
    /// meanwhile.
    pub unsafe fn get_bytes(
        &self,
        table: &Table<P>,
        rows: &GetRows,
        stream: &Stream,
    ) -> Result<(), TableError> {
        self.with_workspace(|workspace| {
            let count = rows.count as usize;
            let (key_len, value_len) = (table.key_row(), table.value.max_len());
            let columns = &mut workspace.columns;
            // SAFETY: the caller's promise; the stream is synchronised before another batch uses the workspace.
            let keys = unsafe { self.unpack((rows.keys, count, key_len), &mut columns.keys, stream)? };
            let needs_pack = rows.values != DevicePtr::NULL && !are_words(rows.values, value_len);
            let values = match needs_pack {
                true => columns.answers.reserve(self.device(), 8 * count * words(value_len))?,
                false => rows.values,
            };
            // SAFETY: the caller's promise; `values` has `count` rows of whole words, in the workspace or of the
            // caller.
            let reading = unsafe { self.get_rows(table, &GetRows { keys, values, ..*rows }, stream)? };
            reading.finish()?;
            if needs_pack {
                // SAFETY: the caller's promise; `values` is the workspace's, and the stream is synchronised below.
                unsafe {
                    self.pack(
                        (values, count, value_len),
                        rows.statuses,
                        DevicePtr::NULL,
                        rows.values,
                        stream,
                    )?;
                };
                stream.synchronize()?;
            }
            Ok(())
        })
    }

    /// Packs the rows of operations that answer with a value.
    ///
    /// # Safety
    /// All columns have `count` rows, and stay until the stream has been synchronised.
    unsafe fn pack(
        &self,
        rows: (DevicePtr, usize, usize),
        statuses: DevicePtr,
        ops: DevicePtr,
        to: DevicePtr,
        stream: &Stream,
    ) -> Result<(), TableError> {
        let (from, count, len) = rows;
        let (len, words) = (len as u32, words(len) as u32);
        let params = PackParams { count: count as u64, from, to, statuses, ops, len, words };
        let grid = Grid::covering((params.count * u64::from(words)).max(1), THREADS);
        // SAFETY: the caller's promise.
        unsafe { self.kernels.read()?.pack.launch(grid, &params, stream)? };
        Ok(())
    }

    /// Copies a batch to host memory, after the work in the caller's stream.
    ///
    /// # Safety
    /// The columns are memory of this engine's device and as long as [`WriteRows`] says.
    pub unsafe fn copy_rows(
        &self,
        table: &Table<P>,
        rows: &WriteRows,
        stream: &Stream,
    ) -> Result<HostRows, TableError> {
        check_fixed(table)?;
        let (count, key_len, value_len) = (rows.count as usize, table.key_row(), table.value.max_len());
        self.with_workspace(|workspace| {
            let Columns { ops, keys, values, arguments, .. } = &mut workspace.columns;
            let len_of = |at: DevicePtr, bytes: usize| if at == DevicePtr::NULL { 0 } else { bytes };
            let op_codes = match rows.ops {
                RowOps::Uniform(_) => DevicePtr::NULL,
                RowOps::Each(codes) => codes,
            };
            let sources = [
                (ops, op_codes, len_of(op_codes, count)),
                (keys, rows.keys, count * key_len),
                (values, rows.values, len_of(rows.values, count * value_len)),
                (arguments, rows.arguments, len_of(rows.arguments, 8 * count)),
            ];
            let mut copies = Vec::new();
            for (column, from, bytes) in sources {
                column.host::<u8>(self.device(), bytes)?;
                // SAFETY: the caller's promise; the host side was reserved for `bytes` bytes, and the stream is
                // synchronised below.
                unsafe { self.device().copy_raw(column.host_ptr(), from, bytes, stream)? };
                copies.push((column, bytes));
            }
            stream.synchronize()?;
            let mut copies = copies.into_iter().map(|(column, bytes)| column.fetched::<u8>(bytes));
            let mut next = || copies.next().unwrap_or_default();
            let (ops, keys, values, arguments) = (next(), next(), next(), next());
            Ok(HostRows {
                ops: match rows.ops {
                    RowOps::Uniform(op) => vec![op as u8; count],
                    RowOps::Each(_) => ops.to_vec(),
                },
                keys: keys.to_vec(),
                values: values.to_vec(),
                arguments: bytemuck::cast_slice(arguments).to_vec(),
                key_len,
                cells: table.key_cells(),
                value_len,
            })
        })
    }

    /// Copies bytes to device memory of the caller, after the work in its stream. The copy is complete when this
    /// returns.
    ///
    /// # Safety
    /// `to` is memory of this engine's device for as many bytes, and nothing else uses it meanwhile.
    pub unsafe fn copy_bytes(&self, to: DevicePtr, bytes: &[u8], stream: &Stream) -> Result<(), TableError> {
        self.with_workspace(|workspace| {
            let column = &mut workspace.columns.counters;
            column.host::<u8>(self.device(), bytes.len())?.copy_from_slice(bytes);
            // SAFETY: the caller's promise; the host side is the workspace's, and the stream is synchronised before
            // it is used again.
            unsafe { self.device().copy_raw(to, column.host_ptr(), bytes.len(), stream)? };
            Ok(stream.synchronize()?)
        })
    }
}

impl<'e, P: Persist> WriteLock<'e, P> {
    /// As [`WriteLock::stage`], with columns in device memory, after the work in the caller's stream.
    ///
    /// # Safety
    /// The columns are memory of this engine's device and as long as [`WriteRows`] says, and stay until the stage has
    /// been published or dropped.
    pub unsafe fn stage_rows<'s>(
        &'s mut self,
        table: &'s Table<P>,
        rows: &WriteRows,
        first_version: u64,
        stream: &Stream,
    ) -> Result<DeviceStage<'s, 'e, P>, TableError> {
        check_fixed(table)?;
        check_count(rows.count)?;
        // SAFETY: the caller's promise.
        let input = unsafe { self.rows_input(table, rows, stream) };
        let staged = input.and_then(|input| {
            let blocks = match (table.pool, rows.ops) {
                (None, _) | (_, RowOps::Uniform(Op::Get | Op::Delete)) => None,
                (Some(pool), _) => Some(table.heap.allocate_many(pool, input.count)?),
            };
            self.launch(table, &input, blocks, first_version)
        });
        self.make_stage(table, staged)
    }

    /// # Safety
    /// As [`WriteLock::stage_rows`].
    unsafe fn rows_input(
        &mut self,
        table: &Table<P>,
        rows: &WriteRows,
        stream: &Stream,
    ) -> Result<Input, TableError> {
        let (engine, count) = (self.engine, rows.count as usize);
        let (device, workspace) = (engine.device(), &mut *self.workspace);
        let begun = device.event()?;
        begun.record(stream)?;
        workspace.stream.wait_for(&begun)?;
        let (columns, stream) = (&mut workspace.columns, &workspace.stream);
        let (ops, answers, may_create) = match rows.ops {
            RowOps::Uniform(op) => {
                (columns.ops.fill(device, count, op as u8, stream)?, op.answers_value(), creates(op))
            }
            RowOps::Each(codes) => (codes, true, true),
        };
        // SAFETY: the caller's promise; the write lock keeps the columns until the stage has ended.
        let (keys, values) = unsafe {
            let keys = engine.unpack((rows.keys, count, table.key_row()), &mut columns.keys, stream)?;
            let values = match rows.values {
                DevicePtr::NULL => DevicePtr::NULL,
                values => {
                    engine.unpack((values, count, table.value.max_len()), &mut columns.values, stream)?
                }
            };
            (keys, values)
        };
        Ok(Input {
            count,
            ops,
            keys,
            values,
            arguments: rows.arguments,
            answers,
            new: if may_create { count } else { 0 },
        })
    }
}

impl<P: Persist> DeviceStage<'_, '_, P> {
    /// Copies the values that operations answer with to rows in device memory, exactly as long as values. Rows of
    /// other operations do not change.
    ///
    /// # Safety
    /// There are as many rows as operations, and nothing else uses them meanwhile.
    pub unsafe fn answer_rows(&self, to: DevicePtr) -> Result<(), TableError> {
        let Some((answers, statuses, ops)) = self.answer_columns() else { return Ok(()) };
        let (engine, stream) = (self.lock().engine, &self.lock().workspace.stream);
        let len = self.table().value.max_len();
        // SAFETY: the caller's promise; the other columns belong to the write lock, which this stage holds.
        unsafe { engine.pack((answers, self.count(), len), statuses, ops, to, stream)? };
        Ok(stream.synchronize()?)
    }
}
