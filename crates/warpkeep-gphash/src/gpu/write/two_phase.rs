//! Two-phase writes: a batch of any operations, with a round trip to the host before it is published.
//!
//! A log has to contain the changes of a batch before the image does, and only the device knows them. So the batch is
//! written in two phases. *Staging* (`kernels/write/two_phase.h`) decides each operation, claims slots and writes
//! records where no word refers to them yet. The host fetches the changes and logs them. *Publishing* then stores one
//! word per change.
//!
//! Operations on keys that occur several times in the batch depend on each other, and some find no free slot: both are
//! fallbacks, which the CPU applies ([`DeviceStage::is_fallback`]).
//!
//! Invariants:
//! - nothing of a stage is visible before it is published, and a stage that is dropped releases the slots that it
//!   claimed;
//! - all memory for the results is allocated before the first slot is claimed;
//! - publishing cannot fail: if the device is lost, the CPU stores the words;
//! - records are in the image before words: a fence of system scope lies between staging and publishing.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_epoch::Guard;
use warpkeep_core::{Op, Status};
use warpkeep_device::{DevicePtr, TypedKernel};
use warpkeep_image::{Blocks, Persist};

use crate::bucket::Body;
use crate::gpu::batch::{BatchRows, fill};
use crate::gpu::engine::{THREADS, WriteLock, check_fixed};
use crate::gpu::index::{IndexAccess, IndexSnapshot};
use crate::gpu::params::{
    IndexParams, Pending, PendingKind, PlanParams, PublishParams, StageParams, TableParams,
};
use crate::{Table, TableError};

/// A batch that is staged: decided, its records written, and not yet visible. Dropped, it releases the slots that it
/// claimed.
pub struct DeviceStage<'s, 'e, P: Persist> {
    table: &'s Table<P>,
    lock: &'s mut WriteLock<'e, P>,
    count: usize,
    /// A block for the record of each operation; `None` if items have no records.
    blocks: Option<Blocks<'s, P>>,
    params: TableParams,
    pending: DevicePtr,
    keys: DevicePtr,
    snapshot: Option<IndexSnapshot>,
    value_words: usize,
    /// Operations and answers in device memory, if an operation may answer with a value.
    answers: Option<(DevicePtr, DevicePtr)>,
    published: bool,
    kernel_time: Duration,
    guard: Guard,
}

/// The columns of a batch, in device memory.
pub(in crate::gpu) struct Input {
    pub(in crate::gpu) count: usize,
    pub(in crate::gpu) ops: DevicePtr,
    pub(in crate::gpu) keys: DevicePtr,
    pub(in crate::gpu) values: DevicePtr,
    pub(in crate::gpu) arguments: DevicePtr,
    /// Whether an operation may answer with a value.
    pub(in crate::gpu) answers: bool,
    /// Operations that may add a key.
    pub(in crate::gpu) new: usize,
}

