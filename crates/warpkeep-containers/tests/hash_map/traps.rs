//! Mistakes that other hash tables for GPUs made, each as a test.

use warpkeep_containers::{HashMap, HashMapOptions, MapOp, MapOpKind, MapStatus, Upsert};
use warpkeep_device::sim::{Fast, Seeded};
use warpkeep_device::{Device, Mode};
use warpkeep_suites::device::Container as _;

use crate::calls::{CallKernels, Calls, Operation, Widths};
use crate::keys::{TestKey, TestValue, key_of_hash};
use crate::model::{Model, check_answers, check_contents};

fn map(device: &Device) -> HashMap {
    HashMap::new(device, &HashMapOptions::default().seed(0)).unwrap()
}

fn fast() -> Device {
    Device::simulated(Mode::fast()).unwrap()
}

/// Keys with the first bucket 3 and the second one 2 of 64.
fn in_two_buckets(count: u64) -> Vec<u64> {
    (0..count).map(|i| key_of_hash(3 | (i << 48))).collect()
}

fn statuses(map: &HashMap, ops: &[MapOp]) -> Vec<MapStatus> {
    map.apply(ops).unwrap().iter().map(|answer| answer.status).collect()
}

#[test]
fn a_displaced_key_goes_to_its_own_other_bucket() {
    // Four keys fill bucket 3. Then four whose first bucket is 3 and whose second ones differ; then more for bucket 3, which displace.
    let map = map(&fast());
    let keys: Vec<u64> = (0..40).map(|i| key_of_hash(3 | ((i % 32) << 32) | (i << 48))).collect();
    let answers = map.insert(&keys, &keys).unwrap();
    assert!(answers.iter().all(|answer| answer.status == MapStatus::Inserted), "{answers:?}");
    assert!(map.verify().unwrap() >= 36, "bucket 3 has four of them");
    let found: Vec<Option<u64>> = keys.iter().map(|key| Some(*key)).collect();
    assert_eq!(map.find(&keys).unwrap(), found);
}

#[test]
fn no_key_is_dropped_when_displacement_gives_up() {
    // The ninth key of two buckets has nowhere to go, and says so. The eight are there.
    let (map, keys) = (map(&fast()), in_two_buckets(9));
    let answers = map.insert(&keys, &keys).unwrap();
    let full: Vec<usize> = (0..9).filter(|&at| answers[at].status == MapStatus::Full).collect();
    assert_eq!(full.len(), 1);
    for (at, found) in map.find(&keys).unwrap().into_iter().enumerate() {
        assert_eq!(found.is_some(), at != full[0]);
    }
    assert_eq!(map.len().unwrap(), 8);
    // One goes, and the ninth has its place.
    map.erase(&[keys[(full[0] + 1) % 9]]).unwrap();
    assert_eq!(statuses(&map, &[MapOp::insert(keys[full[0]], 1)]), [MapStatus::Inserted]);
    map.verify().unwrap();
}

#[test]
fn a_key_with_an_empty_hash_is_a_key() {
    // Its slot stores no bit of the hash but the flag that it is there.
    let (map, keys) = (map(&fast()), [key_of_hash(0), key_of_hash(1), key_of_hash(u64::MAX), 0]);
    map.insert(&keys, &[1, 2, 3, 4]).unwrap();
    assert_eq!(map.find(&keys).unwrap(), [Some(1), Some(2), Some(3), Some(4)]);
    assert_eq!(map.find(&[key_of_hash(2), key_of_hash(64)]).unwrap(), [None, None]);
    map.erase(&keys).unwrap();
    assert!(map.is_empty().unwrap());
}

