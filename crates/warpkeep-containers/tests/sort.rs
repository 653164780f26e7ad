//! Sort, scan, runs and merges on the simulator, beside the standard library.

#![cfg(not(no_simulator))]

use std::ops::Range;

use bytemuck::Pod;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use warpkeep_containers::{SortKey, SortValue, Sorted, Sorter};
use warpkeep_device::{Buffer, Device, DeviceError, Mode};

fn config(cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(25), failure_persistence: None, ..Config::default() }
}

fn device(seed: Option<u64>) -> Device {
    Device::simulated(seed.map_or_else(Mode::fast, Mode::seeded)).unwrap()
}

/// Sorts pairs on the device.
fn sorted<K: SortKey, V: SortValue + Pod>(
    device: &Device,
    pairs: &[(K, V)],
    bits: Range<u32>,
) -> Vec<(K, V)> {
    let sorter = Sorter::new(device).unwrap();
    let keys: Vec<K> = pairs.iter().map(|pair| pair.0).collect();
    let values: Vec<V> = pairs.iter().map(|pair| pair.1).collect();
    let (mut on_keys, mut on_values) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
    let stream = device.stream().unwrap();
    sorter.sort_bits::<K, V>(&mut on_keys, Some(&mut on_values), pairs.len(), bits, &stream).unwrap();
    on_keys.to_vec::<K>().unwrap().into_iter().zip(on_values.to_vec::<V>().unwrap()).collect()
}

/// A number of the upper bits, so that many keys are equal.
fn few_keys() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(prop_oneof![0..20_u32, any::<u32>(), Just(u32::MAX)], 0..9000)
}

