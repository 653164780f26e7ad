//! Stores with tables of short keys of any length, which lie in cells: through crashes, backups and damage the keys
//! are those that programs gave.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use warpkeep::rows::KeyCells;
use warpkeep::{
    Durability, KeySpec, Op, Origin, Store, StoreOptions, TableOptions, ValueSpec, restore, verify,
};
use warpkeep_image::{CreateOptions, HeapOptions, MIN_CHUNK};

type Items = BTreeMap<Vec<u8>, (u64, Vec<u8>)>;

const LONGEST: usize = 24;

fn options() -> StoreOptions {
    let create = CreateOptions { len: 8 * MIN_CHUNK, chunk_size: MIN_CHUNK, ..CreateOptions::default() };
    let heap = HeapOptions { max_bytes: 64 << 20, ..HeapOptions::default() };
    StoreOptions { create, heap, abandon_image: true, ..StoreOptions::default() }
}

fn open(path: &Path) -> Store {
    Store::open_with(path, options()).unwrap()
}

fn create(store: &Store) {
    let (key, value) = (KeySpec::variable(LONGEST as u32).unwrap(), ValueSpec::fixed(32).unwrap());
    let table = store.create_table("names", TableOptions::new(key, value).capacity(10)).unwrap();
    assert_eq!(table.key_cells().map(KeyCells::row_len), Some(32));
}

/// The empty key; keys of every length that are prefixes of each other; and keys that differ in zeros at their ends.
fn keys() -> Vec<Vec<u8>> {
    let texts = (0..200).map(|number| format!("{number:0width$}", width = number % 20).into_bytes());
    let same = (1..=LONGEST)
        .flat_map(|len| [vec![0; len], vec![0xff; len], [vec![b'k'], vec![0; len - 1]].concat()]);
    [Vec::new()].into_iter().chain(texts).chain(same).collect()
}

fn value(key: &[u8], mark: u8) -> Vec<u8> {
    let mut value = vec![mark; 32];
    value[..key.len()].copy_from_slice(key);
    value
}

fn contents(store: &Store) -> Items {
    let mut items = Items::new();
    let table = store.table("names").unwrap();
    let each = |item: warpkeep::Item<'_>| {
        assert!(items.insert(item.key.to_vec(), (item.version, item.value.to_vec())).is_none());
        std::ops::ControlFlow::Continue(())
    };
    // While a table grows, a scan may give items out twice.
    while table.maintain().unwrap() {}
    table.scan(each).unwrap();
    assert_eq!(table.len(), items.len() as u64);
    for (key, (version, value)) in &items {
        assert_eq!(table.get_versioned(&key[..]).unwrap().as_ref(), Some(&(*version, value.clone())));
    }
    items
}

/// Puts all keys, one by one and in batches; deletes every fifth, and puts some again.
fn fill(store: &Store) -> Items {
    create(store);
    let (table, keys) = (store.table("names").unwrap(), keys());
    let (first, second) = keys.split_at(keys.len() / 2);
    let mut expected = Items::new();
    for (number, key) in first.iter().enumerate() {
        let durability = if number % 16 == 0 { Durability::Power } else { Durability::Process };
        let version = table.put(&key[..], &value(key, 1)[..], durability).unwrap();
        expected.insert(key.clone(), (version, value(key, 1)));
    }
    store.checkpoint().unwrap();
    let mut batch = table.batch();
    for key in second {
        batch.push(Op::Put, key, &value(key, 2), 0).unwrap();
    }
    let results = table.run(&batch, Durability::Power).unwrap();
    for (key, &version) in second.iter().zip(results.versions()) {
        expected.insert(key.clone(), (version, value(key, 2)));
    }
    for key in keys.iter().step_by(5) {
        table.delete(&key[..], Durability::Power).unwrap();
        expected.remove(key);
    }
    for key in keys.iter().step_by(10) {
        let version = table.put(&key[..], &value(key, 3)[..], Durability::Power).unwrap();
        expected.insert(key.clone(), (version, value(key, 3)));
    }
    assert!(table.put(&[1; LONGEST + 1][..], &[0; 32][..], Durability::Power).is_err(), "it is too long");
    assert!(expected.contains_key(&Vec::new()) && expected.len() > 150);
    expected
}

#[test]
fn what_was_written_is_there_after_crashes() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let expected = fill(&store);
    assert_eq!(contents(&store), expected);
    // The process dies: the image is all there.
    drop(store);
    let store = open(home.path());
    assert_eq!(contents(&store), expected);
    store.flush().unwrap();
    drop(store);
    // The machine dies: the log is.
    fs::remove_file(home.path().join("image")).unwrap();
    let store = open(home.path());
    assert_eq!((store.report().origin, contents(&store)), (Origin::Rebuilt, expected.clone()));
    store.close().unwrap();
    let report = verify(home.path(), &options()).unwrap();
    assert!(report.sound, "{report:#?}");
}

#[test]
fn backups_come_back_as_they_were() {
    let home = tempfile::tempdir().unwrap();
    let store = open(&home.path().join("store"));
    let expected = fill(&store);
    let report = store.backup(&home.path().join("backup"), &mut |_, _| ()).unwrap();
    assert_eq!(report.items, expected.len() as u64);
    restore(&home.path().join("backup"), &home.path().join("anew"), options(), &mut |_, _| ()).unwrap();
    let anew = open(&home.path().join("anew"));
    assert_eq!(contents(&anew), expected);
    assert!(anew.table("names").unwrap().key_cells().is_some());
}

/// Bytes behind a key: no search finds the item, and a check reports it.
#[test]
fn a_damaged_cell_is_found_by_a_close_look() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let expected = fill(&store);
    store.close().unwrap();
    let image = home.path().join("image");
    let mut bytes = fs::read(&image).unwrap();
    let key = b"k\0\0\0";
    // Value, key in its cell, version.
    let mut record = value(key, expected[&key[..]].1[31]);
    record.extend(key);
    record.resize(63, 0);
    record.push(key.len() as u8);
    // A write that was given up and begun again may have left another.
    let places: Vec<usize> =
        (0..bytes.len() - 64).step_by(8).filter(|&at| bytes[at..at + 64] == record).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| bytes[at + 32 + 9] = 1);
    fs::write(&image, &bytes).unwrap();
    let report = verify(home.path(), &options()).unwrap();
    assert!(!report.sound, "{report:#?}");
    let store = open(home.path());
    assert_eq!(store.table("names").unwrap().get(&key[..]).unwrap(), None);
}
