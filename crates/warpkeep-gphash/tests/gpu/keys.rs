//! Keys that are longer than their hashes: with them beside the mirror's entries, and without, nobody is answered with anything of another key.

use std::collections::BTreeSet;
use std::sync::Arc;

use warpkeep_core::Op;
use warpkeep_device::Device;
use warpkeep_gphash::gpu::{DeviceEngine, DeviceImage};
use warpkeep_gphash::{Geometry, Table};
use warpkeep_image::Coherent;

use crate::bench::{Bench, Model, Space};
use crate::mirror::{RUN_KEYS, check, mirrored, run_over};
use crate::rig::{Kind, put, remove};
use crate::snapshot::bytes_of;
use crate::straight::{self, MIXED_KEYS, mixed_over};

/// A test for each case, with a function that brings the device.
macro_rules! keys_cases {
    ($on:path) => {
        all_cases! {
            $on;
            keys: tables_of_long_keys_do_what_a_map_does, straight_batches_with_keys_in_device_memory_do_what_a_map_does,
                whatever_the_cpu_does_to_twins_is_seen, keys_are_compared_in_device_memory, keys_that_come_back_are_found_in_device_memory,
                keys_that_do_not_fit_are_left_out
        }
    };
}

/// Of 16 bytes, each with another that has its hash; of 20, 32 and 40; in cells of 32.
const LONG: [Kind; 5] = [Kind::Twins, Kind::LongPacked, Kind::Wide, Kind::LongTiled, Kind::Cells];

fn bench(device: &Device, space: Space, kind: Kind, capacity: u64, keeps_keys: bool) -> Bench {
    let bench = Bench::new(device, space, kind, Geometry::default(), capacity);
    bench.engine.keep_keys(keeps_keys);
    let report = bench.engine.load_mirror(&bench.table).unwrap();
    assert_eq!(report.key_bytes > 0, keeps_keys, "{report:?}");
    assert!(report.key_bytes < report.bytes && report.bytes == bench.engine.mirror_bytes());
    bench
}

/// Staged batches, the CPU, and growth.
pub(crate) fn tables_of_long_keys_do_what_a_map_does(device: &Device, space: Space) {
    for (seed, kind) in (0..).zip(LONG) {
        for keeps_keys in [true, false] {
            run_over(bench(device, space, kind, RUN_KEYS / 4, keeps_keys), seed, 12);
        }
    }
}

/// Beside all that, batches written straight through, as a whole and in parts.
pub(crate) fn straight_batches_with_keys_in_device_memory_do_what_a_map_does(device: &Device, space: Space) {
    for (seed, kind) in (300..).zip(LONG) {
        for part in [None, Some(9)] {
            let bench = bench(device, space, kind, MIXED_KEYS / 3, true);
            mixed_over(device, bench, seed, 12, part);
        }
    }
}

/// A key, or the other that has its hash, or both are there; the CPU does two things to them, of which the device is told once.
pub(crate) fn whatever_the_cpu_does_to_twins_is_seen(device: &Device, space: Space) {
    // For each: which are there, and what is done.
    const PAIRS: u64 = 4 * 4 * 4;
    const KEYS: u64 = 2 * PAIRS;
    for keeps_keys in [true, false] {
        for reflected in [true, false] {
            let mut bench = bench(device, space, Kind::Twins, 2 * KEYS, keeps_keys);
            for which in 0..2 {
                let there = (0..PAIRS).filter(|pair| (pair >> which) & 1 == 1).map(|pair| 2 * pair + which);
                assert!(bench.run(&bench.puts(there, 1)).is_empty());
            }
            if reflected {
                bench.engine.load_mirror(&bench.table).unwrap();
            }
            check(&bench, KEYS);
            for step in [4, 16] {
                for pair in 0..PAIRS {
                    let (what, turn) = (pair / step % 4, bench.engine.turn());
                    by_cpu(&bench.table, &mut bench.model, Kind::Twins, 2 * pair + what % 2, what < 2, step);
                    drop(turn);
                }
            }
            check(&bench, KEYS);
            if !keeps_keys {
                // Without them the device writes in two phases only.
                assert!(straight::run(device, &mut bench, Op::Update, &[0, 1], 40).is_none());
                check(&bench, KEYS);
                bench.inspect();
                continue;
            }
            // And what the device does to them afterwards.
            let numbers: Vec<u64> = (0..KEYS).collect();
            for (op, mark) in [(Op::Update, 40), (Op::Delete, 50), (Op::Insert, 60), (Op::Put, 70)] {
                for which in 0..2 {
                    let some: Vec<u64> =
                        numbers.iter().copied().filter(|number| number % 2 == which).collect();
                    bench.version = 1000 * mark + which;
                    straight::run(device, &mut bench, op, &some, mark).unwrap();
                    check(&bench, KEYS);
                }
            }
            bench.inspect();
        }
    }
}

/// Puts a key with the CPU, or removes it.
fn by_cpu(table: &Table<Coherent>, model: &mut Model, kind: Kind, number: u64, puts: bool, version: u64) {
    let key = kind.key(number);
    if puts {
        let (value, version) = (kind.value(number, version), 500 + version);
        put(table, &key, &value, version).unwrap();
        model.insert(number, (version, value));
    } else {
        assert_eq!(remove(table, &key), model.remove(&number).is_some());
    }
}

