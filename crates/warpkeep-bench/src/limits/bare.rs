//! The bare disk: write, `fdatasync`, repeat.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate};

use crate::measure::Latencies;
use crate::{BenchError, Progress};

const PAGE: u64 = 4096;

/// The result of one round of commits.
pub(crate) struct Round {
    pub(crate) latencies: Latencies,
    pub(crate) seconds: f64,
    pub(crate) syncs: u64,
    pub(crate) bytes: u64,
}

impl Round {
    /// Bytes made durable at a time, whole pages at least.
    pub(crate) fn bytes_per_sync(&self) -> f64 {
        (self.bytes as f64 / self.syncs.max(1) as f64).max(PAGE as f64)
    }
}

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

    /// All of it was written before: the disk receives only data.
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

    /// Writes and syncs `bytes_per_sync` bytes at a time on average, in whole pages as the log does, one after the
    /// other.
    pub(crate) fn round(
        &self,
        bytes_per_sync: f64,
        time: Duration,
        progress: &dyn Progress,
    ) -> Result<Round, BenchError> {
        let page = vec![0xa5; (bytes_per_sync as usize).next_multiple_of(PAGE as usize) + PAGE as usize];
        let mut latencies = Latencies::new();
        let (mut offset, mut written) = (0, 0);
        let begun = Instant::now();
        while begun.elapsed() < time {
            progress.check()?;
            let len = next_len(bytes_per_sync, latencies.count(), written).min(page.len() as u64);
            if offset + len > self.len {
                offset = 0;
            }
            let start = Instant::now();
            let done =
                self.file.write_all_at(&page[..len as usize], offset).and_then(|()| self.file.sync_data());
            done.map_err(BenchError::io("write and sync"))?;
            latencies.record(start.elapsed());
            offset += len;
            written += len;
        }
        let seconds = begun.elapsed().as_secs_f64();
        Ok(Round { syncs: latencies.count(), latencies, seconds, bytes: written })
    }
}

/// Whole pages that keep the average: the bytes due after this write, less those already written.
fn next_len(bytes_per_sync: f64, writes: u64, written: u64) -> u64 {
    let due = bytes_per_sync * (writes + 1) as f64 - written as f64;
    ((due / PAGE as f64).round() as u64).max(1) * PAGE
}

/// Long enough that a round of that time seldom begins again at the start.
fn file_len(time: Duration) -> u64 {
    (time.as_secs_f64() * 256.0).clamp(16.0, 256.0) as u64 * (1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_keep_the_average() {
        for average in [4096.0, 10_700.0, 34_500.0] {
            let mut written = 0;
            for writes in 0..1000 {
                let len = next_len(average, writes, written);
                assert!(len.is_multiple_of(PAGE) && (len as f64 - average).abs() <= PAGE as f64, "{len}");
                written += len;
            }
            assert!((written as f64 / 1000.0 - average).abs() < 10.0);
        }
    }
}
