//! What the tests share: running the binary, and stores to run it on.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use warpkeep::{Cells, Durability, ImageFile, Keeper, LogPlace, open};
use warpkeep_image::Coherent;
use warpkeep_log::{LogOptions, OsDisk};

pub(crate) const CELLS: u64 = 1000;
pub(crate) const FILLED: u64 = 600;

/// The binary, with nothing to read from.
pub(crate) fn warpkeep() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpkeep"));
    command.stdin(Stdio::null());
    command
}

/// What came of a run.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(command: &mut Command) -> Ran {
        let Output { status, stdout, stderr } = command.output().expect("the binary runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Ran { code: status.code().expect("it ended by itself"), out: text(stdout), err: text(stderr) }
    }

    /// Fails the test unless the exit code is this one.
    pub(crate) fn expect(self, code: i32) -> Ran {
        assert_eq!(self.code, code, "\n--- out\n{}\n--- err\n{}", self.out, self.err);
        self
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in {}", self.out))
    }
}

/// A store in a directory that goes with it.
pub(crate) struct Shop {
    pub(crate) directory: tempfile::TempDir,
}

pub(crate) fn value(cell: u64) -> Vec<u8> {
    (0..100).map(|at| (cell * 31 + at * 7) as u8).collect()
}

impl Shop {
    pub(crate) fn empty() -> Shop {
        Shop { directory: tempfile::tempdir().expect("a directory") }
    }

    /// A store that was closed: a checkpoint, and some writes after it.
    pub(crate) fn new() -> Shop {
        let shop = Shop::empty();
        let store = shop.open();
        for cell in 0..FILLED {
            store.put(cell, &value(cell), Durability::Process).expect("room");
        }
        store.checkpoint().expect("a checkpoint");
        for cell in 0..10 {
            store.put(cell, &value(cell + CELLS), Durability::Power).expect("room");
        }
        store.close().expect("closed");
        shop
    }

    pub(crate) fn image(&self) -> PathBuf {
        self.directory.path().join("image")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    pub(crate) fn open(&self) -> Keeper<Coherent, Cells<Coherent>> {
        let place = ImageFile::new(self.image(), Coherent);
        let log = LogPlace::new(OsDisk::open(self.log()).expect("a directory"), LogOptions::default());
        open::<_, Cells<_>>(&place, Some(log), Default::default(), &CELLS).expect("a store").0
    }

    pub(crate) fn run(&self, command: &str) -> Command {
        let mut run = warpkeep();
        run.arg(command).arg("--image").arg(self.image()).arg("--log").arg(self.log());
        run
    }

    /// Whether the store holds what [`Shop::new`] put there.
    pub(crate) fn check(&self) {
        let store = self.open();
        assert_eq!(store.items().count(), CELLS);
        for cell in 0..CELLS {
            let expected = match cell {
                0..10 => Some(value(cell + CELLS)),
                10..FILLED => Some(value(cell)),
                _ => None,
            };
            assert_eq!(store.get(cell).expect("a cell"), expected, "cell {cell}");
        }
        store.close().expect("closed");
    }

    /// The one file in the log directory that begins like this and holds those bytes.
    pub(crate) fn log_file(&self, prefix: &str, holding: &[u8]) -> PathBuf {
        let entries =
            std::fs::read_dir(self.log()).expect("a directory").map(|entry| entry.expect("an entry"));
        let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
        let mut found = named.map(|entry| entry.path()).filter(|path| place_of(path, holding).is_some());
        found.next().expect("such a file")
    }
}

fn place_of(path: &Path, bytes: &[u8]) -> Option<usize> {
    let content = std::fs::read(path).expect("a file");
    content.windows(bytes.len()).position(|window| window == bytes)
}

/// Flips a bit of the first place in a file that holds these bytes.
pub(crate) fn damage(path: &Path, bytes: &[u8]) {
    let at = place_of(path, bytes).expect("the bytes are there");
    flip(path, at + bytes.len() / 2);
}

/// Flips a bit of a byte.
pub(crate) fn flip(path: &Path, at: usize) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).expect("a file");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at as u64).expect("a byte");
    file.write_all_at(&[byte[0] ^ 0x20], at as u64).expect("written");
}
