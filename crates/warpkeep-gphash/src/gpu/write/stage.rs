//! A fused write between deciding and publishing, its publication, and its fallbacks.
//!
//! A decided batch exists in device memory only: slots are claimed in the level copies, and blocks are taken from the
//! pool. With a log, the caller fetches the effects ([`FusedStage::learn`]) and logs them before it
//! [publishes](FusedStage::publish). Publishing is either the device's [pipeline](super::pipeline) or the
//! [host's](super::host_publish); afterwards the batch's counters update the pool, the index and the table.
//!
//! *Fallbacks* are operations that the device cannot decide: on items in the overflow, on keys that find no free slot,
//! and on keys whose hash another key shares. The CPU applies them in the order of the batch, after the rest is
//! published. No effect of the batch is on their keys, so the order between the two does not matter.
//!
//! Invariants:
//! - a stage that is dropped leaves nothing in the image; the copies stay marked out of date until a batch is
//!   published;
//! - no kernel uses the columns when the workspace passes to another batch, also after an error.

use std::collections::HashMap;
use std::mem::offset_of;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_epoch::Guard;
use warpkeep_core::{Op, Status};
use warpkeep_device::{DeviceError, DevicePtr, Stream, TimedBatch};
use warpkeep_image::{ImageError, Persist};

use crate::gpu::blocks::BlockPool;
use crate::gpu::engine::{RelocationRead, WriteLock};
use crate::gpu::index::IndexSnapshot;
use crate::gpu::write::decide::cleared_bytes;
use crate::gpu::write::from_host::HostValues;
use crate::gpu::write::host_publish::{HostPipeline, PublishThreads};
use crate::gpu::write::level_copies::LevelCopies;
use crate::gpu::write::params::{FusedParams, StepParams, WriteSummary};
use crate::gpu::write::pipeline::{Prefix, launch_steps, step_launcher};
use crate::gpu::write::store_list::StoreListForm;
use crate::gpu::write::{FusedRows, WriteCounts, writes_records};
use crate::{Table, TableError};

/// A batch that is decided and not yet published. Dropped, it leaves nothing in the image.
pub struct FusedStage<'s, 'e, P: Persist> {
    pub(super) table: &'s Table<P>,
    pub(super) lock: &'s mut WriteLock<'e, P>,
    pub(super) rows: FusedRows,
    /// The values, if the host stores them.
    pub(super) values: Option<HostValues<'s>>,
    pub(super) params: FusedParams,
    pub(super) chunks: u64,
    /// The operations that are decided so far; `None` if all are.
    pub(super) prefix: Option<Prefix>,
    /// The host threads that publish, and the form of their store list; `None` if the device publishes.
    pub(super) host: Option<(PublishThreads, StoreListForm)>,
    pub(super) snapshot: IndexSnapshot,
    /// Until the batch is published.
    pub(super) guards: Option<StageGuards<'e, P>>,
}

/// What a batch keeps from other batches while it is decided and published.
pub(super) struct StageGuards<'e, P: Persist> {
    pub(super) timed: TimedBatch<'e>,
    pub(super) block_pool: MutexGuard<'e, BlockPool<P>>,
    pub(super) copies: MutexGuard<'e, LevelCopies>,
    pub(super) relocation: RelocationRead<'e>,
    pub(super) guard: Guard,
}

/// What the operations of a decided batch do.
#[derive(Clone, Debug, Default)]
pub struct Decided {
    /// For each operation, 1 if it changes its key, else 0. Of the operations on one key at most one does.
    pub effective: Vec<u8>,
    /// For each operation, the code of its status, unless the CPU applies it.
    pub statuses: Vec<u8>,
    /// Operations that the CPU applies, in their order: on items in the overflow, on new keys that find no free slot,
    /// and on keys that the device cannot distinguish. None of them is effective.
    pub fallbacks: Vec<u32>,
}

