//! The kernels of a batch of gets through the device index.
//!
//! # Problem
//!
//! Values are in host memory, and reading them in address order is several times as fast as at random addresses.
//! Sorting takes launches, which small batches cannot afford.
//!
//! # How
//!
//! [`GetStrategy`] selects the kernels by the size of the batch:
//!
//! | strategy | kernels |
//! | --- | --- |
//! | `Fused` | `get_small`: locates, fetches and falls back |
//! | `Locate` | `locate`, `fall_back` |
//! | `Scattered` | `scatter` locates, and appends records to buckets of address ranges; `fetch`, `fall_back` |
//! | `Sorted` | `locate` counts records by address range, `scan`, `partition`, `fetch`, `fall_back` |
//!
//! `fetch` uses SM affinity: each multiprocessor reads the address ranges that are assigned to it, in every batch the
//! same ones, so that its translations of host addresses stay cached.
//!
//! # Invariant
//!
//! The counters of scattered batches are zero between batches. The last kernel of a batch clears what it used,
//! which saves a launch before the first; see [`ScatterCounts`].

use warpkeep_device::{
    AffineBatch, Device, DevicePtr, Grid, Partition, PartitionPlan, SmAffinity, StagedBuffer, Stream,
    TimedBatch, TypedKernel,
};

use crate::TableError;
use crate::gpu::engine::{Columns, THREADS};
use crate::gpu::index::IndexSnapshot;
use crate::gpu::kernels::Kernels;
use crate::gpu::params::{CountGetsParams, GetParams, LookupParams};
use crate::gpu::profile::GetStrategy;

/// Blocks of the kernel that falls back to the image: few keys do.
const FALLBACK_BLOCKS: u32 = 66;

/// Threads of a multiprocessor that fetch values while other kernels need the link: a warp on each of 132
/// multiprocessors has half a megabyte in flight, which takes the link ten microseconds. With all threads it would be
/// seventeen megabytes, and everything else would wait behind them.
const SHARED_LINK_THREADS: u32 = 32;

/// Blocks that a small batch should have: about as many as a large device has multiprocessors.
const SMALL_BATCH_BLOCKS: u64 = 128;

/// Batches that are not scattered after one for which there was no memory: trying to allocate frees the memory that
/// is there.
const RETRY_AFTER: u32 = 1000;

/// A thread for each of `count` keys, in blocks so small that many multiprocessors have one.
fn grid_for(count: u64) -> Grid {
    let threads = (count / SMALL_BATCH_BLOCKS).next_power_of_two().clamp(32, u64::from(THREADS)) as u32;
    Grid::covering(count.max(1), threads)
}

/// A batch of gets, and how it runs.
pub(crate) struct Lookup<'l> {
    pub(crate) get: GetParams,
    /// Kept until the kernels are done.
    pub(crate) snapshot: &'l IndexSnapshot,
    /// Bytes of a row of the value column.
    pub(crate) value_row: u64,
    /// Values in records begin at multiples of this.
    pub(crate) value_step: u64,
    /// Bytes of the image.
    pub(crate) image_len: u64,
    pub(crate) strategy: GetStrategy,
    /// Whether other kernels need the link meanwhile.
    pub(crate) shares_link: bool,
}

