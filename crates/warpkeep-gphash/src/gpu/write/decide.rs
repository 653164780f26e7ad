//! Deciding a fused write: what the batch will do, before anything of it is in the image.
//!
//! Each operation needs a status, and each effect a slot, an index entry and a block. Kernels find all of it in device
//! memory, if three things are current there: the device index, the level copies and the block pool.
//! [`WriteLock::decide`] brings them up to date, chooses who publishes, reserves the columns, and launches the kernels:
//!
//! | kernel | does |
//! | --- | --- |
//! | `digest` | digests of values, from which checksums are made |
//! | `dedup` | enters keys into the dedup table |
//! | `decide` | statuses, effects and fallbacks |
//! | `scan`, `order_effects` | sort effects by slot, if the device publishes several chunks |
//! | `redirect` | free rows of the value cache for effects whose entries refer to rows |
//!
//! The result is a [`FusedStage`]. `None` means that the batch cannot be a fused write at the moment, and nothing was
//! done: the table grows, or memory is short for the index, the key column or the copies. A two-phase write needs less.
//!
//! Locks are taken in this order: block pool, relocation lock, epoch, level copies. The stage holds them until the
//! batch is published.

use std::mem::offset_of;

use warpkeep_core::Op;
use warpkeep_device::{DevicePtr, DuplicateTable, Partition, PartitionPlan, Stream, TimedBatch};
use warpkeep_image::{ImageError, Persist};
use warpkeep_record::RecordForm;

use crate::bucket::Body;
use crate::gpu::engine::{MOST_OPERATIONS, THREADS, WriteLock};
use crate::gpu::index::{IndexAccess, IndexSnapshot};
use crate::gpu::params::TableParams;
use crate::gpu::profile::DeviceProfile;
use crate::gpu::write::from_host::HostValues;
use crate::gpu::write::host_publish::PublishThreads;
use crate::gpu::write::params::{EFFECT_BYTES, FusedParams, MOST_CHUNKS, StepParams, WriteSummary};
use crate::gpu::write::pipeline::{Prefix, step_launcher};
use crate::gpu::write::stage::{FusedStage, StageGuards};
use crate::gpu::write::store_list::StoreListForm;
use crate::gpu::write::{FusedRows, WriteCounts, writes_records};
use crate::{Table, TableError};

/// The digests of values up to this length are computed by the threads that write the records, if the batch is one
/// chunk: that takes less than a launch.
const MAX_INLINE_DIGEST: u64 = 512;

/// Bytes in front of the dedup table: the summary of the batch, and a counter for each chunk.
const BEFORE_DEDUP: usize = size_of::<WriteSummary>() + size_of::<u32>() * MOST_CHUNKS;

/// Bytes of the dedup column that must be zero when a batch of `count` operations begins.
pub(super) fn cleared_bytes(count: u64) -> usize {
    BEFORE_DEDUP + DuplicateTable::bytes(count)
}

/// `None` if memory or space is short: a two-phase write needs less of both.
fn none_if_out_of_space<T>(decided: Result<Option<T>, TableError>) -> Result<Option<T>, TableError> {
    match decided {
        Err(TableError::Device(error)) if error.is_out_of_memory() => Ok(None),
        Err(TableError::Image(ImageError::OutOfSpace { .. })) => Ok(None),
        decided => decided,
    }
}

/// Whether a batch of this kind can be a fused write at all.
fn is_supported<P: Persist>(table: &Table<P>, rows: &FusedRows) -> bool {
    matches!(rows.op, Op::Put | Op::Insert | Op::Update | Op::Delete)
        && table.shape.body == Body::Packed
        && table.key_row_len().is_some()
        && rows.count <= MOST_OPERATIONS
}

/// Bytes of a value in a column.
fn value_row<P: Persist>(table: &Table<P>) -> u64 {
    8 * table.value.max_len().div_ceil(8) as u64
}

/// The state that a batch is decided on. It does not change while the guards are held.
struct DecisionState<'e, P: Persist> {
    guards: StageGuards<'e, P>,
    snapshot: IndexSnapshot,
    table: TableParams,
    /// The level copies.
    copies: DevicePtr,
    /// Slots of the open levels.
    slots: u64,
}

/// Who publishes a batch.
struct Publisher {
    /// The host threads and the form of their store list; `None` if the device publishes.
    host: Option<(PublishThreads, StoreListForm)>,
    chunks: u64,
}

