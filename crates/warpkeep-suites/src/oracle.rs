//! Random operations against a plain map, for all kinds of keys and values, one by one and in batches, across growth,
//! shrinking and reopenings.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use warpkeep_core::{KeySpec, ValueSpec};
use warpkeep_image::{Clear, Coherent, Persist};
use warpkeep_record::{
    Budget, Full as _, Kept as _, LockKey, Lookup as _, Progress, Staged as _, Staging, Upkeep as _,
};

use crate::{Subject, get, heap, put, remove, reopen, settled};

const KEYS: u16 = 600;

/// The kinds of items that tables are tried with.
pub fn kinds() -> Vec<(KeySpec, ValueSpec)> {
    let key = |len| KeySpec::fixed(len).expect("a length");
    let value = |len| ValueSpec::fixed(len).expect("a length");
    let variable = |max| KeySpec::variable(max).expect("a length");
    let keys = [KeySpec::U64, key(5), key(8), key(32), variable(300), variable(5), variable(24)];
    let values = [value(3), value(8), value(128), ValueSpec::variable(5000).expect("a length")];
    keys.into_iter().flat_map(|key| values.map(|value| (key, value))).collect()
}

fn key_bytes(subject: impl Subject, spec: KeySpec, number: u16) -> Vec<u8> {
    if let (KeySpec::U64, Some(special)) = (spec, subject.special_keys().get(usize::from(number))) {
        return special.to_le_bytes().to_vec();
    }
    if let KeySpec::Variable { max, .. } = spec
        && max < 200
    {
        return short_key(number, max as usize);
    }
    let len = spec.fixed_len().unwrap_or(usize::from(number) % 200);
    let mut bytes = number.to_le_bytes().repeat(len.div_ceil(2) + 1);
    bytes.truncate(len.max(2));
    bytes
}

/// Keys of every possible length: the empty key first, then keys of zeros or ones, each a prefix of the next, then
/// others.
fn short_key(number: u16, max: usize) -> Vec<u8> {
    let (number, len) = (usize::from(number), usize::from(number) / 2);
    if len <= max {
        return vec![(number % 2) as u8; len];
    }
    number.to_le_bytes()[..3].iter().copied().cycle().take(3 + number % (max - 2)).collect()
}

fn value_bytes(spec: ValueSpec, number: u64) -> Vec<u8> {
    let len = spec.fixed_len().unwrap_or(number as usize * 37 % 3000);
    (0..len).map(|at| (number as usize * 7 + at) as u8).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Put(u16),
    Remove(u16),
    /// Many keys in one stage: the first key and their number; every third is removed.
    Batch(u16, u16),
    Maintain,
    Shrink,
    Defragment,
    Vacate,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        160 => (0..KEYS).prop_map(Step::Put),
        60 => (0..KEYS).prop_map(Step::Remove),
        16 => (0..KEYS, 2..100_u16).prop_map(|(from, count)| Step::Batch(from, count)),
        20 => Just(Step::Maintain),
        4 => Just(Step::Shrink),
        1 => Just(Step::Defragment),
        1 => Just(Step::Vacate),
        4 => Just(Step::Reopen),
    ]
}

type Model = HashMap<Vec<u8>, (u64, Vec<u8>)>;

