//! Backups: made during writes, interrupted, damaged, restored.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use warpkeep::{
    Durability, Error, IndexKind, KeySpec, Origin, Store, StoreOptions, TableOptions, ValueSpec,
    engine::{Change, ChangeKind},
    restore,
};
use warpkeep_image::{CreateOptions, HeapOptions, MIN_CHUNK};
use warpkeep_log::{ChangeBatch, Log, LogError, LogOptions, OsDisk, Recovery};

struct Home {
    directory: tempfile::TempDir,
}

impl Home {
    fn new() -> Home {
        Home { directory: tempfile::tempdir().unwrap() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn open(&self) -> Store {
        Store::open_with(self.at("store"), options()).unwrap()
    }
}

fn options() -> StoreOptions {
    let create = CreateOptions { len: 8 * MIN_CHUNK, chunk_size: MIN_CHUNK, ..CreateOptions::default() };
    let log = LogOptions { segment_bytes: 64 << 10, ..LogOptions::default() };
    let heap = HeapOptions { max_bytes: 64 << 20, ..HeapOptions::default() };
    StoreOptions { create, heap, log, ..StoreOptions::default() }
}

fn numbers(store: &Store) {
    numbers_in(store, IndexKind::GpHash);
}

fn numbers_in(store: &Store, index: IndexKind) {
    let options = TableOptions::new(KeySpec::U64, ValueSpec::U64).capacity(100).index(index);
    store.create_table("numbers", options).unwrap();
}

fn backup(store: &Store, to: &Path) -> warpkeep::Result<warpkeep::BackupReport> {
    store.backup(to, &mut |_, _| ())
}

fn contents(store: &Store) -> BTreeMap<Vec<u8>, (u64, Vec<u8>)> {
    let mut items = BTreeMap::new();
    let each = |item: warpkeep::Item<'_>| {
        items.insert(item.key.to_vec(), (item.version, item.value.to_vec()));
        std::ops::ControlFlow::Continue(())
    };
    store.table("numbers").unwrap().scan(each).unwrap();
    items
}

#[test]
fn what_was_acknowledged_before_is_in_a_backup_made_while_others_write() {
    IndexKind::ALL
        .into_iter()
        .for_each(what_was_acknowledged_before_is_in_a_backup_made_while_others_write_with);
}

fn what_was_acknowledged_before_is_in_a_backup_made_while_others_write_with(index: IndexKind) {
    let home = Home::new();
    let store = home.open();
    numbers_in(&store, index);
    let stop = AtomicBool::new(false);
    // Each writer counts its own key up and publishes its progress.
    let reached: [AtomicU64; 3] = std::array::from_fn(|_| AtomicU64::new(0));
    std::thread::scope(|scope| {
        for (writer, reached) in reached.iter().enumerate() {
            let (store, stop) = (&store, &stop);
            scope.spawn(move || {
                let table = store.table("numbers").unwrap();
                for count in 1.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let durability = if count % 50 == 0 { Durability::Power } else { Durability::Process };
                    let mut batch = table.batch();
                    batch.put(writer as u64, count).unwrap();
                    batch.put(1000 + 3 * count + writer as u64, count).unwrap();
                    assert_eq!(table.run(&batch, durability).unwrap().first_error(), None);
                    reached.store(count, Ordering::Release);
                    // The test is about the backup, not about how much a disk can take.
                    std::thread::sleep(std::time::Duration::from_micros(100));
                }
            });
        }
        for round in 0..3 {
            while reached.iter().any(|reached| reached.load(Ordering::Acquire) < 300 * (round + 1)) {
                std::thread::yield_now();
            }
            let before = [0, 1, 2].map(|writer| reached[writer].load(Ordering::Acquire));
            let (mut last, mut calls) = ((0, 0), 0);
            let to = home.at(&format!("backup-{round}"));
            let report = store
                .backup(&to, &mut |done, of| {
                    assert!(done <= of && done >= last.0, "{done} of {of} after {last:?}");
                    (last, calls) = ((done, of), calls + 1);
                })
                .unwrap();
            assert!(calls > 1 && last.0 == last.1 && report.bytes == last.1, "{last:?} {report:?}");
            assert_eq!(report.tables, 1);

            let anew = home.at(&format!("anew-{round}"));
            let restored = restore(&to, &anew, options(), &mut |_, _| ()).unwrap();
            assert_eq!((restored.items, restored.bytes), (report.items, report.bytes));
            let copy = Store::open_with(&anew, options()).unwrap();
            assert_eq!(copy.report().origin, Origin::Clean);
            let table = copy.table("numbers").unwrap();
            assert_eq!(table.len(), report.items);
            for (writer, &before) in (0_u64..).zip(&before) {
                let count = table.get(writer).unwrap().unwrap();
                let count = u64::from_le_bytes(count.try_into().unwrap());
                assert!(count >= before, "writer {writer}: {count} of at least {before}");
                for earlier in 1..=before {
                    let found = table.get(1000 + 3 * earlier + writer).unwrap();
                    assert_eq!(found, Some(earlier.to_le_bytes().to_vec()));
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    store.close().unwrap();
}

#[test]
fn a_store_at_rest_comes_back_as_it_was_and_goes_on() {
    IndexKind::ALL.into_iter().for_each(a_store_at_rest_comes_back_as_it_was_and_goes_on_with);
}

fn a_store_at_rest_comes_back_as_it_was_and_goes_on_with(index: IndexKind) {
    let home = Home::new();
    // The log is written only by threads that wait for it, so that its end is missing something.
    let log = LogOptions { background: false, ..options().log };
    let store = Store::open_with(home.at("store"), StoreOptions { log, ..options() }).unwrap();
    numbers_in(&store, index);
    store.create_table("gone", TableOptions::new(KeySpec::U64, ValueSpec::U64)).unwrap();
    let words = TableOptions::new(KeySpec::variable(20).unwrap(), ValueSpec::variable(100).unwrap());
    store.create_table("words", words).unwrap().put("one", "eins", Durability::Process).unwrap();
    let table = store.table("numbers").unwrap();
    for key in 0..500 {
        table.put(key, key, Durability::Process).unwrap();
    }
    store.checkpoint().unwrap();
    for key in 100..200 {
        table.delete(key, Durability::Process).unwrap();
    }
    drop(table);
    store.drop_table("gone").unwrap();
    store.table("numbers").unwrap().put(0, 0_u64, Durability::Process).unwrap();
    drop(store);
    // After a crash the log owes a checkpoint, which the backup takes.
    let store = home.open();
    assert!(store.report().owes_checkpoint);
    let report = backup(&store, &home.at("deep/er/backup")).unwrap();
    assert_eq!((report.tables, report.items), (2, 401));
    let expected = contents(&store);

    restore(&home.at("deep/er/backup"), &home.at("anew"), options(), &mut |_, _| ()).unwrap();
    let anew = Store::open_with(home.at("anew"), options()).unwrap();
    assert_eq!(contents(&anew), expected, "versions, too");
    assert_eq!(anew.tables(), ["numbers", "words"]);
    let table = anew.table("numbers").unwrap();
    let newest = expected.values().map(|(version, _)| *version).max().unwrap();
    assert!(table.put(1, 2, Durability::Power).unwrap() > newest, "versions go on growing");
    drop(table);
    backup(&anew, &home.at("second")).unwrap();
    anew.close().unwrap();
}

#[test]
fn an_interrupted_backup_is_none_and_makes_way_for_the_next() {
    let home = Home::new();
    let store = home.open();
    numbers(&store);
    store.table("numbers").unwrap().put(1, 1, Durability::Process).unwrap();
    // The remains of a process that died half way: whole files, half files, even everything except the name.
    let (to, partial) = (home.at("backup"), home.at("backup.partial"));
    backup(&store, &home.at("whole")).unwrap();
    for remains in ["MANIFEST", "ckpt-", "seg-"] {
        fs::create_dir_all(partial.join("log")).unwrap();
        for entry in fs::read_dir(home.at("whole").join("log")).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let bytes = fs::read(entry.path()).unwrap();
            let kept = if name.starts_with(remains) { bytes.len() / 2 } else { bytes.len() };
            fs::write(partial.join("log").join(name), &bytes[..kept]).unwrap();
        }
        fs::copy(home.at("whole").join("BACKUP.json"), partial.join("BACKUP.json")).unwrap();
        assert!(matches!(
            restore(&to, &home.at("anew"), options(), &mut |_, _| ()),
            Err(Error::NoBackup { .. })
        ));
        assert!(!home.at("anew").exists());
        backup(&store, &to).unwrap();
        assert!(!partial.exists());
        restore(&to, &home.at("anew"), options(), &mut |_, _| ()).unwrap();
        fs::remove_dir_all(home.at("anew")).unwrap();
        fs::remove_dir_all(&to).unwrap();
    }
    // A foreign directory of that name is left alone.
    fs::create_dir_all(partial.join("log")).unwrap();
    fs::write(partial.join("log/precious"), "data").unwrap();
    assert!(matches!(backup(&store, &to), Err(Error::NotEmpty { .. })));
    assert_eq!(fs::read(partial.join("log/precious")).unwrap(), b"data");
    // So is one that another backup is at.
    fs::remove_dir_all(&partial).unwrap();
    let other = warpkeep_log::OsDisk::open(partial.join("log")).unwrap();
    assert!(matches!(backup(&store, &to), Err(Error::Log(warpkeep_log::LogError::Held { .. }))));
    drop(other);
    backup(&store, &to).unwrap();
}

#[test]
fn places_that_will_not_do_are_refused() {
    let home = Home::new();
    let store = home.open();
    numbers(&store);
    fs::create_dir(home.at("empty")).unwrap();
    backup(&store, &home.at("empty")).unwrap();
    assert!(matches!(backup(&store, &home.at("empty")), Err(Error::NotEmpty { .. })));
    fs::write(home.at("file"), "").unwrap();
    assert!(matches!(backup(&store, &home.at("file")), Err(Error::NotEmpty { .. })));
    assert!(matches!(backup(&store, Path::new("/")), Err(Error::NotEmpty { .. } | Error::Invalid(_))));

    let none = restore(&home.at("none"), &home.at("anew"), options(), &mut |_, _| ());
    assert!(matches!(none, Err(Error::NoBackup { .. })));
    let into_use = restore(&home.at("empty"), &home.at("store"), options(), &mut |_, _| ());
    assert!(matches!(into_use, Err(Error::StoreExists { .. })));
    let without = StoreOptions { without_log: true, ..options() };
    let without = restore(&home.at("empty"), &home.at("anew"), without, &mut |_, _| ());
    assert!(matches!(without, Err(Error::Invalid(_))));
    assert!(!home.at("anew").exists());

    let bare = StoreOptions { without_log: true, ..options() };
    let bare = Store::open_with(home.at("bare"), bare).unwrap();
    let refused = backup(&bare, &home.at("never")).unwrap_err();
    assert!(
        matches!(refused, Error::NoLog) && refused.to_string().contains("open it with a log"),
        "{refused}"
    );
    assert!(!home.at("never").exists() && !home.at("never.partial").exists());
}

/// A scan may return items twice while their table grows; that does not count as damage.
#[test]
fn tables_that_grow_while_they_are_backed_up_come_back() {
    for index in IndexKind::ALL {
        let home = Home::new();
        let store = home.open();
        numbers_in(&store, index);
        let done = AtomicBool::new(false);
        let mut backups = 0;
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let table = store.table("numbers").unwrap();
                for key in 0..20_000_u64 {
                    table.put(key, key, Durability::Process).unwrap();
                }
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) && !writer.is_finished() {
                backup(&store, &home.at(&format!("backup-{backups}"))).unwrap();
                backups += 1;
            }
        });
        for number in 0..backups {
            let anew = home.at(&format!("anew-{number}"));
            let report =
                restore(&home.at(&format!("backup-{number}")), &anew, options(), &mut |_, _| ()).unwrap();
            let restored = Store::open_with(&anew, options()).unwrap();
            let items = contents(&restored);
            // In the order in which they were put: the first ones, whole.
            assert_eq!((report.items, items.len() as u64), (items.len() as u64, report.items));
            assert!((0..report.items).all(|key| items.contains_key(&key.to_le_bytes()[..])));
        }
        assert!(backups > 0);
    }
}

#[test]
fn damage_to_any_file_of_a_backup_is_found_and_nothing_is_restored() {
    let home = Home::new();
    let store = home.open();
    numbers(&store);
    let table = store.table("numbers").unwrap();
    for key in 0..300 {
        table.put(key, key, Durability::Process).unwrap();
    }
    drop(table);
    let to = home.at("backup");
    backup(&store, &to).unwrap();
    let mut files: Vec<PathBuf> =
        fs::read_dir(to.join("log")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.file_name().unwrap() != "LOCK");
    files.push(to.join("BACKUP.json"));
    assert!(files.len() >= 4, "{files:?}");
    let anew = home.at("anew");
    let mut found = 0;
    for file in &files {
        let whole = fs::read(file).unwrap();
        let mut flipped = whole.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 0x40;
        for damage in [Some(flipped), Some(whole[..whole.len() - 2].to_vec()), None] {
            match &damage {
                Some(bytes) => fs::write(file, bytes).unwrap(),
                None => fs::remove_file(file).unwrap(),
            }
            let error = restore(&to, &anew, options(), &mut |_, _| ()).unwrap_err();
            assert!(
                matches!(error, Error::BackupDamaged { .. } | Error::NoBackup { .. }),
                "{file:?}: {error}"
            );
            assert!(!anew.join("image").exists() && !anew.join("log").exists(), "{file:?}");
            assert!(!anew.join("log.partial").exists());
            fs::write(file, &whole).unwrap();
            found += 1;
        }
    }
    // A later version is reported as such.
    let note = fs::read_to_string(to.join("BACKUP.json")).unwrap();
    fs::write(to.join("BACKUP.json"), note.replace("\"format\":1", "\"format\":2")).unwrap();
    let newer = restore(&to, &anew, options(), &mut |_, _| ()).unwrap_err();
    assert!(matches!(newer, Error::NewerBackup { found: 2, .. }), "{newer}");
    fs::write(to.join("BACKUP.json"), note).unwrap();
    restore(&to, &anew, options(), &mut |_, _| ()).unwrap();
    assert_eq!(found, 3 * files.len());
}

#[test]
fn a_store_that_cannot_be_built_leaves_nothing_behind() {
    let home = Home::new();
    let store = home.open();
    numbers(&store);
    let table = store.table("numbers").unwrap();
    for key in 0..20_000 {
        table.put(key, key, Durability::Process).unwrap();
    }
    drop(table);
    backup(&store, &home.at("backup")).unwrap();
    let mut small = options();
    small.heap.max_bytes = small.create.len;
    let error = restore(&home.at("backup"), &home.at("anew"), small, &mut |_, _| ()).unwrap_err();
    assert!(matches!(error, Error::Image(warpkeep_image::ImageError::OutOfSpace { .. })), "{error}");
    assert!(!home.at("anew/image").exists() && !home.at("anew/log").exists());
    restore(&home.at("backup"), &home.at("anew"), options(), &mut |_, _| ()).unwrap();
}

/// All records of the log in a directory.
fn records(directory: &Path) -> Vec<(u64, Vec<u8>)> {
    let recovery = Recovery::open(Arc::new(OsDisk::open(directory).unwrap()), LogOptions::default()).unwrap();
    let mut records = Vec::new();
    let each = |record: warpkeep_log::Record<'_>| {
        let values = record.changes().flat_map(|change| change.value.to_vec()).collect();
        records.push((record.lsn().bits(), values));
        Ok::<(), LogError>(())
    };
    recovery.redo(each).unwrap();
    records
}

