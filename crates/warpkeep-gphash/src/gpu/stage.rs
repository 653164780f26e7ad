//! Writing a batch on a device.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_epoch::Guard;
use warpkeep_core::{CoreError, Op, Status};
use warpkeep_image::{Block, Persist};

use super::engine::{Turn, padded_rows};
use super::mirror::{For, Reflection};
use super::params::{
    DrainParams, MirrorParams, Pending, PendingKind, PublishParams, RepairParams, Run, StageParams,
    TableParams,
};
use crate::bucket::Body;
use crate::grow::Drained;
use crate::levels::{Level, Levels};
use crate::stage::retire;
use crate::{Progress, Table, TableError};

/// Operations on different keys.
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

/// A batch that is staged: decided, written, and not yet visible. Dropped, it leaves nothing behind.
pub struct DeviceStage<'s, 'e, P: Persist> {
    table: &'s Table<P>,
    turn: &'s mut Turn<'e, P>,
    statuses: Vec<Status>,
    versions: Vec<u64>,
    answers: Vec<u64>,
    pending: Vec<Pending>,
    blocks: Vec<Option<Block<'s, P>>>,
    params: TableParams,
    at: warpkeep_device::DevicePtr,
    keys: warpkeep_device::DevicePtr,
    mirror: Option<Reflection>,
    value_words: usize,
    published: bool,
    took: Duration,
    guard: Guard,
}

impl<'e, P: Persist> Turn<'e, P> {
    /// Stages a batch. Operation number `i` that writes gives its item the version `first_version + i`. One that finds no
    /// place is answered [`Status::TableFull`]: the CPU may find one.
    pub fn stage<'s>(
        &'s mut self,
        table: &'s Table<P>,
        batch: &DeviceBatch<'_>,
        first_version: u64,
    ) -> Result<DeviceStage<'s, 'e, P>, TableError> {
        let (engine, count) = (self.engine, batch.ops.len());
        check(table, batch)?;
        let key_words = table.key.max_len().div_ceil(8);
        let value_words = table.value.max_len().div_ceil(8);
        let keys = padded_rows(batch.keys.iter().copied(), key_words);
        let values = padded_rows(batch.values.iter().copied(), value_words);
        let ops: Vec<u8> = batch.ops.iter().map(|&op| op as u8).collect();
        let blocks = blocks_for(table, batch)?;
        let offsets: Vec<u64> = blocks.iter().map(|block| block.as_ref().map_or(0, Block::offset)).collect();
        let guard = crossbeam_epoch::pin();
        let staying = engine.stay();
        // After the blocks: they may have made the image grow.
        let new = batch.ops.iter().filter(|op| !matches!(op, Op::Get | Op::Delete | Op::Update)).count();
        let mirror = engine.mirror.join(engine, table, For::Writing(new as u64))?;
        let reflected = mirror.as_ref().map_or(MirrorParams::NONE, Reflection::params);
        let table_params = engine.table_params(table, &guard, count)?.reflected(reflected);
        let (device, place) = (engine.device(), &mut *self.place);
        let (columns, stream) = (&mut place.columns, &place.stream);
        let params = StageParams {
            table: table_params,
            count: count as u64,
            ops: columns.ops.put(device, &ops, stream)?,
            keys: columns.keys.put(device, &keys, stream)?,
            values: columns.values.put(device, &values, stream)?,
            arguments: columns.arguments.put(device, &batch.arguments, stream)?,
            blocks: columns.blocks.put(device, &offsets, stream)?,
            first_version,
            statuses: columns.statuses.room(device, count)?,
            versions: columns.versions.room(device, 8 * count)?,
            answers: columns.answers.room(device, 8 * count * value_words)?,
            pending: columns.pending.room(device, size_of::<Pending>() * count)?,
        };
        let begun = Instant::now();
        // SAFETY: the columns are as long as the kernel takes them to be and stay until it is done; blocks are free ones of the
        // heap, so nobody else writes to them; the turn keeps other writers away.
        unsafe { place.launch(&engine.kernels.stage, count as u64, &params)? };
        place.stream.synchronize()?;
        let took = begun.elapsed();
        let (columns, stream) = (&place.columns, &place.stream);
        let statuses: Vec<u8> = columns.statuses.take(count, stream)?;
        drop(staying);
        let reads = batch.ops.iter().any(|op| matches!(op, Op::Get | Op::FetchAdd));
        let answers = if reads { columns.answers.take(count * value_words, stream)? } else { Vec::new() };
        Ok(DeviceStage {
            statuses: statuses
                .iter()
                .map(|&code| Status::try_from(code).unwrap_or(Status::Corrupt))
                .collect(),
            versions: columns.versions.take(count, stream)?,
            answers,
            pending: columns.pending.take(count, stream)?,
            table,
            blocks,
            params: table_params,
            at: params.pending,
            keys: params.keys,
            mirror,
            value_words,
            published: false,
            took,
            guard,
            turn: self,
        })
    }

    /// A slice of what [`Table::maintain`] does, with the device moving the items.
    pub fn maintain(&mut self, table: &Table<P>, buckets: u64) -> Result<Progress, TableError> {
        let engine = self.engine;
        let _moving = engine.moving();
        table.maintain_with(buckets, |levels, run, first, count, from_overflow| {
            self.drain(table, levels, run, first, count, from_overflow)
        })
    }

    fn drain(
        &mut self,
        table: &Table<P>,
        levels: &Levels,
        run: &Level,
        first: u64,
        count: u64,
        from_overflow: bool,
    ) -> Result<Drained, TableError> {
        let engine = self.engine;
        let image = engine.image.cover()?;
        let place = &mut *self.place;
        let counters = place.columns.counters.put(engine.device(), &[0_u64; 3], &place.stream)?;
        let params = DrainParams {
            table: TableParams::new(table, levels, image),
            run: Run::from(run),
            first,
            count,
            moved: counters,
            overflowed: counters.offset(8),
            stuck: counters.offset(16),
        };
        // Readers look into the overflow from now on: the kernel may put items there.
        let at_most = count * table.shape.slots() as u64;
        table.in_overflow.fetch_add(at_most, Ordering::AcqRel);
        // SAFETY: as for a batch; and nobody looks for items while they move.
        let launched = unsafe { place.launch(&engine.kernels.drain, 32 * count, &params) };
        let counted: Result<Vec<u64>, _> =
            launched.and_then(|()| place.columns.counters.take(3, &place.stream));
        let counted = counted.inspect_err(|_| table.settle_moves(levels))?;
        let [moved, overflowed, stuck] = counted[..] else { unreachable!("three were asked for") };
        let left_overflow = if from_overflow { moved + overflowed } else { 0 };
        table.in_overflow.fetch_add(overflowed, Ordering::AcqRel);
        table.in_overflow.fetch_sub(at_most + left_overflow, Ordering::AcqRel);
        Ok(Drained { stuck })
    }

    /// Empties slots that were being filled, in all levels; gives items and slots emptied. What [`Table::attach`] does on the CPU.
    pub fn scan_for_repair(&mut self, table: &Table<P>) -> Result<(u64, u64), TableError> {
        let engine = self.engine;
        let image = engine.image.cover()?;
        let _moving = engine.moving();
        let guard = &crossbeam_epoch::pin();
        let levels = table.levels(guard);
        let place = &mut *self.place;
        let counters = place.columns.counters.put(engine.device(), &[0_u64; 2], &place.stream)?;
        for run in table.runs(levels) {
            let params = RepairParams {
                table: TableParams::new(table, levels, image),
                run: Run::from(run),
                items: counters,
                cleared: counters.offset(8),
            };
            let slots = run.buckets * table.shape.slots() as u64;
            // SAFETY: as for a batch.
            unsafe { place.launch(&engine.kernels.repair, slots, &params)? };
        }
        let counted: Vec<u64> = place.columns.counters.take(2, &place.stream)?;
        let [items, cleared] = counted[..] else { unreachable!("two were asked for") };
        Ok((items, cleared))
    }
}

