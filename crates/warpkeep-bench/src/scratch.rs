//! Directories of a benchmark's own, which go when it ends.

use std::path::Path;

use tempfile::TempDir;

use crate::BenchError;

/// One directory on the disk, one for images.
pub(crate) struct Scratch {
    disk: TempDir,
    images: TempDir,
}

impl Scratch {
    pub(crate) fn new(disk: &Path, images: &Path) -> Result<Scratch, BenchError> {
        Ok(Scratch { disk: temporary(disk)?, images: temporary(images)? })
    }

    pub(crate) fn disk(&self) -> &Path {
        self.disk.path()
    }

    pub(crate) fn images(&self) -> &Path {
        self.images.path()
    }

    /// An empty directory on the disk, for as long as it is held.
    pub(crate) fn fresh_disk(&self) -> Result<TempDir, BenchError> {
        temporary(self.disk())
    }

    /// An empty directory for an image.
    pub(crate) fn fresh_image(&self) -> Result<TempDir, BenchError> {
        temporary(self.images())
    }
}

fn temporary(parent: &Path) -> Result<TempDir, BenchError> {
    tempfile::Builder::new()
        .prefix("warpkeep-bench-")
        .tempdir_in(parent)
        .map_err(BenchError::io(format!("make a directory in {}", parent.display())))
}
