//! The paper's gets, which benchmarks compare with: through the bucket cache and by threads that work alone, answers are those of a map.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use warpkeep_device::{Device, Stream};
use warpkeep_gphash::gpu::paper::{CacheError, CachePolicy, CacheStats, Paper};
use warpkeep_gphash::gpu::{DeviceEngine, DeviceImage, GetRows};
use warpkeep_gphash::{Geometry, Progress, Table};

use crate::bench::{Bench, Space};
use crate::rig::Kind;

/// A test for each case, with a function that brings the device.
macro_rules! paper_cases {
    ($on:path) => {
        all_cases! {
            $on;
            paper: the_papers_gets_find_what_a_map_has, hits_are_counted_for_every_use, the_hottest_have_copies,
                a_small_budget_makes_a_small_cache, gets_go_on_while_a_cache_is_loaded, caches_that_cannot_be_are_refused
        }
    };
}

const POLICIES: [CachePolicy; 3] = [CachePolicy::Lfu, CachePolicy::Lru, CachePolicy::Random];

/// A table with keys from 0 on.
fn filled(device: &Device, space: Space, kind: Kind, geometry: Geometry, keys: u64) -> (Bench, Paper) {
    let mut bench = Bench::new(device, space, kind, geometry, 2 * keys);
    assert!(bench.run(&bench.puts(0..keys, 1)).is_empty());
    let paper = Paper::new(bench.engine.device(), &bench.table).unwrap();
    (bench, paper)
}

/// Loads the cache, and checks that it is as large as was asked for.
fn load(bench: &Bench, paper: &Paper, share: f64, policy: CachePolicy) {
    let report = paper.load_cache(&bench.engine, &bench.table, share, policy).unwrap();
    assert_eq!(report.cached, (share * report.buckets as f64).round() as u64, "{report:?}");
}

/// Looks keys up, through the cache or by threads alone, and checks the answers.
fn check(bench: &Bench, paper: &Paper, numbers: &[u64], alone: bool) {
    let keys: Vec<_> = numbers.iter().map(|&number| bench.kind.key(number)).collect();
    let look = |rows: &GetRows, stream: &Stream| {
        let (engine, table) = (&bench.engine, &bench.table);
        // SAFETY: the buffers are as long as the rows say, and it is waited for.
        let reading = unsafe {
            match alone {
                true => paper.get_alone(engine, table, rows, stream),
                false => paper.get_cached(engine, table, rows, stream),
            }
        };
        reading.unwrap().finish().unwrap();
    };
    for (number, found) in numbers.iter().zip(bench.got_rows(&keys, true, look)) {
        assert_eq!(found.as_ref(), bench.model.get(number), "{:?}, key {number}, alone {alone}", bench.kind);
    }
}

fn stats(paper: &Paper) -> CacheStats {
    paper.cache_stats().unwrap()
}

/// Tables of every kind, with keys that come twice and keys that are not there, before and after they were written and have grown.
pub(crate) fn the_papers_gets_find_what_a_map_has(device: &Device, space: Space) {
    const KEYS: u64 = 150;
    let geometries =
        [(2, 2, 8), (1, 4, 8), (4, 2, 4), (2, 1, 16)].map(|(l, h, s)| Geometry::new(l, h, s).unwrap());
    for (turn, kind) in Kind::ALL.into_iter().enumerate() {
        let (mut bench, paper) = filled(device, space, kind, geometries[turn % 4], KEYS);
        let numbers: Vec<u64> = (0..KEYS + 40).chain((0..KEYS).step_by(3)).collect();
        check(&bench, &paper, &numbers, false);
        for (round, policy) in POLICIES.into_iter().enumerate() {
            for share in [0.0, 0.2, 1.0] {
                load(&bench, &paper, share, policy);
                check(&bench, &paper, &numbers, false);
                check(&bench, &paper, &numbers, true);
            }
            // A snapshot, so it is taken anew after writes.
            assert!(bench.run(&bench.puts((0..KEYS).step_by(2), 10 + round as u64)).is_empty());
        }
        load(&bench, &paper, 1.0, CachePolicy::Lfu);
        // Copies of levels that are gone are not read.
        bench.table.begin_growth().unwrap();
        while bench.engine.turn().maintain(&bench.table, 8).unwrap() == Progress::Working {
            check(&bench, &paper, &numbers, false);
            check(&bench, &paper, &numbers, true);
        }
        check(&bench, &paper, &numbers, false);
        load(&bench, &paper, 1.0, CachePolicy::Lfu);
        check(&bench, &paper, &numbers, false);
        bench.inspect();
    }
}

