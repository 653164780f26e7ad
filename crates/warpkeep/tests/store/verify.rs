//! Checking and inspecting stores that are not in use: damage is found, and nothing is changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warpkeep::{
    Durability, Error, IndexKind, KeySpec, PeekSource, Store, StoreOptions, TableOptions, ValueSpec,
    VerifyReport, peek, verify,
};
use warpkeep_core::{Change, ChangeKind};
use warpkeep_image::{
    Access, Coherent, CreateOptions, HeapOptions, Image, ImageError, MIN_CHUNK, OpenOptions,
};
use warpkeep_log::{CheckpointWriter, LogError, LogOptions, OsDisk, Recovery};

struct Home {
    directory: tempfile::TempDir,
    without_log: bool,
    index: IndexKind,
}

impl Home {
    fn new(without_log: bool) -> Home {
        Home::of(IndexKind::GpHash, without_log)
    }

    /// With tables of this index.
    fn of(index: IndexKind, without_log: bool) -> Home {
        Home { directory: tempfile::tempdir().unwrap(), without_log, index }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn image(&self) -> PathBuf {
        self.path().join("image")
    }

    fn options(&self) -> StoreOptions {
        let create = CreateOptions { len: 4 * MIN_CHUNK, chunk_size: MIN_CHUNK, ..CreateOptions::default() };
        let heap = HeapOptions { max_bytes: 16 << 20, ..HeapOptions::default() };
        let log = LogOptions { segment_bytes: 64 << 10, ..LogOptions::default() };
        let without_log = self.without_log;
        StoreOptions { create, heap, log, without_log, abandon_image: true, ..StoreOptions::default() }
    }

    fn open(&self) -> Store {
        Store::open_with(self.path(), self.options()).unwrap()
    }

    /// Two tables, some items before a checkpoint and some after it.
    fn fill(&self) -> Store {
        let store = self.open();
        let numbers = TableOptions::new(KeySpec::U64, ValueSpec::fixed(16).unwrap()).capacity(10);
        let numbers = store.create_table("numbers", numbers.index(self.index)).unwrap();
        let words = TableOptions::new(KeySpec::variable(30).unwrap(), ValueSpec::variable(300).unwrap());
        let words = store.create_table("words", words.index(self.index)).unwrap();
        for key in 0..200_u64 {
            numbers.put(key, &[key as u8; 16], Durability::Process).unwrap();
        }
        if !self.without_log {
            store.checkpoint().unwrap();
        }
        for key in 150..250_u64 {
            numbers.put(key, &[1; 16], Durability::Process).unwrap();
            words.put(&key.to_string(), &"word".repeat(key as usize % 50), Durability::Process).unwrap();
        }
        numbers.delete(0, Durability::Process).unwrap();
        drop((numbers, words));
        store
    }

    fn verify(&self) -> VerifyReport {
        verify(self.path(), &self.options()).unwrap()
    }

    /// Every file and its bytes.
    fn bytes(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        for directory in [self.path().to_path_buf(), self.path().join("log")] {
            let Ok(entries) = fs::read_dir(directory) else { continue };
            for path in entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
                files.insert(path.clone(), fs::read(path).unwrap());
            }
        }
        files
    }
}

fn items(report: &VerifyReport) -> Vec<(&str, u64)> {
    report.tables.iter().map(|check| (check.table.name.as_str(), check.table.items)).collect()
}

const EXPECTED: [(&str, u64); 2] = [("numbers", 249), ("words", 100)];

#[test]
fn sound_stores_are_sound_however_they_were_left_and_stay_as_they_are() {
    let ways = [(false, false), (false, true), (true, false), (true, true)];
    for index in IndexKind::ALL {
        for (without_log, close) in ways {
            let home = Home::of(index, without_log);
            let store = home.fill();
            if close {
                store.close().unwrap();
            } else {
                drop(store);
            }
            let before = home.bytes();
            let report = home.verify();
            assert!(report.sound, "{report:#?}");
            assert_eq!(items(&report), EXPECTED);
            // Unflushed writes are in the image alone.
            let logged = report.log.as_ref().map(|log| log.items);
            assert_eq!(logged.is_some(), !without_log);
            assert!(logged.is_none_or(|items| items == 349 || (!close && items >= 200)), "{logged:?}");
            assert_eq!(report.image.as_ref().unwrap().closed_cleanly, close);
            let numbers = &report.tables[0];
            assert_eq!(numbers.bytes, 249 * 24);

            let found = peek(home.path(), &home.options()).unwrap();
            assert_eq!(found.source, PeekSource::Image);
            let tables: Vec<_> =
                found.tables.iter().map(|table| (table.name.as_str(), table.items)).collect();
            assert_eq!(tables, EXPECTED);
            assert!(found.usage.used_bytes() > 0);
            assert!(home.bytes() == before, "not a byte has changed");
            home.open().close().unwrap();
        }
    }
}

