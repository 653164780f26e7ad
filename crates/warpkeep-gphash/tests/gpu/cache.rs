//! Copies of hot buckets in device memory: whatever is written, by whom and when, nobody reads anything else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use warpkeep_core::Op;
use warpkeep_device::Device;
use warpkeep_gphash::gpu::{CacheError, CachePolicy, CacheStats, DeviceEngine, DeviceImage};
use warpkeep_gphash::{Geometry, Progress, Table};
use warpkeep_image::Clear;

use crate::bench::{Bench, Dice, Space, batch_of};
use crate::rig::{Kind, put, remove};

/// A test for each case, with a function that brings the device.
macro_rules! cache_cases {
    ($on:path) => {
        all_cases! {
            $on;
            cache: tables_with_a_cache_do_what_a_map_does, nothing_read_is_older_than_what_was_written,
                a_cache_is_not_used_for_levels_that_have_changed, hits_are_counted_as_they_are,
                the_hottest_have_copies, a_small_budget_makes_a_small_cache, slots_used_again_fool_nobody,
                records_that_move_are_followed, a_stage_that_is_dropped_leaves_copies_good,
                more_notes_than_are_kept_are_as_good_as_all, what_cannot_be_loaded_is_told,
                gets_and_writes_go_on_beside_loads
        }
    };
}

const POLICIES: [CachePolicy; 3] = [CachePolicy::Lfu, CachePolicy::Lru, CachePolicy::Random];
const SHARES: [f64; 3] = [0.0, 0.2, 1.0];

/// What a run does.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) seed: u64,
    pub(crate) keys: u64,
    pub(crate) batches: usize,
    pub(crate) count: usize,
    pub(crate) share: f64,
    pub(crate) policy: CachePolicy,
}

/// Loads the cache, unless the table is growing; whether it did.
fn load(bench: &Bench, share: f64, policy: CachePolicy) -> bool {
    match bench.engine.load_cache(&bench.table, share, policy) {
        Ok(report) => {
            let wanted = (share * report.buckets as f64).round() as u64;
            assert_eq!(report.cached, wanted, "{report:?}");
            assert!(report.replaced <= report.cached, "{report:?}");
            true
        }
        Err(CacheError::Moving) => {
            assert!(bench.table.stats().growing || bench.table.stats().shrinking);
            false
        }
        Err(error) => panic!("{error}"),
    }
}

fn stats(bench: &Bench) -> CacheStats {
    bench.engine.cache_stats().unwrap()
}

/// Writes some keys with the CPU, which has its turn; readers may be about.
fn on_the_cpu(bench: &mut Bench, dice: &mut Dice, keys: u64, count: u64) {
    for _ in 0..count {
        let (number, kind) = (dice.below(keys), bench.kind);
        let _turn = bench.engine.turn();
        if dice.below(3) == 0 {
            let was_there = bench.model.remove(&number).is_some();
            assert_eq!(remove(&bench.table, &kind.key(number)), was_there);
        } else if bench.model.contains_key(&number) {
            bench.version += 1;
            let value = kind.value(number, dice.below(1000));
            put(&bench.table, &kind.key(number), &value, bench.version).unwrap();
            bench.model.insert(number, (bench.version, value));
        }
    }
}

/// Random batches, writes by the CPU, growth, and loads before, between and after.
pub(crate) fn run(device: &Device, space: Space, kind: Kind, geometry: Geometry, work: Load) {
    let Load { seed, keys, batches, count, share, policy } = work;
    let mut dice = Dice(seed);
    let mut bench = Bench::new(device, space, kind, geometry, keys / 3);
    let mut loaded = u64::from(load(&bench, share, policy));
    for number in 0..batches {
        bench.batch(&mut dice, keys, count);
        on_the_cpu(&mut bench, &mut dice, keys, 4);
        match dice.below(4) {
            0 => loaded += u64::from(load(&bench, share, policy)),
            1 => {
                let share = SHARES[dice.below(3) as usize];
                loaded += u64::from(load(&bench, share, POLICIES[dice.below(3) as usize]));
            }
            2 => while bench.engine.turn().maintain(&bench.table, 8).unwrap() == Progress::Working {},
            _ => {}
        }
        if number % 2 == 0 {
            bench.check(keys);
        }
    }
    bench.settle(64);
    assert!(load(&bench, 1.0, policy));
    bench.check(keys);
    let all = stats(&bench);
    assert!(all.hits > 0 && all.lookups == all.hits && all.cached_buckets == all.buckets, "{all:?}");
    bench.batch(&mut dice, keys, count);
    bench.check(keys);
    bench.inspect();
    assert!(loaded > 0);
    bench.reopened();
}