#[test]
fn a_key_in_its_second_bucket_is_not_inserted_again_into_the_first() {
    let (map, keys) = (map(&fast()), in_two_buckets(8));
    map.insert(&keys, &[7; 8]).unwrap();
    assert_eq!(map.verify().unwrap(), 4);
    // The first bucket has room now; four of the keys are in the second one.
    let first: Vec<u64> = keys.iter().copied().take(4).collect();
    for gone in &first {
        map.erase(&[*gone]).unwrap();
        for key in keys.iter().filter(|key| *key != gone) {
            let answer = map.insert(&[*key], &[9]).unwrap()[0];
            assert_ne!(answer.status, MapStatus::Full);
        }
        map.verify().unwrap();
        map.insert(&[*gone], &[7]).unwrap();
    }
    assert_eq!(map.len().unwrap(), 8);
    // And erase removes the only one.
    map.erase(&keys).unwrap();
    assert_eq!(map.contains(&keys).unwrap(), [false; 8]);
}

#[test]
fn a_lookup_does_not_stop_at_a_bucket_that_has_room() {
    // Displaced to the second bucket, then the first one is emptied: a key of the second bucket must still be found.
    let (map, keys) = (map(&fast()), in_two_buckets(8));
    map.insert(&keys, &keys).unwrap();
    for left in (0..8).rev() {
        map.erase(&[keys[left]]).unwrap();
        let found = map.contains(&keys).unwrap();
        assert!(found.iter().enumerate().all(|(at, found)| *found == (at < left)), "{found:?}");
    }
}

#[test]
fn a_lookup_in_a_full_map_ends() {
    let device = Device::simulated(Mode::Fast(Fast { step_limit: 10_000, ..Fast::default() })).unwrap();
    let map = HashMap::new(&device, &HashMapOptions::default().seed(0).most_bytes(4096)).unwrap();
    let keys: Vec<u64> = (0..400).collect();
    let answers = map.insert(&keys, &keys).unwrap();
    assert!(answers.iter().any(|answer| answer.status == MapStatus::Full));
    let others: Vec<u64> = (1000..2000).collect();
    assert!(map.contains(&others).unwrap().iter().all(|found| !found));
    map.erase(&keys).unwrap();
    assert!(map.contains(&keys).unwrap().iter().all(|found| !found));
}

#[test]
fn the_first_operation_on_a_key_and_those_after_it_do_not_race() {
    // A sum that begins in the batch: every schedule, each addition once.
    for seed in 0..20 {
        let device =
            Device::simulated(Mode::Seeded(Seeded { switch_chance: 400, ..Seeded::new(seed) })).unwrap();
        let map = map(&device);
        let ops: Vec<MapOp> = (0..60).map(|i| MapOp::add(i % 3, 1)).collect();
        let answers = map.apply(&ops).unwrap();
        for (at, answer) in answers.iter().enumerate() {
            assert_eq!(answer.before, at as u64 / 3, "seed {seed}");
        }
        assert_eq!(map.find(&[0, 1, 2]).unwrap(), [Some(20); 3]);
    }
}

#[test]
fn answers_do_not_depend_on_what_their_memory_had() {
    // Answers go to memory of earlier batches, which is not cleared.
    let map = map(&fast());
    map.insert(&[1, 2, 3], &[10, 20, 30]).unwrap();
    assert_eq!(map.find(&[1, 2, 3]).unwrap(), [Some(10), Some(20), Some(30)]);
    assert_eq!(map.find(&[4, 5, 6]).unwrap(), [None; 3]);
    let answers = map.apply(&[MapOp::find(4), MapOp::contains(1), MapOp::erase(9)]).unwrap();
    assert!(answers.iter().all(|answer| answer.before == 0), "{answers:?}");
}

#[test]
fn pairs_are_never_torn() {
    // Values have a relation to their keys that each half of a torn pair would break.
    for seed in 0..10 {
        let device =
            Device::simulated(Mode::Seeded(Seeded { switch_chance: 500, ..Seeded::new(seed) })).unwrap();
        let map = map(&device);
        let keys: Vec<u64> = (0..100).map(|i| (i << 40) | i).collect();
        for round in 0..3_u64 {
            let values: Vec<u64> = keys.iter().map(|key| key.wrapping_mul(2 * round + 1)).collect();
            let ops: Vec<MapOp> =
                keys.iter().zip(&values).map(|(key, value)| MapOp::put(*key, *value)).collect();
            map.apply(&ops).unwrap();
            let right: Vec<Option<u64>> = values.iter().map(|value| Some(*value)).collect();
            assert_eq!(map.find(&keys).unwrap(), right);
        }
    }
}

