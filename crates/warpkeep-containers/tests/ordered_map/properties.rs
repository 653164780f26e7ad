//! The ordered map beside a map of the standard library.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use warpkeep_containers::{
    DeviceOrderedAnswers, DeviceOrderedOps, DevicePairs, Near, OrderedAnswer, OrderedKey, OrderedMap,
    OrderedMapOptions, OrderedOp, OrderedOpKinds, OrderedSnapshot, OrderedStatus, OrderedWord, PairLayout,
};
use warpkeep_device::{Device, Mode};

use crate::model::{KINDS, Model, check_contents, expected, key_of, shift};

fn config(cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(27), failure_persistence: None, ..Config::default() }
}

fn device() -> Device {
    Device::simulated(Mode::fast()).unwrap()
}

/// Keys of all kinds: few, so that operations of a batch meet, and any; the first and the last ones among them.
fn keys() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0..300_u64, 1 => any::<u64>(), 1 => (0..4_u64).prop_map(|i| u64::MAX - i)]
}

fn operations<K: OrderedWord, V: OrderedWord>(most: usize) -> impl Strategy<Value = Vec<OrderedOp<K, V>>> {
    // Insertions most of all, so that there is something to find.
    let kind = prop_oneof![1 => 0..2_usize, 1 => 0..KINDS.len()];
    let op = (kind, keys(), keys(), prop_oneof![0..10_u64, any::<u64>()]);
    let op = op.prop_map(|(kind, key, end, value)| OrderedOp {
        kind: KINDS[kind],
        key: key_of(key),
        end: key_of(end),
        value: V::from_u128(value.into()),
    });
    prop::collection::vec(op, 0..most)
}

/// Asks everything of a state, and compares with the pairs that it has.
fn check_reads<K: OrderedKey<V>, V: OrderedWord>(
    state: &OrderedSnapshot<K, V>,
    model: &Model<K, V>,
    asked: &[K],
) {
    let pair = |(key, value): (&K, &V)| (*key, *value);
    let each = |answer: &dyn Fn(K) -> Option<(K, V)>| -> Vec<Option<(K, V)>> {
        asked.iter().map(|key| answer(*key)).collect()
    };
    assert_eq!(state.len(), model.len() as u64);
    let found: Vec<Option<V>> = asked.iter().map(|key| model.get(key).copied()).collect();
    assert_eq!(state.find(asked).unwrap(), found);
    let there: Vec<bool> = found.iter().map(Option::is_some).collect();
    assert_eq!(state.contains(asked).unwrap(), there);
    let above = each(&|asked| model.iter().find(|(key, _)| **key > asked).map(pair));
    assert_eq!(state.successor(asked, Near::strict()).unwrap(), above);
    let within = key_of(20);
    let below = each(&|asked| {
        let found = model.iter().rev().find(|(key, _)| **key <= asked).map(pair)?;
        let (from, to) = (asked.to_u128(), found.0.to_u128());
        let (distance, group) = ((from - to) >> shift::<K>(), 4 + shift::<K>());
        (distance <= 20 && from >> group == to >> group).then_some(found)
    });
    assert_eq!(
        state.predecessor(asked, Near::or_equal().within(within).in_group(4 + shift::<K>())).unwrap(),
        below
    );
    assert_eq!(state.min().unwrap(), model.iter().next().map(pair));
    assert_eq!(state.max().unwrap(), model.iter().next_back().map(pair));
    let ranks: Vec<u64> = asked.iter().map(|key| model.range(..key).count() as u64).collect();
    assert_eq!(state.rank(asked).unwrap(), ranks);
    let numbers: Vec<u64> = (0..model.len() as u64 + 2).chain([u64::MAX, u32::MAX.into()]).collect();
    let nth: Vec<_> =
        numbers.iter().map(|n| model.iter().nth((*n).min(1 << 40) as usize).map(pair)).collect();
    assert_eq!(state.nth(&numbers).unwrap(), nth);
    // Bounds of which some are in the wrong order.
    let highs: Vec<K> = asked.iter().rev().copied().collect();
    let inside = |low: K, high: K| -> Vec<(K, V)> {
        model.iter().filter(|(key, _)| low <= **key && **key <= high).map(pair).collect()
    };
    let right: Vec<Vec<(K, V)>> = asked.iter().zip(&highs).map(|(low, high)| inside(*low, *high)).collect();
    let counts: Vec<u64> = right.iter().map(|pairs| pairs.len() as u64).collect();
    assert_eq!(state.count(asked, &highs).unwrap(), counts);
    for limit in [None, Some(0), Some(3), Some(1000)] {
        let ranges = state.range(asked, &highs, limit).unwrap();
        assert_eq!((ranges.len(), &ranges.counts), (asked.len(), &counts));
        for (at, right) in right.iter().enumerate() {
            let (keys, values) = ranges.of(at);
            let shown = right.iter().take(limit.unwrap_or(usize::MAX)).copied();
            assert!(keys.iter().copied().zip(values.iter().copied()).eq(shown), "range {at} with {limit:?}");
            assert_eq!(ranges.is_truncated(at), keys.len() < right.len());
        }
    }
    assert!(state.retrieve_all().unwrap().into_iter().eq(model.iter().map(pair)));
}

