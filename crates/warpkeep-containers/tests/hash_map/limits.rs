//! Hash maps that grow, that are full, whose keys were chosen, and for which memory is short.

use warpkeep_containers::{HashMap, HashMapOptions, HashSet, MapOp, MapStatus, Upsert};
use warpkeep_device::{Device, DeviceError, Mode};
use warpkeep_suites::device::Dice;

use crate::keys::key_of_hash;
use crate::model::{Model, check_answers, check_contents, expected, random_op};

fn device() -> Device {
    Device::simulated(Mode::fast()).unwrap()
}

fn options() -> HashMapOptions {
    HashMapOptions::default().seed(0)
}

fn map() -> HashMap {
    HashMap::new(&device(), &options()).unwrap()
}

#[test]
fn every_key_can_be_stored() {
    let map = map();
    let keys: Vec<u64> =
        (0..3000).chain((0..3000).map(|i| u64::MAX - i)).chain((0..64).map(|i| 1 << i)).collect();
    let values: Vec<u64> = keys.iter().map(|key| !key).collect();
    map.insert(&keys, &values).unwrap();
    let right: Vec<Option<u64>> = values.iter().map(|value| Some(*value)).collect();
    assert_eq!(map.find(&keys).unwrap(), right);
    // The keys 1 to 2^11 are among the others.
    assert_eq!(map.len().unwrap(), 6000 + 64 - 12);
    map.verify().unwrap();
}

#[test]
fn it_doubles_by_itself_from_the_smallest_size_on() {
    let (map, mut model, mut dice) = (map(), Model::new(), Dice::new(1));
    let mut sizes = vec![map.stats().unwrap().buckets];
    assert_eq!(sizes, [64]);
    for batch in 0..60 {
        let ops: Vec<MapOp> =
            (0..1000).map(|_| MapOp::put(dice.below(1 << 40), dice.below(1 << 40))).collect();
        let answers = map.apply(&ops).unwrap();
        check_answers(&mut model, &ops, &answers).unwrap();
        let stats = map.stats().unwrap();
        assert!(stats.load <= 1.0 && stats.items == model.len() as u64, "batch {batch}: {stats:?}");
        if sizes.last() != Some(&stats.buckets) {
            sizes.push(stats.buckets);
        }
    }
    check_contents(&map, &model).unwrap();
    assert!(*sizes.last().unwrap() == 16384 && sizes.len() >= 6, "{sizes:?}");
}