pub(crate) fn tables_with_a_cache_do_what_a_map_does(device: &Device, space: Space) {
    let geometries = [(2, 2, 8), (1, 4, 8), (4, 2, 4), (2, 1, 16), (1, 1, 32), (4, 4, 2)];
    for (number, kind) in (0..12).zip(Kind::ALL.into_iter().cycle()) {
        let (l, h, s) = geometries[number % geometries.len()];
        let work = Load {
            seed: 100 + number as u64,
            keys: 300,
            batches: 16,
            count: 48,
            share: SHARES[number / 4],
            policy: POLICIES[number % 3],
        };
        run(device, space, kind, Geometry::new(l, h, s).unwrap(), work);
    }
}

/// A table with these keys, all of whose buckets have copies.
fn cached(device: &Device, space: Space, kind: Kind, keys: u64) -> Bench {
    let mut bench = Bench::new(device, space, kind, Geometry::default(), 2 * keys);
    assert!(bench.run(&bench.puts(0..keys, 1)).is_empty());
    assert!(load(&bench, 1.0, CachePolicy::Lfu));
    bench
}

pub(crate) fn nothing_read_is_older_than_what_was_written(device: &Device, space: Space) {
    for kind in Kind::ALL {
        let mut bench = cached(device, space, kind, 100);
        bench.check(140);
        // Replaced, new, and removed, by the device and by the CPU: each is seen at once.
        assert!(bench.run(&bench.puts(0..40, 2)).is_empty());
        bench.check(140);
        assert!(bench.run(&bench.puts(100..120, 3)).is_empty());
        bench.check(140);
        let mut rows = bench.puts((0..120).step_by(3), 0);
        rows.iter_mut().for_each(|row| row.op = Op::Delete);
        assert!(bench.run(&rows).is_empty());
        bench.check(140);
        for number in [2, 50, 100] {
            let _turn = bench.engine.turn();
            let value = kind.value(number, 7);
            bench.version += 1;
            put(&bench.table, &kind.key(number), &value, bench.version).unwrap();
            bench.model.insert(number, (bench.version, value));
        }
        bench.check(140);
        // What a stage decides by is as new.
        for _ in 0..2 {
            let turn = bench.engine.turn();
            assert_eq!(remove(&bench.table, &kind.key(4)), bench.model.remove(&4).is_some());
            drop(turn);
            let mut rows = bench.puts([4, 5], 9);
            rows.iter_mut().for_each(|row| row.op = Op::Insert);
            assert!(bench.run(&rows).is_empty());
        }
        bench.check(140);
        let seen = stats(&bench);
        assert_eq!(seen.hits, seen.lookups, "all of it was read here");
        bench.inspect();
    }
}

