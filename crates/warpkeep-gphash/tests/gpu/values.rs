//! Values in device memory: whatever is written, by whom and when, nobody reads anything else; and what is hot is there.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpkeep_core::{MergeRule, Op};
use warpkeep_device::Device;
use warpkeep_gphash::gpu::{DeviceEngine, DeviceImage, ValueRoom};
use warpkeep_gphash::{Geometry, Table};

use crate::bench::{Bench, Dice, Space, batch_of};
use crate::mirror::{KINDS, check, mirrored, on_the_cpu};
use crate::rig::{Kind, put};
use crate::straight;

/// A test for each case, with a function that brings the device.
macro_rules! values_cases {
    ($on:path) => {
        all_cases! {
            $on;
            values: tables_with_a_value_cache_do_what_a_map_does, hot_keys_have_rows, rows_show_nothing_old,
                rows_stay_when_a_mirror_grows, values_that_change_keep_rows, rows_that_do_not_fit_are_left_out,
                other_rooms_are_other_rows, gets_beside_writes_find_what_is_in_rows, gathers_beside_loads_find_what_is_there, without_a_mirror_there_are_no_rows
        }
    };
}

/// Looks keys up without checking anything: so they are asked for.
fn ask(bench: &Bench, keys: impl Iterator<Item = u64>) {
    let keys: Vec<_> = keys.map(|number| bench.kind.key(number)).collect();
    bench.engine.get_many(&bench.table, keys.iter().map(Vec::as_slice), |_, _| {}).unwrap();
}

/// Gets, and those answered from rows, while something is done.
fn hits(bench: &Bench, work: impl FnOnce()) -> (u64, u64) {
    let before = bench.engine.values_stats().unwrap();
    work();
    let after = bench.engine.values_stats().unwrap();
    (after.gets - before.gets, after.hits - before.hits)
}

/// A table with these keys, a mirror, and rows for this share.
fn cached(device: &Device, space: Space, kind: Kind, keys: u64, share: f64) -> Bench {
    let bench = mirrored(device, space, kind, keys);
    let report = bench.engine.load_values(&bench.table, ValueRoom::Share(share)).unwrap();
    let wanted = (share * keys as f64).ceil() as u64;
    assert_eq!((report.cached, report.filled), (wanted, wanted), "{report:?}");
    bench
}

/// Random batches, writes by the CPU, growth, by both, and rows that come and go.
pub(crate) fn run(device: &Device, space: Space, kind: Kind, geometry: Geometry, seed: u64, batches: usize) {
    const KEYS: u64 = 300;
    let mut dice = Dice(seed);
    let mut bench = Bench::new(device, space, kind, geometry, KEYS / 4);
    bench.engine.load_mirror(&bench.table).unwrap();
    for number in 0..batches {
        bench.batch(&mut dice, KEYS, 40);
        on_the_cpu(&mut bench, &mut dice, KEYS, 6);
        let share = ValueRoom::Share(dice.below(5) as f64 / 4.0);
        match dice.below(7) {
            0 => drop(bench.engine.turn().maintain(&bench.table, 8).unwrap()),
            1 => {
                let (_turn, _moving) = (bench.engine.turn(), bench.engine.moving());
                bench.table.maintain(8).unwrap();
            }
            2 => assert!(bench.engine.learn_values(&bench.table).unwrap()),
            3 if number % 3 == 0 => drop(bench.engine.load_mirror(&bench.table).unwrap()),
            _ => drop(bench.engine.load_values(&bench.table, share).unwrap()),
        }
        check(&bench, KEYS);
        let op = [Op::Put, Op::Insert, Op::Update, Op::Delete][dice.below(4) as usize];
        let numbers: Vec<u64> = (0..1 + dice.below(60)).map(|_| dice.below(KEYS)).collect();
        straight::run(device, &mut bench, op, &numbers, 1000 * number as u64);
        check(&bench, KEYS);
    }
    // Tables that grow a little keep the rows that they have.
    bench.engine.load_values(&bench.table, ValueRoom::Share(0.0)).unwrap();
    let report = bench.engine.load_values(&bench.table, ValueRoom::Share(1.0)).unwrap();
    assert_eq!(report.cached, bench.table.len(), "{report:?}");
    let (gets, hits) = hits(&bench, || check(&bench, KEYS));
    // Of the ways to look all keys up, six go through the rows; two of them have each third key twice.
    let thirds = (0..KEYS).step_by(3).filter(|number| bench.model.contains_key(number)).count() as u64;
    let expected = 6 * bench.table.len() + 2 * thirds;
    assert_eq!((gets, hits), (expected, expected));
    bench.inspect();
    bench.reopened();
}

