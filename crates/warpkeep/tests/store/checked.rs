//! Tables that check every get.

use std::os::unix::fs::FileExt as _;
use std::path::Path;

use warpkeep::{
    Durability, Error, IndexKind, IndexOptions, KeySpec, Layout, Origin, Status, Store, StoreOptions,
    TableOptions, ValueSpec,
};

const VALUE: usize = 128;

fn options(index: IndexKind) -> TableOptions {
    TableOptions::new(KeySpec::U64, ValueSpec::fixed(VALUE as u32).unwrap()).index(index).check_gets(true)
}

fn value(key: u64) -> Vec<u8> {
    let mut value: Vec<u8> = (0..VALUE).map(|at| at as u8 ^ 0xa5).collect();
    value[..8].copy_from_slice(&key.to_be_bytes());
    value
}

/// Flips a bit of the value of a key, of which the image has one copy.
fn damage(home: &Path, key: u64) {
    let path = home.join("image");
    let image = std::fs::read(&path).unwrap();
    let value = value(key);
    let found: Vec<usize> =
        image.windows(VALUE).enumerate().filter(|(_, bytes)| *bytes == value).map(|(at, _)| at).collect();
    let [at] = found[..] else { panic!("{found:?}") };
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[image[at + 40] ^ 4], at as u64 + 40).unwrap();
}

fn is_corrupt<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Refused { status: Status::Corrupt, .. }))
}

#[test]
fn a_damaged_value_is_not_given_out() {
    for index in IndexKind::ALL {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path()).unwrap();
        let table = store.create_table("rows", options(index)).unwrap();
        let plain = store.create_table("plain", options(index).check_gets(false)).unwrap();
        for key in 0..100_u64 {
            table.put(key, &value(key), Durability::Power).unwrap();
        }
        plain.put(7_u64, &b"7".repeat(VALUE), Durability::Power).unwrap();
        drop((table, plain));
        store.close().unwrap();
        damage(home.path(), 7);
        let store = Store::open(home.path()).unwrap();
        assert_eq!(store.report().origin, Origin::Clean);
        let table = store.table("rows").unwrap();
        for key in 0..100_u64 {
            match key {
                7 => assert!(is_corrupt(&table.get(key)) && is_corrupt(&table.get_versioned(key)), "{index}"),
                _ => assert_eq!(table.get(key).unwrap(), Some(value(key)), "{index}"),
            }
        }
        // Alone in a batch, among others, and with writes to its key.
        let mut batch = table.batch();
        for key in 0..100_u64 {
            batch.get(key).unwrap();
        }
        batch.put(100_u64, &value(100)).unwrap();
        batch.get(7_u64).unwrap();
        let results = table.run(&batch, Durability::Process).unwrap();
        for at in 0..100 {
            assert_eq!(
                results.statuses()[at],
                if at == 7 { Status::Corrupt } else { Status::Ok },
                "{index}, {at}"
            );
        }
        assert_eq!(results.statuses()[101], Status::Corrupt);
        let mut batch = table.batch();
        batch.put(7_u64, &value(8)).unwrap();
        batch.get(7_u64).unwrap();
        let results = table.run(&batch, Durability::Process).unwrap();
        assert_eq!(results.value(1), Some(&value(8)[..]), "what replaces it is right");
        assert_eq!(table.get(7_u64).unwrap(), Some(value(8)));
    }
}

#[test]
fn that_gets_are_checked_is_kept_in_image_and_log() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let table = store.create_table("rows", options(IndexKind::GpHash)).unwrap();
    table.put(7_u64, &value(7), Durability::Power).unwrap();
    drop(table);
    store.close().unwrap();
    std::fs::remove_file(home.path().join("image")).unwrap();
    let store = Store::open(home.path()).unwrap();
    assert_eq!(store.report().origin, Origin::Rebuilt);
    store.close().unwrap();
    damage(home.path(), 7);
    let store = Store::open(home.path()).unwrap();
    assert!(is_corrupt(&store.table("rows").unwrap().get(7_u64)));
}

#[test]
fn a_device_does_not_work_such_a_table() {
    let home = tempfile::tempdir().unwrap();
    let on_sim = || StoreOptions { device: warpkeep::DeviceChoice::Sim, ..StoreOptions::default() };
    let Ok(store) = Store::open_with(home.path(), on_sim()) else { return };
    let table = store.create_table("rows", options(IndexKind::GpHash)).unwrap();
    let mut batch = table.batch();
    for key in 0..3000_u64 {
        batch.put(key, &value(key)).unwrap();
    }
    assert_eq!(table.run(&batch, Durability::Process).unwrap().first_error(), None);
    drop(table);
    store.close().unwrap();
    damage(home.path(), 7);
    let store = Store::open_with(home.path(), on_sim()).unwrap();
    let table = store.table("rows").unwrap();
    let mut batch = table.batch();
    for key in 0..3000_u64 {
        batch.get(key).unwrap();
    }
    let results = table.run(&batch, Durability::Process).unwrap();
    let corrupt: Vec<usize> = (0..3000).filter(|&at| results.statuses()[at] == Status::Corrupt).collect();
    assert_eq!(corrupt, [7]);
}

#[test]
fn values_in_slots_cannot_be_checked() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    for index in IndexKind::ALL {
        let small = TableOptions::new(KeySpec::U64, ValueSpec::U64).index(index).check_gets(true);
        let error = store.create_table("small", small).err().unwrap().to_string();
        assert!(error.contains("packed"), "{error}");
    }
    let packed = TableOptions::new(KeySpec::U64, ValueSpec::U64)
        .index(IndexOptions::gphash(Layout::Packed))
        .check_gets(true);
    let table = store.create_table("small", packed).unwrap();
    assert_eq!(table.fetch_add(7_u64, 5, Durability::Power).unwrap(), 0);
    assert_eq!(table.get(7_u64).unwrap(), Some(5_u64.to_le_bytes().to_vec()));
}
