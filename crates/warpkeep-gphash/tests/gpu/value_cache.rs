//! The value cache: gets agree with a map after every write, and the hottest values are cached.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpkeep_core::{MergeRule, Op};
use warpkeep_device::Device;
use warpkeep_gphash::gpu::{DeviceEngine, DeviceImage, ValueRoom};
use warpkeep_gphash::{Geometry, Table};

use crate::device_index::{KINDS, check, indexed, write_on_the_cpu};
use crate::fused;
use crate::harness::{Dice, Harness, Space, batch_of};
use crate::rig::{Kind, put};

/// A test for each case, run by a function that brings the device.
macro_rules! value_cache_cases {
    ($on:path) => {
        all_cases! {
            $on;
            value_cache:
                tables_with_a_value_cache_agree_with_a_map, hot_keys_are_cached,
                cached_rows_return_nothing_stale, cached_rows_survive_growth_of_the_device_index,
                updated_values_stay_cached, a_small_budget_makes_fewer_cached_rows,
                the_value_cache_obeys_its_limit, gets_beside_writes_and_loads_find_every_key,
                host_gets_beside_loads_find_every_key, no_values_are_cached_without_a_device_index
        }
    };
}

/// Looks keys up without checking the answers, so that gets count them.
fn look_up(harness: &Harness, keys: impl Iterator<Item = u64>) {
    let keys: Vec<_> = keys.map(|number| harness.kind.key(number)).collect();
    harness.engine.get_many(&harness.table, keys.iter().map(Vec::as_slice), |_, _| {}).unwrap();
}

/// Gets, and those answered from rows, during `work`.
fn hits(harness: &Harness, work: impl FnOnce()) -> (u64, u64) {
    let before = harness.engine.values_stats().unwrap();
    work();
    let after = harness.engine.values_stats().unwrap();
    (after.gets - before.gets, after.hits - before.hits)
}

/// A table with these keys, a device index, and rows for this share of them.
fn cached(device: &Device, space: Space, kind: Kind, keys: u64, share: f64) -> Harness {
    let harness = indexed(device, space, kind, keys);
    let report = harness.engine.load_values(&harness.table, ValueRoom::Share(share)).unwrap();
    let wanted = (share * keys as f64).ceil() as u64;
    assert_eq!((report.cached, report.filled), (wanted, wanted), "{report:?}");
    harness
}

/// Random batches, writes by the CPU, growth by both, and loads of changing shares.
pub(crate) fn run(device: &Device, space: Space, kind: Kind, geometry: Geometry, seed: u64, batches: usize) {
    const KEYS: u64 = 300;
    let mut dice = Dice::new(seed);
    let mut harness = Harness::new(device, space, kind, geometry, KEYS / 4);
    harness.engine.build_index(&harness.table).unwrap();
    for number in 0..batches {
        harness.batch(&mut dice, KEYS, 40);
        write_on_the_cpu(&mut harness, &mut dice, KEYS, 6);
        let share = ValueRoom::Share(dice.below(5) as f64 / 4.0);
        match dice.below(7) {
            0 => drop(harness.engine.write_lock().maintain(&harness.table, 8).unwrap()),
            1 => {
                let (_write, _relocation) = (harness.engine.write_lock(), harness.engine.relocation_write());
                harness.table.maintain(8).unwrap();
            }
            2 => assert!(harness.engine.learn_values(&harness.table).unwrap()),
            3 if number % 3 == 0 => drop(harness.engine.build_index(&harness.table).unwrap()),
            _ => drop(harness.engine.load_values(&harness.table, share).unwrap()),
        }
        check(&harness, KEYS);
        let op = [Op::Put, Op::Insert, Op::Update, Op::Delete][dice.below(4) as usize];
        let numbers: Vec<u64> = (0..1 + dice.below(60)).map(|_| dice.below(KEYS)).collect();
        fused::run(device, &mut harness, op, &numbers, 1000 * number as u64);
        check(&harness, KEYS);
    }
    // A load of a table that has grown a little keeps its rows, so they are dropped first.
    harness.engine.load_values(&harness.table, ValueRoom::Share(0.0)).unwrap();
    let report = harness.engine.load_values(&harness.table, ValueRoom::Share(1.0)).unwrap();
    assert_eq!(report.cached, harness.table.len(), "{report:?}");
    let (gets, hits) = hits(&harness, || check(&harness, KEYS));
    // Six of the lookups in `check` use the rows; two of these have every third key twice.
    let thirds = (0..KEYS).step_by(3).filter(|number| harness.model.contains_key(number)).count() as u64;
    let expected = 6 * harness.table.len() + 2 * thirds;
    assert_eq!((gets, hits), (expected, expected));
    harness.inspect();
    harness.reopened();
}

pub(crate) fn tables_with_a_value_cache_agree_with_a_map(device: &Device, space: Space) {
    let geometries = [(2, 2, 8), (1, 4, 8), (4, 2, 4), (2, 1, 16)];
    for (seed, kind) in (0..8).zip(KINDS.into_iter().cycle()) {
        let (l, h, s) = geometries[seed as usize / 2 % geometries.len()];
        run(device, space, kind, Geometry::new(l, h, s).unwrap(), seed, 16);
    }
}

