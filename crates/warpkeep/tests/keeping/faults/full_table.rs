//! Tables that fill their disk completely: every refusal is reported, no acknowledged write is lost, and deletes
//! make room.

use std::collections::BTreeMap;

use warpkeep::{Durability, IndexKind, KeySpec, Status, Store, StoreOptions, TableOptions, ValueSpec};

use crate::common::{Mounted, say};

const BATCH: u64 = 100;

fn key(number: u64) -> [u8; 8] {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes()
}

fn value(spec: ValueSpec, number: u64) -> Vec<u8> {
    let len = spec.fixed_len().unwrap_or(number as usize * 7 % 900);
    number.to_le_bytes().into_iter().cycle().take(len).collect()
}

/// Puts batches until one of them is mostly refused, because one shard may have no room while others have; returns
/// the number after the last.
fn fill(store: &Store, model: &mut BTreeMap<u64, Vec<u8>>, from: u64) -> u64 {
    let table = store.table("brim").unwrap();
    for first in (from..).step_by(BATCH as usize) {
        let mut batch = table.batch();
        for number in first..first + BATCH {
            batch.put(&key(number)[..], &value(table.value_spec(), number)[..]).unwrap();
        }
        let results = table.run(&batch, Durability::Process).unwrap();
        let mut refused = 0;
        for (number, &status) in (first..).zip(results.statuses()) {
            match status {
                Status::Created => {
                    model.insert(number, value(table.value_spec(), number));
                }
                Status::OutOfSpace | Status::TableFull => refused += 1,
                other => panic!("key {number}: {other}"),
            }
        }
        if refused > BATCH / 2 {
            return first + BATCH;
        }
    }
    unreachable!("a disk has an end")
}

fn assert_holds(store: &Store, model: &BTreeMap<u64, Vec<u8>>, numbers: u64, when: &str) {
    let table = store.table("brim").unwrap();
    assert_eq!(table.len(), model.len() as u64, "{when}");
    let mut batch = table.batch();
    for number in 0..numbers {
        batch.get(&key(number)[..]).unwrap();
    }
    let results = table.run(&batch, Durability::Process).unwrap();
    for number in 0..numbers {
        assert_eq!(results.value(number as usize), model.get(&number).map(Vec::as_slice), "{when}: {number}");
    }
}

#[test]
fn a_table_on_a_full_file_system() {
    let kinds: [(&str, KeySpec, ValueSpec); 3] = [
        ("in place", KeySpec::U64, ValueSpec::U64),
        ("packed", KeySpec::U64, ValueSpec::fixed(128).unwrap()),
        ("of any length", KeySpec::variable(20).unwrap(), ValueSpec::variable(1000).unwrap()),
    ];
    let all = IndexKind::ALL.into_iter().flat_map(|index| kinds.map(|kind| (index, kind)));
    for (index, (name, key_spec, value_spec)) in all {
        let Some(mounted) = Mounted::tmpfs(12 << 20, "a table on a full file system") else { return };
        let elsewhere = tempfile::tempdir().unwrap();
        let options = || {
            let mut options =
                StoreOptions { image: Some(mounted.path().join("image")), ..StoreOptions::default() };
            options.create.len = 1 << 20;
            options.create.chunk_size = 32 * 1024;
            options
        };
        let store = Store::open_with(elsewhere.path(), options()).unwrap();
        store.create_table("brim", TableOptions::new(key_spec, value_spec).index(index)).unwrap();
        let mut model = BTreeMap::new();
        let numbers = fill(&store, &mut model, 0);
        let full = model.len();
        assert_holds(&store, &model, numbers, "full");
        // Deletes make room for as many items again, or at least for most of them.
        let table = store.table("brim").unwrap();
        for number in (0..numbers).filter(|number| number % 2 == 0) {
            let was_there = model.remove(&number).is_some();
            assert_eq!(table.delete(&key(number)[..], Durability::Process).unwrap(), was_there, "{number}");
        }
        drop(table);
        let more = fill(&store, &mut model, numbers);
        assert!(model.len() * 10 > full * 8, "{index} {name}: {} of {full} fit again", model.len());
        assert_holds(&store, &model, more, "full again");
        drop(store);
        let store = Store::open_with(elsewhere.path(), options()).unwrap();
        assert_holds(&store, &model, more, "reopened");
        store.close().unwrap();
        say(&format!("a {index} table {name} on a full file system: {full} items, then {}", model.len()));
    }
}

/// A table that found no space is not there, not even after a rebuild from the log.
#[test]
fn tables_on_a_full_file_system() {
    let Some(mounted) = Mounted::tmpfs(4 << 20, "tables on a full file system") else { return };
    let elsewhere = tempfile::tempdir().unwrap();
    let mut options = StoreOptions { image: Some(mounted.path().join("image")), ..StoreOptions::default() };
    options.create.len = 1 << 20;
    options.create.chunk_size = 32 * 1024;
    let store = Store::open_with(elsewhere.path(), options).unwrap();
    let table = TableOptions::new(KeySpec::U64, ValueSpec::U64);
    let mut created = Vec::new();
    // Long names, so that the catalogue has to find space of its own.
    let refused = (0..1000).map(|number| format!("{number:0>200}")).find(|name| {
        let made = store.create_table(name, table);
        if made.is_ok() {
            created.push(name.clone());
        }
        made.is_err()
    });
    let refused = refused.expect("a disk has an end");
    assert!(store.create_table(&refused, table).is_err());
    assert_eq!(store.tables(), created);
    drop(store);
    // The image is elsewhere, and so is made again from the log.
    let options = StoreOptions { abandon_image: true, ..StoreOptions::default() };
    let store = Store::open_with(elsewhere.path(), options).unwrap();
    assert_eq!(store.tables(), created);
    say(&format!("a full file system: {} tables, and not one more", created.len()));
}
