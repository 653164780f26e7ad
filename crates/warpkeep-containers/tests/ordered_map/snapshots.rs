//! Snapshots: what they show, and what they keep.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use warpkeep_containers::{ContainerError, Near, OrderedMap, OrderedMapOptions, OrderedSnapshot, Upsert};
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
    let count = if std::env::var_os("WARPKEEP_EXPLORE").is_some_and(|extent| extent == "full") {
        10_000
    } else {
        150
    };
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
