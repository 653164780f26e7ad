//! The bucket cache: frames in device memory with copies of the hottest buckets. A load chooses the buckets and copies
//! them while batches of gets go on.

use std::sync::Arc;
use std::time::Instant;

use warpkeep_core::{Seed, mix64};
use warpkeep_device::{Buffer, Device, DeviceError, Grid};
use warpkeep_image::Persist;

use super::{
    CacheAgeParams, CacheError, CacheFill, CacheFillParams, CacheParams, CachePolicy, CacheReport,
    CacheStats, NOT_CACHED, Paper,
};
use crate::gpu::engine::{DeviceEngine, THREADS, WriteLock};
use crate::gpu::params::{HIT_COUNTERS, TableParams};
use crate::{Table, TableError};

/// The most buckets that one launch copies: enough to occupy every SM.
const LAUNCH_BUCKETS: u64 = 1 << 18;

/// The device memory of a cache.
pub(super) struct Cache {
    policy: CachePolicy,
    /// The generation of the levels whose buckets are numbered.
    generation: u64,
    buckets: usize,
    frames: usize,
    frequencies: Arc<Buffer>,
    /// For each bucket its frame, or [`NOT_CACHED`].
    frame_of: Buffer,
    copies: Buffer,
    hit_counters: Buffer,
}

/// The shape of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CachePlan {
    policy: CachePolicy,
    generation: u64,
    buckets: usize,
    bucket_bytes: usize,
    frames: usize,
}

impl CachePlan {
    fn counts_uses(&self) -> bool {
        self.policy != CachePolicy::Random
    }

    /// The plan with as many frames as free memory allows; `None` if memory does not suffice for the maps.
    fn fitting(&self, device: &Device) -> Result<Option<CachePlan>, TableError> {
        let free = device.budget_left().min(device.memory()?.0);
        let maps = if self.counts_uses() { 8 } else { 4 } * self.buckets + 16 * HIT_COUNTERS;
        // An eighth stays free for the columns of batches.
        let rest = (free - free / 8).checked_sub(maps as u64);
        let frames = |rest: u64| (rest / self.bucket_bytes as u64) as usize;
        Ok(rest.map(|rest| CachePlan { frames: self.frames.min(frames(rest)), ..*self }))
    }
}

impl Cache {
    /// An empty cache with as many of the planned frames as memory allows; `None` if it allows not even the maps. It
    /// continues to count in `frequencies`, if given.
    fn new(
        device: &Device,
        plan: &CachePlan,
        frequencies: Option<&Arc<Buffer>>,
    ) -> Result<Option<Cache>, TableError> {
        let Some(mut plan) = plan.fitting(device)? else { return Ok(None) };
        loop {
            match Cache::allocate(device, &plan, frequencies) {
                // Free memory can be fragmented, and other threads allocate from it.
                Err(error) if error.is_out_of_memory() && plan.frames > 0 => plan.frames /= 2,
                Err(error) if error.is_out_of_memory() => return Ok(None),
                result => return Ok(Some(result?)),
            }
        }
    }

    fn allocate(
        device: &Device,
        plan: &CachePlan,
        frequencies: Option<&Arc<Buffer>>,
    ) -> Result<Cache, DeviceError> {
        let frame_of = device.allocate(4 * plan.buckets)?;
        frame_of.fill(NOT_CACHED.to_le_bytes()[0])?;
        let frequencies = match frequencies {
            Some(frequencies) => Arc::clone(frequencies),
            None => {
                Arc::new(device.allocate_zeroed(if plan.counts_uses() { 4 * plan.buckets } else { 0 })?)
            }
        };
        Ok(Cache {
            policy: plan.policy,
            generation: plan.generation,
            buckets: plan.buckets,
            frames: plan.frames,
            frequencies,
            frame_of,
            copies: device.allocate(plan.bucket_bytes * plan.frames)?,
            hit_counters: device.allocate_zeroed(16 * HIT_COUNTERS)?,
        })
    }

    pub(super) fn params(&self, clock: u64) -> CacheParams {
        CacheParams {
            frames: self.frame_of.ptr(),
            copies: self.copies.ptr(),
            frequencies: self.frequencies.ptr(),
            hit_counters: self.hit_counters.ptr(),
            policy: self.policy as u32,
            clock: clock as u32,
        }
    }