#[test]
fn a_store_without_its_image_is_told_from_its_log() {
    IndexKind::ALL.into_iter().for_each(a_store_without_its_image_is_told_from_its_log_with);
}

fn a_store_without_its_image_is_told_from_its_log_with(index: IndexKind) {
    let home = Home::of(index, false);
    let store = home.fill();
    store.drop_table("words").unwrap();
    store.flush().unwrap();
    drop(store);
    fs::remove_file(home.image()).unwrap();
    let before = home.bytes();
    let report = home.verify();
    assert!(report.sound && report.image.is_none(), "{report:#?}");
    assert_eq!(items(&report), EXPECTED[..1]);
    let found = peek(home.path(), &home.options()).unwrap();
    assert_eq!((found.source, found.tables[0].items, found.tables.len()), (PeekSource::Log, 249, 1));
    assert_eq!(found.tables[0].index, index);
    assert!(home.bytes() == before);
    assert_eq!(home.open().table("numbers").unwrap().len(), 249);
}

/// A checkpoint made while tables grow: every item is there, and may be there twice.
fn write_checkpoint_with_items_twice(home: &Home) {
    let disk = Arc::new(OsDisk::open(home.path().join("log")).unwrap());
    let recovery = Recovery::open(disk, LogOptions::default()).unwrap();
    let (mut items, closed, epoch) = (Vec::new(), recovery.closed_cleanly(), recovery.epoch() + 1);
    recovery
        .load_checkpoint(|change| {
            items.push((change.table, change.version, change.key.to_vec(), change.value.to_vec()));
            Ok::<(), LogError>(())
        })
        .unwrap();
    let image =
        Image::open(&home.image(), Coherent, Access::ReadWrite, &OpenOptions::default()).unwrap().image;
    image.begin(epoch).unwrap();
    let log = recovery.start(epoch, false).unwrap();
    let twice = |writer: &mut CheckpointWriter| {
        let again = items.iter().filter(|item| item.0 != 0);
        items.iter().chain(again).try_for_each(|(table, version, key, value)| {
            writer.push(&Change { table: *table, kind: ChangeKind::Put, version: *version, key, value })
        })
    };
    log.checkpoint::<LogError>(twice).unwrap();
    if closed {
        let last = log.last_lsn();
        log.close().unwrap();
        image.close(last.bits()).unwrap();
    }
}

#[test]
fn items_that_a_checkpoint_has_twice_count_once() {
    for index in IndexKind::ALL {
        for (close, with_image) in [(false, false), (false, true), (true, false), (true, true)] {
            let home = Home::of(index, false);
            let store = home.fill();
            store.flush().unwrap();
            store.checkpoint().unwrap();
            match close {
                true => store.close().unwrap(),
                false => drop(store),
            }
            write_checkpoint_with_items_twice(&home);
            if !with_image {
                fs::remove_file(home.image()).unwrap();
            }
            let report = home.verify();
            assert!(report.sound && report.image.is_some() == with_image, "{report:#?}");
            let log = report.log.as_ref().unwrap();
            assert_eq!((items(&report), log.items), (EXPECTED.to_vec(), 349));
            assert_eq!(log.checkpoint.unwrap().changes, 2 + 2 * 349);
            let found = peek(home.path(), &home.options()).unwrap();
            let told: Vec<_> = found.tables.iter().map(|table| table.items).collect();
            assert_eq!(told, [249, 100]);
            let store = home.open();
            assert_eq!(store.table("numbers").unwrap().len(), 249);
        }
    }
}

#[test]
fn stores_in_use_and_stores_that_are_none_are_errors() {
    let me = std::process::id().to_string();
    for without_log in [false, true] {
        let home = Home::new(without_log);
        let store = home.fill();
        for error in [
            verify(home.path(), &home.options()).unwrap_err(),
            peek(home.path(), &home.options()).map(|_| ()).unwrap_err(),
        ] {
            let held =
                matches!(error, Error::Log(LogError::Held { .. }) | Error::Image(ImageError::Held { .. }));
            let text = error.to_string();
            assert!(held && (text.contains(&me) || text.contains("this very process")), "{error}");
        }
        drop(store);
        assert!(home.verify().sound);
    }
    let nothing = Home::new(false);
    assert!(matches!(verify(nothing.path(), &nothing.options()), Err(Error::NoStore { .. })));
    assert!(matches!(peek(nothing.path(), &nothing.options()), Err(Error::NoStore { .. })));
    assert!(nothing.bytes().is_empty());
}

