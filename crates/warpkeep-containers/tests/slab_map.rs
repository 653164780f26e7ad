//! SlabMap on the simulator. The traps are mistakes of other implementations.

#![cfg(not(no_simulator))]

mod slab_table;

use slab_table::Slabs;
use warpkeep_containers::{SlabAnswer, SlabHashOptions, SlabMap, SlabRequest};
use warpkeep_device::sim::Seeded;
use warpkeep_device::{Device, Mode};

mod small_slabs {
    use super::{SlabMap, Slabs};
    warpkeep_suites::simulator_suite!(Slabs<SlabMap, 64, false>);
}

mod large_slabs {
    use super::{SlabMap, Slabs};
    warpkeep_suites::simulator_suite!(Slabs<SlabMap, 128, false>);
}

mod growing {
    use super::{SlabMap, Slabs};
    warpkeep_suites::simulator_suite!(Slabs<SlabMap, 64, true>);
}

fn device() -> Device {
    Device::simulated(Mode::fast()).unwrap()
}

/// A map with four buckets, whatever is stored.
fn crowded(device: &Device) -> SlabMap {
    SlabMap::new(device, SlabHashOptions { most_buckets: 4, seed: Some(0), ..SlabHashOptions::default() })
        .unwrap()
}

fn inserts(keys: impl Iterator<Item = u32>) -> Vec<SlabRequest> {
    keys.map(|key| SlabRequest::Insert(key, !key)).collect()
}

fn sorted(map: &SlabMap) -> Vec<(u32, u32)> {
    let mut pairs = map.pairs().unwrap();
    pairs.sort_unstable();
    pairs
}

#[test]
fn trap_delete_does_not_erase_a_pair_that_came_meanwhile() {
    // A deletion and replacements of one key: what was answered as removed is what a replacement or the insertion stored.
    for seed in 0..40 {
        let mode = Mode::Seeded(Seeded { switch_chance: 400, ..Seeded::new(seed) });
        let mut map = crowded(&Device::simulated(mode).unwrap());
        map.apply(&[SlabRequest::Insert(5, 0)]).unwrap();
        let mut batch: Vec<SlabRequest> = (1..40).map(|value| SlabRequest::Replace(5, value)).collect();
        batch.insert(20, SlabRequest::Delete(5));
        let answers = map.apply(&batch).unwrap();
        let inserted = answers.iter().filter(|answer| **answer == SlabAnswer::Inserted).count();
        assert!(matches!(answers[20], SlabAnswer::Removed(_)), "{:?}", answers[20]);
        let left = map.search(&[5]).unwrap()[0];
        assert_eq!(
            inserted,
            usize::from(left.is_some()),
            "the deletion was not the last: one replacement inserts"
        );
    }
}

#[test]
fn trap_delete_and_insert_leaves_a_key_once() {
    let mut map = crowded(&device());
    map.apply(&inserts(0..200)).unwrap();
    // Holes in the first slabs of all chains, then every key again.
    map.apply(&(0..50).map(SlabRequest::Delete).collect::<Vec<_>>()).unwrap();
    let answers = map.apply(&inserts(0..200)).unwrap();
    assert!(answers[..50].iter().all(|answer| *answer == SlabAnswer::Inserted));
    assert!(answers[50..].iter().zip(50_u32..).all(|(answer, key)| *answer == SlabAnswer::Present(!key)));
    assert_eq!(sorted(&map), (0..200).map(|key| (key, !key)).collect::<Vec<_>>());
}

#[test]
fn trap_replace_stores_the_new_value_and_insert_keeps_the_old_one() {
    let mut map = crowded(&device());
    assert_eq!(map.apply(&[SlabRequest::Replace(3, 1)]).unwrap(), [SlabAnswer::Inserted]);
    assert_eq!(map.apply(&[SlabRequest::Replace(3, 2)]).unwrap(), [SlabAnswer::Updated(1)]);
    assert_eq!(map.apply(&[SlabRequest::Insert(3, 9)]).unwrap(), [SlabAnswer::Present(2)]);
    assert_eq!(map.search(&[3]).unwrap(), [Some(2)]);
}