pub(crate) fn a_cache_is_not_used_for_levels_that_have_changed(device: &Device, space: Space) {
    for kind in Kind::ALL {
        let mut bench = Bench::new(device, space, kind, Geometry::default(), 60);
        assert!(load(&bench, 1.0, CachePolicy::Lfu));
        let mut number = 0;
        while !bench.table.stats().growing {
            for index in bench.run(&bench.puts(number..number + 8, 1)) {
                let (of, value) = (number + index as u64, kind.value(number + index as u64, 1));
                let (_turn, _moving) = (bench.engine.turn(), bench.engine.moving());
                bench.version += 1;
                put(&bench.table, &kind.key(of), &value, bench.version).unwrap();
                bench.model.insert(of, (bench.version, value));
            }
            number += 8;
            bench.engine.turn().maintain(&bench.table, 1).unwrap();
        }
        let before = stats(&bench);
        assert!(before.hits > 0);
        bench.check(number + 10);
        assert!(!load(&bench, 1.0, CachePolicy::Lfu), "it is growing");
        bench.settle(4);
        bench.check(number + 10);
        assert_eq!(stats(&bench).lookups, before.lookups, "nothing was read there");
        assert!(load(&bench, 1.0, CachePolicy::Lfu));
        bench.check(number + 10);
        let after = stats(&bench);
        assert!(after.buckets > before.buckets && after.hits == after.lookups && after.hits > 0, "{after:?}");
        // Larger and smaller again: perhaps with levels where there were levels before.
        {
            let (_turn, _moving) = (bench.engine.turn(), bench.engine.moving());
            bench.table.grow().unwrap();
        }
        for row in bench.puts((0..number).step_by(2), 5) {
            let _turn = bench.engine.turn();
            bench.version += 1;
            put(&bench.table, &row.key, &row.value, bench.version).unwrap();
            bench.model.insert(row.number, (bench.version, row.value));
        }
        {
            let (_turn, _moving) = (bench.engine.turn(), bench.engine.moving());
            bench.table.shrink().unwrap();
        }
        bench.check(number + 10);
        assert_eq!(stats(&bench).lookups, after.lookups);
        bench.inspect();
    }
}

/// Looks a key up so many times.
fn look_up(bench: &Bench, numbers: &[u64]) {
    let keys: Vec<_> = numbers.iter().map(|&number| bench.kind.key(number)).collect();
    bench
        .engine
        .get_many(&bench.table, keys.iter().map(Vec::as_slice), |index, found| {
            assert_eq!(found.is_some(), bench.model.contains_key(&numbers[index]));
        })
        .unwrap();
}

pub(crate) fn hits_are_counted_as_they_are(device: &Device, space: Space) {
    for kind in Kind::ALL {
        let mut bench = Bench::new(device, space, kind, Geometry::default(), 2000);
        assert!(bench.run(&bench.puts(0..600, 1)).is_empty());
        assert_eq!(stats(&bench), CacheStats::default());
        // Without places everything is asked for and nothing found; at random nothing is asked.
        assert!(load(&bench, 0.0, CachePolicy::Lfu));
        let numbers: Vec<u64> = (10..110).collect();
        look_up(&bench, &numbers);
        assert_eq!((stats(&bench).lookups, stats(&bench).hits), (4 * 100, 0));
        assert!(load(&bench, 1.0, CachePolicy::Lfu));
        look_up(&bench, &numbers);
        look_up(&bench, &[999_999]);
        assert_eq!((stats(&bench).lookups, stats(&bench).hits), (4 * 101, 4 * 101));
        assert_eq!(stats(&bench).hit_rate(), 1.0);
        // Writing asks, too.
        assert!(bench.run(&bench.puts(20..30, 2)).is_empty());
        assert_eq!(stats(&bench).lookups, 4 * 111);
        let none = bench.engine.load_cache(&bench.table, 0.0, CachePolicy::Random).unwrap();
        assert_eq!((none.cached, none.replaced), (0, 0));
        look_up(&bench, &numbers);
        assert_eq!(stats(&bench), CacheStats::default());
        bench.check(620);
    }
}

