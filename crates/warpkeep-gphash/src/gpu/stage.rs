//! Writing a batch on a device.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_epoch::Guard;
use warpkeep_core::{Op, Status};
use warpkeep_device::{DevicePtr, TypedKernel};
use warpkeep_image::{Blocks, Persist};

use super::batch::{BatchRows, fill};
use super::engine::{Turn, check_fixed};
use super::mirror::{For, Reflection};
use super::params::{
    MirrorParams, Pending, PendingKind, PlanParams, PublishParams, StageParams, TableParams,
};
use crate::bucket::Body;
use crate::{Table, TableError};

/// A batch that is staged: decided, written, and not yet visible. Dropped, it leaves nothing behind.
pub struct DeviceStage<'s, 'e, P: Persist> {
    table: &'s Table<P>,
    turn: &'s mut Turn<'e, P>,
    count: usize,
    /// Where each operation may put a record; `None` if items have none.
    blocks: Option<Blocks<'s, P>>,
    params: TableParams,
    at: DevicePtr,
    keys: DevicePtr,
    mirror: Option<Reflection>,
    value_words: usize,
    /// Operations and answers in device memory, if some may answer with a value.
    answers: Option<(DevicePtr, DevicePtr)>,
    published: bool,
    took: Duration,
    guard: Guard,
}

/// The columns of a batch, in device memory.
pub(super) struct Input {
    pub(super) count: usize,
    pub(super) ops: DevicePtr,
    pub(super) keys: DevicePtr,
    pub(super) values: DevicePtr,
    pub(super) arguments: DevicePtr,
    /// Some operation may answer with a value.
    pub(super) answers: bool,
    /// Operations that may bring a new key.
    pub(super) new: usize,
}

