//! Keys and answers in device memory, values by the cores of the host: answers are those of a map, whoever writes meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};

use warpkeep_device::{Device, DevicePtr};
use warpkeep_gphash::Geometry;
use warpkeep_gphash::gpu::{GetRows, ValueRoom, ValuesBy};

use crate::bench::{Bench, Dice, Space};
use crate::mirror::{KINDS, mirrored, on_the_cpu};
use crate::rig::Kind;

/// A test for each case, with a function that brings the device.
macro_rules! by_host_cases {
    ($on:path) => {
        all_cases! {
            $on;
            by_host: values_that_the_host_fetches_are_those_of_a_map, batches_of_any_size_have_blocks_of_theirs, what_the_host_is_late_with_the_device_fetches,
                keys_that_the_mirror_does_not_tell_are_asked_for, values_by_the_host_beside_writes_are_what_is_there,
                what_is_not_for_the_host_is_left_to_the_device, readings_that_nobody_finishes_harm_nobody
        }
    };
}

/// Has the host fetch values, with few threads: many tests run beside each other.
fn by_host(bench: &Bench) {
    bench.engine.fetch_values_by(ValuesBy::Host);
    bench.engine.gather_with(3);
}

/// Looks numbers up and compares; by the host if it can, which it says it has.
fn check(bench: &Bench, numbers: &[u64], versions: bool, by_host: bool) {
    let keys: Vec<_> = numbers.iter().map(|&number| bench.kind.key(number)).collect();
    let before = bench.engine.fetched_by_host();
    let found = bench.got_on_device(&keys, versions);
    assert_eq!(bench.engine.fetched_by_host() - before, u64::from(by_host), "{:?}", bench.kind);
    for (number, found) in numbers.iter().zip(found) {
        let item = bench.model.get(number);
        let expected = item.map(|(version, value)| (if versions { *version } else { 0 }, value.clone()));
        assert_eq!(found, expected, "{number} of {}, {:?}", numbers.len(), bench.kind);
    }
}

/// A batch that ends anywhere in a warp or a share; with keys that come twice and keys that are not there.
pub(crate) fn values_that_the_host_fetches_are_those_of_a_map(device: &Device, space: Space) {
    const KEYS: u64 = 200;
    for kind in KINDS {
        let bench = mirrored(device, space, kind, KEYS);
        by_host(&bench);
        let mut dice = Dice(5);
        for count in [0, 1, 2, 31, 32, 33, 64, 65, 301] {
            let numbers: Vec<u64> = (0..count).map(|_| dice.below(2 * KEYS)).collect();
            for (versions, streams) in [(true, false), (false, false), (false, true)] {
                bench.engine.stream_values_from(if streams { 0 } else { usize::MAX });
                // Of none there are no rows to fill.
                check(&bench, &numbers, versions, count > 0);
            }
        }
        // All of them are there; and none.
        check(&bench, &(0..KEYS).collect::<Vec<_>>(), false, true);
        check(&bench, &(KEYS..2 * KEYS).collect::<Vec<_>>(), true, true);
    }
}

/// Blocks have more keys, then there are more of them, and then there are more launches, the last of which has few keys.
pub(crate) fn batches_of_any_size_have_blocks_of_theirs(device: &Device, space: Space) {
    const KEYS: u64 = 300;
    for kind in [Kind::Packed, Kind::Tiled] {
        let bench = mirrored(device, space, kind, KEYS);
        by_host(&bench);
        for (count, at_once) in [(5000, 0), (40_001, 0), (5000, 2500), (5001, 2500), (301, 7), (7, 7)] {
            bench.engine.gather_at_once(at_once);
            // Some of them are not there.
            let absent = count / 2..count / 2 + 9;
            let number = |index: u64| if absent.contains(&index) { KEYS + 1 } else { index * 7 % KEYS };
            let numbers: Vec<u64> = (0..count).map(number).collect();
            check(&bench, &numbers, false, true);
            check(&bench, &numbers, true, true);
        }
    }
}

/// One thread alone, of which the simulator leaves none to gather while it runs the kernel, and which a GPU does not wait for.
pub(crate) fn what_the_host_is_late_with_the_device_fetches(device: &Device, space: Space) {
    const KEYS: u64 = 300;
    for kind in KINDS {
        let bench = mirrored(device, space, kind, KEYS);
        by_host(&bench);
        bench.engine.gather_with(1);
        let numbers: Vec<u64> = (0..20_000).map(|index| index * 7 % (KEYS + 40)).collect();
        check(&bench, &numbers, false, true);
        check(&bench, &numbers, true, true);
        // And with others again.
        bench.engine.gather_with(3);
        check(&bench, &numbers, true, true);
    }
}

