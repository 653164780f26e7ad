//! The record of each key in device memory: whatever is written, by whom and when, nobody reads anything else.

use std::sync::Arc;

use warpkeep_core::{MergeRule, Op};
use warpkeep_device::Device;
use warpkeep_gphash::gpu::{DeviceEngine, DeviceImage, ValueRoom};
use warpkeep_gphash::{Geometry, Layout, Table, TableError};
use warpkeep_image::Clear;

use crate::bench::{Bench, Dice, Row, Space, batch_of};
use crate::rig::{Kind, put, remove};

/// A test for each case, with a function that brings the device.
macro_rules! mirror_cases {
    ($on:path) => {
        all_cases! {
            $on;
            mirror: tables_with_a_mirror_do_what_a_map_does, a_mirror_shows_nothing_old, a_mirror_answers_equal_keys_alike,
                a_mirror_grows_with_its_table, keys_that_come_and_go_leave_a_mirror_as_it_is, a_mirror_follows_records_that_move,
                entries_used_again_fool_nobody, a_mirror_that_does_not_fit_is_left_out, nobody_writes_past_a_mirror_that_cannot_be_told,
                gets_beside_writes_find_what_is_there, batches_of_any_size_are_put_in_order,
                where_memory_is_short_nothing_is_dealt, dealt_batches_ask_for_what_they_have_to
        }
    };
}

/// The kinds of which there are mirrors.
pub(crate) const KINDS: [Kind; 6] =
    [Kind::Packed, Kind::LongPacked, Kind::Tiled, Kind::LongTiled, Kind::Cells, Kind::TiledCells];

/// Values are fetched in the order of the batch, or of their addresses.
const ORDERED_FROM: [usize; 2] = [usize::MAX, 0];

/// A mirror that has what the table has.
fn load(bench: &Bench) {
    let report = bench.engine.load_mirror(&bench.table).unwrap();
    let packed = bench.table.layout() == Layout::Packed;
    let expected = if packed { bench.table.len() } else { 0 };
    assert_eq!((report.items, report.bytes > 0), (expected, packed), "{report:?}");
}

/// A table with these keys, and a mirror.
pub(crate) fn mirrored(device: &Device, space: Space, kind: Kind, keys: u64) -> Bench {
    let mut bench = Bench::new(device, space, kind, Geometry::default(), 2 * keys);
    assert!(bench.run(&bench.puts(0..keys, 1)).is_empty());
    load(&bench);
    bench
}

pub(crate) fn check(bench: &Bench, keys: u64) {
    // By a few kernels, in the order of the batch and of the addresses; and by one.
    bench.engine.adjust(|profile| profile.located_at_once_to = 0);
    // In the order of addresses by one block, and by as many as it takes.
    for (from, at_once) in [(usize::MAX, 0), (0, 0), (0, usize::MAX)] {
        bench.engine.adjust(|profile| profile.ordered_from = from);
        bench.engine.adjust(|profile| profile.scattered_to = at_once);
        bench.check_lookups(keys);
    }
    bench.check_on_device(keys);
    bench.engine.adjust(|profile| profile.ordered_from = usize::MAX);
    bench.engine.adjust(|profile| profile.located_at_once_to = usize::MAX);
    bench.check(keys);
}

/// Writes some keys with the CPU, new ones too.
pub(crate) fn on_the_cpu(bench: &mut Bench, dice: &mut Dice, keys: u64, count: u64) {
    for _ in 0..count {
        let (number, kind) = (dice.below(keys), bench.kind);
        let _turn = bench.engine.turn();
        if dice.below(3) == 0 {
            let was_there = bench.model.remove(&number).is_some();
            assert_eq!(remove(&bench.table, &kind.key(number)), was_there);
        } else {
            let _moving = bench.engine.moving();
            bench.version += 1;
            let value = kind.value(number, dice.below(1000));
            put(&bench.table, &kind.key(number), &value, bench.version).unwrap();
            bench.model.insert(number, (bench.version, value));
        }
    }
}