/// A kernel that never ends fails.
fn limited() -> Device {
    Device::simulated(Mode::Fast(Fast { step_limit: 10_000, ..Fast::default() })).unwrap()
}

#[test]
fn a_map_without_a_free_slot_does_all_that_needs_none() {
    // A load of 1: four keys for each of 64 buckets, and no memory to grow.
    for device in [limited(), Device::simulated(Mode::seeded(3)).unwrap()] {
        let map = HashMap::new(&device, &HashMapOptions::default().seed(0).most_bytes(4096)).unwrap();
        let keys: Vec<u64> = (0..256).map(|i| key_of_hash((i % 64) | (i << 32))).collect();
        assert!(map.insert(&keys, &keys).unwrap().iter().all(|answer| answer.status == MapStatus::Inserted));
        assert_eq!(map.stats().unwrap().load, 1.0);
        map.verify().unwrap();
        let others: Vec<u64> = (0..256).map(|i| key_of_hash((i % 64) | ((i + 1000) << 32))).collect();
        assert_eq!(map.find(&others).unwrap(), [None; 256]);
        assert!(map.insert(&others, &others).unwrap().iter().all(|answer| answer.status == MapStatus::Full));
        assert!(map.erase(&others).unwrap().iter().all(|answer| answer.status == MapStatus::Absent));
        // What was refused has moved nothing out, and keys that are there change.
        let there: Vec<Option<u64>> = keys.iter().map(|key| Some(*key)).collect();
        assert_eq!(map.find(&keys).unwrap(), there);
        let added = map.upsert(Upsert::Add, &keys, &[1; 256]).unwrap();
        assert!(added.iter().all(|answer| answer.status == MapStatus::Updated));
        // One goes in each bucket, and others have their slots.
        map.erase(&keys[..64]).unwrap();
        assert!(
            map.insert(&others[..64], &others[..64])
                .unwrap()
                .iter()
                .all(|answer| answer.status == MapStatus::Inserted)
        );
        let left = keys[64..].iter().map(|key| (*key, key.wrapping_add(1)));
        let model: Model = left.chain(others[..64].iter().map(|key| (*key, *key))).collect();
        assert_eq!(map.stats().unwrap().load, 1.0);
        check_contents(&map, &model).unwrap();
    }
}

#[test]
fn a_map_that_grew_and_was_emptied_is_filled_again() {
    let map = map(&limited());
    for round in 0..3_u64 {
        let keys: Vec<u64> = (0..2000).map(|i| i + 1000 * round).collect();
        assert!(map.insert(&keys, &keys).unwrap().iter().all(|answer| answer.status == MapStatus::Inserted));
        map.verify().unwrap();
        assert!(map.erase(&keys).unwrap().iter().all(|answer| answer.status == MapStatus::Erased));
        assert!(map.is_empty().unwrap() && map.retrieve_all().unwrap().is_empty());
        assert!(map.contains(&keys).unwrap().iter().all(|found| !found));
        assert!(map.erase(&keys).unwrap().iter().all(|answer| answer.status == MapStatus::Absent));
    }
}

