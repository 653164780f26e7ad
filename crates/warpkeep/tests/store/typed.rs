//! Tables of Rust types: every type there and back, and types that a table does not have.

use std::collections::BTreeMap;
use std::fmt::Debug;

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestCaseError};
use warpkeep::{
    Durability, Error, Inserted, Key, KeySpec, MergeRule, Row, Store, StoreOptions, Swapped, TableOptions,
    Value, ValueSpec,
};
use warpkeep_image::{CreateOptions, HeapOptions, MIN_CHUNK};

fn store() -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let create = CreateOptions { len: 8 * MIN_CHUNK, chunk_size: MIN_CHUNK, ..CreateOptions::default() };
    let heap = HeapOptions { max_bytes: 64 << 20, ..HeapOptions::default() };
    let options = StoreOptions { create, heap, without_log: true, ..StoreOptions::default() };
    let store = Store::open_with(directory.path(), options).unwrap();
    (directory, store)
}

/// Puts items of these types, and finds them by every kind of read.
fn round_trip<K, V>(items: &[(K, V)]) -> Result<(), TestCaseError>
where
    K: Key + Clone + Ord + Debug,
    V: Value + Clone + PartialEq + Debug,
{
    let (_directory, store) = store();
    // With room for all: a scan may give an item out twice while its table grows.
    let table = store.create_typed::<K, V>("t", 200).unwrap();
    table.put_many(items, Durability::Process).unwrap();
    let model: BTreeMap<K, V> = items.iter().cloned().collect();
    prop_assert_eq!(table.len(), model.len() as u64);

    let keys: Vec<K> = model.keys().cloned().collect();
    let values: Vec<Option<V>> = model.values().cloned().map(Some).collect();
    prop_assert_eq!(&table.get_many(&keys).unwrap(), &values);
    for (key, value) in &model {
        let found = table.get(key).unwrap();
        prop_assert_eq!(found.as_ref(), Some(value));
    }
    let mut scanned = BTreeMap::new();
    let mut twice = false;
    table.for_each(|key, value| twice |= scanned.insert(key, value).is_some()).unwrap();
    prop_assert!(!twice);
    prop_assert_eq!(&scanned, &model);

    let (key, value) = &items[0];
    let again = table.insert(key, value, Durability::Process).unwrap();
    prop_assert!(matches!(again, Inserted::Exists(_)));
    prop_assert!(table.update(key, value, Durability::Process).unwrap().is_some());
    prop_assert!(table.delete(key, Durability::Process).unwrap());
    prop_assert!(!table.delete(key, Durability::Process).unwrap());
    prop_assert_eq!(table.update(key, value, Durability::Process).unwrap(), None);
    prop_assert!(table.get(key).unwrap().is_none());
    prop_assert!(matches!(table.insert(key, value, Durability::Process).unwrap(), Inserted::New(_)));
    Ok(())
}

