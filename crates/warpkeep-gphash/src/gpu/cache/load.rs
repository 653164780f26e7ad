//! Loading: the hot buckets are chosen, and fetched while batches of gets go on.

use std::sync::Arc;
use std::time::Instant;

use warpkeep_image::Persist;

use super::choose::choose;
use super::copies::{Copies, Plan};
use super::{CacheError, CachePolicy, CacheReport, CacheStats};
use crate::Table;
use crate::gpu::engine::{DeviceEngine, Turn, check_fixed};
use crate::gpu::params::{LoadParams, TableParams};

/// Buckets fetched by one launch, at the most: enough for every multiprocessor.
const FETCHES: u64 = 1 << 18;
/// How often the device looks whether a place is free; it pauses in between, so this is a second or more.
const PATIENCE: u64 = 1 << 18;

impl<P: Persist> DeviceEngine<P> {
    /// Makes copies of the hottest buckets in device memory: of this share of all buckets, from 0 to 1, or of as many as the device's
    /// memory budget allows. Those that have copies and are still hot keep them.
    ///
    /// Waits for batches of gets that are under way, so the caller must not hold a [`Reading`](crate::gpu::Reading).
    /// Others go on meanwhile; batches that write wait. Kernels use the cache from then on, until the table has grown or
    /// shrunk: then it is to be loaded again. What makes a bucket hot is counted from the first load on, so load once, with share 0 if
    /// need be, before there is anything to go by. A share of 0 at random turns everything off.
    pub fn load_cache(
        &self,
        table: &Table<P>,
        share: f64,
        policy: CachePolicy,
    ) -> Result<CacheReport, CacheError> {
        let begun = Instant::now();
        check_fixed(table)?;
        if !(0.0..=1.0).contains(&share) {
            return Err(CacheError::Share { share });
        }
        let mut turn = self.turn();
        let image = self.image.cover()?;
        let (params, buckets, moving) = {
            let guard = &crossbeam_epoch::pin();
            let levels = table.levels(guard);
            let buckets: u64 = levels.open().map(|(_, level)| level.buckets).sum();
            (TableParams::new(table, levels, image), buckets, levels.drained > 0)
        };
        let done = |cached: usize, replaced: usize| CacheReport {
            buckets,
            cached: cached as u64,
            replaced: replaced as u64,
            took: begun.elapsed(),
        };
        if share == 0.0 && policy == CachePolicy::Random {
            self.drop_copies(table);
            return Ok(done(0, 0));
        }
        if moving {
            return Err(CacheError::Moving);
        }
        if buckets >= u64::from(u32::MAX) {
            return Err(CacheError::TooManyBuckets { buckets });
        }
        let plan = Plan {
            policy,
            generation: table.notes.generation(),
            buckets: buckets as usize,
            bucket_bytes: table.shape.bytes() as usize,
            places: (share * buckets as f64).round() as usize,
        };
        let fetched = self.prepare(table, params, &plan).and_then(|copies| match copies {
            Some(copies) => self.fetch(&mut turn, params, &copies).map(|fetched| (copies.places, fetched)),
            None => Ok((0, 0)),
        });
        match fetched {
            Ok((cached, fetched)) => Ok(done(cached, fetched)),
            Err(error) => {
                // What is where is not known any more.
                self.drop_copies(table);
                Err(error)
            }
        }
    }

    /// How the cache does; all zeros if there is none.
    pub fn cache_stats(&self) -> Result<CacheStats, CacheError> {
        Ok(self.cache.stats()?)
    }

    /// Device memory that the bucket cache takes.
    pub fn cache_bytes(&self) -> u64 {
        self.cache.bytes()
    }

    /// Gives the memory back. The caller has the turn.
    fn drop_copies(&self, table: &Table<P>) {
        let _moving = self.moving();
        let mut state = self.cache.state();
        state.replace(None, &table.notes);
        state.loading = false;
    }

    /// Has copies that are as planned, up to date, and read with references from now on; `None` if there is no memory for any.
    fn prepare(
        &self,
        table: &Table<P>,
        params: TableParams,
        plan: &Plan,
    ) -> Result<Option<Arc<Copies>>, CacheError> {
        let heat = {
            // Kernels that read without references end first.
            let _moving = self.moving();
            let mut state = self.cache.state();
            let old = state.copies.clone();
            if let Some(copies) = old.as_ref().filter(|copies| copies.is(plan)) {
                state.refresh(self.device(), &self.kernels, table, params, copies)?;
                state.loading = true;
                return Ok(old);
            }
            state.replace(None, &table.notes);
            let same =
                |copies: &Arc<Copies>| (copies.generation, copies.policy) == (plan.generation, plan.policy);
            old.filter(same).map(|copies| Arc::clone(&copies.heat))
        };
        // The old ones are gone: both may not fit.
        let made = Copies::new(self.device(), plan, heat.as_ref())?;
        let mut state = self.cache.state();
        state.replace(made, &table.notes);
        state.loading = state.copies.is_some();
        Ok(state.copies.clone())
    }

    /// Gives the places to the hottest buckets; how many had none.
    fn fetch(
        &self,
        turn: &mut Turn<'_, P>,
        params: TableParams,
        copies: &Copies,
    ) -> Result<usize, CacheError> {
        let heat = match copies.policy {
            CachePolicy::Random => vec![0; copies.buckets],
            CachePolicy::Lru | CachePolicy::Lfu => {
                let mut heat = vec![0_u32; copies.buckets];
                copies.heat.read_on(0, &mut heat, &turn.place.stream)?;
                heat
            }
        };
        let (mut held, roll) = {
            let mut state = self.cache.state();
            state.loads += 1;
            (state.held.clone(), state.loads)
        };
        let fetches = choose(copies.policy, &heat, &mut held, roll);
        let (device, place) = (self.device(), &mut *turn.place);
        let params = params.with(copies.params(0, true));
        let stuck_at = place.columns.counters.put(device, &[0_u64], &place.stream)?;
        // In a column that takes a quarter of what the copies have left.
        let at_once = (device.budget_left() / 64).clamp(32, FETCHES) as usize;
        for some in fetches.chunks(at_once) {
            let params = LoadParams {
                table: params,
                count: some.len() as u64,
                fetches: place.columns.blocks.put(device, some, &place.stream)?,
                stuck: stuck_at,
                patience: PATIENCE,
            };
            // SAFETY: the columns are as long as the kernel takes them to be and stay until it is done, as do the copies; the turn
            // keeps those away who write, and readers have references.
            unsafe { place.launch(&self.kernels.cache_load, 32 * params.count, &params)? };
            // Also before the column is used again.
            let stuck: Vec<u64> = place.columns.counters.take(1, &place.stream)?;
            if stuck[0] > 0 {
                return Err(CacheError::InUse { places: stuck[0] });
            }
        }
        if copies.policy == CachePolicy::Lfu {
            copies.age(&self.kernels, place)?;
        }
        let mut state = self.cache.state();
        if copies.policy == CachePolicy::Lfu {
            state.aged();
        }
        state.held = held;
        // Readers that still take references do no harm.
        state.loading = false;
        Ok(fetches.len())
    }
}