pub(crate) fn hot_keys_are_cached(device: &Device, space: Space) {
    for kind in KINDS {
        let harness = indexed(device, space, kind, 200);
        assert!(harness.engine.learn_values(&harness.table).unwrap());
        let hot = |which: u64| (0..200).filter(move |number| number % 10 == which);
        look_up(&harness, 0..200);
        look_up(&harness, hot(3).chain(hot(3)));
        assert_eq!(harness.engine.values_stats().unwrap().learnt, Some(240));
        let report = harness.engine.load_values(&harness.table, ValueRoom::Share(0.1)).unwrap();
        assert_eq!((report.cached, report.filled), (20, 20), "{report:?}");
        assert_eq!(harness.engine.values_stats().unwrap().learnt, None, "the choice is frozen");
        assert_eq!(hits(&harness, || look_up(&harness, hot(3))), (20, 20));
        assert_eq!(
            hits(&harness, || look_up(&harness, (0..200).filter(|number| number % 10 != 3))),
            (180, 0)
        );
        assert_eq!(hits(&harness, || look_up(&harness, 200..300)), (0, 0), "absent keys");
        check(&harness, 220);
        // Now other keys are hot, and half of the former ones.
        assert!(harness.engine.learn_values(&harness.table).unwrap());
        look_up(&harness, hot(7).take(10).chain(hot(3).take(10)));
        let report = harness.engine.load_values(&harness.table, ValueRoom::Share(0.1)).unwrap();
        assert_eq!((report.cached, report.filled), (20, 10), "{report:?}");
        assert_eq!(hits(&harness, || look_up(&harness, hot(7).take(10).chain(hot(3).take(10)))), (20, 20));
        check(&harness, 220);
    }
}

pub(crate) fn cached_rows_return_nothing_stale(device: &Device, space: Space) {
    for kind in KINDS {
        let mut harness = cached(device, space, kind, 100, 0.8);
        check(&harness, 140);
        // Gets see items that the device or the CPU has replaced, inserted or removed.
        assert!(harness.run(&harness.puts(0..40, 2)).is_empty());
        check(&harness, 140);
        let mut rows = harness.puts((0..100).step_by(3), 0);
        rows.iter_mut().for_each(|row| row.op = Op::Delete);
        assert!(harness.run(&rows).is_empty());
        check(&harness, 140);
        assert!(harness.run(&harness.puts(90..120, 3)).is_empty());
        write_on_the_cpu(&mut harness, &mut Dice::new(1), 140, 60);
        check(&harness, 140);
        // A dropped stage leaves the rows unchanged.
        let mut lock = harness.engine.write_lock();
        drop(lock.stage(&harness.table, &batch_of(&harness.puts(90..140, 8)), 9000).unwrap());
        drop(lock);
        check(&harness, 140);
        // The rows of keys that were written are reused for others.
        harness.engine.load_values(&harness.table, ValueRoom::Share(0.8)).unwrap();
        let report = harness.engine.load_values(&harness.table, ValueRoom::Share(1.0)).unwrap();
        assert_eq!(report.cached, harness.table.len());
        check(&harness, 140);
        harness.inspect();
    }
}

pub(crate) fn cached_rows_survive_growth_of_the_device_index(device: &Device, space: Space) {
    // The smallest device index holds three thousand keys.
    const KEYS: u64 = 5000;
    let mut harness = cached(device, space, Kind::Packed, 60, 1.0);
    assert!(harness.engine.learn_values(&harness.table).unwrap());
    look_up(&harness, (0..10).chain(0..10));
    let before = harness.engine.index_bytes();
    for first in (60..KEYS).step_by(500) {
        let numbers: Vec<u64> = (first..(first + 500).min(KEYS)).collect();
        fused::run(device, &mut harness, Op::Put, &numbers, first).unwrap();
        harness.finish_growth(64);
    }
    assert!(harness.engine.index_bytes() > before);
    assert_eq!(hits(&harness, || look_up(&harness, 0..60)), (60, 60));
    assert_eq!(hits(&harness, || look_up(&harness, 60..600)), (540, 0));
    // Frequencies survive, too: ten keys were looked up three times.
    let report = harness.engine.load_values(&harness.table, ValueRoom::Share(10.0 / 5000.0)).unwrap();
    assert_eq!(report.cached, 10, "{report:?}");
    assert_eq!(hits(&harness, || look_up(&harness, 0..60)), (60, 10));
    check(&harness, 700);
}

