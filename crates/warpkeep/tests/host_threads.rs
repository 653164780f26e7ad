//! Threads for large batches: started on demand, and ended with the store. Alone in its process, because it counts
//! threads.

use std::time::{Duration, Instant};

use warpkeep::{Durability, KeySpec, Store, StoreOptions, TableOptions, ValueSpec};

/// Waits until there are `expected` helpers, and returns whether that happened: a thread sets its name when it
/// first runs, and is listed for a moment after it was joined.
fn become_helpers(expected: usize) -> bool {
    let begun = Instant::now();
    while helpers() != expected {
        if begun.elapsed() > Duration::from_secs(60) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Threads of this process that help with batches.
fn helpers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "warpkeep-helper").count()
}

#[test]
fn no_thread_is_started_needlessly_or_left_behind() {
    for (threads, expected) in [(1, 0), (3, 2)] {
        let home = tempfile::tempdir().unwrap();
        let options = StoreOptions { threads, without_log: true, ..StoreOptions::default() };
        let store = Store::open_with(home.path(), options).unwrap();
        let table = store.create_table("t", TableOptions::new(KeySpec::U64, ValueSpec::U64)).unwrap();
        let gets = |count: u64| {
            let mut batch = table.batch();
            for number in 0..count {
                batch.get(number).unwrap();
            }
            assert_eq!(table.run(&batch, Durability::Process).unwrap().first_error(), None);
        };
        gets(1000);
        assert_eq!(helpers(), 0, "a small batch needs none");
        gets(100_000);
        assert!(become_helpers(expected), "{} instead of {expected}", helpers());
        gets(100_000);
        assert_eq!(helpers(), expected, "they are kept");
        drop(table);
        drop(store);
        assert!(become_helpers(0), "{} are left", helpers());
    }
}