/// Random batches, writes by the CPU, and growth, by both.
pub(crate) fn run(device: &Device, space: Space, kind: Kind, geometry: Geometry, seed: u64, batches: usize) {
    run_over(Bench::new(device, space, kind, geometry, RUN_KEYS / 4), seed, batches);
}

/// Keys of such batches.
pub(crate) const RUN_KEYS: u64 = 300;

/// The same, with an empty table.
pub(crate) fn run_over(mut bench: Bench, seed: u64, batches: usize) {
    const KEYS: u64 = RUN_KEYS;
    let mut dice = Dice(seed);
    load(&bench);
    for number in 0..batches {
        bench.batch(&mut dice, KEYS, 40);
        on_the_cpu(&mut bench, &mut dice, KEYS, 6);
        match dice.below(5) {
            0 => drop(bench.engine.turn().maintain(&bench.table, 8).unwrap()),
            1 => {
                let (_turn, _moving) = (bench.engine.turn(), bench.engine.moving());
                bench.table.maintain(8).unwrap();
            }
            2 if number % 3 == 0 => load(&bench),
            3 if number % 5 == 0 => bench.engine.drop_mirror(&bench.table),
            _ => {}
        }
        check(&bench, KEYS);
    }
    bench.inspect();
    bench.reopened();
}

pub(crate) fn tables_with_a_mirror_do_what_a_map_does(device: &Device, space: Space) {
    let geometries = [(2, 2, 8), (1, 4, 8), (4, 2, 4), (2, 1, 16)];
    for (seed, kind) in (0..8).zip(KINDS.into_iter().cycle()) {
        let (l, h, s) = geometries[seed as usize / 2 % geometries.len()];
        run(device, space, kind, Geometry::new(l, h, s).unwrap(), seed, 16);
    }
    run(device, space, Kind::Inline, Geometry::default(), 9, 4);
}

pub(crate) fn a_mirror_shows_nothing_old(device: &Device, space: Space) {
    for kind in KINDS {
        let mut bench = mirrored(device, space, kind, 100);
        check(&bench, 140);
        // Replaced, new, and removed, by the device and by the CPU: each is seen at once.
        assert!(bench.run(&bench.puts(0..40, 2)).is_empty());
        check(&bench, 140);
        assert!(bench.run(&bench.puts(100..120, 3)).is_empty());
        check(&bench, 140);
        let mut rows = bench.puts((0..120).step_by(3), 0);
        rows.iter_mut().for_each(|row| row.op = Op::Delete);
        assert!(bench.run(&rows).is_empty());
        check(&bench, 140);
        on_the_cpu(&mut bench, &mut Dice(1), 140, 60);
        check(&bench, 140);
        // A stage that is dropped shows nothing.
        let mut turn = bench.engine.turn();
        drop(turn.stage(&bench.table, &batch_of(&bench.puts(90..140, 8)), 9000).unwrap());
        drop(turn);
        check(&bench, 140);
        bench.inspect();
    }
}

/// Of equal keys one fetches the value, and the others copy it.
pub(crate) fn a_mirror_answers_equal_keys_alike(device: &Device, space: Space) {
    for kind in KINDS {
        let bench = mirrored(device, space, kind, 40);
        let numbers: Vec<u64> = (0..300).map(|index| if index % 3 == 0 { 5 } else { index % 50 }).collect();
        let keys: Vec<_> = numbers.iter().map(|&number| kind.key(number)).collect();
        for from in ORDERED_FROM {
            bench.engine.adjust(|profile| profile.ordered_from = from);
            bench
                .engine
                .get_many(&bench.table, keys.iter().map(Vec::as_slice), |index, found| {
                    let found = found.map(|(version, value)| (version, value.to_vec()));
                    assert_eq!(found.as_ref(), bench.model.get(&numbers[index]), "operation {index}");
                })
                .unwrap();
        }
    }
}

