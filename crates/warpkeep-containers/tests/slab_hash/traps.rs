//! Mistakes of other implementations, for all widths. `tests/slab_map.rs` has those of 32-bit maps.

use std::collections::BTreeSet;

use bytemuck::NoUninit;
use warpkeep_containers::{
    DeviceSlabAnswers, DeviceSlabOps, SlabAnswer, SlabHashOptions, SlabKey, SlabMap, SlabOpKind, SlabOpKinds,
    SlabRequest, SlabSet, SlabStatus, SlabTableRef, SlabValue,
};
use warpkeep_device::sim::Seeded;
use warpkeep_device::{Device, DevicePtr, Grid, KernelSet as _, Mode};

use crate::slab_table::{Request, Table};
use crate::{device, sorted};

fn crowded() -> SlabHashOptions {
    SlabHashOptions { most_buckets: 4, seed: Some(0), ..SlabHashOptions::default() }
}

#[test]
fn trap_delete_does_not_erase_a_wide_pair_that_came_meanwhile() {
    for seed in 0..20 {
        let mode = Mode::Seeded(Seeded { switch_chance: 400, ..Seeded::new(seed) });
        let mut map = SlabMap::<u64, u64>::new(&Device::simulated(mode).unwrap(), crowded()).unwrap();
        map.apply(&[SlabRequest::Insert(5, 0)]).unwrap();
        // Values whose halves belong together: a pair that is read in two parts has others.
        let whole = |value: u64| value << 32 | value;
        let mut batch: Vec<_> = (1..40).map(|value| SlabRequest::Replace(5, whole(value))).collect();
        batch.insert(20, SlabRequest::Delete(5));
        let answers = map.apply(&batch).unwrap();
        let inserted = answers.iter().filter(|answer| **answer == SlabAnswer::Inserted).count();
        assert!(matches!(answers[20], SlabAnswer::Removed(_)), "{:?}", answers[20]);
        let left = map.search(&[5]).unwrap()[0];
        assert_eq!(inserted, usize::from(left.is_some()), "one replacement inserts behind the deletion");
        for value in answers.iter().filter_map(|answer| answer.value()).chain(left) {
            assert_eq!(value, whole(value & 0xff));
        }
    }
}

/// Replacements of a key and one deletion of all its pairs, at the same time.
fn delete_all_beside_replacements<W: SlabKey<W> + SlabValue>(seed: u64, word: fn(u64) -> W) {
    let mode = Mode::Seeded(Seeded { switch_chance: 400, ..Seeded::new(seed) });
    let device = Device::simulated(mode).unwrap();
    let stream = device.stream().unwrap();
    let mut map = SlabMap::<W, W>::new(&device, crowded()).unwrap();
    map.apply(&[SlabRequest::Insert(word(5), word(0))]).unwrap();
    let mut kinds = [SlabOpKind::Replace as u8; 40];
    kinds[20] = SlabOpKind::DeleteAll as u8;
    let codes = device.upload(&kinds).unwrap();
    let keys = device.upload(&[word(5); 40]).unwrap();
    let values = device.upload(&(1..41).map(word).collect::<Vec<W>>()).unwrap();
    let mut statuses = device.allocate(40).unwrap();
    let mut found = device.allocate(40 * size_of::<W>()).unwrap();
    let kinds = SlabOpKinds::Each(&codes);
    let ops = DeviceSlabOps { kinds, keys: &keys, values: Some(&values), count: 40 };
    let answers = DeviceSlabAnswers { statuses: &mut statuses, values: Some(&mut found) };
    map.apply_on(ops, answers, &stream).unwrap();
    let (statuses, found) = (statuses.to_vec::<u8>().unwrap(), found.to_vec::<W>().unwrap());
    let deleted = (statuses[20], found[20]);
    assert_eq!(deleted, (SlabStatus::Counted as u8, word(1)), "seed {seed}: the key was there");
    let inserted = statuses.iter().filter(|status| **status == SlabStatus::Inserted as u8).count();
    let left = map.search(&[word(5)]).unwrap()[0];
    assert_eq!(inserted, usize::from(left.is_some()), "seed {seed}: one inserts behind the deletion");
    assert_eq!(map.len().unwrap(), inserted as u64);
    map.verify().unwrap();
}

#[test]
fn trap_delete_all_beside_replacements_removes_the_key() {
    for seed in 0..40 {
        delete_all_beside_replacements::<u32>(seed, |number| number as u32);
        delete_all_beside_replacements::<u64>(seed, |number| number);
    }
}

/// Holes in the first slabs of all chains, then every key again.
fn once_after_delete_and_insert<T: Table>(slab_bytes: u32) {
    let mut table = T::create(&device(), SlabHashOptions { slab_bytes, ..crowded() }).unwrap();
    let pair = |i: u64| T::pair_of(!i, i << 20);
    let inserts: Vec<Request<T>> =
        (0..300).map(pair).map(|(key, value)| SlabRequest::Insert(key, value)).collect();
    table.apply(&inserts).unwrap();
    let deletes: Vec<Request<T>> = (0..80).map(|i| SlabRequest::Delete(pair(i).0)).collect();
    table.apply(&deletes).unwrap();
    let answers = table.apply(&inserts).unwrap();
    assert!(answers[..80].iter().all(|answer| *answer == SlabAnswer::Inserted));
    assert!(answers[80..].iter().zip(80..).all(|(answer, i)| *answer == SlabAnswer::Present(pair(i).1)));
    assert_eq!(sorted(table.pairs().unwrap()), sorted((0..300).map(pair).collect()));
}

