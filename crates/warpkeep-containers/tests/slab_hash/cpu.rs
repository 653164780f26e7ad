//! The CPU form and the kernels give the same answers: properties with a fixed seed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use warpkeep_containers::{
    SlabAnswer, SlabHashOptions, SlabKey, SlabMap, SlabMultiMap, SlabMultiRequest, SlabRequest, SlabSet,
    SlabValue,
};

use crate::{device, sorted};

fn config() -> Config {
    Config { cases: 24, rng_seed: RngSeed::Fixed(31), failure_persistence: None, ..Config::default() }
}

/// Batches of the number of an operation, a key and a value. The keys of a batch differ, so that there is one right answer to each.
fn batches() -> impl Strategy<Value = Vec<Vec<(u8, u64, u64)>>> {
    let key = prop_oneof![3 => 0..60_u64, 1 => any::<u64>(), 1 => (0..60_u64).prop_map(|number| !number)];
    let batch = prop::collection::btree_map(key, (0..6_u8, any::<u64>()), 0..80);
    let batch = batch.prop_map(|of| of.into_iter().map(|(key, (op, value))| (op, key, value)).collect());
    prop::collection::vec(batch, 1..6)
}

fn options(crowded: bool) -> SlabHashOptions {
    let most_buckets = if crowded { 4 } else { 1 << 20 };
    SlabHashOptions { most_buckets, seed: Some(0), ..SlabHashOptions::default() }
}

fn request<K, V>(op: u8, key: K, value: V) -> SlabRequest<K, V> {
    match op {
        0 => SlabRequest::Search(key),
        1 => SlabRequest::Delete(key),
        2 => SlabRequest::Replace(key, value),
        _ => SlabRequest::Insert(key, value),
    }
}

/// The same by a map of the standard library.
fn expected<K: Ord, V: Copy>(model: &mut BTreeMap<K, V>, request: SlabRequest<K, V>) -> SlabAnswer<V> {
    match request {
        SlabRequest::Search(key) => {
            model.get(&key).map_or(SlabAnswer::Absent, |value| SlabAnswer::Found(*value))
        }
        SlabRequest::Delete(key) => model.remove(&key).map_or(SlabAnswer::Absent, SlabAnswer::Removed),
        SlabRequest::Replace(key, value) => {
            model.insert(key, value).map_or(SlabAnswer::Inserted, SlabAnswer::Updated)
        }
        SlabRequest::Insert(key, value) => match model.entry(key) {
            Entry::Occupied(place) => SlabAnswer::Present(*place.get()),
            Entry::Vacant(place) => {
                place.insert(value);
                SlabAnswer::Inserted
            }
        },
    }
}

fn maps_agree<W: SlabKey<W> + SlabValue>(batches: &[Vec<(u8, u64, u64)>], word: fn(u64) -> W, crowded: bool) {
    let mut on_device = SlabMap::<W, W>::new(&device(), options(crowded)).unwrap();
    let mut on_cpu = SlabMap::<W, W>::on_cpu(options(crowded));
    let mut model = BTreeMap::new();
    for batch in batches {
        // Narrow words can be equal where wide ones differ.
        let batch: BTreeMap<W, (u8, u64)> =
            batch.iter().map(|(op, key, value)| (word(*key), (*op, *value))).collect();
        let requests: Vec<SlabRequest<W, W>> =
            batch.into_iter().map(|(key, (op, value))| request(op, key, word(value))).collect();
        let answers: Vec<SlabAnswer<W>> = requests.iter().map(|one| expected(&mut model, *one)).collect();
        assert_eq!(on_cpu.apply(&requests).unwrap(), answers);
        assert_eq!(on_device.apply(&requests).unwrap(), answers);
        let keys: Vec<W> = requests.iter().map(|one| one.key()).collect();
        assert_eq!(on_device.search(&keys).unwrap(), on_cpu.search(&keys).unwrap());
    }
    let all: Vec<(W, W)> = model.into_iter().collect();
    for map in [&on_device, &on_cpu] {
        assert_eq!((sorted(map.pairs().unwrap()), map.len().unwrap()), (all.clone(), all.len() as u64));
    }
    on_device.flush().unwrap();
    on_cpu.flush().unwrap();
    assert_eq!(sorted(on_device.pairs().unwrap()), all);
    for map in [&mut on_device, &mut on_cpu] {
        map.clear().unwrap();
        assert!(map.is_empty().unwrap());
    }
}

