//! The hash map beside a map of the standard library.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use warpkeep_containers::{
    ContainerError, DeviceAnswers, DeviceOps, HashMap, HashMapOptions, MapAnswer, MapOp, MapOpKind,
    MapOpKinds, MapStatus, Upsert,
};
use warpkeep_device::{Device, DeviceError, Mode};
use warpkeep_suites::device::Dice;

use crate::model::{KINDS, Model, check_answers, check_contents, expected, random_op};

fn config(cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(26), failure_persistence: None, ..Config::default() }
}

fn device() -> Device {
    Device::simulated(Mode::fast()).unwrap()
}

fn options() -> HashMapOptions {
    HashMapOptions::default().seed(0)
}

fn map() -> HashMap {
    map_on(&device())
}

fn map_on(device: &Device) -> HashMap {
    HashMap::new(device, &options()).unwrap()
}

/// Keys of all kinds: few, so that operations of a batch meet, and any.
fn keys() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0..40_u64, 1 => any::<u64>(), 1 => (0..4_u64).prop_map(|i| u64::MAX - i)]
}

pub(crate) fn operations(most: usize) -> impl Strategy<Value = Vec<MapOp>> {
    let op = (0..KINDS.len(), keys(), prop_oneof![0..10_u64, any::<u64>()]);
    prop::collection::vec(op.prop_map(|(kind, key, value)| MapOp::new(KINDS[kind], key, value)), 0..most)
}

/// Runs a batch through device memory, where the device plans it.
fn apply_on(device: &Device, map: &HashMap, ops: &[MapOp]) -> Vec<MapAnswer> {
    let stream = device.stream().unwrap();
    let codes: Vec<u8> = ops.iter().map(|op| op.kind as u8).collect();
    let keys: Vec<u64> = ops.iter().map(|op| op.key).collect();
    let values: Vec<u64> = ops.iter().map(|op| op.value).collect();
    let [codes, keys, values] =
        [device.upload(&codes), device.upload(&keys), device.upload(&values)].map(Result::unwrap);
    let mut statuses = device.allocate(ops.len()).unwrap();
    let mut before = device.allocate(8 * ops.len()).unwrap();
    let batch =
        DeviceOps { kinds: MapOpKinds::Each(&codes), keys: &keys, values: Some(&values), count: ops.len() };
    let answers = DeviceAnswers { statuses: &mut statuses, before: Some(&mut before) };
    map.apply_on(batch, answers, &stream).unwrap();
    let statuses = statuses.to_vec::<u8>().unwrap();
    let statuses: &[MapStatus] = bytemuck::checked::cast_slice(&statuses);
    let answer = |(&status, before): (&MapStatus, u64)| MapAnswer { status, before };
    statuses.iter().zip(before.to_vec::<u64>().unwrap()).map(answer).collect()
}

proptest! {
    #![proptest_config(config(40))]

    #[test]
    fn batches_agree_with_a_map_of_the_standard_library(batches in prop::collection::vec(operations(400), 1..6)) {
        let device = device();
        let on_device = HashMap::new(&device, &options()).unwrap();
        let in_parts = HashMap::new(&device, &options().staged(37)).unwrap();
        let planned_there = HashMap::new(&device, &options()).unwrap();
        let on_cpu = HashMap::on_cpu(&options());
        let mut model = Model::new();
        for ops in &batches {
            let right: Vec<MapAnswer> = ops.iter().map(|op| expected(&mut model, *op)).collect();
            prop_assert_eq!(&on_device.apply(ops).unwrap(), &right);
            prop_assert_eq!(&in_parts.apply(ops).unwrap(), &right);
            prop_assert_eq!(&apply_on(&device, &planned_there, ops), &right);
            prop_assert_eq!(&on_cpu.apply(ops).unwrap(), &right);
        }
        for map in [&on_device, &in_parts, &planned_there, &on_cpu] {
            check_contents(map, &model).unwrap();
        }
    }

    #[test]
    fn lookups_need_no_order(ops in operations(600), asked in prop::collection::vec(keys(), 0..300)) {
        let (map, mut model) = (map(), Model::new());
        let answers = map.apply(&ops).unwrap();
        check_answers(&mut model, &ops, &answers).unwrap();
        let right: Vec<Option<u64>> = asked.iter().map(|key| model.get(key).copied()).collect();
        prop_assert_eq!(map.find(&asked).unwrap(), &right[..]);
        let there: Vec<bool> = right.iter().map(Option::is_some).collect();
        prop_assert_eq!(map.contains(&asked).unwrap(), there);
    }
}