pub(crate) fn the_hottest_have_copies(device: &Device, space: Space) {
    let kind = Kind::Packed;
    let mut bench = Bench::new(device, space, kind, Geometry::default(), 20_000);
    assert!(bench.run(&bench.puts(0..3000, 1)).is_empty());
    for policy in [CachePolicy::Lfu, CachePolicy::Lru] {
        assert!(load(&bench, 0.0, policy));
        let (hot, cold): (Vec<u64>, Vec<u64>) = ((0..50).collect(), (50..1050).collect());
        // Those used most were used first, those used last only once.
        for _ in 0..20 {
            look_up(&bench, &hot);
        }
        look_up(&bench, &cold);
        let share = 260.0 / stats(&bench).buckets as f64;
        assert!(load(&bench, share, policy));
        let rate_of = |numbers: &[u64]| {
            let before = stats(&bench);
            look_up(&bench, numbers);
            let after = stats(&bench);
            (after.hits - before.hits) as f64 / (after.lookups - before.lookups) as f64
        };
        let (hot_rate, cold_rate) = (rate_of(&hot), rate_of(&cold));
        match policy {
            CachePolicy::Lfu => assert!(hot_rate == 1.0 && cold_rate < 0.4, "{hot_rate} {cold_rate}"),
            _ => assert!(hot_rate < 0.6 && cold_rate > 0.1, "{hot_rate} {cold_rate}"),
        }
        // Others become hot: they get the places, and those that stay keep theirs.
        let others: Vec<u64> = (2000..2025).collect();
        for _ in 0..60 {
            look_up(&bench, &others);
        }
        let report = bench.engine.load_cache(&bench.table, share, policy).unwrap();
        assert!(report.replaced > 0 && report.replaced < report.cached, "{report:?}");
        let before = stats(&bench);
        look_up(&bench, &others);
        assert_eq!(stats(&bench).hits - before.hits, 4 * others.len() as u64);
        // Nothing has happened that would make others hotter.
        if policy == CachePolicy::Lfu {
            let report = bench.engine.load_cache(&bench.table, share, policy).unwrap();
            assert!(report.replaced < 20, "{report:?}");
        }
    }
}

pub(crate) fn a_small_budget_makes_a_small_cache(device: &Device, space: Space) {
    for kind in Kind::ALL {
        for bytes in [0, 60_000, 400_000, u64::MAX] {
            let heap = space(200);
            let mut spec = kind.spec(Geometry::default(), 40_000);
            spec.merge = warpkeep_core::MergeRule::AddU64;
            let table = Table::create(&heap, &spec).unwrap();
            let limited = device.with_budget(bytes);
            let image = Arc::new(DeviceImage::new(&limited, table.heap().image()).unwrap());
            let engine = DeviceEngine::new(&image, &table).unwrap();
            let report = engine.load_cache(&table, 1.0, CachePolicy::Lfu).unwrap();
            let bucket = kind.bucket_bytes();
            assert!(limited.allocated() <= bytes);
            if bytes == u64::MAX {
                assert_eq!(report.cached, report.buckets);
            } else {
                let most = bytes / bucket;
                assert!(report.cached < report.buckets.min(most.max(1)), "{bytes}: {report:?}");
                assert!(bytes < 400_000 || report.cached > most / 2, "{bytes}: {report:?}");
            }
            // Batches have room beside it, if there is any room.
            if bytes >= 400_000 {
                let mut bench = Bench { kind, table, engine, image, model: Default::default(), version: 0 };
                assert!(bench.run(&bench.puts(0..20, 1)).is_empty());
                bench.check(40);
                let again = bench.engine.load_cache(&bench.table, 1.0, CachePolicy::Lfu).unwrap();
                assert_eq!(again.cached, report.cached, "the same is asked for, and is there");
                bench.check(40);
            }
        }
    }
}

/// Slots and records are used again by other keys, and by the same ones.
pub(crate) fn slots_used_again_fool_nobody(device: &Device, space: Space) {
    for kind in Kind::ALL {
        let mut bench = cached(device, space, kind, 60);
        for round in 0..6 {
            let mut rows = bench.puts(60 * round..60 * (round + 1), 0);
            rows.iter_mut().for_each(|row| row.op = Op::Delete);
            assert!(bench.run(&rows).is_empty());
            bench.check(500);
            for _ in 0..4 {
                warpkeep_gphash::hasten_freeing();
            }
            assert!(bench.run(&bench.puts(60 * (round + 1)..60 * (round + 2), round)).is_empty());
            bench.check(500);
            assert!(bench.run(&bench.puts(60 * (round + 1)..60 * (round + 2), round + 100)).is_empty());
            bench.check(500);
        }
        let seen = stats(&bench);
        assert_eq!(seen.hits, seen.lookups);
    }
}

