//! That SlabMap's fault points are needed. Alone in its program: a fault point is left out of the whole process.

#![cfg(not(no_simulator))]

mod slab_multi;
mod slab_table;

use slab_multi::Multi;
use slab_table::{Slabs, device_error};
use warpkeep_containers::{
    ContainerError, SlabAnswer, SlabHashOptions, SlabMap, SlabMultiMap, SlabRequest, SlabSet,
};
use warpkeep_device::sim::Seeded;
use warpkeep_device::{Device, DeviceError, Mode};
use warpkeep_suites::device::{Gate, wrong_schedule};

/// Many insertions into four buckets, whose chains grow all the time; what is wrong after one of many schedules.
fn wrong_chains() -> Option<String> {
    (0..60).find_map(|seed| {
        let run = || -> Result<Option<String>, DeviceError> {
            let mode = Mode::Seeded(Seeded { switch_chance: 400, ..Seeded::new(seed) });
            let options = SlabHashOptions { most_buckets: 4, seed: Some(0), ..SlabHashOptions::default() };
            let mut map: SlabMap = SlabMap::new(&Device::simulated(mode)?, options).map_err(device_error)?;
            let requests: Vec<SlabRequest> = (0..250).map(|key| SlabRequest::Insert(key, key)).collect();
            let answers = map.apply(&requests).map_err(device_error)?;
            let stored = answers.iter().filter(|answer| **answer == SlabAnswer::Inserted).count();
            let listed = map.pairs().map_err(device_error)?.len();
            map.clear().map_err(device_error)?;
            let left = map.stats().map_err(device_error)?.chained_slabs;
            let right = (stored, listed, left) == (250, 250, 0);
            Ok((!right).then(|| format!("{stored} stored, {listed} listed, {left} slabs lost")))
        };
        let wrong = run().unwrap_or_else(|error| Some(error.to_string()))?;
        Some(format!("seed {seed}: {wrong}"))
    })
}

/// Tables that grow, and builds, in memory whose slabs were used before; what is wrong after one of many schedules.
fn wrong_builds() -> Option<String> {
    (0..40).find_map(|seed| {
        let run = || -> Result<Option<String>, ContainerError> {
            let device = Device::simulated(Mode::Seeded(Seeded { switch_chance: 400, ..Seeded::new(seed) }))?;
            let options = SlabHashOptions { most_buckets: 4, seed: Some(0), ..SlabHashOptions::default() };
            let mut set: SlabSet = SlabSet::new(&device, options)?;
            for count in [400, 150] {
                let keys: Vec<u32> = (0..count).map(|key| 1000 * key + count).collect();
                set.build(&keys)?;
                let mut listed = set.keys()?;
                listed.sort_unstable();
                if listed != keys {
                    return Ok(Some(format!("{} of {count} keys listed", listed.len())));
                }
                set.clear()?;
            }
            Ok(None)
        };
        let wrong = run().unwrap_or_else(|error| Some(error.to_string()))?;
        Some(format!("seed {seed}: {wrong}"))
    })
}

#[test]
fn every_fault_point_is_noticed() {
    let schedules = || wrong_schedule::<Slabs<SlabMap, 64, false>>(40);
    let wide = || wrong_schedule::<Slabs<SlabMap<u64, u64>, 128, false>>(40);
    let keys = || wrong_schedule::<Slabs<SlabSet, 64, false>>(40);
    let multi = || wrong_schedule::<Multi<SlabMultiMap, 64>>(40);
    assert_eq!((schedules(), wide(), keys(), multi()), (None, None, None, None));
    assert_eq!((wrong_chains(), wrong_builds()), (None, None));
    Gate::new("SlabMap")
        .with("slab_hash.pair_as_seen", "32-bit pairs", &schedules)
        .with("slab_hash.pair_as_seen", "64-bit pairs", &wide)
        .with("slab_hash.pair_as_seen", "keys", &keys)
        .with("slab_hash.pair_as_seen", "several values", &multi)
        .with("slab_hash.first_empty", "32-bit pairs", &schedules)
        .with("slab_hash.first_empty", "64-bit pairs", &wide)
        .with("slab_hash.first_empty", "keys", &keys)
        .with("slab_hash.first_empty", "several values", &multi)
        .with("slab_hash.slab_before_link", "", &wrong_chains)
        .with("slab_hash.loser_releases", "", &wrong_chains)
        .with("slab_chain.slab_cleared", "", &wrong_builds)
        .run();
}