#[test]
fn trap_out_of_slabs_is_an_answer() {
    let device = device();
    // The least that a pool has: 1024 slabs of 7 pairs behind 4 buckets.
    let options =
        SlabHashOptions { most_buckets: 4, most_slabs: 1, seed: Some(0), ..SlabHashOptions::default() };
    let mut map: SlabMap = SlabMap::new(&device, options).unwrap();
    let answers = map.apply(&inserts(0..9000)).unwrap();
    let stored = answers.iter().filter(|answer| **answer == SlabAnswer::Inserted).count();
    let full = answers.iter().filter(|answer| **answer == SlabAnswer::Full).count();
    // A slab that a loser holds for a moment can be missed, and the last slab of a chain need not be full.
    assert!(
        stored + full == 9000 && stored <= 7 * 1028 && stored > 7 * 1000,
        "{stored} stored, {full} refused"
    );
    assert_eq!(map.len().unwrap(), stored as u64);
    let keys: Vec<u32> = (0..9000).collect();
    for (key, (found, answer)) in map.search(&keys).unwrap().into_iter().zip(answers).enumerate() {
        assert_eq!(found, (answer == SlabAnswer::Inserted).then_some(!(key as u32)));
    }
    // What is there can be changed and deleted; a key that was deleted has its place.
    let inside = map.pairs().unwrap()[0].0;
    let answers = map.apply(&[SlabRequest::Replace(inside, 1)]).unwrap();
    assert_eq!(answers, [SlabAnswer::Updated(!inside)]);
    map.apply(&[SlabRequest::Delete(inside)]).unwrap();
    assert_eq!(map.apply(&[SlabRequest::Insert(inside, 2)]).unwrap(), [SlabAnswer::Inserted]);
    // Deleting and flushing make room, although there is no slab to do it with.
    let deleted: Vec<SlabRequest> =
        map.pairs().unwrap().iter().step_by(2).map(|(key, _)| SlabRequest::Delete(*key)).collect();
    map.apply(&deleted).unwrap();
    let kept = sorted(&map);
    map.flush().unwrap();
    assert_eq!(sorted(&map), kept);
    let stats = map.stats().unwrap();
    assert!(stats.tombstones == 0 && stats.chained_slabs <= kept.len() as u64 / 7 + 4, "{stats:?}");
    let again = map.apply(&inserts(1 << 20..(1 << 20) + 3000)).unwrap();
    assert!(again.iter().all(|answer| *answer == SlabAnswer::Inserted));
}

#[test]
fn trap_slabs_that_come_back_are_as_good_as_new() {
    let mut map = crowded(&device());
    for round in 0..5_u32 {
        let keys = round * 1000..round * 1000 + 300;
        map.apply(&inserts(keys.clone())).unwrap();
        assert_eq!(sorted(&map), keys.clone().map(|key| (key, !key)).collect::<Vec<_>>());
        map.apply(&keys.map(SlabRequest::Delete).collect::<Vec<_>>()).unwrap();
        map.flush().unwrap();
        let stats = map.stats().unwrap();
        assert_eq!((stats.len, stats.tombstones, stats.chained_slabs), (0, 0, 0));
    }
    map.apply(&inserts(0..300)).unwrap();
    map.clear().unwrap();
    let stats = map.stats().unwrap();
    assert_eq!((stats.len, stats.chained_slabs, map.pairs().unwrap().len()), (0, 0, 0));
}

#[test]
fn trap_regular_keys_are_spread() {
    for stride in [1, 2, 1 << 10, 1 << 16, 1 << 20] {
        let options = SlabHashOptions { capacity: 4000, seed: Some(0), ..SlabHashOptions::default() };
        let mut map: SlabMap = SlabMap::new(&device(), options).unwrap();
        map.apply(&inserts((0..4000_u32).map(|i| i.wrapping_mul(stride) ^ i >> 12))).unwrap();
        let stats = map.stats().unwrap();
        assert!(stats.chained_slabs < stats.buckets / 2, "{stride}: {stats:?}");
    }
}

#[test]
fn trap_every_key_and_value_can_be_stored() {
    for seed in 0..20 {
        let options = SlabHashOptions { seed: Some(seed), most_buckets: 4, ..SlabHashOptions::default() };
        let mut map: SlabMap = SlabMap::new(&device(), options).unwrap();
        let odd = [0, 1, 2, u32::MAX, u32::MAX - 1, u32::MAX - 2, 1 << 31, (1 << 31) - 1];
        let batch: Vec<SlabRequest> =
            odd.iter().zip(odd.iter().rev()).map(|(key, value)| SlabRequest::Insert(*key, *value)).collect();
        assert!(map.apply(&batch).unwrap().iter().all(|answer| *answer == SlabAnswer::Inserted));
        assert_eq!(map.search(&odd).unwrap(), odd.iter().rev().map(|value| Some(*value)).collect::<Vec<_>>());
        assert_eq!(map.search(&[3, 1 << 30]).unwrap(), [None, None]);
    }
}

