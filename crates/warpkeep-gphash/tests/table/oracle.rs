//! Random operations against a plain map, for all kinds of keys and values, across growth and reopenings.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use warpkeep_core::{KeySpec, ValueSpec};
use warpkeep_gphash::{Geometry, Layout, Progress};

use crate::rig::{SPECIAL_KEYS, get, heap, heap_of, put, remove, reopen, spec_in};

fn geometries() -> Vec<Geometry> {
    let mut all = Vec::new();
    for levels in [1, 2, 4] {
        for hashes in [1, 2, 4, 8] {
            all.extend((1..=5).filter_map(|bits| Geometry::new(levels, hashes, 1 << bits).ok()));
        }
    }
    all
}

fn kinds() -> Vec<(Layout, KeySpec, ValueSpec)> {
    let keys = [
        KeySpec::U64,
        KeySpec::fixed(5).unwrap(),
        KeySpec::fixed(32).unwrap(),
        KeySpec::variable(300).unwrap(),
    ];
    let values =
        [ValueSpec::fixed(8).unwrap(), ValueSpec::fixed(128).unwrap(), ValueSpec::variable(5000).unwrap()];
    let kinds = keys.into_iter().flat_map(|key| values.map(|value| (key, value)));
    let packed = kinds.clone().map(|(key, value)| (Layout::Packed, key, value));
    let in_place = kinds.filter(|(key, _)| key.fixed_len().is_some());
    packed.chain(in_place.map(|(key, value)| (Layout::InPlace, key, value))).collect()
}

fn key_bytes(spec: KeySpec, number: u16) -> Vec<u8> {
    if let (KeySpec::U64, Some(special)) = (spec, SPECIAL_KEYS.get(usize::from(number))) {
        return special.to_le_bytes().to_vec();
    }
    let len = spec.fixed_len().unwrap_or(usize::from(number) % 200);
    let mut bytes = number.to_le_bytes().repeat(len.div_ceil(2) + 1);
    bytes.truncate(len.max(2));
    bytes
}

fn value_bytes(spec: ValueSpec, number: u64) -> Vec<u8> {
    let len = spec.fixed_len().unwrap_or(number as usize * 37 % 3000);
    (0..len).map(|at| (number as usize * 7 + at) as u8).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Put(u16),
    Remove(u16),
    Maintain,
    Reopen,
    Shrink,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => (0..600_u16).prop_map(Step::Put),
        15 => (0..600_u16).prop_map(Step::Remove),
        5 => Just(Step::Maintain),
        1 => Just(Step::Reopen),
        1 => Just(Step::Shrink),
    ]
}

fn agrees(
    geometry: Geometry,
    (layout, key, value): (Layout, KeySpec, ValueSpec),
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let in_slot = layout == Layout::InPlace && value.fixed_len().is_some_and(|len| len <= 8);
    let heap = heap(2000);
    let mut table =
        warpkeep_gphash::Table::create(&heap, &spec_in(layout, key, value, geometry, 20)).unwrap();
    drop(heap);
    let mut model: HashMap<Vec<u8>, (u64, Vec<u8>)> = HashMap::new();
    for (number, step) in steps.iter().enumerate() {
        let version = number as u64 + 1;
        match step {
            Step::Put(which) => {
                let (key, value) = (key_bytes(key, *which), value_bytes(value, version));
                let is_new = put(&table, &key, &value, version).unwrap();
                prop_assert_eq!(model.insert(key, (version, value)).is_none(), is_new);
            }
            Step::Remove(which) => {
                let key = key_bytes(key, *which);
                prop_assert_eq!(model.remove(&key).is_some(), remove(&table, &key));
            }
            Step::Maintain => {
                let progress = table.maintain(16).unwrap();
                prop_assert!(progress != Progress::Busy);
            }
            Step::Shrink => {
                let before = table.stats();
                let smaller = table.shrink().unwrap();
                let after = table.stats();
                prop_assert_eq!(smaller, after.levels[0].slots < before.levels[0].slots);
                prop_assert!(!after.shrinking && !after.growing);
            }
            Step::Reopen => {
                table = reopen(table);
                let usage = heap_of(&table).usage();
                // Header and levels, then one block an item that is not in its slot: nothing leaked.
                let records = if in_slot { 0 } else { model.len() as u64 };
                prop_assert_eq!(usage.used_blocks(), 2 + records, "{}", usage);
            }
        }
        prop_assert_eq!(table.len(), model.len() as u64);
    }
    for which in 0..600 {
        let key = key_bytes(key, which);
        prop_assert_eq!(get(&table, &key), model.get(&key).cloned());
    }
    let keys: Vec<Vec<u8>> = (0..600).map(|which| key_bytes(key, which)).collect();
    let mut answers = Vec::new();
    table.get_many(keys.iter().map(|key| &key[..]), |index, value| {
        assert_eq!(index, answers.len());
        answers.push(value.map(|value| (value.version(), value.to_vec())));
    });
    let expected: Vec<_> = keys.iter().map(|key| model.get(key).cloned()).collect();
    prop_assert_eq!(answers, expected);
    let mut scanned = HashMap::new();
    table
        .scan::<()>(3, |change| {
            scanned.insert(change.key.to_vec(), (change.version, change.value.to_vec()));
            Ok(())
        })
        .unwrap();
    prop_assert_eq!(scanned, model);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4, rng_seed: RngSeed::Fixed(0x5EED), failure_persistence: None, ..ProptestConfig::default()
    })]
    #[test]
    fn the_default_geometry_with_every_kind_of_item(steps in proptest::collection::vec(step(), 1500..1501)) {
        for kind in kinds() {
            agrees(Geometry::default(), kind, &steps)?;
        }
    }

    #[test]
    fn every_geometry(steps in proptest::collection::vec(step(), 1200..1201), kind in 0..21_usize) {
        let kind = kinds()[kind];
        for geometry in geometries() {
            agrees(geometry, kind, &steps)?;
        }
    }
}
