//! Calls with buffers and a stream of the caller.

use std::collections::BTreeMap;

use warpkeep_containers::{
    ContainerError, DeviceFound, DeviceOrderedAnswers, DeviceOrderedOps, DevicePairs, Near, OrderedKey,
    OrderedMap, OrderedMapOptions, OrderedOp, OrderedOpKind, OrderedOpKinds, OrderedWord, PairLayout, Upsert,
};
use warpkeep_device::{Buffer, Device, DeviceError, Mode};
use warpkeep_suites::device::Dice;

use crate::container::random_op;
use crate::model::{Model, check_contents, expected, key_of};
use crate::properties::apply_on;

const FOUND: u8 = 3;
const ABSENT: u8 = 4;
const TRUNCATED: u8 = 6;

fn filled() -> (Device, OrderedMap<u32, u32>) {
    let device = Device::simulated(Mode::fast()).unwrap();
    let keys: Vec<u32> = (0..500).map(|i| 10 * i).collect();
    let map = OrderedMap::build(&device, &OrderedMapOptions::default(), &keys, &keys).unwrap();
    (device, map)
}

fn of_kind<'a>(kind: OrderedOpKind, keys: &'a Buffer, ends: &'a Buffer) -> DeviceOrderedOps<'a> {
    let count = keys.len() / 4;
    DeviceOrderedOps { kinds: OrderedOpKinds::All(kind), keys, ends: Some(ends), values: None, count }
}

#[test]
fn a_range_with_too_little_room_writes_nothing_beyond_it() {
    let (device, map) = filled();
    let stream = device.stream().unwrap();
    // 3 keys, none, the whole key space, 1 key.
    let lows = device.upload(&[5_u32, 11, 0, 100]).unwrap();
    let highs = device.upload(&[35_u32, 9, u32::MAX, 100]).unwrap();
    for (stride, room) in [(2_usize, 8_usize), (2, 7), (2, 5), (600, 2400), (0, 8)] {
        let mut pairs =
            [device.upload(&vec![9_u32; room + 4]).unwrap(), device.upload(&vec![9_u32; room]).unwrap()];
        let (mut statuses, mut counts) = (device.allocate(4).unwrap(), device.allocate(16).unwrap());
        let [keys, values] = &mut pairs;
        let answers = DeviceOrderedAnswers {
            statuses: &mut statuses,
            values: None,
            keys: None,
            counts: Some(&mut counts),
            pairs: Some(DevicePairs { keys, values, layout: PairLayout::Stride(stride) }),
        };
        map.apply_on(of_kind(OrderedOpKind::Range, &lows, &highs), answers, &stream).unwrap();
        assert_eq!(counts.to_vec::<u32>().unwrap(), [3, 0, 500, 1], "counts are exact");
        let of = |range: usize| room.saturating_sub(stride * range).min(stride);
        let status = |range: usize, count: usize| match count {
            0 => ABSENT,
            count if count > of(range) => TRUNCATED,
            _ => FOUND,
        };
        let right = [status(0, 3), status(1, 0), status(2, 500), status(3, 1)];
        assert_eq!(statuses.to_vec::<u8>().unwrap(), right, "stride {stride} with room for {room}");
        let keys = pairs[0].to_vec::<u32>().unwrap();
        let mut expected = vec![9_u32; room + 4];
        for (range, found) in [(0, vec![10, 20, 30]), (2, (0..500).map(|i| 10 * i).collect()), (3, vec![100])]
        {
            for (at, key) in found.into_iter().take(of(range)).enumerate() {
                expected[stride * range + at] = key;
            }
        }
        assert_eq!(keys, expected, "stride {stride} with room for {room}");
    }
}