#[test]
fn buckets_are_added_as_pairs_come_and_small_batches_too() {
    let mut map: SlabMap =
        SlabMap::new(&device(), SlabHashOptions { seed: Some(0), ..SlabHashOptions::default() }).unwrap();
    let mut next = 0;
    for size in [1, 5, 40, 300, 10, 5000, 3, 20_000, 64] {
        map.apply(&inserts(next..next + size)).unwrap();
        next += size;
        let stats = map.stats().unwrap();
        assert_eq!(stats.len, u64::from(next));
        assert!(stats.len as f64 <= 0.9 * 7.0 * stats.buckets as f64, "{stats:?}");
    }
    assert_eq!(sorted(&map), (0..next).map(|key| (key, !key)).collect::<Vec<_>>());
}

#[test]
fn chains_of_any_length_are_flushed_in_every_schedule() {
    for seed in 0..24 {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let slab_bytes = if seed % 2 == 0 { 64 } else { 128 };
        let options =
            SlabHashOptions { slab_bytes, most_buckets: 4, seed: Some(0), ..SlabHashOptions::default() };
        let mut map: SlabMap = SlabMap::new(&device, options).unwrap();
        let count = 1 + 9 * seed as u32;
        map.apply(&inserts(0..count)).unwrap();
        let is_kept = |key: &u32| (key / 7 + key % 5 + seed as u32).is_multiple_of(3);
        map.apply(&(0..count).filter(|key| !is_kept(key)).map(SlabRequest::Delete).collect::<Vec<_>>())
            .unwrap();
        map.flush().unwrap();
        let expected: Vec<(u32, u32)> = (0..count).filter(is_kept).map(|key| (key, !key)).collect();
        assert_eq!(sorted(&map), expected, "seed {seed}");
        let stats = map.stats().unwrap();
        assert_eq!((stats.len, stats.tombstones), (expected.len() as u64, 0));
        assert!(stats.chained_slabs <= stats.len / u64::from(slab_bytes / 8 - 1), "{stats:?}");
        map.apply(&inserts(0..count)).unwrap();
        assert_eq!(map.len().unwrap(), u64::from(count));
    }
}

#[test]
fn churn_of_ever_new_keys_takes_no_more_memory() {
    let mut map: SlabMap =
        SlabMap::new(&device(), SlabHashOptions { seed: Some(0), ..SlabHashOptions::default() }).unwrap();
    let mut most = 0;
    for round in 0..40_u32 {
        let mut batch = inserts(round * 500..(round + 1) * 500);
        batch.extend((round.saturating_sub(1) * 500..round * 500).map(SlabRequest::Delete));
        map.apply(&batch).unwrap();
        assert_eq!(map.len().unwrap(), 500);
        most = most.max(map.stats().unwrap().buckets);
    }
    assert!(most <= 512, "{most} buckets for 500 pairs");
}

#[test]
fn memory_that_is_short_is_no_error_while_chains_can_grow() {
    let device = device();
    let mut map: SlabMap = SlabMap::new(
        &device.with_budget(600 << 10),
        SlabHashOptions { seed: Some(0), ..SlabHashOptions::default() },
    )
    .unwrap();
    // The columns of batches are there before memory becomes short.
    map.search(&[0; 2000]).unwrap();
    let (mut stored, mut full) = (0, 0);
    for first in (0..90_000).step_by(2000) {
        let answers = map.apply(&inserts(first..first + 2000)).unwrap();
        stored += answers.iter().filter(|answer| **answer == SlabAnswer::Inserted).count();
        full += answers.iter().filter(|answer| **answer == SlabAnswer::Full).count();
    }
    assert!(stored > 10_000 && full > 0 && stored + full == 90_000, "{stored} stored, {full} refused");
    assert_eq!((map.len().unwrap(), map.pairs().is_err()), (stored as u64, true), "a list needs memory, too");
    let found = map.search(&(0..2000).collect::<Vec<_>>()).unwrap();
    assert!(found.iter().zip(0_u32..).all(|(value, key)| *value == Some(!key)));
    assert!(
        <SlabMap>::new(
            &device,
            SlabHashOptions { slab_bytes: 96, seed: Some(0), ..SlabHashOptions::default() }
        )
        .is_err()
    );
}
