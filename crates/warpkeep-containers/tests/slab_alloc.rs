//! SlabAlloc on the simulator.

#![cfg(not(no_simulator))]

mod slab_pool;

use std::collections::BTreeSet;

use slab_pool::Pool;
use warpkeep_containers::{SlabAlloc, SlabAllocOptions};
use warpkeep_device::{Device, DeviceError, Mode};
use warpkeep_suites::device::Dice;

warpkeep_suites::simulator_suite!(Pool);

fn device() -> Device {
    Device::simulated(Mode::fast()).unwrap()
}

fn pool(device: &Device, unit_bytes: u32, units: u32) -> SlabAlloc {
    let options = SlabAllocOptions { initial_units: units, most_units: 1 << 20 };
    SlabAlloc::new(device, unit_bytes, options).unwrap()
}

/// Puts elements in another order.
fn shuffle(handles: &mut [u32], seed: u64) {
    let mut dice = Dice::new(seed);
    for at in (1..handles.len()).rev() {
        handles.swap(at, dice.below(at as u64 + 1) as usize);
    }
}

#[test]
fn every_unit_is_handed_out_and_then_none() {
    for (unit_bytes, units) in [(32, 1024), (64, 3000), (128, 40_000), (256, 5000), (512, 2048)] {
        let device = device();
        let units_of = pool(&device, unit_bytes, units);
        let capacity = units.next_multiple_of(1024);
        assert_eq!(units_of.capacity(), u64::from(capacity));
        let handles = units_of.allocate(capacity as usize + 1).unwrap();
        let distinct: BTreeSet<u32> = handles.iter().copied().collect();
        assert_eq!((handles.len(), distinct.len()), (capacity as usize, capacity as usize));
        assert_eq!(distinct.last(), Some(&(capacity - 1)), "every address lies in the pool");
        assert!(units_of.memory().len() as u64 >= u64::from(capacity) * u64::from(unit_bytes));
        assert_eq!(units_of.allocate(33).unwrap(), [], "full is an answer");
        let stats = units_of.stats().unwrap();
        assert_eq!((stats.in_use, stats.failed, stats.refused), (u64::from(capacity), 34, 0));
    }
}

#[test]
fn what_is_freed_in_any_order_is_found_again() {
    let device = device();
    let units = pool(&device, 128, 8192);
    let mut handles = units.allocate(8192).unwrap();
    for seed in 0..6 {
        shuffle(&mut handles, seed);
        let (some, rest) = handles.split_at(1 + 1500 * seed as usize);
        assert_eq!(units.release(some).unwrap(), 0);
        assert_eq!(units.in_use().unwrap(), rest.len() as u64);
        let mut again = units.allocate(some.len() + 1).unwrap();
        let (was, is): (BTreeSet<&u32>, BTreeSet<&u32>) = (some.iter().collect(), again.iter().collect());
        assert_eq!(is, was);
        again.extend(rest);
        handles = again;
    }
}

#[test]
fn a_double_free_is_refused() {
    let units = pool(&device(), 64, 2048);
    let handles = units.allocate(10).unwrap();
    assert_eq!(units.release(&[handles[0], handles[0], 5000, u32::MAX]).unwrap(), 3);
    assert_eq!(units.release(&handles).unwrap(), 1);
    assert_eq!(units.release(&handles).unwrap(), 10);
    let stats = units.stats().unwrap();
    assert_eq!((stats.in_use, stats.refused), (0, 14));
    assert_eq!(units.allocate(2049).unwrap().len(), 2048);
}

#[test]
fn growth_keeps_handles_and_contents() {
    let device = device();
    let mut units = pool(&device, 128, 1024);
    let at = units.memory().ptr();
    let mut all = BTreeSet::new();
    for step in 1_u32..6 {
        let handles = units.allocate(2000 * step as usize).unwrap();
        assert_eq!(units.capacity(), units.in_use().unwrap(), "it was filled");
        for handle in handles {
            assert!(all.insert(handle), "{handle} was handed out twice");
            units.memory().write(128 * handle as usize, &[handle; 32]).unwrap();
        }
        units.grow(1024 + 2000 * step).unwrap();
        assert_eq!(units.inspect().unwrap().hidden, 0);
    }
    assert_eq!(units.memory().ptr(), at);
    for handle in all {
        let mut contents = [0_u32; 32];
        units.memory().read(128 * handle as usize, &mut contents).unwrap();
        assert_eq!(contents, [handle; 32]);
    }
}

