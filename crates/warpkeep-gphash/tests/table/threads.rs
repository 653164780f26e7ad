//! Many threads, growth under way, and readers that never miss what is there.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use warpkeep_gphash::{Geometry, Progress, Table};
use warpkeep_image::Clear;

use crate::rig::{Kind, get, heap, put, remove, reopen};

/// Each writer owns some keys and knows what they have; readers check that what they see is whole, belongs to the key,
/// and is never older than what they saw before.
#[test]
fn writers_readers_and_growth() {
    Kind::ALL.into_iter().for_each(writers_readers_and_growth_with);
}

fn writers_readers_and_growth_with(kind: Kind) {
    let heap = heap(20_000);
    let table = Table::create(&heap, &kind.spec(Geometry::default(), 100)).unwrap();
    drop(heap);
    let (writers, keys_each, rounds) = (4_u64, 3000_u64, 3_u64);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (table, stop) = (&table, &stop);
        let handles: Vec<_> = (0..writers)
            .map(|writer| {
                scope.spawn(move || {
                    for round in 1..=rounds {
                        for number in 0..keys_each {
                            let key = number * writers + writer;
                            put(table, &kind.key(key), &kind.value(key, round), round).unwrap();
                            let seen = get(table, &kind.key(key));
                            assert_eq!(seen, Some((round, kind.value(key, round))), "read your writes");
                            if number % 7 == 0 {
                                assert!(remove(table, &kind.key(key)));
                                assert_eq!(get(table, &kind.key(key)), None);
                            }
                        }
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(move || {
                let mut newest = vec![0; (writers * keys_each) as usize];
                while !stop.load(Ordering::Relaxed) {
                    for key in 0..writers * keys_each {
                        let Some((version, bytes)) = get(table, &kind.key(key)) else {
                            let removed = key / writers % 7 == 0;
                            assert!(newest[key as usize] == 0 || removed, "key {key} vanished");
                            continue;
                        };
                        assert_eq!(bytes, kind.value(key, version), "torn, or another key's");
                        assert!(version >= newest[key as usize], "key {key} went back in time");
                        newest[key as usize] = version;
                    }
                }
            });
        }
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                if table.maintain(16).unwrap() != Progress::Working {
                    std::thread::yield_now();
                }
            }
        });
        // Whatever happened to the writers, the others must end.
        let ended: Vec<_> = handles.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    // By whoever came to it: on a crowded machine the writers themselves.
    assert!(table.stats().levels[0].slots > 200, "it never grew");
    let left = writers * keys_each - writers * keys_each.div_ceil(7);
    assert_eq!(table.len(), left);
    let table = reopen(table);
    assert_eq!(table.len(), left);
    for key in 0..writers * keys_each {
        let expected = (key / writers % 7 != 0).then(|| (rounds, kind.value(key, rounds)));
        assert_eq!(get(&table, &kind.key(key)), expected);
    }
}

/// Rewriting everything many times, with readers running, must not take more space than the data.
#[test]
fn space_is_reused_under_readers() {
    Kind::ALL.into_iter().for_each(space_is_reused_under_readers_with);
}

fn space_is_reused_under_readers_with(kind: Kind) {
    let heap = heap(20_000);
    let table = Table::create(&heap, &kind.spec(Geometry::default(), 20_000)).unwrap();
    let keys = 20_000_u64;
    for key in 0..keys {
        put(&table, &kind.key(key), &kind.value(key, 1), 1).unwrap();
    }
    let live = heap.usage().used_bytes();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (table, stop) = (&table, &stop);
        for _ in 0..2 {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    for key in 0..keys {
                        let (version, bytes) = get(table, &kind.key(key)).expect("it is always there");
                        assert_eq!(bytes, kind.value(key, version));
                    }
                }
            });
        }
        for round in 2..=11 {
            for key in 0..keys {
                put(table, &kind.key(key), &kind.value(key, round), round).unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    // The last records replaced are freed when the last readers have moved on, which is not at once.
    let bound = live + live / 5;
    let settled = (0..100_000).any(|_| {
        crossbeam_epoch::pin().flush();
        heap.usage().used_bytes() <= bound
    });
    assert!(settled, "{} bytes in use for {live} live", heap.usage().used_bytes());
}

/// A checkpoint is such a scan: what it misses is lost.
#[test]
fn a_scan_misses_nothing_while_items_move() {
    Kind::ALL.into_iter().for_each(a_scan_misses_nothing_while_items_move_with);
}

fn a_scan_misses_nothing_while_items_move_with(kind: Kind) {
    let heap = heap(20_000);
    let table = Table::create(&heap, &kind.spec(Geometry::default(), 3000)).unwrap();
    let mut keys = 0_u64;
    let mut put_next = || {
        let hash = table.hash_of(&kind.key(keys));
        let mut stage = table.stage([hash]);
        let seat = stage.seat(&kind.key(keys), hash);
        stage.put(&seat, &kind.key(keys), &kind.value(keys, 1), 1).unwrap();
        stage.publish();
        keys += 1;
    };
    // Until something is in the overflow: that is the first to be moved, and the last place one would look.
    while table.stats().overflow[0].used < 4 {
        put_next();
    }
    let in_overflow = table.stats().overflow[0].clone();
    table.begin_growth().unwrap();
    while !table.may_drain() {
        crossbeam_epoch::pin().flush();
    }
    // Into the new top level, so that the scan has something to say when it has passed most of it.
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

/// Each writer reads, adds one and stores: an increment is lost, or a key doubled, unless writers of a key take turns.
#[test]
fn writers_of_one_key_take_turns() {
    Kind::ALL.into_iter().for_each(writers_of_one_key_take_turns_with);
}

fn writers_of_one_key_take_turns_with(kind: Kind) {
    let heap = heap(2000);
    let table = Table::create(&heap, &kind.spec(Geometry::default(), 100)).unwrap();
    let (threads, rounds, keys) = (8_u64, 4000_u64, 3_u64);
    let start = std::sync::Barrier::new(threads as usize);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (table, start) = (&table, &start);
            scope.spawn(move || {
                start.wait();
                for round in 0..rounds {
                    let key = kind.key(round % keys);
                    let hash = table.hash_of(&key);
                    let mut stage = table.stage([hash]);
                    let seat = stage.seat(&key, hash);
                    let before = seat.version().unwrap_or(0);
                    // Whoever is not held off gets a chance to come in between.
                    std::thread::yield_now();
                    stage.put(&seat, &key, &kind.value(round % keys, before + 1), before + 1).unwrap();
                    stage.publish();
                }
            });
        }
    });
    assert_eq!(table.len(), keys, "a key is there twice, or not at all");
    let added: u64 = (0..keys).map(|key| get(&table, &kind.key(key)).expect("it was put").0).sum();
    assert_eq!(added, threads * rounds, "increments were lost");
}