#[test]
fn trap_delete_and_insert_leaves_a_key_of_any_width_once() {
    once_after_delete_and_insert::<SlabMap<u64, u64>>(128);
    once_after_delete_and_insert::<SlabMap<u64, u64>>(64);
    once_after_delete_and_insert::<SlabSet>(64);
    once_after_delete_and_insert::<SlabSet>(128);
    once_after_delete_and_insert::<SlabSet<u64>>(64);
}

#[test]
fn trap_replace_of_a_wide_pair_stores_the_new_value() {
    let mut map = SlabMap::<u64, u64>::new(&device(), crowded()).unwrap();
    assert_eq!(map.apply(&[SlabRequest::Replace(3, 1)]).unwrap(), [SlabAnswer::Inserted]);
    assert_eq!(map.apply(&[SlabRequest::Replace(3, 2 << 40)]).unwrap(), [SlabAnswer::Updated(1)]);
    assert_eq!(map.apply(&[SlabRequest::Insert(3, 9)]).unwrap(), [SlabAnswer::Present(2 << 40)]);
    // A pair that is replaced by itself is there all the time.
    assert_eq!(map.apply(&[SlabRequest::Replace(3, 2 << 40)]).unwrap(), [SlabAnswer::Updated(2 << 40)]);
    assert_eq!(map.search(&[3]).unwrap(), [Some(2 << 40)]);
}

#[test]
fn trap_out_of_slabs_ends_for_every_width() {
    fn ends<T: Table>(cells: u64) {
        let options = SlabHashOptions { most_slabs: 1, ..crowded() };
        let mut table = T::create(&device(), options).unwrap();
        let most = cells * 1028;
        let requests: Vec<Request<T>> = (0..most + 500)
            .map(|i| T::pair_of(i, i))
            .map(|(key, value)| SlabRequest::Insert(key, value))
            .collect();
        let answers = table.apply(&requests).unwrap();
        let stored = answers.iter().filter(|answer| **answer == SlabAnswer::Inserted).count() as u64;
        let full = answers.iter().filter(|answer| **answer == SlabAnswer::Full).count() as u64;
        assert!(stored + full == most + 500 && stored <= most && stored > cells * 1000, "{stored}, {full}");
        assert_eq!(table.len().unwrap(), stored);
    }
    ends::<SlabMap<u64, u64>>(7);
    ends::<SlabSet>(15);
    ends::<SlabSet<u64>>(7);
}

#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct Addresses {
    table: SlabTableRef,
    numbers: DevicePtr,
    of_buckets: DevicePtr,
    of_slabs: DevicePtr,
    count: u64,
}

warpkeep_device::kernel_set! {
    struct CallKernels in "slab_hash_calls.cu", prefix "slab_hash_calls_" {
        addresses: Addresses,
    }
}

#[test]
fn trap_addresses_of_buckets_and_slabs_have_64_bits() {
    let device = device();
    let (kernels, stream) = (CallKernels::load(&device).unwrap(), device.stream().unwrap());
    let options = SlabHashOptions { slab_bytes: 128, seed: Some(0), ..SlabHashOptions::default() };
    let map: SlabMap = SlabMap::new(&device, options).unwrap();
    let numbers = [0_u32, 1, (1 << 25) - 1, 1 << 25, 1 << 27, (1 << 30) - 1, u32::MAX - 1024];
    let column = device.upload(&numbers).unwrap();
    let (buckets, slabs) = (device.allocate(8 * 7).unwrap(), device.allocate(8 * 7).unwrap());
    let params = Addresses {
        table: map.reference().unwrap(),
        numbers: column.ptr(),
        of_buckets: buckets.ptr(),
        of_slabs: slabs.ptr(),
        count: 7,
    };
    // SAFETY: the columns have seven elements; the kernel computes addresses and goes to none.
    unsafe { kernels.addresses.launch(Grid::covering(7, 32), &params, &stream).unwrap() };
    stream.synchronize().unwrap();
    let expected = numbers.map(|number| 128 * u64::from(number));
    assert_eq!(buckets.to_vec::<u64>().unwrap(), expected);
    assert_eq!(slabs.to_vec::<u64>().unwrap(), expected);
}

