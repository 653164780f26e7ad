//! What `Power` says of batches that change nothing: what they rest on survives the machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use warpkeep::{Batch, ChangeKind, Durability, KeySpec, Op, Store, StoreOptions, TableOptions, ValueSpec};
use warpkeep_log::{LogError, LogOptions, OsDisk, Recovery};

use crate::form::Form;

/// What a power cut now would leave of tables whose keys are numbers: what is in the files of the log, some of which was synced.
/// Nothing writes to the log behind the back of those who use the store, so nothing else is there.
fn in_log(log: &Path) -> BTreeMap<u64, Vec<u8>> {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(log).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let mut items: BTreeMap<u64, (u64, Option<Vec<u8>>)> = BTreeMap::new();
    let mut take = |change: warpkeep::Change<'_>| {
        let Ok(key) = change.key.try_into().map(u64::from_le_bytes) else { return };
        let known = items.entry(key).or_default();
        if change.table != 0 && known.0 < change.version {
            *known = (change.version, (change.kind == ChangeKind::Put).then(|| change.value.to_vec()));
        }
    };
    let recovery =
        Recovery::open(Arc::new(OsDisk::open(copy.path()).unwrap()), LogOptions::default()).unwrap();
    recovery
        .load_checkpoint(|change| {
            take(change);
            Ok::<(), LogError>(())
        })
        .unwrap();
    recovery
        .redo(|record| {
            record.changes().for_each(&mut take);
            Ok::<(), LogError>(())
        })
        .unwrap();
    items.into_iter().filter_map(|(key, (_, value))| Some((key, value?))).collect()
}

/// A key, what is done to it with `Process`, and a `Power` batch that changes nothing.
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
            table.run(&batch, Durability::Power).unwrap();
            let after = in_log(&directory.path().join("log")).remove(&1);
            assert_eq!(after, wanted.map(|value| value.to_le_bytes().to_vec()), "{what}, {form}");
        }
    }
}
