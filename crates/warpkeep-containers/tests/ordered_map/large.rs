//! Batches so large that the device plans them.

use warpkeep_containers::{
    ContainerError, OrderedChange, OrderedKey, OrderedMap, OrderedMapOptions, OrderedOp, OrderedOpKind,
    OrderedWord,
};
use warpkeep_device::{Device, Mode};
use warpkeep_suites::device::Dice;

use crate::container::random_op;
use crate::model::{KINDS, Model, check_answers, check_contents, expected, key_of};

fn map<K: OrderedKey<V>, V: OrderedWord>() -> OrderedMap<K, V> {
    OrderedMap::new(&Device::simulated(Mode::fast()).unwrap(), &OrderedMapOptions::default()).unwrap()
}

/// What each operation of one kind answers, one after the other.
fn right<K: OrderedWord, V: OrderedWord>(
    model: &mut Model<K, V>,
    kind: OrderedOpKind,
    keys: &[K],
    values: &[V],
) -> Vec<OrderedChange<V>> {
    let ops = keys.iter().zip(values).map(|(key, value)| OrderedOp::new(kind, *key, *value));
    ops.map(|op| expected(model, &op))
        .map(|answer| OrderedChange { status: answer.status, before: answer.value })
        .collect()
}

/// Batches of one kind, of whose keys half are there and some come twice: most answers are not the usual one.
fn half_is_there<K: OrderedKey<V>, V: OrderedWord>() {
    let (map, mut model, mut dice) = (map::<K, V>(), Model::new(), Dice::new(5));
    let number = |i: u64| i.wrapping_mul(0x9E37_79B9) % (1 << 31);
    let keys: Vec<K> = (0..6000).map(|i| key_of(number(i))).chain([key_of(u64::MAX)]).collect();
    // One value in three is zero, as that of a key that was not there.
    let values: Vec<V> = (0..6001).map(|i| key_of(i % 3 * 7)).collect();
    let insert = OrderedOpKind::Insert;
    assert_eq!(map.insert(&keys, &values).unwrap(), right(&mut model, insert, &keys, &values));
    let mixed: Vec<K> = (0..7000).map(|_| key_of(number(dice.below(12_000)))).chain([keys[6000]]).collect();
    let values: Vec<V> = (0..7001).map(|i| key_of(i + 1)).collect();
    let before = map.snapshot();
    assert_eq!(map.insert(&mixed, &values).unwrap(), right(&mut model, insert, &mixed, &values));
    check_contents(&map, &model).unwrap();
    let gone: Vec<K> = (0..5000).map(|_| key_of(number(dice.below(12_000)))).chain([keys[6000]]).collect();
    let erase = OrderedOpKind::Erase;
    assert_eq!(map.erase(&gone).unwrap(), right(&mut model, erase, &gone, &values));
    check_contents(&map, &model).unwrap();
    assert_eq!(before.len(), 6001);
}

#[test]
fn answers_that_are_not_the_usual_one_are_right() {
    half_is_there::<u32, u32>();
    half_is_there::<u64, u64>();
    half_is_there::<u128, u64>();
}

/// Batches of which all operations change something, none, the first, the last, and only some that are far apart.
fn all_or_few_change<K: OrderedKey<V>, V: OrderedWord>() {
    let (map, mut model) = (map::<K, V>(), Model::new());
    let zeros: Vec<V> = vec![key_of(0); 5001];
    let batch = |map: &OrderedMap<K, V>, model: &mut Model<K, V>, keys: &[K]| {
        let answers = map.insert(keys, &zeros[..keys.len()]).unwrap();
        assert_eq!(answers, right(model, OrderedOpKind::Insert, keys, &zeros));
        check_contents(map, model).unwrap();
    };
    let even: Vec<K> = (0..5000).map(|i| key_of(20 * i)).collect();
    batch(&map, &mut model, &even);
    let odd: Vec<K> = (0..5000).map(|i| key_of(20 * i + 1)).collect();
    batch(&map, &mut model, &odd);
    let state = map.snapshot();
    batch(&map, &mut model, &odd);
    assert_eq!(map.stats().unwrap().pins.len(), 0, "nothing has changed");
    for at in [0, 1, 127, 128, 2500, 4998, 4999] {
        let mut keys = even.clone();
        keys[at] = key_of(20 * at as u64 + 2);
        keys[4999 - at] = key_of(20 * at as u64 + 3);
        batch(&map, &mut model, &keys);
    }
    drop(state);
    map.verify().unwrap();
}

#[test]
fn batches_that_change_all_or_few_of_their_keys_are_done_alike() {
    all_or_few_change::<u32, u32>();
    all_or_few_change::<u64, u64>();
    all_or_few_change::<u128, u64>();
}

