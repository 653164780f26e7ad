//! The paper's own layout: slabs of 128 bytes, a warp for each request, and its allocator.
#![allow(unsafe_code, reason = "kernels are launched")]

use warpkeep_device::{Buffer, Device, Grid, KernelSet as _};

use crate::BenchError;
use crate::gpu::Clock;
use crate::gpu::slab::{Batch, Columns, INSERTED, REMOVED, Shape, Table};
use crate::kernels::{
    SUMS, WARP_SLAB_WORDS, WarpAllocParams, WarpPoolRef, WarpSlabKernels, WarpSlabParams, WarpSlabRef,
};

/// The paper's layout, as a variant of a case.
pub(super) const PAPER: &str = "the paper's layout";
/// Its slabs.
pub(super) const SHAPE: Shape = Shape { slab_bytes: 128, pairs: 15, pair_bytes: 8 };

const THREADS: u32 = 128;
const BLOCK_UNITS: u64 = 1024;
/// Slabs that warps which lose a link hold for a moment: as many as a large GPU has warps under way.
const MOST_UNDER_WAY: u64 = 1 << 14;

/// A pool of the paper's allocator.
pub(super) struct WarpPool {
    kernels: WarpSlabKernels,
    units: Buffer,
    bitmaps: Buffer,
    blocks: u64,
}

impl WarpPool {
    /// At least this many units, all of them free.
    pub(super) fn new(device: &Device, units: u64) -> Result<WarpPool, BenchError> {
        let blocks = units.div_ceil(BLOCK_UNITS).max(1).next_power_of_two();
        let pool = WarpPool {
            kernels: WarpSlabKernels::load(device)?,
            units: device.allocate((blocks * BLOCK_UNITS) as usize * 8 * WARP_SLAB_WORDS)?,
            bitmaps: device.allocate((blocks * BLOCK_UNITS / 8) as usize)?,
            blocks,
        };
        pool.clear()?;
        Ok(pool)
    }

    fn clear(&self) -> Result<(), BenchError> {
        self.units.fill(0xff)?;
        Ok(self.bitmaps.fill(0)?)
    }

    fn reference(&self) -> WarpPoolRef {
        WarpPoolRef { units: self.units.ptr(), bitmaps: self.bitmaps.ptr(), blocks: self.blocks }
    }

    pub(super) fn capacity(&self) -> u64 {
        self.blocks * BLOCK_UNITS
    }

    /// Units that are taken.
    pub(super) fn in_use(&self) -> Result<u64, BenchError> {
        let words = self.bitmaps.to_vec::<u32>()?;
        Ok(words.into_iter().map(|word| u64::from(word.count_ones())).sum())
    }

    /// Lets this many threads claim a unit each; the seconds that it takes, and the handles, of which the largest number stands for none.
    pub(super) fn claim(
        &self,
        device: &Device,
        count: usize,
        clock: &Clock,
    ) -> Result<(f64, Vec<u32>), BenchError> {
        let (handles, mistakes) = (device.allocate(4 * count)?, device.allocate_zeroed(8 * SUMS)?);
        let params = self.params(&handles, &mistakes);
        let grid = Grid::covering(count as u64, THREADS);
        // SAFETY: there is a handle for each thread; the columns and the pool stay until the clock has waited.
        let seconds = clock.time(|stream| unsafe { self.kernels.claim.launch(grid, &params, stream) })?;
        Ok((seconds, handles.to_vec::<u32>()?))
    }

    /// Gives units back; how many were refused.
    pub(super) fn release(&self, device: &Device, units: &[u32], clock: &Clock) -> Result<u64, BenchError> {
        let (handles, mistakes) = (device.upload(units)?, device.allocate_zeroed(8 * SUMS)?);
        let params = self.params(&handles, &mistakes);
        let grid = Grid::covering(units.len() as u64, THREADS);
        // SAFETY: as in `claim`.
        clock.time(|stream| unsafe { self.kernels.release.launch(grid, &params, stream) })?;
        Ok(mistakes.to_vec::<u64>()?.into_iter().sum())
    }