#[test]
fn batches_that_the_device_plans_are_alike_in_every_schedule() {
    for seed in 0..4 {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let map = HashMap::new(&device, &options()).unwrap();
        let (mut model, mut dice) = (Model::new(), Dice::new(seed));
        for count in [1, 300, 40] {
            let mut op = || {
                let key = dice.below(150);
                random_op(&mut dice, key)
            };
            let ops: Vec<MapOp> = (0..count).map(|_| op()).collect();
            let answers = apply_on(&device, &map, &ops);
            check_answers(&mut model, &ops, &answers).unwrap();
            check_contents(&map, &model).unwrap();
        }
    }
}

#[test]
fn a_key_with_all_operations_of_a_large_batch_is_worked_in_order() {
    let device = device();
    let map = HashMap::new(&device, &options()).unwrap();
    let ops: Vec<MapOp> = (0..20_000).map(|i| MapOp::add(5, i)).collect();
    let mut model = Model::new();
    let answers = apply_on(&device, &map, &ops);
    check_answers(&mut model, &ops, &answers).unwrap();
    assert_eq!(map.retrieve_all().unwrap(), [(5, 20_000 * 19_999 / 2)]);
}

#[test]
fn batches_of_one_kind_have_the_answers_of_mixed_ones() {
    let (map, on_cpu) = (map(), HashMap::on_cpu(&options()));
    let (keys, values) = ([5, 6, 5, 0, 6, u64::MAX], [9, 8, 7, 6, 5, 4]);
    for map in [&map, &on_cpu] {
        map.insert(&keys, &values).unwrap();
    }
    for how in [Upsert::Replace, Upsert::Add, Upsert::Min, Upsert::Max] {
        assert_eq!(map.upsert(how, &keys, &values).unwrap(), on_cpu.upsert(how, &keys, &values).unwrap());
    }
    assert_eq!(map.erase(&keys).unwrap(), on_cpu.erase(&keys).unwrap());
    assert!(map.is_empty().unwrap() && on_cpu.is_empty().unwrap());
}

#[test]
fn all_pairs_can_be_had_in_device_memory() {
    let device = device();
    let (map, stream) = (HashMap::new(&device, &options()).unwrap(), device.stream().unwrap());
    let keys: Vec<u64> = (0..5000).map(|i| i * i).collect();
    let values: Vec<u64> = (0..5000).collect();
    map.insert(&keys, &values).unwrap();
    let (mut on_keys, mut on_values) =
        (device.allocate(8 * 5000).unwrap(), device.allocate(8 * 5000).unwrap());
    assert_eq!(map.retrieve_all_on(&mut on_keys, &mut on_values, &stream).unwrap(), 5000);
    let found: Model =
        on_keys.to_vec::<u64>().unwrap().into_iter().zip(on_values.to_vec::<u64>().unwrap()).collect();
    assert_eq!(found, keys.into_iter().zip(values).collect());
    let mut short = device.allocate(8 * 4999).unwrap();
    let error = map.retrieve_all_on(&mut on_keys, &mut short, &stream).unwrap_err();
    assert!(matches!(error.device(), Some(DeviceError::OutOfBounds { len: 40_000, .. })), "{error}");
}

