//! Batches whose columns lie in device memory, as callers have them: rows of as many bytes as keys and values have, one after the other.

use warpkeep_core::{KeyCells, Op, Operation};
use warpkeep_device::{DevicePtr, Grid, Stream};
use warpkeep_image::Persist;

use super::batch::creates;
use super::columns::{Column, Columns};
use super::engine::{DeviceEngine, THREADS, Turn, Workplace, check_count, check_fixed};
use super::params::{PackParams, SpreadParams};
use super::reading::GetRows;
use super::stage::{DeviceStage, Input, words};
use crate::{Table, TableError};

/// What the operations of such a batch do.
#[derive(Clone, Copy, Debug)]
pub enum RowOps {
    /// All the same.
    Uniform(Op),
    /// A code each. One that is unknown, or lacks its value or argument, is answered [`Malformed`](warpkeep_core::Status::Malformed).
    Each(DevicePtr),
}

/// A batch in device memory.
#[derive(Clone, Copy, Debug)]
pub struct WriteRows {
    /// How many operations.
    pub count: u64,
    /// What they do.
    pub ops: RowOps,
    /// The keys; of a table that keeps them in [cells](Table::key_cells), these.
    pub keys: DevicePtr,
    /// The values; null if no operation takes one.
    pub values: DevicePtr,
    /// Eight bytes each; null if no operation takes one.
    pub arguments: DevicePtr,
}

/// A copy of such a batch in host memory.
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
    /// Operation `index`; `None` if it makes no sense.
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

/// Whether such rows are rows of whole words already.
fn are_words(at: DevicePtr, len: usize) -> bool {
    len.is_multiple_of(8) && at.address().is_multiple_of(8)
}

impl<P: Persist> DeviceEngine<P> {
    /// Rows of whole words, with the bytes of these.
    ///
    /// # Safety
    /// There are `count` rows of `len` bytes, and they stay until the stream has been synchronised; so does the column.
    unsafe fn spread(
        &self,
        rows: (DevicePtr, usize, usize),
        column: &mut Column,
        stream: &Stream,
    ) -> Result<DevicePtr, TableError> {
        let (from, count, len) = rows;
        if are_words(from, len) {
            return Ok(from);
        }
        let to = column.room(self.device(), 8 * count * words(len))?;
        let params =
            SpreadParams { count: count as u64, from, to, len: len as u32, words: words(len) as u32 };
        let grid = Grid::covering((count * words(len)).max(1) as u64, THREADS);
        // SAFETY: the caller's promise, and the column has just got the room.
        unsafe { self.kernels.read()?.spread.launch(grid, &params, stream)? };
        Ok(to)
    }