impl<'e, P: Persist> WriteLock<'e, P> {
    /// Stages a batch. Operation `i` that writes gives its item the version `first_version + i`. Operations on keys
    /// that the batch has more than once, and those that find no free slot, are [fallbacks](DeviceStage::is_fallback).
    pub fn stage<'s>(
        &'s mut self,
        table: &'s Table<P>,
        batch: &(impl BatchRows + ?Sized),
        first_version: u64,
    ) -> Result<DeviceStage<'s, 'e, P>, TableError> {
        check_fixed(table)?;
        let sent = self.send(table, batch);
        let staged = sent.and_then(|(input, blocks)| self.launch(table, &input, blocks, first_version));
        self.make_stage(table, staged)
    }

    /// Copies a batch to the device, and allocates the blocks that it may use.
    fn send<'s>(
        &mut self,
        table: &'s Table<P>,
        batch: &(impl BatchRows + ?Sized),
    ) -> Result<(Input, Option<Blocks<'s, P>>), TableError> {
        let (device, workspace) = (self.engine.device(), &mut *self.workspace);
        let (columns, stream, count) = (&mut workspace.columns, &workspace.stream, batch.count());
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
        // SAFETY: the stream is synchronised before the host's side is used again: by `launch`, or by `make_stage`
        // after an error.
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

    /// Launches planning and staging, and fetches the results.
    pub(in crate::gpu) fn launch<'s>(
        &mut self,
        table: &'s Table<P>,
        input: &Input,
        blocks: Option<Blocks<'s, P>>,
        first_version: u64,
    ) -> Result<Launched<'s, P>, TableError> {
        let (engine, count) = (self.engine, input.count);
        let relocation = engine.relocation_read();
        let guard = table.heap.pin();
        let access = IndexAccess::Write(input.new as u64);
        let snapshot = engine.device_index.acquire(engine, table, access)?;
        let index = snapshot.as_ref().map_or(IndexParams::NONE, IndexSnapshot::params);
        // After the blocks were allocated, which may have made the image grow.
        let table_params = engine.table_params(table, &guard)?.with_index(index);
        let (device, workspace) = (engine.device(), &mut *self.workspace);
        let (columns, stream) = (&mut workspace.columns, &workspace.stream);
        let hash_slots = (2 * count.max(1)).next_power_of_two();
        let plan = PlanParams {
            table: table_params,
            count: count as u64,
            keys: input.keys,
            hash_slots: columns.duplicate_slots.fill(device, 4 * hash_slots, 0xff, stream)?,
            hash_mask: hash_slots as u64 - 1,
            is_fallback: columns.fallback_flags.fill(device, 4 * count, 0, stream)?,
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
            statuses: columns.statuses.reserve(device, count)?,
            versions: columns.versions.reserve(device, 8 * count)?,
            answers: match input.answers {
                true => columns.answers.reserve(device, 8 * count * value_words)?,
                false => DevicePtr::NULL,
            },
            pending: columns.pending.reserve(device, size_of::<Pending>() * count)?,
            is_fallback: plan.is_fallback,
        };
        // Before slots are claimed in the image: after that, no allocation may fail.
        columns.statuses.host::<u8>(device, count)?;
        columns.versions.host::<u64>(device, count)?;
        columns.pending.host::<Pending>(device, count)?;
        if input.answers {
            columns.answers.host::<u64>(device, count * value_words)?;
        }
        let begun = Instant::now();
        // SAFETY: the columns were reserved for `count` operations above, and live until the stream is synchronised
        // below; the blocks were allocated to this batch; the write lock excludes other writers.
        unsafe {
            workspace.launch(&engine.kernels.two_phase()?.plan, count as u64, THREADS, &plan)?;
            workspace.launch(&engine.kernels.two_phase()?.stage, count as u64, THREADS, &params)?;
        }
        workspace.stream.synchronize()?;
        drop(relocation);
        let kernel_time = begun.elapsed();
        let (columns, stream) = (&mut workspace.columns, &workspace.stream);
        // SAFETY: the stream is synchronised below, before the host's side is read.
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
            pending: params.pending,
            keys: params.keys,
            snapshot,
            answers: input.answers.then_some((input.ops, params.answers)),
            kernel_time,
            guard,
        })
    }

    /// Makes a stage of a launched batch. After an error it waits for the kernels, which may still use the columns.
    pub(in crate::gpu) fn make_stage<'s>(
        &'s mut self,
        table: &'s Table<P>,
        launched: Result<Launched<'s, P>, TableError>,
    ) -> Result<DeviceStage<'s, 'e, P>, TableError> {
        match launched {
            Err(error) => {
                // Only the first error is reported.
                let _ = self.workspace.stream.synchronize();
                Err(error)
            }
            Ok(Launched { count, blocks, params, pending, keys, snapshot, answers, kernel_time, guard }) => {
                Ok(DeviceStage {
                    table,
                    lock: self,
                    count,
                    blocks,
                    params,
                    pending,
                    keys,
                    snapshot,
                    value_words: words(table.value.max_len()),
                    answers,
                    published: false,
                    kernel_time,
                    guard,
                })
            }
        }
    }
}

/// A staged batch without the borrows of [`DeviceStage`].
pub(in crate::gpu) struct Launched<'s, P: Persist> {
    count: usize,
    blocks: Option<Blocks<'s, P>>,
    params: TableParams,
    pending: DevicePtr,
    keys: DevicePtr,
    snapshot: Option<IndexSnapshot>,
    answers: Option<(DevicePtr, DevicePtr)>,
    kernel_time: Duration,
    guard: Guard,
}

/// Words that hold this many bytes.
pub(in crate::gpu) fn words(bytes: usize) -> usize {
    bytes.div_ceil(8)
}

impl<P: Persist> DeviceStage<'_, '_, P> {
    /// The number of operations.
    pub fn count(&self) -> usize {
        self.count
    }

    pub(in crate::gpu) fn table(&self) -> &Table<P> {
        self.table
    }