/// The CPU changes keys and removes them; those that are longer than their hashes are veiled then.
pub(crate) fn keys_that_the_mirror_does_not_tell_are_asked_for(device: &Device, space: Space) {
    const KEYS: u64 = 120;
    for kind in KINDS {
        let mut bench = mirrored(device, space, kind, KEYS);
        by_host(&bench);
        let mut dice = Dice(9);
        for versions in [true, false, true] {
            on_the_cpu(&mut bench, &mut dice, KEYS + 20, 40);
            check(&bench, &(0..KEYS + 30).collect::<Vec<_>>(), versions, true);
        }
    }
}

pub(crate) fn values_by_the_host_beside_writes_are_what_is_there(device: &Device, space: Space) {
    const KEYS: u64 = 400;
    for kind in KINDS {
        let mut bench = Bench::new(device, space, kind, Geometry::default(), 1200);
        assert!(bench.run(&bench.puts(0..KEYS, 0)).is_empty());
        bench.engine.load_mirror(&bench.table).unwrap();
        by_host(&bench);
        let (bench, done) = (&bench, AtomicBool::new(false));
        let read = || bench.read_rows_until(&done, KEYS);
        std::thread::scope(|scope| {
            scope.spawn(read);
            scope.spawn(read);
            bench.write_marks(KEYS, 1..30);
            done.store(true, Ordering::Relaxed);
        });
        assert!(bench.engine.fetched_by_host() > 0);
    }
}

/// Tables that the host cannot do it for, or that a value cache answers, are answered alike.
pub(crate) fn what_is_not_for_the_host_is_left_to_the_device(device: &Device, space: Space) {
    let numbers: Vec<u64> = (0..150).collect();
    for kind in Kind::ALL {
        let mut bench = Bench::new(device, space, kind, Geometry::default(), 200);
        assert!(bench.run(&bench.puts(0..100, 1)).is_empty());
        by_host(&bench);
        // There is no mirror.
        check(&bench, &numbers, true, false);
    }
    let bench = mirrored(device, space, Kind::Packed, 100);
    // Nobody has said so.
    check(&bench, &numbers, true, false);
    by_host(&bench);
    assert!(bench.engine.learn_values(&bench.table).unwrap());
    check(&bench, &numbers, true, false);
    bench.engine.load_values(&bench.table, ValueRoom::Share(1.0)).unwrap();
    check(&bench, &numbers, true, false);
    bench.engine.load_values(&bench.table, ValueRoom::Share(0.0)).unwrap();
    check(&bench, &numbers, true, true);
    bench.engine.drop_mirror(&bench.table);
    check(&bench, &numbers, true, false);
}

/// Some are dropped, and others are finished in another order than they were begun in.
pub(crate) fn readings_that_nobody_finishes_harm_nobody(device: &Device, space: Space) {
    const KEYS: u64 = 90;
    let bench = mirrored(device, space, Kind::Packed, KEYS);
    by_host(&bench);
    let row = bench.table.value_spec().max_len();
    let numbers: Vec<u64> = (0..KEYS).collect();
    let keys: Vec<u8> = numbers.iter().flat_map(|&number| bench.kind.key(number)).collect();
    let (keys, stream) = (device.upload(&keys).unwrap(), device.stream().unwrap());
    let answers: Vec<_> = (0..4)
        .map(|_| {
            let allocate = |bytes: usize| device.allocate_zeroed(bytes).unwrap();
            (allocate(KEYS as usize), allocate(KEYS as usize * row))
        })
        .collect();
    let begin = |(statuses, values): &(warpkeep_device::Buffer, warpkeep_device::Buffer)| {
        let rows = GetRows {
            count: KEYS,
            keys: keys.ptr(),
            statuses: statuses.ptr(),
            versions: DevicePtr::NULL,
            values: values.ptr(),
        };
        // SAFETY: the buffers are as long as the rows say, and stay until all are dropped.
        unsafe { bench.engine.get_rows(&bench.table, &rows, &stream).unwrap() }
    };
    let mut readings: Vec<_> = answers.iter().map(begin).collect();
    drop(readings.remove(1));
    readings.into_iter().rev().for_each(|reading| reading.finish().unwrap());
    for (number, (_, values)) in answers.iter().enumerate().filter(|(number, _)| *number != 1) {
        let values = values.to_vec::<u8>().unwrap();
        for (index, value) in values.chunks_exact(row).enumerate() {
            assert_eq!(value, bench.model[&(index as u64)].1, "key {index} of batch {number}");
        }
    }
    check(&bench, &numbers, true, true);
}