pub(crate) fn updated_values_stay_cached(device: &Device, space: Space) {
    /// Three times the number of free rows.
    const ENOUGH: u64 = 3 * 13;
    let mut harness = cached(device, space, Kind::Packed, 400, 0.5);
    let in_rows: Vec<u64> = (0..400)
        .filter(|&number| hits(&harness, || look_up(&harness, [number].into_iter())).1 == 1)
        .collect();
    assert_eq!(in_rows.len(), 200);
    let mut kept = 0;
    // Thirteen rows are kept free for updates. The rows that updates leave are reused when no reader can see them.
    for (round, some) in (0..).zip(in_rows.chunks_exact(3).flat_map(|some| [some, some])) {
        fused::run(device, &mut harness, Op::Update, some, 100 * round).unwrap();
        let hits = hits(&harness, || look_up(&harness, some.iter().copied())).1;
        kept += hits;
        check(&harness, 410);
        if kept > ENOUGH {
            break;
        }
        for _ in 0..4 {
            harness.table.heap().reclaim();
        }
    }
    assert!(kept > ENOUGH, "{kept} values kept a row");
    harness.inspect();
}

pub(crate) fn a_small_budget_makes_fewer_cached_rows(device: &Device, space: Space) {
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
        engine.build_index(&table).unwrap();
        let report = engine.load_values(&table, ValueRoom::Share(1.0)).unwrap();
        assert!(limited.allocated() <= bytes);
        assert_eq!(report.bytes > 0, report.rows > 0, "{report:?}");
        filled.push(report.cached);
        let mut harness = Harness { kind, table, engine, image, model: Default::default(), version: 1000 };
        harness.model = (0..1000).map(|number| (number, (number, kind.value(number, 1)))).collect();
        // Batches of gets need memory for their columns.
        if bytes > 90_000 {
            check(&harness, 1010);
        }
    }
    assert!(filled.is_sorted() && filled[0] < filled[1] && filled[1] < filled[3], "{filled:?}");
    assert_eq!(filled[2..], [1000, 1000]);
}

pub(crate) fn the_value_cache_obeys_its_limit(device: &Device, space: Space) {
    let harness = cached(device, space, Kind::LongPacked, 300, 0.1);
    for (limit, cached) in [
        (ValueRoom::Share(0.5), 150),
        (ValueRoom::Share(1.0), 300),
        // A row takes 24 bytes, six words, and entries in three lists; one row in seventeen is kept free.
        (ValueRoom::Bytes(84 * 34), 32),
        (ValueRoom::Bytes(u64::MAX), 300),
        (ValueRoom::Share(0.0), 0),
        (ValueRoom::Share(0.2), 60),
    ] {
        let report = harness.engine.load_values(&harness.table, limit).unwrap();
        assert_eq!(report.cached, cached, "{limit:?}: {report:?}");
        assert_eq!(hits(&harness, || look_up(&harness, 0..300)).1, cached);
        assert_eq!(harness.engine.values_stats().unwrap().bytes, report.bytes);
        check(&harness, 310);
    }
}

/// On a GPU kernels run concurrently; on the simulator one launch runs after the other.
pub(crate) fn gets_beside_writes_and_loads_find_every_key(device: &Device, space: Space) {
    const KEYS: u64 = 400;
    for kind in KINDS {
        let mut harness = Harness::new(device, space, kind, Geometry::default(), 1200);
        assert!(harness.run(&harness.puts(0..KEYS, 0)).is_empty());
        harness.engine.build_index(&harness.table).unwrap();
        harness.read_beside_writes(KEYS, |done| {
            let mut share = 0.0;
            while !done.load(Ordering::Relaxed) {
                harness.engine.learn_values(&harness.table).unwrap();
                share = if share > 0.9 { 0.1 } else { share + 0.2 };
                harness.engine.load_values(&harness.table, ValueRoom::Share(share)).unwrap();
            }
        });
    }
}

/// The host copies the records that the device locates, several launches per batch, while loads change the rows.
pub(crate) fn host_gets_beside_loads_find_every_key(device: &Device, space: Space) {
    const KEYS: u64 = 4000;
    let harness = &indexed(device, space, Kind::Packed, KEYS);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| (0..15).for_each(|_| harness.check_from_host(KEYS + 40)));
        let mut share = 0.0;
        while !reader.is_finished() {
            share = if share > 0.9 { 0.0 } else { share + 0.2 };
            harness.engine.load_values(&harness.table, ValueRoom::Share(share)).unwrap();
        }
        reader.join().unwrap();
    });
}

pub(crate) fn no_values_are_cached_without_a_device_index(device: &Device, space: Space) {
    let mut harness = Harness::new(device, space, Kind::Packed, Geometry::default(), 100);
    assert!(harness.run(&harness.puts(0..50, 1)).is_empty());
    assert!(!harness.engine.learn_values(&harness.table).unwrap());
    let report = harness.engine.load_values(&harness.table, ValueRoom::Share(1.0)).unwrap();
    assert_eq!((report.rows, report.cached, report.bytes), (0, 0, 0));
    check(&harness, 60);
    harness.engine.build_index(&harness.table).unwrap();
    harness.engine.load_values(&harness.table, ValueRoom::Share(1.0)).unwrap();
    harness.engine.drop_index(&harness.table);
    check(&harness, 60);
    assert_eq!(harness.engine.values_stats().unwrap(), Default::default());
}
