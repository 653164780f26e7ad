//! The paper's gets, the baselines of benchmarks: through the bucket cache and with one thread per key, answers agree
//! with a map.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use warpkeep_device::{Device, Stream};
use warpkeep_gphash::gpu::paper::{CacheError, CachePolicy, CacheStats, Paper};
use warpkeep_gphash::gpu::{DeviceEngine, DeviceImage, GetRows};
use warpkeep_gphash::{Geometry, Progress, Table};

use crate::harness::{Harness, Space};
use crate::rig::Kind;

/// A test for each case, run by a function that brings the device.
macro_rules! paper_cases {
    ($on:path) => {
        all_cases! {
            $on;
            paper:
                the_papers_gets_agree_with_a_map, every_use_of_a_paper_bucket_is_counted,
                the_hottest_paper_buckets_are_cached, a_small_budget_makes_a_small_paper_cache,
                gets_continue_while_a_paper_cache_is_loaded, invalid_paper_caches_are_refused
        }
    };
}

const POLICIES: [CachePolicy; 3] = [CachePolicy::Lfu, CachePolicy::Lru, CachePolicy::Random];

/// A table with the keys from 0 to `keys`.
fn filled(device: &Device, space: Space, kind: Kind, geometry: Geometry, keys: u64) -> (Harness, Paper) {
    let mut harness = Harness::new(device, space, kind, geometry, 2 * keys);
    assert!(harness.run(&harness.puts(0..keys, 1)).is_empty());
    let paper = Paper::new(harness.engine.device(), &harness.table).unwrap();
    (harness, paper)
}

/// Loads the cache, and checks its size.
fn load(harness: &Harness, paper: &Paper, share: f64, policy: CachePolicy) {
    let report = paper.load_cache(&harness.engine, &harness.table, share, policy).unwrap();
    assert_eq!(report.cached, (share * report.buckets as f64).round() as u64, "{report:?}");
}

/// Looks keys up, through the cache or with one thread per key, and checks the answers.
fn check(harness: &Harness, paper: &Paper, numbers: &[u64], alone: bool) {
    let keys: Vec<_> = numbers.iter().map(|&number| harness.kind.key(number)).collect();
    let look = |rows: &GetRows, stream: &Stream| {
        let (engine, table) = (&harness.engine, &harness.table);
        // SAFETY: the columns have `count` rows, and live until the reading has finished.
        let reading = unsafe {
            match alone {
                true => paper.get_alone(engine, table, rows, stream),
                false => paper.get_cached(engine, table, rows, stream),
            }
        };
        reading.unwrap().finish().unwrap();
    };
    for (number, found) in numbers.iter().zip(harness.found_rows(&keys, true, look)) {
        assert_eq!(
            found.as_ref(),
            harness.model.get(number),
            "{:?}, key {number}, alone {alone}",
            harness.kind
        );
    }
}

fn stats(paper: &Paper) -> CacheStats {
    paper.cache_stats().unwrap()
}

/// Tables of every kind, with duplicate and absent keys, before and after writes and growth.
pub(crate) fn the_papers_gets_agree_with_a_map(device: &Device, space: Space) {
    const KEYS: u64 = 150;
    let geometries =
        [(2, 2, 8), (1, 4, 8), (4, 2, 4), (2, 1, 16)].map(|(l, h, s)| Geometry::new(l, h, s).unwrap());
    for (index, kind) in Kind::ALL.into_iter().enumerate() {
        let (mut harness, paper) = filled(device, space, kind, geometries[index % 4], KEYS);
        let numbers: Vec<u64> = (0..KEYS + 40).chain((0..KEYS).step_by(3)).collect();
        check(&harness, &paper, &numbers, false);
        for (round, policy) in POLICIES.into_iter().enumerate() {
            for share in [0.0, 0.2, 1.0] {
                load(&harness, &paper, share, policy);
                check(&harness, &paper, &numbers, false);
                check(&harness, &paper, &numbers, true);
            }
            // The cache is a snapshot: the next round loads it again after this write.
            assert!(harness.run(&harness.puts((0..KEYS).step_by(2), 10 + round as u64)).is_empty());
        }
        load(&harness, &paper, 1.0, CachePolicy::Lfu);
        // Gets do not read copies of levels that a growth has replaced.
        harness.table.begin_growth().unwrap();
        while harness.engine.write_lock().maintain(&harness.table, 8).unwrap() == Progress::Working {
            check(&harness, &paper, &numbers, false);
            check(&harness, &paper, &numbers, true);
        }
        check(&harness, &paper, &numbers, false);
        load(&harness, &paper, 1.0, CachePolicy::Lfu);
        check(&harness, &paper, &numbers, false);
        harness.inspect();
    }
}

