//! A store that may be read but not written.

use std::os::unix::fs::PermissionsExt;

use warpkeep::{Durability, Error, Origin, StoreOptions, peek, verify};
use warpkeep_image::{Access, Coherent, Image, ImageError, MIN_CHUNK};
use warpkeep_log::LogError;

use crate::common::{Home, Model, Mounted, assert_holds, assert_remedy, content, say};

fn filled(home: &Home) -> Model {
    let (store, _) = home.open().expect("a new store");
    store.put(1, b"one", Durability::Power).expect("there is room");
    let model = content(&store);
    store.close().expect("closed");
    model
}

/// Opening reports the problem, in both halves of the store, and reading still works.
fn assert_read_only(home: &Home) {
    let error = home.refuses();
    assert!(matches!(error, Error::Log(LogError::NotWritable { .. })), "{error}");
    assert_remedy(&error, &["Make the log directory writable"]);
    let error = home.refuses_without_log();
    match &error {
        Error::Image(ImageError::Io { source, .. }) => {
            let kinds = [std::io::ErrorKind::ReadOnlyFilesystem, std::io::ErrorKind::PermissionDenied];
            assert!(kinds.contains(&source.kind()), "{error}");
            assert_remedy(&error, &["image: cannot open it"]);
        }
        other => panic!("{other:?}"),
    }
    let looked = Image::open(&home.image, Coherent, Access::ReadOnly, &home.place().open);
    assert!(looked.is_ok(), "reading is allowed: {:?}", looked.err());
}

#[test]
fn a_read_only_file_system() {
    let Some(mounted) = Mounted::tmpfs(8 << 20, "a store on a read-only file system") else { return };
    let home = Home::at(mounted.path());
    let model = filled(&home);
    mounted.set_read_only(true);
    assert_read_only(&home);
    // Nor can one be made there.
    let new = Home { image: mounted.path().join("new"), ..Home::at(mounted.path()) };
    assert!(matches!(new.refuses_without_log(), Error::Image(ImageError::Io { .. })));
    let new = Home { log: mounted.path().join("new"), ..Home::at(mounted.path()) };
    assert!(matches!(new.refuses(), Error::Log(LogError::NotWritable { .. })));
    mounted.set_read_only(false);
    let (store, _) = home.open().expect("writable again");
    assert_holds(&store, &model, "writable again");
}

#[test]
fn files_without_permission_to_write() {
    if rustix::process::geteuid().is_root() {
        say("SKIPPED: a store without permission to write: permissions do not bind this user");
        return;
    }
    let home = Home::on_disk();
    let model = filled(&home);
    let set = |mode: u32, mode_of_files: u32| {
        let entries = std::fs::read_dir(&home.log).expect("a directory");
        let files = entries.map(|entry| entry.expect("an entry").path()).chain([home.image.clone()]);
        for path in files {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode_of_files)).expect("ours");
        }
        std::fs::set_permissions(&home.log, PermissionsExt::from_mode(mode)).expect("ours");
    };
    set(0o555, 0o444);
    assert_read_only(&home);
    set(0o755, 0o644);
    let (store, _) = home.open().expect("writable again");
    assert_holds(&store, &model, "writable again");
}

/// A read-only store can be read, also if the last holder did not close it, and after its image was lost.
#[test]
fn a_store_on_a_read_only_file_system_is_read() {
    let Some(mounted) = Mounted::tmpfs(24 << 20, "a store that is read on a read-only file system") else {
        return;
    };
    let mut options = StoreOptions { abandon_image: true, ..StoreOptions::default() };
    (options.create.len, options.create.chunk_size) = (8 * MIN_CHUNK, MIN_CHUNK);
    options.log.segment_bytes = 64 << 10;
    let directory = mounted.path().join("store");
    let open = || warpkeep::Store::open_with(&directory, options.clone());
    let store = open().expect("a new store");
    let table = store.create_typed::<u64, u64>("t", 100).expect("room");
    for key in 0..100 {
        table.put(&key, &(key * 2), Durability::Power).expect("room");
    }
    drop(table);
    drop(store);
    for origin in [Origin::Reattached, Origin::Clean, Origin::Rebuilt] {
        match origin {
            Origin::Clean => open().expect("writable").close().expect("closed"),
            Origin::Rebuilt => std::fs::remove_file(directory.join("image")).expect("removed"),
            _ => {}
        }
        mounted.set_read_only(true);
        assert!(open().is_err(), "it cannot be written to");
        let store = warpkeep::Store::open_read_only(&directory, options.clone()).expect("it can be read");
        assert_eq!(store.report().origin, origin);
        let table = store.typed::<u64, u64>("t").expect("it is there");
        assert!((0..100).all(|key| table.get(&key).expect("an answer") == Some(key * 2)));
        assert!(matches!(table.put(&1, &1, Durability::Process), Err(Error::ReadOnly)));
        let backups = tempfile::tempdir().expect("a directory");
        let made = store.backup(&backups.path().join("backup"), &mut |_, _| ()).expect("a backup elsewhere");
        assert_eq!(made.items, 100);
        assert_eq!(peek(&directory, &options).expect("a look").tables[0].items, 100);
        assert!(verify(&directory, &options).expect("a check").sound);
        drop(table);
        drop(store);
        mounted.set_read_only(false);
    }
}