#[test]
fn ragged_ranges_with_too_little_room_are_truncated() {
    let (device, map) = filled();
    let (stream, snapshot) = (device.stream().unwrap(), map.snapshot());
    let lows = device.upload(&[5_u32, 0, 100, 1000]).unwrap();
    let highs = device.upload(&[35_u32, 95, 100, 1045]).unwrap();
    let right: Vec<u32> = [10, 20, 30].into_iter().chain((0..10).map(|i| 10 * i)).chain([100]).collect();
    let right = [right, (100..105).map(|i| 10 * i).collect()].concat();
    for room in [0_usize, 1, 3, 12, 13, 14, 19, 30] {
        let mut pairs =
            [device.upload(&vec![9_u32; room]).unwrap(), device.upload(&vec![9_u32; room + 3]).unwrap()];
        let (mut statuses, mut offsets) = (device.allocate(4).unwrap(), device.allocate(20).unwrap());
        let [keys, values] = &mut pairs;
        let answers = DeviceOrderedAnswers {
            statuses: &mut statuses,
            values: None,
            keys: None,
            counts: None,
            pairs: Some(DevicePairs { keys, values, layout: PairLayout::Offsets(&mut offsets) }),
        };
        snapshot.read_on(of_kind(OrderedOpKind::Range, &lows, &highs), answers, &stream).unwrap();
        assert_eq!(offsets.to_vec::<u32>().unwrap(), [0, 3, 13, 14, 19]);
        let status = |end: usize| if end <= room { FOUND } else { TRUNCATED };
        assert_eq!(statuses.to_vec::<u8>().unwrap(), [3, 13, 14, 19].map(status), "room for {room}");
        let mut expected = vec![9; room + 3];
        let shown = room.min(19);
        expected[..shown].copy_from_slice(&right[..shown]);
        assert_eq!(pairs[1].to_vec::<u32>().unwrap(), expected, "room for {room}");
    }
}

#[test]
fn neighbours_and_all_pairs_come_to_buffers_of_the_caller() {
    let (device, map) = filled();
    let (stream, snapshot) = (device.stream().unwrap(), map.snapshot());
    let keys = device.upload(&[0_u32, 7, 40, u32::MAX]).unwrap();
    let [mut statuses, mut found, mut values] = [4, 16, 16].map(|bytes| device.allocate(bytes).unwrap());
    let to = DeviceFound { statuses: &mut statuses, keys: Some(&mut found), values: Some(&mut values) };
    snapshot.predecessor_on(&keys, 4, Near::strict().within(10), to, &stream).unwrap();
    assert_eq!(statuses.to_vec::<u8>().unwrap(), [ABSENT, FOUND, FOUND, ABSENT]);
    assert_eq!(found.to_vec::<u32>().unwrap(), [0, 0, 30, 0]);
    let to = DeviceFound { statuses: &mut statuses, keys: None, values: Some(&mut values) };
    snapshot.successor_on(&keys, 4, Near::or_equal(), to, &stream).unwrap();
    assert_eq!(values.to_vec::<u32>().unwrap(), [0, 10, 40, 0]);
    let (mut all, mut of_all) = (device.allocate(2000).unwrap(), device.allocate(2000).unwrap());
    snapshot.retrieve_all_on(&mut all, &mut of_all, &stream).unwrap();
    assert!(all.to_vec::<u32>().unwrap().into_iter().eq((0..500).map(|i| 10 * i)));
    let error = snapshot.retrieve_all_on(&mut found, &mut of_all, &stream).unwrap_err();
    assert!(matches!(error.device(), Some(DeviceError::OutOfBounds { .. })), "{error}");
}

fn statuses_alone(statuses: &mut Buffer) -> DeviceOrderedAnswers<'_> {
    DeviceOrderedAnswers { statuses, values: None, keys: None, counts: None, pairs: None }
}