/// A table of which little is left gives the space of the rest back, while readers and a writer go on.
#[test]
fn defragmenting_gives_space_back() {
    for kind in [Kind::Packed, Kind::Reference] {
        let heap = heap(20_000);
        let table = Table::create(&heap, &kind.spec(Geometry::default(), 40_000)).unwrap();
        for key in 0..40_000 {
            put(&table, &kind.key(key), &kind.value(key, 1), 1).unwrap();
        }
        for key in (0..40_000).filter(|key| key % 10 != 0) {
            assert!(remove(&table, &kind.key(key)));
        }
        let slabs = || heap.usage().classes.iter().map(|class| class.slabs).sum::<u64>();
        // What was removed is freed when the last readers have moved on, also those of other tests beside this one.
        let settled = |done: &dyn Fn() -> bool| {
            (0..1_000_000).any(|_| {
                crossbeam_epoch::pin().flush();
                done()
            })
        };
        assert!(settled(&|| heap.usage().used_blocks() < 4100), "{}", heap.usage());
        let before = slabs();
        let stop = AtomicBool::new(false);
        let moved = std::thread::scope(|scope| {
            let (table, stop) = (&table, &stop);
            scope.spawn(move || {
                let mut version = 1;
                while !stop.load(Ordering::Relaxed) {
                    version += 1;
                    put(table, &kind.key(0), &kind.value(0, version), version).unwrap();
                    for key in (10..40_000).step_by(10) {
                        assert_eq!(get(table, &kind.key(key)), Some((1, kind.value(key, 1))), "{key}");
                    }
                }
            });
            let moved = table.defragment(&table.heap().begin_clearing(Clear::Surplus)).unwrap();
            stop.store(true, Ordering::Relaxed);
            moved
        });
        assert!(moved > 2000, "{moved} of 4000 moved");
        assert!(settled(&|| slabs() * 3 < before), "{} slabs of {before} left", slabs());
        let table = reopen(table);
        for key in 1..40_000 {
            let expected = (key % 10 == 0).then(|| (1, kind.value(key, 1)));
            assert_eq!(get(&table, &kind.key(key)), expected);
        }
    }
}

/// Nobody maintains the table: writers alone must see each growth through before the next is due.
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

/// Keys that stay while the table around them is so full that others find a place only where they move on.
#[test]
fn nobody_misses_what_moves_on() {
    Kind::ALL.into_iter().for_each(nobody_misses_what_moves_on_with);
}

fn nobody_misses_what_moves_on_with(kind: Kind) {
    let heap = heap(4000);
    let table = Table::create(&heap, &kind.spec(Geometry::default(), 10_000)).unwrap();
    drop(heap);
    let slots: u64 = table.stats().levels.iter().map(|level| level.slots).sum();
    // From 2 on: the first two have slots of their own in some kinds.
    let staying = 2..slots / 2;
    let passing = staying.end..slots * 97 / 100;
    for key in staying.clone().chain(passing.clone()) {
        put(&table, &kind.key(key), &kind.value(key, 1), 1).unwrap();
    }
    assert!(!table.stats().growing, "meant to be filled as it is");
    let before = table.stats().displaced;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (table, stop, staying) = (&table, &stop, &staying);
        let passers: Vec<_> = (0..2)
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
                // Nothing moves on while a scan is under way, so the others have to have their turn.
                let mut missed: BTreeSet<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                let scan = table.scan::<()>(1, |change| {
                    missed.remove(change.key);
                    Ok(())
                });
                scan.unwrap();
                assert!(missed.is_empty(), "scanned without {} of those that stay", missed.len());
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        let ended: Vec<_> = passers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    let stats = table.stats();
    assert!(stats.displaced > before, "nobody had to move on");
    assert_eq!(table.len(), passing.end - staying.start);
    let table = reopen(table);
    assert_eq!(table.len(), passing.end - staying.start);
}