fn sets_agree<W: SlabKey<()>>(batches: &[Vec<(u8, u64, u64)>], word: fn(u64) -> W, crowded: bool) {
    let mut on_device = SlabSet::<W>::new(&device(), options(crowded)).unwrap();
    let mut on_cpu = SlabSet::<W>::on_cpu(options(crowded));
    let mut model = BTreeMap::new();
    for batch in batches {
        let batch: BTreeMap<W, u8> = batch.iter().map(|(op, key, _)| (word(*key), *op)).collect();
        let requests: Vec<SlabRequest<W, ()>> =
            batch.into_iter().map(|(key, op)| request(op, key, ())).collect();
        let answers: Vec<SlabAnswer<()>> = requests.iter().map(|one| expected(&mut model, *one)).collect();
        assert_eq!(on_cpu.apply(&requests).unwrap(), answers);
        assert_eq!(on_device.apply(&requests).unwrap(), answers);
        let keys: Vec<W> = requests.iter().map(|one| one.key()).collect();
        assert_eq!(on_device.contains(&keys).unwrap(), on_cpu.contains(&keys).unwrap());
    }
    let all: Vec<W> = model.into_keys().collect();
    assert_eq!(sorted(on_device.keys().unwrap()), all);
    assert_eq!(sorted(on_cpu.keys().unwrap()), all);
}

fn multimaps_agree<W: SlabKey<W> + SlabValue>(batches: &[Vec<(u8, u64, u64)>], word: fn(u64) -> W) {
    let mut on_device = SlabMultiMap::<W, W>::new(&device(), options(false)).unwrap();
    let mut on_cpu = SlabMultiMap::<W, W>::on_cpu(options(false));
    let mut model: BTreeMap<W, Vec<W>> = BTreeMap::new();
    for batch in batches {
        let batch: BTreeMap<W, (u8, u64)> =
            batch.iter().map(|(op, key, value)| (word(*key % 30), (*op, *value))).collect();
        let (mut requests, mut answers) = (Vec::new(), Vec::new());
        for (key, (op, value)) in batch {
            let values = model.entry(key).or_default();
            let first = values.first().copied();
            let (request, answer) = match op {
                0 => (SlabMultiRequest::Search(key), first.map_or(SlabAnswer::Absent, SlabAnswer::Found)),
                1 => (SlabMultiRequest::Delete(key), first.map_or(SlabAnswer::Absent, SlabAnswer::Removed)),
                2 => (SlabMultiRequest::Count(key), SlabAnswer::Counted(values.len() as u32)),
                3 if value % 4 == 0 => {
                    (SlabMultiRequest::DeleteAll(key), SlabAnswer::Counted(values.len() as u32))
                }
                _ => (SlabMultiRequest::Insert(key, word(value)), SlabAnswer::Inserted),
            };
            match request {
                SlabMultiRequest::Insert(_, value) => values.push(value),
                SlabMultiRequest::DeleteAll(_) => values.clear(),
                SlabMultiRequest::Delete(_) if first.is_some() => drop(values.remove(0)),
                _ => {}
            }
            requests.push(request);
            answers.push(answer);
        }
        assert_eq!(on_cpu.apply(&requests).unwrap(), answers);
        assert_eq!(on_device.apply(&requests).unwrap(), answers);
    }
    let keys: Vec<W> = model.keys().copied().collect();
    let all: Vec<Vec<W>> = model.into_values().collect();
    assert_eq!(on_device.search_all(&keys).unwrap(), all);
    assert_eq!(on_cpu.search_all(&keys).unwrap(), all);
    assert_eq!(sorted(on_device.pairs().unwrap()), sorted(on_cpu.pairs().unwrap()));
    let len = all.iter().map(Vec::len).sum::<usize>() as u64;
    assert_eq!((on_device.len().unwrap(), on_cpu.len().unwrap()), (len, len));
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn maps_on_the_cpu_and_on_a_device_agree(batches in batches(), crowded: bool) {
        maps_agree::<u32>(&batches, |number| number as u32, crowded);
        maps_agree::<u64>(&batches, |number| number, crowded);
    }

    #[test]
    fn sets_on_the_cpu_and_on_a_device_agree(batches in batches(), crowded: bool) {
        sets_agree::<u32>(&batches, |number| number as u32, crowded);
        sets_agree::<u64>(&batches, |number| number, crowded);
    }

    #[test]
    fn multimaps_on_the_cpu_and_on_a_device_agree(batches in batches()) {
        multimaps_agree::<u32>(&batches, |number| number as u32);
        multimaps_agree::<u64>(&batches, |number| number);
    }
}