proptest! {
    #![proptest_config(config(24))]

    #[test]
    fn pairs_are_sorted_and_equal_keys_keep_their_order(keys in few_keys()) {
        let device = device(None);
        let pairs: Vec<(u32, u32)> = keys.iter().copied().zip(0..).collect();
        let mut expected = pairs.clone();
        expected.sort_by_key(|pair| pair.0);
        prop_assert_eq!(sorted(&device, &pairs, 0..32), expected);
        let wide: Vec<(u64, u64)> =
            keys.iter().map(|&key| u64::from(key).rotate_left(19)).zip(0..).collect();
        let mut expected = wide.clone();
        expected.sort_by_key(|pair| pair.0);
        prop_assert_eq!(sorted(&device, &wide, 0..64), expected);
    }

    #[test]
    fn bits_partition_stably(keys in few_keys(), low in 0..32_u32, len in 0..20_u32) {
        let high = (low + len).min(32);
        let digit = |key: u32| (u64::from(key) >> low) & ((1 << (high - low)) - 1);
        let pairs: Vec<(u32, u64)> = keys.iter().copied().zip(0..).collect();
        let mut expected = pairs.clone();
        expected.sort_by_key(|pair| digit(pair.0));
        prop_assert_eq!(sorted(&device(None), &pairs, low..high), expected);
    }

    #[test]
    fn scans_are_sums_of_what_is_before(numbers in prop::collection::vec(any::<u32>(), 0..20_000)) {
        let device = device(None);
        let mut buffer = device.upload(&numbers).unwrap();
        let stream = device.stream().unwrap();
        Sorter::new(&device).unwrap().exclusive_scan(&mut buffer, numbers.len(), &stream).unwrap();
        let mut sum = 0_u32;
        let expected: Vec<u32> = numbers
            .iter()
            .map(|number| {
                sum = sum.wrapping_add(*number);
                sum.wrapping_sub(*number)
            })
            .collect();
        prop_assert_eq!(buffer.to_vec::<u32>().unwrap(), expected);
    }

    #[test]
    fn runs_begin_where_keys_change(mut keys in few_keys()) {
        keys.sort_unstable();
        let device = device(None);
        let (buffer, stream) = (device.upload(&keys).unwrap(), device.stream().unwrap());
        let mut begins = device.allocate(4 * keys.len()).unwrap();
        let runs = Sorter::new(&device).unwrap().find_runs::<u32>(&buffer, keys.len(), &mut begins, &stream).unwrap();
        let expected: Vec<u32> =
            (0..keys.len()).filter(|&at| at == 0 || keys[at] != keys[at - 1]).map(|at| at as u32).collect();
        prop_assert_eq!(&begins.to_vec::<u32>().unwrap()[..runs], &expected[..]);
    }

    #[test]
    fn merges_are_sorted_and_stable(mut one in few_keys(), mut two in few_keys()) {
        one.sort_unstable();
        two.sort_unstable();
        let device = device(None);
        let stream = device.stream().unwrap();
        let marked = |keys: &[u32], first: u64| -> Vec<u64> { (first..).take(keys.len()).collect() };
        let (values_one, values_two) = (marked(&one, 0), marked(&two, 1 << 40));
        let buffers = [device.upload(&one).unwrap(), device.upload(&two).unwrap()];
        let values = [device.upload(&values_one).unwrap(), device.upload(&values_two).unwrap()];
        let total = one.len() + two.len();
        let (mut keys, mut merged) = (device.allocate(4 * total).unwrap(), device.allocate(8 * total).unwrap());
        let column = |at: usize, count| Sorted { keys: &buffers[at], values: Some(&values[at]), count };
        Sorter::new(&device)
            .unwrap()
            .merge::<u32, u64>(column(0, one.len()), column(1, two.len()), &mut keys, Some(&mut merged), &stream)
            .unwrap();
        let mut expected: Vec<(u32, u64)> = one.iter().copied().zip(values_one).collect();
        expected.extend(two.iter().copied().zip(values_two));
        expected.sort_by_key(|pair| pair.0);
        let found: Vec<(u32, u64)> =
            keys.to_vec::<u32>().unwrap().into_iter().zip(merged.to_vec::<u64>().unwrap()).collect();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn every_schedule_sorts_alike() {
    let keys: Vec<(u32, u32)> = (0..6000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 25, i)).collect();
    let mut expected = keys.clone();
    expected.sort_by_key(|pair| pair.0);
    for seed in 0..8 {
        assert_eq!(sorted(&device(Some(seed)), &keys, 0..8), expected, "seed {seed}");
    }
}

/// Sorts as many items as make a tile of this kind, and some more and less, by one, two and three digits.
fn check_boundaries<K: SortKey + Ord, V: SortValue + Pod + PartialEq + std::fmt::Debug>(
    tile: usize,
    key: fn(u64) -> (K, u64),
    value: fn(u64) -> V,
) {
    let device = device(None);
    for count in [1, 2, 255, tile - 1, tile, tile + 1, 2 * tile, 5 * tile + 1] {
        let random = |i: u64| (i ^ count as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 7;
        for bits in [0..1, 0..8, 3..14, 0..16, 5..26] {
            let mut items: Vec<(K, V, u64)> = (0..count as u64)
                .map(|i| (key(random(i)), value(i)))
                .map(|((key, bits), value)| (key, value, bits))
                .collect();
            let pairs: Vec<(K, V)> = items.iter().map(|(key, value, _)| (*key, *value)).collect();
            items.sort_by_key(|item| (item.2 >> bits.start) & ((1 << (bits.end - bits.start)) - 1));
            let right: Vec<(K, V)> = items.iter().map(|(key, value, _)| (*key, *value)).collect();
            let found = match size_of::<V>() {
                0 => keys_sorted(&device, &pairs, bits.clone()),
                _ => sorted(&device, &pairs, bits.clone()),
            };
            assert!(found == right, "{count} items by {bits:?}");
        }
    }
}

/// Sorts keys that have no values.
fn keys_sorted<K: SortKey, V: Copy>(device: &Device, pairs: &[(K, V)], bits: Range<u32>) -> Vec<(K, V)> {
    let keys: Vec<K> = pairs.iter().map(|pair| pair.0).collect();
    let (mut buffer, stream) = (device.upload(&keys).unwrap(), device.stream().unwrap());
    Sorter::new(device).unwrap().sort_bits::<K, ()>(&mut buffer, None, keys.len(), bits, &stream).unwrap();
    buffer.to_vec::<K>().unwrap().into_iter().map(|key| (key, pairs[0].1)).collect()
}

#[test]
fn every_width_is_sorted_at_every_boundary() {
    let narrow = |random: u64| (random as u32, u64::from(random as u32));
    let wide = |random: u64| (random, random);
    check_boundaries::<u32, ()>(4096, narrow, |_| ());
    check_boundaries::<u32, u32>(4096, narrow, |i| i as u32);
    check_boundaries::<u32, u64>(4096, narrow, |i| i << 33);
    check_boundaries::<u64, ()>(4096, wide, |_| ());
    check_boundaries::<u64, u32>(4096, wide, |i| i as u32);
    check_boundaries::<u64, u64>(3072, wide, |i| i << 33);
}

#[test]
fn keys_alone_are_sorted_too() {
    let device = device(None);
    let keys: Vec<u64> = (0..10_000_u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
    let mut buffer = device.upload(&keys).unwrap();
    Sorter::new(&device).unwrap().sort::<u64>(&mut buffer, keys.len(), &device.stream().unwrap()).unwrap();
    let mut expected = keys;
    expected.sort_unstable();
    assert_eq!(buffer.to_vec::<u64>().unwrap(), expected);
}

#[test]
fn short_buffers_are_refused_with_their_lengths() {
    let device = device(None);
    let (sorter, stream) = (Sorter::new(&device).unwrap(), device.stream().unwrap());
    let mut keys = device.allocate(40).unwrap();
    let error = sorter.sort::<u64>(&mut keys, 6, &stream).unwrap_err();
    assert!(matches!(error, DeviceError::OutOfBounds { len: 48, size: 40, .. }), "{error}");
    let mut begins = device.allocate(4).unwrap();
    assert!(sorter.find_runs::<u64>(&keys, 5, &mut begins, &stream).is_err());
    sorter.sort::<u64>(&mut keys, 5, &stream).unwrap();
    // Also if the number of bytes overflows.
    let refused = |result: Result<(), DeviceError>, count: usize| {
        assert!(matches!(result, Err(DeviceError::OutOfBounds { .. })), "{count}: {result:?}");
    };
    let mut merged = device.allocate(40).unwrap();
    for count in [1 << 61, 1 << 62, usize::MAX] {
        let mut values = device.allocate(40).unwrap();
        refused(sorter.sort::<u64>(&mut keys, count, &stream), count);
        refused(sorter.sort_pairs::<u64, u64>(&mut keys, &mut values, count, &stream), count);
        refused(sorter.exclusive_scan(&mut keys, count, &stream), count);
        refused(sorter.find_runs::<u64>(&keys, count, &mut begins, &stream).map(|_| ()), count);
        let [long, short] = [count, 5].map(|count| Sorted { keys: &keys, values: None, count });
        refused(sorter.merge::<u64, ()>(long, short, &mut merged, None, &stream), count);
        refused(sorter.merge::<u64, ()>(short, long, &mut merged, None, &stream), count);
        refused(sorter.merge::<u64, ()>(long, long, &mut merged, None, &stream), count);
    }
}

fn column<'a>(keys: &'a Buffer, values: &'a Buffer) -> Sorted<'a> {
    Sorted { keys, values: Some(values), count: 10 }
}

#[test]
fn memory_of_another_device_is_refused() {
    let (device, other) = (device(None), device(None));
    let (sorter, stream) = (Sorter::new(&device).unwrap(), device.stream().unwrap());
    let numbers: Vec<u32> = (0..10).rev().collect();
    let (mut ours, mut theirs) = (device.upload(&numbers).unwrap(), other.upload(&numbers).unwrap());
    let (mut more_ours, mut more_theirs) = (device.allocate(80).unwrap(), other.allocate(80).unwrap());
    let refused = |result: Result<(), DeviceError>, what: &str| {
        let Err(DeviceError::OtherDevice { what: named, .. }) = result else { panic!("{what}: {result:?}") };
        assert_eq!(named, what);
    };
    refused(sorter.sort::<u32>(&mut theirs, 10, &stream), "keys");
    refused(sorter.sort_pairs::<u32, u32>(&mut ours, &mut theirs, 10, &stream), "values");
    refused(sorter.exclusive_scan(&mut theirs, 10, &stream), "numbers");
    refused(sorter.find_runs::<u32>(&theirs, 10, &mut more_ours, &stream).map(|_| ()), "keys");
    refused(sorter.find_runs::<u32>(&ours, 10, &mut more_theirs, &stream).map(|_| ()), "positions of runs");
    let (here, there) = (column(&ours, &ours), column(&theirs, &ours));
    let merge = |first: Sorted<'_>, second: Sorted<'_>, keys: &mut Buffer, values: &mut Buffer| {
        sorter.merge::<u32, u32>(first, second, keys, Some(values), &stream)
    };
    let mut last = device.allocate(80).unwrap();
    refused(merge(there, here, &mut more_ours, &mut last), "keys");
    refused(merge(here, column(&ours, &theirs), &mut more_ours, &mut last), "values");
    refused(merge(here, here, &mut more_theirs, &mut last), "merged keys");
    refused(merge(here, here, &mut last, &mut more_theirs), "merged values");
    assert_eq!((ours.to_vec::<u32>().unwrap(), theirs.to_vec::<u32>().unwrap()), (numbers.clone(), numbers));
}

#[test]
fn empty_columns_are_merged() {
    let device = device(None);
    let (sorter, stream) = (Sorter::new(&device).unwrap(), device.stream().unwrap());
    let none = device.allocate(0).unwrap();
    let (mut keys, mut values) = (device.allocate(0).unwrap(), device.allocate(0).unwrap());
    let empty = Sorted { keys: &none, values: Some(&none), count: 0 };
    sorter.merge::<u32, u32>(empty, empty, &mut keys, Some(&mut values), &stream).unwrap();
    let nothing = Sorted { values: None, ..empty };
    sorter.merge::<u64, ()>(nothing, nothing, &mut keys, None, &stream).unwrap();
    // And one of both.
    let some = device.upload(&[3_u32, 5]).unwrap();
    let column = Sorted { keys: &some, values: Some(&some), count: 2 };
    for (first, second) in [(empty, column), (column, empty)] {
        let (mut keys, mut values) = (device.allocate(8).unwrap(), device.allocate(8).unwrap());
        sorter.merge::<u32, u32>(first, second, &mut keys, Some(&mut values), &stream).unwrap();
        assert_eq!(
            (keys.to_vec::<u32>().unwrap(), values.to_vec::<u32>().unwrap()),
            (vec![3, 5], vec![3, 5])
        );
    }
}

#[test]
fn memory_that_is_short_is_an_error_and_changes_nothing() {
    let device = device(None);
    let keys: Vec<u32> = (0..5000).rev().collect();
    let mut buffer = device.upload(&keys).unwrap();
    let stream = device.stream().unwrap();
    let poor = Sorter::new(&device.with_budget(device.allocated() + 100)).unwrap();
    let error = poor.sort::<u32>(&mut buffer, keys.len(), &stream).unwrap_err();
    assert!(error.is_out_of_memory(), "{error}");
    assert_eq!(buffer.to_vec::<u32>().unwrap(), keys);
}

#[test]
fn kernels_compile_for_a_gpu_and_do_not_spill() {
    warpkeep_suites::device::compile_programs("sort", &[Sorter::program()]);
}
