//! Random operations against a plain map, for all kinds of keys and values, one by one and in batches, across growth,
//! collection and reopenings.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use warpkeep_core::{KeySpec, ValueSpec};
use warpkeep_image::{Clear, Coherent};
use warpkeep_turbohash::{Progress, Table, TableError};

use crate::rig::{get, heap, put, remove, reopen, spec};

const KEYS: u16 = 600;

fn kinds() -> Vec<(KeySpec, ValueSpec)> {
    let keys = [
        KeySpec::U64,
        KeySpec::fixed(5).unwrap(),
        KeySpec::fixed(8).unwrap(),
        KeySpec::fixed(32).unwrap(),
        KeySpec::variable(300).unwrap(),
    ];
    let values = [
        ValueSpec::fixed(3).unwrap(),
        ValueSpec::fixed(8).unwrap(),
        ValueSpec::fixed(128).unwrap(),
        ValueSpec::variable(5000).unwrap(),
    ];
    keys.into_iter().flat_map(|key| values.map(|value| (key, value))).collect()
}

fn key_bytes(spec: KeySpec, number: u16) -> Vec<u8> {
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
    /// Many keys in one stage: from one on, so many; every third is removed.
    Batch(u16, u16),
    Maintain,
    Collect,
    Shrink,
    Defragment,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        160 => (0..KEYS).prop_map(Step::Put),
        60 => (0..KEYS).prop_map(Step::Remove),
        16 => (0..KEYS, 2..100_u16).prop_map(|(from, count)| Step::Batch(from, count)),
        20 => Just(Step::Maintain),
        4 => Just(Step::Collect),
        4 => Just(Step::Shrink),
        1 => Just(Step::Defragment),
        4 => Just(Step::Reopen),
    ]
}

type Model = HashMap<Vec<u8>, (u64, Vec<u8>)>;

/// Puts and removes in one stage; a stage that finds no place is given up and begun again.
fn batch(table: &Table<Coherent>, model: &mut Model, keys: &[Vec<u8>], value: &[u8], version: u64) {
    let hashes: Vec<u64> = keys.iter().map(|key| table.hash_of(key)).collect();
    'again: loop {
        let mut stage = table.stage(hashes.iter().copied());
        stage.expect_values(keys.len());
        for (number, (key, &hash)) in keys.iter().zip(&hashes).enumerate() {
            let seat = stage.seat(key, hash);
            if number % 3 == 2 {
                stage.remove(&seat);
                continue;
            }
            match stage.put(&seat, key, value, version) {
                Ok(()) => {}
                Err(TableError::Full) => {
                    let seen = stage.seen();
                    drop(stage);
                    table.make_room(seen).unwrap();
                    continue 'again;
                }
                Err(error) => panic!("{error}"),
            }
        }
        stage.publish();
        break;
    }
    for (number, key) in keys.iter().enumerate() {
        match number % 3 {
            2 => model.remove(key),
            _ => model.insert(key.clone(), (version, value.to_vec())),
        };
    }
}

fn agrees((key, value): (KeySpec, ValueSpec), shards: u32, steps: &[Step]) -> Result<(), TestCaseError> {
    let in_slot = key.fixed_len() == Some(8) && value.fixed_len().is_some_and(|len| len <= 8);
    let heap = heap(2000);
    let mut table = Table::create(&heap, &spec(key, value, shards, 20)).unwrap();
    drop(heap);
    let mut model = Model::new();
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
            Step::Batch(from, count) => {
                let mut keys: Vec<_> =
                    (0..*count).map(|step| key_bytes(key, (from + 7 * step) % KEYS)).collect();
                keys.sort();
                keys.dedup();
                batch(&table, &mut model, &keys, &value_bytes(value, version), version);
            }
            Step::Maintain => prop_assert!(table.maintain(16).unwrap() != Progress::Busy),
            Step::Collect => {
                table.collect().unwrap();
                prop_assert_eq!(table.stats().deleted, 0);
            }
            Step::Shrink => {
                let before = table.slots();
                let smaller = table.shrink().unwrap();
                prop_assert_eq!(smaller, table.slots() < before);
            }
            Step::Defragment => {
                table.defragment(&table.heap().begin_clearing(Clear::All)).unwrap();
            }
            Step::Reopen => {
                table = reopen(table);
                let usage = table.heap().usage();
                // Header, directory and shards, then one block an item that is not in its slot: nothing leaked.
                let records = if in_slot { 0 } else { model.len() as u64 };
                prop_assert_eq!(usage.used_blocks(), 2 + u64::from(shards) + records, "{}", usage);
                let found = Table::inspect(table.heap().image(), table.header()).unwrap();
                prop_assert!(found.is_clean() && found.items == model.len() as u64, "{:?}", found);
                prop_assert_eq!(found.deleted, table.stats().deleted);
            }
        }
        prop_assert_eq!(table.len(), model.len() as u64);
    }
    for which in 0..KEYS {
        let key = key_bytes(key, which);
        prop_assert_eq!(get(&table, &key), model.get(&key).cloned());
    }
    let keys: Vec<Vec<u8>> = (0..KEYS).map(|which| key_bytes(key, which)).collect();
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
    let stats = table.stats();
    prop_assert_eq!(stats.hits.counts.iter().sum::<u64>(), stats.items);
    prop_assert_eq!(stats.misses.counts.iter().sum::<u64>(), 64 * stats.buckets);
    let heap = std::sync::Arc::clone(table.heap());
    table.demolish().unwrap();
    // Blocks that were replaced wait for readers; those of other tests are readers, too.
    let settled = (0..1_000_000).any(|_| {
        crossbeam_epoch::pin().flush();
        heap.usage().used_blocks() == 0
    });
    prop_assert!(settled, "{}", heap.usage());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2, rng_seed: RngSeed::Fixed(0x5EED), failure_persistence: None, ..ProptestConfig::default()
    })]
    #[test]
    fn every_kind_of_item(steps in proptest::collection::vec(step(), 1500..1501)) {
        for kind in kinds() {
            for shards in [1, 3, 64] {
                agrees(kind, shards, &steps)?;
            }
        }
    }
}

#[test]
fn a_thousand_and_more_in_one_batch() {
    let heap = heap(4000);
    let table = Table::create(&heap, &spec(KeySpec::U64, ValueSpec::fixed(16).unwrap(), 4, 100)).unwrap();
    let mut model = Model::new();
    for round in 1..8_u64 {
        let keys: Vec<_> = (0..3000 * round).map(|key| (key * round).to_le_bytes().to_vec()).collect();
        batch(&table, &mut model, &keys, &[round as u8; 16], round);
        assert_eq!(table.len(), model.len() as u64);
    }
    let keys: Vec<&[u8]> = model.keys().map(Vec::as_slice).collect();
    let mut count = 0;
    table.get_many(keys.iter().copied(), |index, value| {
        let (version, bytes) = &model[keys[index]];
        let value = value.expect("it was put");
        assert_eq!((value.version(), value.bytes()), (*version, &bytes[..]));
        count += 1;
    });
    assert_eq!(count, model.len());
    assert!(Table::inspect(heap.image(), table.header()).unwrap().is_clean());
}
