//! Where a store of a test lies.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use warpkeep::engine::{Cells, ImageFile, Keeper, LogPlace, open};
use warpkeep::{OpenReport, Result};
use warpkeep_image::{Coherent, HeapOptions, HugePages, MIN_CHUNK};
use warpkeep_log::{LogOptions, OsDisk};

/// The store that the tests open.
pub(crate) type Store = Keeper<Coherent, Cells<Coherent>>;

/// Image and log directory of a store, and how it is opened. Small chunks and segments, so that it grows and rolls
/// over often.
pub(crate) struct Home {
    pub(crate) image: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) cells: u64,
    /// Bytes that a new image has.
    pub(crate) image_bytes: u64,
    pub(crate) adopt: bool,
    /// These tests take images away to see them rebuilt.
    pub(crate) abandon: bool,
    pub(crate) huge_pages: HugePages,
    pub(crate) heap: HeapOptions,
    pub(crate) log_options: LogOptions,
    pub(crate) directories: Vec<TempDir>,
}

impl Home {
    /// In this directory.
    pub(crate) fn at(directory: &Path) -> Home {
        Home {
            image: directory.join("image"),
            log: directory.join("log"),
            cells: 64,
            image_bytes: 4 * MIN_CHUNK,
            adopt: false,
            abandon: true,
            huge_pages: HugePages::Off,
            heap: HeapOptions::default(),
            log_options: LogOptions {
                segment_bytes: 64 << 10,
                fill_ahead_bytes: 16 << 10,
                ..LogOptions::default()
            },
            directories: Vec::new(),
        }
    }

    /// In a directory of its own, on a disk.
    pub(crate) fn on_disk() -> Home {
        let directory = tempfile::tempdir().expect("a directory");
        Home { directories: vec![directory], ..Home::at(Path::new("")) }.moved_in()
    }

    /// In a directory of its own, in memory if possible: faster, for tests that open a store thousands of times.
    pub(crate) fn in_memory() -> Home {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Home { directories: vec![directory.expect("a directory")], ..Home::at(Path::new("")) }.moved_in()
    }

    fn moved_in(mut self) -> Home {
        let directory = self.directory().to_path_buf();
        self.image = directory.join("image");
        self.log = directory.join("log");
        self
    }

    /// The directory that was made for it.
    pub(crate) fn directory(&self) -> &Path {
        self.directories.first().expect("it has one").path()
    }

    /// How the image is created and opened.
    pub(crate) fn place(&self) -> ImageFile<Coherent> {
        let mut place = ImageFile::new(&self.image, Coherent);
        place.create.len = self.image_bytes;
        place.create.chunk_size = MIN_CHUNK;
        place.open.adopt = self.adopt;
        place.abandon = self.abandon;
        for map in [&mut place.create.map, &mut place.open.map] {
            // More would cost a word a chunk in every opening.
            map.max_len = Some(256 << 20);
            map.huge_pages = self.huge_pages;
        }
        place
    }

    /// The log directory, locked.
    pub(crate) fn log_place(&self) -> Result<LogPlace> {
        Ok(LogPlace::new(OsDisk::open(&self.log)?, self.log_options.clone()))
    }

    /// Opens the store with its log.
    pub(crate) fn open(&self) -> Result<(Store, OpenReport)> {
        self.open_with(Some(self.log_place()?))
    }

    /// Opens the store without a log.
    pub(crate) fn open_without_log(&self) -> Result<(Store, OpenReport)> {
        self.open_with(None)
    }

    /// Opens the store with a log that lies elsewhere.
    pub(crate) fn open_with(&self, log: Option<LogPlace>) -> Result<(Store, OpenReport)> {
        open(&self.place(), log, self.heap.clone(), &self.cells)
    }

    /// The error of an opening that must fail.
    pub(crate) fn refuses(&self) -> warpkeep::Error {
        self.open().map(|(_, report)| report).expect_err("it cannot be opened")
    }

    /// The same, without a log.
    pub(crate) fn refuses_without_log(&self) -> warpkeep::Error {
        self.open_without_log().map(|(_, report)| report).expect_err("it cannot be opened")
    }

    pub(crate) fn lose_image(&self) {
        std::fs::remove_file(&self.image).expect("there was an image");
    }
}