impl<'e, P: Persist> Turn<'e, P> {
    /// Stages a batch. Operation number `i` that writes gives its item the version `first_version + i`. Some are [left](DeviceStage::is_left)
    /// to the CPU: those on keys that the batch has more than once, and those that find no place.
    pub fn stage<'s>(
        &'s mut self,
        table: &'s Table<P>,
        batch: &(impl BatchRows + ?Sized),
        first_version: u64,
    ) -> Result<DeviceStage<'s, 'e, P>, TableError> {
        check_fixed(table)?;
        let sent = self.send(table, batch);
        let staged = sent.and_then(|(input, blocks)| self.launch(table, &input, blocks, first_version));
        self.staged(table, staged)
    }

    /// Copies a batch to the device; gives it with the blocks that it may use.
    fn send<'s>(
        &mut self,
        table: &'s Table<P>,
        batch: &(impl BatchRows + ?Sized),
    ) -> Result<(Input, Option<Blocks<'s, P>>), TableError> {
        let (device, place) = (self.engine.device(), &mut *self.place);
        let (columns, stream, count) = (&mut place.columns, &place.stream, batch.count());
        let needs = fill(table, batch, columns, device)?;
        let takes_block = |op: Op| op.writes() && op != Op::Delete;
        let blocks = match table.pool {
            None => None,
            Some(pool) => {
                let blocks = table.heap.allocate_many(pool, needs.blocks)?;
                Some(blocks.spread(count, |index| takes_block(batch.row(index).op)))
            }
        };
        let (key_words, value_words) = (words(table.key_row()), words(table.value.max_len()));
        // SAFETY: whoever stages synchronises the stream before the columns are used again.
        let input = unsafe {
            Input {
                count,
                ops: columns.ops.send::<u8>(device, count, stream)?,
                keys: columns.keys.send::<u64>(device, count * key_words, stream)?,
                values: match needs.values {
                    true => columns.values.send::<u64>(device, count * value_words, stream)?,
                    false => DevicePtr::NULL,
                },
                arguments: match needs.arguments {
                    true => columns.arguments.send::<u64>(device, count, stream)?,
                    false => DevicePtr::NULL,
                },
                answers: needs.answers,
                new: needs.new,
            }
        };
        Ok((input, blocks))
    }

    /// Plans and stages what is in columns, and fetches what came of it.
    pub(super) fn launch<'s>(
        &mut self,
        table: &'s Table<P>,
        input: &Input,
        blocks: Option<Blocks<'s, P>>,
        first_version: u64,
    ) -> Result<Launched<'s, P>, TableError> {
        let (engine, count) = (self.engine, input.count);
        let staying = engine.stay();
        let guard = table.heap.pin();
        // After the blocks: they may have made the image grow.
        let purpose = For::Writing(input.new as u64);
        let mirror = engine.mirror.join(engine, table, purpose)?;
        let reflected = mirror.as_ref().map_or(MirrorParams::NONE, Reflection::params);
        let table_params = engine.table_params(table, &guard)?.reflected(reflected);
        let (device, place) = (engine.device(), &mut *self.place);
        let (columns, stream) = (&mut place.columns, &place.stream);
        let places = (2 * count.max(1)).next_power_of_two();
        let plan = PlanParams {
            table: table_params,
            count: count as u64,
            keys: input.keys,
            places: columns.places.fill(device, 4 * places, 0xff, stream)?,
            place_mask: places as u64 - 1,
            left: columns.left.fill(device, 4 * count, 0, stream)?,
        };
        let value_words = words(table.value.max_len());
        let params = StageParams {
            table: table_params,
            count: count as u64,
            ops: input.ops,
            keys: input.keys,
            values: input.values,
            arguments: input.arguments,
            blocks: match &blocks {
                None => DevicePtr::NULL,
                Some(blocks) => {
                    columns.blocks.host(device, count)?.copy_from_slice(blocks.offsets());
                    // SAFETY: the stream is synchronised before the column is used again.
                    unsafe { columns.blocks.send::<u64>(device, count, stream)? }
                }
            },
            first_version,
            statuses: columns.statuses.room(device, count)?,
            versions: columns.versions.room(device, 8 * count)?,
            answers: match input.answers {
                true => columns.answers.room(device, 8 * count * value_words)?,
                false => DevicePtr::NULL,
            },
            pending: columns.pending.room(device, size_of::<Pending>() * count)?,
            left: plan.left,
        };
        // What came of it has somewhere to go before anything is in the image: once slots are claimed, nobody is to run out of memory.
        columns.statuses.host::<u8>(device, count)?;
        columns.versions.host::<u64>(device, count)?;
        columns.pending.host::<Pending>(device, count)?;
        if input.answers {
            columns.answers.host::<u64>(device, count * value_words)?;
        }
        let begun = Instant::now();
        // SAFETY: the columns are as long as the kernels take them to be and stay until they are done; blocks are free ones of the
        // heap, so nobody else writes to them; the turn keeps other writers away.
        unsafe {
            place.launch(&engine.kernels.two_phase()?.plan, count as u64, &plan)?;
            place.launch(&engine.kernels.two_phase()?.stage, count as u64, &params)?;
        }
        place.stream.synchronize()?;
        drop(staying);
        let took = begun.elapsed();
        let (columns, stream) = (&mut place.columns, &place.stream);
        // SAFETY: the stream is synchronised before anybody looks.
        unsafe {
            columns.statuses.fetch::<u8>(device, count, stream)?;
            columns.versions.fetch::<u64>(device, count, stream)?;
            columns.pending.fetch::<Pending>(device, count, stream)?;
            if input.answers {
                columns.answers.fetch::<u64>(device, count * value_words, stream)?;
            }
        }
        stream.synchronize()?;
        Ok(Launched {
            count,
            blocks,
            params: table_params,
            at: params.pending,
            keys: params.keys,
            mirror,
            answers: input.answers.then_some((input.ops, params.answers)),
            took,
            guard,
        })
    }

    /// What was launched as a stage; or, after an error, nothing under way that uses the columns.
    pub(super) fn staged<'s>(
        &'s mut self,
        table: &'s Table<P>,
        launched: Result<Launched<'s, P>, TableError>,
    ) -> Result<DeviceStage<'s, 'e, P>, TableError> {
        match launched {
            Err(error) => {
                // The error is told; the stream's own would be of the same cause.
                let _ = self.place.stream.synchronize();
                Err(error)
            }
            Ok(Launched { count, blocks, params, at, keys, mirror, answers, took, guard }) => {
                Ok(DeviceStage {
                    table,
                    turn: self,
                    count,
                    blocks,
                    params,
                    at,
                    keys,
                    mirror,
                    value_words: words(table.value.max_len()),
                    answers,
                    published: false,
                    took,
                    guard,
                })
            }
        }
    }
}

/// A stage, but for what it borrows.
pub(super) struct Launched<'s, P: Persist> {
    count: usize,
    blocks: Option<Blocks<'s, P>>,
    params: TableParams,
    at: DevicePtr,
    keys: DevicePtr,
    mirror: Option<Reflection>,
    answers: Option<(DevicePtr, DevicePtr)>,
    took: Duration,
    guard: Guard,
}

/// Words that so many bytes take.
pub(super) fn words(bytes: usize) -> usize {
    bytes.div_ceil(8)
}

impl<P: Persist> DeviceStage<'_, '_, P> {
    /// How many operations it has.
    pub fn count(&self) -> usize {
        self.count
    }

    pub(super) fn table(&self) -> &Table<P> {
        self.table
    }