#[test]
fn batches_of_any_length_leave_no_lane_behind() {
    // Lanes without an operation take part in what their warp and their block do together. The simulator notices if they do not.
    for (seed, count) in [1, 2, 31, 32, 33, 63, 65, 127, 128, 129, 161, 255, 257].into_iter().enumerate() {
        let map = map(&Device::simulated(Mode::seeded(seed as u64)).unwrap());
        map.reserve(1000).unwrap();
        let mut model = Model::new();
        let mut run = |op: fn(u64) -> MapOp, first: u64| {
            let ops: Vec<MapOp> = (first..first + count).map(op).collect();
            let (keys, values): (Vec<u64>, Vec<u64>) = ops.iter().map(|op| (op.key, op.value)).unzip();
            let answers = match ops[0].kind {
                MapOpKind::Insert => map.insert(&keys, &values).unwrap(),
                MapOpKind::Erase => map.erase(&keys).unwrap(),
                _ => map.apply(&ops).unwrap(),
            };
            check_answers(&mut model, &ops, &answers).unwrap();
        };
        // Into an empty map; half of them there; mixed; half of them gone.
        run(|key| MapOp::insert(key, 2 * key), 0);
        run(|key| MapOp::insert(key, 3), count / 2);
        run(|key| if key % 3 == 0 { MapOp::find(key) } else { MapOp::add(key / 2, 1) }, 0);
        run(MapOp::erase, count / 3);
        let found = map.find(&(0..count).collect::<Vec<u64>>()).unwrap();
        assert!((0..count).zip(found).all(|(key, found)| model.get(&key).copied() == found));
        check_contents(&map, &model).unwrap();
    }
}

#[test]
fn a_key_is_found_while_others_are_displaced() {
    // Bucket 3 of 64 is the first one of all keys, and 32 others are their second ones: most batches move keys from one to the other.
    let map = map(&fast());
    let keys: Vec<u64> = (0..100).map(|i| key_of_hash(3 | ((i % 32) << 32) | (i << 48))).collect();
    let (stay, come) = keys.split_at(20);
    map.insert(stay, stay).unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for round in 0..60 {
                let some = &come[round % 60..round % 60 + 20];
                map.apply(&some.iter().map(|key| MapOp::put(*key, 1)).collect::<Vec<_>>()).unwrap();
                map.erase(some).unwrap();
            }
        });
        for _ in 0..2 {
            threads.spawn(|| {
                let there: Vec<Option<u64>> = stay.iter().map(|key| Some(*key)).collect();
                for _ in 0..150 {
                    assert_eq!(map.find(stay).unwrap(), there);
                }
            });
        }
    });
    assert!(map.verify().unwrap() > 0, "keys are in their second buckets");
    assert_eq!(map.len().unwrap(), 20);
}

/// Threads that put and find the same few keys in one launch. Keys and values have a relation of their halves that a torn pair would not have.
fn torn<K: TestKey, V: TestValue>(seeds: u64) -> Option<String>
where
    CallKernels: Widths<K, V>,
{
    let whole = |number: u64| number << 32 | number;
    (0..seeds).find_map(|seed| {
        let mode = Mode::Seeded(Seeded { switch_chance: 500, ..Seeded::new(seed) });
        let calls = Calls::<K, V>::create(&Device::simulated(mode).unwrap(), 0).unwrap();
        let ops: Vec<Operation> = (0..128).map(|i| (whole(i / 2 % 5 + 1), whole(i / 2 + 1))).collect();
        let found = calls.find_beside_puts(&ops).unwrap();
        ops.iter().skip(1).step_by(2).zip(found).find_map(|((key, _), answer)| {
            let mut put = ops.iter().step_by(2).filter(|(other, _)| other == key);
            let is_whole =
                answer.status == MapStatus::Absent || put.any(|(_, number)| answer.before == V::of(*number));
            (!is_whole).then(|| format!("seed {seed}: key {key:x} was found with {answer:?}"))
        })
    })
}

#[test]
fn pairs_are_not_torn_inside_a_launch() {
    assert_eq!(torn::<u64, u64>(12), None);
    assert_eq!(torn::<u64, u32>(6), None);
    assert_eq!(torn::<u32, u64>(6), None);
    assert_eq!(torn::<u64, [u64; 2]>(6), None);
    assert_eq!(torn::<u32, [u64; 2]>(6), None);
}