pub(crate) fn tables_with_a_value_cache_do_what_a_map_does(device: &Device, space: Space) {
    let geometries = [(2, 2, 8), (1, 4, 8), (4, 2, 4), (2, 1, 16)];
    for (seed, kind) in (0..8).zip(KINDS.into_iter().cycle()) {
        let (l, h, s) = geometries[seed as usize / 2 % geometries.len()];
        run(device, space, kind, Geometry::new(l, h, s).unwrap(), seed, 16);
    }
}

pub(crate) fn hot_keys_have_rows(device: &Device, space: Space) {
    for kind in KINDS {
        let bench = mirrored(device, space, kind, 200);
        assert!(bench.engine.learn_values(&bench.table).unwrap());
        let hot = |which: u64| (0..200).filter(move |number| number % 10 == which);
        ask(&bench, 0..200);
        ask(&bench, hot(3).chain(hot(3)));
        assert_eq!(bench.engine.values_stats().unwrap().learnt, Some(240));
        let report = bench.engine.load_values(&bench.table, ValueRoom::Share(0.1)).unwrap();
        assert_eq!((report.cached, report.filled), (20, 20), "{report:?}");
        assert_eq!(bench.engine.values_stats().unwrap().learnt, None, "what is hot is frozen");
        assert_eq!(hits(&bench, || ask(&bench, hot(3))), (20, 20));
        assert_eq!(hits(&bench, || ask(&bench, (0..200).filter(|number| number % 10 != 3))), (180, 0));
        assert_eq!(hits(&bench, || ask(&bench, 200..300)), (0, 0), "keys that are not there");
        check(&bench, 220);
        // Others are hot now: half of them as well as some that were.
        assert!(bench.engine.learn_values(&bench.table).unwrap());
        ask(&bench, hot(7).take(10).chain(hot(3).take(10)));
        let report = bench.engine.load_values(&bench.table, ValueRoom::Share(0.1)).unwrap();
        assert_eq!((report.cached, report.filled), (20, 10), "{report:?}");
        assert_eq!(hits(&bench, || ask(&bench, hot(7).take(10).chain(hot(3).take(10)))), (20, 20));
        check(&bench, 220);
    }
}

pub(crate) fn rows_show_nothing_old(device: &Device, space: Space) {
    for kind in KINDS {
        let mut bench = cached(device, space, kind, 100, 0.8);
        check(&bench, 140);
        // Replaced, new, and removed, by the device and by the CPU: each is seen at once.
        assert!(bench.run(&bench.puts(0..40, 2)).is_empty());
        check(&bench, 140);
        let mut rows = bench.puts((0..100).step_by(3), 0);
        rows.iter_mut().for_each(|row| row.op = Op::Delete);
        assert!(bench.run(&rows).is_empty());
        check(&bench, 140);
        assert!(bench.run(&bench.puts(90..120, 3)).is_empty());
        on_the_cpu(&mut bench, &mut Dice(1), 140, 60);
        check(&bench, 140);
        // A stage that is dropped shows nothing.
        let mut turn = bench.engine.turn();
        drop(turn.stage(&bench.table, &batch_of(&bench.puts(90..140, 8)), 9000).unwrap());
        drop(turn);
        check(&bench, 140);
        // Rows of keys that were written are given to others.
        bench.engine.load_values(&bench.table, ValueRoom::Share(0.8)).unwrap();
        let report = bench.engine.load_values(&bench.table, ValueRoom::Share(1.0)).unwrap();
        assert_eq!(report.cached, bench.table.len());
        check(&bench, 140);
        bench.inspect();
    }
}

