//! The copies in device memory, and the parameters by which kernels find them.

use std::sync::Arc;

use warpkeep_device::{Buffer, Device, DeviceError};
use warpkeep_image::Persist;

use super::params::{CacheParams, NOT_CACHED};
use super::{CachePolicy, CacheStats};
use crate::gpu::params::TALLIES;
use crate::{Table, TableError};

/// Device memory of a cache.
pub(super) struct Copies {
    pub(super) policy: CachePolicy,
    /// Of the levels whose buckets these are.
    pub(super) generation: u64,
    pub(super) buckets: usize,
    pub(super) places: usize,
    pub(super) heat: Arc<Buffer>,
    place_of: Buffer,
    copies: Buffer,
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

    /// As many of the places as there is memory for; `None` if there is not even enough for the maps.
    fn fitting(&self, device: &Device) -> Result<Option<Plan>, TableError> {
        let free = device.budget_left().min(device.memory()?.0);
        let maps = if self.counts() { 8 } else { 4 } * self.buckets + 16 * TALLIES;
        // Batches need their columns.
        let left = (free - free / 8).checked_sub(maps as u64);
        let fitting = |left: u64| (left / self.bucket_bytes as u64) as usize;
        Ok(left.map(|left| Plan { places: self.places.min(fitting(left)), ..*self }))
    }
}

impl Copies {
    /// Memory for what is planned, or for as much of it as the budget allows; `None` if that is nothing. Nothing is cached yet. Heat that is
    /// known already is kept.
    pub(super) fn new(
        device: &Device,
        plan: &Plan,
        heat: Option<&Arc<Buffer>>,
    ) -> Result<Option<Copies>, TableError> {
        let Some(mut fitting) = plan.fitting(device)? else { return Ok(None) };
        loop {
            match Copies::of(device, &fitting, heat) {
                // Free memory can be in pieces, and others take from it, too.
                Err(error) if error.is_out_of_memory() && fitting.places > 0 => fitting.places /= 2,
                Err(error) if error.is_out_of_memory() => return Ok(None),
                made => return Ok(Some(made?)),
            }
        }
    }

    fn of(device: &Device, plan: &Plan, heat: Option<&Arc<Buffer>>) -> Result<Copies, DeviceError> {
        let place_of = device.allocate(4 * plan.buckets)?;
        place_of.fill(NOT_CACHED.to_le_bytes()[0])?;
        let heat = match heat {
            Some(heat) => Arc::clone(heat),
            None => Arc::new(device.allocate_zeroed(if plan.counts() { 4 * plan.buckets } else { 0 })?),
        };
        Ok(Copies {
            policy: plan.policy,
            generation: plan.generation,
            buckets: plan.buckets,
            places: plan.places,
            heat,
            place_of,
            copies: device.allocate(plan.bucket_bytes * plan.places)?,
            tallies: device.allocate_zeroed(16 * TALLIES)?,
        })
    }

    pub(super) fn params(&self, clock: u64) -> CacheParams {
        CacheParams {
            places: self.place_of.ptr(),
            copies: self.copies.ptr(),
            heat: self.heat.ptr(),
            tallies: self.tallies.ptr(),
            policy: self.policy as u32,
            clock: clock as u32,
        }
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

/// What changes about a cache.
#[derive(Default)]
pub(super) struct State {
    pub(super) copies: Option<Arc<Copies>>,
    /// Loads so far.
    pub(super) loads: u64,
    /// Warps that have served batches so far: when a batch began.
    clock: u64,
}

impl State {
    /// The copies for a batch, if they are of the table's levels as they are now, with the time at which it begins.
    pub(super) fn begin<P: Persist>(&mut self, table: &Table<P>, keys: u64) -> Option<(Arc<Copies>, u64)> {
        let copies = self.copies.clone().filter(|copies| copies.generation == table.changes.generation())?;
        let began = self.clock + 1;
        self.clock = began + keys.div_ceil(32);
        Some((copies, began))
    }
}
