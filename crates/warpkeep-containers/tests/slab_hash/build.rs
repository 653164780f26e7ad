//! Bulk builds, and growth: buckets that one tile fills.

use warpkeep_containers::{
    ContainerError, DeviceSlabAnswers, SlabAnswer, SlabHashOptions, SlabKey, SlabMap, SlabMultiMap,
    SlabRequest, SlabSet, SlabStatus, SlabValue,
};
use warpkeep_device::{Buffer, Device, DeviceError, Mode};

use crate::{device, sorted};

/// A built map has the answers and the pairs of insertions one after the other, and works on.
fn built_as_inserted<W: SlabKey<W> + SlabValue>(
    device: &Device,
    options: SlabHashOptions,
    pairs: &[(u64, u64)],
    word: fn(u64) -> W,
) {
    let keys: Vec<W> = pairs.iter().map(|pair| word(pair.0)).collect();
    let values: Vec<W> = pairs.iter().map(|pair| word(pair.1)).collect();
    let mut map = SlabMap::<W, W>::new(device, options).unwrap();
    let mut model = SlabMap::<W, W>::on_cpu(options);
    let expected = model.build(&keys, &values).unwrap();
    assert_eq!(map.build(&keys, &values).unwrap(), expected);
    assert_eq!(sorted(map.pairs().unwrap()), sorted(model.pairs().unwrap()));
    let stats = map.stats().unwrap();
    assert_eq!((stats.len, stats.tombstones), (model.len().unwrap(), 0));
    // Every other key goes, and all come again.
    let mut gone: Vec<SlabRequest<W, W>> =
        keys.iter().step_by(2).map(|key| SlabRequest::Delete(*key)).collect();
    gone.sort_unstable_by_key(|request| request.key());
    gone.dedup();
    assert_eq!(map.apply(&gone).unwrap(), model.apply(&gone).unwrap());
    let again: Vec<SlabRequest<W, W>> =
        gone.iter().map(|request| SlabRequest::Insert(request.key(), word(5))).collect();
    assert_eq!(map.apply(&again).unwrap(), model.apply(&again).unwrap());
    assert_eq!(map.search(&keys).unwrap(), model.search(&keys).unwrap());
}

/// Pairs of which about a third have a key that came before.
fn pairs(count: u64) -> Vec<(u64, u64)> {
    (0..count).map(|i| ((i * i * 7 % (count * 2 / 3 + 1)).wrapping_mul(0x9E37_79B9_7F4A_7C15), i)).collect()
}

#[test]
fn a_build_answers_as_insertions_in_the_order_of_the_batch() {
    for (slab_bytes, most_buckets) in [(64, 1 << 20), (128, 1 << 20), (64, 4), (128, 4)] {
        let options =
            SlabHashOptions { slab_bytes, most_buckets, seed: Some(0), ..SlabHashOptions::default() };
        for count in [1, 2, 30, 3000] {
            built_as_inserted::<u32>(&device(), options, &pairs(count), |number| number as u32);
            built_as_inserted::<u64>(&device(), options, &pairs(count), |number| number);
        }
    }
    // Nothing, and one key again and again, for which the table stays small.
    let mut map: SlabMap =
        SlabMap::new(&device(), SlabHashOptions { seed: Some(0), ..SlabHashOptions::default() }).unwrap();
    assert!(map.build(&[], &[]).unwrap().is_empty());
    let answers = map.build(&[9; 5000], &(0..5000).collect::<Vec<u32>>()).unwrap();
    assert_eq!(answers[0], SlabAnswer::Inserted);
    assert!(answers[1..].iter().all(|answer| *answer == SlabAnswer::Present(0)));
    let stats = map.stats().unwrap();
    assert_eq!((stats.len, stats.buckets), (1, 4));
}

#[test]
fn builds_and_growth_are_right_in_every_schedule() {
    for seed in 0..12 {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let options = SlabHashOptions { most_buckets: 4 << (seed % 3), ..SlabHashOptions::default() };
        built_as_inserted::<u32>(&device, options, &pairs(150), |number| number as u32);
        built_as_inserted::<u64>(&device, options, &pairs(100), |number| number);
        let mut set: SlabSet =
            SlabSet::new(&device, SlabHashOptions { seed: Some(0), ..SlabHashOptions::default() }).unwrap();
        let keys: Vec<u32> = (0..200).map(|i| i * i % 97).collect();
        let inserted = set.build(&keys).unwrap();
        let first = |at: usize| !keys[..at].contains(&keys[at]);
        assert!((0..200).all(|at| (inserted[at] == SlabAnswer::Inserted) == first(at)), "seed {seed}");
        let before = set.stats().unwrap().buckets;
        set.reserve(1000).unwrap();
        assert!(set.stats().unwrap().buckets > 4 * before);
        let distinct = sorted((0..200).filter(|at| first(*at)).map(|at| keys[at]).collect());
        assert_eq!(
            (sorted(set.keys().unwrap()), set.len().unwrap()),
            (distinct.clone(), distinct.len() as u64)
        );
        assert!(set.contains(&keys).unwrap().into_iter().all(|there| there));
    }
}