#[test]
fn a_full_super_block_has_room_again_after_growth() {
    let device = device();
    let options = SlabAllocOptions { initial_units: 1000 * 1024, most_units: 3 << 20 };
    let mut units = SlabAlloc::new(&device, 32, options).unwrap();
    assert_eq!(units.allocate(1001 * 1024).unwrap().len(), 1000 * 1024);
    units.grow(1030 * 1024).unwrap();
    assert_eq!(units.allocate(31 * 1024).unwrap().len(), 30 * 1024);
    assert_eq!(units.release(&[5, 1029 * 1024]).unwrap(), 0);
    let mut found = units.allocate(3).unwrap();
    found.sort_unstable();
    assert_eq!(found, [5, 1029 * 1024]);
}

#[test]
fn runs_lie_side_by_side() {
    let device = device();
    let units = pool(&device, 512, 2048);
    let single = units.allocate(7).unwrap();
    let mut taken: BTreeSet<u32> = single.iter().copied().collect();
    let mut runs = Vec::new();
    for length in [2, 4, 8, 16, 32] {
        for first in units.allocate_runs(9, length).unwrap() {
            assert_eq!(first % length, 0);
            assert!((first..first + length).all(|unit| taken.insert(unit)), "{first} is taken");
            runs.push((first, length));
        }
    }
    assert_eq!((taken.len(), units.in_use().unwrap()), (7 + 9 * 62, 7 + 9 * 62));
    let rest = units.allocate_runs(64, 32).unwrap();
    assert!(rest.len() < 64);
    assert!(units.allocate_runs(1, 32).unwrap().is_empty(), "there is room, and no run of 32");
    assert_eq!(units.release_runs(&rest, 32).unwrap(), 0);
    // A run of which a unit is free stays.
    let (first, length) = runs[10];
    assert_eq!(units.release(&[first + 1]).unwrap(), 0);
    assert_eq!(units.release_runs(&[first, first + 1], length).unwrap(), 2);
    assert_eq!(units.in_use().unwrap(), 7 + 9 * 62 - 1);
    assert!(units.allocate_runs(1, 3).is_err() && units.release_runs(&[0], 64).is_err());
}

#[test]
fn zeroed_units_are_all_zeros() {
    let device = device();
    let units = pool(&device, 64, 1024);
    let handles = units.allocate(1024).unwrap();
    units.memory().fill(0xee).unwrap();
    units.release(&handles[..100]).unwrap();
    for handle in units.allocate_zeroed(100).unwrap() {
        let mut contents = [1_u64; 8];
        units.memory().read(64 * handle as usize, &mut contents).unwrap();
        assert_eq!(contents, [0; 8]);
    }
}

#[test]
fn trap_claims_of_a_pool_that_is_nearly_full_take_a_few_steps() {
    // One schedule, so that the steps are the same every time.
    let device = Device::simulated(Mode::seeded(3)).unwrap();
    let (threads, rounds, capacity) = (2000, 3, 1_u64 << 16);
    // Steps of a claim, with the release of the unit, and what the threads do with it.
    let steps_at = |share: u64| {
        let units = pool(&device, 32, capacity as u32);
        // The free units are spread over all blocks.
        let mut handles = units.allocate(capacity as usize).unwrap();
        shuffle(&mut handles, share);
        let free = capacity - capacity * share / 1000;
        units.release(&handles[..free as usize]).unwrap();
        assert_eq!(units.self_test(threads, rounds).unwrap(), 0);
        assert_eq!(units.in_use().unwrap(), capacity - free);
        device.last_run().unwrap().steps / (threads as u64 * u64::from(rounds))
    };
    let empty = steps_at(0);
    let nearly_full = [900, 950, 1000].map(steps_at);
    assert!(nearly_full.iter().all(|each| *each < 2 * empty), "{nearly_full:?} steps, {empty} when empty");
    // Three threads want each of the last units, which come back all the time.
    let wanted = steps_at(990);
    assert!(wanted < 10 * empty, "{wanted} steps, {empty} when empty");
}