#[test]
fn every_column_of_answers_is_written_whatever_the_operations_are() {
    let (device, map) = filled();
    let stream = device.stream().unwrap();
    let keys = device.upload(&[10_u32, 11]).unwrap();
    use OrderedOpKind as Kind;
    let kinds =
        [Kind::Find, Kind::Contains, Kind::Erase, Kind::Put, Kind::Successor, Kind::Count, Kind::Range];
    let right: [[[u32; 2]; 3]; 7] = [
        [[10, 0], [0, 0], [0, 0]],
        [[0, 0], [0, 0], [0, 0]],
        [[10, 0], [0, 0], [0, 0]],
        [[0, 0], [0, 0], [0, 0]],
        // 10 was put with the value 0, and so was 11.
        [[0, 20], [11, 20], [0, 0]],
        [[0, 0], [0, 0], [1, 1]],
        [[0, 0], [0, 0], [1, 1]],
    ];
    for (kind, right) in kinds.into_iter().zip(right) {
        let mut columns = [(); 6].map(|()| device.upload(&[9_u32; 3]).unwrap());
        let mut statuses = device.allocate(2).unwrap();
        let [values, found, counts, pair_keys, pair_values, offsets] = &mut columns;
        let pairs =
            DevicePairs { keys: pair_keys, values: pair_values, layout: PairLayout::Offsets(offsets) };
        let answers = DeviceOrderedAnswers {
            statuses: &mut statuses,
            values: Some(values),
            keys: Some(found),
            counts: Some(counts),
            pairs: Some(pairs),
        };
        map.apply_on(of_kind(kind, &keys, &keys), answers, &stream).unwrap();
        let [values, found, counts, .., offsets] = columns.map(|column| column.to_vec::<u32>().unwrap());
        assert_eq!(
            [&values[..2], &found[..2], &counts[..2]],
            right.each_ref().map(|two| &two[..]),
            "{kind:?}"
        );
        assert_eq!(offsets, if kind == Kind::Range { [0, 1, 2] } else { [0; 3] }, "{kind:?}");
        assert_eq!(values[2], 9, "nothing behind the answers");
    }
}

#[test]
fn sorted_pairs_in_device_memory_are_put_as_they_are() {
    let device = Device::simulated(Mode::fast()).unwrap();
    let stream = device.stream().unwrap();
    // None, fewer pairs than a leaf has, several leaves, and more than the host sorts; with different keys, and with equal ones.
    for count in [0_u64, 9, 300, 9000] {
        for each in [1, 3] {
            let keys: Vec<u64> = (0..count).map(|i| i / each * 5).collect();
            let values: Vec<u64> = (0..count).collect();
            let pairs = [device.upload(&keys).unwrap(), device.upload(&values).unwrap()];
            let map = OrderedMap::<u64, u64>::new(&device, &OrderedMapOptions::default()).unwrap();
            map.put_sorted_on(&pairs[0], &pairs[1], count as usize, &stream).unwrap();
            let mut model: BTreeMap<u64, u64> = keys.iter().copied().zip(values.iter().copied()).collect();
            check_contents(&map, &model).unwrap();
            // Into a map that has pairs.
            map.upsert(Upsert::Replace, &[3, 5], &[7, 8]).unwrap();
            map.put_sorted_on(&pairs[0], &pairs[1], count as usize, &stream).unwrap();
            model.insert(3, 7);
            let five = model.get(&5).copied().unwrap_or(8);
            model.insert(5, five);
            check_contents(&map, &model).unwrap();
        }
    }
    let keys = device.upload(&[1_u64, 2, 2, 9, 7, 8, 3]).unwrap();
    let map = OrderedMap::<u64, u64>::new(&device, &OrderedMapOptions::default()).unwrap();
    let error = map.put_sorted_on(&keys, &keys, 7, &stream).unwrap_err();
    assert!(matches!(error, ContainerError::NotSorted { at: 4 }), "{error}");
    let error = map.put_sorted_on(&keys, &keys, 8, &stream).unwrap_err();
    assert!(matches!(error.device(), Some(DeviceError::OutOfBounds { .. })), "{error}");
    assert!(map.is_empty());
    let on_cpu = OrderedMap::<u64, u64>::on_cpu(&OrderedMapOptions::default());
    assert!(matches!(on_cpu.put_sorted_on(&keys, &keys, 1, &stream), Err(ContainerError::OnCpu { .. })));
}

