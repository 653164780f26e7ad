//! Where the store of the demonstration lies.

use std::path::Path;

use tempfile::TempDir;
use warpkeep::{DeviceChoice, DeviceValues};
use warpkeep_bench::machine::placement_in;
use warpkeep_image::Medium;

use super::report::Place;
use crate::failure::Failure;
use crate::store::{StoreAt, Worked};

/// The most bytes that a row takes in the image, including its growth.
const IMAGE_BYTES_PER_ROW: u64 = 256;

/// Directories that go when the demonstration ends.
pub(crate) struct Places {
    directory: TempDir,
    /// Where the image lies if not there.
    image: Option<TempDir>,
    worked: Worked,
}

impl Places {
    /// The log on a disk; the image on tmpfs if there is room.
    pub(crate) fn new(dir: Option<&Path>, rows: u64, worked: Worked) -> Result<Places, Failure> {
        let base = dir.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let temporary = |parent: &Path| {
            let made = tempfile::Builder::new().prefix("warpkeep-demo-").tempdir_in(parent);
            made.map_err(Failure::io(format!("make a directory in {}", parent.display())))
        };
        std::fs::create_dir_all(&base)
            .map_err(Failure::io(format!("make the directory {}", base.display())))?;
        let directory = temporary(&base)?;
        let shared_memory = Path::new("/dev/shm");
        let needed = (64 << 20) + 2 * rows * IMAGE_BYTES_PER_ROW;
        let has_room = placement_in(shared_memory)
            .is_ok_and(|placement| placement.medium == Medium::Tmpfs && placement.free_bytes > needed);
        let image = has_room.then(|| temporary(shared_memory)).and_then(Result::ok);
        Ok(Places { directory, image, worked })
    }

    pub(crate) fn store(&self) -> StoreAt {
        StoreAt {
            directory: self.directory.path().to_path_buf(),
            image: self.image.as_ref().map(|image| image.path().join("image")),
            adopt_copy: false,
            // A power cut is shown by taking it away.
            abandon_image: true,
            device: DeviceChoice::default(),
            device_index: warpkeep::DeviceIndex::default(),
            device_values: DeviceValues::default(),
            host_gets: None,
            threads: 0,
        }
        .on(self.worked)
    }

    pub(crate) fn worked(&self) -> Worked {
        self.worked
    }

    /// Of the image, and of the log.
    pub(crate) fn describe(&self) -> Result<(Place, Place), Failure> {
        let describe = |directory: &TempDir| {
            let placement = placement_in(directory.path())?;
            let (file_system, medium) = (placement.file_system, placement.medium);
            Ok::<_, Failure>(Place { path: directory.path().to_path_buf(), file_system, medium })
        };
        Ok((describe(self.image.as_ref().unwrap_or(&self.directory))?, describe(&self.directory)?))
    }

    /// Leaves the store behind.
    pub(crate) fn keep(self) {
        let _ = (self.directory.keep(), self.image.map(TempDir::keep));
    }
}
