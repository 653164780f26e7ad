//! Stores that an earlier command line wrote, with logs and tables of every kind (see `golden/README.md`), must open for good.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::say;
use warpkeep::{Durability, IndexKind, Origin, Store, StoreOptions, verify};
use warpkeep_image::OpenOptions;

/// The word that each packed file begins with.
const MAGIC: u32 = 0x534b_5057;

/// How a golden store was left.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Left {
    Closed,
    InUse,
}

impl Left {
    fn packed(self) -> &'static [u8] {
        match self {
            Left::Closed => include_bytes!("../golden/v1/stores/closed.packed"),
            Left::InUse => include_bytes!("../golden/v1/stores/in-use.packed"),
        }
    }
}

/// A table of a golden store: its name, its index, and how its keys and values are made.
struct Golden {
    name: &'static str,
    index: IndexKind,
    key: fn(u64) -> Vec<u8>,
    value: fn(u64, u64) -> Vec<u8>,
}

const TABLES: [Golden; 6] = [
    Golden { name: "packed", index: IndexKind::GpHash, key: number, value: fixed },
    Golden { name: "in-place", index: IndexKind::GpHash, key: number, value: in_slot },
    Golden { name: "text", index: IndexKind::GpHash, key: long, value: variable },
    Golden { name: "short-keys", index: IndexKind::GpHash, key: short, value: fixed },
    Golden { name: "shards", index: IndexKind::TurboHash, key: number, value: fixed },
    Golden { name: "shards-text", index: IndexKind::TurboHash, key: long, value: variable },
];

fn number(number: u64) -> Vec<u8> {
    number.to_le_bytes().to_vec()
}

fn short(number: u64) -> Vec<u8> {
    format!("key-{number}").into_bytes()
}

fn long(number: u64) -> Vec<u8> {
    format!("key-{number}{}", "-long".repeat(number as usize % 5)).into_bytes()
}

fn fixed(number: u64, round: u64) -> Vec<u8> {
    format!("{number:04}/{round}/abcdefghijklmnopq").into_bytes()
}

fn in_slot(number: u64, round: u64) -> Vec<u8> {
    (1000 * number + round).to_le_bytes().to_vec()
}

fn variable(number: u64, round: u64) -> Vec<u8> {
    let more = if number == 31 { 390 } else { number as usize % 12 };
    format!("{number:04}/{round}/{}", "x".repeat(more)).into_bytes()
}

/// By number, the round in which the value of each item was written.
type Rounds = BTreeMap<u64, u64>;

fn rounds() -> Rounds {
    let rounds = (0..80).map(|number| (number, u64::from(number >= 60 || number % 3 == 0)));
    rounds.filter(|(number, _)| number % 10 != 7).collect()
}

/// Writes the files of a packed store; returns how many.
fn unpack(mut packed: &[u8], directory: &Path) -> usize {
    fn take<'p>(packed: &mut &'p [u8], len: usize) -> &'p [u8] {
        let (taken, rest) = packed.split_at(len);
        *packed = rest;
        taken
    }
    fn word(packed: &mut &[u8]) -> u32 {
        u32::from_le_bytes(take(packed, 4).try_into().expect("four bytes"))
    }
    fn long_word(packed: &mut &[u8]) -> u64 {
        u64::from_le_bytes(take(packed, 8).try_into().expect("eight bytes"))
    }
    let mut files = 0;
    while !packed.is_empty() {
        assert_eq!(word(&mut packed), MAGIC);
        let name_len = word(&mut packed) as usize;
        let (len, pieces) = (long_word(&mut packed), word(&mut packed));
        let name = str::from_utf8(take(&mut packed, name_len)).expect("a name");
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().expect("it has a directory")).expect("made");
        let file = std::fs::File::create(&path).expect("made");
        file.set_len(len).expect("as long");
        for _ in 0..pieces {
            let (at, len) = (long_word(&mut packed), word(&mut packed) as usize);
            file.write_all_at(take(&mut packed, len), at).expect("written");
        }
        files += 1;
    }
    files
}

fn options() -> StoreOptions {
    StoreOptions { open: OpenOptions { adopt: true, ..OpenOptions::default() }, ..StoreOptions::default() }
}

fn open(directory: &Path, what: &str) -> Store {
    Store::open_with(directory, options()).unwrap_or_else(|error| panic!("{what}: {error}"))
}

fn assert_sound(directory: &Path, what: &str) {
    let report = verify(directory, &options()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(report.sound, "{what}: {report:?}");
}

fn assert_holds(store: &Store, rounds: &Rounds, what: &str) {
    for golden in &TABLES {
        let what = format!("{what}: {}", golden.name);
        let table = store.table(golden.name).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!((table.index(), table.len()), (golden.index, rounds.len() as u64), "{what}");
        for number in 0..120 {
            let expected = rounds.get(&number).map(|&round| (golden.value)(number, round));
            let found = table.get((golden.key)(number).as_slice()).expect("read");
            assert_eq!(found, expected, "{what}, item {number}");
        }
    }
}

/// Opens it, compares every value, writes so that tables grow, and opens it twice more: as it was closed, and without its image.
fn check(left: Left, keeps_image: bool) {
    let what = format!("{left:?}, with its image: {keeps_image}");
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    assert!(unpack(left.packed(), directory) > 3, "image, manifest, checkpoint and segments");
    if keeps_image {
        assert_sound(directory, &what);
    } else {
        std::fs::remove_file(directory.join("image")).expect("removed");
    }
    let mut expected = rounds();
    let store = open(directory, &what);
    let origin = if left == Left::Closed && keeps_image { Origin::Clean } else { Origin::Rebuilt };
    assert_eq!(store.report().origin, origin, "{what}");
    assert_holds(&store, &expected, &what);
    // The server of that program had a table of its own.
    let served = store.tables().into_iter().filter(|name| TABLES.iter().all(|golden| golden.name != name));
    let served: u64 = served.map(|name| store.table(&name).expect("it is there").len()).sum();
    assert_eq!(served, if left == Left::InUse { 20 } else { 0 }, "{what}");
    for golden in &TABLES {
        let table = store.table(golden.name).expect("it is there");
        for number in 50..110 {
            let value = (golden.value)(number, 2);
            table.put((golden.key)(number).as_slice(), value.as_slice(), Durability::Power).expect("room");
        }
        for number in 0..10 {
            table.delete((golden.key)(number).as_slice(), Durability::Process).expect("done");
        }
    }
    expected.extend((50..110).map(|number| (number, 2)));
    expected.retain(|&number, _| number >= 10);
    assert_holds(&store, &expected, &what);
    store.close().expect("closed");
    assert_sound(directory, &what);
    let what = format!("{what}, the second time");
    let store = open(directory, &what);
    assert_eq!(store.report().origin, Origin::Clean, "{what}");
    assert_holds(&store, &expected, &what);
    store.close().expect("closed");
    std::fs::remove_file(directory.join("image")).expect("removed");
    assert_holds(&open(directory, &what), &expected, &format!("{what}, rebuilt"));
}

#[test]
fn golden_stores_with_logs_open() {
    for left in [Left::Closed, Left::InUse] {
        check(left, true);
    }
    check(Left::Closed, false);
    let bytes = Left::Closed.packed().len() + Left::InUse.packed().len();
    assert!(bytes < 200 << 10, "{bytes} bytes of golden stores");
    say(&format!("golden stores with logs, of {} tables each, open ({} KiB)", TABLES.len(), bytes >> 10));
}
