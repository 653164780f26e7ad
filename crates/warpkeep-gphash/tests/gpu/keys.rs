//! Keys longer than their hashes: with and without the key column of the device index, no get returns the item of
//! another key.

use std::collections::BTreeSet;
use std::sync::Arc;

use warpkeep_core::Op;
use warpkeep_device::Device;
use warpkeep_gphash::gpu::{DeviceEngine, DeviceImage};
use warpkeep_gphash::{Geometry, Table};
use warpkeep_image::Coherent;

use crate::device_index::{RUN_KEYS, check, indexed, run_over};
use crate::fused::{self, MIXED_KEYS, mixed_over};
use crate::harness::{Harness, Model, Space};
use crate::rig::{Kind, put, remove};
use crate::snapshot::bytes_of;

/// A test for each case, run by a function that brings the device.
macro_rules! keys_cases {
    ($on:path) => {
        all_cases! {
            $on;
            keys:
                tables_of_long_keys_agree_with_a_map, fused_writes_with_a_key_column_agree_with_a_map,
                cpu_writes_of_equal_hashes_reach_the_device, keys_are_compared_in_device_memory,
                deleted_keys_are_known_in_device_memory, a_key_column_that_does_not_fit_is_not_built
        }
    };
}

/// Keys of 16 bytes, pairs of which have equal hashes; of 20, 32 and 40 bytes; in cells of 32 bytes.
const LONG: [Kind; 5] = [Kind::EqualHashes, Kind::LongPacked, Kind::Wide, Kind::LongTiled, Kind::Cells];

fn with_index(device: &Device, space: Space, kind: Kind, capacity: u64, keeps_keys: bool) -> Harness {
    let harness = Harness::new(device, space, kind, Geometry::default(), capacity);
    harness.engine.keep_keys(keeps_keys);
    let report = harness.engine.build_index(&harness.table).unwrap();
    assert_eq!(report.key_bytes > 0, keeps_keys, "{report:?}");
    assert!(report.key_bytes < report.bytes && report.bytes == harness.engine.index_bytes());
    harness
}

/// Two-phase writes, writes by the CPU, and growth.
pub(crate) fn tables_of_long_keys_agree_with_a_map(device: &Device, space: Space) {
    for (seed, kind) in (0..).zip(LONG) {
        for keeps_keys in [true, false] {
            run_over(with_index(device, space, kind, RUN_KEYS / 4, keeps_keys), seed, 12);
        }
    }
}

/// Fused writes, too, in one chunk and in several.
pub(crate) fn fused_writes_with_a_key_column_agree_with_a_map(device: &Device, space: Space) {
    for (seed, kind) in (300..).zip(LONG) {
        for chunk in [None, Some(9)] {
            let harness = with_index(device, space, kind, MIXED_KEYS / 3, true);
            mixed_over(device, harness, seed, 12, chunk);
        }
    }
}