#[test]
fn threads_that_outnumber_the_units_share_them() {
    for seed in 0..12 {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let units = pool(&device, 32, 1024);
        let kept = units.allocate(1024 - 40).unwrap();
        assert_eq!(units.self_test(150, 4).unwrap(), 0, "seed {seed}");
        let contents = units.inspect().unwrap();
        assert_eq!((contents.taken.len(), contents.hidden), (kept.len(), 0), "seed {seed}");
        assert_eq!(units.in_use().unwrap(), kept.len() as u64);
    }
}

#[test]
fn what_cannot_be_had_is_an_error() {
    let device = device();
    let options = |initial_units, most_units| SlabAllocOptions { initial_units, most_units };
    let error = SlabAlloc::new(&device, 48, options(1, 1)).unwrap_err();
    assert!(error.to_string().contains("ask for units of 32"), "{error}");
    assert!(SlabAlloc::new(&device, 32, options(1, u32::MAX)).is_err());
    let poor = device.with_budget(1 << 20);
    let error = SlabAlloc::new(&poor, 128, options(1 << 20, 1 << 20)).unwrap_err();
    assert!(error.is_out_of_memory(), "{error}");
    assert_eq!(poor.allocated(), 0);
    let mut units = SlabAlloc::new(&poor, 128, options(1024, 1 << 20)).unwrap();
    let handles = units.allocate(1024).unwrap();
    let error = units.grow(1 << 20).unwrap_err();
    assert!(error.is_out_of_memory(), "{error}");
    assert_eq!(
        (units.capacity(), units.in_use().unwrap(), units.allocate(1).unwrap().len()),
        (1024, 1024, 0)
    );
    assert_eq!(units.release(&handles).unwrap(), 0);
    let error = units.grow(1 << 21).unwrap_err();
    assert!(matches!(error, DeviceError::OutOfAddresses { .. }), "{error}");
    units.grow(2048).unwrap();
    assert_eq!(units.allocate(3000).unwrap().len(), 2048);
    // Not even where the last page of the reserved addresses would have room.
    let mut least = SlabAlloc::new(&device, 32, options(1, 1)).unwrap();
    assert!(least.grow(1025).is_err());
    assert_eq!(least.capacity(), 1024);
}

#[test]
fn more_claims_than_a_column_can_have_are_answered_with_what_there_is() {
    let device = device();
    for count in [1 << 61, 1 << 62, usize::MAX] {
        let units = pool(&device, 64, 2048);
        let handles = units.allocate(count).unwrap();
        assert_eq!(handles.iter().collect::<BTreeSet<_>>().len(), 2048);
        let stats = units.stats().unwrap();
        assert_eq!((stats.in_use, stats.failed), (2048, count as u64 - 2048));
        assert_eq!(units.release(&handles).unwrap(), 0);
        assert_eq!(units.allocate_zeroed(count).unwrap().len(), 2048);
        assert_eq!(units.release(&handles).unwrap(), 0);
        let runs = units.allocate_runs(count, 32).unwrap();
        assert_eq!(runs.len(), 64);
        assert_eq!(units.release_runs(&runs, 32).unwrap(), 0);
        // Units that are given back are claimed in the same launch, or stay free.
        let mine = units.allocate(100).unwrap();
        let (claimed, refused) = units.exchange(&mine, count).unwrap();
        assert!((1948..=2048).contains(&claimed.len()) && refused.is_empty(), "{}", claimed.len());
        assert_eq!(units.in_use().unwrap(), claimed.len() as u64);
        assert_eq!(units.stats().unwrap().refused, 0);
    }
    let failed = pool(&device, 64, 1024);
    failed.allocate(usize::MAX).unwrap();
    failed.allocate(usize::MAX).unwrap();
    assert_eq!(failed.stats().unwrap().failed, u64::MAX, "the count ends there");
}