impl Lookup<'_> {
    /// Enqueues the kernels.
    ///
    /// # Safety
    /// The columns of the batch hold `get.count` rows. They and `scratch` stay, and nothing else uses them, until the
    /// stream is synchronised; so do the device index and the records of the table.
    pub(crate) unsafe fn launch(
        &self,
        device: &Device,
        kernels: &Kernels,
        scratch: &mut Columns,
        stream: &Stream,
        timed: &mut TimedBatch<'_>,
    ) -> Result<(), TableError> {
        let (mut get, count) = (self.get, self.get.count as usize);
        get.table = get.table.with_index(self.snapshot.params());
        let is_ordered = matches!(self.strategy, GetStrategy::Scattered | GetStrategy::Sorted { .. });
        let mut params = LookupParams {
            get,
            fallback_count: DevicePtr::NULL,
            fallbacks: DevicePtr::NULL,
            located: DevicePtr::NULL,
            partition: Partition::NONE,
            fetches: DevicePtr::NULL,
            wide: u64::from((self.value_row | self.value_step | get.values.address()).is_multiple_of(16)),
            affinity: SmAffinity::NONE,
            clear_count: 0,
        };
        let grid = grid_for(get.count);
        if let Some(frequencies) = self.snapshot.frequencies().filter(|_| !get.values.is_null()) {
            let gets = CountGetsParams {
                table: get.table,
                count: get.count,
                keys: get.keys,
                frequencies: frequencies.ptr(),
            };
            frequencies.add_gets(get.count);
            // SAFETY: the caller's promise; the snapshot keeps the frequencies, which have a byte for each of its
            // entries.
            timed.device("count gets", device, stream, || unsafe {
                Ok::<(), TableError>(kernels.values()?.count_gets.launch(grid, &gets, stream)?)
            })?;
        }
        if self.strategy == GetStrategy::Fused {
            // SAFETY: the caller's promise.
            return timed.device("get", device, stream, || unsafe {
                Ok::<(), TableError>(kernels.index()?.get_small.launch(grid, &params, stream)?)
            });
        }
        params.fallbacks = scratch.fallbacks.reserve(device, 4 * count)?;
        let mut scattered = None;
        if is_ordered {
            params.located = scratch.records.reserve(device, 16 * count)?;
            if self.strategy == GetStrategy::Scattered && scratch.scatter_counts.may_begin() {
                scattered = match self.scatter(device, kernels, scratch, stream, &mut params) {
                    // Buckets of fixed capacity take more memory than a sorted list.
                    Err(TableError::Device(error)) if error.is_out_of_memory() => {
                        scratch.scatter_counts.pause();
                        None
                    }
                    batch => Some(batch?),
                };
            }
            if scattered.is_none() {
                timed.device("clear", device, stream, || {
                    self.partition(device, kernels, scratch, stream, &mut params)
                })?;
            }
        } else {
            timed.device("clear", device, stream, || {
                params.fallback_count = scratch.fallback_count.zeros(device, 8, stream)?;
                Ok::<(), TableError>(())
            })?;
        }
        let launch = |timed: &mut TimedBatch<'_>, step, kernel: &TypedKernel<LookupParams>, grid| {
            // SAFETY: the caller's promise; the scratch columns were reserved for `count` keys above.
            timed.device(step, device, stream, || unsafe {
                Ok::<(), TableError>(kernel.launch(grid, &params, stream)?)
            })
        };
        if is_ordered {
            if scattered.is_some() {
                launch(timed, "locate and scatter", &kernels.index()?.scatter, grid)?;
            } else {
                launch(timed, "locate", &kernels.index()?.locate, grid)?;
                // SAFETY: the partition has the buckets of its plan, and its memory is scratch.
                timed.device("scan", device, stream, || unsafe {
                    Ok::<(), TableError>(params.partition.scan(&kernels.index()?.scan, stream)?)
                })?;
                // The number of records is known on the device only, and threads stride over them. More blocks than
                // the device runs at once would start one after the other and find nothing to do.
                let blocks = grid.blocks.min(kernels.resident()?.partition);
                launch(timed, "partition", &kernels.index()?.partition, Grid { blocks, ..grid })?;
            }
            launch(timed, "fetch", &kernels.index()?.fetch, params.affinity.grid(self.fetch_threads()))?;
        } else {
            launch(timed, "locate", &kernels.index()?.locate, grid)?;
        }
        launch(
            timed,
            "fall back",
            &kernels.index()?.fall_back,
            Grid { blocks: FALLBACK_BLOCKS, threads: THREADS, shared_bytes: 0 },
        )?;
        if let Some(scattered) = &scattered {
            scratch.scatter_counts.finish(scattered);
        }
        Ok(())
    }

    /// Prepares a scattered batch: buckets of fixed capacity, and zeroed counters.
    fn scatter(
        &self,
        device: &Device,
        kernels: &Kernels,
        scratch: &mut Columns,
        stream: &Stream,
        params: &mut LookupParams,
    ) -> Result<ScatterBatch, TableError> {
        let batch = self.affine_batch(device, kernels)?;
        let (affinity, plan) = SmAffinity::scattered(&batch);
        let fetches = scratch.fetches.reserve(device, 16 * affinity.places())?;
        let bytes = plan.bytes() + SmAffinity::bytes(batch.sms);
        let scattered = scratch.scatter_counts.begin(device, bytes, stream)?;
        params.fallback_count = scattered.fallback_count;
        params.clear_count = scattered.clear_count;
        params.partition = plan.at(scattered.head);
        params.affinity = self.limit_slots(affinity).at(scattered.head.offset(plan.bytes() as u64));
        params.fetches = fetches;
        Ok(scattered)
    }

    /// Prepares a sorted batch: a partition, a list of all records, and zeroed counters.
    fn partition(
        &self,
        device: &Device,
        kernels: &Kernels,
        scratch: &mut Columns,
        stream: &Stream,
        params: &mut LookupParams,
    ) -> Result<(), TableError> {
        let batch = self.affine_batch(device, kernels)?;
        // A batch that could not be scattered for want of memory is small.
        let unassigned_from = match self.strategy {
            GetStrategy::Sorted { unassigned_from } => unassigned_from,
            _ => u64::MAX,
        };
        let plan = PartitionPlan::for_items(batch.end, batch.items);
        // One fill clears all counters: the head of the partition has a free word for the fallback count.
        let bytes = plan.bytes() + SmAffinity::bytes(batch.sms);
        params.fallback_count = scratch.partition.zeros(device, bytes, stream)?;
        params.partition = plan.at(params.fallback_count);
        let counts = params.fallback_count.offset(plan.bytes() as u64);
        params.affinity =
            self.limit_slots(SmAffinity::sorted(&batch, plan)).at(counts).below(unassigned_from);
        params.fetches = scratch.fetches.reserve(device, 16 * batch.items as usize)?;
        Ok(())
    }

    /// Threads of a block that fetches. Requests that are queued at the link go before those of others, so where
    /// others need it there are no more threads than keep it busy.
    fn fetch_threads(&self) -> u32 {
        if self.shares_link { SHARED_LINK_THREADS } else { THREADS }
    }

    /// One slot on each multiprocessor where other kernels need the link at the same time.
    fn limit_slots(&self, affinity: SmAffinity) -> SmAffinity {
        if self.shares_link { affinity.with_one_slot() } else { affinity }
    }

    fn affine_batch(&self, device: &Device, kernels: &Kernels) -> Result<AffineBatch, TableError> {
        Ok(AffineBatch {
            sms: device.info().abilities.multiprocessors.max(1),
            end: self.image_len,
            items: self.get.count,
            threads: THREADS,
            resident_blocks: kernels.resident()?.fetch,
        })
    }
}