pub(crate) fn rows_stay_when_a_mirror_grows(device: &Device, space: Space) {
    // A mirror has room for three thousand from the first.
    const KEYS: u64 = 5000;
    let mut bench = cached(device, space, Kind::Packed, 60, 1.0);
    assert!(bench.engine.learn_values(&bench.table).unwrap());
    ask(&bench, (0..10).chain(0..10));
    let before = bench.engine.mirror_bytes();
    for first in (60..KEYS).step_by(500) {
        let numbers: Vec<u64> = (first..(first + 500).min(KEYS)).collect();
        straight::run(device, &mut bench, Op::Put, &numbers, first).unwrap();
        bench.settle(64);
    }
    assert!(bench.engine.mirror_bytes() > before);
    assert_eq!(hits(&bench, || ask(&bench, 0..60)), (60, 60));
    assert_eq!(hits(&bench, || ask(&bench, 60..600)), (540, 0));
    // So does what is known of how hot keys are: those that were asked for three times.
    let report = bench.engine.load_values(&bench.table, ValueRoom::Share(10.0 / 5000.0)).unwrap();
    assert_eq!(report.cached, 10, "{report:?}");
    assert_eq!(hits(&bench, || ask(&bench, 0..60)), (60, 10));
    check(&bench, 700);
}

pub(crate) fn values_that_change_keep_rows(device: &Device, space: Space) {
    /// More than there are free rows, three times over.
    const ENOUGH: u64 = 3 * 13;
    let mut bench = cached(device, space, Kind::Packed, 400, 0.5);
    let in_rows: Vec<u64> =
        (0..400).filter(|&number| hits(&bench, || ask(&bench, [number].into_iter())).1 == 1).collect();
    assert_eq!(in_rows.len(), 200);
    let mut kept = 0;
    // A few rows are kept free for that, thirteen here; those that are left are used again, but no sooner than no reader can see them.
    for (round, some) in (0..).zip(in_rows.chunks_exact(3).flat_map(|some| [some, some])) {
        straight::run(device, &mut bench, Op::Update, some, 100 * round).unwrap();
        let hits = hits(&bench, || ask(&bench, some.iter().copied())).1;
        kept += hits;
        check(&bench, 410);
        if kept > ENOUGH {
            break;
        }
        for _ in 0..4 {
            bench.table.heap().reclaim();
        }
    }
    assert!(kept > ENOUGH, "{kept} values kept a row");
    bench.inspect();
}

pub(crate) fn rows_that_do_not_fit_are_left_out(device: &Device, space: Space) {
    let kind = Kind::Packed;
    let mut filled = Vec::new();
    for bytes in [70_000, 90_000, 1 << 20, u64::MAX] {
        let heap = space(200);
        let mut spec = kind.spec(Geometry::default(), 4000);
        spec.merge = MergeRule::AddU64;
        let table = Table::create(&heap, &spec).unwrap();
        let limited = device.with_budget(bytes);
        let image = Arc::new(DeviceImage::new(&limited, table.heap().image()).unwrap());
        let engine = DeviceEngine::new(&image, &table).unwrap();
        for number in 0..1000_u64 {
            put(&table, &kind.key(number), &kind.value(number, 1), number).unwrap();
        }
        engine.load_mirror(&table).unwrap();
        let report = engine.load_values(&table, ValueRoom::Share(1.0)).unwrap();
        assert!(limited.allocated() <= bytes);
        assert_eq!(report.bytes > 0, report.rows > 0, "{report:?}");
        filled.push(report.cached);
        let mut bench = Bench { kind, table, engine, image, model: Default::default(), version: 1000 };
        bench.model = (0..1000).map(|number| (number, (number, kind.value(number, 1)))).collect();
        // Batches of gets need room for their columns.
        if bytes > 90_000 {
            check(&bench, 1010);
        }
    }
    assert!(filled.is_sorted() && filled[0] < filled[1] && filled[1] < filled[3], "{filled:?}");
    assert_eq!(filled[2..], [1000, 1000]);
}

