//! Memory that is short.

use warpkeep_containers::{ContainerError, OrderedMap, OrderedMapOptions, OrderedOp, OrderedStatus};
use warpkeep_device::{Device, DeviceError, Mode};
use warpkeep_suites::device::Dice;

use crate::container::random_op;
use crate::model::{Model, check_answers, check_contents};

fn device() -> Device {
    Device::simulated(Mode::fast()).unwrap()
}

fn is_short(error: &ContainerError) -> bool {
    error
        .device()
        .is_some_and(|error| error.is_out_of_memory() || matches!(error, DeviceError::OutOfAddresses { .. }))
}

#[test]
fn memory_that_is_short_at_any_allocation_loses_nothing() {
    let (device, mut dice) = (device(), Dice::new(4));
    let ops: Vec<OrderedOp<u64, u64>> = (0..3000).map(|_| random_op(&mut dice)).collect();
    let (mut refused, mut done) = (0, 0);
    for step in 0..80_u64 {
        let small = device.with_budget(step * step * 130);
        let map = match OrderedMap::new(&small, &OrderedMapOptions::default()) {
            Ok(map) => map,
            Err(error) => {
                assert!(is_short(&error), "{error}");
                refused += 1;
                continue;
            }
        };
        let (mut model, mut held) = (Model::new(), vec![]);
        for ops in ops.chunks(1000) {
            match map.apply(ops) {
                Err(error) => {
                    assert!(is_short(&error), "{error}");
                    refused += 1;
                }
                Ok(answers) => {
                    check_answers(&mut model, ops, &answers).unwrap();
                    done += 1;
                }
            }
            held.push((map.snapshot(), model.clone()));
            // To look at a map takes memory, too.
            match check_contents(&map, &model) {
                Err(error) if is_short(&error) => {}
                checked => checked.unwrap(),
            }
        }
        for (state, model) in held {
            match state.retrieve_all() {
                Err(error) => assert!(is_short(&error), "{error}"),
                Ok(pairs) => assert!(pairs.into_iter().eq(model)),
            }
        }
    }
    assert!(refused > 20 && done > 20, "{refused} refused, {done} done");
    assert_eq!(device.allocated(), 0);
}

#[test]
fn a_full_map_refuses_whole_batches_and_can_be_emptied() {
    let most = 256 << 10;
    let map = OrderedMap::<u64, u64>::new(&device(), &OrderedMapOptions::default().most_bytes(most)).unwrap();
    let mut stored = Model::new();
    for batch in 0.. {
        let keys: Vec<u64> = (100 * batch..100 * batch + 100).collect();
        match map.insert(&keys, &keys) {
            Ok(_) => stored.extend(keys.iter().map(|key| (*key, *key))),
            Err(error) => {
                assert!(is_short(&error), "{error}");
                break;
            }
        }
    }
    assert!(stored.len() > 6000, "{} pairs in {most} bytes", stored.len());
    check_contents(&map, &stored).unwrap();
    // What is there can be changed and read, and gives room.
    assert_eq!(map.insert(&[0], &[7]).unwrap()[0].status, OrderedStatus::Found);
    let keys: Vec<u64> = stored.keys().copied().collect();
    for keys in keys.chunks(300) {
        assert!(map.erase(keys).unwrap().iter().all(|answer| answer.status == OrderedStatus::Erased));
    }
    assert!(map.is_empty() && map.stats().unwrap().leaves == 0);
    map.verify().unwrap();
    map.insert(&keys[..4000], &keys[..4000]).unwrap();
    assert_eq!(map.len(), 4000);
}

#[test]
fn leaves_that_a_snapshot_keeps_are_no_memory_for_a_batch() {
    let device = device();
    let map =
        OrderedMap::<u64, u64>::new(&device, &OrderedMapOptions::default().most_bytes(128 << 10)).unwrap();
    let keys: Vec<u64> = (0..2000).collect();
    map.insert(&keys, &keys).unwrap();
    let before = map.snapshot();
    map.upsert(warpkeep_containers::Upsert::Add, &keys, &vec![1; 2000]).unwrap();
    let error = map.upsert(warpkeep_containers::Upsert::Add, &keys, &vec![1; 2000]).unwrap_err();
    assert!(is_short(&error), "{error}");
    assert_eq!((map.find(&[5]).unwrap(), before.find(&[5]).unwrap()), (vec![Some(6)], vec![Some(5)]));
    map.verify().unwrap();
    drop(before);
    map.upsert(warpkeep_containers::Upsert::Add, &keys, &vec![1; 2000]).unwrap();
    assert_eq!(map.find(&[5]).unwrap(), [Some(7)]);
    map.verify().unwrap();
}
