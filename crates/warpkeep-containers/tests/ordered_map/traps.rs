//! What other ordered maps got wrong.

use std::collections::BTreeMap;

use warpkeep_containers::{OrderedMap, OrderedMapOptions, OrderedOp, OrderedStatus, Upsert};
use warpkeep_device::{Device, Mode};
use warpkeep_suites::device::Dice;

use crate::model::check_contents;

fn map() -> OrderedMap<u64, u64> {
    OrderedMap::new(&Device::simulated(Mode::fast()).unwrap(), &OrderedMapOptions::default()).unwrap()
}

#[test]
fn reverse_and_empty_ranges_have_no_pairs() {
    let map = map();
    assert_eq!(map.count(&[0], &[u64::MAX]).unwrap(), [0]);
    assert!(map.range(&[0], &[u64::MAX], None).unwrap().keys.is_empty());
    map.insert(&[0, 5, u64::MAX], &[1, 2, 3]).unwrap();
    let (lows, highs) = ([0, 5, 6, 9, 1, u64::MAX], [u64::MAX, 5, 5, 1, 4, 0]);
    assert_eq!(map.count(&lows, &highs).unwrap(), [3, 1, 0, 0, 0, 0]);
    let ranges = map.range(&lows, &highs, None).unwrap();
    assert_eq!((&ranges.offsets[..], &ranges.values[..]), (&[0, 3, 4, 4, 4, 4, 4][..], &[1, 2, 3, 2][..]));
    assert_eq!(map.insert(&[0, u64::MAX], &[9, 9]).unwrap()[1].status, OrderedStatus::Found);
    map.erase(&[0, 5, u64::MAX]).unwrap();
    assert_eq!((map.len(), map.min().unwrap(), map.max().unwrap()), (0, None, None));
    map.verify().unwrap();
}

#[test]
fn an_empty_map_answers_everything() {
    let map = map();
    let ops = [
        OrderedOp::find(1),
        OrderedOp::erase(1),
        OrderedOp::successor(0),
        OrderedOp::predecessor(9),
        OrderedOp::count(0, u64::MAX),
        OrderedOp::range(0, u64::MAX),
    ];
    assert!(map.apply(&ops).unwrap().iter().all(|answer| answer.status == OrderedStatus::Absent));
    assert!(map.apply(&[]).unwrap().is_empty() && map.find(&[]).unwrap().is_empty());
    assert_eq!((map.rank(&[5]).unwrap(), map.nth(&[0]).unwrap()), (vec![0], vec![None]));
    assert_eq!(map.stats().unwrap().leaves, 0);
    // A batch that leaves nothing.
    let answers = map.apply(&[OrderedOp::put(1, 2), OrderedOp::range(0, 9), OrderedOp::erase(1)]).unwrap();
    assert_eq!((&answers[1].pairs[..], map.len()), (&[(1, 2)][..], 0));
    map.verify().unwrap();
}

#[test]
fn keys_inserted_in_order_and_in_reverse_fill_leaves_alike() {
    for is_reverse in [false, true] {
        for batch in [1_u64, 5, 100] {
            let (map, mut model) = (map(), BTreeMap::new());
            for first in (0..600).step_by(batch as usize) {
                let key = |i: u64| if is_reverse { u64::MAX - i } else { i };
                let keys: Vec<u64> = (first..first + batch).map(key).collect();
                map.insert(&keys, &keys).unwrap();
                model.extend(keys.iter().map(|key| (*key, *key)));
            }
            check_contents(&map, &model).unwrap();
            let stats = map.stats().unwrap();
            assert!(stats.load > 0.45, "{batch} at a time: {stats:?}");
        }
    }
}

#[test]
fn all_operations_on_one_key_act_in_their_order() {
    let (map, ones) = (map(), vec![1; 6000]);
    let answers = map.upsert(Upsert::Add, &vec![7; 6000], &ones).unwrap();
    assert!(answers.iter().zip(0..).all(|(answer, before)| answer.before == before));
    assert_eq!((map.len(), map.find(&[7]).unwrap()), (1, vec![Some(6000)]));
    // Ranges between them see each step.
    let ops: Vec<OrderedOp<u64, u64>> =
        (0..300).flat_map(|_| [OrderedOp::add(7, 1), OrderedOp::range(7, 7)]).collect();
    for (at, answer) in map.apply(&ops).unwrap().iter().enumerate().skip(1).step_by(2) {
        assert_eq!(answer.pairs, [(7, 6001 + at as u64 / 2)]);
    }
}

#[test]
fn ranges_go_across_leaves_that_were_emptied_and_their_memory_comes_back() {
    let (map, keys) = (map(), (0..5000).collect::<Vec<u64>>());
    map.insert(&keys, &keys).unwrap();
    let before = map.stats().unwrap();
    map.erase(&keys[100..4900]).unwrap();
    map.verify().unwrap();
    assert_eq!(map.range(&[98], &[4901], None).unwrap().keys, [98, 99, 4900, 4901]);
    assert_eq!(map.count(&[100, 99, 200], &[4899, 4900, 300]).unwrap(), [0, 2, 0]);
    let after = map.stats().unwrap();
    assert!(after.leaves <= before.leaves / 20, "{after:?} of {before:?}");
    assert!(after.free_leaves >= before.leaves - after.leaves, "{after:?} of {before:?}");
    // One key of every leaf: neighbours become one, again and again.
    let (map, mut model) = (self::map(), keys.iter().map(|key| (*key, *key)).collect::<BTreeMap<_, _>>());
    map.insert(&keys, &keys).unwrap();
    for round in 0..10 {
        let gone: Vec<u64> = keys.iter().copied().filter(|key| key % 11 == round).collect();
        map.erase(&gone).unwrap();
        model.retain(|key, _| key % 11 != round);
        check_contents(&map, &model).unwrap();
        let stats = map.stats().unwrap();
        // Two neighbours have at least 12 pairs, except at the end.
        assert!(stats.leaves <= 2 * stats.items.div_ceil(12) + 1, "{stats:?}");
    }
    // The memory is used again.
    let bytes = map.stats().unwrap().bytes;
    map.insert(&keys[..2500], &keys[..2500]).unwrap();
    assert!(map.stats().unwrap().bytes <= bytes + bytes / 8);
}

