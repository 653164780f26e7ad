//! SlabMultiMap and SlabSet on the simulator.

#![cfg(not(no_simulator))]

mod slab_multi;

use std::collections::BTreeSet;

use slab_multi::Multi;
use warpkeep_containers::{SlabAnswer, SlabHashOptions, SlabMultiMap, SlabMultiRequest, SlabSet};
use warpkeep_device::{Device, Mode};

mod small_slabs {
    use super::{Multi, SlabMultiMap};
    warpkeep_suites::simulator_suite!(Multi<SlabMultiMap, 64>);
}

mod large_slabs {
    use super::{Multi, SlabMultiMap};
    warpkeep_suites::simulator_suite!(Multi<SlabMultiMap, 128>);
}

mod wide {
    use super::{Multi, SlabMultiMap};
    warpkeep_suites::simulator_suite!(Multi<SlabMultiMap<u64, u64>, 128>);
}

fn device() -> Device {
    Device::simulated(Mode::fast()).unwrap()
}

#[test]
fn values_of_a_key_stay_in_the_order_in_which_they_came() {
    let mut map: SlabMultiMap =
        SlabMultiMap::new(&device(), SlabHashOptions { seed: Some(0), ..SlabHashOptions::default() })
            .unwrap();
    for value in 0..60 {
        map.apply(&[SlabMultiRequest::Insert(9, value), SlabMultiRequest::Insert(value, 1000 + value)])
            .unwrap();
    }
    let expected: Vec<u32> = (0..60).filter(|value| *value != 9).collect();
    let of_nine = |map: &SlabMultiMap| -> Vec<u32> {
        let values = map.search_all(&[9]).unwrap().remove(0);
        values.into_iter().filter(|value| *value < 1000 && *value != 9).collect()
    };
    assert_eq!(of_nine(&map), expected);
    assert_eq!(map.search(&[9, 60]).unwrap(), [Some(0), None]);
    // The first goes first, and order outlives that chains are built anew.
    for value in 0..5 {
        assert_eq!(map.apply(&[SlabMultiRequest::Delete(9)]).unwrap(), [SlabAnswer::Removed(value)]);
    }
    map.flush().unwrap();
    map.reserve(5000).unwrap();
    assert_eq!(of_nine(&map), expected[5..]);
    let stats = map.stats().unwrap();
    assert_eq!((stats.len, stats.tombstones), (115, 0));
}

#[test]
fn all_values_of_a_key_are_found_and_deleted() {
    let mut map: SlabMultiMap =
        SlabMultiMap::new(&device(), SlabHashOptions { seed: Some(0), ..SlabHashOptions::default() })
            .unwrap();
    let batch: Vec<SlabMultiRequest> = (0..3000_u32).map(|i| SlabMultiRequest::Insert(i % 100, i)).collect();
    map.apply(&batch).unwrap();
    let keys: Vec<u32> = (0..101).collect();
    for (key, values) in map.search_all(&keys).unwrap().into_iter().enumerate() {
        let found: BTreeSet<u32> = values.iter().copied().collect();
        let expected: BTreeSet<u32> = (0..3000).filter(|i| *i as usize % 100 == key).collect();
        assert_eq!((found, values.len()), (expected.clone(), expected.len()));
    }
    assert!(map.search_all(&[]).unwrap().is_empty());
    // Of several deletions of a key, each pair is counted by one.
    let batch: Vec<SlabMultiRequest> = (0..90_u32).map(|i| SlabMultiRequest::DeleteAll(i % 30)).collect();
    let answers = map.apply(&batch).unwrap();
    for key in 0..30 {
        let counted = (0..3).map(|part| match answers[30 * part + key] {
            SlabAnswer::Counted(count) => count,
            other => panic!("{other:?}"),
        });
        assert_eq!(counted.sum::<u32>(), 30);
    }
    assert_eq!(map.len().unwrap(), 2100);
    map.clear().unwrap();
    assert!(map.is_empty().unwrap() && map.search_all(&[50]).unwrap() == [vec![]]);
}

#[test]
fn a_set_tells_duplicates() {
    let mut set: SlabSet =
        SlabSet::new(&device(), SlabHashOptions { seed: Some(0), ..SlabHashOptions::default() }).unwrap();
    let keys: Vec<u32> = (0..4000_u32).map(|i| (i % 1000).wrapping_mul(0x0100_0001)).collect();
    let answers = set.insert(&keys).unwrap();
    let first = answers.iter().filter(|answer| **answer == SlabAnswer::Inserted).count();
    assert_eq!((first, set.len().unwrap()), (1000, 1000));
    assert_eq!(set.keys().unwrap().into_iter().collect::<BTreeSet<_>>(), keys.iter().copied().collect());
    assert!(set.contains(&keys).unwrap().into_iter().all(|there| there));
    assert_eq!(set.remove(&keys).unwrap().into_iter().filter(|was| *was).count(), 1000);
    assert!(set.is_empty().unwrap());
}