/// Dealt and put in order: few keys, many, and so many that several blocks line regions up. Some keys twice and some absent, half of them the same, or
/// nearly all, so that hands are full and homes need help; and some whose values are in device memory.
pub(crate) fn batches_of_any_size_are_put_in_order(device: &Device, space: Space) {
    const KEYS: u64 = 3000;
    for kind in [Kind::Tiled, Kind::LongPacked] {
        let bench = mirrored(device, space, kind, KEYS);
        bench.engine.adjust(|profile| profile.ordered_from = 0);
        let ways = [(usize::MAX, 0), (0, u64::MAX), (0, 2000), (0, 0)];
        for (share, (deal_to, everywhere_from)) in
            [0.0, 0.3].into_iter().flat_map(|share| ways.map(|way| (share, way)))
        {
            bench.engine.load_values(&bench.table, ValueRoom::Share(share)).unwrap();
            bench.engine.adjust(|profile| profile.scattered_to = deal_to);
            bench.engine.adjust(|profile| profile.unassigned_from = everywhere_from);
            // One in so many has a key that others do not have.
            for (other_in, counts) in [(1, &[0, 1, 33, 1024, 4097, 20_000][..]), (2, &[700]), (90, &[9000])] {
                for &count in counts {
                    let number_of = |index: u64| match index % other_in {
                        0 => index * index * 7 % (KEYS + 100),
                        _ => 1717,
                    };
                    let numbers: Vec<u64> = (0..count).map(number_of).collect();
                    let keys: Vec<_> = numbers.iter().map(|&number| kind.key(number)).collect();
                    let versions = count % 2 == 0;
                    for (number, found) in numbers.iter().zip(bench.got_on_device(&keys, versions)) {
                        let expected = bench
                            .model
                            .get(number)
                            .map(|(version, value)| (if versions { *version } else { 0 }, value.clone()));
                        assert_eq!(
                            found, expected,
                            "{number} of {count}, one in {other_in}, dealt to {deal_to}"
                        );
                    }
                }
            }
        }
    }
}

/// Hands take more memory than order does: where there is only enough for that, batches are put in order.
pub(crate) fn where_memory_is_short_nothing_is_dealt(device: &Device, space: Space) {
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
        // Without a mirror there is no order.
        if engine.load_mirror(&table).unwrap().bytes == 0 {
            return None;
        }
        engine.adjust(|profile| profile.ordered_from = 0);
        let keys: Vec<_> = (0..8192).map(|index| kind.key(index % KEYS)).collect();
        let mut next = 0;
        let looked = engine.get_many(&table, keys.iter().map(Vec::as_slice), |index, found| {
            let number = index as u64 % KEYS;
            assert_eq!(found, Some((number, &kind.value(number, 1)[..])), "with {budget}");
            next += 1;
        });
        match looked {
            Err(TableError::Device(error)) if error.is_out_of_memory() => return None,
            looked => looked.unwrap(),
        }
        assert_eq!(next, keys.len());
        Some((budget, limited.allocated()))
    });
    let (_, taken) = enough.next().unwrap();
    let (_, dealt) = enough.find(|&(_, its)| its > taken).expect("hands take more");
    assert!(dealt > taken + (100 << 10), "{taken} and {dealt}");
}

/// What the mirror cannot tell is asked for, batch after batch: large ones leave nothing behind for small ones.
pub(crate) fn dealt_batches_ask_for_what_they_have_to(device: &Device, space: Space) {
    const KEYS: u64 = 600;
    let kind = Kind::LongPacked;
    let mut bench = mirrored(device, space, kind, KEYS);
    for number in (0..KEYS).filter(|number| number % 3 != 0) {
        // Keys that are longer than their hashes are veiled when the CPU removes them.
        let _turn = bench.engine.turn();
        assert!(remove(&bench.table, &kind.key(number)));
        bench.model.remove(&number);
    }
    bench.engine.adjust(|profile| profile.ordered_from = 0);
    bench.engine.adjust(|profile| profile.scattered_to = usize::MAX);
    for count in [KEYS, KEYS, 3, 2, 5, 40, 1] {
        bench.check_lookups(count);
        bench.check_on_device(count);
    }
}

