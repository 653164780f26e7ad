//! The indexes.

use std::sync::Arc;

use warpkeep_core::{KeySpec, MergeRule, Seed, ValueSpec, unmix64};
use warpkeep_gphash::{Geometry, Layout};
use warpkeep_image::{Heap, Persist};
use warpkeep_suites::Subject;

const SEED: Seed = Seed(77);

/// GPHash tables of the default geometry, by layout.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GpHash {
    Packed,
    InPlace,
}

impl Subject for GpHash {
    type Table<P: Persist> = warpkeep_gphash::Table<P>;

    fn create<P: Persist>(
        self,
        heap: &Arc<Heap<P>>,
        (key, value): (KeySpec, ValueSpec),
        capacity: u64,
    ) -> Result<Self::Table<P>, warpkeep_gphash::TableError> {
        let layout = match self {
            GpHash::Packed => Layout::Packed,
            GpHash::InPlace => Layout::InPlace,
        };
        let (geometry, merge, seed) = (Geometry::default(), MergeRule::None, SEED);
        let spec = warpkeep_gphash::TableSpec { key, value, geometry, capacity, layout, merge, seed };
        warpkeep_gphash::Table::create(heap, &spec)
    }

    fn takes(self, (key, _): (KeySpec, ValueSpec)) -> bool {
        matches!(self, GpHash::Packed) || key.fixed_len().is_some()
    }

    fn in_slots(self, (_, value): (KeySpec, ValueSpec)) -> bool {
        matches!(self, GpHash::InPlace) && value.fixed_len().is_some_and(|len| len <= 8)
    }

    /// Keys whose fingerprints coincide with slot states.
    fn special_keys(self) -> &'static [u64] {
        const { &[unmix64(SEED, 0), unmix64(SEED, u64::MAX << 45)] }
    }

    /// Header and levels; buckets take whole chunks.
    fn own_blocks(self) -> u64 {
        2
    }

    fn slots<P: Persist>(table: &Self::Table<P>) -> u64 {
        table.spec().capacity
    }
}

/// TurboHash tables with a given number of shards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurboHash {
    pub(crate) shards: u32,
}

impl Subject for TurboHash {
    type Table<P: Persist> = warpkeep_turbohash::Table<P>;

    fn create<P: Persist>(
        self,
        heap: &Arc<Heap<P>>,
        (key, value): (KeySpec, ValueSpec),
        capacity: u64,
    ) -> Result<Self::Table<P>, warpkeep_turbohash::TableError> {
        let TurboHash { shards } = self;
        let spec = warpkeep_turbohash::TableSpec {
            key,
            value,
            capacity,
            shards,
            merge: MergeRule::None,
            seed: SEED,
        };
        warpkeep_turbohash::Table::create(heap, &spec)
    }

    fn in_slots(self, (key, value): (KeySpec, ValueSpec)) -> bool {
        key.fixed_len() == Some(8) && value.fixed_len().is_some_and(|len| len <= 8)
    }

    /// Header and directory, and the shards while they are small.
    fn own_blocks(self) -> u64 {
        2 + u64::from(self.shards)
    }

    fn slots<P: Persist>(table: &Self::Table<P>) -> u64 {
        table.slots()
    }
}