pub(crate) fn hits_are_counted_for_every_use(device: &Device, space: Space) {
    for kind in Kind::ALL {
        let (bench, paper) = filled(device, space, kind, Geometry::default(), 600);
        assert_eq!(stats(&paper), CacheStats::default());
        // Without places everything is asked for and nothing found.
        load(&bench, &paper, 0.0, CachePolicy::Lfu);
        // Of equal keys of a block one is looked up, for all.
        let numbers: Vec<u64> = (10..110).chain(10..60).collect();
        check(&bench, &paper, &numbers, false);
        assert_eq!((stats(&paper).lookups, stats(&paper).hits), (4 * 150, 0));
        load(&bench, &paper, 1.0, CachePolicy::Lfu);
        check(&bench, &paper, &numbers, false);
        assert_eq!((stats(&paper).lookups, stats(&paper).hits), (4 * 150, 4 * 150));
        assert_eq!(stats(&paper).hit_rate(), 1.0);
        let none = paper.load_cache(&bench.engine, &bench.table, 0.0, CachePolicy::Random).unwrap();
        assert_eq!(none.cached, 0);
        check(&bench, &paper, &numbers, false);
        assert_eq!(stats(&paper), CacheStats::default());
    }
}

pub(crate) fn the_hottest_have_copies(device: &Device, space: Space) {
    let (bench, paper) = filled(device, space, Kind::Packed, Geometry::default(), 3000);
    for policy in [CachePolicy::Lfu, CachePolicy::Lru] {
        load(&bench, &paper, 0.0, policy);
        let (hot, cold): (Vec<u64>, Vec<u64>) = ((0..50).collect(), (50..1050).collect());
        // Those used most were used first, those used last only once.
        for _ in 0..20 {
            check(&bench, &paper, &hot, false);
        }
        check(&bench, &paper, &cold, false);
        load(&bench, &paper, 200.0 / stats(&paper).buckets as f64, policy);
        let rate_of = |numbers: &[u64]| {
            let before = stats(&paper);
            check(&bench, &paper, numbers, false);
            let after = stats(&paper);
            (after.hits - before.hits) as f64 / (after.lookups - before.lookups) as f64
        };
        let (hot_rate, cold_rate) = (rate_of(&hot), rate_of(&cold));
        match policy {
            CachePolicy::Lfu => assert!(hot_rate == 1.0 && cold_rate < 0.6, "{hot_rate} {cold_rate}"),
            _ => assert!(hot_rate < 0.9 && cold_rate > 0.1, "{hot_rate} {cold_rate}"),
        }
    }
}

pub(crate) fn a_small_budget_makes_a_small_cache(device: &Device, space: Space) {
    for kind in Kind::ALL {
        for bytes in [0, 60_000, 400_000] {
            let table = Table::create(&space(200), &kind.spec(Geometry::default(), 40_000)).unwrap();
            let limited = device.with_budget(bytes);
            let image = Arc::new(DeviceImage::new(&limited, table.heap().image()).unwrap());
            let engine = DeviceEngine::new(&image, &table).unwrap();
            let paper = Paper::new(&limited, &table).unwrap();
            let report = paper.load_cache(&engine, &table, 1.0, CachePolicy::Lfu).unwrap();
            assert!(limited.allocated() <= bytes);
            let most = bytes / kind.bucket_bytes();
            assert!(report.cached < report.buckets.min(most.max(1)), "{bytes}: {report:?}");
            assert!(bytes < 400_000 || report.cached > most / 2, "{bytes}: {report:?}");
        }
    }
}

/// On a GPU all of it happens at once; on the simulator one launch after the other.
pub(crate) fn gets_go_on_while_a_cache_is_loaded(device: &Device, space: Space) {
    for kind in Kind::ALL {
        let (bench, paper) = filled(device, space, kind, Geometry::default(), 200);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let numbers: Vec<u64> = (0..220).collect();
                while !done.load(Ordering::Relaxed) {
                    check(&bench, &paper, &numbers, false);
                }
            });
            for round in 0..12 {
                load(&bench, &paper, [0.3, 1.0, 0.0][round % 3], POLICIES[round / 3 % 3]);
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}

pub(crate) fn caches_that_cannot_be_are_refused(device: &Device, space: Space) {
    let (bench, paper) = filled(device, space, Kind::Packed, Geometry::default(), 60);
    for share in [-0.1, 1.1, f64::NAN] {
        let error = paper.load_cache(&bench.engine, &bench.table, share, CachePolicy::Lfu).unwrap_err();
        assert!(matches!(error, CacheError::Share { .. }), "{error}");
    }
    load(&bench, &paper, 1.0, CachePolicy::Lfu);
    bench.table.begin_growth().unwrap();
    let error = paper.load_cache(&bench.engine, &bench.table, 1.0, CachePolicy::Lfu).unwrap_err();
    assert!(matches!(error, CacheError::Moving), "{error}");
    check(&bench, &paper, &(0..60).collect::<Vec<_>>(), false);
}