#[test]
fn a_bulk_build_sorts_or_does_not() {
    let device = Device::simulated(Mode::fast()).unwrap();
    let (mut dice, options) = (Dice::new(8), OrderedMapOptions::default());
    let keys: Vec<u64> = (0..20_000).map(|_| dice.below(1 << 20) << 40 | dice.below(4)).collect();
    let values: Vec<u64> = (0..20_000).collect();
    let model: BTreeMap<u64, u64> = keys.iter().copied().zip(values.iter().copied()).collect();
    let map = OrderedMap::build(&device, &options, &keys, &values).unwrap();
    check_contents(&map, &model).unwrap();
    let (keys, values): (Vec<u64>, Vec<u64>) = model.iter().map(|(key, value)| (*key, *value)).unzip();
    let sorted = OrderedMap::build_sorted(&device, &options, &keys, &values).unwrap();
    check_contents(&sorted, &model).unwrap();
    let stats = sorted.stats().unwrap();
    assert!(stats.load > 0.78 && stats.leaves == model.len().div_ceil(11) as u64, "{stats:?}");
    // Keys of 16 bytes are sorted by one half after the other.
    let wide: Vec<u128> =
        (0..9000).map(|_| u128::from(dice.below(50)) << 64 | u128::from(dice.below(60))).collect();
    let values: Vec<u64> = (0..9000).collect();
    let model: BTreeMap<u128, u64> = wide.iter().copied().zip(values.iter().copied()).collect();
    let map = OrderedMap::build(&device, &options, &wide, &values).unwrap();
    check_contents(&map, &model).unwrap();
    let (wide, values): (Vec<u128>, Vec<u64>) = model.iter().map(|(key, value)| (*key, *value)).unzip();
    let map = OrderedMap::build_sorted(&device, &options, &wide, &values).unwrap();
    check_contents(&map, &model).unwrap();
    // Of equal keys the last counts, sorted or not.
    let map = OrderedMap::build_sorted(&device, &options, &[1_u32, 1, 2, 2], &[1, 2, 3, 4]).unwrap();
    assert_eq!(map.retrieve_all().unwrap(), [(1, 2), (2, 4)]);
}

#[test]
fn a_batch_that_changes_no_value_writes_no_leaf() {
    let (map, keys) = (map(), (0..200).collect::<Vec<u64>>());
    map.insert(&keys, &keys).unwrap();
    let snapshot = map.snapshot();
    map.insert(&keys, &vec![1; 200]).unwrap();
    map.upsert(Upsert::Replace, &keys, &keys).unwrap();
    map.upsert(Upsert::Max, &keys, &vec![0; 200]).unwrap();
    map.erase(&[1000, 2000]).unwrap();
    let stats = map.stats().unwrap();
    assert_eq!((stats.retired_leaves, stats.pins.len()), (0, 0), "it is still the same state");
    drop(snapshot);
}

#[test]
fn lookups_of_many_keys_agree_with_lookups_of_few() {
    // Each thread that the simulator runs at once has four keys: then blocks keep the upper levels of the directory.
    let many = 4 * 512 * std::thread::available_parallelism().map_or(1, usize::from) as u32;
    // A directory without a level, of one level, of some that fit into shared memory, and of one that does not.
    for items in [0_u32, 5, 3000, 80_000] {
        let keys: Vec<u32> = (0..items).map(|i| 3 * i).collect();
        let device = Device::simulated(Mode::fast()).unwrap();
        let map = OrderedMap::build_sorted(&device, &OrderedMapOptions::default(), &keys, &keys).unwrap();
        let asked: Vec<u32> = (0..many).map(|i| i.wrapping_mul(0x9E37_79B9) % (4 * items + 2)).collect();
        let there = |key: &u32| (key.is_multiple_of(3) && *key < 3 * items).then_some(*key);
        let right: Vec<Option<u32>> = asked.iter().map(there).collect();
        assert_eq!(map.find(&asked).unwrap(), right);
        assert_eq!(map.find(&asked[..500]).unwrap(), right[..500]);
        let there: Vec<bool> = right.iter().map(Option::is_some).collect();
        assert_eq!(map.contains(&asked).unwrap(), there);
    }
    // Keys of 16 bytes, of which the largest is there.
    let device = Device::simulated(Mode::fast()).unwrap();
    let keys: Vec<u128> = (0..u128::from(many)).map(|i| u128::MAX - (i << 60)).collect();
    let map = OrderedMap::build(&device, &OrderedMapOptions::default(), &keys, &vec![7; keys.len()]).unwrap();
    assert!(map.find(&keys).unwrap().iter().all(|value| *value == Some(7)));
}