pub(crate) fn other_rooms_are_other_rows(device: &Device, space: Space) {
    let bench = cached(device, space, Kind::LongPacked, 300, 0.1);
    for (room, cached) in [
        (ValueRoom::Share(0.5), 150),
        (ValueRoom::Share(1.0), 300),
        // A row has 24 bytes, a tail of six words, and its places in three lists; one of seventeen is kept free.
        (ValueRoom::Bytes(84 * 34), 32),
        (ValueRoom::Bytes(u64::MAX), 300),
        (ValueRoom::Share(0.0), 0),
        (ValueRoom::Share(0.2), 60),
    ] {
        let report = bench.engine.load_values(&bench.table, room).unwrap();
        assert_eq!(report.cached, cached, "{room:?}: {report:?}");
        assert_eq!(hits(&bench, || ask(&bench, 0..300)).1, cached);
        assert_eq!(bench.engine.values_stats().unwrap().bytes, report.bytes);
        check(&bench, 310);
    }
}

/// On a GPU all of it happens at once; on the simulator one launch after the other.
pub(crate) fn gets_beside_writes_find_what_is_in_rows(device: &Device, space: Space) {
    const KEYS: u64 = 400;
    for kind in KINDS {
        let mut bench = Bench::new(device, space, kind, Geometry::default(), 1200);
        assert!(bench.run(&bench.puts(0..KEYS, 0)).is_empty());
        bench.engine.load_mirror(&bench.table).unwrap();
        bench.read_beside_writes(KEYS, |done| {
            let mut share = 0.0;
            while !done.load(Ordering::Relaxed) {
                bench.engine.learn_values(&bench.table).unwrap();
                share = if share > 0.9 { 0.1 } else { share + 0.2 };
                bench.engine.load_values(&bench.table, ValueRoom::Share(share)).unwrap();
            }
        });
    }
}

/// The host copies what the device points at, some keys a launch, while rows come and go.
pub(crate) fn gathers_beside_loads_find_what_is_there(device: &Device, space: Space) {
    const KEYS: u64 = 4000;
    let bench = &mirrored(device, space, Kind::Packed, KEYS);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| (0..15).for_each(|_| bench.check_hosts(KEYS + 40)));
        let mut share = 0.0;
        while !reader.is_finished() {
            share = if share > 0.9 { 0.0 } else { share + 0.2 };
            bench.engine.load_values(&bench.table, ValueRoom::Share(share)).unwrap();
        }
        reader.join().unwrap();
    });
}

pub(crate) fn without_a_mirror_there_are_no_rows(device: &Device, space: Space) {
    let mut bench = Bench::new(device, space, Kind::Packed, Geometry::default(), 100);
    assert!(bench.run(&bench.puts(0..50, 1)).is_empty());
    assert!(!bench.engine.learn_values(&bench.table).unwrap());
    let report = bench.engine.load_values(&bench.table, ValueRoom::Share(1.0)).unwrap();
    assert_eq!((report.rows, report.cached, report.bytes), (0, 0, 0));
    check(&bench, 60);
    bench.engine.load_mirror(&bench.table).unwrap();
    bench.engine.load_values(&bench.table, ValueRoom::Share(1.0)).unwrap();
    bench.engine.drop_mirror(&bench.table);
    check(&bench, 60);
    assert_eq!(bench.engine.values_stats().unwrap(), Default::default());
}
