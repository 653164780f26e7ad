//! Snapshots: what they show, and what they keep.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use warpkeep_containers::{
    ContainerError, Near, OrderedMap, OrderedMapOptions, OrderedOp, OrderedOpKind, OrderedSnapshot, Upsert,
};
use warpkeep_device::sim::Seeded;
use warpkeep_device::{Device, DeviceError, Mode};
use warpkeep_suites::device::Dice;

fn map() -> OrderedMap<u64, u64> {
    OrderedMap::new(&Device::simulated(Mode::fast()).unwrap(), &OrderedMapOptions::default()).unwrap()
}

fn shows(snapshot: &OrderedSnapshot<u64, u64>, model: &BTreeMap<u64, u64>) {
    let pairs = model.iter().map(|(key, value)| (*key, *value));
    assert!(snapshot.retrieve_all().unwrap().into_iter().eq(pairs.clone()));
    let ranges = snapshot.range(&[0], &[u64::MAX], None).unwrap();
    assert!(ranges.keys.into_iter().zip(ranges.values).eq(pairs));
}

#[test]
fn many_snapshots_of_one_hot_leaf_are_released_in_any_order() {
    let (map, mut dice) = (map(), Dice::new(3));
    map.insert(&[1, 2, 3], &[0, 0, 0]).unwrap();
    let count = 10_000;
    let mut held = vec![];
    for round in 0..count {
        held.push((round, map.snapshot()));
        map.upsert(Upsert::Replace, &[2], &[round + 1]).unwrap();
    }
    let stats = map.stats().unwrap();
    assert_eq!((stats.retired_leaves, stats.pins.len()), (count, count as usize));
    assert!(stats.pins.iter().all(|pin| pin.items == 3 && pin.bytes >= 256), "{:?}", stats.pins);
    while !held.is_empty() {
        for _ in 0..1 + held.len() / 3 {
            held.swap_remove(dice.below(held.len() as u64) as usize);
        }
        // Each state has its own leaf: exactly those of the snapshots that are held are kept.
        let stats = map.stats().unwrap();
        assert_eq!(stats.retired_leaves as usize, held.len());
        map.verify().unwrap();
        for (value, snapshot) in &held {
            assert_eq!(snapshot.find(&[2]).unwrap(), [Some(*value)]);
        }
    }
    let stats = map.stats().unwrap();
    assert_eq!((stats.retired_leaves, stats.leaves + stats.free_leaves), (0, count + 1));
}

#[test]
fn a_batch_takes_as_many_steps_with_many_snapshots_as_with_few() {
    let steps = |window: usize| {
        let device = Device::simulated(Mode::Seeded(Seeded { switch_chance: 1, ..Seeded::new(1) })).unwrap();
        let map = OrderedMap::<u64, u64>::new(&device, &OrderedMapOptions::default()).unwrap();
        map.insert(&[1, 2, 3], &[0, 0, 0]).unwrap();
        let mut held = std::collections::VecDeque::new();
        let mut batch = |round: u64| {
            held.push_back(map.snapshot());
            if held.len() > window {
                held.pop_front();
            }
            map.upsert(Upsert::Replace, &[2], &[round + 1]).unwrap();
        };
        let rounds = 2 * window as u64 + 10;
        (0..rounds).for_each(&mut batch);
        let before = device.last_run().unwrap().now;
        (rounds..rounds + 10).for_each(&mut batch);
        let steps = device.last_run().unwrap().now - before;
        assert_eq!(map.stats().unwrap().retired_leaves as usize, window);
        steps / 10
    };
    let (few, many) = (steps(2), steps(120));
    assert!(many < 3 * few, "{few} steps of a batch with 2 snapshots, {many} with 120");
}