pub(crate) fn a_mirror_grows_with_its_table(device: &Device, space: Space) {
    for kind in [Kind::Packed, Kind::Wide] {
        a_mirror_of_a_kind_grows(device, space, kind);
    }
}

fn a_mirror_of_a_kind_grows(device: &Device, space: Space, kind: Kind) {
    // A mirror has room for three thousand from the first.
    const KEYS: u64 = 5000;
    let mut bench = mirrored(device, space, kind, 10);
    let before = bench.engine.load_mirror(&bench.table).unwrap().bytes;
    for first in (0..KEYS).step_by(1000) {
        let rows = bench.puts(first..first + 1000, 2);
        for index in bench.run(&rows) {
            let (_turn, _moving) = (bench.engine.turn(), bench.engine.moving());
            let row = &rows[index];
            bench.version += 1;
            put(&bench.table, &row.key, &row.value, bench.version).unwrap();
            bench.model.insert(row.number, (bench.version, row.value.clone()));
        }
        bench.settle(1 << 10);
    }
    check(&bench, KEYS + 100);
    let report = bench.engine.load_mirror(&bench.table).unwrap();
    assert!(report.bytes > before && (report.key_bytes > 0) == (kind == Kind::Wide), "{report:?}");
    // The CPU alone makes it grow, too: whoever reads sees to it.
    for number in KEYS..2 * KEYS {
        let (_turn, _moving) = (bench.engine.turn(), bench.engine.moving());
        bench.version += 1;
        let value = bench.kind.value(number, 3);
        put(&bench.table, &bench.kind.key(number), &value, bench.version).unwrap();
        bench.model.insert(number, (bench.version, value));
    }
    check(&bench, 2 * KEYS + 100);
}

/// A table that never has many items needs no larger mirror, however many were there.
pub(crate) fn keys_that_come_and_go_leave_a_mirror_as_it_is(device: &Device, space: Space) {
    for kind in [Kind::Packed, Kind::Wide] {
        let mut bench = mirrored(device, space, kind, 500);
        let before = bench.engine.mirror_bytes();
        // The same keys, and always others.
        for others in [0, 500] {
            for round in 1..12 {
                let mut rows = bench.puts(others * (round - 1)..others * (round - 1) + 500, 0);
                rows.iter_mut().for_each(|row| row.op = Op::Delete);
                assert!(bench.run(&rows).is_empty());
                assert!(bench.run(&bench.puts(others * round..others * round + 500, round)).is_empty());
            }
            check(&bench, 6100);
            let rest = bench.puts((0..6100).filter(|number| *number >= 500), 0);
            let rest = rest.into_iter().map(|row| Row { op: Op::Delete, ..row }).collect::<Vec<_>>();
            bench.run(&rest);
            bench.run(&bench.puts(0..500, 1));
        }
        assert_eq!(bench.engine.mirror_bytes(), before, "{kind:?}");
        check(&bench, 600);
        bench.inspect();
    }
}

pub(crate) fn a_mirror_follows_records_that_move(device: &Device, space: Space) {
    for kind in KINDS {
        let mut bench = mirrored(device, space, kind, 400);
        let mut rows = bench.puts((0..400).filter(|number| number % 8 != 0), 0);
        rows.iter_mut().for_each(|row| row.op = Op::Delete);
        assert!(bench.run(&rows).is_empty());
        let moved = {
            let _turn = bench.engine.turn();
            bench.table.defragment(&bench.table.heap().begin_clearing(Clear::All)).unwrap()
        };
        assert!(moved > 0);
        check(&bench, 400);
        for _ in 0..8 {
            bench.table.heap().reclaim();
        }
        // Where records were there is something else now.
        let (heap, image) = (bench.table.heap(), bench.table.heap().image());
        for _ in 0..12 {
            let at = heap.allocate_extent(1).unwrap();
            (at..at + image.chunk_size()).step_by(8).for_each(|word| image.store(word, !0));
        }
        check(&bench, 400);
        assert!(bench.run(&bench.puts(400..700, 3)).is_empty());
        check(&bench, 700);
    }
}