/// One key of a pair with equal hashes is present, or both. The change feed merges two operations of the CPU on them
/// into one change of the index.
pub(crate) fn cpu_writes_of_equal_hashes_reach_the_device(device: &Device, space: Space) {
    // For each pair: which keys are present, and the two operations.
    const PAIRS: u64 = 4 * 4 * 4;
    const KEYS: u64 = 2 * PAIRS;
    for keeps_keys in [true, false] {
        for is_rebuilt in [true, false] {
            let mut harness = with_index(device, space, Kind::EqualHashes, 2 * KEYS, keeps_keys);
            for which in 0..2 {
                let present = (0..PAIRS).filter(|pair| (pair >> which) & 1 == 1).map(|pair| 2 * pair + which);
                assert!(harness.run(&harness.puts(present, 1)).is_empty());
            }
            if is_rebuilt {
                harness.engine.build_index(&harness.table).unwrap();
            }
            check(&harness, KEYS);
            for step in [4, 16] {
                for pair in 0..PAIRS {
                    let (choice, lock) = (pair / step % 4, harness.engine.write_lock());
                    by_cpu(
                        &harness.table,
                        &mut harness.model,
                        Kind::EqualHashes,
                        2 * pair + choice % 2,
                        choice < 2,
                        step,
                    );
                    drop(lock);
                }
            }
            check(&harness, KEYS);
            if !keeps_keys {
                // Without a key column the device writes in two phases only.
                assert!(fused::run(device, &mut harness, Op::Update, &[0, 1], 40).is_none());
                check(&harness, KEYS);
                harness.inspect();
                continue;
            }
            // Fused writes of the same keys.
            let numbers: Vec<u64> = (0..KEYS).collect();
            for (op, mark) in [(Op::Update, 40), (Op::Delete, 50), (Op::Insert, 60), (Op::Put, 70)] {
                for which in 0..2 {
                    let some: Vec<u64> =
                        numbers.iter().copied().filter(|number| number % 2 == which).collect();
                    harness.version = 1000 * mark + which;
                    fused::run(device, &mut harness, op, &some, mark).unwrap();
                    check(&harness, KEYS);
                }
            }
            harness.inspect();
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

/// Destroys every occurrence of these keys in the image.
fn damage(harness: &Harness, keys: u64) {
    let mut missing: BTreeSet<Vec<u8>> = (0..keys).map(|number| harness.kind.key(number)).collect();
    let (all, image) = (missing.clone(), harness.table.heap().image());
    let (bytes, len) = (bytes_of(image), harness.kind.key(0).len());
    for at in (0..bytes.len() - len).step_by(8).filter(|&at| bytes[at] == b'0') {
        if all.contains(&bytes[at..at + len]) {
            missing.remove(&bytes[at..at + len]);
            image.store(at as u64, !0);
        }
    }
    assert!(missing.is_empty(), "not in the image: {missing:?}");
}

/// A get that the key column answers does not read the key in the image: values are found although their keys are
/// destroyed there.
pub(crate) fn keys_are_compared_in_device_memory(device: &Device, space: Space) {
    const KEYS: u64 = 60;
    for kind in [Kind::LongPacked, Kind::Wide, Kind::LongTiled] {
        for is_fused in [false, true] {
            let mut harness = indexed(device, space, kind, KEYS);
            let numbers: Vec<u64> = (0..KEYS).collect();
            if is_fused {
                // Some entries are new, others are reused.
                fused::run(device, &mut harness, Op::Delete, &numbers[..20], 1).unwrap();
                fused::run(device, &mut harness, Op::Put, &numbers, 1).unwrap();
            }
            damage(&harness, KEYS);
            for (ordered_from, small_to) in [(usize::MAX, 0), (0, 0), (usize::MAX, usize::MAX)] {
                harness.engine.adjust(|profile| profile.ordered_from = ordered_from);
                harness.engine.adjust(|profile| profile.located_at_once_to = small_to);
                harness.check_lookups(KEYS + 40);
                harness.check_from_host(KEYS + 40);
            }
            // An update writes whole records, which restores the keys.
            let written = fused::run(device, &mut harness, Op::Update, &numbers, 7).unwrap();
            assert_eq!((written.replaced, written.by_cpu), (KEYS, 0), "{written:?}");
            check(&harness, KEYS + 40);
            harness.inspect();
        }
    }
}

/// The device knows that a key that it has removed is absent, and inserts it again.
pub(crate) fn deleted_keys_are_known_in_device_memory(device: &Device, space: Space) {
    const KEYS: u64 = 90;
    for kind in [Kind::LongPacked, Kind::Wide] {
        let mut harness = indexed(device, space, kind, KEYS);
        for round in 1..4 {
            let numbers: Vec<u64> = (0..KEYS).step_by(round).collect();
            let count = numbers.len() as u64;
            let written = fused::run(device, &mut harness, Op::Delete, &numbers, 0).unwrap();
            assert_eq!((written.removed, written.by_cpu), (count, 0), "{written:?}");
            check(&harness, KEYS + 40);
            // They are absent now, so these operations have no effect.
            for op in [Op::Delete, Op::Update] {
                let written = fused::run(device, &mut harness, op, &numbers, 0).unwrap();
                assert_eq!((written.removed + written.replaced, written.by_cpu), (0, 0), "{written:?}");
            }
            let written = fused::run(device, &mut harness, Op::Insert, &numbers, 100 * round as u64).unwrap();
            assert_eq!((written.created, written.by_cpu), (count, 0), "{written:?}");
            check(&harness, KEYS + 40);
            // The same in two phases.
            let mut rows = harness.puts((0..KEYS).step_by(round), 0);
            rows.iter_mut().for_each(|row| row.op = Op::Delete);
            assert!(harness.run(&rows).is_empty());
            check(&harness, KEYS + 40);
            assert!(harness.run(&harness.puts((0..KEYS).step_by(round), 3)).is_empty());
            check(&harness, KEYS + 40);
        }
        harness.inspect();
    }
}

/// Memory goes to the entries first, then to batches, and to the key column only if it suffices for all.
pub(crate) fn a_key_column_that_does_not_fit_is_not_built(device: &Device, space: Space) {
    let kind = Kind::Wide;
    // A small device index has 65,536 bytes of entries and would have 131,072 of keys.
    for (bytes, entries, keys) in
        [(60_000, false, false), (200_000, true, false), (4 << 20, true, true), (u64::MAX, true, true)]
    {
        let table = Table::create(&space(200), &kind.spec(Geometry::default(), 400)).unwrap();
        let limited = device.with_budget(bytes);
        let image = Arc::new(DeviceImage::new(&limited, table.heap().image()).unwrap());
        let engine = DeviceEngine::new(&image, &table).unwrap();
        let report = engine.build_index(&table).unwrap();
        assert!(limited.allocated() <= bytes);
        assert_eq!((report.bytes > 0, report.key_bytes > 0), (entries, keys), "{bytes}: {report:?}");
        let mut harness = Harness { kind, table, engine, image, model: Default::default(), version: 0 };
        // Memory does not suffice to partition batches.
        harness.engine.adjust(|profile| profile.ordered_from = usize::MAX);
        assert!(harness.run(&harness.puts(0..20, 1)).is_empty());
        harness.check(40);
    }
}