#[test]
fn damage_to_keys_and_values_is_found_against_the_log() {
    IndexKind::ALL.into_iter().for_each(damage_to_keys_and_values_is_found_against_the_log_with);
}

fn damage_to_keys_and_values_is_found_against_the_log_with(index: IndexKind) {
    let home = Home::of(index, false);
    home.fill().close().unwrap();
    let whole = fs::read(home.image()).unwrap();
    let places = |needle: &[u8]| -> Vec<usize> {
        (0..whole.len() - needle.len()).step_by(8).filter(|&at| whole[at..].starts_with(needle)).collect()
    };
    // A value of key 77, and beside it key 77 itself, or the version where keys of 8 bytes are identified by their
    // hashes; each may also be in freed blocks.
    let beside: &[&str] = match index {
        IndexKind::GpHash => &["key", "its checksum is"],
        IndexKind::TurboHash => &["not in the log", "lacks a change", "its checksum is"],
    };
    let value = places(&[77; 16]);
    assert!(!value.is_empty());
    let mut found = 0;
    for at in value {
        for (at, what) in [(at, &["another value", "its checksum is"][..]), (at + 16, beside)] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(home.image(), &bytes).unwrap();
            // A rewritten file is not the one that was closed: inspecting it works all the same.
            let report = home.verify();
            let problems = &report.tables[0].problems;
            found += usize::from(!report.sound);
            let told = |problem: &String| what.iter().any(|what| problem.contains(what));
            assert!(report.sound || problems.iter().any(told), "{problems:?}");
        }
    }
    assert!(found >= 2, "one value and one key are in use");
}

#[test]
fn damage_anywhere_in_an_image_never_panics_and_much_of_it_is_found() {
    let homes = IndexKind::ALL
        .into_iter()
        .flat_map(|index| [false, true].map(|without_log| Home::of(index, without_log)));
    for home in homes {
        let without_log = home.without_log;
        home.fill().close().unwrap();
        let whole = fs::read(home.image()).unwrap();
        let mut random = fastrand::Rng::with_seed(11);
        // Nonzero bytes: zero bytes are mostly not in use.
        let used: Vec<usize> = (0..whole.len()).filter(|&at| whole[at] != 0).collect();
        let (mut found, mut refused, tries) = (0, 0, 150);
        for _ in 0..tries {
            let mut bytes = whole.clone();
            let at = used[random.usize(..used.len())];
            bytes[at] ^= 1 << random.u8(..8);
            fs::write(home.image(), &bytes).unwrap();
            match verify(home.path(), &home.options()) {
                Ok(report) => found += usize::from(!report.sound),
                Err(_) => refused += 1,
            }
            let _ = peek(home.path(), &home.options());
        }
        // Freed blocks and padding are not checked; without a log values cannot be compared. How much is found
        // differs from image to image, because each has hashes of its own.
        let enough = if without_log { tries / 50 } else { tries / 6 };
        assert!(found + refused >= enough, "{found} found, {refused} refused of {tries}");
        for len in [0, 1, 4096, whole.len() / 2, whole.len() - 1] {
            fs::write(home.image(), &whole[..len]).unwrap();
            let result = verify(home.path(), &home.options());
            assert!(result.as_ref().map_or(true, |report| !report.sound), "{len}: {result:?}");
        }
        fs::write(home.image(), &whole).unwrap();
        let report = home.verify();
        assert!(report.sound, "{report:#?}");
    }
}

#[test]
fn damage_to_the_log_is_found() {
    let home = Home::new(false);
    home.fill().close().unwrap();
    let mut found = 0;
    for (path, whole) in home.bytes().into_iter().filter(|(path, _)| path.parent() != Some(home.path())) {
        if path.ends_with("LOCK") {
            continue;
        }
        let used: Vec<usize> = (0..whole.len()).filter(|&at| whole[at] != 0).collect();
        if used.len() < 200 {
            // A segment that has only its first page, which damage may leave as a crash would.
            continue;
        }
        for at in [used[8], used[used.len() / 2]] {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            fs::write(&path, &bytes).unwrap();
            let report = home.verify();
            assert!(!report.sound && !report.problems.is_empty(), "{path:?} at {at}: {report:#?}");
            found += 1;
        }
        fs::write(&path, &whole).unwrap();
    }
    assert!(found >= 4, "{found}");
    assert!(home.verify().sound);
}

#[test]
fn the_image_and_the_log_of_different_stores_are_told_apart() {
    let (one, other) = (Home::new(false), Home::new(false));
    one.fill().close().unwrap();
    other.fill().close().unwrap();
    fs::copy(other.image(), one.image()).unwrap();
    let report = one.verify();
    assert!(!report.sound && report.problems.iter().any(|problem| problem.contains("different stores")));
}
