//! `Power` batches that change nothing: the data they depend on survives the machine.

use warpkeep::{Batch, Durability, KeySpec, Op, Store, StoreOptions, TableOptions, ValueSpec};
use warpkeep_log::LogOptions;

use crate::form::Form;
use crate::in_log::in_log;

/// A key, its `Process` operation, and a `Power` batch that changes nothing.
type Case = (&'static str, Option<u64>, fn(&mut Batch));

const CASES: [Case; 8] = [
    ("a delete of what is absent", None, |batch| {
        batch.delete(1).unwrap();
    }),
    ("an update of what is absent", None, |batch| {
        batch.update(1, 5_u64).unwrap();
    }),
    ("a compare-and-swap of what is absent", None, |batch| {
        batch.push(Op::CompareAndSwap, &1_u64.to_le_bytes(), &5_u64.to_le_bytes(), 1).unwrap();
    }),
    ("a batch that cancels out", None, |batch| {
        batch.put(1, 222_u64).unwrap().delete(1).unwrap();
    }),
    ("an insert of what exists", Some(7), |batch| {
        batch.insert(1, 5_u64).unwrap();
    }),
    ("a compare-and-swap of another version", Some(7), |batch| {
        batch.push(Op::CompareAndSwap, &1_u64.to_le_bytes(), &5_u64.to_le_bytes(), 1).unwrap();
    }),
    ("a get", Some(7), |batch| {
        batch.get(1).unwrap();
    }),
    ("gets, and a delete of what is absent", None, |batch| {
        for key in 1..20 {
            batch.get(key).unwrap();
        }
        batch.delete(77).unwrap();
    }),
];

#[test]
fn an_answer_that_changes_nothing_rests_on_what_is_durable() {
    for form in Form::ALL {
        let directory = tempfile::tempdir().unwrap();
        let log = LogOptions { background: false, ..LogOptions::default() };
        let options = StoreOptions { log, ..StoreOptions::default() };
        let store = Store::open_with(directory.path(), options).unwrap();
        let rows = form.of(TableOptions::new(KeySpec::U64, ValueSpec::U64));
        let table = store.create_table("rows", rows).unwrap();
        for (what, wanted, call) in CASES {
            table.put(1, 111_u64, Durability::Power).unwrap();
            match wanted {
                Some(value) => drop(table.put(1, value, Durability::Process).unwrap()),
                None => assert!(table.delete(1, Durability::Process).unwrap()),
            }
            let before = in_log(&directory.path().join("log")).remove(&1);
            assert_eq!(before, Some(111_u64.to_le_bytes().to_vec()), "the write before has not been logged");
            let mut batch = table.batch();
            call(&mut batch);
            assert_eq!(table.run(&batch, Durability::Power).unwrap().first_error(), None);
            let after = in_log(&directory.path().join("log")).remove(&1);
            assert_eq!(after, wanted.map(|value| value.to_le_bytes().to_vec()), "{what}, {form}");
        }
    }
}
