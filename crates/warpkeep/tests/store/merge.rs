//! Merge rules through a store: rows that add up, values that grow too long, tables without a rule.

use warpkeep::{
    Durability, Error, KeySpec, MergeRule, Op, Status, Store, StoreOptions, TableOptions, ValueSpec,
};

fn both(check: impl Fn(&Store, Durability)) {
    for durability in [Durability::Process, Durability::Power] {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        check(&store, durability);
    }
}

#[test]
fn gradients_add_up_in_rows_and_survive() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    let options = TableOptions::typed::<u64, [f32; 32]>().unwrap().merge(MergeRule::AddF32);
    let rows = store.create_table("rows", options).unwrap();
    let gradient = |scale: f32| -> Vec<u8> {
        (0..32).flat_map(|column| (scale * column as f32).to_le_bytes()).collect()
    };
    let mut batch = rows.batch();
    for _ in 0..4 {
        batch.merge(1, &gradient(0.25)).unwrap().merge(2, &gradient(1.0)).unwrap();
    }
    let results = rows.run(&batch, Durability::Power).unwrap();
    assert_eq!(results.statuses()[..3], [Status::Created, Status::Created, Status::Ok]);
    rows.merge(1, &gradient(0.5), Durability::Process).unwrap();
    drop(rows);
    store.flush().unwrap();
    drop(store);
    std::fs::remove_file(directory.path().join("image")).unwrap();
    let options = StoreOptions { abandon_image: true, ..StoreOptions::default() };
    let store = Store::open_with(directory.path(), options).unwrap();
    assert_eq!(store.table("rows").unwrap().merge_rule(), MergeRule::AddF32, "the rule survives a rebuild");
    let rows = store.typed::<u64, [f32; 32]>("rows").unwrap();
    let expected = |scale: f32| std::array::from_fn(|column| scale * column as f32);
    assert_eq!(rows.get_many(&[1, 2, 3]).unwrap(), [Some(expected(1.5)), Some(expected(4.0)), None]);
}

#[test]
fn what_grows_too_long_is_refused_and_left_as_it_was() {
    both(|store, durability| {
        let options = TableOptions::new(KeySpec::variable(10).unwrap(), ValueSpec::variable(8).unwrap());
        let table = store.create_table("log", options.merge(MergeRule::Append)).unwrap();
        table.merge("k", "abcd", durability).unwrap();
        table.merge("k", "efgh", durability).unwrap();
        let refused = table.merge("k", "i", durability).unwrap_err();
        assert!(
            matches!(refused, Error::Refused { index: 0, op: Op::Merge, status: Status::TooLarge }),
            "{refused:?}"
        );
        assert!(refused.to_string().contains("larger limit"), "{refused}");
        assert_eq!(table.get("k").unwrap(), Some(b"abcdefgh".to_vec()));
        // Nor is a value taken that no table of this kind takes; that is seen before anything is done.
        assert!(matches!(table.merge("new", "123456789", durability), Err(Error::Core(_))));
        assert_eq!(table.len(), 1);
    });
}

#[test]
fn without_a_rule_there_is_no_merge() {
    both(|store, durability| {
        let table = store.create_table("plain", TableOptions::new(KeySpec::U64, ValueSpec::U64)).unwrap();
        for there in [false, true] {
            let refused = table.merge(1, 5, durability).unwrap_err();
            assert!(matches!(refused, Error::Refused { status: Status::WrongType, .. }), "{refused:?}");
            assert_eq!(table.get(1).unwrap().is_some(), there);
            table.put(1, 7, durability).unwrap();
        }
        assert_eq!(table.get(1).unwrap(), Some(7_u64.to_le_bytes().to_vec()));
    });
}

#[test]
fn rules_that_do_not_fit_their_values_are_refused_at_creation() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    let odd = TableOptions::new(KeySpec::U64, ValueSpec::fixed(9).unwrap()).merge(MergeRule::AddU64);
    assert!(matches!(store.create_table("odd", odd).map(|_| ()), Err(Error::Core(_))));
    assert!(store.tables().is_empty());
}

#[test]
fn each_rule_does_what_it_says() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    let numbers = [
        (MergeRule::Replace, 5),
        (MergeRule::AddU64, 12),
        (MergeRule::MaxU64, 7),
        (MergeRule::MinU64, 5),
        (MergeRule::Or, 7),
    ];
    for (rule, expected) in numbers {
        let options = TableOptions::new(KeySpec::U64, ValueSpec::U64).merge(rule);
        let table = store.create_table(rule.name(), options).unwrap();
        let first = table.merge(1, 7, Durability::Process).unwrap();
        let second = table.merge(1, 5, Durability::Process).unwrap();
        assert!(second > first, "versions grow");
        assert_eq!(
            table.get_versioned(1).unwrap(),
            Some((second, u64::to_le_bytes(expected).to_vec())),
            "{rule}"
        );
    }
}
