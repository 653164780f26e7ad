//! A store of tables against plain maps: batches, both durability levels, reopenings, lost images.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use warpkeep::engine::{Change, ChangeKind, Items, Tables};
use warpkeep::{
    Durability, Error, IndexKind, IndexOptions, Inserted, KeySpec, Op, Origin, Status, Store, StoreOptions,
    Swapped, Table, TableOptions, ValueSpec,
};
use warpkeep_image::{Coherent, CreateOptions, HeapOptions, MIN_CHUNK};
use warpkeep_log::LogOptions;

/// Where a small store lies.
struct Home {
    directory: tempfile::TempDir,
}

impl Home {
    fn new() -> Home {
        Home { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn image(&self) -> PathBuf {
        self.path().join("image")
    }

    fn open(&self) -> Store {
        let create = CreateOptions { len: 8 * MIN_CHUNK, chunk_size: MIN_CHUNK, ..CreateOptions::default() };
        let log = LogOptions { segment_bytes: 256 << 10, ..LogOptions::default() };
        let heap = HeapOptions { max_bytes: 64 << 20, ..HeapOptions::default() };
        Store::open_with(
            self.path(),
            StoreOptions { create, heap, log, abandon_image: true, ..StoreOptions::default() },
        )
        .unwrap()
    }
}

#[derive(Clone, Debug)]
struct Step {
    op: Op,
    key: u64,
    argument: u64,
}

#[derive(Clone, Debug)]
enum Act {
    Batch(Vec<Step>, Durability),
    Checkpoint,
    Close,
    Drop,
    LoseImage,
}

fn act() -> impl Strategy<Value = Act> {
    let op = prop_oneof![
        Just(Op::Get),
        Just(Op::Put),
        Just(Op::Insert),
        Just(Op::Update),
        Just(Op::Delete),
        Just(Op::CompareAndSwap),
        Just(Op::FetchAdd)
    ];
    let step = (op, 0..200_u64, any::<u64>()).prop_map(|(op, key, argument)| Step { op, key, argument });
    let durability = prop_oneof![4 => Just(Durability::Process), 1 => Just(Durability::Power)];
    prop_oneof![
        30 => (proptest::collection::vec(step, 1..150), durability).prop_map(|(steps, how)| Act::Batch(steps, how)),
        2 => Just(Act::Checkpoint),
        2 => Just(Act::Close),
        2 => Just(Act::Drop),
        2 => Just(Act::LoseImage),
    ]
}

/// Key, to version and value.
type Model = BTreeMap<u64, (u64, u64)>;

/// The expected answer of an operation, and its effect on the model; versions are taken from the answer.
fn expect(model: &mut Model, step: &Step, argument: u64, version: u64) -> (Status, Option<u64>) {
    let there = model.get(&step.key).copied();
    let value = step.argument ^ 0x55;
    match (step.op, there) {
        (Op::Get, Some((_, value))) => (Status::Ok, Some(value)),
        (Op::Get | Op::Update | Op::Delete | Op::CompareAndSwap, None) => (Status::NotFound, None),
        (Op::Insert, Some(_)) => (Status::AlreadyExists, None),
        (Op::CompareAndSwap, Some((current, _))) if current != argument => (Status::VersionMismatch, None),
        (Op::Delete, Some(_)) => {
            model.remove(&step.key);
            (Status::Ok, None)
        }
        (Op::FetchAdd, there) => {
            let before = there.map_or(0, |(_, value)| value);
            model.insert(step.key, (version, before.wrapping_add(argument)));
            (if there.is_some() { Status::Ok } else { Status::Created }, Some(before))
        }
        (_, there) => {
            model.insert(step.key, (version, value));
            (if there.is_some() { Status::Ok } else { Status::Created }, None)
        }
    }
}

fn assert_holds(store: &Store, model: &Model) {
    let table = store.table("numbers").unwrap();
    assert_eq!(table.len(), model.len() as u64);
    for key in 0..200 {
        let expected = model.get(&key).map(|(_, value)| value.to_le_bytes().to_vec());
        assert_eq!(table.get(key).unwrap(), expected, "key {key}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24, rng_seed: RngSeed::Fixed(0x5EED), failure_persistence: None, ..ProptestConfig::default()
    })]
    #[test]
    fn agrees_with_a_plain_map(acts in proptest::collection::vec(act(), 10..40), turbohash: bool) {
        let home = Home::new();
        let mut store = home.open();
        let index = IndexKind::ALL[usize::from(turbohash)];
        let options = TableOptions::new(KeySpec::U64, ValueSpec::fixed(8).unwrap()).capacity(10).index(index);
        store.create_table("numbers", options).unwrap();
        let mut model = Model::new();
        for act in acts {
            match act {
                Act::Batch(steps, durability) => {
                    let table = store.table("numbers").unwrap();
                    let mut batch = table.batch();
                    let mut arguments = Vec::new();
                    for step in &steps {
                        // Half of the swaps expect the current version.
                        let current = model.get(&step.key).map_or(0, |(version, _)| *version);
                        let argument = if step.op == Op::CompareAndSwap && step.argument % 2 == 0 {
                            current
                        } else {
                            step.argument
                        };
                        arguments.push(argument);
                        let value = (step.argument ^ 0x55).to_le_bytes();
                        let value = if step.op.takes_value() { &value[..] } else { &[] };
                        let argument = if step.op.takes_argument() { argument } else { 0 };
                        batch.push(step.op, &step.key.to_le_bytes(), value, argument).unwrap();
                    }
                    let results = table.run(&batch, durability).unwrap();
                    for (index, step) in steps.iter().enumerate() {
                        let (status, value) = expect(&mut model, step, arguments[index], results.versions()[index]);
                        prop_assert_eq!(results.statuses()[index], status, "{:?}", step);
                        prop_assert_eq!(results.number(index), value, "{:?}", step);
                    }
                }
                Act::Checkpoint => store.checkpoint().unwrap(),
                Act::Close => {
                    store.close().unwrap();
                    store = home.open();
                    prop_assert_eq!(store.report().origin, Origin::Clean);
                }
                Act::Drop => {
                    drop(store);
                    store = home.open();
                    prop_assert_eq!(store.report().origin, Origin::Reattached);
                }
                Act::LoseImage => {
                    store.flush().unwrap();
                    drop(store);
                    std::fs::remove_file(home.image()).unwrap();
                    store = home.open();
                    prop_assert_eq!(store.report().origin, Origin::Rebuilt);
                }
            }
            assert_holds(&store, &model);
        }
    }
}

#[test]
fn tables_are_created_listed_dropped_and_come_back() {
    let home = Home::new();
    let store = home.open();
    let words = TableOptions::new(KeySpec::variable(100).unwrap(), ValueSpec::variable(5000).unwrap());
    store.create_table("words", words).unwrap();
    store.create_table("more", words).unwrap();
    assert!(matches!(store.create_table("more", words).map(|_| ()), Err(Error::TableExists { .. })));
    assert!(matches!(store.create_table("", words).map(|_| ()), Err(Error::Invalid(_))));
    assert!(matches!(store.table("none").map(|_| ()), Err(Error::NoTable { .. })));
    store.table("words").unwrap().put("one", "eins", Durability::Process).unwrap();
    store.table("more").unwrap().put("one", "uno", Durability::Power).unwrap();
    let before = store.usage().used_bytes();
    store.drop_table("words").unwrap();
    assert!(matches!(store.drop_table("words"), Err(Error::NoTable { .. })));
    store.create_table("words", words).unwrap();
    assert_eq!(store.table("words").unwrap().get("one").unwrap(), None, "another table of the same name");
    assert!(store.usage().used_bytes() <= before + 4096);
    drop(store);

    let check = |store: &Store| {
        assert_eq!(store.tables(), ["more", "words"]);
        assert_eq!(store.table("more").unwrap().get("one").unwrap(), Some(b"uno".to_vec()));
        assert!(store.table("words").unwrap().is_empty());
    };
    let store = home.open();
    check(&store);
    drop(store);
    std::fs::remove_file(home.image()).unwrap();
    let store = home.open();
    check(&store);
    store.checkpoint().unwrap();
    drop(store);
    std::fs::remove_file(home.image()).unwrap();
    check(&home.open());
}

#[test]
fn what_does_not_fit_a_table_is_refused() {
    let home = Home::new();
    let store = home.open();
    let table =
        store.create_table("t", TableOptions::new(KeySpec::U64, ValueSpec::fixed(16).unwrap())).unwrap();
    assert!(matches!(table.put("short", &[0; 16], Durability::Process), Err(Error::Core(_))));
    assert!(matches!(table.put(1, &[0; 15], Durability::Process), Err(Error::Core(_))));
    assert!(matches!(table.get("short"), Err(Error::Core(_))));
    let other = warpkeep::Batch::new(KeySpec::U64, ValueSpec::fixed(8).unwrap());
    assert!(matches!(table.run(&other, Durability::Process).map(|_| ()), Err(Error::Core(_))));
    assert!(matches!(
        table.batch().fetch_add(1, 1).map(|_| ()),
        Err(warpkeep_core::CoreError::Operation { .. })
    ));
    assert!(table.is_empty());
    // With variable lengths, it depends on the stored value.
    let values = ValueSpec::variable(100).unwrap();
    let table = store.create_table("v", TableOptions::new(KeySpec::U64, values)).unwrap();
    table.put(1, "not a number", Durability::Process).unwrap();
    let mut batch = table.batch();
    if batch.fetch_add(1, 1).is_ok() {
        let results = table.run(&batch, Durability::Power).unwrap();
        assert_eq!(results.statuses(), [Status::WrongType]);
    }
    assert_eq!(table.get(1).unwrap(), Some(b"not a number".to_vec()));
}

#[test]
fn threads_write_while_tables_grow_and_checkpoints_run() {
    let home = Home::new();
    let store = home.open();
    store
        .create_table("t", TableOptions::new(KeySpec::U64, ValueSpec::fixed(8).unwrap()).capacity(10))
        .unwrap();
    let (threads, keys) = (4_u64, 2000_u64);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let table = store.table("t").unwrap();
            scope.spawn(move || {
                for key in (0..keys).map(|key| key * threads + thread) {
                    let durability = if key % 500 == 0 { Durability::Power } else { Durability::Process };
                    table.put(key, key * 3, durability).unwrap();
                    assert_eq!(table.get(key).unwrap(), Some((key * 3).to_le_bytes().to_vec()));
                }
            });
        }
        for _ in 0..3 {
            store.checkpoint().unwrap();
        }
    });
    let check = |store: &Store| {
        let table = store.table("t").unwrap();
        assert_eq!(table.len(), threads * keys);
        assert!(
            (0..threads * keys).all(|key| table.get(key).unwrap() == Some((key * 3).to_le_bytes().to_vec()))
        );
    };
    check(&store);
    store.flush().unwrap();
    drop(store);
    check(&home.open());
    std::fs::remove_file(home.image()).unwrap();
    let store = home.open();
    check(&store);
    store.close().unwrap();
}

