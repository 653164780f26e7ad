//! A closed store that is damaged and mended over and over.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use warpkeep::{Durability, Store, StoreOptions};
use warpkeep_image::{CreateOptions, HeapOptions, MIN_CHUNK, MapOptions, OpenOptions};
use warpkeep_log::LogOptions;

use crate::case::{self, Outcome, Worker};
use crate::damage::Damage;
use crate::files::{files_in, reseal, restore};
use crate::kind::Kind;

/// The name of the only table.
pub(crate) const TABLE: &str = "table";
/// Items that are put first. More are put later, and some deleted.
const ITEMS: u64 = 90;

/// The contents of the table: key and value.
pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) struct Patient {
    directory: TempDir,
    pub(crate) kind: Kind,
    pub(crate) model: Model,
    /// Every key and value that the table ever had.
    written: BTreeSet<(Vec<u8>, Vec<u8>)>,
    image: Vec<u8>,
    /// Where the image is not zero.
    used: Vec<usize>,
    log: BTreeMap<String, Vec<u8>>,
}

impl Patient {
    pub(crate) fn new(kind: Kind) -> Patient {
        let directory =
            tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
        settle_hashes(directory.path());
        let (mut model, mut written) = (Model::new(), BTreeSet::new());
        let store = Store::open_with(directory.path(), options(false)).expect("a store");
        let table = store.create_table(TABLE, kind.options()).expect("a new table");
        let mut put = |number: u64, changes: u64| {
            let (key, value) = (kind.key(number), kind.value(number, changes));
            table.put(&key, &value, Durability::Process).expect("there is room");
            written.insert((key.clone(), value.clone()));
            model.insert(key, value);
        };
        (0..ITEMS).for_each(|number| put(number, 0));
        store.checkpoint().expect("a checkpoint");
        (ITEMS / 2..ITEMS + 30).for_each(|number| put(number, 1));
        for number in (0..ITEMS).step_by(7) {
            let key = kind.key(number);
            assert!(table.delete(&key, Durability::Process).expect("deleted"));
            model.remove(&key);
        }
        while table.maintain().expect("maintained") {}
        drop(table);
        store.close().expect("closed");
        let image = std::fs::read(directory.path().join("image")).expect("an image");
        let used = (0..image.len()).filter(|&at| image[at] != 0).collect();
        let log = files_in(&directory.path().join("log"));
        Patient { directory, kind, model, written, image, used, log }
    }

    /// Whether a key ever had this value.
    pub(crate) fn was_written(&self, key: &[u8], value: &[u8]) -> bool {
        self.written.contains(&(key.to_vec(), value.to_vec()))
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn image_bytes(&self) -> &[u8] {
        &self.image
    }

    pub(crate) fn used_bytes(&self) -> &[usize] {
        &self.used
    }

    fn image_path(&self) -> PathBuf {
        self.path().join("image")
    }

    /// Damages the closed store, uses it as far as possible, and restores it.
    pub(crate) fn suffer(&self, damage: &Damage, without_log: bool, worker: &Worker, what: &str) -> Outcome {
        let mut bytes = self.image.clone();
        bytes[damage.at..damage.at + damage.bytes.len()].copy_from_slice(&damage.bytes);
        restore(&self.image_path(), &bytes);
        let outcome = case::work(self, &options(without_log), worker, what);
        restore(&self.image_path(), &self.image);
        self.mend_log();
        outcome
    }

    fn mend_log(&self) {
        let log = self.path().join("log");
        let found = std::fs::read_dir(&log).expect("a log");
        for path in found.map(|entry| entry.expect("an entry").path()) {
            std::fs::remove_file(path).expect("removed");
        }
        for (name, bytes) in &self.log {
            std::fs::write(log.join(name), bytes).expect("written");
        }
    }
}

/// Makes an empty store whose hashes are the same every time, so that items of later tables lie in the same places.
fn settle_hashes(directory: &Path) {
    const SEED_AT: usize = 40;
    Store::open_with(directory, options(false)).expect("a new store").close().expect("closed");
    let path = directory.join("image");
    let mut bytes = std::fs::read(&path).expect("an image");
    bytes[SEED_AT..SEED_AT + 8].copy_from_slice(&0x5eed_u64.to_le_bytes());
    reseal(&mut bytes[..4096]);
    restore(&path, &bytes);
}

pub(crate) fn options(without_log: bool) -> StoreOptions {
    // More would cost a word a chunk in every opening.
    let map = MapOptions { max_len: Some(64 << 20), ..MapOptions::default() };
    StoreOptions {
        without_log,
        create: CreateOptions {
            len: 4 * MIN_CHUNK,
            chunk_size: MIN_CHUNK,
            map: map.clone(),
            ..CreateOptions::default()
        },
        open: OpenOptions { map, ..OpenOptions::default() },
        heap: HeapOptions { max_bytes: 16 << 20, ..HeapOptions::default() },
        log: LogOptions {
            segment_bytes: 64 << 10,
            fill_ahead_bytes: 16 << 10,
            background: false,
            ..LogOptions::default()
        },
        ..StoreOptions::default()
    }
}