#[test]
fn a_large_batch_is_built_at_once_and_sorted_by_the_device() {
    let map = map();
    let keys: Vec<u64> = (0..100_000_u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
    let answers = map.insert(&keys, &keys).unwrap();
    assert!(answers.iter().all(|answer| answer.status == MapStatus::Inserted));
    let stats = map.stats().unwrap();
    assert_eq!((stats.items, stats.buckets), (100_000, 32768), "{stats:?}");
    map.verify().unwrap();
    let again = map.insert(&keys, &keys).unwrap();
    assert!(
        again
            .iter()
            .zip(&keys)
            .all(|(answer, key)| { answer.status == MapStatus::Found && answer.before == *key })
    );
    assert_eq!(map.stats().unwrap().buckets, 32768, "keys that are there need no room");
}

#[test]
fn an_empty_map_is_built_from_a_batch_of_any_size() {
    let modes = [Mode::fast(), Mode::seeded(1), Mode::seeded(2)];
    for (mode, count) in
        modes.into_iter().flat_map(|mode| [1, 31, 200, 243, 256, 900, 5000].map(|n| (mode.clone(), n)))
    {
        if mode != Mode::fast() && count > 900 {
            continue;
        }
        let device = Device::simulated(mode).unwrap();
        let (map, set) =
            (HashMap::new(&device, &options()).unwrap(), HashSet::new(&device, &options()).unwrap());
        // Every third key is there twice, and the size is that of the keys that are different.
        let keys: Vec<u64> = (0..count).map(|i| if i % 3 == 2 { i / 2 } else { i }).collect();
        let values: Vec<u64> = (0..count).collect();
        let ops: Vec<MapOp> = keys.iter().zip(&values).map(|(key, value)| MapOp::add(*key, *value)).collect();
        let mut model = Model::new();
        let answers = map.upsert(Upsert::Add, &keys, &values).unwrap();
        check_answers(&mut model, &ops, &answers).unwrap();
        check_contents(&map, &model).unwrap();
        let new = set.insert_new(&keys).unwrap();
        assert!(new.iter().zip(&answers).all(|(new, answer)| *new == (answer.status == MapStatus::Inserted)));
        assert_eq!(set.len().unwrap(), model.len() as u64);
        set.verify().unwrap();
        let (stats, smallest) = (map.stats().unwrap(), 64);
        assert!(stats.load > 0.47 || stats.buckets == smallest, "{stats:?}");
        // And once more when it was cleared.
        map.clear().unwrap();
        assert_eq!(map.upsert(Upsert::Add, &keys, &values).unwrap(), answers);
        check_contents(&map, &model).unwrap();
    }
}

#[test]
fn displacement_reaches_a_load_of_95_percent() {
    for seed in 0..4 {
        // It may not grow beyond 1024 buckets.
        let map = HashMap::new(&device(), &options().seed(seed).most_bytes(64 << 10)).unwrap();
        let (slots, mut stored) = (4096, 0);
        for batch in 0..60 {
            let keys: Vec<u64> = (0..100).map(|i| 100 * batch + i).collect();
            let answers = map.insert(&keys, &keys).unwrap();
            let inserted = answers.iter().filter(|answer| answer.status == MapStatus::Inserted).count();
            let full = answers.iter().filter(|answer| answer.status == MapStatus::Full).count();
            assert_eq!(inserted + full, 100);
            stored += inserted;
            assert!(full == 0 || stored * 100 >= slots * 95, "seed {seed}: full at {stored} of {slots}");
            let found = map.contains(&keys).unwrap();
            assert!(found.iter().zip(&answers).all(|(found, a)| *found == (a.status == MapStatus::Inserted)));
        }
        let second = map.verify().unwrap();
        assert!(stored as u64 == map.len().unwrap() && second > 0);
        assert_eq!(map.stats().unwrap().buckets, 1024);
        // Every key that was acknowledged is there, with its value.
        assert!(map.retrieve_all().unwrap().iter().all(|(key, value)| key == value));
    }
}

#[test]
fn a_full_map_answers_every_operation_of_a_batch() {
    let map = HashMap::new(&device(), &options().most_bytes(4096)).unwrap();
    let keys: Vec<u64> = (0..2000).collect();
    map.insert(&keys, &keys).unwrap();
    let held = map.len().unwrap();
    assert!((240..=256).contains(&held), "{held}");
    let new = 1 << 40;
    let ops = [
        MapOp::find(new),
        MapOp::insert(new, 1),
        MapOp::add(new, 1),
        MapOp::find(new),
        MapOp::erase(new),
        // Two operations that leave nothing need no room.
        MapOp::put(new + 1, 5),
        MapOp::erase(new + 1),
    ];
    let before = map.retrieve_all().unwrap();
    let statuses: Vec<MapStatus> = map.apply(&ops).unwrap().iter().map(|answer| answer.status).collect();
    use MapStatus::{Absent, Erased, Full, Inserted};
    if statuses[1] == Full {
        assert_eq!(statuses, [Absent, Full, Full, Absent, Absent, Inserted, Erased]);
        assert_eq!(map.retrieve_all().unwrap(), before);
    }
    // What is there can be changed and removed, and gives room.
    let (key, value) = before[0];
    assert_eq!(map.upsert(Upsert::Add, &[key], &[1]).unwrap()[0].before, value);
    assert_eq!(map.erase(&[key]).unwrap()[0].status, Erased);
    assert_eq!(map.insert(&[key], &[3]).unwrap()[0].status, Inserted);
    map.verify().unwrap();
}

/// Keys whose first bucket is `bucket` and whose second one is its neighbour, while there are no more than 2^16 buckets.
fn colliding(bucket: u64, count: u64) -> Vec<u64> {
    (0..count).map(|i| key_of_hash(bucket | (i << 48))).collect()
}

#[test]
fn keys_that_were_chosen_to_collide_are_stored_or_refused_and_nothing_else_suffers() {
    let (map, others) = (map(), (0..100).collect::<Vec<u64>>());
    map.insert(&others, &others).unwrap();
    let keys = colliding(5, 500);
    let answers = map.insert(&keys, &keys).unwrap();
    let stored = answers.iter().filter(|answer| answer.status == MapStatus::Inserted).count();
    let refused = answers.iter().filter(|answer| answer.status == MapStatus::Full).count();
    assert_eq!(stored + refused, 500);
    assert!((4..=8).contains(&stored), "two buckets have {stored} of them");
    // It does not take all memory there is for a few hundred keys.
    assert!(map.stats().unwrap().buckets <= 1024, "{:?}", map.stats().unwrap());
    let right: Vec<bool> = answers.iter().map(|answer| answer.status == MapStatus::Inserted).collect();
    assert_eq!(map.contains(&keys).unwrap(), right);
    assert!(map.contains(&others).unwrap().iter().all(|there| *there));
    map.verify().unwrap();
    // Another seed, and they are keys as all others are.
    let map = HashMap::new(&device(), &HashMapOptions::default().seed(77)).unwrap();
    assert!(map.insert(&keys, &keys).unwrap().iter().all(|answer| answer.status == MapStatus::Inserted));
}

#[test]
fn keys_stay_in_their_two_buckets_when_the_map_doubles() {
    // Eight keys of two buckets fill both; each doubling must keep all eight in two buckets of theirs.
    let (map, keys) = (map(), colliding(9, 8));
    assert!(map.insert(&keys, &keys).unwrap().iter().all(|answer| answer.status == MapStatus::Inserted));
    let others: Vec<u64> = (0..20_000).collect();
    map.insert(&others, &others).unwrap();
    assert_eq!(map.stats().unwrap().buckets, 8192);
    let right: Vec<Option<u64>> = keys.iter().map(|key| Some(*key)).collect();
    assert_eq!(map.find(&keys).unwrap(), right);
    map.verify().unwrap();
}

#[test]
fn deleting_and_inserting_again_for_many_rounds_leaves_no_trace() {
    let (map, mut model, mut dice) = (map(), Model::new(), Dice::new(9));
    let first: Vec<MapOp> = (0..900).map(|key| MapOp::put(key, key)).collect();
    let answers = map.apply(&first).unwrap();
    check_answers(&mut model, &first, &answers).unwrap();
    let buckets = map.stats().unwrap().buckets;
    for round in 0..60 {
        // A third of the keys goes, and others come: at a load of 0.9 most buckets are full.
        let mut ops: Vec<MapOp> = (0..300).map(|i| MapOp::erase((round * 300 + i) % 900)).collect();
        ops.extend((0..300).map(|i| MapOp::insert((round * 300 + i) % 900, dice.below(100))));
        if round % 2 == 1 {
            ops.rotate_left(150);
        }
        let answers = map.apply(&ops).unwrap();
        check_answers(&mut model, &ops, &answers).unwrap();
    }
    check_contents(&map, &model).unwrap();
    assert_eq!(map.stats().unwrap().buckets, buckets, "it does not grow by keys that went");
}

#[test]
fn memory_that_is_short_at_any_allocation_loses_nothing() {
    let device = device();
    let ops: Vec<MapOp> = {
        let mut dice = Dice::new(4);
        let mut op = || {
            let key = dice.below(9000);
            random_op(&mut dice, key)
        };
        (0..12_000).map(|_| op()).collect()
    };
    let (mut refused, mut full, mut done) = (0, 0, 0);
    for step in 0..90_u64 {
        let small = device.with_budget(step * step * 100);
        let map = match HashMap::new(&small, &options()) {
            Ok(map) => map,
            Err(error) => {
                assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{error}");
                refused += 1;
                continue;
            }
        };
        let mut model = Model::new();
        for ops in ops.chunks(3000) {
            match map.apply(ops) {
                Err(error) => {
                    assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{error}");
                    refused += 1;
                }
                Ok(answers) => {
                    for (op, answer) in ops.iter().zip(answers) {
                        let there = model.get(&op.key).copied();
                        let right = expected(&mut model, *op);
                        if answer.status == MapStatus::Full {
                            assert!(there.is_none() && op.kind.inserts());
                            model.remove(&op.key);
                            full += 1;
                        } else {
                            assert_eq!(answer, right, "{op:?}");
                        }
                        done += 1;
                    }
                }
            }
            check_contents(&map, &model).unwrap();
        }
    }
    assert!(refused > 10 && full > 10 && done > 100_000, "{refused} refused, {full} full, {done} done");
    assert_eq!(device.allocated(), 0);
}