#[test]
fn versions_have_numbers_of_more_than_32_bits() {
    let options = OrderedMapOptions::default().first_version(u64::from(u32::MAX) - 4);
    let map = OrderedMap::<u64, u64>::new(&Device::simulated(Mode::fast()).unwrap(), &options).unwrap();
    let (keys, mut model, mut held) = ((0..100).collect::<Vec<u64>>(), BTreeMap::new(), Vec::new());
    for round in 0..12_u64 {
        let half: Vec<u64> = keys.iter().copied().filter(|key| key % 3 != round % 3).collect();
        map.upsert(Upsert::Replace, &half, &vec![round; half.len()]).unwrap();
        model.extend(half.iter().map(|key| (*key, round)));
        held.push((map.snapshot(), model.clone()));
    }
    let stats = map.stats().unwrap();
    assert_eq!(stats.pins.first().unwrap().version, u64::from(u32::MAX) - 3);
    assert!(stats.pins.iter().all(|pin| pin.bytes > 256), "{:?}", stats.pins);
    while !held.is_empty() {
        held.swap_remove(held.len() / 2);
        map.stats().unwrap();
        map.verify().unwrap();
        held.iter().for_each(|(snapshot, model)| shows(snapshot, model));
    }
    assert_eq!(map.stats().unwrap().retired_leaves, 0);
}

#[test]
fn batches_of_two_threads_act_one_after_the_other() {
    // Each batch adds its own bit to all keys and then asks for all pairs: they are those of some whole batches.
    let (map, keys) = (map(), (0..40).map(|i| 50 * i).collect::<Vec<u64>>());
    map.insert(&keys, &[0; 40]).unwrap();
    let of_thread = |thread: u64| -> Vec<u64> {
        let batch = |round: u64| {
            let add = keys.iter().map(|key| OrderedOp::add(*key, 1 << (32 * thread)));
            // Keys that come and go, of both threads.
            let other = OrderedOp::new(OrderedOpKind::Insert, 50 * (round % 40) + 1 + thread, 0);
            let gone = OrderedOp::erase(other.key);
            let ops: Vec<_> = add.chain([other, OrderedOp::range(0, 2000), gone]).collect();
            let answers = map.apply(&ops).unwrap();
            let pairs = &answers[41].pairs;
            assert_eq!(pairs.len(), 41, "the keys and the one that was added, and none of the other thread");
            let value = answers[0].value + (1 << (32 * thread));
            assert!(
                pairs.iter().all(|(key, its)| *its == if key % 50 == 0 { value } else { 0 }),
                "{pairs:?}"
            );
            value
        };
        (0..60).map(batch).collect()
    };
    let [mut all, second] = std::thread::scope(|scope| {
        [0, 1].map(|thread| scope.spawn(move || of_thread(thread))).map(|thread| thread.join().unwrap())
    });
    all.extend(second);
    // Every batch has seen what all before it have added: in the order of their sums each adds one to one half.
    all.sort_unstable_by_key(|value| (value >> 32) + (value & u64::from(u32::MAX)));
    for (at, value) in all.iter().enumerate() {
        assert_eq!((value >> 32) + (value & u64::from(u32::MAX)), at as u64 + 1);
    }
    assert!(map.find(&keys).unwrap().iter().all(|value| *value == Some(60 << 32 | 60)));
    map.verify().unwrap();
}