#[test]
fn bad_arguments_are_refused_before_anything_changes() {
    let device = device();
    let (map, stream) = (HashMap::new(&device, &options()).unwrap(), device.stream().unwrap());
    let error = map.insert(&[1, 2], &[1]).unwrap_err();
    assert!(matches!(error, ContainerError::WrongLength { given: 1, expected: 2, .. }), "{error}");
    let keys = device.upload(&[1_u64, 2]).unwrap();
    let mut statuses = device.allocate(3).unwrap();
    let mut run = |map: &HashMap, count| {
        let kinds = MapOpKinds::All(MapOpKind::Put);
        let answers = DeviceAnswers { statuses: &mut statuses, before: None };
        map.apply_on(DeviceOps { kinds, keys: &keys, values: None, count }, answers, &stream)
    };
    let error = run(&map, 3).unwrap_err();
    assert!(matches!(error.device(), Some(DeviceError::OutOfBounds { len: 24, size: 16, .. })), "{error}");
    assert!(run(&map, usize::MAX).is_err() && map.is_empty().unwrap());
    run(&map, 0).unwrap();
    run(&map, 2).unwrap();
    assert_eq!(map.find(&[1, 2]).unwrap(), [Some(0), Some(0)]);
    let on_cpu = HashMap::on_cpu(&options());
    assert!(matches!(run(&on_cpu, 2), Err(ContainerError::OnCpu { what: "apply_on" })));
    assert!(on_cpu.reference().is_err());
}

#[test]
fn a_batch_that_changes_a_map_has_fewer_than_2_to_the_32_operations() {
    // Kernels number them with 32 bits: with more, two would have one number.
    let device = device();
    let (map, stream) = (map_on(&device), device.stream().unwrap());
    let keys = device.upload(&[1_u64]).unwrap();
    let mut statuses = device.allocate(1).unwrap();
    let mut run = |kind, count| {
        let ops = DeviceOps { kinds: MapOpKinds::All(kind), keys: &keys, values: None, count };
        let answers = DeviceAnswers { statuses: &mut statuses, before: None };
        map.apply_on(ops, answers, &stream).unwrap_err()
    };
    let error = run(MapOpKind::Insert, 1 << 32);
    assert!(matches!(error, ContainerError::TooLarge { given: 0x1_0000_0000, .. }), "{error}");
    // Lookups have no numbers, and what is wrong with the others is another thing.
    for (kind, count) in [(MapOpKind::Find, 1 << 32), (MapOpKind::Erase, u32::MAX as usize)] {
        let error = run(kind, count);
        assert!(matches!(error.device(), Some(DeviceError::OutOfBounds { .. })), "{error}");
    }
    // Longer batches of slices are run in parts.
    let parts = HashMap::<u64, u64>::new(&device, &options().staged(usize::MAX)).unwrap();
    parts.insert(&[1, 2], &[3, 4]).unwrap();
}

#[test]
fn memory_of_another_device_is_refused() {
    let [device, other] = [device(), device()];
    let (map, stream) = (map_on(&device), device.stream().unwrap());
    let columns = |device: &Device| {
        (
            device.upload(&[1_u64, 2]).unwrap(),
            device.upload(&[0_u8, 0]).unwrap(),
            device.upload(&[0_u64; 2]).unwrap(),
        )
    };
    for wrong in 0..5 {
        let of = |column| columns(if column == wrong { &other } else { &device });
        let (keys, codes, values) = (of(0).0, of(1).1, of(2).2);
        let (mut statuses, mut before) = (of(3).1, of(4).2);
        let ops = DeviceOps { kinds: MapOpKinds::Each(&codes), keys: &keys, values: Some(&values), count: 2 };
        let answers = DeviceAnswers { statuses: &mut statuses, before: Some(&mut before) };
        let error = map.apply_on(ops, answers, &stream).unwrap_err();
        assert!(matches!(error.device(), Some(DeviceError::OtherDevice { .. })), "column {wrong}: {error}");
        // SAFETY: it is refused, and uses nothing.
        let refused = unsafe {
            let answers = DeviceAnswers { statuses: &mut statuses, before: Some(&mut before) };
            map.enqueue_on(ops, answers, &stream)
        };
        assert!(refused.is_err());
    }
    let (mut keys, _, mut values) = columns(&other);
    let (mut own_keys, ..) = columns(&device);
    for error in [
        map.retrieve_all_on(&mut keys, &mut values, &stream).unwrap_err(),
        map.retrieve_all_on(&mut own_keys, &mut values, &stream).unwrap_err(),
    ] {
        assert!(matches!(error.device(), Some(DeviceError::OtherDevice { .. })), "{error}");
    }
    assert!(map.is_empty().unwrap());
}

