//! Threads for large batches: started when they are needed, and gone with the store. Alone in its process, for it counts threads.

use warpkeep::{Durability, KeySpec, Store, StoreOptions, TableOptions, ValueSpec};

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
            table.run(&batch, Durability::Process).unwrap();
            helpers()
        };
        assert_eq!(gets(1000), 0, "a small batch needs none");
        assert_eq!(gets(100_000), expected);
        assert_eq!(gets(100_000), expected, "they are kept");
        drop(table);
        drop(store);
        assert_eq!(helpers(), 0);
    }
}
