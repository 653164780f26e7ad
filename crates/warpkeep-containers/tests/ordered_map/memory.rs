//! Memory that ends at each allocation in turn, and maps that take all there is.

use warpkeep_containers::{
    ContainerError, OrderedKey, OrderedMap, OrderedMapOptions, OrderedOp, OrderedStatus, OrderedWord, Upsert,
};
use warpkeep_device::{Buffer, Device, DeviceError, Mode};
use warpkeep_suites::device::Dice;

use crate::changes::{explain, kernel, run_ops};
use crate::container::random_op;
use crate::model::{Model, check_answers, check_contents, key_of};

/// A handle whose memory these tests take up.
fn device(bytes: u64) -> Device {
    Device::simulated(Mode::fast()).unwrap().with_budget(bytes)
}

fn map<K: OrderedKey<V>, V: OrderedWord>(device: &Device) -> OrderedMap<K, V> {
    OrderedMap::new(device, &OrderedMapOptions::default()).unwrap()
}

/// Takes all memory but this much.
fn leave(device: &Device, bytes: u64) -> Buffer {
    device.allocate((device.budget_left() - bytes) as usize).unwrap()
}

/// Makes a call again and again, each time with as much more memory as the last one was refused, until it succeeds: so that
/// each of its allocations is refused once. Gives how often it failed.
fn refuse_each<T>(
    device: &Device,
    mut call: impl FnMut() -> Result<T, ContainerError>,
    mut look: impl FnMut(),
) -> (T, usize) {
    let mut left = 0;
    for failures in 0..500 {
        let others = leave(device, left);
        let answer = call();
        drop(others);
        left += match answer {
            Ok(answer) => return (answer, failures),
            Err(error) => match error.device() {
                Some(DeviceError::OutOfBudget { asked, left }) => asked - left,
                _ => panic!("{error}"),
            },
        };
        look();
    }
    panic!("{left} bytes are not enough");
}

#[test]
fn a_batch_that_is_refused_any_of_its_allocations_changes_nothing() {
    let (device, mut dice) = (device(6 << 20), Dice::new(11));
    let (mut model, mut failures) = (Model::new(), 0);
    let map = map(&device);
    let states = std::cell::RefCell::new(Vec::new());
    // Batches that the host plans and that the device plans. Each changes leaves that a snapshot keeps.
    for size in [300, 30, 6000, 500] {
        let ops: Vec<OrderedOp<u64, u64>> = (0..size).map(|_| random_op(&mut dice)).collect();
        let (answers, failed) =
            refuse_each(&device, || map.apply(&ops), || check_contents(&map, &model).unwrap());
        check_answers(&mut model, &ops, &answers).unwrap();
        check_contents(&map, &model).unwrap();
        states.borrow_mut().push((map.snapshot(), model.clone()));
        failures += failed;
        // Batches of one kind.
        let keys: Vec<u64> = (0..size).map(|_| dice.below(20_000)).collect();
        let (_, failed) = refuse_each(
            &device,
            || map.upsert(Upsert::Replace, &keys, &keys),
            || check_contents(&map, &model).unwrap(),
        );
        model.extend(keys.iter().map(|key| (*key, *key)));
        failures += failed;
        // Most of it: neighbours are merged if there is memory for that.
        let gone: Vec<u64> = model.keys().copied().filter(|key| key % 5 != 0).collect();
        let (_, failed) = refuse_each(&device, || map.erase(&gone), || check_contents(&map, &model).unwrap());
        model.retain(|key, _| key % 5 == 0);
        failures += failed;
        check_contents(&map, &model).unwrap();
        let (stats, failed) = refuse_each(&device, || map.stats(), || ());
        assert_eq!(stats.items, model.len() as u64);
        failures += failed;
        if states.borrow().len() > 2 {
            states.borrow_mut().remove(1);
        }
    }
    for (state, model) in states.into_inner() {
        assert!(state.retrieve_all().unwrap().into_iter().eq(model));
    }
    assert!(failures > 60, "{failures} failures");
    assert_eq!(map.stats().unwrap().retired_leaves, 0);
    check_contents(&map, &model).unwrap();
}

#[test]
fn sorted_pairs_that_are_refused_any_allocation_change_nothing() {
    let device = device(6 << 20);
    let stream = device.stream().unwrap();
    let map = map::<u64, u64>(&device);
    let mut model = Model::new();
    for round in 0..2_u64 {
        let keys: Vec<u64> = (0..5000).map(|i| 3 * i + round).collect();
        let column = device.upload(&keys).unwrap();
        let (_, failed) = refuse_each(
            &device,
            || map.put_sorted_on(&column, &column, keys.len(), &stream),
            || check_contents(&map, &model).unwrap(),
        );
        model.extend(keys.iter().map(|key| (*key, *key)));
        check_contents(&map, &model).unwrap();
        assert!(failed > 2, "{failed} failures");
    }
}

