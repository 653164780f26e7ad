//! An image that records how long opening it took.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use warpkeep::engine::{ImageFile, ImagePlace};
use warpkeep_image::{Attached, Coherent, Image, ImageError};

/// An image file that remembers how long opening and creating took.
pub(crate) struct TimedImage {
    file: ImageFile<Coherent>,
    times: Mutex<Times>,
}

/// How long opening and creating took, and when creating ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    pub(crate) open: Duration,
    pub(crate) create: Duration,
    pub(crate) created: Option<Instant>,
}

impl TimedImage {
    /// An image that is created with `len` bytes.
    pub(crate) fn new(path: PathBuf, len: u64) -> TimedImage {
        let mut file = ImageFile::new(path, Coherent);
        file.create.len = len;
        TimedImage { file, times: Mutex::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.file.path
    }

    /// The times since the last call.
    pub(crate) fn take_times(&self) -> Times {
        std::mem::take(&mut self.times.lock().expect("no thread panics while it notes a time"))
    }

    fn note(&self, change: impl FnOnce(&mut Times)) {
        change(&mut self.times.lock().expect("no thread panics while it notes a time"));
    }
}

impl ImagePlace<Coherent> for TimedImage {
    fn open(&self) -> Result<Option<Attached<Coherent>>, ImageError> {
        let begun = Instant::now();
        let opened = self.file.open();
        self.note(|times| times.open = begun.elapsed());
        opened
    }

    fn create(&self, store_id: [u8; 16]) -> Result<Image<Coherent>, ImageError> {
        let begun = Instant::now();
        let created = self.file.create(store_id);
        self.note(|times| (times.create, times.created) = (begun.elapsed(), Some(Instant::now())));
        created
    }
}
