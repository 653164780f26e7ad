//! The device index: gets through it agree with a map after every write, by the device and by the CPU.

use std::sync::Arc;

use warpkeep_core::{MergeRule, Op};
use warpkeep_device::Device;
use warpkeep_gphash::gpu::{DeviceEngine, DeviceImage, ValueRoom};
use warpkeep_gphash::{Geometry, Layout, Table, TableError};
use warpkeep_image::Clear;

use crate::harness::{Dice, Harness, Row, Space, batch_of};
use crate::rig::{Kind, put, remove};

/// A test for each case, run by a function that brings the device.
macro_rules! device_index_cases {
    ($on:path) => {
        all_cases! {
            $on;
            device_index:
                tables_with_a_device_index_agree_with_a_map, the_device_index_returns_nothing_stale,
                the_device_index_answers_duplicate_keys_alike, the_device_index_grows_with_its_table,
                inserts_and_deletes_do_not_grow_the_device_index, the_device_index_follows_moved_records,
                reused_entries_answer_for_their_new_keys_only,
                a_device_index_that_does_not_fit_is_not_built,
                writes_are_refused_while_the_change_feed_cannot_be_applied,
                gets_beside_writes_find_every_key, ordered_gets_of_any_size_agree_with_a_map,
                gets_partition_where_memory_is_too_short_to_scatter, scattered_gets_fall_back_to_the_image
        }
    };
}

/// The kinds of tables that can have a device index.
pub(crate) const KINDS: [Kind; 6] =
    [Kind::Packed, Kind::LongPacked, Kind::Tiled, Kind::LongTiled, Kind::Cells, Kind::TiledCells];

/// `DeviceProfile::ordered_from` to fetch values in the order of the batch, and of their addresses.
const ORDERED_FROM: [usize; 2] = [usize::MAX, 0];

/// Builds the device index, and checks its size.
fn build(harness: &Harness) {
    let report = harness.engine.build_index(&harness.table).unwrap();
    let packed = harness.table.layout() == Layout::Packed;
    let expected = if packed { harness.table.len() } else { 0 };
    assert_eq!((report.items, report.bytes > 0), (expected, packed), "{report:?}");
}

/// A table with these keys, and a device index.
pub(crate) fn indexed(device: &Device, space: Space, kind: Kind, keys: u64) -> Harness {
    let mut harness = Harness::new(device, space, kind, Geometry::default(), 2 * keys);
    assert!(harness.run(&harness.puts(0..keys, 1)).is_empty());
    build(&harness);
    harness
}

pub(crate) fn check(harness: &Harness, keys: u64) {
    // By several kernels, direct, partitioned and scattered; and by the kernel for small batches.
    harness.engine.adjust(|profile| profile.located_at_once_to = 0);
    for (ordered_from, scattered_to) in [(usize::MAX, 0), (0, 0), (0, usize::MAX)] {
        harness.engine.adjust(|profile| profile.ordered_from = ordered_from);
        harness.engine.adjust(|profile| profile.scattered_to = scattered_to);
        harness.check_lookups(keys);
    }
    harness.check_on_device(keys);
    harness.engine.adjust(|profile| profile.ordered_from = usize::MAX);
    harness.engine.adjust(|profile| profile.located_at_once_to = usize::MAX);
    harness.check(keys);
}

/// Writes some keys with the CPU, present and new ones.
pub(crate) fn write_on_the_cpu(harness: &mut Harness, dice: &mut Dice, keys: u64, count: u64) {
    for _ in 0..count {
        let (number, kind) = (dice.below(keys), harness.kind);
        let _write = harness.engine.write_lock();
        if dice.below(3) == 0 {
            let was_present = harness.model.remove(&number).is_some();
            assert_eq!(remove(&harness.table, &kind.key(number)), was_present);
        } else {
            let _relocation = harness.engine.relocation_write();
            harness.version += 1;
            let value = kind.value(number, dice.below(1000));
            put(&harness.table, &kind.key(number), &value, harness.version).unwrap();
            harness.model.insert(number, (harness.version, value));
        }
    }
}