pub(crate) fn entries_used_again_fool_nobody(device: &Device, space: Space) {
    for kind in KINDS {
        let mut bench = mirrored(device, space, kind, 60);
        for round in 0..6 {
            let mut rows = bench.puts(60 * round..60 * (round + 1), 0);
            rows.iter_mut().for_each(|row| row.op = Op::Delete);
            assert!(bench.run(&rows).is_empty());
            check(&bench, 500);
            for _ in 0..4 {
                bench.table.heap().reclaim();
            }
            assert!(bench.run(&bench.puts(60 * (round + 1)..60 * (round + 2), round)).is_empty());
            check(&bench, 500);
        }
    }
}

pub(crate) fn a_mirror_that_does_not_fit_is_left_out(device: &Device, space: Space) {
    let kind = Kind::Packed;
    for bytes in [0, 60_000, u64::MAX] {
        let heap = space(200);
        let mut spec = kind.spec(Geometry::default(), 4000);
        spec.merge = MergeRule::AddU64;
        let table = Table::create(&heap, &spec).unwrap();
        let limited = device.with_budget(bytes);
        let image = Arc::new(DeviceImage::new(&limited, table.heap().image()).unwrap());
        let engine = DeviceEngine::new(&image, &table).unwrap();
        let report = engine.load_mirror(&table).unwrap();
        assert!(limited.allocated() <= bytes);
        assert_eq!(report.bytes > 0, bytes == u64::MAX, "{report:?}");
        if bytes > 0 {
            let mut bench = Bench { kind, table, engine, image, model: Default::default(), version: 0 };
            assert!(bench.run(&bench.puts(0..20, 1)).is_empty());
            check(&bench, 40);
        }
    }
}

/// On a GPU all of it happens at once; on the simulator one launch after the other.
pub(crate) fn gets_beside_writes_find_what_is_there(device: &Device, space: Space) {
    const KEYS: u64 = 400;
    for kind in KINDS {
        let mut bench = Bench::new(device, space, kind, Geometry::default(), 1200);
        assert!(bench.run(&bench.puts(0..KEYS, 0)).is_empty());
        load(&bench);
        bench.read_beside_writes(KEYS, |_| {});
    }
}

/// What the CPU has written cannot be told, for want of memory: a device that wrote without the mirror would leave it with old records.
pub(crate) fn nobody_writes_past_a_mirror_that_cannot_be_told(device: &Device, space: Space) {
    const KEYS: u64 = 3000;
    let limited = device.with_budget(64 << 20);
    let mut bench = mirrored(&limited, space, Kind::Packed, KEYS);
    assert!(bench.run(&bench.puts(0..600, 2)).is_empty());
    let left = limited.budget_left();
    let taken = limited.allocate(left as usize - 8 * 1024).unwrap();
    for number in 0..KEYS {
        let (version, value) = (bench.version + 1, Kind::Packed.value(number, 3));
        bench.version = version;
        let _turn = bench.engine.turn();
        put(&bench.table, &Kind::Packed.key(number), &value, version).unwrap();
        bench.model.insert(number, (version, value));
    }
    let rows = bench.puts(0..600, 4);
    let batch = batch_of(&rows);
    let first_version = bench.version + 1;
    let mut turn = bench.engine.turn();
    let refused = match turn.stage(&bench.table, &batch, first_version) {
        Ok(mut stage) => {
            stage.publish().unwrap();
            false
        }
        Err(TableError::Device(error)) => error.is_out_of_memory(),
        Err(error) => panic!("{error}"),
    };
    drop(turn);
    drop(taken);
    if !refused {
        for (version, row) in (first_version..).zip(rows) {
            bench.model.insert(row.number, (version, row.value));
        }
    }
    check(&bench, KEYS);
    assert!(refused, "there was memory for it: the test shows nothing");
}
