//! Readers find every item while levels are drained and items are displaced.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use warpkeep_gphash::{Geometry, Table};

use crate::rig::{Kind, get, heap, put, remove, reopen};

/// A checkpoint is such a scan: an item that it misses is lost.
#[test]
fn a_scan_misses_nothing_while_items_move() {
    Kind::ALL.into_iter().for_each(a_scan_misses_nothing_while_items_move_with);
}

fn a_scan_misses_nothing_while_items_move_with(kind: Kind) {
    let heap = heap(20_000);
    let table = Table::create(&heap, &kind.spec(Geometry::default(), 3000)).unwrap();
    let mut keys = 0_u64;
    let mut put_next = || {
        let lock = table.lock_key(&kind.key(keys));
        let mut stage = table.stage([lock]);
        let seat = stage.seat(&kind.key(keys), lock);
        stage.put(&seat, &kind.key(keys), &kind.value(keys, 1), 1).unwrap();
        stage.publish();
        keys += 1;
    };
    // Until some items are in the overflow, which is drained first and looked up last.
    while table.stats().overflow[0].used < 4 {
        put_next();
    }
    let in_overflow = table.stats().overflow[0].clone();
    table.begin_growth().unwrap();
    while !table.may_drain() {
        table.heap().reclaim();
    }
    // Into the new top level, so that the scan has items to return after it has passed most of it.
    (0..500).for_each(|_| put_next());
    let (mut seen, mut given) = (std::collections::BTreeSet::new(), 0);
    table
        .scan::<()>(1, |change| {
            seen.insert(change.key.to_vec());
            given += 1;
            if given == keys - in_overflow.used - 1 {
                table.maintain(in_overflow.buckets).unwrap();
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(seen.len() as u64, keys, "missed some");
}

/// Without a maintenance thread, writers must finish each growth before the next is due.
#[test]
fn a_table_grows_with_writers_alone() {
    for kind in [Kind::Packed, Kind::Inline] {
        let heap = heap(20_000);
        let table = Table::create(&heap, &kind.spec(Geometry::default(), 100)).unwrap();
        let (writers, keys) = (2, 200_000_u64);
        std::thread::scope(|scope| {
            for writer in 0..writers {
                let table = &table;
                scope.spawn(move || {
                    for key in (writer..keys).step_by(writers as usize) {
                        put(table, &kind.key(key), &kind.value(key, 1), 1).unwrap();
                    }
                });
            }
        });
        assert_eq!(table.len(), keys);
        let stats = table.stats();
        assert!(stats.levels.len() <= 3, "{kind:?}: growths are left unfinished: {stats:?}");
        assert!(stats.load_factor > 0.25, "{stats:?}");
    }
}

/// Keys stay while the table is so full that others find a slot only by displacing them.
#[test]
fn readers_find_items_that_are_displaced() {
    Kind::ALL.into_iter().for_each(readers_find_items_that_are_displaced_with);
}

fn readers_find_items_that_are_displaced_with(kind: Kind) {
    let heap = heap(4000);
    let table = Table::create(&heap, &kind.spec(Geometry::default(), 10_000)).unwrap();
    drop(heap);
    let slots: u64 = table.stats().levels.iter().map(|level| level.slots).sum();
    // From 2 on: the first two keys have slots of their own in some kinds.
    let staying = 2..slots / 2;
    let passing = staying.end..slots * 97 / 100;
    for key in staying.clone().chain(passing.clone()) {
        put(&table, &kind.key(key), &kind.value(key, 1), 1).unwrap();
    }
    assert!(!table.stats().growing, "the table must not grow");
    let before = table.stats().displaced;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (table, stop, staying) = (&table, &stop, &staying);
        let writers: Vec<_> = (0..2)
            .map(|half| {
                let passing = passing.clone();
                scope.spawn(move || {
                    for round in 2..5 {
                        for key in passing.clone().filter(|key| key % 2 == half) {
                            assert!(remove(table, &kind.key(key)));
                            put(table, &kind.key(key + round * slots), &kind.value(key, round), round)
                                .unwrap();
                            assert!(remove(table, &kind.key(key + round * slots)));
                            put(table, &kind.key(key), &kind.value(key, round), round).unwrap();
                        }
                    }
                })
            })
            .collect();
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                for key in staying.clone() {
                    assert_eq!(get(table, &kind.key(key)), Some((1, kind.value(key, 1))), "key {key}");
                }
            }
        });
        scope.spawn(move || {
            let keys: Vec<Vec<u8>> = staying.clone().map(|key| kind.key(key)).collect();
            while !stop.load(Ordering::Relaxed) {
                table.get_many(keys.iter().map(Vec::as_slice), |index, value| {
                    let value = value.map(|value| value.to_vec());
                    assert_eq!(value, Some(kind.value(staying.start + index as u64, 1)), "key {index}");
                });
                // A scan prevents displacement, so there are pauses between scans.
                let mut missed: BTreeSet<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                // Checksums hold while items are written and moved.
                let scan = table.scan_checked::<String>(1, |item| {
                    missed.remove(item.map_err(ToString::to_string)?.key);
                    Ok(())
                });
                scan.unwrap();
                assert!(missed.is_empty(), "scanned without {} of those that stay", missed.len());
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        let ended: Vec<_> = writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    let stats = table.stats();
    assert!(stats.displaced > before, "no item was displaced");
    assert_eq!(table.len(), passing.end - staying.start);
    let table = reopen(table);
    assert_eq!(table.len(), passing.end - staying.start);
}