/// Random batches, writes by the CPU, and growth by both.
pub(crate) fn run(device: &Device, space: Space, kind: Kind, geometry: Geometry, seed: u64, batches: usize) {
    run_over(Harness::new(device, space, kind, geometry, RUN_KEYS / 4), seed, batches);
}

/// The keys of [`run`].
pub(crate) const RUN_KEYS: u64 = 300;

/// As [`run`], with an empty table.
pub(crate) fn run_over(mut harness: Harness, seed: u64, batches: usize) {
    const KEYS: u64 = RUN_KEYS;
    let mut dice = Dice::new(seed);
    build(&harness);
    for number in 0..batches {
        harness.batch(&mut dice, KEYS, 40);
        write_on_the_cpu(&mut harness, &mut dice, KEYS, 6);
        match dice.below(5) {
            0 => drop(harness.engine.write_lock().maintain(&harness.table, 8).unwrap()),
            1 => {
                let (_write, _relocation) = (harness.engine.write_lock(), harness.engine.relocation_write());
                harness.table.maintain(8).unwrap();
            }
            2 if number % 3 == 0 => build(&harness),
            3 if number % 5 == 0 => harness.engine.drop_index(&harness.table),
            _ => {}
        }
        check(&harness, KEYS);
    }
    harness.inspect();
    harness.reopened();
}

pub(crate) fn tables_with_a_device_index_agree_with_a_map(device: &Device, space: Space) {
    let geometries = [(2, 2, 8), (1, 4, 8), (4, 2, 4), (2, 1, 16)];
    for (seed, kind) in (0..8).zip(KINDS.into_iter().cycle()) {
        let (l, h, s) = geometries[seed as usize / 2 % geometries.len()];
        run(device, space, kind, Geometry::new(l, h, s).unwrap(), seed, 16);
    }
    run(device, space, Kind::Inline, Geometry::default(), 9, 4);
}

pub(crate) fn the_device_index_returns_nothing_stale(device: &Device, space: Space) {
    for kind in KINDS {
        let mut harness = indexed(device, space, kind, 100);
        check(&harness, 140);
        // Gets see items that the device or the CPU has replaced, inserted or removed.
        assert!(harness.run(&harness.puts(0..40, 2)).is_empty());
        check(&harness, 140);
        assert!(harness.run(&harness.puts(100..120, 3)).is_empty());
        check(&harness, 140);
        let mut rows = harness.puts((0..120).step_by(3), 0);
        rows.iter_mut().for_each(|row| row.op = Op::Delete);
        assert!(harness.run(&rows).is_empty());
        check(&harness, 140);
        write_on_the_cpu(&mut harness, &mut Dice::new(1), 140, 60);
        check(&harness, 140);
        // A dropped stage leaves the index unchanged.
        let mut lock = harness.engine.write_lock();
        drop(lock.stage(&harness.table, &batch_of(&harness.puts(90..140, 8)), 9000).unwrap());
        drop(lock);
        check(&harness, 140);
        harness.inspect();
    }
}

/// One of the duplicate keys fetches the value, and the others copy it.
pub(crate) fn the_device_index_answers_duplicate_keys_alike(device: &Device, space: Space) {
    for kind in KINDS {
        let harness = indexed(device, space, kind, 40);
        let numbers: Vec<u64> = (0..300).map(|index| if index % 3 == 0 { 5 } else { index % 50 }).collect();
        let keys: Vec<_> = numbers.iter().map(|&number| kind.key(number)).collect();
        for from in ORDERED_FROM {
            harness.engine.adjust(|profile| profile.ordered_from = from);
            harness
                .engine
                .get_many(&harness.table, keys.iter().map(Vec::as_slice), |index, found| {
                    let found = found.map(|(version, value)| (version, value.to_vec()));
                    assert_eq!(found.as_ref(), harness.model.get(&numbers[index]), "operation {index}");
                })
                .unwrap();
        }
    }
}