/// Defragmenting moves records: what copies lead to is used for something else afterwards.
pub(crate) fn records_that_move_are_followed(device: &Device, space: Space) {
    for kind in [Kind::Packed, Kind::Reference] {
        let mut bench = cached(device, space, kind, 400);
        let mut rows = bench.puts((0..400).filter(|number| number % 8 != 0), 0);
        rows.iter_mut().for_each(|row| row.op = Op::Delete);
        assert!(bench.run(&rows).is_empty());
        let moved = {
            let _turn = bench.engine.turn();
            bench.table.defragment(&bench.table.heap().begin_clearing(Clear::All)).unwrap()
        };
        assert!(moved > 0);
        bench.check(400);
        for _ in 0..8 {
            warpkeep_gphash::hasten_freeing();
        }
        assert!(bench.run(&bench.puts(400..700, 3)).is_empty());
        bench.check(700);
        let seen = stats(&bench);
        assert_eq!(seen.hits, seen.lookups);
    }
}

pub(crate) fn a_stage_that_is_dropped_leaves_copies_good(device: &Device, space: Space) {
    for kind in Kind::ALL {
        let mut bench = cached(device, space, kind, 50);
        let mut rows = bench.puts(25..75, 5);
        rows[3].op = Op::Delete;
        let mut turn = bench.engine.turn();
        drop(turn.stage(&bench.table, &batch_of(&rows), 900).unwrap());
        drop(turn);
        bench.check(80);
        assert!(bench.run(&rows).is_empty());
        bench.check(80);
        bench.inspect();
    }
}

pub(crate) fn more_notes_than_are_kept_are_as_good_as_all(device: &Device, space: Space) {
    for kind in [Kind::Packed, Kind::KeyedInline] {
        let mut bench = cached(device, space, kind, 40);
        for round in 0..1800_u64 {
            let _turn = bench.engine.turn();
            for number in 0..40 {
                bench.version += 1;
                let value = kind.value(number, round);
                put(&bench.table, &kind.key(number), &value, bench.version).unwrap();
                bench.model.insert(number, (bench.version, value));
            }
        }
        bench.check(60);
        let seen = stats(&bench);
        assert_eq!(seen.hits, seen.lookups);
    }
}

pub(crate) fn what_cannot_be_loaded_is_told(device: &Device, space: Space) {
    let bench = cached(device, space, Kind::Packed, 40);
    for share in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let error = bench.engine.load_cache(&bench.table, share, CachePolicy::Lfu).unwrap_err();
        assert!(matches!(error, CacheError::Share { .. }), "{error}");
        assert!(error.to_string().contains("from 0 to 1"));
    }
    bench.check(50);
    // Nobody notes anything for an engine that is gone.
    let Bench { kind, table, engine, image, mut model, .. } = bench;
    drop(engine);
    put(&table, &kind.key(3), &kind.value(3, 9), 900).unwrap();
    model.insert(3, (900, kind.value(3, 9)));
    let engine = DeviceEngine::new(&image, &table).unwrap();
    let bench = Bench { kind, table, engine, image, model, version: 1000 };
    assert!(load(&bench, 0.5, CachePolicy::Lru));
    bench.check(50);
}

/// On a GPU all of it happens at once; on the simulator one launch after the other.
pub(crate) fn gets_and_writes_go_on_beside_loads(device: &Device, space: Space) {
    const KEYS: u64 = 400;
    for kind in Kind::ALL {
        let mut bench = Bench::new(device, space, kind, Geometry::default(), 1200);
        assert!(bench.run(&bench.puts(0..KEYS, 0)).is_empty());
        let (bench, done) = (&bench, AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| bench.read_until(&done, KEYS, |_| {}));
            }
            scope.spawn(|| bench.write_marks(KEYS, 1..20));
            for round in 0..30 {
                let share = [0.1, 0.3, 0.3, 0.3, 1.0][round % 5];
                let report = bench.engine.load_cache(&bench.table, share, POLICIES[round / 5 % 3]).unwrap();
                assert!(report.cached > 0);
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
