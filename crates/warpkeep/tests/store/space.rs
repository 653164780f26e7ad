//! An image at its limit: memory moves from one size of value to another, and to tables that grow.

use warpkeep::{Durability, Error, KeySpec, Store, StoreOptions, Table, TableOptions, ValueSpec};
use warpkeep_image::{CreateOptions, HeapOptions, ImageError, MIN_CHUNK};

const LIMIT: u64 = 16 << 20;

fn open(home: &tempfile::TempDir) -> Store {
    let create = CreateOptions { len: 8 * MIN_CHUNK, chunk_size: MIN_CHUNK, ..CreateOptions::default() };
    let heap = HeapOptions { max_bytes: LIMIT, ..HeapOptions::default() };
    let options = StoreOptions { create, heap, without_log: true, ..StoreOptions::default() };
    Store::open_with(home.path(), options).unwrap()
}

fn options() -> TableOptions {
    TableOptions::new(KeySpec::variable(100).unwrap(), ValueSpec::variable(1 << 20).unwrap())
}

/// Puts values of this length until there is no space; returns how many.
fn fill(table: &Table, name: &str, len: usize) -> usize {
    for number in 0.. {
        match table.put(format!("{name}-{number}").as_str(), &vec![1; len], Durability::Process) {
            Ok(_) => {}
            Err(Error::Image(ImageError::OutOfSpace { .. }) | Error::Refused { .. }) => return number,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("the image has a limit")
}

fn check(table: &Table, name: &str, numbers: impl Iterator<Item = usize>, len: usize) {
    for number in numbers {
        let value = table.get(format!("{name}-{number}").as_str()).unwrap();
        assert_eq!(value.map(|value| value.len()), Some(len), "{name}-{number}");
    }
}

/// Space of deleted items of one size serves another size, and a table that has to grow.
#[test]
fn memory_moves_between_sizes() {
    for reopens in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let mut store = open(&home);
        let first = {
            let table = store.create_table("items", options()).unwrap();
            let first = fill(&table, "a", 500);
            assert!(first > 20_000, "{first}");
            for number in (0..first).filter(|number| number % 10 != 0) {
                assert!(table.delete(format!("a-{number}").as_str(), Durability::Process).unwrap());
            }
            first
        };
        if reopens {
            store.close().unwrap();
            store = open(&home);
        }
        let table = store.table("items").unwrap();
        let second = fill(&table, "b", 3000);
        assert!(second * 3000 > LIMIT as usize / 2, "{second} values of 3000 bytes");
        for number in 0..second {
            table.delete(format!("b-{number}").as_str(), Durability::Process).unwrap();
        }
        // Small ones need many more slots, and so whole chunks side by side.
        let third = fill(&table, "c", 20);
        assert!(third > 100_000, "{third} values of 20 bytes");
        check(&table, "a", (0..first).step_by(10), 500);
        check(&table, "c", 0..third, 20);
        // And another table.
        for number in 0..third / 2 {
            table.delete(format!("c-{number}").as_str(), Durability::Process).unwrap();
        }
        let other = store.create_table("other", options()).unwrap();
        assert!(fill(&other, "d", 1000) > 1000);
        check(&table, "c", third / 2..third, 20);
        drop((table, other));
        store.close().unwrap();
    }
}

/// Blocks that a thread has freed become available even if it is idle from then on.
#[test]
fn what_an_idle_thread_deleted_is_used_again() {
    let home = tempfile::tempdir().unwrap();
    let store = open(&home);
    let table = store.create_table("items", options()).unwrap();
    let count = fill(&table, "a", 500);
    let (deleted, is_deleted) = std::sync::mpsc::channel();
    let (end, may_end) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let table = &table;
        scope.spawn(move || {
            for number in 0..40 {
                table.delete(format!("a-{number}").as_str(), Durability::Process).unwrap();
            }
            deleted.send(()).unwrap();
            // It stays alive: ending would pass its deferred work on.
            let _ = may_end.recv();
        });
        is_deleted.recv().unwrap();
        for number in 0..40 {
            let stored = table.put(format!("b-{number}").as_str(), &[1; 500], Durability::Process);
            assert!(stored.is_ok(), "{number} of 40, {count} before: {stored:?}");
        }
        drop(end);
    });
}