/// The counters of the scattered batches of a workspace, one batch at a time. They are zero between batches, except
/// for the fallback count of the last one: the kernel that reads it cannot clear it. So there are two fallback
/// counts, which batches use alternately, each clearing the other's.
#[derive(Debug, Default)]
pub(crate) struct ScatterCounts {
    column: StagedBuffer,
    /// Bytes that are known to be zero.
    zeroed_bytes: usize,
    uses_second_count: bool,
    /// Batches until one is scattered again.
    pause: u32,
}

/// The counters of one batch.
struct ScatterBatch {
    /// The head of the partition, and behind it its counts.
    head: DevicePtr,
    /// One of the two fallback counts in the head.
    fallback_count: DevicePtr,
    /// Counters that the last kernel of the batch clears.
    clear_count: u64,
    zeroed_bytes: usize,
}

impl ScatterCounts {
    /// Begins a batch with `bytes` bytes of zeroed counters, the head included, after the work in the stream. Until
    /// the batch is [finished](ScatterCounts::finish) they do not count as zero.
    fn begin(&mut self, device: &Device, bytes: usize, stream: &Stream) -> Result<ScatterBatch, TableError> {
        let zeroed_bytes = std::mem::take(&mut self.zeroed_bytes);
        let (head, zeroed_bytes) = if zeroed_bytes >= bytes {
            self.uses_second_count = !self.uses_second_count;
            (self.column.ptr(), zeroed_bytes)
        } else {
            (self.column.zeros(device, bytes, stream)?, bytes)
        };
        let fallback_count = head.offset(if self.uses_second_count { 8 } else { 0 });
        Ok(ScatterBatch {
            head,
            fallback_count,
            clear_count: (bytes / 4 - PartitionPlan::HEAD_WORDS / 2) as u64,
            zeroed_bytes,
        })
    }

    /// Whether to try to scatter this batch.
    fn may_begin(&mut self) -> bool {
        self.pause = self.pause.saturating_sub(1);
        self.pause == 0
    }

    /// There was no memory: the next batches are sorted.
    fn pause(&mut self) {
        self.pause = RETRY_AFTER;
    }

    /// All kernels of the batch are in its stream.
    fn finish(&mut self, batch: &ScatterBatch) {
        self.zeroed_bytes = batch.zeroed_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_batches_use_many_multiprocessors() {
        for (count, blocks, threads) in [(1, 1, 32), (4096, 128, 32), (5000, 79, 64), (1 << 15, 128, 256)] {
            let grid = grid_for(count);
            assert_eq!((grid.blocks, grid.threads), (blocks, threads), "{count}");
        }
    }
}