/// Has none of these keys in the image any more, in whatever record.
fn damage(bench: &Bench, keys: u64) {
    let mut left: BTreeSet<Vec<u8>> = (0..keys).map(|number| bench.kind.key(number)).collect();
    let (all, image) = (left.clone(), bench.table.heap().image());
    let (bytes, len) = (bytes_of(image), bench.kind.key(0).len());
    for at in (0..bytes.len() - len).step_by(8).filter(|&at| bytes[at] == b'0') {
        if all.contains(&bytes[at..at + len]) {
            left.remove(&bytes[at..at + len]);
            image.store(at as u64, !0);
        }
    }
    assert!(left.is_empty(), "these are nowhere: {left:?}");
}

/// What is known in device memory is not looked for in the image: keys can be damaged there, and their values are found.
pub(crate) fn keys_are_compared_in_device_memory(device: &Device, space: Space) {
    const KEYS: u64 = 60;
    for kind in [Kind::LongPacked, Kind::Wide, Kind::LongTiled] {
        for written_straight in [false, true] {
            let mut bench = mirrored(device, space, kind, KEYS);
            let numbers: Vec<u64> = (0..KEYS).collect();
            if written_straight {
                // Some entries are new, others are not.
                straight::run(device, &mut bench, Op::Delete, &numbers[..20], 1).unwrap();
                straight::run(device, &mut bench, Op::Put, &numbers, 1).unwrap();
            }
            damage(&bench, KEYS);
            for (from, few) in [(usize::MAX, 0), (0, 0), (usize::MAX, usize::MAX)] {
                bench.engine.adjust(|profile| profile.ordered_from = from);
                bench.engine.adjust(|profile| profile.located_at_once_to = few);
                bench.check_lookups(KEYS + 40);
                bench.check_hosts(KEYS + 40);
            }
            // Replaced by whole records, they are whole again.
            let wrote = straight::run(device, &mut bench, Op::Update, &numbers, 7).unwrap();
            assert_eq!((wrote.replaced, wrote.by_cpu), (KEYS, 0), "{wrote:?}");
            check(&bench, KEYS + 40);
            bench.inspect();
        }
    }
}

/// Keys that a device has removed are known to be absent, and it makes them anew.
pub(crate) fn keys_that_come_back_are_found_in_device_memory(device: &Device, space: Space) {
    const KEYS: u64 = 90;
    for kind in [Kind::LongPacked, Kind::Wide] {
        let mut bench = mirrored(device, space, kind, KEYS);
        for round in 1..4 {
            let numbers: Vec<u64> = (0..KEYS).step_by(round).collect();
            let count = numbers.len() as u64;
            let wrote = straight::run(device, &mut bench, Op::Delete, &numbers, 0).unwrap();
            assert_eq!((wrote.removed, wrote.by_cpu), (count, 0), "{wrote:?}");
            check(&bench, KEYS + 40);
            // They are not there a second time, and cannot be changed.
            for op in [Op::Delete, Op::Update] {
                let wrote = straight::run(device, &mut bench, op, &numbers, 0).unwrap();
                assert_eq!((wrote.removed + wrote.replaced, wrote.by_cpu), (0, 0), "{wrote:?}");
            }
            let wrote = straight::run(device, &mut bench, Op::Insert, &numbers, 100 * round as u64).unwrap();
            assert_eq!((wrote.created, wrote.by_cpu), (count, 0), "{wrote:?}");
            check(&bench, KEYS + 40);
            // The same by batches that are staged.
            let mut rows = bench.puts((0..KEYS).step_by(round), 0);
            rows.iter_mut().for_each(|row| row.op = Op::Delete);
            assert!(bench.run(&rows).is_empty());
            check(&bench, KEYS + 40);
            assert!(bench.run(&bench.puts((0..KEYS).step_by(round), 3)).is_empty());
            check(&bench, KEYS + 40);
        }
        bench.inspect();
    }
}

/// Entries come first, and then batches; keys only if there is memory for all of it.
pub(crate) fn keys_that_do_not_fit_are_left_out(device: &Device, space: Space) {
    let kind = Kind::Wide;
    // A small mirror has 65,536 bytes of entries, and its keys would have 131,072.
    for (bytes, entries, keys) in
        [(60_000, false, false), (200_000, true, false), (4 << 20, true, true), (u64::MAX, true, true)]
    {
        let table = Table::create(&space(200), &kind.spec(Geometry::default(), 400)).unwrap();
        let limited = device.with_budget(bytes);
        let image = Arc::new(DeviceImage::new(&limited, table.heap().image()).unwrap());
        let engine = DeviceEngine::new(&image, &table).unwrap();
        let report = engine.load_mirror(&table).unwrap();
        assert!(limited.allocated() <= bytes);
        assert_eq!((report.bytes > 0, report.key_bytes > 0), (entries, keys), "{bytes}: {report:?}");
        let mut bench = Bench { kind, table, engine, image, model: Default::default(), version: 0 };
        // There is no memory for putting batches in order.
        bench.engine.adjust(|profile| profile.ordered_from = usize::MAX);
        assert!(bench.run(&bench.puts(0..20, 1)).is_empty());
        bench.check(40);
    }
}
