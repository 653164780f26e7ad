//! Attributes of tables: they are there after everything that items are there after.

use std::path::Path;

use warpkeep::{
    Durability, Error, KeySpec, PeekSource, Store, StoreOptions, TableOptions, ValueSpec, peek, restore,
    verify,
};

fn options() -> TableOptions {
    TableOptions::new(KeySpec::U64, ValueSpec::U64)
}

/// A store with two tables, one of which has attributes.
fn make(home: &Path) -> Result<Store, Error> {
    let store = Store::open(home)?;
    let rows = store.create_table("rows", options())?;
    rows.set_attribute("elements", Some("<u8"))?;
    rows.set_attribute("gone", Some("soon"))?;
    rows.put(1, 2, Durability::Power)?;
    rows.set_attribute("gone", None)?;
    rows.set_attribute("empty", Some(""))?;
    drop(rows);
    store.create_table("plain", options())?;
    Ok(store)
}

fn check(store: &Store) {
    let rows = store.table("rows").expect("the table");
    let found: Vec<_> = rows.attributes().into_iter().collect();
    let expected =
        [("elements", "<u8"), ("empty", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(found, expected);
    assert_eq!(rows.attribute("elements").as_deref(), Some("<u8"));
    assert_eq!(rows.attribute("gone"), None);
    assert!(store.table("plain").expect("the table").attributes().is_empty());
    assert_eq!(rows.get(1).expect("a key"), Some(2_u64.to_le_bytes().to_vec()));
}

#[test]
fn attributes_survive_a_close_a_crash_and_the_loss_of_the_image() {
    for checkpoint in [false, true] {
        let home = tempfile::tempdir().expect("a directory");
        let open = || Store::open(home.path()).expect("opened");
        let store = make(home.path()).expect("made");
        if checkpoint {
            store.checkpoint().expect("a checkpoint");
        }
        check(&store);
        drop(store);
        check(&open());
        open().close().expect("closed");
        check(&open());
        open().close().expect("closed");
        std::fs::remove_file(home.path().join("image")).expect("removed");
        let from_log = peek(home.path(), &StoreOptions::default()).expect("a look");
        assert_eq!(from_log.source, PeekSource::Log);
        check(&open());
        open().close().expect("closed");
        let from_image = peek(home.path(), &StoreOptions::default()).expect("a look");
        assert_eq!(from_image.source, PeekSource::Image);
        assert_eq!(from_log.tables, from_image.tables);
        assert_eq!(from_image.tables[1].attributes.get("elements").map(String::as_str), Some("<u8"));
        assert!(verify(home.path(), &StoreOptions::default()).expect("checked").sound);
    }
}

#[test]
fn a_backup_has_the_attributes() {
    let home = tempfile::tempdir().expect("a directory");
    let (backup, anew) = (home.path().join("backup"), home.path().join("anew"));
    let store = make(&home.path().join("store")).expect("made");
    store.backup(&backup, &mut |_, _| ()).expect("backed up");
    restore(&backup, &anew, StoreOptions::default(), &mut |_, _| ()).expect("restored");
    check(&Store::open(&anew).expect("opened"));
}

/// Another table of the same name has other attributes, also where the log still holds those of the first.
#[test]
fn attributes_go_with_their_table() {
    let home = tempfile::tempdir().expect("a directory");
    let store = make(home.path()).expect("made");
    let old = store.table("rows").expect("the table");
    store.drop_table("rows").expect("dropped");
    assert!(matches!(old.set_attribute("late", Some("x")), Err(Error::NoTable { .. })));
    drop(old);
    let anew = store.create_table("rows", options()).expect("created");
    assert!(anew.attributes().is_empty());
    anew.set_attribute("unit", Some("metres")).expect("set");
    drop(anew);
    store.close().expect("closed");
    for lost in [false, true] {
        if lost {
            std::fs::remove_file(home.path().join("image")).expect("removed");
        }
        let store = Store::open(home.path()).expect("opened");
        let found = store.table("rows").expect("the table").attributes();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("unit".to_owned(), "metres".to_owned())]);
        store.close().expect("closed");
    }
}

#[test]
fn a_store_without_a_log_has_attributes_too() {
    let home = tempfile::tempdir().expect("a directory");
    let without = || StoreOptions { without_log: true, ..StoreOptions::default() };
    let store = Store::open_with(home.path(), without()).expect("opened");
    store
        .create_table("rows", options())
        .expect("created")
        .set_attribute("unit", Some("metres"))
        .expect("set");
    store.close().expect("closed");
    let store = Store::open_with(home.path(), without()).expect("opened");
    let rows = store.table("rows").expect("the table");
    assert_eq!(rows.attribute("unit").as_deref(), Some("metres"));
    assert!(
        rows.set_attribute("long", Some(&"x".repeat(1 << 17)))
            .is_err_and(|error| error.to_string().contains("shorter"))
    );
    assert!(rows.set_attribute("", Some("x")).is_err());
    assert_eq!(rows.attributes().len(), 1, "what was refused is not there");
}
