//! Many threads, tables that grow meanwhile, and readers that never miss an item.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use warpkeep_image::{Clear, Coherent};
use warpkeep_record::{
    Budget, Kept as _, LockKey, Lookup as _, Progress, Staged as _, Staging as _, Upkeep as _,
};

use crate::{Items, Subject, get, heap, put, remove, reopen, settled};

/// The kinds of items that a subject takes.
fn kinds<S: Subject>(subject: S) -> impl Iterator<Item = Items> {
    Items::ALL.into_iter().filter(move |items| subject.takes(items.specs()))
}

/// The kinds that take a block of the heap.
fn kinds_in_records<S: Subject>(subject: S) -> impl Iterator<Item = Items> {
    kinds(subject).filter(move |items| !subject.in_slots(items.specs()))
}

fn create<S: Subject>(
    subject: S,
    heap: &std::sync::Arc<warpkeep_image::Heap<Coherent>>,
    items: Items,
    capacity: u64,
) -> S::Table<Coherent> {
    subject.create(heap, items.specs(), capacity).unwrap_or_else(|error| panic!("{subject:?}: {error}"))
}

/// Each writer owns some keys and knows their values; readers check that each value is whole, belongs to the key,
/// and is never older than an earlier one.
///
/// # Panics
/// If a reader sees anything else.
pub fn writers_readers_and_growth<S: Subject>(subject: S) {
    kinds(subject).for_each(|items| writers_readers_and_growth_of(subject, items));
}

fn writers_readers_and_growth_of<S: Subject>(subject: S, items: Items) {
    let heap = heap(20_000);
    let table = create(subject, &heap, items, 100);
    let room = S::slots(&table);
    drop(heap);
    let (writers, keys_each, rounds) = (3_u64, 2000_u64, 3_u64);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (table, stop) = (&table, &stop);
        let handles: Vec<_> = (0..writers)
            .map(|writer| {
                scope.spawn(move || {
                    for round in 1..=rounds {
                        for number in 0..keys_each {
                            let key = number * writers + writer;
                            put(table, &items.key(key), &items.value(key, round), round)
                                .expect("there is room");
                            let seen = get(table, &items.key(key));
                            assert_eq!(seen, Some((round, items.value(key, round))), "read your writes");
                            if number % 3 == 0 {
                                assert!(remove(table, &items.key(key)));
                                assert_eq!(get(table, &items.key(key)), None);
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
                        let Some((version, bytes)) = get(table, &items.key(key)) else {
                            let removed = key / writers % 3 == 0;
                            assert!(newest[key as usize] == 0 || removed, "key {key} vanished");
                            continue;
                        };
                        assert_eq!(bytes, items.value(key, version), "torn, or another key's");
                        assert!(version >= newest[key as usize], "key {key} went back in time");
                        newest[key as usize] = version;
                    }
                }
            });
        }
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                if table.maintain(Budget::items(128)).expect("there is room") != Progress::Working {
                    std::thread::yield_now();
                }
            }
        });
        // If a writer fails, the other threads must still end.
        let ended: Vec<_> = handles.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|ended| ended.expect("it ends well"));
    });
    // Grown by any thread: on a busy machine by the writers themselves.
    assert!(S::slots(&table) > room, "it never grew");
    let left = writers * keys_each - writers * keys_each.div_ceil(3);
    assert_eq!(table.len(), left);
    let table = reopen(table);
    assert_eq!(table.len(), left);
    for key in 0..writers * keys_each {
        let expected = (key / writers % 3 != 0).then(|| (rounds, items.value(key, rounds)));
        assert_eq!(get(&table, &items.key(key)), expected);
    }
    assert!(table.inspection().expect("it can be read").is_clean());
}

/// Rewriting everything many times, with readers running, must not take more space than the data.
///
/// # Panics
/// If it does.
pub fn space_is_reused_under_readers<S: Subject>(subject: S) {
    for items in kinds_in_records(subject) {
        let heap = heap(20_000);
        let table = create(subject, &heap, items, 10_000);
        let keys = 10_000_u64;
        for key in 0..keys {
            put(&table, &items.key(key), &items.value(key, 1), 1).expect("there is room");
        }
        let live = heap.usage().used_bytes();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (table, stop) = (&table, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    for key in 0..keys {
                        let (version, bytes) = get(table, &items.key(key)).expect("it is always there");
                        assert_eq!(bytes, items.value(key, version));
                    }
                }
            });
            // Five lengths of values, so that all are back at the end.
            for round in 2..=11 {
                for key in 0..keys {
                    put(table, &items.key(key), &items.value(key, round), round).expect("there is room");
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        // The last records replaced are freed when the last readers have moved on, which is not at once.
        let bound = live + live / 5;
        assert!(
            settled(&heap, || heap.usage().used_bytes() <= bound),
            "{items:?}: {} bytes in use for {live} live",
            heap.usage().used_bytes()
        );
    }
}