#[test]
fn a_built_multimap_has_the_values_of_a_key_in_the_order_of_the_batch() {
    let count = 4000_u64;
    let keys: Vec<u64> = (0..count).map(|i| i * i % 150).collect();
    let values: Vec<u64> = (0..count).collect();
    let mut map = SlabMultiMap::<u64, u64>::new(
        &device(),
        SlabHashOptions { seed: Some(0), ..SlabHashOptions::default() },
    )
    .unwrap();
    assert!(map.build(&keys, &values).unwrap().iter().all(|answer| *answer == SlabAnswer::Inserted));
    let asked: Vec<u64> = (0..151).collect();
    let expected = |key: &u64| values.iter().copied().filter(|i| keys[*i as usize] == *key).collect();
    let expected: Vec<Vec<u64>> = asked.iter().map(expected).collect();
    assert_eq!(map.search_all(&asked).unwrap(), expected);
    // Growth keeps the order, and so does a list.
    map.reserve(50_000).unwrap();
    assert_eq!(map.search_all(&asked).unwrap(), expected);
    let listed = map.pairs().unwrap();
    for (key, values) in asked.iter().zip(&expected) {
        assert!(listed.iter().filter(|pair| pair.0 == *key).map(|pair| pair.1).eq(values.iter().copied()));
    }
}

#[test]
fn a_build_of_columns_is_a_build() {
    let device = device();
    let stream = device.stream().unwrap();
    let keys = device.upload(&[5_u32, 6, 5, 7]).unwrap();
    let values = device.upload(&[50_u32, 60, 51, 70]).unwrap();
    let (mut states, mut found) = (device.allocate(4).unwrap(), device.allocate(16).unwrap());
    let mut map: SlabMap =
        SlabMap::new(&device, SlabHashOptions { seed: Some(0), ..SlabHashOptions::default() }).unwrap();
    let to = DeviceSlabAnswers { statuses: &mut states, values: Some(&mut found) };
    map.build_on(&keys, &values, 4, to, &stream).unwrap();
    let [inserted, present] = [SlabStatus::Inserted as u8, SlabStatus::Present as u8];
    assert_eq!(states.to_vec::<u8>().unwrap(), [inserted, inserted, present, inserted]);
    assert_eq!(found.to_vec::<u32>().unwrap(), [0, 0, 50, 0]);
    // What is not empty is not built, and stays as it is; without its keys it can be, tombstones or not.
    let to = DeviceSlabAnswers { statuses: &mut states, values: None };
    let error = map.build_on(&keys, &values, 4, to, &stream).unwrap_err();
    assert!(matches!(error, ContainerError::NotEmpty { len: 3, .. }), "{error}");
    assert!(error.to_string().contains("clear it first"), "{error}");
    assert!(matches!(map.build(&[1], &[]), Err(ContainerError::WrongLength { .. })));
    map.apply(&[5, 6, 7].map(SlabRequest::Delete)).unwrap();
    assert_eq!(map.build(&[6], &[1]).unwrap(), [SlabAnswer::Inserted]);
    assert_eq!(map.pairs().unwrap(), [(6, 1)]);
    // A set has no values.
    let mut set: SlabSet =
        SlabSet::new(&device, SlabHashOptions { seed: Some(0), ..SlabHashOptions::default() }).unwrap();
    let to = DeviceSlabAnswers { statuses: &mut states, values: None };
    set.build_on(&keys, 4, to, &stream).unwrap();
    assert_eq!(sorted(set.keys().unwrap()), [5, 6, 7]);
}