fn some<T: Debug>(one: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<T>> {
    proptest::collection::vec(one, 1..40)
}

/// A number that is equal to itself.
fn float() -> impl Strategy<Value = f32> {
    any::<f32>().prop_filter("not a number", |float| !float.is_nan())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 8, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn unsigned(a in some(any::<(u8, u16)>()), b in some(any::<(u16, u32)>()), c in some(any::<(u32, u64)>())) {
        round_trip(&a)?;
        round_trip(&b)?;
        round_trip(&c)?;
    }

    #[test]
    fn large(a in some(any::<(u64, u128)>()), b in some(any::<(u128, u8)>()), c in some(any::<(i128, i128)>())) {
        round_trip(&a)?;
        round_trip(&b)?;
        round_trip(&c)?;
    }

    #[test]
    fn signed(a in some(any::<(i8, i16)>()), b in some(any::<(i16, i32)>()), c in some(any::<(i32, i64)>()),
              d in some(any::<(i64, i8)>())) {
        round_trip(&a)?;
        round_trip(&b)?;
        round_trip(&c)?;
        round_trip(&d)?;
    }

    #[test]
    fn text_and_bytes(a in some(any::<(String, Vec<u8>)>()), b in some(any::<(Vec<u8>, String)>())) {
        round_trip(&a)?;
        round_trip(&b)?;
    }

    #[test]
    fn rows(a in some((any::<[u8; 20]>(), proptest::array::uniform32(float()))),
            b in some((any::<[u8; 1]>(), any::<[u64; 3]>())),
            c in some((any::<u64>(), (float(), any::<u32>()).prop_map(|(x, y)| Row([x.to_bits(), y]))))) {
        round_trip(&a)?;
        round_trip(&b)?;
        round_trip(&c)?;
    }
}

#[test]
fn the_ends_of_the_ranges_are_keys_like_others() {
    round_trip(&[(i64::MIN, i64::MAX), (i64::MAX, i64::MIN), (0, 0), (-1, 1)]).unwrap();
    round_trip(&[(u64::MAX, f64::MIN_POSITIVE), (0, -0.0)]).unwrap();
    round_trip(&[([0xff_u8; 128], [1.0_f32; 512])]).unwrap();
    round_trip(&[(String::new(), String::new())]).unwrap();
}

#[test]
fn other_types_than_the_tables_are_refused_and_both_are_shown() {
    let (_directory, store) = store();
    store.create_typed::<u64, [f32; 4]>("rows", 10).unwrap();
    let error = store.typed::<u32, [f32; 4]>("rows").unwrap_err();
    assert!(matches!(error, Error::OtherTypes { .. }), "{error:?}");
    let text = error.to_string();
    for part in ["'rows'", "u64 keys", "fixed:16 values", "fixed:4 keys"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(matches!(store.typed::<u64, String>("rows"), Err(Error::OtherTypes { .. })));
    assert!(matches!(store.typed::<u64, [f32; 5]>("rows"), Err(Error::OtherTypes { .. })));
    assert!(matches!(store.typed::<String, [f32; 4]>("rows"), Err(Error::OtherTypes { .. })));
    assert!(matches!(store.typed::<u64, u64>("none"), Err(Error::NoTable { .. })));
    // Types of the same bytes are one to a table.
    assert!(store.typed::<i64, [u8; 16]>("rows").is_ok());
    // A type that no table can have is refused at its creation.
    assert!(matches!(store.create_typed::<[u8; 129], u64>("long", 1), Err(Error::Core(_))));
    assert!(matches!(store.create_typed::<[u8; 0], u64>("short", 1), Err(Error::Core(_))));
    assert!(matches!(store.create_typed::<u64, [u8; 0]>("nothing", 1), Err(Error::Core(_))));
    assert_eq!(store.tables(), ["rows"]);
}

#[test]
fn tables_with_other_limits_take_text_up_to_them() {
    let (_directory, store) = store();
    let options = TableOptions::new(KeySpec::variable(8).unwrap(), ValueSpec::variable(4).unwrap());
    let table = store.create_table("t", options).unwrap().typed::<String, String>().unwrap();
    table.put("short", "four", Durability::Process).unwrap();
    let long = "a key that is too long".to_owned();
    assert!(matches!(table.put(&long, &String::new(), Durability::Process), Err(Error::Core(_))));
    assert!(matches!(table.get(&long), Err(Error::Core(_))));
    assert!(matches!(table.get_many(&[long]), Err(Error::Core(_))));
    let items = [("a".to_owned(), "b".to_owned()), ("c".to_owned(), "too long".to_owned())];
    assert!(matches!(table.put_many(&items, Durability::Process), Err(Error::Core(_))));
    assert_eq!(table.len(), 1, "a batch that is refused does nothing");
}

#[test]
fn bytes_that_are_no_text_are_an_error_and_not_lost() {
    let (_directory, store) = store();
    let bytes = store.create_typed::<Vec<u8>, Vec<u8>>("t", 10).unwrap();
    bytes.put(&b"key".to_vec(), &vec![0xff, 0xfe], Durability::Process).unwrap();
    let text = store.typed::<String, String>("t").unwrap();
    let error = text.get(&"key".to_owned()).unwrap_err();
    assert!(matches!(error, Error::Undecodable { what: "a value", .. }), "{error:?}");
    assert!(matches!(text.get_many(&["key".to_owned()]), Err(Error::Undecodable { .. })));
    assert!(matches!(text.for_each(|_, _| ()), Err(Error::Undecodable { .. })));
    assert_eq!(bytes.get(&b"key".to_vec()).unwrap(), Some(vec![0xff, 0xfe]));
}

#[test]
fn versions_numbers_and_merges_of_typed_tables() {
    let (_directory, store) = store();
    let options = TableOptions::typed::<String, u64>().unwrap().merge(MergeRule::AddU64);
    let counts = store.create_table("counts", options).unwrap().typed::<String, u64>().unwrap();
    assert_eq!(counts.fetch_add("a", 5, Durability::Process).unwrap(), 0);
    assert_eq!(counts.fetch_add("a", 1, Durability::Process).unwrap(), 5);
    counts.merge("a", &10, Durability::Process).unwrap();
    let (version, value) = counts.get_versioned("a").unwrap().expect("it is there");
    assert_eq!(value, 16);
    assert_eq!(counts.compare_and_swap("b", version, &1, Durability::Process).unwrap(), Swapped::Missing);
    let Swapped::Done(newer) = counts.compare_and_swap("a", version, &1, Durability::Process).unwrap() else {
        panic!("nothing came between")
    };
    let stale = counts.compare_and_swap("a", version, &2, Durability::Process).unwrap();
    assert_eq!(stale, Swapped::Stale(newer));
    assert_eq!(counts.get_versioned(&"a".to_owned()).unwrap(), Some((newer, 1)));

    let signed = store.create_typed::<u64, i64>("signed", 10).unwrap();
    assert_eq!(signed.fetch_add(&1, -5, Durability::Process).unwrap(), 0);
    assert_eq!(signed.fetch_add(&1, 3, Durability::Process).unwrap(), -5);
    assert_eq!(signed.get(&1).unwrap(), Some(-2));

    let items: Vec<(u64, i64)> = (0..10).map(|key| (key, 0)).collect();
    signed.put_many(&items, Durability::Process).unwrap();
    assert_eq!(signed.delete_many(&[2, 3, 99, 2], Durability::Process).unwrap(), 2);
    assert_eq!((signed.len(), signed.get(&3).unwrap()), (8, None));
    assert_eq!(signed.delete_many(&[], Durability::Process).unwrap(), 0);
}

#[test]
fn borrowed_keys_and_values() {
    let (_directory, store) = store();
    let words = store.create_typed::<String, String>("words", 10).unwrap();
    words.put("key", "value", Durability::Process).unwrap();
    assert_eq!(words.get("key").unwrap().as_deref(), Some("value"));
    assert!(matches!(words.insert("key", "other", Durability::Process).unwrap(), Inserted::Exists(_)));
    assert!(words.update("key", &"other".to_owned(), Durability::Process).unwrap().is_some());
    assert!(words.delete("key", Durability::Process).unwrap());
    let bytes = store.create_typed::<Vec<u8>, Vec<u8>>("bytes", 10).unwrap();
    bytes.put(&[1_u8, 2][..], &[3_u8][..], Durability::Process).unwrap();
    assert_eq!(bytes.get(&vec![1, 2]).unwrap(), Some(vec![3]));
}

#[test]
fn a_table_is_opened_or_created() {
    let (_directory, store) = store();
    let options = TableOptions::new(KeySpec::U64, ValueSpec::U64).merge(MergeRule::AddU64);
    store.table_or_create("t", options).unwrap().put(1, 2, Durability::Process).unwrap();
    let again = store.table_or_create("t", options.capacity(99)).unwrap();
    assert_eq!(again.len(), 1);
    let other = TableOptions { value: ValueSpec::fixed(4).unwrap(), ..options }.merge(MergeRule::None);
    assert!(matches!(store.table_or_create("t", other), Err(Error::OtherTypes { .. })));
    let other = store.table_or_create("t", options.merge(MergeRule::MaxU64)).unwrap_err().to_string();
    assert!(other.contains("add-u64") && other.contains("max-u64"), "{other}");
    assert_eq!(store.typed_or_create::<u64, u64>("t", 5).unwrap().get(&1).unwrap(), Some(2));
    assert!(matches!(store.typed_or_create::<u64, u32>("t", 5), Err(Error::OtherTypes { .. })));
    assert!(store.typed_or_create::<u64, u32>("u", 5).unwrap().is_empty());
}
