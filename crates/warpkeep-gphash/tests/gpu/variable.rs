//! Keys and values of any length: the CPU writes, the device reads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use warpkeep_core::{KeySpec, Op, ValueSpec};
use warpkeep_device::Device;
use warpkeep_gphash::gpu::{DeviceBatch, DeviceEngine, DeviceImage};
use warpkeep_gphash::{Geometry, Layout, Progress, Table, TableError};
use warpkeep_image::Coherent;

use crate::harness::{Dice, Space, TIMEOUT};
use crate::rig::{put, remove, spec_in};

/// The expected items: version and value by key.
type Items = BTreeMap<Vec<u8>, (u64, Vec<u8>)>;

/// The key of a number. Some keys differ only in the number of zeros at their end.
fn key(number: u64, longest: u64) -> Vec<u8> {
    let mut key = number.to_le_bytes()[..2].to_vec();
    key.resize(2 + (number * 7 % (longest - 1)) as usize, if number.is_multiple_of(3) { 0 } else { b'k' });
    key
}

fn found(
    engine: &DeviceEngine<Coherent>,
    table: &Table<Coherent>,
    keys: &[Vec<u8>],
) -> Vec<Option<(u64, Vec<u8>)>> {
    let mut answers = Vec::new();
    engine
        .get_many(table, keys.iter().map(Vec::as_slice), |index, item| {
            assert_eq!(index, answers.len());
            answers.push(item.map(|(version, value)| (version, value.to_vec())));
        })
        .unwrap();
    answers
}

/// Writes with the CPU and reads with the device, while the table grows; with `cuckoo` the device has an index of the first
/// round's items, and keeps it up to date.
pub(crate) fn run(device: &Device, space: Space, seed: u64, numbers: u64, rounds: u64, cuckoo: bool) {
    let mut dice = Dice::new(seed);
    let (key_spec, value_spec) = match seed % 3 {
        0 => (KeySpec::variable(40).unwrap(), ValueSpec::variable(3000).unwrap()),
        // Shorter keys would be stored in cells.
        1 => (KeySpec::variable(70).unwrap(), ValueSpec::fixed(12).unwrap()),
        _ => (KeySpec::fixed(13).unwrap(), ValueSpec::variable(300).unwrap()),
    };
    let key_of = |number| match key_spec.fixed_len() {
        Some(len) => {
            let mut key = key(number, 9);
            key.resize(len, b'=');
            key
        }
        None => key(number, 40),
    };
    let spec = spec_in(Layout::Packed, key_spec, value_spec, Geometry::default(), 20);
    let table = Table::create(&space(200), &spec).unwrap();
    let image = Arc::new(DeviceImage::new(device, table.heap().image()).unwrap());
    let engine = DeviceEngine::new(&image, &table).unwrap();
    assert!(!engine.writes(&table));
    let keys: Vec<Vec<u8>> = (0..numbers).map(key_of).collect();
    let mut items = Items::new();
    for round in 0..rounds {
        let lock = engine.write_lock();
        for _ in 0..numbers / 2 {
            let key = &keys[dice.below(numbers) as usize];
            let len = value_spec.fixed_len().unwrap_or(dice.below(value_spec.max_len() as u64 / 10) as usize);
            let len = if dice.below(50) == 0 {
                value_spec.fixed_len().unwrap_or(value_spec.max_len())
            } else {
                len
            };
            let version = 1 + items.len() as u64 + 1000 * round;
            if dice.below(4) == 0 {
                assert_eq!(remove(&table, key), items.remove(key).is_some());
            } else {
                let value: Vec<u8> = (0..len).map(|_| dice.below(256) as u8).collect();
                let relocation = engine.relocation_write();
                put(&table, key, &value, version).unwrap();
                drop(relocation);
                items.insert(key.clone(), (version, value));
            }
        }
        {
            // The CPU grows such tables, too.
            let _relocation = engine.relocation_write();
            while table.maintain(8).unwrap() == Progress::Working {
                table.heap().reclaim();
            }
        }
        drop(lock);
        if cuckoo && round == 0 {
            assert_eq!(engine.index_bytes(), 0);
            assert!(engine.build_cuckoo_index(&table).unwrap() && engine.index_bytes() > 0);
        }
        for (key, answer) in keys.iter().zip(found(&engine, &table, &keys)) {
            assert_eq!(answer.as_ref(), items.get(key), "seed {seed}, round {round}: {key:?}");
        }
    }
    // The device does not write such tables.
    let mut batch = DeviceBatch::default();
    batch.push(Op::Delete, &keys[0], &[], 0);
    assert!(matches!(
        engine.write_lock().stage(&table, &batch, 1).err(),
        Some(TableError::NotForDevices { .. })
    ));
    assert!(matches!(engine.write_lock().maintain(&table, 1), Err(TableError::NotForDevices { .. })));
    assert!(matches!(engine.build_index(&table), Err(TableError::NotForDevices { .. })));
}

pub(crate) fn keys_and_values_of_any_length_are_found(device: &Device, space: Space) {
    for seed in 0..6 {
        run(device, space, seed, 150, 6, false);
    }
}

pub(crate) fn keys_of_any_length_are_found_by_a_cuckoo_index(device: &Device, space: Space) {
    for seed in 0..6 {
        run(device, space, seed, 150, 6, true);
    }
}

/// The padding behind a key is zero even in a block that held other bytes.
pub(crate) fn keys_are_found_in_reused_blocks(device: &Device, space: Space) {
    let value = ValueSpec::fixed(8).unwrap();
    for len in [5, 11] {
        let heap = space(200);
        // Fills blocks of the record size with ones.
        let pool = heap.pool(8 + (len as u64).next_multiple_of(8) + 8).unwrap();
        let mut dirty: Vec<_> = (0..500).map(|_| heap.allocate_from(pool).unwrap()).collect();
        for block in &mut dirty {
            let size = block.size() as usize;
            block.write(0, &vec![0xff; size]).unwrap();
        }
        drop(dirty);
        let spec = spec_in(Layout::Packed, KeySpec::fixed(len).unwrap(), value, Geometry::default(), 400);
        let table = Table::create(&heap, &spec).unwrap();
        let image = Arc::new(DeviceImage::new(device, table.heap().image()).unwrap());
        let engine = DeviceEngine::new(&image, &table).unwrap();
        let keys: Vec<Vec<u8>> = (0..200_u64)
            .map(|number| {
                let mut key = number.to_le_bytes().to_vec();
                key.resize(len as usize, b'k');
                key
            })
            .collect();
        for key in &keys {
            put(&table, key, &[7; 8], 1).unwrap();
        }
        assert!(found(&engine, &table, &keys).iter().all(|item| item == &Some((1, vec![7; 8]))));
        // A move by the device hashes the keys in the records.
        table.begin_growth().unwrap();
        let begun = Instant::now();
        while begun.elapsed() < TIMEOUT {
            if engine.write_lock().maintain(&table, 64).unwrap() == Progress::Idle {
                break;
            }
            table.heap().reclaim();
            std::thread::yield_now();
        }
        assert!(!table.stats().growing);
        assert!(found(&engine, &table, &keys).iter().all(|item| item == &Some((1, vec![7; 8]))));
    }
}