#[test]
fn single_keys_are_answered_in_words() {
    let home = Home::new();
    let store = home.open();
    let numbers = TableOptions::new(KeySpec::U64, ValueSpec::U64);
    let table = store.create_table("t", numbers).unwrap();
    for durability in [Durability::Process, Durability::Power] {
        let Inserted::New(first) = table.insert(1, 10, durability).unwrap() else { panic!("it is new") };
        assert_eq!(table.insert(1, 11, durability).unwrap(), Inserted::Exists(first));
        assert_eq!(table.get_versioned(1).unwrap(), Some((first, 10_u64.to_le_bytes().to_vec())));
        let second = table.update(1, 12, durability).unwrap().unwrap();
        assert!(second > first);
        assert_eq!(table.update(2, 12, durability).unwrap(), None);
        assert_eq!(table.compare_and_swap(1, first, 13, durability).unwrap(), Swapped::Stale(second));
        assert_eq!(table.compare_and_swap(2, first, 13, durability).unwrap(), Swapped::Missing);
        let swapped = table.compare_and_swap(1, second, 14, durability).unwrap();
        assert!(matches!(swapped, Swapped::Done(version) if version > second));
        assert_eq!(table.fetch_add(1, 5, durability).unwrap(), 14);
        assert_eq!(table.fetch_add(1, 5_u64.wrapping_neg(), durability).unwrap(), 19);
        assert_eq!(table.fetch_add(3, 7, durability).unwrap(), 0);
        assert!(table.delete(1, durability).unwrap() && !table.delete(1, durability).unwrap());
        assert_eq!(table.get_versioned(1).unwrap(), None);
        assert!(table.delete(3, durability).unwrap());
    }
    assert_eq!((table.id(), table.key_spec(), table.value_spec()), (1, KeySpec::U64, ValueSpec::U64));
    // An error of a single key does not speak of a batch.
    let error = table.put(1, "odd", Durability::Process).unwrap_err().to_string();
    assert!(error.starts_with("value of 3 bytes"), "{error}");
}