#[test]
fn what_is_asked_of_a_whole_map_is_right_beside_changes() {
    let device = fast();
    let map = map(&device);
    let stay: Vec<u64> = (0..300).collect();
    map.insert(&stay, &stay).unwrap();
    // Each writer adds 50 keys or removes them, as a whole.
    let lengths = [300, 350, 400];
    std::thread::scope(|threads| {
        for writer in 1..3_u64 {
            let map = &map;
            threads.spawn(move || {
                let keys: Vec<u64> = (0..50).map(|i| writer << 40 | i).collect();
                for _ in 0..40 {
                    map.insert(&keys, &keys).unwrap();
                    map.erase(&keys).unwrap();
                }
            });
        }
        threads.spawn(|| (0..100).for_each(|_| assert!(lengths.contains(&map.len().unwrap()))));
        threads.spawn(|| (0..100).for_each(|_| assert!(lengths.contains(&map.stats().unwrap().items))));
        threads.spawn(|| (0..40).for_each(|_| assert!(map.verify().is_ok())));
        for _ in 0..2 {
            threads.spawn(|| {
                let stream = device.stream().unwrap();
                let (mut keys, mut values) =
                    (device.allocate(8 * 400).unwrap(), device.allocate(8 * 400).unwrap());
                for _ in 0..40 {
                    let count = map.retrieve_all_on(&mut keys, &mut values, &stream).unwrap();
                    assert!(lengths.contains(&count), "{count}");
                    let mut listed = keys.to_vec::<u64>().unwrap()[..count as usize].to_vec();
                    assert_eq!(listed, values.to_vec::<u64>().unwrap()[..count as usize]);
                    listed.sort_unstable();
                    assert_eq!(listed[..300], stay);
                }
            });
        }
    });
    assert_eq!(map.len().unwrap(), 300);
    map.verify().unwrap();
}

/// A map with 1024 buckets and no more: its keys up to this share of the slots are found, and no other is.
fn found_at_load<K: TestKey, V: TestValue>(permille: u64) {
    let bucket = 64 + if size_of::<V>() == 16 { 16 * crate::crowded::slots::<K, V>() } else { 0 };
    let options = HashMapOptions::default().seed(0).most_bytes(bucket << 10);
    let map = HashMap::<K, V>::new(&fast(), &options).unwrap();
    let slots = map.stats().unwrap().slots << 4;
    let (mut there, mut tried) = (Vec::new(), 0);
    while (there.len() as u64) * 1000 < slots * permille {
        let left = (slots * permille).div_ceil(1000) - there.len() as u64;
        let keys: Vec<K> = (tried..tried + left).map(K::cut).collect();
        let values: Vec<V> = (tried..tried + left).map(V::of).collect();
        tried += left;
        assert!(tried < 4 * slots, "{} of {slots} slots are full after {tried} keys", there.len());
        let answers = map.insert(&keys, &values).unwrap();
        let pairs = keys.into_iter().zip(values).zip(answers);
        there.extend(pairs.filter(|(_, answer)| answer.status == MapStatus::Inserted).map(|(pair, _)| pair));
    }
    assert_eq!(map.stats().unwrap().slots, slots);
    let keys: Vec<K> = there.iter().map(|(key, _)| *key).collect();
    let right: Vec<Option<V>> = there.iter().map(|(_, value)| Some(*value)).collect();
    assert_eq!(map.find(&keys).unwrap(), right);
    let others: Vec<K> = (1 << 20..(1 << 20) + slots).map(K::cut).collect();
    assert!(map.find(&others).unwrap().iter().all(Option::is_none));
    assert!(map.erase(&others).unwrap().iter().all(|answer| answer.status == MapStatus::Absent));
    map.verify().unwrap();
    // Half of them go; the rest is found, and what went is not.
    let (gone, left) = keys.split_at(keys.len() / 2);
    map.erase(gone).unwrap();
    assert!(map.contains(gone).unwrap().iter().all(|found| !found));
    assert_eq!(map.find(left).unwrap(), right[gone.len()..]);
}

#[test]
fn keys_are_found_and_others_missed_at_high_loads() {
    for permille in [900, 950, 980] {
        found_at_load::<u64, u64>(permille);
        found_at_load::<u32, u32>(permille);
        found_at_load::<u64, [u64; 2]>(permille);
    }
}
