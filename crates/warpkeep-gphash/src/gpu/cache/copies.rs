//! The copies in device memory, and what kernels are told of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpkeep_device::{Buffer, Device, DeviceError};
use warpkeep_image::Persist;

use super::{CachePolicy, CacheStats, Notes};
use crate::gpu::engine::{Kernels, Workplace};
use crate::gpu::mirror::For;
use crate::gpu::params::{AgeParams, CacheParams, NOT_CACHED, RefreshParams, TALLIES, TableParams};
use crate::{Table, TableError};

/// Heat has 31 bits; before there can be more, all of it is halved.
const HOT: u64 = 1 << 30;

/// Device memory of a cache.
pub(super) struct Copies {
    pub(super) policy: CachePolicy,
    /// Of the levels whose buckets these are.
    pub(super) generation: u64,
    pub(super) buckets: usize,
    /// Places asked for, and had.
    pub(super) asked: usize,
    pub(super) places: usize,
    pub(super) heat: Arc<Buffer>,
    place_of: Buffer,
    bucket_of: Buffer,
    copies: Buffer,
    pub(super) references: Buffer,
    tallies: Buffer,
}

/// What a cache is to be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) policy: CachePolicy,
    pub(super) generation: u64,
    pub(super) buckets: usize,
    pub(super) bucket_bytes: usize,
    pub(super) places: usize,
}

impl Plan {
    fn counts(&self) -> bool {
        self.policy != CachePolicy::Random
    }

    /// Bytes that the maps take, and each place.
    fn sizes(&self) -> (u64, u64) {
        let maps = if self.counts() { 8 } else { 4 };
        ((maps * self.buckets + 16 * TALLIES) as u64, self.bucket_bytes as u64 + 8)
    }

    /// As many of the places as there is memory for; `None` if there is not even enough for the maps.
    fn fitting(&self, device: &Device) -> Result<Option<Plan>, TableError> {
        let free = device.budget_left().min(device.memory()?.0);
        // Batches need their columns.
        let (maps, each) = self.sizes();
        let left = (free - free / 8).checked_sub(maps);
        Ok(left.map(|left| Plan { places: self.places.min((left / each) as usize), ..*self }))
    }
}

impl Copies {
    /// Memory for what is planned, or for as much of it as the budget allows; `None` if that is nothing. Nothing is cached yet.
    pub(super) fn new(
        device: &Device,
        plan: &Plan,
        heat: Option<&Arc<Buffer>>,
    ) -> Result<Option<Copies>, TableError> {
        let Some(mut fitting) = plan.fitting(device)? else { return Ok(None) };
        loop {
            match Copies::of(device, &fitting, plan.places, heat) {
                // What is free can be in pieces, and others take from it, too.
                Err(error) if error.is_out_of_memory() && fitting.places > 0 => fitting.places /= 2,
                Err(error) if error.is_out_of_memory() => return Ok(None),
                made => return Ok(Some(made?)),
            }
        }
    }

    fn of(
        device: &Device,
        plan: &Plan,
        asked: usize,
        heat: Option<&Arc<Buffer>>,
    ) -> Result<Copies, DeviceError> {
        let filled = |bytes: usize| {
            let buffer = device.allocate(bytes)?;
            buffer.fill(NOT_CACHED.to_le_bytes()[0])?;
            Ok::<Buffer, DeviceError>(buffer)
        };
        let heat = match heat {
            Some(heat) => Arc::clone(heat),
            None => Arc::new(device.allocate_zeroed(if plan.counts() { 4 * plan.buckets } else { 0 })?),
        };
        Ok(Copies {
            policy: plan.policy,
            generation: plan.generation,
            buckets: plan.buckets,
            asked,
            places: plan.places,
            heat,
            place_of: filled(4 * plan.buckets)?,
            bucket_of: filled(4 * plan.places)?,
            copies: device.allocate(plan.bucket_bytes * plan.places)?,
            references: device.allocate_zeroed(4 * plan.places)?,
            tallies: device.allocate_zeroed(16 * TALLIES)?,
        })
    }

    /// Whether it is what is planned, so that it need not be made anew.
    pub(super) fn is(&self, plan: &Plan) -> bool {
        (self.policy, self.generation, self.buckets, self.asked)
            == (plan.policy, plan.generation, plan.buckets, plan.places)
    }

    pub(super) fn params(&self, clock: u64, loading: bool) -> CacheParams {
        CacheParams {
            places: self.place_of.ptr(),
            buckets: self.bucket_of.ptr(),
            copies: self.copies.ptr(),
            references: self.references.ptr(),
            heat: self.heat.ptr(),
            tallies: self.tallies.ptr(),
            policy: self.policy as u32,
            clock: clock as u32,
            place_count: self.places as u32,
            loading: u32::from(loading),
        }
    }

    /// Halves what is known of how hot buckets are, after what is in the workplace's stream.
    pub(super) fn age(&self, kernels: &Kernels, place: &Workplace) -> Result<(), TableError> {
        let count = (self.heat.len() / 4) as u64;
        let params = AgeParams { count, heat: self.heat.ptr() };
        // SAFETY: the buffer has as many words, and stays until the stream is synchronised.
        unsafe { place.launch(&kernels.cache_age, count, &params)? };
        Ok(place.stream.synchronize()?)
    }

    /// Device memory that they take.
    fn bytes(&self) -> u64 {
        let buffers =
            [&*self.heat, &self.place_of, &self.bucket_of, &self.copies, &self.references, &self.tallies];
        buffers.iter().map(|buffer| buffer.len() as u64).sum()
    }