impl<'e, P: Persist> WriteLock<'e, P> {
    /// Writes a batch in device memory, after the work that is in the caller's stream, and stores the statuses there.
    /// Operation `i` that writes gives its item the version `first_version + i`. When it returns, the whole batch is in
    /// the image. `None`, with nothing done, if the batch cannot be a fused write at the moment: then it is to be
    /// [staged](WriteLock::stage).
    ///
    /// Nothing is logged, so it is for tables of stores without a log; with a log, see [`WriteLock::decide_fused`].
    ///
    /// # Safety
    /// The columns are memory of this engine's device, as long as [`FusedRows`] says, and nothing else uses them
    /// meanwhile.
    pub unsafe fn write_fused(
        &mut self,
        table: &Table<P>,
        rows: &FusedRows,
        first_version: u64,
        stream: &Stream,
    ) -> Result<Option<WriteCounts>, TableError> {
        let launch = step_launcher(self.engine.kernels.fused()?);
        // SAFETY: the caller makes the same promise.
        unsafe { self.write_in_steps(table, rows, None, first_version, stream, launch) }
    }

    /// The same with values that the host stores.
    ///
    /// # Safety
    /// As [`WriteLock::write_fused`].
    pub(super) unsafe fn write_host_values(
        &mut self,
        table: &Table<P>,
        rows: &FusedRows,
        values: HostValues<'_>,
        first_version: u64,
        stream: &Stream,
    ) -> Result<Option<WriteCounts>, TableError> {
        let launch = step_launcher(self.engine.kernels.fused()?);
        // SAFETY: the caller makes the same promise.
        unsafe { self.write_in_steps(table, rows, Some(values), first_version, stream, launch) }
    }

    /// The same, with a function that launches each pipeline step, given its parameters and an estimate of its stores.
    /// A batch of one chunk is one step.
    ///
    /// # Safety
    /// As [`WriteLock::write_fused`].
    pub(in crate::gpu) unsafe fn write_in_steps(
        &mut self,
        table: &Table<P>,
        rows: &FusedRows,
        values: Option<HostValues<'_>>,
        first_version: u64,
        stream: &Stream,
        launch_step: impl FnMut(&StepParams, u64, &Stream) -> Result<(), TableError>,
    ) -> Result<Option<WriteCounts>, TableError> {
        if rows.count == 0 {
            return Ok(is_supported(table, rows).then(WriteCounts::default));
        }
        let (mut counts, fallbacks) = {
            // SAFETY: the caller makes the same promise.
            let decided = unsafe { self.decide(table, rows, values, first_version, stream, false) };
            let Some(mut stage) = none_if_out_of_space(decided)? else { return Ok(None) };
            let counts = stage.publish_in_steps(launch_step, || ())?;
            let fallbacks = if counts.by_cpu > 0 { stage.take_fallbacks(counts.by_cpu)? } else { Vec::new() };
            (counts, fallbacks)
        };
        // SAFETY: the caller makes the same promise.
        unsafe { self.apply_fallbacks(table, (rows, values), first_version, &fallbacks, &mut counts)? };
        Ok(Some(counts))
    }