/// Whether the columns go with each other and with the table: kernels take it for granted.
fn check<P: Persist>(table: &Table<P>, batch: &DeviceBatch<'_>) -> Result<(), TableError> {
    let expected = batch.ops.len() as u64;
    let lengths =
        [("keys", batch.keys.len()), ("values", batch.values.len()), ("arguments", batch.arguments.len())];
    for (column, found) in lengths.map(|(column, len)| (column, len as u64)) {
        if found != expected {
            return Err(CoreError::ColumnLength { column, found, expected }.into());
        }
    }
    let rows = batch.ops.iter().zip(batch.keys.iter().zip(&batch.values));
    for (index, (&op, (key, value))) in rows.enumerate() {
        let fits = table.key.check(key).and_then(|()| match (op.takes_value(), value.len()) {
            (false, 0) => Ok(()),
            (false, len) => Err(CoreError::ValueLength { len: len as u64, spec: table.value }),
            (true, _) => table.value.check(value),
        });
        fits.map_err(|reason| CoreError::Operation { index, op, reason: Box::new(reason) })?;
    }
    Ok(())
}

/// A free block for each operation that writes, if items have records.
fn blocks_for<'t, P: Persist>(
    table: &'t Table<P>,
    batch: &DeviceBatch<'_>,
) -> Result<Vec<Option<Block<'t, P>>>, TableError> {
    let Some(pool) = table.pool else {
        return Ok(std::iter::repeat_with(|| None).take(batch.ops.len()).collect());
    };
    let writes = |op: &Op| !matches!(op, Op::Get | Op::Delete);
    let wanted = batch.ops.iter().filter(|op| writes(op)).count();
    let mut at_hand = table.heap.allocate_at_hand(pool, wanted);
    while at_hand.len() < wanted {
        // It comes with others, which are at hand then.
        at_hand.push(table.heap.allocate_from(pool)?);
        at_hand.extend(table.heap.allocate_at_hand(pool, wanted - at_hand.len()));
    }
    Ok(batch.ops.iter().map(|op| at_hand.pop_if(|_| writes(op))).collect())
}

