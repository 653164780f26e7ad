//! Many schedules of small batches, in tables small enough to run out of slots, overflow and grow.

use warpkeep_device::{Device, Mode};
use warpkeep_gphash::Geometry;
use warpkeep_gphash::gpu::PublishBy;
use warpkeep_suites::device::report;

use crate::device_index::{self, RUN_KEYS};
use crate::fused::{self, MIXED_KEYS};
use crate::harness::Harness;
use crate::oracle::{Load, run};
use crate::rig::{Kind, heap};
use crate::value_cache;

const SEEDS: u64 = 1200;

/// Runs the schedules whose seeds are `rest` modulo `groups`.
fn schedules(rest: u64, groups: u64) {
    let geometries =
        [(2, 2, 8), (1, 4, 8), (4, 2, 4), (2, 1, 16)].map(|(l, h, s)| Geometry::new(l, h, s).unwrap());
    for seed in (0..SEEDS).filter(|seed| seed % groups == rest) {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let kind = Kind::ALL[(seed / groups % 4) as usize];
        let geometry = geometries[(seed / 16 % 4) as usize];
        let load = Load { seed, keys: 40, capacity: 1, batches: 2, count: 12 };
        run(&device, heap, kind, geometry, load);
    }
    report(&format!("{} schedules of small batches", SEEDS / groups));
}

#[test]
fn every_even_schedule_agrees_with_a_map() {
    schedules(0, 2);
}

#[test]
fn every_odd_schedule_agrees_with_a_map() {
    schedules(1, 2);
}

#[test]
fn longer_batches_agree_with_a_map_in_every_schedule() {
    for seed in 0..8 {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let load = Load { seed, keys: 200, capacity: 60, batches: 4, count: 40 };
        run(&device, heap, Kind::ALL[seed as usize % 4], Geometry::default(), load);
    }
}

#[test]
fn duplicate_keys_get_equal_answers_in_every_schedule() {
    for seed in 0..24 {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        crate::oracle::duplicate_keys_get_equal_answers(&device, heap);
    }
}

#[test]
fn keys_of_any_length_are_found_in_every_schedule() {
    for seed in 0..60 {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        crate::variable::run(&device, heap, seed, 40, 2, false);
    }
}

/// The seeded simulator checks every access: the host takes columns whose alignment kernels cannot use.
#[test]
fn split_gets_agree_with_a_map_in_every_schedule() {
    for seed in 0..4 {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        crate::host_split::split_gets_of_cached_values_agree_with_a_map(&device, heap);
        crate::host_split::split_gets_agree_with_a_map(&device, heap);
    }
}

#[test]
fn every_schedule_with_a_device_index_agrees_with_a_map() {
    const SEEDS: u64 = 60;
    for seed in 0..SEEDS {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let kind =
            [Kind::Packed, Kind::LongPacked, Kind::Tiled, Kind::LongTiled, Kind::EqualHashes, Kind::Cells]
                [seed as usize % 6];
        let harness = Harness::new(&device, heap, kind, Geometry::default(), RUN_KEYS / 4);
        harness.engine.keep_keys(seed / 5 % 2 == 0);
        device_index::run_over(harness, seed, 2);
    }
    report(&format!("{SEEDS} schedules with a device index"));
}

#[test]
fn every_schedule_of_fused_writes_agrees_with_a_map() {
    const SEEDS: u64 = 30;
    for seed in 0..SEEDS {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let kind =
            [Kind::Packed, Kind::LongPacked, Kind::Tiled, Kind::EqualHashes, Kind::OddTiled, Kind::Cells]
                [seed as usize / 3 % 6];
        let chunk = [None, Some(4), Some(20)][seed as usize % 3];
        let publish_by = [PublishBy::Device, PublishBy::Host(2)][seed as usize % 2];
        let harness = Harness::new(&device, heap, kind, Geometry::default(), MIXED_KEYS / 3);
        harness.engine.build_index(&harness.table).unwrap();
        harness.engine.adjust(|profile| profile.publish_by = publish_by);
        fused::mixed_over(&device, harness, seed, 3, chunk);
    }
    report(&format!("{SEEDS} schedules of fused writes"));
}

#[test]
fn every_schedule_with_a_value_cache_agrees_with_a_map() {
    const SEEDS: u64 = 30;
    for seed in 0..SEEDS {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let kind = [Kind::Packed, Kind::LongPacked][seed as usize % 2];
        value_cache::run(&device, heap, kind, Geometry::default(), seed, 2);
    }
    report(&format!("{SEEDS} schedules with a value cache"));
}
