//! Which limits to measure, and how thoroughly.

use std::path::PathBuf;
use std::time::Duration;

use warpkeep_device::DeviceChoice;

use crate::{BenchError, pinned};

/// Which limits to measure, and how thoroughly.
#[derive(Clone, Debug)]
pub struct Options {
    /// A directory on the disk to measure; a directory of its own is made in it, and removed.
    pub dir: PathBuf,
    /// A directory like an image's, best on tmpfs; used the same way.
    pub image_dir: PathBuf,
    /// The device whose limits are measured, besides those of the CPU.
    pub device: DeviceChoice,
    /// Bytes of device memory that are gathered from.
    pub device_bytes: u64,
    /// Bytes of host memory that the device reaches over its link, case by case: the larger, the slower.
    pub host_bytes: Vec<u64>,
    /// Bytes of memory that the CPU reads lines from.
    pub memory_bytes: u64,
    /// Threads at work, case by case; 0 stands for all cores.
    pub threads: Vec<usize>,
    /// How often each is measured.
    pub rounds: u32,
    /// How long a round of the CPU takes.
    pub round_time: Duration,
    /// Of everything random.
    pub seed: u64,
    /// How the benchmark was started, for the report.
    pub command: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            dir: PathBuf::from("."),
            image_dir: PathBuf::from("/dev/shm"),
            device: DeviceChoice::Cpu,
            device_bytes: 8 << 30,
            host_bytes: vec![1 << 30, 16 << 30],
            memory_bytes: 2 << 30,
            threads: vec![1, 0],
            rounds: 5,
            round_time: Duration::from_millis(200),
            seed: 1,
            command: "warpkeep bench limits".to_owned(),
        }
    }
}

impl Options {
    pub(super) fn check(&self) -> Result<(), BenchError> {
        let wrong = |what: &str| Err(BenchError::Invalid(what.to_owned()));
        if self.rounds == 0 || self.threads.is_empty() {
            return wrong("at least one round and one number of threads are needed");
        }
        if self.threads.iter().any(|&threads| threads > 512) {
            return wrong("more than 512 threads are not possible; give 0 for as many as there are cores");
        }
        let sizes = self.host_bytes.iter().chain([&self.device_bytes, &self.memory_bytes]);
        if self.host_bytes.is_empty() || sizes.into_iter().any(|&bytes| bytes < 1 << 16) {
            return wrong("at least one size of host memory is needed, and none below 64K");
        }
        Ok(())
    }

    /// The numbers of threads, each once.
    pub(super) fn thread_counts(&self) -> Vec<usize> {
        let mut counts = Vec::new();
        for &threads in &self.threads {
            let threads = if threads == 0 { pinned::core_count() } else { threads };
            if !counts.contains(&threads) {
                counts.push(threads);
            }
        }
        counts
    }
}