#[test]
fn trap_the_first_claim_costs_no_more_than_the_next() {
    // One schedule; the clock counts the steps of all launches.
    let device = Device::simulated(Mode::seeded(3)).unwrap();
    let now = || device.last_run().map_or(0, |run| run.now);
    let before = now();
    let units = pool(&device, 64, 1 << 14);
    let made = now();
    let steps = [(); 3].map(|()| {
        let before = now();
        assert_eq!(units.allocate(256).unwrap().len(), 256);
        now() - before
    });
    assert_eq!(made, before, "a pool is made without kernels");
    assert!(steps.iter().all(|each| *each < steps[1] * 3 / 2), "{steps:?} steps");
}

#[test]
fn the_whole_range_of_handles_has_addresses() {
    // No memory is taken for what is only reserved: 512 GiB of units of 128 bytes.
    let options = SlabAllocOptions { initial_units: 1, most_units: u32::MAX - 1023 };
    let units = SlabAlloc::new(&device(), 128, options).unwrap();
    assert_eq!(units.most_units(), (1 << 32) - 1024);
    assert_eq!(units.allocate(2000).unwrap().len(), 1024);
}

#[test]
fn handles_can_stay_in_device_memory() {
    let device = device();
    let (units, stream) = (pool(&device, 64, 2048), device.stream().unwrap());
    let mut column = device.allocate(4 * 3000).unwrap();
    // More than there are: the places that got none say so.
    assert_eq!(units.allocate_on(&mut column, 3000, &stream).unwrap(), 2048);
    let handles = column.to_vec::<u32>().unwrap();
    let claimed: BTreeSet<u32> = handles.iter().copied().filter(|handle| *handle != u32::MAX).collect();
    assert_eq!((claimed.len(), claimed.last()), (2048, Some(&2047)));
    assert_eq!(units.allocate_on(&mut column, 0, &stream).unwrap(), 0);
    assert_eq!(units.release_on(&column, 3000, &stream).unwrap(), 3000 - 2048);
    assert_eq!(units.release_on(&column, 10, &stream).unwrap(), 10, "they are free already");
    assert_eq!((units.in_use().unwrap(), units.inspect().unwrap().taken.len()), (0, 0));
    // The same without waiting: both run one after the other in the stream.
    let mut few = device.allocate(4 * 500).unwrap();
    for _ in 0..3 {
        // SAFETY: the column and the pool are not used until the last event.
        let event = unsafe {
            units.enqueue_allocate(&mut few, 500, &stream).unwrap();
            units.enqueue_release(&few, 400, &stream).unwrap()
        };
        event.synchronize().unwrap();
    }
    assert_eq!((units.in_use().unwrap(), units.inspect().unwrap().hidden), (300, 0));
}

#[test]
fn columns_of_another_device_or_too_short_are_refused() {
    let (device, other) = (device(), device());
    let (units, stream) = (pool(&device, 64, 2048), device.stream().unwrap());
    let mut short = device.allocate(4 * 9).unwrap();
    let mut foreign = other.allocate(4 * 10).unwrap();
    let is_short = |error: &DeviceError| matches!(error, DeviceError::OutOfBounds { what: "handles", .. });
    let is_foreign = |error: &DeviceError| matches!(error, DeviceError::OtherDevice { what: "handles", .. });
    assert!(units.allocate_on(&mut short, 10, &stream).is_err_and(|error| is_short(&error)));
    assert!(units.release_on(&short, 10, &stream).is_err_and(|error| is_short(&error)));
    assert!(units.allocate_on(&mut foreign, 10, &stream).is_err_and(|error| is_foreign(&error)));
    assert!(units.release_on(&foreign, 10, &stream).is_err_and(|error| is_foreign(&error)));
    // SAFETY: nothing is enqueued.
    unsafe {
        assert!(units.enqueue_allocate(&mut short, 10, &stream).is_err_and(|error| is_short(&error)));
        assert!(units.enqueue_release(&foreign, 10, &stream).is_err_and(|error| is_foreign(&error)));
    }
    // A stream of the column's device is not one of the pool's.
    let theirs = other.stream().unwrap();
    let error = units.allocate_on(&mut foreign, 10, &theirs).unwrap_err();
    assert!(matches!(error, DeviceError::OtherDevice { .. }), "{error}");
    assert_eq!(units.in_use().unwrap(), 0);
}