    fn stats(&self) -> Result<CacheStats, TableError> {
        let mut stats = CacheStats { buckets: self.buckets as u64, ..CacheStats::default() };
        stats.cached_buckets = self.frames as u64;
        for pair in self.hit_counters.to_vec::<[u64; 2]>()? {
            stats.lookups += pair[0];
            stats.hits += pair[1];
        }
        Ok(stats)
    }
}

/// The part of [`Paper`] that loads and gets change.
#[derive(Default)]
pub(super) struct CacheState {
    cache: Option<Arc<Cache>>,
    /// Loads since the beginning.
    loads: u64,
    /// The time for [`CachePolicy::Lru`]: warps that have served gets since the beginning.
    clock: u64,
}

impl CacheState {
    /// The cache for a batch, if the table's levels are still those of the load, and the time at which the batch
    /// begins.
    pub(super) fn begin<P: Persist>(&mut self, table: &Table<P>, keys: u64) -> Option<(Arc<Cache>, u64)> {
        let cache = self.cache.clone().filter(|cache| cache.generation == table.changes.generation())?;
        let begin = self.clock + 1;
        self.clock = begin + keys.div_ceil(32);
        Some((cache, begin))
    }
}

impl Paper {
    /// Copies the hottest buckets to device memory: this share of all buckets, from 0 to 1, or as many as the device's
    /// memory budget allows.
    ///
    /// Waits for the batches of gets that are running, so the caller must not hold a
    /// [`PaperReading`](super::PaperReading). Later gets run beside the load; batches that write wait. Uses are counted
    /// from the first load on, so load once, with share 0 if need be, before the load that chooses by them. A share
    /// of 0 at random drops the cache.
    pub fn load_cache<P: Persist>(
        &self,
        engine: &DeviceEngine<P>,
        table: &Table<P>,
        share: f64,
        policy: CachePolicy,
    ) -> Result<CacheReport, CacheError> {
        let begin = Instant::now();
        if !(0.0..=1.0).contains(&share) {
            return Err(CacheError::InvalidShare { share });
        }
        let mut lock = engine.write_lock();
        let image = engine.image.cover()?;
        let (params, buckets, is_resizing) = {
            let guard = &table.heap.pin();
            let levels = table.levels(guard);
            let buckets: u64 = levels.open().map(|(_, level)| level.buckets).sum();
            (TableParams::new(table, levels, image), buckets, levels.drained > 0)
        };
        let report = |cached: usize| CacheReport { buckets, cached: cached as u64, took: begin.elapsed() };
        // Memory may not suffice for two caches, so the old one is freed first. Its frequencies are kept.
        let old = {
            // Waits for the kernels that read it.
            let _relocation = engine.relocation_write();
            self.state().cache.take()
        };
        if share == 0.0 && policy == CachePolicy::Random {
            return Ok(report(0));
        }
        if is_resizing {
            return Err(CacheError::TableResizing);
        }
        if buckets >= u64::from(u32::MAX) {
            return Err(CacheError::TooManyBuckets { buckets });
        }
        let plan = CachePlan {
            policy,
            generation: table.changes.generation(),
            buckets: buckets as usize,
            bucket_bytes: table.shape.bytes() as usize,
            frames: (share * buckets as f64).round() as usize,
        };
        let counts_the_same =
            |cache: &Arc<Cache>| (cache.generation, cache.policy) == (plan.generation, plan.policy);
        let frequencies = old.filter(counts_the_same).map(|cache| Arc::clone(&cache.frequencies));
        let Some(cache) = Cache::new(engine.device(), &plan, frequencies.as_ref())? else {
            return Ok(report(0));
        };
        let cache = Arc::new(cache);
        let seed = {
            let mut state = self.state();
            state.cache = Some(Arc::clone(&cache));
            state.loads += 1;
            state.loads
        };
        let filled = self.fill(&mut lock, params, &cache, seed);
        if filled.is_err() {
            self.state().cache = None;
        }
        filled.map(|()| report(cache.frames)).map_err(CacheError::from)
    }

    /// The counters of the cache; all zeros without a cache.
    pub fn cache_stats(&self) -> Result<CacheStats, CacheError> {
        let cache = self.state().cache.clone();
        Ok(cache.map_or(Ok(CacheStats::default()), |cache| cache.stats())?)
    }