#[test]
fn codes_that_mean_nothing_only_ask() {
    let device = device();
    let (map, stream) = (HashMap::<u64, u64>::new(&device, &options()).unwrap(), device.stream().unwrap());
    map.insert(&[1], &[10]).unwrap();
    let (keys, codes) = (device.upload(&[1_u64, 2]).unwrap(), device.upload(&[200_u8, 8]).unwrap());
    let mut statuses = device.allocate(2).unwrap();
    let ops = DeviceOps { kinds: MapOpKinds::Each(&codes), keys: &keys, values: None, count: 2 };
    map.apply_on(ops, DeviceAnswers { statuses: &mut statuses, before: None }, &stream).unwrap();
    assert_eq!(statuses.to_vec::<u8>().unwrap(), [MapStatus::Found as u8, MapStatus::Absent as u8]);
    assert_eq!(map.retrieve_all().unwrap(), [(1, 10)]);
}

#[test]
fn threads_see_whole_batches() {
    let (map, keys) = (map(), (0..200).collect::<Vec<u64>>());
    map.insert(&keys, &[0; 200]).unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for _ in 0..40 {
                map.upsert(Upsert::Add, &keys, &[1; 200]).unwrap();
            }
        });
        threads.spawn(|| {
            let more: Vec<u64> = (1000..1100).collect();
            for round in 0..20 {
                let ops: Vec<MapOp> = more.iter().map(|key| MapOp::put(key + 100 * round, 1)).collect();
                map.apply(&ops).unwrap();
            }
        });
        for _ in 0..2 {
            threads.spawn(|| {
                for _ in 0..40 {
                    let found = map.find(&keys).unwrap();
                    assert!(found.iter().all(|value| *value == found[0]), "{found:?}");
                }
            });
        }
    });
    assert_eq!(map.find(&keys).unwrap(), vec![Some(40); 200]);
    assert_eq!(map.len().unwrap(), 2200);
    map.verify().unwrap();
}

#[test]
fn clear_keeps_the_memory_and_nothing_else() {
    let (map, keys) = (map(), (0..3000).collect::<Vec<u64>>());
    map.insert(&keys, &keys).unwrap();
    let buckets = map.stats().unwrap().buckets;
    map.clear().unwrap();
    assert!(map.is_empty().unwrap() && map.retrieve_all().unwrap().is_empty());
    assert_eq!(map.stats().unwrap().buckets, buckets);
    assert!(map.insert(&keys, &keys).unwrap().iter().all(|answer| answer.status == MapStatus::Inserted));
    map.verify().unwrap();
}

#[test]
fn empty_batches_do_nothing() {
    let map = map();
    assert!(map.apply(&[]).unwrap().is_empty() && map.find(&[]).unwrap().is_empty());
    assert!(map.insert(&[], &[]).unwrap().is_empty() && map.erase(&[]).unwrap().is_empty());
    map.verify().unwrap();
}

#[test]
fn a_slot_that_is_overwritten_is_noticed() {
    // A kernel that is not ours may write anywhere; verify reports it.
    let device = device();
    let map = HashMap::new(&device, &options()).unwrap();
    let keys: Vec<u64> = (0..150).collect();
    map.insert(&keys, &keys).unwrap();
    map.verify().unwrap();
    // The map's memory begins where its reference says: eight bytes of the address.
    let reference = map.reference().unwrap();
    let slots = u64::from_le_bytes(bytemuck::bytes_of(&reference)[..8].try_into().unwrap());
    let other = device.upload(&[u64::MAX, 7]).unwrap();
    let stream = device.stream().unwrap();
    // SAFETY: the map has 64 buckets there, and no call of it runs.
    unsafe {
        device.copy_raw(warpkeep_device::DevicePtr::new(slots), other.ptr(), 16, &stream).unwrap();
    }
    stream.synchronize().unwrap();
    let error = map.verify().unwrap_err();
    assert!(matches!(error, ContainerError::Inconsistent { .. }), "{error}");
}