#[test]
fn a_copy_of_a_log_of_many_segments_has_every_record_and_no_room_to_spare() {
    let home = Home::new();
    let options = LogOptions { segment_bytes: 16 << 10, background: false, ..LogOptions::default() };
    let open = || Arc::new(OsDisk::open(home.at("log")).unwrap());
    let fill = |log: &Log, round: u64| {
        for number in 0..40_u64 {
            let mut batch = ChangeBatch::new();
            let (kind, version) = (ChangeKind::Put, 100 * round + number);
            let (key, value) = (&number.to_le_bytes()[..], &vec![round as u8; 700][..]);
            batch.push(&Change { table: 1, kind, version, key, value }).unwrap();
            let lsn = log.append(&batch, Durability::Power, |_| ()).unwrap();
            log.wait_durable(lsn).unwrap();
        }
    };
    let log = Log::create(open(), [7; 16], 1, options.clone()).unwrap();
    fill(&log, 1);
    drop(log); // as after a crash: the last segment is not full
    let torn = || {
        let mut segments: Vec<PathBuf> =
            fs::read_dir(home.at("log")).unwrap().map(|entry| entry.unwrap().path()).collect();
        segments.retain(|path| path.extension().is_some_and(|extension| extension == "wal"));
        segments.sort();
        segments.pop().unwrap()
    };
    // The remains of an interrupted write.
    let last = torn();
    let mut bytes = fs::read(&last).unwrap();
    let end = bytes.len() - 4096;
    bytes[end..end + 100].fill(0xaa);
    fs::write(&last, bytes).unwrap();
    let log = Recovery::open(open(), options.clone()).unwrap().start(2, false).unwrap();
    fill(&log, 2);

    let mut last = (0, 0);
    let copy = log
        .copy_to(Arc::new(OsDisk::open(home.at("copy")).unwrap()), &mut |done, of| last = (done, of))
        .unwrap();
    assert!(copy.files.len() > 10, "{copy:?}");
    assert_eq!(copy.files.last().unwrap().name, "MANIFEST");
    let bytes: u64 = copy.files.iter().map(|file| file.bytes).sum();
    assert_eq!(last, (bytes, bytes));
    fill(&log, 3);
    drop(log);
    for file in &copy.files {
        let bytes = fs::read(home.at("copy").join(&file.name)).unwrap();
        assert_eq!((bytes.len() as u64, crc32c::crc32c(&bytes)), (file.bytes, file.crc32c), "{file:?}");
    }
    let (all, copied) = (records(&home.at("log")), records(&home.at("copy")));
    assert_eq!((all.len(), copied.len()), (120, 80));
    assert!(copied == all[..80]);
    assert_eq!(copied.last().unwrap().0, copy.last_lsn.bits());

    // A log that is not the whole story is not copied.
    let log = Recovery::open(open(), options).unwrap().start(3, true).unwrap();
    let refused = log.copy_to(Arc::new(OsDisk::open(home.at("never")).unwrap()), &mut |_, _| ());
    assert!(matches!(refused, Err(LogError::CheckpointNeeded)), "{refused:?}");
}

