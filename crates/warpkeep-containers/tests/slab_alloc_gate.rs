//! That SlabAlloc's fault points are needed. Alone in its program: a fault point is left out of the whole process.

#![cfg(not(no_simulator))]

mod slab_pool;

use slab_pool::Pool;
use warpkeep_containers::{SlabAlloc, SlabAllocOptions};
use warpkeep_device::sim::Seeded;
use warpkeep_device::{Device, Mode};
use warpkeep_suites::device::{Gate, wrong_schedule};

/// Threads that claim and release the last units of a block; what is wrong after one of many schedules.
fn wrong_ending() -> Option<String> {
    (0..300).find_map(|seed| {
        let mode = Mode::Seeded(Seeded { switch_chance: 400, ..Seeded::new(seed) });
        let device = Device::simulated(mode).expect("a simulator");
        let options = SlabAllocOptions { initial_units: 1024, most_units: 1024 };
        let units = SlabAlloc::new(&device, 32, options).expect("memory");
        let kept = units.allocate(1024 - 8).expect("a device").len();
        let mistakes = units.self_test(128, 4).expect("a device");
        let contents = units.inspect().expect("a device");
        let wrong = mistakes > 0 || contents.hidden > 0 || contents.taken.len() != kept;
        wrong.then(|| format!("seed {seed}: {mistakes} mistakes, {} units hidden", contents.hidden))
    })
}

#[test]
fn every_fault_point_is_noticed() {
    let schedules = || wrong_schedule::<Pool>(60);
    assert_eq!((schedules(), wrong_ending()), (None, None));
    Gate::new("SlabAlloc")
        .with("slab_alloc.atomic_claim", "", &schedules)
        .with("slab_alloc.summary_opened", "", &schedules)
        .with("slab_alloc.closed_then_read", "", &wrong_ending)
        .run();
}