#[test]
fn trap_slabs_that_come_back_are_cleared_for_every_width() {
    fn again<T: Table>() {
        let mut table = T::create(&device(), crowded()).unwrap();
        for round in 0..4_u64 {
            // Fewer each time, so that slabs have cells of the round before where there are none now.
            let keys = 1000 * round..1000 * round + 400 - 90 * round;
            let pairs: Vec<_> = keys.map(|i| T::pair_of(i.wrapping_mul(0x9E37_79B9), i)).collect();
            let inserts: Vec<Request<T>> =
                pairs.iter().map(|(key, value)| SlabRequest::Insert(*key, *value)).collect();
            assert!(table.apply(&inserts).unwrap().iter().all(|answer| *answer == SlabAnswer::Inserted));
            assert_eq!(sorted(table.pairs().unwrap()), sorted(pairs.clone()));
            let deletes: Vec<Request<T>> = pairs.iter().map(|(key, _)| SlabRequest::Delete(*key)).collect();
            table.apply(&deletes).unwrap();
            assert_eq!(table.len().unwrap(), 0);
        }
    }
    again::<SlabMap<u64, u64>>();
    again::<SlabSet>();
    again::<SlabSet<u64>>();
}

#[test]
fn trap_an_insertion_that_lost_sees_what_won() {
    for seed in 0..16 {
        let mode = Mode::Seeded(Seeded { switch_chance: 400, ..Seeded::new(seed) });
        let mut map = SlabMap::<u64, u64>::new(&Device::simulated(mode).unwrap(), crowded()).unwrap();
        // One key from all warps, and others that fill its chain meanwhile.
        let batch: Vec<SlabRequest<u64, u64>> = (0..160)
            .map(
                |i| if i % 2 == 0 { SlabRequest::Insert(7, 1 + i) } else { SlabRequest::Insert(1000 + i, i) },
            )
            .collect();
        let answers = map.apply(&batch).unwrap();
        let of_key = answers.iter().step_by(2);
        let won: Vec<usize> = (0..80).filter(|at| answers[2 * at] == SlabAnswer::Inserted).collect();
        assert_eq!(won.len(), 1, "seed {seed}");
        let value = 1 + 2 * won[0] as u64;
        assert!(of_key.clone().all(|answer| answer.value().is_none_or(|seen| seen == value)), "seed {seed}");
        assert_eq!(map.search(&[7]).unwrap(), [Some(value)]);
        assert_eq!(map.len().unwrap(), 81);
    }
}

#[test]
fn trap_regular_keys_of_any_width_are_spread() {
    fn spread<T: Table>(stats: impl Fn(&T) -> (u64, u64), shifts: &[u32]) {
        for shift in shifts {
            let options = SlabHashOptions { capacity: 4000, seed: Some(0), ..SlabHashOptions::default() };
            let mut table = T::create(&device(), options).unwrap();
            let keys: BTreeSet<u64> = (0..4000_u64).map(|i| i.rotate_left(*shift)).collect();
            let requests: Vec<Request<T>> = keys
                .iter()
                .map(|key| T::pair_of(*key, 1))
                .map(|(key, value)| SlabRequest::Insert(key, value))
                .collect();
            table.apply(&requests).unwrap();
            let (chained, buckets) = stats(&table);
            assert!(chained < buckets / 2, "{shift}: {chained} slabs behind {buckets} buckets");
        }
    }
    let of_map = |map: &SlabMap<u64, u64>| {
        let stats = map.stats().unwrap();
        (stats.chained_slabs, stats.buckets)
    };
    spread::<SlabMap<u64, u64>>(of_map, &[0, 1, 10, 20, 32, 40, 52]);
    let of_set = |set: &SlabSet| {
        let stats = set.stats().unwrap();
        (stats.chained_slabs, stats.buckets)
    };
    spread::<SlabSet>(of_set, &[0, 1, 10, 20]);
}

#[test]
fn trap_every_wide_key_and_value_can_be_stored() {
    for seed in 0..8 {
        let options = SlabHashOptions { seed: Some(seed), ..crowded() };
        let odd = [0, 1, 2, 3, u64::MAX, u64::MAX - 1, u64::MAX - 2, 1 << 63, (1 << 63) - 1, 1 << 32];
        let mut map = SlabMap::<u64, u64>::new(&device(), options).unwrap();
        let values: Vec<u64> = odd.iter().rev().copied().collect();
        let batch: Vec<_> =
            odd.iter().zip(&values).map(|(key, value)| SlabRequest::Insert(*key, *value)).collect();
        assert!(map.apply(&batch).unwrap().iter().all(|answer| *answer == SlabAnswer::Inserted));
        assert_eq!(map.search(&odd).unwrap(), values.iter().map(|value| Some(*value)).collect::<Vec<_>>());
        assert_eq!(map.search(&[4, 1 << 62]).unwrap(), [None, None]);
        let narrow = [0, 1, 2, 3, u32::MAX, u32::MAX - 1, 1 << 31, (1 << 31) - 1];
        let mut set: SlabSet = SlabSet::new(&device(), options).unwrap();
        assert!(set.insert(&narrow).unwrap().iter().all(|answer| *answer == SlabAnswer::Inserted));
        assert_eq!(sorted(set.keys().unwrap()), sorted(narrow.to_vec()));
        assert_eq!(set.contains(&[4, 1 << 30]).unwrap(), [false, false]);
        // All of them go, too.
        assert!(set.remove(&narrow).unwrap().into_iter().all(|was| was));
        assert!(set.is_empty().unwrap());
    }
}