impl<P: Persist> DeviceStage<'_, '_, P> {
    /// How long the kernel took, launch and all.
    pub fn kernel_time(&self) -> Duration {
        self.took
    }

    /// What each operation is answered.
    pub fn statuses(&self) -> &[Status] {
        &self.statuses
    }

    /// The version each operation is answered with.
    pub fn versions(&self) -> &[u64] {
        &self.versions
    }

    /// The value that operation `index`, a get or a fetch-add, found.
    pub fn answer(&self, index: usize) -> &[u8] {
        let rows: &[u8] = bytemuck::cast_slice(&self.answers);
        let row = 8 * self.value_words;
        rows.get(row * index..).map_or(&[], |rest| &rest[..self.table.value.max_len()])
    }

    /// Whether operation `index` changes anything, and whether it removes the key.
    pub fn change(&self, index: usize) -> Option<bool> {
        match self.pending[index].kind() {
            PendingKind::None => None,
            PendingKind::Fill | PendingKind::Replace => Some(false),
            PendingKind::Clear => Some(true),
        }
    }

    /// The value that operation `index` writes: what it came to, for a merge or a fetch-add.
    pub fn written(&self, index: usize) -> Vec<u8> {
        let (table, len) = (self.table, self.table.value.max_len());
        let mut value = vec![0; len];
        let pending = &self.pending[index];
        let at = match (table.shape.body, pending.kind()) {
            (_, PendingKind::None | PendingKind::Clear) => return Vec::new(),
            (Body::Packed | Body::Reference, _) => self.blocks[index].as_ref().map_or(0, Block::offset),
            // A slot that is filled has its value in the first of two words; the head of one that is replaced says which.
            (Body::Inline { .. }, PendingKind::Fill) => table.payload_of(pending.at) + 8,
            (Body::Inline { .. }, PendingKind::Replace) => pending.at + 8 * (1 + (pending.word & 1)),
        };
        table.image().read(at, &mut value);
        value
    }

    /// Makes all of it visible. Cannot fail: if the device is lost, as the error says, the CPU has done it.
    pub fn publish(mut self) -> Result<(), TableError> {
        let table = self.table;
        self.turn.engine.level_copies().outdate();
        let done = self.run(&self.turn.engine.kernels.publish);
        if done.is_err() {
            let changes = self.pending.iter().filter(|pending| pending.kind() != PendingKind::None);
            let mut noting = table.notes.noting();
            for pending in changes {
                if let Some(changed) = &mut noting {
                    changed.note(pending.at);
                }
                table.image().store(pending.at, pending.word);
                table.image().flush("gphash.word", pending.at, 8);
            }
            table.image().fence("gphash.word");
        }
        self.published = true;
        let (mut items, mut left_overflow, mut filled) = (0, 0, 0);
        let mut retired = Vec::new();
        for (pending, block) in self.pending.iter().zip(&mut self.blocks) {
            match pending.kind() {
                PendingKind::Fill => {
                    items += 1;
                    filled += 1;
                }
                PendingKind::Clear => {
                    items -= 1;
                    left_overflow += u64::from(pending.in_overflow());
                }
                PendingKind::None | PendingKind::Replace => {}
            }
            if pending.block_used() {
                // The table has it now.
                block.take().map(Block::into_offset);
            }
            retired.extend((pending.old != 0).then_some(pending.old));
        }
        if let Some(mirror) = &self.mirror {
            mirror.count(filled);
        }
        table.items.fetch_add(items, Ordering::Relaxed);
        if left_overflow > 0 {
            table.in_overflow.fetch_sub(left_overflow, Ordering::AcqRel);
        }
        retire(&table.heap, retired, &self.guard);
        done
    }

    pub(super) fn publish_params(&self) -> PublishParams {
        let count = self.pending.len() as u64;
        PublishParams { table: self.params, count, pending: self.at, keys: self.keys }
    }

    fn run(&self, kernel: &warpkeep_device::Kernel) -> Result<(), TableError> {
        let params = self.publish_params();
        let count = params.count;
        // SAFETY: the column was written by the stage, and stays until the stream is synchronised, which follows.
        unsafe { self.turn.place.launch(kernel, count, &params)? };
        Ok(self.turn.place.stream.synchronize()?)
    }
}

impl<P: Persist> Drop for DeviceStage<'_, '_, P> {
    fn drop(&mut self) {
        if self.published {
            return;
        }
        let claimed = self.pending.iter().any(|pending| pending.kind() == PendingKind::Fill);
        if claimed {
            // A device that is lost leaves claimed slots behind; whoever takes the table over empties them.
            let _ = self.run(&self.turn.engine.kernels.abandon);
        }
    }
}