    pub(in crate::gpu) fn lock(&self) -> &WriteLock<'_, P> {
        self.lock
    }

    /// Answers, statuses and operations in device memory, if an operation may answer with a value.
    pub(in crate::gpu) fn answer_columns(&self) -> Option<(DevicePtr, DevicePtr, DevicePtr)> {
        let (ops, answers) = self.answers?;
        Some((answers, self.lock.workspace.columns.statuses.ptr(), ops))
    }

    /// How long planning and staging took, including the launches.
    pub fn kernel_time(&self) -> Duration {
        self.kernel_time
    }

    /// The status of operation `index`.
    pub fn status(&self, index: usize) -> Status {
        let code = self.lock.workspace.columns.statuses.fetched::<u8>(self.count)[index];
        Status::try_from(code).unwrap_or(Status::Corrupt)
    }

    /// The status of each operation.
    pub fn statuses(&self) -> Vec<Status> {
        (0..self.count).map(|index| self.status(index)).collect()
    }

    /// Whether operation `index` is a fallback, of which nothing was done: its key is in the batch more than once
    /// ([`Status::Pending`]), or it found no free slot ([`Status::TableFull`]). The CPU applies the former in their
    /// order, and can move items for the latter.
    pub fn is_fallback(&self, index: usize) -> bool {
        matches!(self.status(index), Status::Pending | Status::TableFull)
    }

    /// The version in the answer of each operation.
    pub fn versions(&self) -> &[u64] {
        self.lock.workspace.columns.versions.fetched(self.count)
    }

    fn pending(&self) -> &[Pending] {
        self.lock.workspace.columns.pending.fetched(self.count)
    }

    /// The value that operation `index`, a get or a fetch-add, found.
    pub fn answer(&self, index: usize) -> &[u8] {
        let words = if self.answers.is_some() { self.count * self.value_words } else { 0 };
        let rows: &[u8] = bytemuck::cast_slice(self.lock.workspace.columns.answers.fetched::<u64>(words));
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

    /// The value that operation `index` writes: the result, for a merge or a fetch-add.
    pub fn written(&self, index: usize) -> Vec<u8> {
        let (table, len) = (self.table, self.table.value.max_len());
        let mut value = vec![0; len];
        let pending = &self.pending()[index];
        let at = match (table.shape.body, pending.kind()) {
            (_, PendingKind::None | PendingKind::Clear) => return Vec::new(),
            (Body::Packed | Body::Reference, _) => {
                table.form.value_at(self.blocks.as_ref().map_or(0, |blocks| blocks.offsets()[index]))
            }
            // A filled slot has its value in the first of two words. In a replaced slot, the low bit of the head
            // selects the word.
            (Body::Inline { .. }, PendingKind::Fill) => table.payload_of(pending.at) + 8,
            (Body::Inline { .. }, PendingKind::Replace) => pending.at + 8 * (1 + (pending.word & 1)),
        };
        table.image().read(at, &mut value);
        value
    }

    /// Makes the batch visible, once. An error means that the device is lost; the CPU has then stored the words, and
    /// the batch is published.
    pub fn publish(&mut self) -> Result<(), TableError> {
        if self.published {
            return Ok(());
        }
        let table = self.table;
        self.lock.engine.level_copies().outdate();
        let published = self.lock.engine.kernels.two_phase().and_then(|kernels| self.run(&kernels.publish));
        if published.is_err() {
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
        let (mut items, mut removed_from_overflow, mut filled) = (0, 0, 0);
        let mut retired = Vec::new();
        let pending: &[Pending] = self.lock.workspace.columns.pending.fetched(self.count);
        for (index, pending) in pending.iter().enumerate() {
            match pending.kind() {
                PendingKind::Fill => {
                    items += 1;
                    filled += 1;
                }
                PendingKind::Clear => {
                    items -= 1;
                    removed_from_overflow += u64::from(pending.in_overflow());
                }
                PendingKind::None | PendingKind::Replace => {}
            }
            if pending.block_used()
                && let Some(blocks) = &mut self.blocks
            {
                blocks.hand_over(index);
            }
            retired.extend((pending.old != 0).then_some(pending.old));
        }
        if let Some(snapshot) = &self.snapshot {
            snapshot.count_new_keys(filled);
        }
        table.items.fetch_add(items, Ordering::Relaxed);
        if removed_from_overflow > 0 {
            table.in_overflow.fetch_sub(removed_from_overflow, Ordering::AcqRel);
        }
        table.heap.retire(retired, &self.guard);
        published
    }

    pub(in crate::gpu) fn publish_params(&self) -> PublishParams {
        let count = self.count as u64;
        PublishParams { table: self.params, count, pending: self.pending, keys: self.keys }
    }

    fn run(&self, kernel: &TypedKernel<PublishParams>) -> Result<(), TableError> {
        let params = self.publish_params();
        let count = params.count;
        // SAFETY: the staging kernel has written the column, which lives until the stream is synchronised below.
        unsafe { self.lock.workspace.launch(kernel, count, THREADS, &params)? };
        Ok(self.lock.workspace.stream.synchronize()?)
    }
}

impl<P: Persist> Drop for DeviceStage<'_, '_, P> {
    fn drop(&mut self) {
        if self.published {
            return;
        }
        let claimed = self.pending().iter().any(|pending| pending.kind() == PendingKind::Fill);
        if claimed {
            // A lost device leaves claimed slots: the CPU releases them when it takes the table over.
            let _ = self.lock.engine.kernels.two_phase().and_then(|kernels| self.run(&kernels.abandon));
        }
    }
}