/// Batches of all operations, ranges and neighbours among them, which see those before them.
fn mixed<K: OrderedKey<V>, V: OrderedWord>() {
    let (map, mut model, mut dice) = (map::<K, V>(), Model::new(), Dice::new(9));
    for _ in 0..3 {
        let ops: Vec<OrderedOp<K, V>> = (0..4500).map(|_| random_op(&mut dice)).collect();
        check_answers(&mut model, &ops, &map.apply(&ops).unwrap()).unwrap();
        check_contents(&map, &model).unwrap();
    }
    // All ask for ranges from the same key on, between operations on it and on those around it.
    let ops: Vec<OrderedOp<K, V>> = (0..4500)
        .map(|i| match i % 3 {
            0 => OrderedOp {
                kind: OrderedOpKind::Range,
                end: key_of(dice.below(30)),
                ..OrderedOp::find(key_of(5))
            },
            1 => OrderedOp::new(KINDS[dice.below(14) as usize], key_of(dice.below(15)), key_of(i)),
            _ => OrderedOp {
                kind: OrderedOpKind::Count,
                end: key_of(u64::MAX),
                ..OrderedOp::find(key_of(i % 9))
            },
        })
        .collect();
    check_answers(&mut model, &ops, &map.apply(&ops).unwrap()).unwrap();
    check_contents(&map, &model).unwrap();
}

#[test]
fn reads_of_large_batches_see_what_comes_before_them() {
    mixed::<u32, u32>();
    mixed::<u64, u64>();
    mixed::<u128, u64>();
}

#[test]
fn changes_of_leaves_far_apart_leave_the_others_where_they_belong() {
    // About 2700 leaves: blocks that keep leaves have 512 each.
    let (map, mut model, mut dice) = (map::<u64, u64>(), Model::new(), Dice::new(6));
    let keys: Vec<u64> = (0..30_000).map(|i| 100 * i).collect();
    map.insert(&keys, &keys).unwrap();
    model.extend(keys.iter().map(|key| (*key, *key)));
    for round in 0..6 {
        // In turn a few leaves, and many of which some become several and some none.
        let most = if round % 2 == 0 { 40 } else { 2500 };
        let mut ops: Vec<OrderedOp<u64, u64>> = vec![];
        for _ in 0..most {
            let near = 100 * dice.below(30_000);
            match dice.below(4) {
                0 => ops.push(OrderedOp::put(near, round)),
                1 => ops.extend((0..16).map(|i| OrderedOp::erase(near + 100 * i))),
                _ => ops.extend((0..1 + dice.below(40)).map(|i| OrderedOp::insert(near + i, round))),
            }
        }
        check_answers(&mut model, &ops, &map.apply(&ops).unwrap()).unwrap();
        check_contents(&map, &model).unwrap();
    }
}

fn sorted_builds<K: OrderedKey<V>, V: OrderedWord>() {
    let device = Device::simulated(Mode::fast()).unwrap();
    let build = |keys: &[K], values: &[V]| {
        OrderedMap::build_sorted(&device, &OrderedMapOptions::default(), keys, values)
    };
    let keys: Vec<K> = (0..5000).map(|i| key_of(7 * i + 1)).collect();
    let values: Vec<V> = (0..5000).map(|i| key_of(i + 1)).collect();
    let check = |map: &OrderedMap<K, V>, keys: &[K]| {
        let model = keys.iter().copied().zip(values.iter().copied()).collect();
        check_contents(map, &model).unwrap();
    };
    check(&build(&keys, &values).unwrap(), &keys);
    // Blocks look at 1024 keys each, and at the one before.
    for at in [1_usize, 2, 1023, 1024, 1025, 2048, 4998, 4999] {
        let mut repeats = keys.clone();
        repeats[at] = repeats[at - 1];
        let map = build(&repeats, &values).unwrap();
        check(&map, &repeats);
        assert_eq!(map.find(&repeats[at..=at]).unwrap(), [Some(values[at])], "the last one counts");
        let mut wrong = keys.clone();
        wrong[at] = key_of(0);
        // More mistakes behind the first.
        wrong[4999] = key_of(0);
        let refused = build(&wrong, &values).unwrap_err();
        assert!(matches!(refused, ContainerError::NotSorted { at: found } if found == at), "{refused}");
    }
}

#[test]
fn sorted_builds_see_every_key_that_repeats_or_is_out_of_order() {
    sorted_builds::<u32, u32>();
    sorted_builds::<u64, u64>();
    sorted_builds::<u128, u64>();
}

#[test]
fn a_sorted_build_copies_no_column() {
    let device = Device::simulated(Mode::fast()).unwrap();
    let (count, stream) = (100_000, device.stream().unwrap());
    let keys = device.upload(&(0..count).collect::<Vec<u64>>()).unwrap();
    let values = device.upload(&(1..=count).collect::<Vec<u64>>()).unwrap();
    let map = OrderedMap::<u64, u64>::new(&device, &OrderedMapOptions::default()).unwrap();
    let before = device.allocated();
    map.put_sorted_on(&keys, &values, count as usize, &stream).unwrap();
    let stats = map.stats().unwrap();
    let others = device.allocated() - before - stats.bytes;
    assert!(others < count, "{others} bytes beside those of leaves and directories");
    assert_eq!(map.find(&[0, 99_999]).unwrap(), [Some(1), Some(100_000)]);
    map.verify().unwrap();
}
