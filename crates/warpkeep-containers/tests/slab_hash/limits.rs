//! Memory that ends anywhere, and rounds of deletions and insertions, for all widths.

use std::collections::BTreeMap;
use std::fmt::Debug;

use warpkeep_containers::{ContainerError, SlabAnswer, SlabHashOptions, SlabMap, SlabRequest, SlabSet};
use warpkeep_device::{Device, DeviceError, Mode};

use crate::slab_table::{Request, Table};
use crate::{device, sorted};

fn is_short(error: &ContainerError) -> bool {
    error.device().is_some_and(DeviceError::is_out_of_memory)
}

/// Runs batches with ever more memory, from none on: a batch is refused as a whole, or each request has its answer, and `Full` is the one that
/// changes nothing.
fn memory_ends_anywhere<T: Table + Debug>() {
    let device = device();
    let (mut refused, mut full, mut done) = (0, 0, 0);
    for step in 0..20_u64 {
        let small = device.with_budget(step * step * 1500);
        let mut table =
            match T::create(&small, SlabHashOptions { seed: Some(0), ..SlabHashOptions::default() }) {
                Ok(table) => table,
                Err(error) => {
                    assert!(is_short(&error), "{error}");
                    refused += 1;
                    continue;
                }
            };
        let mut model = BTreeMap::new();
        for batch in 0..4_u64 {
            let requests: Vec<Request<T>> = (0..4000)
                .map(|i| {
                    let (key, value) = T::pair_of((i + 3500 * batch).wrapping_mul(0x9E37_79B1), i);
                    if i % 5 == 4 { SlabRequest::Delete(key) } else { SlabRequest::Insert(key, value) }
                })
                .collect();
            match table.apply(&requests) {
                Err(error) => {
                    assert!(is_short(&error), "{error}");
                    refused += 1;
                }
                Ok(answers) => {
                    for (request, answer) in requests.iter().zip(answers) {
                        let there = model.get(&request.key()).copied();
                        match (*request, answer) {
                            (SlabRequest::Insert(_, _), SlabAnswer::Full) => {
                                assert!(there.is_none());
                                full += 1;
                            }
                            (SlabRequest::Insert(key, value), SlabAnswer::Inserted) => {
                                assert!(there.is_none() && model.insert(key, value).is_none());
                            }
                            (SlabRequest::Insert(..), SlabAnswer::Present(value)) => {
                                assert_eq!(there, Some(value));
                            }
                            (SlabRequest::Delete(key), SlabAnswer::Removed(value)) => {
                                assert_eq!((there, model.remove(&key)), (Some(value), Some(value)));
                            }
                            (SlabRequest::Delete(_), SlabAnswer::Absent) => assert!(there.is_none()),
                            other => panic!("{other:?}"),
                        }
                        done += 1;
                    }
                }
            }
            assert_eq!(table.len().unwrap(), model.len() as u64);
        }
        match table.pairs() {
            Ok(pairs) => assert_eq!(sorted(pairs), model.into_iter().collect::<Vec<_>>()),
            Err(error) => assert!(is_short(&error), "{error}"),
        }
    }
    assert!(refused > 10 && full > 10 && done > 20_000, "{refused} refused, {full} full, {done} done");
    assert_eq!(device.allocated(), 0);
}

#[test]
fn memory_that_ends_anywhere_is_an_error_or_an_answer() {
    memory_ends_anywhere::<SlabMap>();
    memory_ends_anywhere::<SlabMap<u64, u64>>();
    memory_ends_anywhere::<SlabSet<u64>>();
}

#[test]
fn builds_without_memory_leave_an_empty_map() {
    let device = device();
    let keys: Vec<u64> = (0..4000).collect();
    let (mut refused, mut built) = (0, 0);
    for step in 5..40_u64 {
        let small = device.with_budget(step * step * 400);
        let Ok(mut map) =
            SlabMap::<u64, u64>::new(&small, SlabHashOptions { seed: Some(0), ..SlabHashOptions::default() })
        else {
            continue;
        };
        match map.build(&keys, &keys) {
            Ok(answers) => {
                let stored = answers.iter().filter(|answer| **answer == SlabAnswer::Inserted).count();
                assert_eq!(map.len().unwrap(), stored as u64);
                assert!(answers.iter().all(|is| matches!(is, SlabAnswer::Inserted | SlabAnswer::Full)));
                built += 1;
            }
            Err(error) => {
                assert!(is_short(&error), "{error}");
                assert!(map.is_empty().unwrap());
                refused += 1;
            }
        }
    }
    assert!(refused > 3 && built > 3, "{refused} refused, {built} built");
    assert_eq!(device.allocated(), 0);
}

/// Keys go and come again, others come, and chains are packed: each key is there once and the memory does not grow.
fn rounds<T: Table>(slab_bytes: u32, seed: u64) {
    let device = Device::simulated(Mode::seeded(seed)).unwrap();
    let options =
        SlabHashOptions { slab_bytes, most_buckets: 4, seed: Some(0), ..SlabHashOptions::default() };
    let mut table = T::create(&device, options).unwrap();
    let mut model = BTreeMap::new();
    for round in 0..8_u64 {
        let (gone, new) = (40 * round.saturating_sub(1)..40 * round, 40 * round..40 * (round + 1));
        let again = gone.clone().step_by(3);
        let pair = |i: u64| T::pair_of(u64::MAX - i, i << 33 | round);
        let deleted: Vec<Request<T>> = gone.clone().map(|i| SlabRequest::Delete(pair(i).0)).collect();
        for (answer, i) in table.apply(&deleted).unwrap().into_iter().zip(gone) {
            assert_eq!(answer.value(), model.remove(&pair(i).0), "round {round}");
        }
        let stored: Vec<Request<T>> =
            again.chain(new).map(pair).map(|(key, value)| SlabRequest::Insert(key, value)).collect();
        assert!(table.apply(&stored).unwrap().iter().all(|answer| *answer == SlabAnswer::Inserted));
        for request in stored {
            if let SlabRequest::Insert(key, value) = request {
                model.insert(key, value);
            }
        }
        let all: Vec<_> = model.iter().map(|(key, value)| (*key, *value)).collect();
        assert_eq!((sorted(table.pairs().unwrap()), table.len().unwrap()), (all, model.len() as u64));
    }
}

#[test]
fn deletions_and_insertions_in_rounds_leave_each_key_once() {
    for seed in 0..3 {
        rounds::<SlabMap<u64, u64>>(128, seed);
        rounds::<SlabMap<u64, u64>>(64, seed);
        rounds::<SlabSet>(64, seed);
        rounds::<SlabSet>(128, seed);
        rounds::<SlabSet<u64>>(64, seed);
    }
}

#[test]
fn the_lanes_of_a_warp_work_at_the_same_time() {
    let device = device();
    let options = SlabHashOptions { capacity: 1 << 14, seed: Some(0), ..SlabHashOptions::default() };
    let mut map: SlabMap = SlabMap::new(&device, options).unwrap();
    let mut steps_each = |request: fn(u32) -> SlabRequest| {
        map.apply(&(0..4096).map(request).collect::<Vec<_>>()).unwrap();
        device.last_run().unwrap().steps / 4096
    };
    let insert: fn(u32) -> SlabRequest = |key| SlabRequest::Insert(key, key);
    let replace: fn(u32) -> SlabRequest = |key| SlabRequest::Replace(key, !key);
    let steps = [insert, replace, SlabRequest::Search, SlabRequest::Delete, insert].map(&mut steps_each);
    assert!(steps.iter().all(|each| *each < 60), "{steps:?}");
}