    /// Decides a batch in device memory, after the work that is in the caller's stream, and stores those statuses there
    /// that the device knows. Nothing of the batch is in the image: [`FusedStage::learn`] returns its effects, so that
    /// they can be logged first. `None` if the batch cannot be a fused write at the moment.
    ///
    /// # Safety
    /// As [`WriteLock::write_fused`], until the stage is published or dropped.
    pub unsafe fn decide_fused<'s>(
        &'s mut self,
        table: &'s Table<P>,
        rows: &FusedRows,
        first_version: u64,
        stream: &Stream,
    ) -> Result<Option<FusedStage<'s, 'e, P>>, TableError> {
        // SAFETY: the caller makes the same promise.
        none_if_out_of_space(unsafe { self.decide(table, rows, None, first_version, stream, true) })
    }

    /// The same with values that the host stores.
    ///
    /// # Safety
    /// As [`WriteLock::decide_fused`].
    pub(super) unsafe fn decide_host_values<'s>(
        &'s mut self,
        table: &'s Table<P>,
        rows: &FusedRows,
        values: HostValues<'s>,
        first_version: u64,
        stream: &Stream,
    ) -> Result<Option<FusedStage<'s, 'e, P>>, TableError> {
        // SAFETY: the caller makes the same promise.
        none_if_out_of_space(unsafe { self.decide(table, rows, Some(values), first_version, stream, true) })
    }

    /// Decides a batch. With `for_log`, it also reports which operations have effects.
    ///
    /// # Safety
    /// As [`WriteLock::decide_fused`].
    unsafe fn decide<'s>(
        &'s mut self,
        table: &'s Table<P>,
        rows: &FusedRows,
        values: Option<HostValues<'s>>,
        first_version: u64,
        stream: &Stream,
        for_log: bool,
    ) -> Result<Option<FusedStage<'s, 'e, P>>, TableError> {
        let Some(mut state) = self.acquire_state(table, rows, values.is_some())? else { return Ok(None) };
        self.workspace.begin_after(stream)?;
        let mut params = self.reserve_decision(table, rows, first_version, &mut state, for_log)?;
        let profile = self.engine.profile();
        let publisher = self.choose_publisher(table, rows.op, &profile, values.is_some(), &mut params)?;
        let Some(Publisher { host, chunks }) = publisher else { return Ok(None) };
        if host.is_none() && chunks > 1 {
            self.reserve_ordering(state.slots, &mut params)?;
        }
        let inline_digests = chunks == 1 && value_row(table) <= MAX_INLINE_DIGEST;
        if table.form.has_checksums() && writes_records(rows.op) && values.is_none() && !inline_digests {
            let columns = &mut self.workspace.columns;
            params.digests = columns.digests.reserve(self.engine.device(), 4 * rows.count as usize)?;
        }
        self.reserve_summary(host.is_none() && chunks == 1, &mut params, &mut state.guards.timed)?;
        // From here on the copies may contain claims of a batch that fails or is dropped. Publishing confirms them.
        state.guards.copies.outdate();
        // The log needs all effects before the first is sent, and the value cache redirects all entries in one launch.
        let decides_prefix_first = host.is_some() && !for_log && params.new_targets.is_null();
        let prefix = match decides_prefix_first {
            true => Prefix::of_chunks(rows.count, chunks, profile.sends_early_from()),
            false => None,
        };
        let DecisionState { guards, snapshot, .. } = state;
        let mut stage = FusedStage {
            table,
            lock: self,
            rows: *rows,
            values,
            params,
            chunks,
            prefix,
            host,
            snapshot,
            guards: Some(guards),
        };
        // SAFETY: the caller promises the length of its columns. The others were reserved for `count` operations, and
        // the stage keeps them until its stream is synchronised. The write lock excludes other writers.
        unsafe { stage.launch_decision()? };
        Ok(Some(stage))
    }

    /// Brings the device index, the block pool and the level copies up to date, and locks what the batch needs. `None`
    /// if the batch cannot be a fused write at the moment.
    fn acquire_state(
        &mut self,
        table: &Table<P>,
        rows: &FusedRows,
        has_host_values: bool,
    ) -> Result<Option<DecisionState<'e, P>>, TableError> {
        let (engine, count) = (self.engine, rows.count);
        if !matches!(table.form, RecordForm::Fixed { .. }) || !is_supported(table, rows) || count == 0 {
            return Ok(None);
        }
        let mut timed = engine.fused.timer.begin();
        let index = engine.device_index.acquire(engine, table, IndexAccess::Write(count))?;
        // Without a key column, keys would be compared in their records, each read over the link.
        let Some(snapshot) = index.filter(|snapshot| snapshot.has_exact_keys(table)) else { return Ok(None) };
        timed.host("host: index snapshot");
        let mut block_pool = engine.block_pool();
        block_pool.set_items(table.len());
        if writes_records(rows.op) {
            block_pool.ensure(engine.device(), &engine.kernels, &mut self.workspace, count)?;
        }
        timed.host("host: block pool");
        // For readers, which the batch does not exclude. Writers that move items need the write lock, too.
        let relocation = engine.relocation_read();
        let guard = table.heap.pin();
        let levels = table.levels(&guard);
        if levels.drained > 0 {
            return Ok(None);
        }
        let slots = levels.open().map(|(_, level)| level.buckets).sum::<u64>() * table.shape.slots() as u64;
        // After the blocks, which may have made the image grow.
        let params = TableParams::new(table, levels, engine.image.cover()?).with_index(snapshot.params());
        if let Some(cached_rows) = snapshot.rows().filter(|_| writes_records(rows.op)) {
            if has_host_values {
                // The cache was enabled after the values were left on the host, and needs them on the device.
                return Ok(None);
            }
            engine.find_free_rows(&mut self.workspace, params, cached_rows, &guard)?;
        }
        let mut copies = engine.level_copies();
        let Some(copied) = copies.join(engine, table, params, slots, &mut self.workspace)? else {
            return Ok(None);
        };
        timed.host("host: image and level copies");
        let guards = StageGuards { timed, block_pool, copies, relocation, guard };
        Ok(Some(DecisionState { guards, snapshot, table: params, copies: copied, slots }))
    }

    /// Reserves the columns that all batches need.
    fn reserve_decision(
        &mut self,
        table: &Table<P>,
        rows: &FusedRows,
        first_version: u64,
        state: &mut DecisionState<'e, P>,
        for_log: bool,
    ) -> Result<FusedParams, TableError> {
        let (device, columns) = (self.engine.device(), &mut self.workspace.columns);
        let (count, writes_records) = (rows.count, writes_records(rows.op));
        let redirects = writes_records && state.snapshot.rows().is_some();
        let block_pool = &mut state.guards.block_pool;
        let alignment = value_row(table) | rows.values.address() | table.form.value_step();
        Ok(FusedParams {
            table: state.table,
            count,
            first: 0,
            end: count,
            keys: rows.keys,
            values: rows.values,
            statuses: rows.statuses,
            first_version,
            copies: state.copies,
            dedup: DuplicateTable::NONE,
            retired: block_pool.reserve_retired(device, count)?,
            blocks: if writes_records { block_pool.next_blocks() } else { DevicePtr::NULL },
            effects: columns.pending.reserve(device, EFFECT_BYTES * count as usize)?,
            summary: DevicePtr::NULL,
            fallbacks: columns.fallbacks.reserve(device, 4 * count as usize)?,
            new_targets: match redirects {
                true => columns.ranks.reserve(device, 8 * count as usize)?,
                false => DevicePtr::NULL,
            },
            has_effect: match for_log {
                true => columns.effective.reserve(device, count as usize)?,
                false => DevicePtr::NULL,
            },
            op: u32::from(rows.op as u8),
            block_len: table.form.block_len() as u32,
            wide: u32::from(alignment.is_multiple_of(16)),
            unsorted: DevicePtr::NULL,
            ranks: DevicePtr::NULL,
            partition: Partition::NONE,
            mailbox: DevicePtr::NULL,
            blocks_done: DevicePtr::NULL,
            report: DevicePtr::NULL,
            digests: DevicePtr::NULL,
            index_bits: 0,
        })
    }

    /// Chooses who publishes, and reserves the store list if it is the host. `None` if the values are on the host but
    /// the host cannot publish.
    fn choose_publisher(
        &mut self,
        table: &Table<P>,
        op: Op,
        profile: &DeviceProfile,
        has_host_values: bool,
        params: &mut FusedParams,
    ) -> Result<Option<Publisher>, TableError> {
        let (engine, count) = (self.engine, params.count);
        let form = StoreListForm::of(table.form, op, count, params.first_version, table.image().len());
        // The device publishes batches of one chunk, and deletes, which store no records: the host took 1.3 times as long
        // for 65,536 of those.
        let form = form.filter(|_| writes_records(op) && profile.chunks(count, true) > 1);
        let threads = |form| Some((engine.fused.threads.publish_threads(profile.publish_by)?, form));
        let mut host = form.and_then(threads);
        if has_host_values && host.as_ref().is_none_or(|(_, form)| form.trailers().is_none()) {
            return Ok(None);
        }
        if let Some((_, form)) = &host {
            let store_list = &mut self.workspace.columns.store_list;
            match store_list.host::<[u64; 2]>(engine.device(), 2 * MOST_CHUNKS + form.units(count)) {
                Ok(_) => {
                    params.mailbox = store_list.host_ptr();
                    params.index_bits = form.index_bits();
                }
                // Without memory for the list, the device publishes.
                Err(error) if error.is_out_of_memory() && !has_host_values => host = None,
                Err(error) => return Err(error.into()),
            }
        }
        let chunks = profile.chunks(count, host.is_some());
        Ok(Some(Publisher { host, chunks }))
    }

    /// Reserves the columns that sort effects by slot: then the device stores the words of a chunk in one range of each
    /// level.
    fn reserve_ordering(&mut self, slots: u64, params: &mut FusedParams) -> Result<(), TableError> {
        let (device, count) = (self.engine.device(), params.count);
        let workspace = &mut *self.workspace;
        let (columns, stream) = (&mut workspace.columns, &workspace.stream);
        params.unsorted = columns.fetches.reserve(device, EFFECT_BYTES * count as usize)?;
        params.ranks = columns.effect_ranks.reserve(device, 4 * count as usize)?;
        params.partition =
            PartitionPlan::for_items(slots, count).zeroed(device, &mut columns.partition, stream)?;
        Ok(())
    }

    /// Reserves and clears the summary of the batch, the counters of its chunks and the dedup table, which lie one
    /// behind the other. With `reports`, the last kernel stores the summary in host memory.
    fn reserve_summary(
        &mut self,
        reports: bool,
        params: &mut FusedParams,
        timed: &mut TimedBatch<'_>,
    ) -> Result<(), TableError> {
        let (device, workspace) = (self.engine.device(), &mut *self.workspace);
        let (dedup, stream) = (&mut workspace.columns.dedup, &workspace.stream);
        // Allocated now: once the batch is in the image, its summary must not fail.
        dedup.host::<WriteSummary>(device, 1)?;
        if reports {
            params.report = dedup.host_ptr();
        }
        timed.device("clear", device, stream, || {
            params.summary = dedup.take_zeros(device, cleared_bytes(params.count), stream)?;
            params.blocks_done = params.summary.offset(size_of::<WriteSummary>() as u64);
            params.dedup = DuplicateTable::at(params.summary.offset(BEFORE_DEDUP as u64), params.count);
            Ok(())
        })
    }
}