#[test]
fn bad_arguments_are_errors_and_change_nothing() {
    let (device, map) = filled();
    let (stream, keys) = (device.stream().unwrap(), device.upload(&[1_u32, 2]).unwrap());
    let mut statuses = device.allocate(2).unwrap();
    let mut short = device.allocate(1).unwrap();
    let put = of_kind(OrderedOpKind::Put, &keys, &keys);
    let error = map.apply_on(put, statuses_alone(&mut short), &stream).unwrap_err();
    assert!(matches!(error.device(), Some(DeviceError::OutOfBounds { .. })), "{error}");
    let error = map
        .apply_on(DeviceOrderedOps { count: 3, ..put }, statuses_alone(&mut statuses), &stream)
        .unwrap_err();
    assert!(matches!(error.device(), Some(DeviceError::OutOfBounds { .. })), "{error}");
    let error = map.snapshot().read_on(put, statuses_alone(&mut statuses), &stream).unwrap_err();
    assert!(matches!(error, ContainerError::ChangesSnapshot), "{error}");
    let on_cpu = OrderedMap::<u32, u32>::on_cpu(&OrderedMapOptions::default());
    assert!(matches!(
        on_cpu.apply_on(put, statuses_alone(&mut statuses), &stream),
        Err(ContainerError::OnCpu { .. })
    ));
    assert!(matches!(map.insert(&[1], &[]), Err(ContainerError::WrongLength { .. })));
    assert!(matches!(map.range(&[1], &[], None), Err(ContainerError::WrongLength { .. })));
    let options = OrderedMapOptions::default();
    let error = OrderedMap::build_sorted(&device, &options, &[1_u32, 3, 2], &[0; 3]).unwrap_err();
    assert!(matches!(error, ContainerError::NotSorted { at: 2 }), "{error}");
    assert_eq!(map.len(), 500);
    // Without columns for the answers that are not wanted.
    map.apply_on(put, statuses_alone(&mut statuses), &stream).unwrap();
    assert_eq!((statuses.to_vec::<u8>().unwrap(), map.len()), (vec![1, 1], 502));
    let range = of_kind(OrderedOpKind::Range, &keys, &keys);
    map.apply_on(range, statuses_alone(&mut statuses), &stream).unwrap();
    assert_eq!(statuses.to_vec::<u8>().unwrap(), [TRUNCATED, TRUNCATED]);
}

/// Batches that the device plans, with every access of every kernel checked.
fn planned_on_the_device<K: OrderedKey<V>, V: OrderedWord>(seed: u64) {
    let device = Device::simulated(Mode::seeded(seed)).unwrap();
    let (mut model, mut dice) = (Model::<K, V>::new(), Dice::new(seed));
    let map = OrderedMap::new(&device, &OrderedMapOptions::default()).unwrap();
    let stream = device.stream().unwrap();
    let (keys, values): (Vec<K>, Vec<V>) = (0..300).map(|i| (key_of::<K>(5 * i), key_of::<V>(i))).unzip();
    let columns = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
    map.put_sorted_on(&columns.0, &columns.1, keys.len(), &stream).unwrap();
    model.extend(keys.into_iter().zip(values));
    check_contents(&map, &model).unwrap();
    for most in [1, 40, 300] {
        let ops: Vec<OrderedOp<K, V>> = (0..most).map(|_| random_op(&mut dice)).collect();
        let right: Vec<_> = ops.iter().map(|op| expected(&mut model, op)).collect();
        assert_eq!(apply_on(&device, &map, &ops), right);
        check_contents(&map, &model).unwrap();
    }
}

#[test]
fn batches_that_the_device_plans_read_nothing_that_was_not_written() {
    for seed in 0..3 {
        planned_on_the_device::<u32, u32>(seed);
        planned_on_the_device::<u64, u64>(seed);
        planned_on_the_device::<u128, u64>(seed);
    }
}

#[test]
fn memory_of_another_device_is_refused() {
    let (device, map) = filled();
    let other = Device::simulated(Mode::fast()).unwrap();
    let stream = device.stream().unwrap();
    let column = |is_wrong: bool| if is_wrong { &other } else { &device }.upload(&[1_u32, 2]).unwrap();
    for wrong in 0..5 {
        let [keys, ends] = [0, 1].map(|place| column(place == wrong));
        let [mut statuses, mut pair_keys, mut pair_values] = [2, 3, 4].map(|place| column(place == wrong));
        let answers = DeviceOrderedAnswers {
            statuses: &mut statuses,
            values: None,
            keys: None,
            counts: None,
            pairs: Some(DevicePairs {
                keys: &mut pair_keys,
                values: &mut pair_values,
                layout: PairLayout::Stride(1),
            }),
        };
        let error = map.apply_on(of_kind(OrderedOpKind::Range, &keys, &ends), answers, &stream).unwrap_err();
        assert!(matches!(error.device(), Some(DeviceError::OtherDevice { .. })), "column {wrong}: {error}");
    }
    let error = map.put_sorted_on(&column(false), &column(true), 2, &stream).unwrap_err();
    assert!(matches!(error.device(), Some(DeviceError::OtherDevice { .. })), "{error}");
    assert_eq!(map.len(), 500);
}

