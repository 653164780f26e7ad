//! Stores written by earlier programs, kept beside this test (see `golden/README.md`), must open for good.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::common::{Home, Model, assert_holds, assert_no_leak, content, copy_directory, files_in, say};
use warpkeep::engine::Edit;
use warpkeep::{Durability, Error, Origin};
use warpkeep_image::ImageError;
use warpkeep_log::LogOptions;

const CELLS: u64 = 32;

/// How a golden store was left.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Left {
    Closed,
    InUse,
}

impl Left {
    fn directory(self) -> PathBuf {
        let name = match self {
            Left::Closed => "closed",
            Left::InUse => "in-use",
        };
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1").join(name)
    }

    /// Its contents, as in `golden/README.md`.
    fn content(self) -> Model {
        let mut model: Model = (0..24)
            .map(|cell| (cell, format!("golden cell {cell};").repeat(cell as usize % 4).into_bytes()))
            .collect();
        model.insert(30, vec![0x5a; 3000]);
        if self == Left::InUse {
            model.insert(31, b"the last commit".to_vec());
        }
        model
    }
}

fn home(directory: &Path) -> Home {
    let log_options = LogOptions {
        segment_bytes: LogOptions::MIN_SEGMENT_BYTES,
        fill_ahead_bytes: 0,
        background: false,
        ..LogOptions::default()
    };
    Home { cells: CELLS, log_options, ..Home::at(directory) }
}

/// Writes a golden store anew.
fn generate(left: Left) {
    let directory = left.directory();
    if directory.exists() {
        std::fs::remove_dir_all(&directory).expect("removed");
    }
    std::fs::create_dir_all(&directory).expect("made");
    let home = home(&directory);
    let (store, _) = home.open().expect("a new store");
    for cell in 0..30 {
        store.put(cell, b"of old", Durability::Process).expect("there is room");
    }
    store.checkpoint().expect("a checkpoint");
    let model = Left::Closed.content();
    let edits: Vec<Edit<'_>> = (0..CELLS).map(|cell| (cell, model.get(&cell).map(Vec::as_slice))).collect();
    let (first, rest) = edits.split_at(16);
    store.edit(first, Durability::Power).expect("there is room");
    store.edit(rest, Durability::Process).expect("there is room");
    match left {
        Left::Closed => store.close().expect("closed"),
        Left::InUse => {
            store.put(31, b"the last commit", Durability::Power).expect("there is room");
            drop(store);
        }
    }
    std::fs::remove_file(home.log.join("LOCK")).expect("it names a process");
}

/// A copy of a golden store, to be opened.
struct Copied {
    home: Home,
    _directory: tempfile::TempDir,
}

impl Copied {
    fn new(left: Left) -> Copied {
        let directory = tempfile::tempdir().expect("a directory");
        let from = left.directory();
        assert!(from.is_dir(), "{} is missing; golden/README.md says how it is made", from.display());
        let home = Home { adopt: true, ..home(directory.path()) };
        copy_directory(&from.join("log"), &home.log);
        let bytes = std::fs::read(from.join("image")).expect("an image");
        std::fs::write(&home.image, &bytes).expect("a copy");
        // On the machine where it was made a copy might happen to have the same inode number.
        let recorded = u64::from_le_bytes(bytes[4096 + 64..4096 + 72].try_into().expect("eight bytes"));
        if home.image.metadata().expect("metadata").ino() == recorded {
            std::fs::copy(&home.image, directory.path().join("another")).expect("copied");
            std::fs::rename(directory.path().join("another"), &home.image).expect("moved");
        }
        Copied { home, _directory: directory }
    }

    /// Opens it, checks its contents, writes to it, and opens it once more.
    fn check(&self, left: Left, logged: bool, origin: Origin) {
        let what = format!("{left:?}, {origin:?}, with a log: {logged}");
        let open = || if logged { self.home.open() } else { self.home.open_without_log() };
        let (store, report) = open().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(report.origin, origin, "{what}");
        let mut model = left.content();
        assert_holds(&store, &model, &what);
        assert_no_leak(&store, &model, &what);
        let durability = if logged { Durability::Power } else { Durability::Process };
        store.put(29, b"of today", durability).expect("there is room");
        model.insert(29, b"of today".to_vec());
        store.close().expect("closed");
        let (store, _) = open().unwrap_or_else(|error| panic!("{what}, the second time: {error}"));
        assert_eq!(content(&store), model, "{what}, the second time");
    }
}

#[test]
fn golden_stores_open() {
    if std::env::var_os("WARPKEEP_REGENERATE_GOLDEN").is_some_and(|value| value == "1") {
        [Left::Closed, Left::InUse].into_iter().for_each(generate);
        say("golden files of format version 1 written anew");
    }
    Copied::new(Left::Closed).check(Left::Closed, true, Origin::Clean);
    Copied::new(Left::Closed).check(Left::Closed, false, Origin::Clean);

    let copied = Copied::new(Left::InUse);
    match copied.home.refuses_without_log() {
        Error::Image(ImageError::NotIntact { .. }) => {}
        other => panic!("{other:?}"),
    }
    copied.check(Left::InUse, true, Origin::Rebuilt);

    for left in [Left::Closed, Left::InUse] {
        let copied = Copied::new(left);
        copied.home.lose_image();
        copied.check(left, true, Origin::Rebuilt);
    }

    // They are what they claim to be, and small.
    let mut bytes = 0;
    for left in [Left::Closed, Left::InUse] {
        let image = std::fs::read(left.directory().join("image")).expect("an image");
        let log = files_in(&left.directory().join("log"));
        for part in ["MANIFEST", "ckpt-", "seg-"] {
            assert!(log.keys().any(|name| name.starts_with(part)), "{left:?} has no {part}");
        }
        for file in log.values().chain([&image]) {
            assert_eq!(file[8..12], 1_u32.to_le_bytes(), "the format version");
            bytes += file.len();
        }
    }
    assert!(bytes < 1 << 20, "{bytes} bytes of golden files");
    say(&format!("golden stores of format version 1 open ({} KiB)", bytes >> 10));
}
