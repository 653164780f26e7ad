//! Tables written by earlier programs, kept beside this test (see `golden/README.md`), must open for good.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::common::say;
use warpkeep::{
    Durability, IndexOptions, KeySpec, Layout, Origin, Store, StoreOptions, TableOptions, ValueSpec, verify,
};
use warpkeep_image::{CreateOptions, HeapOptions, MIN_CHUNK, OpenOptions};

type Items = BTreeMap<u64, Vec<u8>>;

const VALUE: usize = 128;

/// How the records of a golden store lie.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Records {
    /// Each in one piece: the only way there was at first.
    Whole,
    /// In tiles.
    Tiled,
    /// In tiles, with checksums.
    Checked,
}

impl Records {
    fn directory(self) -> PathBuf {
        let name = match self {
            Records::Whole => "tables",
            Records::Tiled => "tiles",
            Records::Checked => "checksums",
        };
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1").join(name)
    }
}

fn options() -> StoreOptions {
    StoreOptions {
        without_log: true,
        create: CreateOptions { len: 4 * MIN_CHUNK, chunk_size: MIN_CHUNK, ..CreateOptions::default() },
        heap: HeapOptions { max_bytes: 4 << 20, growth_divisor: 1 << 20 },
        open: OpenOptions { adopt: true, ..OpenOptions::default() },
        ..StoreOptions::default()
    }
}

/// The tables of a golden store: names and options.
fn tables() -> [(&'static str, TableOptions); 3] {
    let plain =
        TableOptions::new(KeySpec::U64, ValueSpec::fixed(VALUE as u32).expect("a length")).capacity(1);
    [
        ("packed", plain.index(IndexOptions::gphash(Layout::Packed))),
        ("in-place", plain.index(IndexOptions::gphash(Layout::InPlace))),
        ("turbohash", plain.index(IndexOptions::turbohash(2))),
    ]
}

fn value(key: u64, round: u8) -> Vec<u8> {
    (0..VALUE).map(|at| (key as u8).wrapping_mul(31).wrapping_add(at as u8) ^ round).collect()
}

/// The contents of each table, as in `golden/README.md`.
fn content() -> Items {
    let mut items: Items = (0..60).map(|key| (key, value(key, u8::from(key % 3 == 0)))).collect();
    items.retain(|key, _| key % 10 != 7);
    items
}

/// Writes a golden store anew.
fn generate(records: Records) {
    let directory = records.directory();
    if directory.exists() {
        std::fs::remove_dir_all(&directory).expect("removed");
    }
    std::fs::create_dir_all(&directory).expect("made");
    let store = Store::open_with(&directory, options()).expect("a new store");
    for (name, options) in tables() {
        let table = store.create_table(name, options).expect("a table");
        for key in 0..60_u64 {
            table.put(key, &value(key, 0), Durability::Process).expect("there is room");
        }
        for key in (0..60_u64).step_by(3) {
            table.put(key, &value(key, 1), Durability::Process).expect("there is room");
        }
        for key in (7..60_u64).step_by(10) {
            table.delete(key, Durability::Process).expect("it was there");
        }
    }
    store.close().expect("closed");
}

fn assert_content(store: &Store, expected: &Items, what: &str) {
    for (name, _) in tables() {
        let table = store.table(name).expect("it is there");
        assert_eq!(table.len(), expected.len() as u64, "{what}: {name}");
        for key in 0..100_u64 {
            assert_eq!(table.get(key).expect("read"), expected.get(&key).cloned(), "{what}: {name}, {key}");
        }
    }
}

/// Opens a copy, checks its contents, writes to it so that tables grow and blocks are reused, and opens it once
/// more.
fn check(records: Records) {
    let what = format!("{records:?}");
    let from = records.directory().join("image");
    assert!(from.is_file(), "{} is missing; golden/README.md says how it is made", from.display());
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::copy(&from, directory.path().join("image")).expect("a copy");
    let report = verify(directory.path(), &options()).expect("looked at");
    assert!(report.sound, "{what}: {report:?}");
    let mut expected = content();
    let store =
        Store::open_with(directory.path(), options()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(store.report().origin, Origin::Clean, "{what}");
    assert_content(&store, &expected, &what);
    for (name, _) in tables() {
        let table = store.table(name).expect("it is there");
        for key in 40..90_u64 {
            table.put(key, &value(key, 2), Durability::Process).expect("there is room");
        }
        for key in 0..10_u64 {
            table.delete(key, Durability::Process).expect("done");
        }
    }
    expected.extend((40..90).map(|key| (key, value(key, 2))));
    expected.retain(|&key, _| key >= 10);
    assert_content(&store, &expected, &what);
    store.compact().expect("made smaller");
    assert_content(&store, &expected, &what);
    store.close().expect("closed");
    let report = verify(directory.path(), &options()).expect("looked at");
    assert!(report.sound, "{what}, the second time: {report:?}");
    let store =
        Store::open_with(directory.path(), options()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_content(&store, &expected, &format!("{what}, the second time"));
}

/// They are what they claim to be; gives their bytes.
fn assert_kind(records: Records) -> usize {
    let image = std::fs::read(records.directory().join("image")).expect("an image");
    assert_eq!(image[8..12], 1_u32.to_le_bytes(), "the format version");
    // Where headers begin, and the byte in them that has the merge rule and the flag.
    for (magic, at, tables) in [(b"WKGPHASH", 49, 2), (b"WKTURBO1", 44, 1)] {
        let headers: Vec<&[u8]> = (0..image.len())
            .step_by(8)
            .map(|at| &image[at..])
            .filter(|bytes| bytes.starts_with(magic))
            .collect();
        assert_eq!(headers.len(), tables, "{records:?}");
        for header in headers {
            let flags = match records {
                Records::Whole => 0,
                Records::Tiled => 0x80,
                Records::Checked => 0xd0,
            };
            assert_eq!(header[at], flags, "{records:?}");
        }
    }
    image.len()
}

#[test]
fn golden_tables_open() {
    if std::env::var_os("WARPKEEP_REGENERATE_GOLDEN").is_some_and(|value| value == "1") {
        // Stores of the other kinds cannot be made any more.
        generate(Records::Checked);
        say("golden tables of format version 1 written anew");
    }
    let mut bytes = 0;
    for records in [Records::Whole, Records::Tiled, Records::Checked] {
        check(records);
        bytes += assert_kind(records);
    }
    assert!(bytes < 3 << 20, "{bytes} bytes of golden tables");
    say(&format!(
        "golden tables of format version 1, in tiles and not, with checksums and without, open ({} KiB)",
        bytes >> 10
    ));
}
