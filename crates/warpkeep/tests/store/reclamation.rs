//! Replaced records are freed when no reader of their own store can see them; readers of other stores do not
//! matter.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc;

use warpkeep::{
    Durability, IndexKind, KeySpec, Origin, Store, StoreOptions, Table, TableOptions, ValueSpec, verify,
};
use warpkeep_image::{CreateOptions, HeapOptions, MIN_CHUNK};

/// The image becomes no larger.
const LIMIT: u64 = 8 << 20;
const KEYS: u64 = 200;
const VALUE: usize = 500;

fn open(directory: &Path) -> Store {
    let create = CreateOptions { len: 8 * MIN_CHUNK, chunk_size: MIN_CHUNK, ..CreateOptions::default() };
    let heap = HeapOptions { max_bytes: LIMIT, ..HeapOptions::default() };
    let options = StoreOptions { create, heap, ..StoreOptions::default() };
    Store::open_with(directory, options).unwrap()
}

fn filled(directory: &Path, kind: IndexKind) -> Store {
    let store = open(directory);
    let options = TableOptions::new(KeySpec::U64, ValueSpec::fixed(VALUE as u32).unwrap());
    let table = store.create_table("rows", options.capacity(KEYS).index(kind)).unwrap();
    write(&table, 0);
    drop(table);
    store
}

fn write(table: &Table, round: u64) {
    for key in 0..KEYS {
        table.put(key, &value_of(key, round), Durability::Process).unwrap();
    }
}

fn value_of(key: u64, round: u64) -> [u8; VALUE] {
    [(key + round) as u8; VALUE]
}

fn check(store: &Store, round: u64) {
    let table = store.table("rows").unwrap();
    assert_eq!(table.len(), KEYS);
    for key in 0..KEYS {
        assert_eq!(table.get(key).unwrap().as_deref(), Some(&value_of(key, round)[..]), "row {key}");
    }
}

/// Runs a function while a thread is pinned in the middle of a scan of a store.
fn beside_a_reader(store: &Store, meanwhile: impl FnOnce()) {
    let (begun, has_begun) = mpsc::channel();
    let (end, may_end) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let scanned = store.table("rows").unwrap().scan(|_| {
                begun.send(()).unwrap();
                let _ = may_end.recv();
                ControlFlow::Break(())
            });
            scanned.unwrap();
        });
        has_begun.recv().unwrap();
        meanwhile();
        drop(end);
    });
}

#[test]
fn a_reader_does_not_keep_the_space_of_another_store() {
    for kind in IndexKind::ALL {
        let (home, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (store, read) = (filled(home.path(), kind), filled(elsewhere.path(), kind));
        let rounds = 400;
        beside_a_reader(&read, || {
            // Many times as much as the image holds.
            let table = store.table("rows").unwrap();
            (1..=rounds).for_each(|round| write(&table, round));
        });
        check(&store, rounds);
        check(&read, 0);
    }
}

#[test]
fn a_store_is_closed_while_another_is_read() {
    for (kind, close) in IndexKind::ALL.into_iter().flat_map(|kind| [(kind, true), (kind, false)]) {
        let (home, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let read = filled(elsewhere.path(), kind);
        beside_a_reader(&read, || {
            for round in 1..5 {
                let store = if round == 1 { filled(home.path(), kind) } else { open(home.path()) };
                check(&store, round - 1);
                // Records replaced here are not free yet when the store is dropped.
                write(&store.table("rows").unwrap(), round);
                match close {
                    true => store.close().unwrap(),
                    false => drop(store),
                }
            }
            let report = verify(home.path(), &StoreOptions::default()).unwrap();
            assert!(report.sound, "{report:?}");
        });
        // The reader's store was not touched by that.
        write(&read.table("rows").unwrap(), 9);
        check(&read, 9);
        read.close().unwrap();
        assert!(verify(elsewhere.path(), &StoreOptions::default()).unwrap().sound);
    }
}

#[test]
fn a_store_closed_with_garbage_opens_clean_and_leaks_nothing() {
    for kind in IndexKind::ALL {
        let home = tempfile::tempdir().unwrap();
        let store = filled(home.path(), kind);
        let used = store.usage().used_blocks();
        store.close().unwrap();
        for round in 1..10 {
            let store = open(home.path());
            assert_eq!(store.report().origin, Origin::Clean);
            assert_eq!(store.usage().used_blocks(), used, "round {round}");
            std::thread::scope(|scope| {
                // Threads that retire a little and end.
                for _ in 0..4 {
                    scope.spawn(|| write(&store.table("rows").unwrap(), round));
                }
            });
            check(&store, round);
            store.close().unwrap();
        }
    }
}

#[test]
fn readers_that_end_do_not_unpin_the_others() {
    for kind in IndexKind::ALL {
        let home = tempfile::tempdir().unwrap();
        let store = filled(home.path(), kind);
        let table = store.table("rows").unwrap();
        let mut given = 0;
        let scanned = table.scan(|item| {
            let before = item.value.to_vec();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let table = store.table("rows").unwrap();
                    // All records are replaced, and read, by a thread that ends.
                    (0..3).for_each(|round| write(&table, 100 + given + round));
                    (0..KEYS).for_each(|key| assert!(table.get(key).unwrap().is_some()));
                });
            });
            assert_eq!(item.value, before, "a value changed while it was read");
            given += 1;
            if given < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        scanned.unwrap();
        assert_eq!(given, 3);
    }
}
