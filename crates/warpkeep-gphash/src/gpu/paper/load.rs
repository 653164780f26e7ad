//! Loading: the hot buckets are chosen, and copied while batches of gets go on.

use std::sync::Arc;
use std::time::Instant;

use warpkeep_device::Grid;
use warpkeep_image::Persist;

use super::choose::choose;
use super::copies::{Copies, Plan};
use super::params::{CacheAgeParams, CacheFillParams, Filling};
use super::{CacheError, CachePolicy, CacheReport, CacheStats, Paper};
use crate::gpu::engine::{DeviceEngine, THREADS, Turn};
use crate::gpu::params::TableParams;
use crate::{Table, TableError};

/// Buckets copied by one launch, at the most: enough for every multiprocessor.
const AT_ONCE: u64 = 1 << 18;

impl Paper {
    /// Makes copies of the hottest buckets in device memory: of this share of all buckets, from 0 to 1, or of as many as the device's
    /// memory budget allows.
    ///
    /// Waits for batches of gets that are under way, so the caller must not hold a [`PaperReading`](super::PaperReading). Others go on meanwhile; batches that
    /// write wait. Heat is counted from the first load on, so load once, with share 0 if need be, before there is anything to
    /// choose by. A share of 0 at random turns everything off.
    pub fn load_cache<P: Persist>(
        &self,
        engine: &DeviceEngine<P>,
        table: &Table<P>,
        share: f64,
        policy: CachePolicy,
    ) -> Result<CacheReport, CacheError> {
        let begun = Instant::now();
        if !(0.0..=1.0).contains(&share) {
            return Err(CacheError::Share { share });
        }
        let mut turn = engine.turn();
        let image = engine.image.cover()?;
        let (params, buckets, moving) = {
            let guard = &table.heap.pin();
            let levels = table.levels(guard);
            let buckets: u64 = levels.open().map(|(_, level)| level.buckets).sum();
            (TableParams::new(table, levels, image), buckets, levels.drained > 0)
        };
        let done = |cached: usize| CacheReport { buckets, cached: cached as u64, took: begun.elapsed() };
        // Both may not fit, so the old ones go first; heat stays known.
        let old = {
            // Kernels that read them end before.
            let _moving = engine.moving();
            self.state().copies.take()
        };
        if share == 0.0 && policy == CachePolicy::Random {
            return Ok(done(0));
        }
        if moving {
            return Err(CacheError::Moving);
        }
        if buckets >= u64::from(u32::MAX) {
            return Err(CacheError::TooManyBuckets { buckets });
        }
        let plan = Plan {
            policy,
            generation: table.changes.generation(),
            buckets: buckets as usize,
            bucket_bytes: table.shape.bytes() as usize,
            places: (share * buckets as f64).round() as usize,
        };
        let same =
            |copies: &Arc<Copies>| (copies.generation, copies.policy) == (plan.generation, plan.policy);
        let heat = old.filter(same).map(|copies| Arc::clone(&copies.heat));
        let Some(copies) = Copies::new(engine.device(), &plan, heat.as_ref())? else { return Ok(done(0)) };
        let copies = Arc::new(copies);
        let roll = {
            let mut state = self.state();
            state.copies = Some(Arc::clone(&copies));
            state.loads += 1;
            state.loads
        };
        let filled = self.fill(&mut turn, params, &copies, roll);
        if filled.is_err() {
            self.state().copies = None;
        }
        filled.map(|()| done(copies.places)).map_err(CacheError::from)
    }

    /// How the cache does; all zeros if there is none.
    pub fn cache_stats(&self) -> Result<CacheStats, CacheError> {
        let copies = self.state().copies.clone();
        Ok(copies.map_or(Ok(CacheStats::default()), |copies| copies.stats())?)
    }

    /// Copies the hottest buckets.
    fn fill<P: Persist>(
        &self,
        turn: &mut Turn<'_, P>,
        table: TableParams,
        copies: &Copies,
        roll: u64,
    ) -> Result<(), TableError> {
        let mut heat = vec![0_u32; copies.buckets];
        if copies.policy != CachePolicy::Random {
            copies.heat.read_on(0, &mut heat, &turn.place.stream)?;
        }
        let chosen = choose(copies.policy, &heat, copies.places, roll);
        let fillings: Vec<Filling> =
            (0..).zip(chosen).map(|(place, bucket)| Filling { place, bucket }).collect();
        let (device, place) = (turn.engine.device(), &mut *turn.place);
        // In a column that takes a quarter of what the copies have left.
        let at_once = (device.budget_left() / 64).clamp(32, AT_ONCE) as usize;
        for some in fillings.chunks(at_once) {
            let params = CacheFillParams {
                table,
                cache: copies.params(0),
                count: some.len() as u64,
                fillings: place.columns.blocks.put(device, some, &place.stream)?,
            };
            // SAFETY: the column is as long as the kernel takes it to be and stays until it is done, as do the copies; the turn keeps
            // those away who write, and readers look at a copy when it is complete.
            unsafe { self.kernels.fill.launch(threads(32 * params.count), &params, &place.stream)? };
            // Before the column is used again.
            place.stream.synchronize()?;
        }
        if copies.policy == CachePolicy::Lfu {
            let count = copies.buckets as u64;
            let params = CacheAgeParams { count, heat: copies.heat.ptr() };
            // SAFETY: the buffer has as many words, and stays until the stream is synchronised.
            unsafe { self.kernels.age.launch(threads(count), &params, &place.stream)? };
            place.stream.synchronize()?;
        }
        Ok(())
    }
}

fn threads(count: u64) -> Grid {
    Grid::covering(count.max(1), THREADS)
}
