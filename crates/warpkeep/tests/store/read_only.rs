//! Stores opened for reading: nothing is written to their files, and every acknowledged write is there.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use warpkeep::{
    Durability, Error, IndexKind, KeySpec, Origin, Store, StoreOptions, TableOptions, ValueSpec, restore,
};
use warpkeep_image::{CreateOptions, ImageError, MIN_CHUNK};
use warpkeep_log::LogError;

const ITEMS: u64 = 500;

fn options() -> StoreOptions {
    let create = CreateOptions { len: 8 * MIN_CHUNK, chunk_size: MIN_CHUNK, ..CreateOptions::default() };
    StoreOptions { create, ..StoreOptions::default() }
}

/// A store with a table of each index; some of its contents came after the checkpoint.
fn filled(directory: &Path) -> Store {
    let store = Store::open_with(directory, options()).unwrap();
    for index in IndexKind::ALL {
        let table = TableOptions::new(KeySpec::U64, ValueSpec::variable(100).unwrap()).index(index);
        let table = store.create_table(index.name(), table).unwrap();
        for key in 0..ITEMS {
            table.put(key, format!("value {key}").as_bytes(), Durability::Process).unwrap();
        }
    }
    store.checkpoint().unwrap();
    for index in IndexKind::ALL {
        store.table(index.name()).unwrap().put(0, b"later", Durability::Power).unwrap();
    }
    store
}

#[track_caller]
fn assert_filled(store: &Store) {
    for index in IndexKind::ALL {
        let table = store.table(index.name()).unwrap();
        assert_eq!(table.len(), ITEMS);
        assert_eq!(table.get(0).unwrap(), Some(b"later".to_vec()));
        assert!((1..ITEMS).all(|key| table.get(key).unwrap() == Some(format!("value {key}").into_bytes())));
        let mut seen = 0;
        table
            .scan(|_| {
                seen += 1;
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(seen, ITEMS);
    }
}

/// Every file below a directory, with its bytes and the time of its last change.
fn files(directory: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let changed = path.metadata().unwrap().modified().unwrap();
            found.insert(path.clone(), (fs::read(&path).unwrap(), changed));
        }
    }
    found
}

fn read_only(directory: &Path) -> Store {
    Store::open_read_only(directory, options()).unwrap()
}

#[test]
fn reading_changes_no_file() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("store");
    let store = filled(&directory);
    drop(store);
    for round in ["left", "closed", "without its image", "with an older image"] {
        match round {
            "closed" => Store::open_with(&directory, options()).unwrap().close().unwrap(),
            "without its image" => fs::rename(directory.join("image"), home.path().join("older")).unwrap(),
            "with an older image" => {
                // Made again, and closed under a later epoch.
                for _ in 0..2 {
                    Store::open_with(&directory, options()).unwrap().close().unwrap();
                }
                fs::rename(home.path().join("older"), directory.join("image")).unwrap();
            }
            _ => {}
        }
        let before = files(&directory);
        let store = read_only(&directory);
        let origin = match round {
            "left" => Origin::Reattached,
            "closed" => Origin::Clean,
            _ => Origin::Rebuilt,
        };
        assert_eq!(store.report().origin, origin, "{round}");
        assert!(store.is_read_only());
        assert_filled(&store);
        let backup = home.path().join(format!("backup {round}"));
        let made = store.backup(&backup, &mut |_, _| ()).unwrap();
        assert_eq!(made.items, ITEMS * IndexKind::ALL.len() as u64);
        store.close().unwrap();
        drop(read_only(&directory));
        assert!(files(&directory) == before, "{round}: a file has changed");
        // The backup equals the store.
        let anew = home.path().join(format!("anew {round}"));
        restore(&backup, &anew, options(), &mut |_, _| ()).unwrap();
        assert_filled(&Store::open_with(&anew, options()).unwrap());
    }
}

#[test]
fn every_write_is_refused() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path()).close().unwrap();
    let store = read_only(home.path());
    let table = store.table(IndexKind::GpHash.name()).unwrap();
    let more = TableOptions::new(KeySpec::U64, ValueSpec::U64);
    for durability in [Durability::Process, Durability::Power] {
        let mut batch = table.batch();
        batch.get(1).unwrap();
        batch.put(1, b"x").unwrap();
        let refused = [
            table.put(1, b"x", durability).map(|_| ()),
            table.delete(1, durability).map(|_| ()),
            table.insert(ITEMS, b"x", durability).map(|_| ()),
            table.update(1, b"x", durability).map(|_| ()),
            table.run(&batch, durability).map(|_| ()),
            store.create_table("more", more).map(|_| ()),
            store.drop_table(IndexKind::GpHash.name()),
            table.grow(),
            table.shrink().map(|_| ()),
            store.compact().map(|_| ()),
            store.checkpoint(),
            store.flush(),
        ];
        for (number, refused) in refused.into_iter().enumerate() {
            assert!(matches!(refused, Err(Error::ReadOnly)), "{number}: {refused:?}");
        }
    }
    assert!(Error::ReadOnly.to_string().contains("open it for writing"));
    drop(table);
    assert_filled(&store);
}

#[test]
fn readers_share_a_store_and_writers_have_it_alone() {
    let home = tempfile::tempdir().unwrap();
    let store = filled(home.path());
    let error = Store::open_read_only(home.path(), options()).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Log(LogError::Held { .. })), "{error}");
    assert!(error.to_string().contains("warpkeep backup --address"), "{error}");
    store.close().unwrap();
    let (one, other) = (read_only(home.path()), read_only(home.path()));
    let error = Store::open_with(home.path(), options()).map(|_| ()).unwrap_err();
    assert!(
        matches!(error, Error::Log(LogError::Held { .. }) | Error::Image(ImageError::Held { .. })),
        "{error}"
    );
    assert_filled(&one);
    drop(one);
    assert_filled(&other);
    drop(other);
    Store::open_with(home.path(), options()).unwrap().close().unwrap();
}

#[test]
fn where_there_is_no_store_none_is_made() {
    let home = tempfile::tempdir().unwrap();
    let nowhere = home.path().join("nowhere");
    for directory in [&nowhere, &home.path().to_path_buf()] {
        let error = Store::open_read_only(directory, options()).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::NoStore { .. }), "{error}");
    }
    assert!(!nowhere.exists());
}
