//! Many schedules of small batches, in tables so small that everything happens: no place, overflow, growth.

use warpkeep_device::{Device, Mode};
use warpkeep_gphash::Geometry;

use crate::bench::tell;
use crate::oracle::{Load, run};
use crate::rig::{Kind, heap};

const SEEDS: u64 = 1200;

/// Runs the schedules whose seeds leave this rest.
fn schedules(rest: u64, parts: u64) {
    let geometries =
        [(2, 2, 8), (1, 4, 8), (4, 2, 4), (2, 1, 16)].map(|(l, h, s)| Geometry::new(l, h, s).unwrap());
    for seed in (0..SEEDS).filter(|seed| seed % parts == rest) {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let kind = Kind::ALL[(seed / parts % 4) as usize];
        let geometry = geometries[(seed / 16 % 4) as usize];
        let load = Load { seed, keys: 40, capacity: 1, batches: 2, count: 12 };
        run(&device, heap, kind, geometry, load);
    }
    tell(&format!("{} schedules of small batches", SEEDS / parts));
}

#[test]
fn every_schedule_does_what_a_map_does() {
    schedules(0, 2);
}

#[test]
fn every_other_schedule_does_what_a_map_does() {
    schedules(1, 2);
}

#[test]
fn longer_batches_do_in_other_orders_what_a_map_does() {
    for seed in 0..8 {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let load = Load { seed, keys: 200, capacity: 60, batches: 4, count: 40 };
        run(&device, heap, Kind::ALL[seed as usize % 4], Geometry::default(), load);
    }
}

#[test]
fn equal_keys_are_answered_alike_in_every_order() {
    for seed in 0..24 {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        crate::oracle::equal_keys_are_answered_alike(&device, heap);
    }
}

#[test]
fn keys_of_any_length_are_found_in_every_order() {
    for seed in 0..60 {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        crate::variable::run(&device, heap, seed, 40, 2);
    }
}

/// Every access is checked there: rows and keys of a caller's that are not aligned as kernels want them are left to the host.
#[test]
fn shared_gets_are_answered_in_every_order() {
    for seed in 0..4 {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        crate::sharing::shared_gets_of_hot_values_are_answered_alike(&device, heap);
        crate::sharing::shared_gets_are_answered_as_by_a_map(&device, heap);
    }
}