    fn params(&self, handles: &Buffer, mistakes: &Buffer) -> WarpAllocParams {
        WarpAllocParams {
            pool: self.reference(),
            handles: handles.ptr(),
            count: handles.len() as u64 / 4,
            mistakes: mistakes.ptr(),
        }
    }
}

/// A table of the paper's layout.
pub(super) struct WarpTable {
    device: Device,
    pool: WarpPool,
    first: Buffer,
    seed: u64,
    len: u64,
}

impl WarpTable {
    /// An empty table with this many buckets, and slabs for this many pairs: twice as many as they need, because a nearly full pool of this kind is slow.
    pub(super) fn new(device: &Device, buckets: u64, pairs: u64, seed: u64) -> Result<WarpTable, BenchError> {
        let slabs = pairs / u64::from(SHAPE.pairs) + pairs.min(MOST_UNDER_WAY);
        WarpTable::with_slabs(device, buckets, 2 * slabs, seed)
    }

    /// The same with at least this many slabs behind the first ones of the buckets.
    pub(super) fn with_slabs(
        device: &Device,
        buckets: u64,
        slabs: u64,
        seed: u64,
    ) -> Result<WarpTable, BenchError> {
        let buckets = buckets.max(1);
        let first = device.allocate(buckets as usize * 8 * WARP_SLAB_WORDS)?;
        first.fill(0xff)?;
        Ok(WarpTable { device: device.clone(), pool: WarpPool::new(device, slabs)?, first, seed, len: 0 })
    }

    fn buckets(&self) -> u64 {
        self.first.len() as u64 / (8 * WARP_SLAB_WORDS as u64)
    }

    /// All pairs, for tests.
    #[cfg(test)]
    pub(super) fn pairs(&self) -> Result<Vec<(u32, u32)>, BenchError> {
        let (first, units) = (self.first.to_vec::<u64>()?, self.pool.units.to_vec::<u64>()?);
        let mut pairs = Vec::new();
        for bucket in 0..self.buckets() as usize {
            let mut slab = &first[bucket * WARP_SLAB_WORDS..][..WARP_SLAB_WORDS];
            loop {
                let (words, link) = (&slab[..WARP_SLAB_WORDS - 1], slab[WARP_SLAB_WORDS - 1]);
                let live = words.iter().filter(|&&word| (word as u32) < crate::kernels::RESERVED_KEYS);
                pairs.extend(live.map(|&word| (word as u32, (word >> 32) as u32)));
                if link == u64::MAX {
                    break;
                }
                slab = &units[link as usize * WARP_SLAB_WORDS..][..WARP_SLAB_WORDS];
            }
        }
        Ok(pairs)
    }
}

impl Table for WarpTable {
    fn name(&self) -> &str {
        PAPER
    }

    fn clear(&mut self) -> Result<(), BenchError> {
        self.len = 0;
        self.first.fill(0xff)?;
        self.pool.clear()
    }

    fn answer(&mut self, batch: &Batch, clock: &Clock) -> Result<(f64, Vec<u64>), BenchError> {
        let columns = Columns::new(&self.device, batch)?;
        let table = WarpSlabRef {
            first: self.first.ptr(),
            pool: self.pool.reference(),
            seed: self.seed,
            buckets: self.buckets(),
        };
        let params = WarpSlabParams { table, requests: columns.requests() };
        let kernel = &self.pool.kernels.apply;
        // SAFETY: the columns have this many elements; the table and they stay until the clock has waited.
        let seconds = clock.time(|stream| unsafe { kernel.launch(columns.grid(), &params, stream) })?;
        let answers = columns.answers()?;
        let count =
            |status: u32| answers.iter().filter(|&&answer| answer >> 32 == u64::from(status)).count() as u64;
        self.len = (self.len + count(INSERTED)).saturating_sub(count(REMOVED));
        Ok((seconds, answers))
    }

    fn utilisation(&self) -> Result<Option<f64>, BenchError> {
        let slabs = self.buckets() + self.pool.in_use()?;
        Ok(Some((8 * self.len) as f64 / (slabs * u64::from(SHAPE.slab_bytes)) as f64))
    }
}