/// Runs a batch through device memory, where the device plans it; pairs of ranges one behind the other.
pub(crate) fn apply_on<K: OrderedKey<V>, V: OrderedWord>(
    device: &Device,
    map: &OrderedMap<K, V>,
    ops: &[OrderedOp<K, V>],
) -> Vec<OrderedAnswer<K, V>> {
    let (stream, count) = (device.stream().unwrap(), ops.len());
    let room = 4 * count * map.len().max(64) as usize;
    let codes = device.upload(&ops.iter().map(|op| op.kind as u8).collect::<Vec<u8>>()).unwrap();
    let keys = device.upload(&ops.iter().map(|op| op.key).collect::<Vec<K>>()).unwrap();
    let ends = device.upload(&ops.iter().map(|op| op.end).collect::<Vec<K>>()).unwrap();
    let values = device.upload(&ops.iter().map(|op| op.value).collect::<Vec<V>>()).unwrap();
    let (bytes, of_value) = (size_of::<K>(), size_of::<V>());
    let [mut statuses, mut before, mut found, mut counts, mut offsets, mut pair_keys, mut pair_values] =
        [count, of_value * count, bytes * count, 4 * count, 4 * (count + 1), bytes * room, of_value * room]
            .map(|bytes| device.allocate(bytes).unwrap());
    let batch = DeviceOrderedOps {
        kinds: OrderedOpKinds::Each(&codes),
        keys: &keys,
        ends: Some(&ends),
        values: Some(&values),
        count,
    };
    let pairs = DevicePairs {
        keys: &mut pair_keys,
        values: &mut pair_values,
        layout: PairLayout::Offsets(&mut offsets),
    };
    let answers = DeviceOrderedAnswers {
        statuses: &mut statuses,
        values: Some(&mut before),
        keys: Some(&mut found),
        counts: Some(&mut counts),
        pairs: Some(pairs),
    };
    map.apply_on(batch, answers, &stream).unwrap();
    if count == 0 {
        return vec![];
    }
    let statuses = statuses.to_vec::<u8>().unwrap();
    let statuses: &[OrderedStatus] = bytemuck::checked::cast_slice(&statuses);
    let (before, found) = (before.to_vec::<V>().unwrap(), found.to_vec::<K>().unwrap());
    let (counts, offsets) = (counts.to_vec::<u32>().unwrap(), offsets.to_vec::<u32>().unwrap());
    let mut answers = vec![];
    for at in 0..count {
        let (begin, end) = (offsets[at] as usize, offsets[at + 1] as usize);
        let (mut keys, mut values) = (vec![K::default(); end - begin], vec![V::default(); end - begin]);
        pair_keys.read(bytes * begin, &mut keys).unwrap();
        pair_values.read(of_value * begin, &mut values).unwrap();
        answers.push(OrderedAnswer {
            status: statuses[at],
            key: found[at],
            value: before[at],
            count: counts[at].into(),
            pairs: keys.into_iter().zip(values).collect(),
        });
    }
    answers
}

fn batches_agree<K: OrderedKey<V>, V: OrderedWord>(batches: &[Vec<OrderedOp<K, V>>]) {
    let device = device();
    let on_device = OrderedMap::new(&device, &OrderedMapOptions::default()).unwrap();
    let planned_there = OrderedMap::new(&device, &OrderedMapOptions::default()).unwrap();
    let on_cpu = OrderedMap::on_cpu(&OrderedMapOptions::default());
    let (mut model, mut states) = (Model::new(), vec![]);
    for (number, ops) in batches.iter().enumerate() {
        let right: Vec<OrderedAnswer<K, V>> = ops.iter().map(|op| expected(&mut model, op)).collect();
        assert_eq!(on_device.apply(ops).unwrap(), right);
        assert_eq!(apply_on(&device, &planned_there, ops), right);
        assert_eq!(on_cpu.apply(ops).unwrap(), right);
        check_contents(&on_device, &model).unwrap();
        check_contents(&planned_there, &model).unwrap();
        check_contents(&on_cpu, &model).unwrap();
        if number % 2 == 0 {
            states.push((on_device.snapshot(), on_cpu.snapshot(), model.clone()));
        }
    }
    let mut asked: Vec<K> = batches.iter().flatten().map(|op| op.key).step_by(7).collect();
    asked.extend([0, 1, u64::MAX, u64::MAX - 9].map(key_of::<K>));
    for (on_device, on_cpu, model) in &states {
        check_reads(on_device, model, &asked);
        check_reads(on_cpu, model, &asked);
    }
    // Released in any order, nothing is kept.
    let middle = states.len() / 2;
    drop(states.drain(middle..).collect::<Vec<_>>());
    on_device.verify().unwrap();
    drop(states);
    let stats = on_device.stats().unwrap();
    assert_eq!((stats.retired_leaves, stats.pins.len(), stats.items), (0, 0, model.len() as u64));
    on_device.verify().unwrap();
}

proptest! {
    #![proptest_config(config(16))]

    #[test]
    fn batches_of_64_bit_keys_agree_with_a_map_of_the_standard_library(
        batches in prop::collection::vec(operations::<u64, u64>(400), 1..6),
    ) {
        batches_agree(&batches);
    }

    #[test]
    fn batches_of_128_bit_keys_agree_with_a_map_of_the_standard_library(
        batches in prop::collection::vec(operations::<u128, u64>(400), 1..6),
    ) {
        batches_agree(&batches);
    }

    #[test]
    fn batches_of_32_bit_keys_agree_with_a_map_of_the_standard_library(
        batches in prop::collection::vec(operations::<u32, u32>(400), 1..6),
    ) {
        batches_agree(&batches);
    }
}
