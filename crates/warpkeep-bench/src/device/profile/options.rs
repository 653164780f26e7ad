//! How thoroughly a device profile is measured.

use std::path::PathBuf;
use std::time::Duration;

use warpkeep::DeviceChoice;

use crate::BenchError;
use crate::workload::Workload;

/// How thoroughly a device profile is measured.
#[derive(Clone, Debug)]
pub struct ProfileOptions {
    /// A directory on a disk; a directory of its own is made in it, and removed.
    pub dir: PathBuf,
    /// A directory for images, which a GPU wants on tmpfs; used in the same way.
    pub image_dir: PathBuf,
    /// Which device.
    pub device: DeviceChoice,
    /// Items, and bytes of their values.
    pub workload: Workload,
    /// Operations in the largest batch.
    pub largest: usize,
    /// How often each setting is measured.
    pub rounds: u32,
    /// How long batches of one size go on in a round; at least one is done.
    pub round_time: Duration,
    /// How the benchmark was started, for the report.
    pub command: String,
}

impl ProfileOptions {
    /// The defaults for this device.
    pub fn on(device: DeviceChoice) -> ProfileOptions {
        let simulated = device == DeviceChoice::Sim;
        ProfileOptions {
            dir: PathBuf::from("."),
            image_dir: PathBuf::from("/dev/shm"),
            device,
            workload: Workload {
                items: if simulated { 1 << 12 } else { 16_000_000 },
                key_bytes: 8,
                value_bytes: 128,
                seed: 1,
            },
            largest: if simulated { 1 << 9 } else { 1 << 22 },
            rounds: if simulated { 1 } else { 5 },
            round_time: Duration::from_millis(if simulated { 1 } else { 10 }),
            command: "warpkeep bench profile".to_owned(),
        }
    }

    pub(super) fn check(&self) -> Result<(), BenchError> {
        self.workload.check()?;
        let wrong = |what: &str| Err(BenchError::Invalid(what.to_owned()));
        if self.device == DeviceChoice::Cpu {
            return wrong("the CPU has no device profile; give --device cuda:0, or sim for the simulator");
        }
        if self.rounds == 0 {
            return wrong("at least one round is needed");
        }
        if self.largest < 32 || self.largest as u64 > self.workload.items {
            return wrong("the largest batch has at least 32 operations and at most one for each item");
        }
        Ok(())
    }

    /// Powers of two between these, but no larger than the largest batch; that one alone if all are.
    pub(super) fn sizes(&self, bits: std::ops::RangeInclusive<u32>) -> Vec<usize> {
        let sizes: Vec<usize> = bits.map(|bits| 1 << bits).filter(|&size| size <= self.largest).collect();
        if sizes.is_empty() { vec![self.largest] } else { sizes }
    }
}