    /// Copies the hottest buckets to the frames.
    fn fill<P: Persist>(
        &self,
        lock: &mut WriteLock<'_, P>,
        table: TableParams,
        cache: &Cache,
        seed: u64,
    ) -> Result<(), TableError> {
        let mut frequencies = vec![0_u32; cache.buckets];
        if cache.policy != CachePolicy::Random {
            cache.frequencies.read_on(0, &mut frequencies, &lock.workspace.stream)?;
        }
        let buckets = choose(cache.policy, &frequencies, cache.frames, seed);
        let fills: Vec<CacheFill> =
            (0..).zip(buckets).map(|(frame, bucket)| CacheFill { frame, bucket }).collect();
        let (device, workspace) = (lock.engine.device(), &mut *lock.workspace);
        // The column takes at most a quarter of the memory that is left beside the cache.
        let launch_buckets = (device.budget_left() / 64).clamp(32, LAUNCH_BUCKETS) as usize;
        for fills in fills.chunks(launch_buckets) {
            let params = CacheFillParams {
                table,
                cache: cache.params(0),
                count: fills.len() as u64,
                fills: workspace.columns.blocks.put(device, fills, &workspace.stream)?,
            };
            // SAFETY: the column has `count` fills, and it and the cache live until the stream is synchronised
            // below. The write lock excludes writers, and readers use a copy only after it is complete.
            unsafe { self.kernels.fill.launch(grid(32 * params.count), &params, &workspace.stream)? };
            // The next launch reuses the column.
            workspace.stream.synchronize()?;
        }
        if cache.policy == CachePolicy::Lfu {
            let count = cache.buckets as u64;
            let params = CacheAgeParams { count, frequencies: cache.frequencies.ptr() };
            // SAFETY: the buffer has `count` words, and lives until the stream is synchronised below.
            unsafe { self.kernels.age.launch(grid(count), &params, &workspace.stream)? };
            workspace.stream.synchronize()?;
        }
        Ok(())
    }
}

fn grid(threads: u64) -> Grid {
    Grid::covering(threads.max(1), THREADS)
}

/// The buckets to copy, in ascending order. [`CachePolicy::Random`] draws them by `seed`.
fn choose(policy: CachePolicy, frequencies: &[u32], frames: usize, seed: u64) -> Vec<u32> {
    let mut buckets: Vec<u32> = (0..).zip(frequencies).map(|(bucket, _)| bucket).collect();
    if frames < buckets.len() {
        // Of buckets with equal frequencies the first are taken.
        let rank = |bucket: &u32| {
            let frequency = match policy {
                CachePolicy::Random => mix64(Seed(seed), u64::from(*bucket)),
                CachePolicy::Lru | CachePolicy::Lfu => u64::from(frequencies[*bucket as usize]),
            };
            (std::cmp::Reverse(frequency), *bucket)
        };
        if frames > 0 {
            buckets.select_nth_unstable_by_key(frames - 1, rank);
        }
        buckets.truncate(frames);
        buckets.sort_unstable();
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_buckets_are_chosen() {
        for policy in [CachePolicy::Lfu, CachePolicy::Lru] {
            assert_eq!(choose(policy, &[5, 0, 9, 7, 1], 3, 0), [0, 2, 3]);
            assert_eq!(choose(policy, &[5, 6, 9, 7, 1], 3, 1), [1, 2, 3]);
            assert_eq!(choose(policy, &[6, 6, 6, 6], 2, 2), [0, 1]);
        }
    }

    #[test]
    fn no_bucket_and_every_bucket_can_be_chosen() {
        assert!(choose(CachePolicy::Lfu, &[1, 2], 0, 0).is_empty());
        assert_eq!(choose(CachePolicy::Random, &[0; 4], 4, 0), [0, 1, 2, 3]);
        assert_eq!(choose(CachePolicy::Lru, &[0; 4], 9, 0), [0, 1, 2, 3]);
    }

    #[test]
    fn random_choices_differ_by_seed() {
        let frequencies = vec![0; 1000];
        let [one, other] = [1, 2].map(|seed| choose(CachePolicy::Random, &frequencies, 100, seed));
        let both = one.iter().filter(|bucket| other.contains(bucket)).count();
        assert!((one.len(), other.len()) == (100, 100) && both < 30, "{both}");
    }
}