#[test]
fn a_build_without_slabs_answers_full() {
    // The least that a pool has: 1024 slabs of 7 pairs behind 4 buckets of 7 pairs.
    let options = SlabHashOptions {
        most_buckets: 4,
        most_slabs: 1,
        slab_bytes: 64,
        seed: Some(0),
        ..SlabHashOptions::default()
    };
    let mut map: SlabMap = SlabMap::new(&device(), options).unwrap();
    let keys: Vec<u32> = (0..9000).map(|i| i / 9 * 10 + i % 9).chain(0..9000).collect();
    let answers = map.build(&keys, &keys.iter().map(|key| !key).collect::<Vec<_>>()).unwrap();
    let stored = answers.iter().filter(|answer| **answer == SlabAnswer::Inserted).count();
    // No slab is wasted: each chain but the ones that were refused is full to its last slab.
    assert!(stored <= 7 * 1028 && stored > 7 * 1024, "{stored} stored");
    assert_eq!((map.len().unwrap(), map.stats().unwrap().chained_slabs), (stored as u64, 1024));
    for ((key, found), answer) in keys.iter().zip(map.search(&keys).unwrap()).zip(&answers) {
        let is_there = matches!(answer, SlabAnswer::Inserted | SlabAnswer::Present(_));
        assert_eq!(found, is_there.then_some(!key), "{key}: {answer:?}");
    }
    map.clear().unwrap();
    assert_eq!(map.stats().unwrap().chained_slabs, 0);
}

#[test]
fn a_table_with_long_chains_grows_once_there_is_memory() {
    let device = device().with_budget(2 << 20);
    let mut map =
        SlabMap::<u64, u64>::new(&device, SlabHashOptions { seed: Some(0), ..SlabHashOptions::default() })
            .unwrap();
    // The columns of batches are there before memory becomes short. Then the slabs that there are have to do.
    let keys: Vec<u64> = (0..3000).collect();
    map.search(&keys).unwrap();
    let ballast: Vec<Buffer> = std::iter::from_fn(|| device.allocate(1 << 10).ok()).collect();
    let requests: Vec<SlabRequest<u64, u64>> =
        keys.iter().map(|key| SlabRequest::Insert(*key, !key)).collect();
    let answers = map.apply(&requests).unwrap();
    assert!(answers.iter().all(|answer| *answer == SlabAnswer::Inserted));
    let before = map.stats().unwrap();
    assert!(before.buckets == 4 && before.chained_slabs > 400, "{before:?}");
    let error = map.reserve(3000).unwrap_err();
    assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{error}");
    drop(ballast);
    map.reserve(3000).unwrap();
    let after = map.stats().unwrap();
    assert!(after.buckets == 512 && after.chained_slabs < 300 && after.len == 3000, "{after:?}");
    assert_eq!(sorted(map.pairs().unwrap()), keys.iter().map(|key| (*key, !key)).collect::<Vec<_>>());
}

#[test]
fn a_build_works_in_the_memory_of_the_last_one() {
    let device = device();
    let mut map: SlabMap =
        SlabMap::new(&device, SlabHashOptions { seed: Some(0), ..SlabHashOptions::default() }).unwrap();
    let keys: Vec<u32> = (0..20_000).map(|i| i / 2).collect();
    map.build(&keys, &keys).unwrap();
    let kept = device.allocated();
    assert!(kept > map.stats().unwrap().bytes);
    for count in [20_000, 7000, 20_000] {
        map.clear().unwrap();
        map.build(&keys[..count], &keys[..count]).unwrap();
        assert_eq!((device.allocated(), map.len().unwrap()), (kept, count as u64 / 2));
        map.verify().unwrap();
    }
}

#[test]
fn memory_that_builds_keep_goes_before_a_table_stays_small() {
    let device = &device().with_budget(8 << 20);
    let mut map: SlabMap =
        SlabMap::new(device, SlabHashOptions { seed: Some(0), ..SlabHashOptions::default() }).unwrap();
    let keys: Vec<u32> = (0..60_000).map(|i| i % 6000).collect();
    map.build(&keys, &keys).unwrap();
    let ballast = |bytes| std::iter::from_fn(move || device.allocate(bytes).ok()).collect::<Vec<Buffer>>();
    let _all = (ballast(1 << 10), ballast(1));
    let before = map.stats().unwrap().buckets;
    map.reserve(12_000).unwrap();
    assert_eq!(map.stats().unwrap().buckets, 2 * before);
    map.verify().unwrap();
    assert_eq!(map.len().unwrap(), 6000);
}

#[test]
fn a_table_that_was_loaded_keeps_no_memory_but_its_own() {
    let (device, folder) = (device(), tempfile::tempdir().unwrap());
    let path = folder.path().join("pairs.slab");
    let mut map: SlabMap = SlabMap::on_cpu(SlabHashOptions { seed: Some(0), ..SlabHashOptions::default() });
    map.build(&(0..5000).collect::<Vec<_>>(), &(0..5000).collect::<Vec<_>>()).unwrap();
    map.save(&path).unwrap();
    let loaded: SlabMap =
        SlabMap::load(&device, &path, SlabHashOptions { seed: Some(0), ..SlabHashOptions::default() })
            .unwrap();
    assert_eq!(device.allocated(), loaded.stats().unwrap().bytes);
    assert_eq!(loaded.len().unwrap(), 5000);
}