#[test]
fn scans_give_every_item_once_and_stop_when_told() {
    let home = Home::new();
    let store = home.open();
    let options = TableOptions::new(KeySpec::U64, ValueSpec::U64).capacity(2000);
    let table = store.create_table("t", options).unwrap();
    for key in 0..1000 {
        table.put(key, key + 1, Durability::Process).unwrap();
    }
    let mut seen = BTreeMap::new();
    table
        .scan(|item| {
            let key = u64::from_le_bytes(item.key.try_into().unwrap());
            assert_eq!(item.value, (key + 1).to_le_bytes());
            assert_eq!(seen.insert(key, item.version), None, "key {key} once");
            // Reading and writing from within is allowed.
            assert_eq!(table.get_versioned(key).unwrap().unwrap().0, item.version);
            table.put(key, key + 1, Durability::Process).unwrap();
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(seen.len(), 1000);
    let mut count = 0;
    let stop = |_: warpkeep::Item<'_>| {
        count += 1;
        if count == 10 { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
    };
    table.scan(stop).unwrap();
    assert_eq!(count, 10);
}

/// All keys of a table of numbers, in order, as often as a scan gives them.
fn scanned_keys(table: &Table) -> Vec<u64> {
    let mut keys = Vec::new();
    let each = |item: warpkeep::Item<'_>| {
        keys.push(u64::from_le_bytes(item.key.try_into().unwrap()));
        std::ops::ControlFlow::Continue(())
    };
    table.scan(each).unwrap();
    keys.sort_unstable();
    keys
}

#[test]
fn after_its_growth_a_table_that_nobody_writes_to_gives_every_item_once() {
    for index in IndexKind::ALL {
        let home = Home::new();
        let store = home.open();
        // The thread in the background sees to them, too, so each round is another race with it.
        for round in 0..20_u64 {
            let name = format!("t{round}");
            let options = TableOptions::new(KeySpec::U64, ValueSpec::U64).capacity(10).index(index);
            let table = store.create_table(&name, options).unwrap();
            let count = 700 + 31 * round;
            for key in 0..count {
                table.put(key, key, Durability::Process).unwrap();
            }
            while table.maintain().unwrap() {}
            assert!(!table.stats().unwrap().is_growing());
            assert!(scanned_keys(&table).into_iter().eq(0..count), "round {round} of {index}");
            store.drop_table(&name).unwrap();
            assert!(matches!(table.maintain(), Err(Error::NoTable { .. })));
        }
    }
}

/// A shard whose growth the background thread has begun no longer waits for maintenance, although the growth is not
/// done yet.
#[test]
fn who_sees_to_the_growth_of_a_shard_waits_for_whoever_is_at_it() {
    let home = Home::new();
    let store = home.open();
    let options = TableOptions::new(KeySpec::U64, ValueSpec::U64).capacity(10);
    let options = options.index(IndexOptions::turbohash(1));
    let table = store.create_table("t", options).unwrap();
    let mut grown = 0;
    for key in 0..12_000_u64 {
        table.put(key, key, Durability::Process).unwrap();
        if !table.stats().unwrap().is_growing() {
            continue;
        }
        while table.stats().unwrap().is_growing() {
            std::hint::spin_loop();
        }
        while table.maintain().unwrap() {}
        grown += 1;
        assert!(scanned_keys(&table).into_iter().eq(0..=key), "of {} items", key + 1);
    }
    assert!(grown > 0, "no growth was seen");
}

#[test]
fn a_table_grows_when_asked() {
    let home = Home::new();
    let store = home.open();
    let table =
        store.create_table("t", TableOptions::new(KeySpec::U64, ValueSpec::U64).capacity(100)).unwrap();
    for key in 0..80 {
        table.put(key, key, Durability::Process).unwrap();
    }
    let slots = |stats: warpkeep::TableStats| stats.slots();
    let before = slots(table.stats().unwrap());
    table.grow().unwrap();
    assert_eq!(slots(table.stats().unwrap()), 2 * before);
    assert!((0..80).all(|key| table.get(key).unwrap() == Some(key.to_le_bytes().to_vec())));
}

#[test]
fn a_table_that_was_dropped_takes_nothing_and_does_not_trouble_a_rebuild() {
    let home = Home::new();
    let store = home.open();
    let options = TableOptions::new(KeySpec::U64, ValueSpec::U64);
    store.create_table("kept", options).unwrap().put(1, 1, Durability::Process).unwrap();
    let table = store.create_table("gone", options).unwrap();
    table.put(1, 1, Durability::Process).unwrap();
    store.drop_table("gone").unwrap();
    store.create_table("gone", options).unwrap();
    for result in [
        table.put(1, 1, Durability::Process).map(|_| ()),
        table.get(1).map(|_| ()),
        table.scan(|_| std::ops::ControlFlow::Continue(())),
        table.grow(),
    ] {
        assert!(matches!(result, Err(Error::NoTable { .. })), "{result:?}");
    }
    assert!(store.table("gone").unwrap().is_empty());
}

/// All changes that an index gives out.
fn scanned(items: &Tables<Coherent>) -> Vec<(u32, u64, Vec<u8>, Vec<u8>)> {
    let mut changes = Vec::new();
    let each = &mut |change: &Change<'_>| {
        changes.push((change.table, change.version, change.key.to_vec(), change.value.to_vec()));
        Ok(())
    };
    items.scan(each).unwrap();
    changes
}