/// Scattered and partitioned gets of few keys, of many, and of enough for several blocks to scan the partition; with
/// duplicate and absent keys; with one key in half of the operations or nearly all, so that buckets overflow and SMs
/// steal; and with cached values.
pub(crate) fn ordered_gets_of_any_size_agree_with_a_map(device: &Device, space: Space) {
    const KEYS: u64 = 3000;
    for kind in [Kind::Tiled, Kind::LongPacked] {
        let harness = indexed(device, space, kind, KEYS);
        harness.engine.adjust(|profile| profile.ordered_from = 0);
        let strategies = [(usize::MAX, 0), (0, u64::MAX), (0, 2000), (0, 0)];
        for (share, (scattered_to, unassigned_from)) in
            [0.0, 0.3].into_iter().flat_map(|share| strategies.map(|strategy| (share, strategy)))
        {
            harness.engine.load_values(&harness.table, ValueRoom::Share(share)).unwrap();
            harness.engine.adjust(|profile| profile.scattered_to = scattered_to);
            harness.engine.adjust(|profile| profile.unassigned_from = unassigned_from);
            // One operation in `period` has another key than the hot one.
            for (period, counts) in [(1, &[0, 1, 33, 1024, 4097, 20_000][..]), (2, &[700]), (90, &[9000])] {
                for &count in counts {
                    let number_of = |index: u64| match index % period {
                        0 => index * index * 7 % (KEYS + 100),
                        _ => 1717,
                    };
                    let numbers: Vec<u64> = (0..count).map(number_of).collect();
                    let keys: Vec<_> = numbers.iter().map(|&number| kind.key(number)).collect();
                    let versions = count % 2 == 0;
                    for (number, found) in numbers.iter().zip(harness.found_on_device(&keys, versions)) {
                        let expected = harness
                            .model
                            .get(number)
                            .map(|(version, value)| (if versions { *version } else { 0 }, value.clone()));
                        assert_eq!(
                            found, expected,
                            "{number} of {count}, one in {period}, scattered to {scattered_to}"
                        );
                    }
                }
            }
        }
    }
}

/// Scattering takes more memory than partitioning. A batch is partitioned where memory suffices for that only.
pub(crate) fn gets_partition_where_memory_is_too_short_to_scatter(device: &Device, space: Space) {
    const KEYS: u64 = 500;
    let kind = Kind::Packed;
    let budgets = (1..50).map(|step| (64 << 10) * step);
    let mut enough = budgets.filter_map(|budget| {
        let limited = device.with_budget(budget);
        let heap = space(200);
        let table = Table::create(&heap, &kind.spec(Geometry::default(), 2 * KEYS)).unwrap();
        let image = Arc::new(DeviceImage::new(&limited, table.heap().image()).unwrap());
        let engine = DeviceEngine::new(&image, &table).unwrap();
        for number in 0..KEYS {
            put(&table, &kind.key(number), &kind.value(number, 1), number).unwrap();
        }
        // Only gets through a device index are partitioned.
        if engine.build_index(&table).unwrap().bytes == 0 {
            return None;
        }
        engine.adjust(|profile| profile.ordered_from = 0);
        let keys: Vec<_> = (0..8192).map(|index| kind.key(index % KEYS)).collect();
        let mut next = 0;
        let result = engine.get_many(&table, keys.iter().map(Vec::as_slice), |index, found| {
            let number = index as u64 % KEYS;
            assert_eq!(found, Some((number, &kind.value(number, 1)[..])), "with {budget}");
            next += 1;
        });
        match result {
            Err(TableError::Device(error)) if error.is_out_of_memory() => return None,
            result => result.unwrap(),
        }
        assert_eq!(next, keys.len());
        Some((budget, limited.allocated()))
    });
    let (_, partitioned) = enough.next().unwrap();
    let (_, scattered) =
        enough.find(|&(_, bytes)| bytes > partitioned).expect("scattering takes more memory");
    assert!(scattered > partitioned + (100 << 10), "{partitioned} and {scattered}");
}

/// Keys that the device index cannot answer are looked up in the image. The fallback list of a large batch does not
/// leak into the small batches after it.
pub(crate) fn scattered_gets_fall_back_to_the_image(device: &Device, space: Space) {
    const KEYS: u64 = 600;
    let kind = Kind::LongPacked;
    let mut harness = indexed(device, space, kind, KEYS);
    for number in (0..KEYS).filter(|number| number % 3 != 0) {
        // A removal by the CPU marks the entry of a long key busy.
        let _write = harness.engine.write_lock();
        assert!(remove(&harness.table, &kind.key(number)));
        harness.model.remove(&number);
    }
    harness.engine.adjust(|profile| profile.ordered_from = 0);
    harness.engine.adjust(|profile| profile.scattered_to = usize::MAX);
    for count in [KEYS, KEYS, 3, 2, 5, 40, 1] {
        harness.check_lookups(count);
        harness.check_on_device(count);
    }
}