/// All files of a store and its backups are for the owner alone, or have the requested permissions.
#[test]
fn files_are_as_private_as_was_asked() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &std::path::Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
    for (file_mode, directory_mode) in [(0o600, 0o700), (0o640, 0o750), (0o666, 0o777)] {
        let scratch = tempfile::tempdir().expect("a directory");
        let (home, backup, anew) =
            (scratch.path().join("a/home"), scratch.path().join("backup"), scratch.path().join("anew"));
        let log = warpkeep_log::LogOptions { file_mode, segment_bytes: 64 << 10, ..Default::default() };
        let options = || warpkeep::StoreOptions { log: log.clone(), ..Default::default() };
        let store = warpkeep::Store::open_with(&home, options()).expect("a store");
        let table = store.create_typed::<u64, u64>("t", 10).expect("a table");
        for key in 0..50 {
            table.put(&key, &key, warpkeep::Durability::Power).expect("written");
        }
        store.checkpoint().expect("a checkpoint");
        for key in 0..50 {
            table.put(&key, &key, warpkeep::Durability::Power).expect("written");
        }
        store.backup(&backup, &mut |_, _| ()).expect("a backup");
        drop(table);
        store.close().expect("closed");
        warpkeep::restore(&backup, &anew, options(), &mut |_, _| ()).expect("restored");
        let mut files = 0;
        for directory in [home.join("log"), backup.join("log"), anew.join("log")] {
            // Permissions that the umask removes from directories stay removed.
            assert_eq!(mode(&directory) & !directory_mode, 0, "{}", directory.display());
            for entry in std::fs::read_dir(&directory).expect("a directory") {
                let path = entry.expect("an entry").path();
                if path.file_name().is_some_and(|name| name != "LOCK") {
                    assert_eq!(mode(&path), file_mode, "{}", path.display());
                    files += 1;
                }
            }
        }
        assert_eq!(mode(&backup.join("BACKUP.json")), file_mode);
        assert!(files > 8, "{files} files");
        if file_mode == 0o600 {
            for path in [home.clone(), scratch.path().join("a"), backup, anew] {
                assert_eq!(mode(&path), directory_mode, "{}", path.display());
            }
            assert_eq!(mode(&home.join("log/LOCK")), file_mode);
        }
    }
    let unreadable = warpkeep_log::LogOptions { file_mode: 0o200, ..Default::default() };
    assert!(unreadable.check().is_err());
}
