//! What the disk does when nobody stands between: write, `fdatasync`, again.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate};

use super::commit::Round;
use crate::measure::Latencies;
use crate::{BenchError, Progress};

/// A file to write to.
pub(crate) struct BareFile {
    file: File,
    len: u64,
}

impl BareFile {
    /// Space is reserved, but was never written: the file system has records of its own to change.
    pub(crate) fn preallocated(path: &Path, time: Duration) -> Result<BareFile, BenchError> {
        let bare = BareFile::reserve(path, time)?;
        bare.sync()?;
        Ok(bare)
    }

    /// All of it was written before: nothing but data goes to the disk.
    pub(crate) fn filled(path: &Path, time: Duration) -> Result<BareFile, BenchError> {
        let bare = BareFile::reserve(path, time)?;
        let zeros = vec![0; 1 << 20];
        for at in (0..bare.len).step_by(zeros.len()) {
            bare.file.write_all_at(&zeros, at).map_err(BenchError::io("fill a file with zeros"))?;
        }
        bare.sync()?;
        Ok(bare)
    }

    fn reserve(path: &Path, time: Duration) -> Result<BareFile, BenchError> {
        let doing = || BenchError::io("make a file to write to");
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).map_err(doing())?;
        let len = file_len(time);
        match fallocate(&file, FallocateFlags::empty(), 0, len) {
            // A file system that cannot reserve has only files that grow.
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                Ok(BareFile { file, len })
            }
            Err(error) => Err(doing()(error.into())),
        }
    }

    fn sync(&self) -> Result<(), BenchError> {
        self.file.sync_all().map_err(BenchError::io("sync a file"))
    }

    /// Writes and syncs so many bytes at a time, one after the other.
    pub(crate) fn round(
        &self,
        bytes_per_sync: u64,
        time: Duration,
        progress: &dyn Progress,
    ) -> Result<Round, BenchError> {
        let bytes = vec![0xa5; bytes_per_sync as usize];
        let mut latencies = Latencies::new();
        let mut offset = 0;
        let begun = Instant::now();
        while begun.elapsed() < time {
            progress.check()?;
            let start = Instant::now();
            let written = self.file.write_all_at(&bytes, offset).and_then(|()| self.file.sync_data());
            written.map_err(BenchError::io("write and sync"))?;
            latencies.record(start.elapsed());
            offset += bytes_per_sync;
            if offset + bytes_per_sync > self.len {
                offset = 0;
            }
        }
        let syncs = latencies.count();
        let seconds = begun.elapsed().as_secs_f64();
        Ok(Round { latencies, seconds, syncs, bytes: syncs * bytes_per_sync })
    }
}

/// Long enough that a round of that time seldom begins again at the start.
fn file_len(time: Duration) -> u64 {
    (time.as_secs_f64() * 256.0).clamp(16.0, 256.0) as u64 * (1 << 20)
}