/// Puts and removes in one stage; a stage without a slot for its key is given up and begun again.
fn batch<P: Persist>(
    table: &impl Staging<P>,
    model: &mut Model,
    keys: &[Vec<u8>],
    value: &[u8],
    version: u64,
) {
    let locks: Vec<LockKey> = keys.iter().map(|key| table.lock_key(key)).collect();
    'again: loop {
        let mut stage = table.stage(locks.iter().copied());
        stage.expect_values(keys.len());
        for (number, (key, &lock)) in keys.iter().zip(&locks).enumerate() {
            let seat = stage.seat(key, lock);
            if number % 3 == 2 {
                stage.remove(&seat);
                continue;
            }
            match stage.put(&seat, key, value, version) {
                Ok(()) => {}
                Err(error) if error.is_full() => {
                    let seen = stage.seen();
                    drop(stage);
                    table.make_room(seen).unwrap_or_else(|error| panic!("{error}"));
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

/// A table with every kind of items agrees with a plain map.
///
/// # Panics
/// If it does not.
pub fn agrees_with_a_plain_map<S: Subject>(subject: S) {
    let kinds: Vec<_> = kinds().into_iter().filter(|&items| subject.takes(items)).collect();
    agrees_with_items(subject, &kinds);
}

/// A table with these kinds of items agrees with a plain map.
///
/// # Panics
/// If it does not.
pub fn agrees_with_items<S: Subject>(subject: S, kinds: &[(KeySpec, ValueSpec)]) {
    let config = ProptestConfig {
        cases: 2,
        rng_seed: RngSeed::Fixed(0x5EED),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let steps = proptest::collection::vec(step(), 1500..1501);
    let done = TestRunner::new(config)
        .run(&steps, |steps| kinds.iter().try_for_each(|&items| agrees(subject, items, &steps)));
    done.unwrap_or_else(|error| panic!("{subject:?}: {error}"));
}

fn agrees<S: Subject>(subject: S, items: (KeySpec, ValueSpec), steps: &[Step]) -> Result<(), TestCaseError> {
    let (key, value) = items;
    let heap = heap(2000);
    let mut table: S::Table<Coherent> =
        subject.create(&heap, items, 20).unwrap_or_else(|error| panic!("{error}"));
    drop(heap);
    let fine = |error: String| TestCaseError::fail(error);
    let mut model = Model::new();
    for (number, step) in steps.iter().enumerate() {
        let version = number as u64 + 1;
        match step {
            Step::Put(which) => {
                let (key, value) = (key_bytes(subject, key, *which), value_bytes(value, version));
                let is_new = put(&table, &key, &value, version).map_err(|error| fine(error.to_string()))?;
                prop_assert_eq!(model.insert(key, (version, value)).is_none(), is_new);
            }
            Step::Remove(which) => {
                let key = key_bytes(subject, key, *which);
                prop_assert_eq!(model.remove(&key).is_some(), remove(&table, &key));
            }
            Step::Batch(from, count) => {
                let mut keys: Vec<_> =
                    (0..*count).map(|step| key_bytes(subject, key, (from + 7 * step) % KEYS)).collect();
                keys.sort();
                keys.dedup();
                batch(&table, &mut model, &keys, &value_bytes(value, version), version);
            }
            Step::Maintain => {
                let progress = table.maintain(Budget::items(128)).map_err(|error| fine(error.to_string()))?;
                prop_assert!(progress != Progress::Busy);
            }
            Step::Shrink => {
                let before = S::slots(&table);
                let smaller = table.shrink().map_err(|error| fine(error.to_string()))?;
                prop_assert_eq!(smaller, S::slots(&table) < before);
            }
            Step::Defragment => {
                let clearing = table.heap().begin_clearing(Clear::All);
                table.defragment(&clearing).map_err(|error| fine(error.to_string()))?;
            }
            Step::Vacate => {
                let clearing = table.heap().begin_clearing(Clear::All);
                let mut blocks = clearing.blocks_in_use();
                table.vacate(&clearing, &mut blocks).map_err(|error| fine(error.to_string()))?;
            }
            Step::Reopen => {
                table = reopen(table);
                let usage = table.heap().usage();
                // The table's own blocks, then one block for each item that is not in its slot: no leak.
                let records = if subject.in_slots(items) { 0 } else { model.len() as u64 };
                prop_assert_eq!(usage.used_blocks(), subject.own_blocks() + records, "{}", usage);
                prop_assert!(table.inspection().map_err(|error| fine(error.to_string()))?.is_clean());
            }
        }
        prop_assert_eq!(table.len(), model.len() as u64);
    }
    compare(subject, &table, key, &model)?;
    let heap = std::sync::Arc::clone(table.heap());
    table.demolish().map_err(|error| fine(error.to_string()))?;
    prop_assert!(settled(&heap, || heap.usage().used_blocks() == 0), "{}", heap.usage());
    Ok(())
}

/// Reads a table in every possible way.
fn compare<P: Persist>(
    subject: impl Subject,
    table: &impl warpkeep_record::Lookup<P>,
    key: KeySpec,
    model: &Model,
) -> Result<(), TestCaseError> {
    let keys: Vec<Vec<u8>> = (0..KEYS).map(|which| key_bytes(subject, key, which)).collect();
    for key in &keys {
        prop_assert_eq!(get(table, key), model.get(key).cloned());
    }
    let mut answers = Vec::new();
    table.get_many(keys.iter().map(|key| &key[..]), |index, value| {
        assert_eq!(index, answers.len());
        answers.push(value.map(|value| (value.version(), value.to_vec())));
    });
    let expected: Vec<_> = keys.iter().map(|key| model.get(key).cloned()).collect();
    prop_assert_eq!(answers, expected);
    let mut scanned = HashMap::new();
    let scan = table.scan_checked::<String>(3, |item| {
        let change = item.map_err(ToString::to_string)?;
        scanned.insert(change.key.to_vec(), (change.version, change.value.to_vec()));
        Ok(())
    });
    prop_assert!(scan.is_ok(), "{scan:?}");
    prop_assert_eq!(&scanned, model);
    Ok(())
}

/// Batches of thousands of keys.
///
/// # Panics
/// If an item is wrong.
pub fn a_thousand_and_more_in_one_batch<S: Subject>(subject: S) {
    let heap = heap(4000);
    let items = crate::Items::Rows.specs();
    let table: S::Table<Coherent> =
        subject.create(&heap, items, 100).unwrap_or_else(|error| panic!("{error}"));
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
}