impl<P: Persist> FusedStage<'_, '_, P> {
    /// Waits until the batch is decided, and returns what its operations do. After an error the stage can only be
    /// dropped.
    pub fn learn(&mut self) -> Result<Decided, TableError> {
        let (device, workspace) = (self.lock.engine.device(), &mut *self.lock.workspace);
        let count = self.rows.count as usize;
        if self.params.has_effect.is_null() {
            return Ok(Decided::default());
        }
        // SAFETY: the caller of `decide_fused` promised `count` statuses; the stream is synchronised before the host's
        // side is read.
        unsafe {
            workspace.columns.dedup.fetch::<WriteSummary>(device, 1, &workspace.stream)?;
            workspace.columns.effective.fetch::<u8>(device, count, &workspace.stream)?;
            let statuses = workspace.columns.statuses.reserve(device, count)?;
            device.copy_raw(statuses, self.rows.statuses, count, &workspace.stream)?;
            workspace.columns.statuses.fetch::<u8>(device, count, &workspace.stream)?;
        }
        workspace.stream.synchronize()?;
        if let Some(guards) = &mut self.guards {
            guards.timed.host("host: wait for decisions");
        }
        let summary = workspace.columns.dedup.fetched::<WriteSummary>(1)[0];
        let effective = workspace.columns.effective.fetched::<u8>(count).to_vec();
        let statuses = workspace.columns.statuses.fetched::<u8>(count).to_vec();
        let fallbacks = match summary.fallbacks {
            0 => Vec::new(),
            count => self.take_fallbacks(count)?,
        };
        let fallbacks = fallbacks.into_iter().map(|fallback| fallback & !ANSWERED).collect();
        Ok(Decided { effective, statuses, fallbacks })
    }

    /// The `count` fallbacks, in the order of the batch.
    pub(super) fn take_fallbacks(&self, count: u64) -> Result<Vec<u32>, TableError> {
        let workspace = &self.lock.workspace;
        let mut fallbacks = workspace.columns.fallbacks.take(count as usize, &workspace.stream)?;
        fallbacks.sort_unstable_by_key(|fallback: &u32| fallback & !ANSWERED);
        Ok(fallbacks)
    }

    /// Publishes the batch: when this returns, all its effects are in the image. Calls `meanwhile` while the device
    /// writes; or, where the host publishes, when all words are stored and the device sets index entries. After an
    /// error some effects may be in the image and others not; then the device is not to be used again.
    pub fn publish(&mut self, meanwhile: impl FnOnce()) -> Result<WriteCounts, TableError> {
        let launch = step_launcher(self.lock.engine.kernels.fused()?);
        self.publish_in_steps(launch, meanwhile)
    }

    /// The same, with a function that launches each pipeline step.
    pub(super) fn publish_in_steps(
        &mut self,
        launch_step: impl FnMut(&StepParams, u64, &Stream) -> Result<(), TableError>,
        meanwhile: impl FnOnce(),
    ) -> Result<WriteCounts, TableError> {
        let Some(mut guards) = self.guards.take() else { return Ok(WriteCounts::default()) };
        let (count, writes_records) = (self.rows.count, writes_records(self.rows.op));
        if writes_records {
            let (engine, stream) = (self.lock.engine, &self.lock.workspace.stream);
            guards.block_pool.begin_sort(engine.device(), &engine.kernels, count, stream);
            // All blocks that the batch may use, until the number that it does use is known: after an error or a panic,
            // none of them may be allocated again.
            guards.block_pool.mark_used(count);
        }
        let summary = self.run_publisher(&mut guards.timed, launch_step, meanwhile);
        let StageGuards { mut timed, mut block_pool, mut copies, relocation, guard } = guards;
        let summary = summary?;
        copies.confirm(self.table);
        drop(copies);
        block_pool.return_unused(if writes_records { count - summary.effects } else { 0 });
        block_pool.retire(summary.retired, &guard);
        drop(guard);
        block_pool.reclaim(count);
        if let Some(rows) = self.snapshot.rows().filter(|_| writes_records) {
            rows.use_free_rows(summary.rows_wanted);
        }
        if writes_records {
            block_pool.request_refill(count);
        }
        drop((block_pool, relocation));
        self.snapshot.count_new_keys(summary.created);
        self.table.items.fetch_add(summary.created as i64 - summary.removed as i64, Ordering::Relaxed);
        timed.host("host: account");
        timed.finish()?;
        Ok(WriteCounts {
            created: summary.created,
            replaced: summary.effects - summary.created - summary.removed,
            removed: summary.removed,
            by_cpu: summary.fallbacks,
        })
    }