/// Each writer reads, adds one and stores: an increment is lost, or a key doubled, unless writers of a key take
/// turns. They work in batches of several keys, and none waits for ever.
///
/// # Panics
/// If something is lost.
pub fn writers_of_one_key_take_turns<S: Subject>(subject: S) {
    for items in kinds(subject) {
        let heap = heap(2000);
        let table = create(subject, &heap, items, 100);
        let (threads, rounds, keys) = (4_u64, 600_u64, 12_u64);
        let numbers_of = |thread: u64, round: u64| -> BTreeSet<u64> {
            (0..1 + (round + thread) % keys).map(|step| (thread + 5 * step + round) % keys).collect()
        };
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let table = &table;
                scope.spawn(move || {
                    for round in 0..rounds {
                        let numbers = numbers_of(thread, round);
                        let locks = numbers.iter().rev().map(|&number| table.lock_key(&items.key(number)));
                        let mut stage = table.stage(locks);
                        for &number in &numbers {
                            let key = items.key(number);
                            let seat = stage.seat(&key, table.lock_key(&key));
                            let before = seat.version().unwrap_or(0);
                            let held = stage.value(&seat).map(|value| value.to_vec());
                            assert_eq!(held, seat.version().map(|version| items.value(number, version)));
                            let staged = stage.put(&seat, &key, &items.value(number, before + 1), before + 1);
                            staged.expect("there is room");
                        }
                        // Gives a writer that is not excluded the chance to interfere.
                        std::thread::yield_now();
                        stage.publish();
                    }
                });
            }
        });
        assert_eq!(table.len(), keys, "a key is there twice, or not at all");
        let added: u64 = (0..keys).map(|key| get(&table, &items.key(key)).expect("it was put").0).sum();
        let turns = (0..threads).flat_map(|thread| (0..rounds).map(move |round| (thread, round)));
        let expected: u64 = turns.map(|(thread, round)| numbers_of(thread, round).len() as u64).sum();
        assert_eq!(added, expected, "increments were lost");
    }
}

/// A stage that is given up leaves nothing behind, not even in the heap.
///
/// # Panics
/// If it does.
pub fn a_stage_that_is_dropped_was_never_there<S: Subject>(subject: S) {
    for items in kinds(subject) {
        let heap = heap(2000);
        let table = create(subject, &heap, items, 100);
        for key in 0..20 {
            put(&table, &items.key(key), &items.value(key, 1), 1).expect("there is room");
        }
        let (blocks, room) = (heap.usage().used_blocks(), S::slots(&table));
        for _ in 0..50 {
            let locks: Vec<LockKey> = (0..40).map(|key| table.lock_key(&items.key(key))).collect();
            let mut stage = table.stage(locks.iter().copied());
            stage.expect_values(40);
            for (key, &lock) in (0..40).zip(&locks) {
                let seat = stage.seat(&items.key(key), lock);
                match key % 4 {
                    0 => assert_eq!(stage.remove(&seat), key < 20),
                    _ => stage
                        .put(&seat, &items.key(key), &items.value(key, 2), 2)
                        .unwrap_or_else(|error| panic!("{error}")),
                }
            }
        }
        assert_eq!((table.len(), S::slots(&table)), (20, room));
        assert_eq!(heap.usage().used_blocks(), blocks);
        for key in 0..40 {
            assert_eq!(get(&table, &items.key(key)), (key < 20).then(|| (1, items.value(key, 1))));
        }
        // Only the items put afterwards are there, in place of the staged ones.
        (20..40).for_each(|key| {
            put(&table, &items.key(key), &items.value(key, 3), 3).expect("there is room");
        });
        let table = reopen(table);
        assert_eq!(table.len(), 40);
        assert!(table.inspection().expect("it can be read").is_clean());
    }
}

/// A table with few items left returns the space of the rest, while readers and a writer continue.
///
/// # Panics
/// If it does not.
pub fn defragmenting_gives_space_back<S: Subject>(subject: S) {
    for items in kinds_in_records(subject).filter(|&items| items != Items::Variable) {
        let heap = heap(20_000);
        let table = create(subject, &heap, items, 20_000);
        for key in 0..20_000 {
            put(&table, &items.key(key), &items.value(key, 1), 1).expect("there is room");
        }
        for key in (0..20_000).filter(|key| key % 10 != 0) {
            assert!(remove(&table, &items.key(key)));
        }
        let slabs = || heap.usage().classes.iter().map(|class| class.slabs).sum::<u64>();
        assert!(
            settled(&heap, || heap.usage().used_blocks() < 2000 + subject.own_blocks() + 100),
            "{}",
            heap.usage()
        );
        // If it can: not every size has a half.
        table.shrink().expect("there is room");
        let before = slabs();
        let stop = AtomicBool::new(false);
        let moved = std::thread::scope(|scope| {
            let (table, stop) = (&table, &stop);
            scope.spawn(move || {
                let mut version = 1;
                while !stop.load(Ordering::Relaxed) {
                    version += 1;
                    put(table, &items.key(0), &items.value(0, version), version).expect("there is room");
                    for key in (10..20_000).step_by(10) {
                        assert_eq!(get(table, &items.key(key)), Some((1, items.value(key, 1))), "{key}");
                    }
                }
            });
            let moved = table.defragment(&table.heap().begin_clearing(Clear::Surplus));
            stop.store(true, Ordering::Relaxed);
            moved.expect("there is room")
        });
        assert!(moved > 1000, "{moved} of 2000 moved");
        assert!(settled(&heap, || slabs() * 2 < before), "{} slabs of {before} left", slabs());
        let table = reopen(table);
        for key in 1..20_000 {
            let expected = (key % 10 == 0).then(|| (1, items.value(key, 1)));
            assert_eq!(get(&table, &items.key(key)), expected);
        }
    }
}