    pub(super) fn stats(&self) -> Result<CacheStats, TableError> {
        let mut stats = CacheStats { buckets: self.buckets as u64, ..CacheStats::default() };
        stats.cached_buckets = self.places as u64;
        for pair in self.tallies.to_vec::<[u64; 2]>()? {
            stats.lookups += pair[0];
            stats.hits += pair[1];
        }
        Ok(stats)
    }
}

/// The cache of an engine: there, or not.
#[derive(Default)]
pub(crate) struct Cache(Mutex<State>);

/// What changes about a cache.
#[derive(Default)]
pub(super) struct State {
    pub(super) copies: Option<Arc<Copies>>,
    /// The bucket of each place.
    pub(super) held: Vec<u32>,
    pub(super) loading: bool,
    /// Loads so far.
    pub(super) loads: u64,
    /// Warps that have served batches so far: when a batch began.
    clock: u64,
    /// Uses of buckets that were counted, at the most.
    counted: u64,
    notes: Option<Arc<Notes>>,
    refreshing: Option<Workplace>,
}

impl State {
    /// Puts a cache in place of the one that was there, or none. No kernel reads the old one, and nobody writes.
    pub(super) fn replace(&mut self, copies: Option<Copies>, notes: &Arc<Notes>) {
        notes.watch(copies.is_some());
        self.held = vec![NOT_CACHED; copies.as_ref().map_or(0, |copies| copies.places)];
        self.copies = copies.map(Arc::new);
        self.notes = Some(Arc::clone(notes));
    }

    /// The copies, if they are of use for the table as it is.
    fn usable<P: Persist>(&self, table: &Table<P>) -> Option<Arc<Copies>> {
        self.copies.clone().filter(|copies| copies.generation == table.notes.generation())
    }

    /// A stream for what is done between batches.
    fn workplace(&mut self, device: &Device) -> Result<&mut Workplace, TableError> {
        if self.refreshing.is_none() {
            self.refreshing = Some(Workplace::new(device)?);
        }
        Ok(self.refreshing.as_mut().expect("it was made just now"))
    }

    /// Copies again what the CPU has changed. Readers may go on.
    pub(super) fn refresh<P: Persist>(
        &mut self,
        device: &Device,
        kernels: &Kernels,
        table: &Table<P>,
        params: TableParams,
        copies: &Copies,
    ) -> Result<(), TableError> {
        // Held until it is done: whoever finds nothing noted reads at once.
        let mut changed = table.notes.changed();
        if changed.is_empty() {
            return Ok(());
        }
        let params = params.with(copies.params(self.clock, self.loading));
        let place = self.workplace(device)?;
        let (count, offsets) = match changed.offsets() {
            Some(offsets) => {
                (offsets.len() as u64, place.columns.blocks.put(device, offsets, &place.stream)?)
            }
            None => {
                let slots = table.shape.slots() as u64;
                (slots * copies.places as u64, warpkeep_device::DevicePtr::NULL)
            }
        };
        let params = RefreshParams { table: params, count, offsets };
        // SAFETY: the column is as long as the kernel takes it to be and stays until it is done, as do the copies. Nobody else writes
        // these slots in the copies: what is published meanwhile is of other slots, and a load begins with nothing noted.
        unsafe { place.launch(&kernels.cache_refresh, count, &params)? };
        place.stream.synchronize()?;
        changed.clear();
        Ok(())
    }
}

impl Cache {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The parameters of a batch, with the cache if it is of use: up to date with what was written before. The caller keeps items
    /// from being moved, and has loaded the levels of the parameters already.
    pub(crate) fn join<P: Persist>(
        &self,
        device: &Device,
        kernels: &Kernels,
        table: &Table<P>,
        params: TableParams,
        operations: usize,
        purpose: For,
    ) -> Result<TableParams, TableError> {
        let mut state = self.state();
        let Some(copies) = state.usable(table) else { return Ok(params) };
        if state.loading && !table.notes.changed().is_empty() {
            // Whoever loads has the turn, so nobody should have written. What is in the image is right.
            return Ok(params);
        }
        match state.refresh(device, kernels, table, params, &copies) {
            // Still noted, so it is done later. Whoever writes cannot go on beside it: what he publishes nobody would note.
            Err(TableError::Device(error)) if error.is_out_of_memory() && purpose == For::Reading => {
                return Ok(params);
            }
            done => done?,
        }
        let buckets_a_key = (table.geometry.levels() * table.geometry.hashes()) as u64;
        state.counted += operations as u64 * buckets_a_key;
        let too_hot = match copies.policy {
            CachePolicy::Random => false,
            CachePolicy::Lru => state.clock >= HOT,
            CachePolicy::Lfu => state.counted >= HOT,
        };
        if too_hot {
            copies.age(kernels, state.workplace(device)?)?;
            state.aged();
        }
        let began = state.clock + 1;
        state.clock = began + operations.div_ceil(32) as u64;
        Ok(params.with(copies.params(began, state.loading)))
    }

    /// Device memory that it takes.
    pub(super) fn bytes(&self) -> u64 {
        self.state().copies.as_ref().map_or(0, |copies| copies.bytes())
    }

    /// How the cache does; all zeros if there is none.
    pub(super) fn stats(&self) -> Result<CacheStats, TableError> {
        let copies = self.state().copies.clone();
        copies.map_or(Ok(CacheStats::default()), |copies| copies.stats())
    }
}

impl State {
    /// Heat was halved, and with it what it is compared to.
    pub(super) fn aged(&mut self) {
        self.clock /= 2;
        self.counted /= 2;
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        if let Some(notes) = self.state().notes.take() {
            notes.watch(false);
        }
    }
}