    /// Launches the publisher and waits for the batch's summary. When it returns, also with an error, no kernel uses
    /// the columns.
    fn run_publisher(
        &mut self,
        timed: &mut TimedBatch<'_>,
        launch_step: impl FnMut(&StepParams, u64, &Stream) -> Result<(), TableError>,
        meanwhile: impl FnOnce(),
    ) -> Result<WriteSummary, TableError> {
        let (engine, workspace) = (self.lock.engine, &mut *self.lock.workspace);
        let (params, chunks, prefix, values) = (&self.params, self.chunks, self.prefix, self.values);
        let image = self.table.image();
        if values.is_some() {
            engine.fused.threads.batches_with_values.fetch_add(1, Ordering::Relaxed);
        }
        // Before the launch that sets it.
        workspace.columns.dedup.shared_words()[IS_COMPLETE].store(0, Ordering::Relaxed);
        let launched = match self.host.take() {
            Some(host) => engine.fused.threads.take_streams(engine.device()).and_then(|streams| {
                let pipeline = HostPipeline {
                    engine,
                    image,
                    workspace,
                    params,
                    chunks,
                    prefix,
                    values,
                    streams: &streams,
                };
                let published = pipeline.run(host, timed, launch_step);
                engine.fused.threads.keep_streams(streams);
                published
            }),
            None => launch_steps(engine, &workspace.stream, params, chunks, timed, launch_step),
        };
        let (columns, stream) = (&mut workspace.columns, &workspace.stream);
        let cleared = cleared_bytes(params.count);
        let is_reported = !params.report.is_null();
        let launched = launched.and_then(|()| match is_reported {
            // The columns are cleared for the next batch behind the last kernel, while the host waits for the report.
            true => {
                columns.dedup.clear_ahead(cleared, stream);
                Ok(())
            }
            // SAFETY: the stream is synchronised before the host's side is read.
            false => unsafe { Ok(columns.dedup.fetch::<WriteSummary>(engine.device(), 1, stream)?) },
        });
        timed.host("host: launch and publish");
        meanwhile();
        timed.host("host: concurrent work");
        let waited = match launched.is_ok() && is_reported {
            true => wait_until_complete(columns.dedup.shared_words(), stream),
            false => stream.synchronize(),
        };
        launched?;
        waited?;
        timed.host("host: wait");
        if !is_reported {
            columns.dedup.clear_ahead(cleared, stream);
        }
        Ok(columns.dedup.fetched::<WriteSummary>(1)[0])
    }
}

/// The word of the summary that is the completion flag.
const IS_COMPLETE: usize = offset_of!(WriteSummary, is_complete) / 8;
/// Polls of the completion flag before the driver is queried and the thread yields.
const POLLS: u32 = 1 << 12;