    /// Looks keys up that lie in device memory, after what is in the caller's stream, and answers there. As [`DeviceEngine::get_rows`], with
    /// rows of as many bytes as keys and values have; the answers are there when this returns.
    ///
    /// # Safety
    /// The columns are memory of this engine's device, as long as [`GetRows`] says, and nobody else uses them meanwhile.
    pub unsafe fn get_bytes(
        &self,
        table: &Table<P>,
        rows: &GetRows,
        stream: &Stream,
    ) -> Result<(), TableError> {
        self.at_a_place(|place| {
            let count = rows.count as usize;
            let (key_len, value_len) = (table.key_row(), table.value.max_len());
            let columns = &mut place.columns;
            // SAFETY: the caller's promise; the stream is synchronised before the place is given to another.
            let keys = unsafe { self.spread((rows.keys, count, key_len), &mut columns.keys, stream)? };
            let packed = rows.values != DevicePtr::NULL && !are_words(rows.values, value_len);
            let values = match packed {
                true => columns.answers.room(self.device(), 8 * count * words(value_len))?,
                false => rows.values,
            };
            // SAFETY: as above.
            let reading = unsafe { self.get_rows(table, &GetRows { keys, values, ..*rows }, stream)? };
            // The host may have a part in it: what comes next needs all of it.
            reading.finish()?;
            if packed {
                // SAFETY: as above.
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

    /// Copies those rows of whole words to rows of bytes that operations are answered with.
    ///
    /// # Safety
    /// All columns have as many rows, and stay until the stream has been synchronised.
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

    /// Copies a batch to host memory, after what is in the caller's stream.
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
        self.at_a_place(|place| {
            let Columns { ops, keys, values, arguments, .. } = &mut place.columns;
            let lengths = |at: DevicePtr, bytes: usize| if at == DevicePtr::NULL { 0 } else { bytes };
            let op_codes = match rows.ops {
                RowOps::Uniform(_) => DevicePtr::NULL,
                RowOps::Each(codes) => codes,
            };
            let wanted = [
                (ops, op_codes, lengths(op_codes, count)),
                (keys, rows.keys, count * key_len),
                (values, rows.values, lengths(rows.values, count * value_len)),
                (arguments, rows.arguments, lengths(rows.arguments, 8 * count)),
            ];
            let mut copies = Vec::new();
            for (column, from, bytes) in wanted {
                column.host::<u8>(self.device(), bytes)?;
                // SAFETY: the caller's promise; the host's side is the place's, and the stream is synchronised below.
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

    /// Copies bytes to where a caller has room for them in device memory, after what is in its stream; they are there when this
    /// returns.
    ///
    /// # Safety
    /// There is memory of this engine's device for as many bytes, and nobody else uses it meanwhile.
    pub unsafe fn copy_bytes(&self, to: DevicePtr, bytes: &[u8], stream: &Stream) -> Result<(), TableError> {
        self.at_a_place(|place| {
            let column = &mut place.columns.counters;
            column.host::<u8>(self.device(), bytes.len())?.copy_from_slice(bytes);
            // SAFETY: the caller's promise; the host's side is the place's, and the stream is synchronised before it is used again.
            unsafe { self.device().copy_raw(to, column.host_ptr(), bytes.len(), stream)? };
            Ok(stream.synchronize()?)
        })
    }

    /// Works at a reader's place, which nothing uses any more afterwards.
    fn at_a_place<R>(
        &self,
        work: impl FnOnce(&mut Workplace) -> Result<R, TableError>,
    ) -> Result<R, TableError> {
        let mut place = self.take_place()?;
        let done = work(&mut place);
        if done.is_ok() {
            // After an error something may still be under way: then it is dropped, which waits for the device.
            self.keep_place(place);
        }
        done
    }
}

impl<'e, P: Persist> Turn<'e, P> {
    /// As [`Turn::stage`], with columns that lie in device memory; after what is in the caller's stream.
    ///
    /// # Safety
    /// The columns are memory of this engine's device and as long as [`WriteRows`] says, and stay until the stage has been published or
    /// dropped.
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
        self.staged(table, staged)
    }

    /// # Safety
    /// As [`Turn::stage_rows`].
    unsafe fn rows_input(
        &mut self,
        table: &Table<P>,
        rows: &WriteRows,
        stream: &Stream,
    ) -> Result<Input, TableError> {
        let (engine, count) = (self.engine, rows.count as usize);
        let (device, place) = (engine.device(), &mut *self.place);
        let begun = device.event()?;
        begun.record(stream)?;
        place.stream.wait_for(&begun)?;
        let (columns, stream) = (&mut place.columns, &place.stream);
        let (ops, answers, may_create) = match rows.ops {
            RowOps::Uniform(op) => {
                (columns.ops.fill(device, count, op as u8, stream)?, op.answers_value(), creates(op))
            }
            RowOps::Each(codes) => (codes, true, true),
        };
        // SAFETY: the caller's promise.
        let (keys, values) = unsafe {
            let keys = engine.spread((rows.keys, count, table.key_row()), &mut columns.keys, stream)?;
            let values = match rows.values {
                DevicePtr::NULL => DevicePtr::NULL,
                values => {
                    engine.spread((values, count, table.value.max_len()), &mut columns.values, stream)?
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
    /// Puts the values that operations answer with into rows of as many bytes as values have, in device memory. Rows of others are left
    /// as they are.
    ///
    /// # Safety
    /// There are as many rows as operations, and nobody else uses them meanwhile.
    pub unsafe fn answer_rows(&self, to: DevicePtr) -> Result<(), TableError> {
        let Some((answers, statuses, ops)) = self.answer_columns() else { return Ok(()) };
        let (engine, stream) = (self.turn().engine, &self.turn().place.stream);
        let len = self.table().value.max_len();
        // SAFETY: the caller's promise; the other columns are the turn's, which this stage has.
        unsafe { engine.pack((answers, self.count(), len), statuses, ops, to, stream)? };
        Ok(stream.synchronize()?)
    }
}