pub(crate) fn the_device_index_grows_with_its_table(device: &Device, space: Space) {
    for kind in [Kind::Packed, Kind::Wide] {
        the_device_index_of_a_kind_grows(device, space, kind);
    }
}

fn the_device_index_of_a_kind_grows(device: &Device, space: Space, kind: Kind) {
    // The smallest device index holds three thousand keys.
    const KEYS: u64 = 5000;
    let mut harness = indexed(device, space, kind, 10);
    let before = harness.engine.build_index(&harness.table).unwrap().bytes;
    for first in (0..KEYS).step_by(1000) {
        let rows = harness.puts(first..first + 1000, 2);
        for index in harness.run(&rows) {
            let (_write, _relocation) = (harness.engine.write_lock(), harness.engine.relocation_write());
            let row = &rows[index];
            harness.version += 1;
            put(&harness.table, &row.key, &row.value, harness.version).unwrap();
            harness.model.insert(row.number, (harness.version, row.value.clone()));
        }
        harness.finish_growth(1 << 10);
    }
    check(&harness, KEYS + 100);
    let report = harness.engine.build_index(&harness.table).unwrap();
    assert!(report.bytes > before && (report.key_bytes > 0) == (kind == Kind::Wide), "{report:?}");
    // Puts by the CPU make it grow, too, at the next get.
    for number in KEYS..2 * KEYS {
        let (_write, _relocation) = (harness.engine.write_lock(), harness.engine.relocation_write());
        harness.version += 1;
        let value = harness.kind.value(number, 3);
        put(&harness.table, &harness.kind.key(number), &value, harness.version).unwrap();
        harness.model.insert(number, (harness.version, value));
    }
    check(&harness, 2 * KEYS + 100);
}

/// The size of the index depends on the items present, not on those that were ever present.
pub(crate) fn inserts_and_deletes_do_not_grow_the_device_index(device: &Device, space: Space) {
    for kind in [Kind::Packed, Kind::Wide] {
        let mut harness = indexed(device, space, kind, 500);
        let before = harness.engine.index_bytes();
        // The same keys each round, and other keys each round.
        for stride in [0, 500] {
            for round in 1..12 {
                let mut rows = harness.puts(stride * (round - 1)..stride * (round - 1) + 500, 0);
                rows.iter_mut().for_each(|row| row.op = Op::Delete);
                assert!(harness.run(&rows).is_empty());
                assert!(harness.run(&harness.puts(stride * round..stride * round + 500, round)).is_empty());
            }
            check(&harness, 6100);
            let rest = harness.puts((0..6100).filter(|number| *number >= 500), 0);
            let rest = rest.into_iter().map(|row| Row { op: Op::Delete, ..row }).collect::<Vec<_>>();
            harness.run(&rest);
            harness.run(&harness.puts(0..500, 1));
        }
        assert_eq!(harness.engine.index_bytes(), before, "{kind:?}");
        check(&harness, 600);
        harness.inspect();
    }
}

pub(crate) fn the_device_index_follows_moved_records(device: &Device, space: Space) {
    for kind in KINDS {
        let mut harness = indexed(device, space, kind, 400);
        let mut rows = harness.puts((0..400).filter(|number| number % 8 != 0), 0);
        rows.iter_mut().for_each(|row| row.op = Op::Delete);
        assert!(harness.run(&rows).is_empty());
        let moved = {
            let _write = harness.engine.write_lock();
            harness.table.defragment(&harness.table.heap().begin_clearing(Clear::All)).unwrap()
        };
        assert!(moved > 0);
        check(&harness, 400);
        for _ in 0..8 {
            harness.table.heap().reclaim();
        }
        // Overwrites the blocks that records have left.
        let (heap, image) = (harness.table.heap(), harness.table.heap().image());
        for _ in 0..12 {
            let at = heap.allocate_extent(1).unwrap();
            (at..at + image.chunk_size()).step_by(8).for_each(|word| image.store(word, !0));
        }
        check(&harness, 400);
        assert!(harness.run(&harness.puts(400..700, 3)).is_empty());
        check(&harness, 700);
    }
}

