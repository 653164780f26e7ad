//! Everything a `Power` answer depends on is durable, including effects that are visible before they are in the
//! log.

use std::sync::mpsc;
use std::time::Duration;

use warpkeep_core::{Batch, KeySpec, Lsn};
use warpkeep_log::LogOptions;

use super::*;
use crate::{Store, StoreOptions, TableOptions};

/// How long a writer waits to see whether an answer comes too early. If it comes late instead, the test is weaker,
/// but still right.
const TOO_EARLY: Duration = Duration::from_millis(200);

/// A store whose log is written only by threads that wait for it.
fn open(directory: &std::path::Path) -> Store {
    let log = LogOptions { background: false, ..LogOptions::default() };
    let store = Store::open_with(directory, StoreOptions { log, ..StoreOptions::default() }).unwrap();
    let options = TableOptions::new(KeySpec::U64, ValueSpec::U64);
    store.create_table("rows", options).unwrap().put(1, 10_u64, Durability::Power).unwrap();
    store
}

fn lsns(store: &Store) -> (Lsn, Lsn) {
    let log = store.keeper.log().unwrap();
    (log.durable_lsn(), log.last_lsn())
}

/// Puts a value with `Process`, and calls `between` when it is visible and not in the log yet.
fn put_slowly(store: &Store, key: u64, value: u64, between: impl FnOnce()) {
    let named = store.keeper.items().get("rows").unwrap();
    let (key, value) = (key.to_le_bytes(), value.to_le_bytes());
    let group = [Operation { index: 0, op: Op::Put, key: &key, value: &value, argument: 0 }];
    with_placed!(&named.table, placed => {
        let target = Target::new(named.id, placed);
        let mut changes = ChangeBatch::new();
        let order = lock_order(target.table, &group);
        let Ok(ready) = stage(&store.keeper, &target, &group, &order, &mut changes).unwrap() else {
            panic!("a table of one item is full")
        };
        store.keeper.write(Durability::Process, &changes, || {
            let held = ready.stage.publish();
            between();
            held
        }).map(drop).unwrap();
    });
}

/// Runs a batch with `Power` while a put of key 1 can be seen and is not in the log.
fn answer_meanwhile(batch: impl Fn(&mut Batch) + Sync) {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let ((begin, begun), (answer, answered)) = (mpsc::channel(), mpsc::channel());
    std::thread::scope(|scope| {
        let (store, batch) = (&store, &batch);
        scope.spawn(move || {
            put_slowly(store, 1, 11, || {
                begin.send(()).unwrap();
                assert!(answered.recv_timeout(TOO_EARLY).is_err(), "answered before it was logged");
            });
        });
        begun.recv().unwrap();
        let table = store.table("rows").unwrap();
        let mut calls = table.batch();
        batch(&mut calls);
        let results = table.run(&calls, Durability::Power).unwrap();
        // The writer may be gone by now.
        let _ = answer.send(());
        assert_eq!(results.value(0), Some(&11_u64.to_le_bytes()[..]));
        let (durable, last) = lsns(store);
        assert_eq!(durable, last, "what was read is durable when the answer is given");
    });
}

#[test]
fn a_get_waits_for_what_it_saw_before_it_was_logged() {
    answer_meanwhile(|batch| {
        batch.get(1).unwrap();
    });
}

#[test]
fn gets_beside_a_commit_wait_for_what_they_saw_before_it_was_logged() {
    answer_meanwhile(|batch| {
        for _ in 0..WORTH_APART {
            batch.get(1).unwrap();
        }
        batch.put(2, 20_u64).unwrap();
    });
}

/// A key that is held is let go only when its record is in the log.
#[test]
fn a_decision_waits_for_what_it_saw_before_it_was_logged() {
    answer_meanwhile(|batch| {
        batch.get(1).unwrap().insert(1, 12_u64).unwrap();
    });
}

#[test]
fn nothing_is_written_for_an_answer_that_rests_on_durable_state() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let table = store.table("rows").unwrap();
    let frames = || std::fs::read_dir(directory.path().join("log")).unwrap().count();
    let before = (lsns(&store), frames());
    for _ in 0..3 {
        assert!(!table.delete(7, Durability::Power).unwrap());
        assert_eq!(table.update(7, 1_u64, Durability::Power).unwrap(), None);
        assert!(table.run(table.batch().get(1).unwrap(), Durability::Power).unwrap().value(0).is_some());
    }
    assert_eq!(before, (lsns(&store), frames()));
}

#[test]
fn a_log_that_has_stopped_vouches_for_nothing_it_may_lack() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let table = store.table("rows").unwrap();
    let mut batch = table.batch();
    batch.get(1).unwrap();
    table.put(2, 20_u64, Durability::Process).unwrap();
    store.keeper.log().unwrap().give_up("a test".into());
    let refused = table.run(&batch, Durability::Power);
    assert!(matches!(refused, Err(Error::Log(_))), "{refused:?}");
    assert!(table.run(&batch, Durability::Process).is_ok());
}