impl<P: Persist> FusedStage<'_, '_, P> {
    /// Launches the kernels that decide the batch, or its prefix.
    ///
    /// # Safety
    /// The columns have the lengths that the kernels assume, and nothing else uses them until the stream is
    /// synchronised.
    unsafe fn launch_decision(&mut self) -> Result<(), TableError> {
        let Some(guards) = &mut self.guards else { return Ok(()) };
        let (engine, workspace, params) = (self.lock.engine, &*self.lock.workspace, &self.params);
        let (device, stream, timed) = (engine.device(), &workspace.stream, &mut guards.timed);
        let (kernels, count) = (engine.kernels.fused()?, params.count);
        let end = self.prefix.map_or(count, |prefix| prefix.operations);
        let prefix_params = FusedParams { end, ..*params };
        // SAFETY: the caller promises the columns of all these kernels; the summary was reserved with them.
        unsafe {
            if !params.digests.is_null() {
                let threads = count * digest_lanes(u64::from(params.table.value_len));
                timed.device("digest", device, stream, || {
                    workspace.launch(&kernels.digest, threads, THREADS, params)
                })?;
            }
            timed.device("dedup", device, stream, || {
                workspace.launch(&kernels.dedup, count, THREADS, params)
            })?;
            timed.device("decide", device, stream, || {
                workspace.launch(&kernels.decide, end, THREADS, &prefix_params)
            })?;
            if self.prefix.is_some() {
                // Before the effects of the rest are counted.
                let at = |field: usize| params.summary.offset(field as u64);
                let to = at(offset_of!(WriteSummary, prefix_effects));
                device.copy_raw(to, at(offset_of!(WriteSummary, effects)), size_of::<u64>(), stream)?;
            }
            if !params.unsorted.is_null() {
                timed.device("scan", device, stream, || params.partition.scan(&kernels.scan, stream))?;
                timed.device("order effects", device, stream, || {
                    workspace.launch(&kernels.order_effects, count, THREADS, params)
                })?;
            }
            // Before entries are marked busy: it reads which of them refer to rows.
            if let Some(rows) = self.snapshot.rows().filter(|_| writes_records(self.rows.op)) {
                timed.device("redirect", device, stream, || engine.redirect(workspace, params, rows))?;
            }
        }
        Ok(())
    }
}

/// Threads that digest a value together: `digest_lanes` in `kernels/write/fused.h`.
fn digest_lanes(value_len: u64) -> u64 {
    match value_len.div_ceil(8) {
        64.. => 32,
        8.. => 8,
        _ => 1,
    }
}