/// An index of tables in an image of its own, without a log.
fn index(directory: &Path) -> warpkeep::engine::Keeper<Coherent, Tables<Coherent>> {
    let mut place = warpkeep::engine::ImageFile::new(directory.join("bare"), Coherent);
    place.create = CreateOptions { len: 8 * MIN_CHUNK, chunk_size: MIN_CHUNK, ..CreateOptions::default() };
    let heap = HeapOptions { max_bytes: 64 << 20, ..HeapOptions::default() };
    warpkeep::engine::open(&place, None, heap, &()).unwrap().0
}

#[test]
fn a_checkpoint_that_saw_a_table_made_anew_outlives_the_drop_of_the_old_one() {
    let home = Home::new();
    let store = home.open();
    let options = TableOptions::new(KeySpec::U64, ValueSpec::U64);
    store.create_table("x", options).unwrap();
    store.drop_table("x").unwrap();
    store.create_table("x", options).unwrap().put(1, 1, Durability::Process).unwrap();
    store.checkpoint().unwrap();
    store.close().unwrap();
    // The contents of the checkpoint are redone, then a log that begins just before the drop: as if the checkpoint
    // had begun before it and scanned after it.
    let disk = warpkeep_log::OsDisk::open(home.path().join("log")).unwrap();
    let recovery = warpkeep_log::Recovery::open(std::sync::Arc::new(disk), LogOptions::default()).unwrap();
    let keeper = index(home.path());
    let mut created = 0;
    recovery
        .load_checkpoint(|change| {
            created = if change.table == 0 { change.version } else { created };
            keeper.items().redo(&change)
        })
        .unwrap();
    assert!(created > 2, "the catalogue's entry has the version of the creation");
    let drop_of = |version| Change { table: 0, kind: ChangeKind::Delete, version, key: b"x", value: &[] };
    keeper.items().redo(&drop_of(created - 1)).unwrap();
    assert_eq!(scanned(keeper.items()).len(), 2, "the table and its item");
    keeper.items().redo(&drop_of(created + 1)).unwrap();
    assert_eq!(scanned(keeper.items()).len(), 0);
}

#[test]
fn late_changes_of_a_table_that_no_checkpoint_knows_are_passed_over() {
    let home = Home::new();
    let keeper = index(home.path());
    let late = Change { table: 7, kind: ChangeKind::Put, version: 9, key: &[0; 8], value: &[0; 8] };
    keeper.items().redo(&late).unwrap();
    assert_eq!(scanned(keeper.items()), []);
}