pub(crate) fn reused_entries_answer_for_their_new_keys_only(device: &Device, space: Space) {
    for kind in KINDS {
        let mut harness = indexed(device, space, kind, 60);
        for round in 0..6 {
            let mut rows = harness.puts(60 * round..60 * (round + 1), 0);
            rows.iter_mut().for_each(|row| row.op = Op::Delete);
            assert!(harness.run(&rows).is_empty());
            check(&harness, 500);
            for _ in 0..4 {
                harness.table.heap().reclaim();
            }
            assert!(harness.run(&harness.puts(60 * (round + 1)..60 * (round + 2), round)).is_empty());
            check(&harness, 500);
        }
    }
}

pub(crate) fn a_device_index_that_does_not_fit_is_not_built(device: &Device, space: Space) {
    let kind = Kind::Packed;
    for bytes in [0, 60_000, u64::MAX] {
        let heap = space(200);
        let mut spec = kind.spec(Geometry::default(), 4000);
        spec.merge = MergeRule::AddU64;
        let table = Table::create(&heap, &spec).unwrap();
        let limited = device.with_budget(bytes);
        let image = Arc::new(DeviceImage::new(&limited, table.heap().image()).unwrap());
        let engine = DeviceEngine::new(&image, &table).unwrap();
        let report = engine.build_index(&table).unwrap();
        assert!(limited.allocated() <= bytes);
        assert_eq!(report.bytes > 0, bytes == u64::MAX, "{report:?}");
        if bytes > 0 {
            let mut harness = Harness { kind, table, engine, image, model: Default::default(), version: 0 };
            assert!(harness.run(&harness.puts(0..20, 1)).is_empty());
            check(&harness, 40);
        }
    }
}

/// On a GPU kernels run concurrently; on the simulator one launch runs after the other.
pub(crate) fn gets_beside_writes_find_every_key(device: &Device, space: Space) {
    const KEYS: u64 = 400;
    for kind in KINDS {
        let mut harness = Harness::new(device, space, kind, Geometry::default(), 1200);
        assert!(harness.run(&harness.puts(0..KEYS, 0)).is_empty());
        build(&harness);
        harness.read_beside_writes(KEYS, |_| {});
    }
}

/// Memory is too short to apply the CPU's changes. A write that bypassed the index would leave stale entries in it.
pub(crate) fn writes_are_refused_while_the_change_feed_cannot_be_applied(device: &Device, space: Space) {
    const KEYS: u64 = 3000;
    let limited = device.with_budget(64 << 20);
    let mut harness = indexed(&limited, space, Kind::Packed, KEYS);
    assert!(harness.run(&harness.puts(0..600, 2)).is_empty());
    let hoard = limited.allocate(limited.budget_left() as usize - 8 * 1024).unwrap();
    for number in 0..KEYS {
        let (version, value) = (harness.version + 1, Kind::Packed.value(number, 3));
        harness.version = version;
        let _write = harness.engine.write_lock();
        put(&harness.table, &Kind::Packed.key(number), &value, version).unwrap();
        harness.model.insert(number, (version, value));
    }
    let rows = harness.puts(0..600, 4);
    let batch = batch_of(&rows);
    let first_version = harness.version + 1;
    let mut lock = harness.engine.write_lock();
    let refused = match lock.stage(&harness.table, &batch, first_version) {
        Ok(mut stage) => {
            stage.publish().unwrap();
            false
        }
        Err(TableError::Device(error)) => error.is_out_of_memory(),
        Err(error) => panic!("{error}"),
    };
    drop(lock);
    drop(hoard);
    if !refused {
        for (version, row) in (first_version..).zip(rows) {
            harness.model.insert(row.number, (version, row.value));
        }
    }
    check(&harness, KEYS);
    assert!(refused, "memory sufficed, so the test proves nothing");
}