#[test]
fn a_stride_of_any_size_gives_pairs_to_the_first_range_alone() {
    let (device, map) = filled();
    let stream = device.stream().unwrap();
    // Positions of the third and the fifth range would be 0 again if they were counted modulo 2^64.
    let (lows, highs) = ([5_u32, 5, 5, 5, 5], [35_u32; 5]);
    let (lows, highs) = (device.upload(&lows).unwrap(), device.upload(&highs).unwrap());
    for stride in [usize::MAX, usize::MAX / 2 + 1, 1 << 62, (1 << 62) + 1, 1 << 33, 5, 4] {
        let mut pairs = [(); 2].map(|()| device.upload(&[9_u32; 4]).unwrap());
        let mut statuses = device.allocate(5).unwrap();
        let [keys, values] = &mut pairs;
        let answers = DeviceOrderedAnswers {
            pairs: Some(DevicePairs { keys, values, layout: PairLayout::Stride(stride) }),
            ..statuses_alone(&mut statuses)
        };
        map.apply_on(of_kind(OrderedOpKind::Range, &lows, &highs), answers, &stream).unwrap();
        let right = [FOUND, TRUNCATED, TRUNCATED, TRUNCATED, TRUNCATED];
        assert_eq!(statuses.to_vec::<u8>().unwrap(), right, "stride {stride}");
        assert_eq!(pairs[0].to_vec::<u32>().unwrap(), [10, 20, 30, 9], "stride {stride}");
    }
}

#[test]
fn offsets_are_written_whatever_else_is_asked_for() {
    let (device, map) = filled();
    let stream = device.stream().unwrap();
    let keys = device.upload(&[10_u32, 11]).unwrap();
    use OrderedOpKind as Kind;
    for kind in [Kind::Put, Kind::Erase, Kind::Insert, Kind::Find, Kind::Successor, Kind::Count] {
        for count in [2, 0] {
            let [mut pair_keys, mut pair_values, mut offsets] =
                [(); 3].map(|()| device.upload(&[9_u32; 3]).unwrap());
            let mut statuses = device.allocate(2).unwrap();
            let pairs = DevicePairs {
                keys: &mut pair_keys,
                values: &mut pair_values,
                layout: PairLayout::Offsets(&mut offsets),
            };
            let answers = DeviceOrderedAnswers { pairs: Some(pairs), ..statuses_alone(&mut statuses) };
            let batch = DeviceOrderedOps { count, ..of_kind(kind, &keys, &keys) };
            map.apply_on(batch, answers, &stream).unwrap();
            let right = if count == 0 { [0, 9, 9] } else { [0; 3] };
            assert_eq!(offsets.to_vec::<u32>().unwrap(), right, "{kind:?} of {count} keys");
        }
    }
    // A batch with kinds of its own that has no operations.
    let (codes, mut offsets) = (device.allocate(0).unwrap(), device.upload(&[9_u32]).unwrap());
    let [mut pair_keys, mut pair_values, mut statuses] = [(); 3].map(|()| device.allocate(0).unwrap());
    let pairs = DevicePairs {
        keys: &mut pair_keys,
        values: &mut pair_values,
        layout: PairLayout::Offsets(&mut offsets),
    };
    let answers = DeviceOrderedAnswers { pairs: Some(pairs), ..statuses_alone(&mut statuses) };
    let kinds = OrderedOpKinds::Each(&codes);
    let batch = DeviceOrderedOps { kinds, count: 0, ..of_kind(Kind::Put, &keys, &keys) };
    map.apply_on(batch, answers, &stream).unwrap();
    assert_eq!(offsets.to_vec::<u32>().unwrap(), [0]);
}