#[test]
fn a_writer_that_cannot_be_finished_for_want_of_memory_is_finished_later() {
    let (device, mut dice) = (device(48 << 20), Dice::new(5));
    let (map, mut model) = (map(&device), Model::new());
    let (kernel, mut failures, mut held) = (kernel::<u64>(&device).unwrap(), 0, Vec::new());
    // More leaves than the host sorts in the second round; leaves that go and neighbours that can be merged in the third.
    for (round, count) in [(0, 400), (1, 60_000), (2, 30_000), (3, 50)] {
        let op = |dice: &mut Dice| match round {
            2 => OrderedOp::erase(dice.below(100_000)),
            _ => OrderedOp::put(dice.below(100_000), dice.below(100)),
        };
        let ops: Vec<_> = (0..count).map(|_| op(&mut dice)).collect();
        let mut writer = refuse_each(&device, || map.writer(count), || ()).0;
        let changes = run_ops(&device, &kernel, &writer, &ops, 1, false).unwrap();
        let before = model.clone();
        let ((), failed) = refuse_each(
            &device,
            || writer.try_finish(),
            || {
                assert!(matches!(map.insert(&[1], &[1]), Err(ContainerError::BeingWritten)));
                check_contents(&map, &before).unwrap();
            },
        );
        failures += failed;
        writer.try_finish().unwrap();
        explain(&mut model, &ops, &changes).unwrap();
        check_contents(&map, &model).unwrap();
        // The next one can be opened while the first is still there.
        let next = map.writer(1).unwrap();
        drop(writer);
        assert!(matches!(map.insert(&[1], &[1]), Err(ContainerError::BeingWritten)));
        drop(next);
        held.push((map.snapshot(), model.clone()));
    }
    assert!(failures > 15, "{failures} failures");
    for (state, model) in held {
        assert!(state.retrieve_all().unwrap().into_iter().eq(model));
    }
    map.insert(&[1], &[1]).unwrap();
    map.verify().unwrap();
}

fn fill_and_empty<K: OrderedKey<V>, V: OrderedWord>() {
    let device = device(1 << 20);
    let (map, mut dice, mut stored) = (map::<K, V>(&device), Dice::new(2), Model::new());
    // Batches of all sizes, until none has enough memory.
    loop {
        let before = stored.len();
        for size in [100, 1, 3000, 10, 700, 20_000, 30] {
            let keys: Vec<K> = (0..size).map(|_| key_of(dice.below(1 << 31))).collect();
            let values = vec![key_of(7); keys.len()];
            if map.insert(&keys, &values).is_ok() {
                stored.extend(keys.into_iter().zip(values));
            }
        }
        if stored.len() == before {
            break;
        }
    }
    assert!(stored.len() > 5000, "{} keys", stored.len());
    // What was left, and what the batches that were refused have given back, is taken by others.
    let mut others = Vec::new();
    for bytes in [1 << 16, 1 << 12, 256, 16, 1] {
        others.extend(std::iter::from_fn(|| device.allocate(bytes).ok()));
    }
    assert_eq!(device.budget_left(), 0);
    let keys: Vec<K> = stored.keys().copied().collect();
    for (at, keys) in keys.chunks(50).enumerate() {
        let answers = map.erase(keys).unwrap_or_else(|error| panic!("batch {at}: {error}"));
        assert!(answers.iter().all(|answer| answer.status == OrderedStatus::Erased));
        // What the map frees is not for its later batches.
        others.extend(device.allocate(device.budget_left() as usize));
    }
    assert_eq!(map.len(), 0);
    drop(others);
    check_contents(&map, &Model::new()).unwrap();
    map.insert(&keys[..500], &[key_of(1); 500]).unwrap();
    assert_eq!(map.len(), 500);
}

#[test]
fn a_map_that_has_taken_all_memory_can_be_emptied() {
    fill_and_empty::<u32, u32>();
    fill_and_empty::<u64, u64>();
    fill_and_empty::<u128, u64>();
}

#[test]
fn ranges_with_a_limit_take_memory_for_their_pairs_alone() {
    let device = Device::simulated(Mode::fast()).unwrap().with_budget(384 << 10);
    let (map, keys) = (map(&device), (0..600).map(|i| 10 * i).collect::<Vec<u64>>());
    map.insert(&keys, &keys).unwrap();
    let lows: Vec<u64> = (0..500).collect();
    let highs: Vec<u64> = lows.iter().map(|low| low + 30).collect();
    for limit in [2, 3, 500, 599] {
        let ranges = map.range(&lows, &highs, Some(limit)).unwrap();
        for (at, (low, high)) in lows.iter().zip(&highs).enumerate() {
            let right: Vec<u64> = keys.iter().copied().filter(|key| low <= key && key <= high).collect();
            let shown = limit.min(right.len());
            assert_eq!((ranges.of(at).0, ranges.counts[at]), (&right[..shown], right.len() as u64));
        }
    }
}