    pub(super) fn turn(&self) -> &Turn<'_, P> {
        self.turn
    }

    /// Answers, statuses and operations in device memory, if some operation may answer with a value.
    pub(super) fn answer_columns(&self) -> Option<(DevicePtr, DevicePtr, DevicePtr)> {
        let (ops, answers) = self.answers?;
        Some((answers, self.turn.place.columns.statuses.at(), ops))
    }

    /// How long the kernel took, launch and all.
    pub fn kernel_time(&self) -> Duration {
        self.took
    }

    /// What operation `index` is answered.
    pub fn status(&self, index: usize) -> Status {
        let code = self.turn.place.columns.statuses.fetched::<u8>(self.count)[index];
        Status::try_from(code).unwrap_or(Status::Corrupt)
    }

    /// What each operation is answered.
    pub fn statuses(&self) -> Vec<Status> {
        (0..self.count).map(|index| self.status(index)).collect()
    }

    /// Whether nothing was done about operation `index`: its key is in the batch more than once ([`Status::Pending`]), or found no
    /// place ([`Status::TableFull`]). The CPU does the former in their order, and may find a place for the latter.
    pub fn is_left(&self, index: usize) -> bool {
        matches!(self.status(index), Status::Pending | Status::TableFull)
    }

    /// The version each operation is answered with.
    pub fn versions(&self) -> &[u64] {
        self.turn.place.columns.versions.fetched(self.count)
    }

    fn pending(&self) -> &[Pending] {
        self.turn.place.columns.pending.fetched(self.count)
    }

    /// The value that operation `index`, a get or a fetch-add, found.
    pub fn answer(&self, index: usize) -> &[u8] {
        let words = if self.answers.is_some() { self.count * self.value_words } else { 0 };
        let rows: &[u8] = bytemuck::cast_slice(self.turn.place.columns.answers.fetched::<u64>(words));
        let row = 8 * self.value_words;
        rows.get(row * index..).and_then(|rest| rest.get(..self.table.value.max_len())).unwrap_or(&[])
    }

    /// Whether operation `index` changes anything, and whether it removes the key.
    pub fn change(&self, index: usize) -> Option<bool> {
        match self.pending()[index].kind() {
            PendingKind::None => None,
            PendingKind::Fill | PendingKind::Replace => Some(false),
            PendingKind::Clear => Some(true),
        }
    }

    /// The value that operation `index` writes: what it came to, for a merge or a fetch-add.
    pub fn written(&self, index: usize) -> Vec<u8> {
        let (table, len) = (self.table, self.table.value.max_len());
        let mut value = vec![0; len];
        let pending = &self.pending()[index];
        let at = match (table.shape.body, pending.kind()) {
            (_, PendingKind::None | PendingKind::Clear) => return Vec::new(),
            (Body::Packed | Body::Reference, _) => {
                table.form.value_at(self.blocks.as_ref().map_or(0, |blocks| blocks.offsets()[index]))
            }
            // A slot that is filled has its value in the first of two words; the head of one that is replaced says which.
            (Body::Inline { .. }, PendingKind::Fill) => table.payload_of(pending.at) + 8,
            (Body::Inline { .. }, PendingKind::Replace) => pending.at + 8 * (1 + (pending.word & 1)),
        };
        table.image().read(at, &mut value);
        value
    }

    /// Makes all of it visible, once. Cannot fail: if the device is lost, as the error says, the CPU has done it.
    pub fn publish(&mut self) -> Result<(), TableError> {
        if self.published {
            return Ok(());
        }
        let table = self.table;
        self.turn.engine.level_copies().outdate();
        let done = self.turn.engine.kernels.two_phase().and_then(|kernels| self.run(&kernels.publish));
        if done.is_err() {
            let changes = self.pending().iter().filter(|pending| pending.kind() != PendingKind::None);
            let mut feed = table.changes.record();
            for pending in changes {
                if let Some(feed) = &mut feed {
                    feed.word(pending.at);
                }
                table.image().store(pending.at, pending.word);
                table.image().flush("gphash.word", pending.at, 8);
            }
            table.image().fence("gphash.word");
        }
        self.published = true;
        let (mut items, mut left_overflow, mut filled) = (0, 0, 0);
        let mut retired = Vec::new();
        let pending: &[Pending] = self.turn.place.columns.pending.fetched(self.count);
        for (index, pending) in pending.iter().enumerate() {
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
            if pending.block_used()
                && let Some(blocks) = &mut self.blocks
            {
                // The table has it now.
                blocks.hand_over(index);
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
        table.heap.retire(retired, &self.guard);
        done
    }

    pub(super) fn publish_params(&self) -> PublishParams {
        let count = self.count as u64;
        PublishParams { table: self.params, count, pending: self.at, keys: self.keys }
    }

    fn run(&self, kernel: &TypedKernel<PublishParams>) -> Result<(), TableError> {
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
        let claimed = self.pending().iter().any(|pending| pending.kind() == PendingKind::Fill);
        if claimed {
            // A device that is lost leaves claimed slots behind; whoever takes the table over empties them.
            let _ = self.turn.engine.kernels.two_phase().and_then(|kernels| self.run(&kernels.abandon));
        }
    }
}
