//! Many threads, shards built anew under them, and readers that never miss what is there.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use warpkeep_image::Clear;
use warpkeep_turbohash::{Progress, Table, TableError};

use crate::rig::{Kind, get, heap, put, remove, reopen};

/// Each writer owns some keys and knows what they have; readers check that what they see is whole, belongs to the key,
/// and is never older than what they saw before.
#[test]
fn writers_readers_growth_and_collection() {
    Kind::ALL.into_iter().for_each(writers_readers_growth_and_collection_with);
}

fn writers_readers_growth_and_collection_with(kind: Kind) {
    let heap = heap(20_000);
    let table = Table::create(&heap, &kind.spec(8, 100)).unwrap();
    drop(heap);
    let (writers, keys_each, rounds) = (3_u64, 2000_u64, 4_u64);
    let (stop, worked) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (table, stop, worked) = (&table, &stop, &worked);
        let handles: Vec<_> = (0..writers)
            .map(|writer| {
                scope.spawn(move || {
                    for round in 1..=rounds {
                        for number in 0..keys_each {
                            let key = number * writers + writer;
                            put(table, &kind.key(key), &kind.value(key, round), round).unwrap();
                            let seen = get(table, &kind.key(key));
                            assert_eq!(seen, Some((round, kind.value(key, round))), "read your writes");
                            if number % 3 == 0 {
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
                            let removed = key / writers % 3 == 0;
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
                if table.maintain(16).unwrap() == Progress::Working {
                    worked.fetch_add(1, Ordering::Relaxed);
                } else {
                    worked.fetch_add(table.collect().unwrap(), Ordering::Relaxed);
                    std::thread::yield_now();
                }
            }
        });
        // Whatever happened to the writers, the others must end.
        let ended: Vec<_> = handles.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    assert!(worked.into_inner() > 0 && table.stats().grown > 0 && table.stats().collected > 0);
    let left = writers * keys_each - writers * keys_each.div_ceil(3);
    assert_eq!(table.len(), left);
    let table = reopen(table);
    assert_eq!(table.len(), left);
    for key in 0..writers * keys_each {
        let expected = (key / writers % 3 != 0).then(|| (rounds, kind.value(key, rounds)));
        assert_eq!(get(&table, &kind.key(key)), expected);
    }
    assert!(Table::inspect(table.heap().image(), table.header()).unwrap().is_clean());
}

/// Rewriting everything many times, with readers running, must not take more space than the data.
#[test]
fn space_is_reused_under_readers() {
    for kind in [Kind::References, Kind::Variable] {
        let heap = heap(20_000);
        let table = Table::create(&heap, &kind.spec(64, 10_000)).unwrap();
        let keys = 10_000_u64;
        for key in 0..keys {
            put(&table, &kind.key(key), &kind.value(key, 1), 1).unwrap();
        }
        let live = heap.usage().used_bytes();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (table, stop) = (&table, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    for key in 0..keys {
                        let (version, bytes) = get(table, &kind.key(key)).expect("it is always there");
                        assert_eq!(bytes, kind.value(key, version));
                    }
                }
            });
            // Five lengths of values, so that all are back at the end.
            for round in 2..=11 {
                for key in 0..keys {
                    put(table, &kind.key(key), &kind.value(key, round), round).unwrap();
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        // The last records replaced are freed when the last readers have moved on, which is not at once.
        let bound = live + live / 5;
        let settled = (0..1_000_000).any(|_| {
            crossbeam_epoch::pin().flush();
            heap.usage().used_bytes() <= bound
        });
        assert!(settled, "{} bytes in use for {live} live", heap.usage().used_bytes());
    }
}

/// A checkpoint is such a scan: what it misses is lost.
#[test]
fn a_scan_misses_nothing_while_shards_are_built_anew() {
    for kind in Kind::ALL {
        let heap = heap(20_000);
        let table = Table::create(&heap, &kind.spec(2, 4000)).unwrap();
        for key in 0..4000 {
            put(&table, &kind.key(key), &kind.value(key, 1), 1).unwrap();
        }
        let (mut seen, mut given) = (BTreeSet::new(), 0);
        let scan = table.scan::<TableError>(1, |change| {
            seen.insert(change.key.to_vec());
            given += 1;
            // Larger and smaller again in the middle of a shard: it comes to lie where it lay, with items elsewhere.
            if given == 1500 {
                table.grow()?;
                for key in 4000..4500 {
                    put(&table, &kind.key(key), &kind.value(key, 1), 1)?;
                }
                for _ in 0..1000 {
                    crossbeam_epoch::pin().flush();
                }
                table.shrink()?;
            }
            Ok(())
        });
        scan.unwrap();
        for key in 0..4000 {
            assert!(seen.contains(&kind.key(key)), "{kind:?}: missed {key}");
        }
    }
}

/// Each writer reads, adds one and stores: an increment is lost, or a key doubled, unless writers of a key take turns.
/// They work in batches of keys from all shards: none waits for ever.
#[test]
fn writers_of_one_key_take_turns() {
    for kind in Kind::ALL {
        let heap = heap(2000);
        let table = Table::create(&heap, &kind.spec(4, 100)).unwrap();
        let (threads, rounds, keys) = (4_u64, 600_u64, 12_u64);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let table = &table;
                scope.spawn(move || {
                    for round in 0..rounds {
                        let some = 1 + (round + thread) % keys;
                        let numbers: Vec<u64> =
                            (0..some).map(|step| (thread + 5 * step + round) % keys).collect();
                        let numbers: BTreeSet<u64> = numbers.into_iter().collect();
                        let hashes = numbers.iter().rev().map(|&number| table.hash_of(&kind.key(number)));
                        let mut stage = table.stage(hashes);
                        for &number in &numbers {
                            let key = kind.key(number);
                            let seat = stage.seat(&key, table.hash_of(&key));
                            let before = seat.version().unwrap_or(0);
                            let held = stage.value(&seat).map(|value| value.to_vec());
                            assert_eq!(held, seat.version().map(|version| kind.value(number, version)));
                            stage.put(&seat, &key, &kind.value(number, before + 1), before + 1).unwrap();
                        }
                        std::thread::yield_now();
                        stage.publish();
                    }
                });
            }
        });
        assert_eq!(table.len(), keys, "a key is there twice, or not at all");
        let added: u64 = (0..keys).map(|key| get(&table, &kind.key(key)).expect("it was put").0).sum();
        let expected: u64 = (0..threads)
            .flat_map(|thread| (0..rounds).map(move |round| (thread, round)))
            .map(|(thread, round)| {
                let some = 1 + (round + thread) % keys;
                (0..some).map(|step| (thread + 5 * step + round) % keys).collect::<BTreeSet<_>>().len() as u64
            })
            .sum();
        assert_eq!(added, expected, "increments were lost");
    }
}

/// A stage that is given up leaves nothing behind, not even in the heap.
#[test]
fn a_stage_that_is_dropped_was_never_there() {
    for kind in Kind::ALL {
        let heap = heap(2000);
        let table = Table::create(&heap, &kind.spec(2, 100)).unwrap();
        for key in 0..20 {
            put(&table, &kind.key(key), &kind.value(key, 1), 1).unwrap();
        }
        let blocks = heap.usage().used_blocks();
        let before = table.stats();
        for _ in 0..50 {
            let hashes: Vec<u64> = (0..40).map(|key| table.hash_of(&kind.key(key))).collect();
            let mut stage = table.stage(hashes.iter().copied());
            stage.expect_values(40);
            for (key, &hash) in (0..40).zip(&hashes) {
                let seat = stage.seat(&kind.key(key), hash);
                match key % 4 {
                    0 => assert_eq!(stage.remove(&seat), key < 20),
                    _ => stage.put(&seat, &kind.key(key), &kind.value(key, 2), 2).unwrap(),
                }
            }
        }
        assert_eq!(table.stats(), before);
        assert_eq!(heap.usage().used_blocks(), blocks);
        for key in 0..40 {
            assert_eq!(get(&table, &kind.key(key)), (key < 20).then(|| (1, kind.value(key, 1))));
        }
    }
}

/// A table of which little is left gives the space of the rest back, while readers and a writer go on.
#[test]
fn defragmenting_gives_space_back() {
    for kind in [Kind::References, Kind::Keyed] {
        let heap = heap(20_000);
        let table = Table::create(&heap, &kind.spec(32, 20_000)).unwrap();
        for key in 0..20_000 {
            put(&table, &kind.key(key), &kind.value(key, 1), 1).unwrap();
        }
        for key in (0..20_000).filter(|key| key % 10 != 0) {
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
        assert!(settled(&|| heap.usage().used_blocks() < 2100), "{}", heap.usage());
        let shrunk = table.shrink().unwrap();
        assert!(shrunk);
        let before = slabs();
        let stop = AtomicBool::new(false);
        let moved = std::thread::scope(|scope| {
            let (table, stop) = (&table, &stop);
            scope.spawn(move || {
                let mut version = 1;
                while !stop.load(Ordering::Relaxed) {
                    version += 1;
                    put(table, &kind.key(0), &kind.value(0, version), version).unwrap();
                    for key in (10..20_000).step_by(10) {
                        assert_eq!(get(table, &kind.key(key)), Some((1, kind.value(key, 1))), "{key}");
                    }
                }
            });
            let moved = table.defragment(&table.heap().begin_clearing(Clear::Surplus)).unwrap();
            stop.store(true, Ordering::Relaxed);
            moved
        });
        assert!(moved > 1000, "{moved} of 2000 moved");
        assert!(settled(&|| slabs() * 2 < before), "{} slabs of {before} left", slabs());
        let table = reopen(table);
        for key in 1..20_000 {
            let expected = (key % 10 == 0).then(|| (1, kind.value(key, 1)));
            assert_eq!(get(&table, &kind.key(key)), expected);
        }
    }
}

/// Keys that stay while the table around them is so full that others find a place only where they move on. Readers and
/// scans miss none.
#[test]
fn nobody_misses_what_moves_on() {
    for kind in Kind::ALL {
        let heap = heap(4000);
        let table = Table::create(&heap, &kind.spec(1, 64 * kind.slots() * 7 / 10)).unwrap();
        let slots = table.slots();
        let full = if kind == Kind::Values { 78 } else { 84 };
        let staying = 0..slots / 2;
        let passing = staying.end..slots * full / 100;
        for key in staying.clone().chain(passing.clone()) {
            put(&table, &kind.key(key), &kind.value(key, 1), 1).unwrap();
        }
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (table, stop, staying) = (&table, &stop, &staying);
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
                    let mut missed: BTreeSet<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                    let scan = table.scan::<()>(1, |change| {
                        missed.remove(change.key);
                        Ok(())
                    });
                    scan.unwrap();
                    assert!(missed.is_empty(), "scanned without {} of those that stay", missed.len());
                }
            });
            let passer = scope.spawn(move || {
                for round in 2..40 {
                    for key in passing.clone() {
                        let (old, new) = (key + (round - 2) * slots, key + (round - 1) * slots);
                        let old = if round == 2 { key } else { old };
                        assert!(remove(table, &kind.key(old)));
                        put(table, &kind.key(new), &kind.value(new, round), round).unwrap();
                    }
                    // Back to where it was, so that it stays crowded.
                    table.shrink().unwrap();
                }
            });
            let ended = passer.join();
            stop.store(true, Ordering::Relaxed);
            ended.unwrap();
        });
        assert!(table.stats().displaced > 0, "{kind:?}: nobody had to move on");
        assert_eq!(table.len(), slots * full / 100);
        assert!(Table::inspect(heap.image(), table.header()).unwrap().is_clean());
        let table = reopen(table);
        assert_eq!(table.len(), slots * full / 100);
    }
}