/// Waits until the last kernel in the stream has reported the summary of the batch.
fn wait_until_complete(summary: &[AtomicU64], stream: &Stream) -> Result<(), DeviceError> {
    loop {
        for _ in 0..POLLS {
            if summary[IS_COMPLETE].load(Ordering::Acquire) != 0 {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        // An empty stream has reported. A lost device, which never will, is an error here.
        if stream.is_done()? {
            return Ok(());
        }
        std::thread::yield_now();
    }
}

impl<P: Persist> Drop for FusedStage<'_, '_, P> {
    fn drop(&mut self) {
        if self.guards.is_some() {
            // Kernels may still use the columns. An error of the device is returned by its next use.
            let _ = self.lock.workspace.stream.synchronize();
        }
    }
}

/// Flag of a fallback whose status the device has stored: it holds unless the table or the image is full.
const ANSWERED: u32 = 1 << 31;

impl<P: Persist> WriteLock<'_, P> {
    /// Applies fallbacks on the CPU, in the order of the batch, and stores their statuses.
    ///
    /// # Safety
    /// As [`WriteLock::write_fused`].
    pub(super) unsafe fn apply_fallbacks(
        &mut self,
        table: &Table<P>,
        (rows, values): (&FusedRows, Option<HostValues<'_>>),
        first_version: u64,
        fallbacks: &[u32],
        counts: &mut WriteCounts,
    ) -> Result<(), TableError> {
        let (key_len, value_len) = (table.key_row(), table.value.max_len());
        let (key_row, value_row) = (key_len.next_multiple_of(8), value_len.next_multiple_of(8));
        let mut refused = HashMap::new();
        for &fallback in fallbacks {
            let (index, is_answered) = (fallback & !ANSWERED, fallback & ANSWERED != 0);
            let mut key = vec![0_u8; key_row];
            let mut value = vec![0_u8; if rows.values.is_null() { 0 } else { value_row }];
            // SAFETY: the caller promises columns of `count` rows, and `index` is below that.
            unsafe {
                self.fetch_bytes(&mut key, rows.keys.offset(key_row as u64 * u64::from(index)))?;
                key.truncate(key_len);
                if !rows.values.is_null() {
                    self.fetch_bytes(&mut value, rows.values.offset(value_row as u64 * u64::from(index)))?;
                    value.truncate(value_len);
                }
            }
            let value = values.map_or(&value[..], |values| values.of(index as usize));
            // The device accepts valid cells only, so each fallback has a key.
            let plain_key = table.key_cells().map_or(&key[..], |cells| cells.remains_in(&key));
            let version = first_version + u64::from(index);
            let status = match self.apply_one(table, rows.op, plain_key, value, version) {
                Ok(status) => status,
                Err(TableError::Full) => Status::TableFull,
                Err(TableError::Image(ImageError::OutOfSpace { .. })) => Status::OutOfSpace,
                Err(error) => return Err(error),
            };
            match (status, rows.op) {
                (Status::Created, _) => counts.created += 1,
                (Status::Ok, Op::Delete) => counts.removed += 1,
                (Status::Ok, _) => counts.replaced += 1,
                (Status::TableFull | Status::OutOfSpace, _) => drop(refused.insert(key, status)),
                _ => {}
            }
            if !is_answered {
                // SAFETY: the caller promises `count` statuses.
                unsafe { self.store_status(rows, u64::from(index), status)? };
            }
        }
        if refused.is_empty() {
            return Ok(());
        }
        // The device answered the other operations on refused keys as if the key had been written.
        let mut keys = vec![0_u8; key_row * rows.count as usize];
        // SAFETY: the caller promises `count` keys.
        unsafe { self.fetch_bytes(&mut keys, rows.keys)? };
        for (index, key) in (0..).zip(keys.chunks_exact(key_row)) {
            if let Some(&status) = refused.get(&key[..key_len]) {
                // SAFETY: the caller promises `count` statuses.
                unsafe { self.store_status(rows, index, status)? };
            }
        }
        Ok(())
    }

    /// Applies one operation on the CPU. Moves other items if its buckets are full.
    fn apply_one(
        &self,
        table: &Table<P>,
        op: Op,
        key: &[u8],
        value: &[u8],
        version: u64,
    ) -> Result<Status, TableError> {
        let lock = table.lock_key(key);
        loop {
            let mut stage = table.stage([lock]);
            let seat = stage.seat(key, lock);
            let exists = seat.version().is_some();
            let status = match (op, exists) {
                (Op::Insert, true) => return Ok(Status::AlreadyExists),
                (Op::Update | Op::Delete, false) => return Ok(Status::NotFound),
                (_, true) => Status::Ok,
                (_, false) => Status::Created,
            };
            let staged = match op {
                Op::Delete => {
                    stage.remove(&seat);
                    Ok(())
                }
                _ => stage.put(&seat, key, value, version),
            };
            match staged {
                Ok(()) => {
                    stage.publish();
                    return Ok(status);
                }
                Err(TableError::Full) => {
                    let seen = stage.seen();
                    drop(stage);
                    let _relocation = self.engine.relocation_write();
                    table.make_room(seen)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Copies bytes from device memory.
    ///
    /// # Safety
    /// `from` has `to.len()` bytes.
    unsafe fn fetch_bytes(&mut self, to: &mut [u8], from: DevicePtr) -> Result<(), TableError> {
        let (device, workspace) = (self.engine.device(), &mut *self.workspace);
        let at = workspace.columns.answers.reserve(device, to.len())?;
        // SAFETY: the caller promises the length of the source, and the column was reserved for it.
        unsafe { device.copy_raw(at, from, to.len(), &workspace.stream)? };
        to.copy_from_slice(&workspace.columns.answers.take::<u8>(to.len(), &workspace.stream)?);
        Ok(())
    }

    /// Stores the status of an operation.
    ///
    /// # Safety
    /// The batch has a status column with this index.
    unsafe fn store_status(
        &mut self,
        rows: &FusedRows,
        index: u64,
        status: Status,
    ) -> Result<(), TableError> {
        let (device, workspace) = (self.engine.device(), &mut *self.workspace);
        let at = workspace.columns.statuses.put(device, &[status as u8], &workspace.stream)?;
        // SAFETY: the caller promises the column, and the stream is synchronised below.
        unsafe { device.copy_raw(rows.statuses.offset(index), at, 1, &workspace.stream)? };
        Ok(workspace.stream.synchronize()?)
    }
}