pub(crate) fn every_use_of_a_paper_bucket_is_counted(device: &Device, space: Space) {
    for kind in Kind::ALL {
        let (harness, paper) = filled(device, space, kind, Geometry::default(), 600);
        assert_eq!(stats(&paper), CacheStats::default());
        // Without frames every lookup is a miss.
        load(&harness, &paper, 0.0, CachePolicy::Lfu);
        // Of duplicate keys in a block one is looked up, but all are counted.
        let numbers: Vec<u64> = (10..110).chain(10..60).collect();
        check(&harness, &paper, &numbers, false);
        assert_eq!((stats(&paper).lookups, stats(&paper).hits), (4 * 150, 0));
        load(&harness, &paper, 1.0, CachePolicy::Lfu);
        check(&harness, &paper, &numbers, false);
        assert_eq!((stats(&paper).lookups, stats(&paper).hits), (4 * 150, 4 * 150));
        assert_eq!(stats(&paper).hit_rate(), 1.0);
        let none = paper.load_cache(&harness.engine, &harness.table, 0.0, CachePolicy::Random).unwrap();
        assert_eq!(none.cached, 0);
        check(&harness, &paper, &numbers, false);
        assert_eq!(stats(&paper), CacheStats::default());
    }
}

pub(crate) fn the_hottest_paper_buckets_are_cached(device: &Device, space: Space) {
    let (harness, paper) = filled(device, space, Kind::Packed, Geometry::default(), 3000);
    for policy in [CachePolicy::Lfu, CachePolicy::Lru] {
        load(&harness, &paper, 0.0, policy);
        let (hot, cold): (Vec<u64>, Vec<u64>) = ((0..50).collect(), (50..1050).collect());
        // The keys used most were used first; the keys used last were used once.
        for _ in 0..20 {
            check(&harness, &paper, &hot, false);
        }
        check(&harness, &paper, &cold, false);
        load(&harness, &paper, 200.0 / stats(&paper).buckets as f64, policy);
        let rate_of = |numbers: &[u64]| {
            let before = stats(&paper);
            check(&harness, &paper, numbers, false);
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

pub(crate) fn a_small_budget_makes_a_small_paper_cache(device: &Device, space: Space) {
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
pub(crate) fn gets_continue_while_a_paper_cache_is_loaded(device: &Device, space: Space) {
    for kind in Kind::ALL {
        let (harness, paper) = filled(device, space, kind, Geometry::default(), 200);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let numbers: Vec<u64> = (0..220).collect();
                while !done.load(Ordering::Relaxed) {
                    check(&harness, &paper, &numbers, false);
                }
            });
            for round in 0..12 {
                load(&harness, &paper, [0.3, 1.0, 0.0][round % 3], POLICIES[round / 3 % 3]);
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}

pub(crate) fn invalid_paper_caches_are_refused(device: &Device, space: Space) {
    let (harness, paper) = filled(device, space, Kind::Packed, Geometry::default(), 60);
    for share in [-0.1, 1.1, f64::NAN] {
        let error = paper.load_cache(&harness.engine, &harness.table, share, CachePolicy::Lfu).unwrap_err();
        assert!(matches!(error, CacheError::InvalidShare { .. }), "{error}");
    }
    load(&harness, &paper, 1.0, CachePolicy::Lfu);
    harness.table.begin_growth().unwrap();
    let error = paper.load_cache(&harness.engine, &harness.table, 1.0, CachePolicy::Lfu).unwrap_err();
    assert!(matches!(error, CacheError::TableResizing), "{error}");
    check(&harness, &paper, &(0..60).collect::<Vec<_>>(), false);
}