#[test]
fn a_snapshot_stays_over_splits_and_merges_and_a_map_that_is_dropped() {
    let (map, keys) = (map(), (0..300).map(|i| 4 * i).collect::<Vec<u64>>());
    let empty = map.snapshot();
    map.insert(&keys, &keys).unwrap();
    let (first, model) = (map.snapshot(), keys.iter().map(|key| (*key, *key)).collect::<BTreeMap<_, _>>());
    // Splits: four times the keys between those.
    let more: Vec<u64> = (0..1200).collect();
    map.insert(&more, &more).unwrap();
    let second = map.snapshot();
    shows(&first, &model);
    assert_eq!(
        first.count(&[0, 1], &[1200, 3]).unwrap(),
        [300, 0],
        "no key twice, none of the right half lost"
    );
    // Merges, down to nothing.
    map.erase(&more[7..]).unwrap();
    map.erase(&more).unwrap();
    assert!(map.is_empty());
    shows(&first, &model);
    assert_eq!(second.range(&[500], &[503], None).unwrap().keys, [500, 501, 502, 503]);
    let pins = map.stats().unwrap().pins;
    assert_eq!(pins.iter().map(|pin| pin.items).collect::<Vec<u64>>(), [0, 300, 1200]);
    assert!(pins[0].bytes == 0 && pins[1].bytes > 20 * 256 && pins[2].bytes > pins[1].bytes, "{pins:?}");
    map.verify().unwrap();
    drop((second, empty));
    let left = map.stats().unwrap();
    assert_eq!(left.retired_leaves, 300_u64.div_ceil(11), "those of the first state alone");
    map.verify().unwrap();
    drop(map);
    shows(&first, &model);
}

#[test]
fn threads_read_whole_batches_while_another_writes() {
    // Every batch gives all its keys the same value, and now and then other keys come and go: a state with two values is no state.
    let (map, done) = (map(), AtomicBool::new(false));
    let keys: Vec<u64> = (0..60).map(|i| 100 * i).collect();
    map.insert(&keys, &vec![0; 60]).unwrap();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut states = 0;
                    while !done.load(Ordering::Acquire) || states == 0 {
                        let snapshot = map.snapshot();
                        let values = snapshot.find(&keys).unwrap();
                        assert!(
                            values.iter().all(|value| *value == values[0] && value.is_some()),
                            "{values:?}"
                        );
                        let ranges = snapshot.range(&[0], &[6000], None).unwrap();
                        let hot = ranges.keys.iter().zip(&ranges.values).filter(|(key, _)| *key % 100 == 0);
                        assert!(hot.clone().all(|(_, value)| Some(*value) == values[0]) && hot.count() == 60);
                        assert_eq!(ranges.keys.len() as u64, snapshot.len());
                        states += 1;
                    }
                    states
                })
            })
            .collect();
        for round in 1..60 {
            map.upsert(Upsert::Replace, &keys, &vec![round; 60]).unwrap();
            let others: Vec<u64> = (0..200).map(|i| 17 * i + 1).filter(|key| key % 100 != 0).collect();
            match round % 2 {
                0 => map.erase(&others).unwrap(),
                _ => map.insert(&others, &others).unwrap(),
            };
        }
        done.store(true, Ordering::Release);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
    assert_eq!(map.stats().unwrap().retired_leaves, 0);
    map.verify().unwrap();
}

#[test]
fn a_snapshot_that_is_held_over_a_lost_device_answers_with_errors() {
    for steps in [1, 40, 400] {
        let device = Device::simulated(Mode::seeded(7)).unwrap();
        let map = OrderedMap::<u64, u64>::new(&device, &OrderedMapOptions::default()).unwrap();
        let keys: Vec<u64> = (0..100).collect();
        map.insert(&keys, &keys).unwrap();
        let (first, second) = (map.snapshot(), map.snapshot());
        let now = device.last_run().unwrap().now;
        device.simulator().unwrap().crash_at(Some(now + steps));
        let lost = |error: ContainerError| error.device().is_some_and(DeviceError::is_lost);
        assert!(lost(map.upsert(Upsert::Add, &keys, &keys).unwrap_err()), "after {steps} steps");
        // What the host knows is still there; the rest is an error, and nothing waits for ever.
        assert_eq!((first.len(), map.len()), (100, 100));
        assert!(lost(first.find(&keys).unwrap_err()) && lost(first.range(&[0], &[9], None).unwrap_err()));
        assert!(lost(first.retrieve_all().unwrap_err()) && lost(map.verify().unwrap_err()));
        drop(first);
        assert!(lost(map.erase(&keys).unwrap_err()) && lost(map.stats().unwrap_err()));
        drop(map);
        assert!(lost(second.successor(&[0], Near::strict()).unwrap_err()));
    }
}
