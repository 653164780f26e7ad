//! Which tables are measured, and how often.

use warpkeep_device::DeviceChoice;

use crate::BenchError;
use crate::gpu::{check, invalid, sorted_shares};

/// Pairs of a table, at least and at most.
const PAIRS: std::ops::RangeInclusive<usize> = 100..=1 << 29;
/// Bytes of pairs in proportion to those of slabs; long chains are what is above.
const UTILISATIONS: std::ops::RangeInclusive<f64> = 0.05..=0.8;

/// Which tables are measured, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which device.
    pub device: DeviceChoice,
    /// Pairs of a table, one case each; a number near it that fits a power of two of buckets is taken.
    pub items: Vec<usize>,
    /// Bytes of pairs in proportion to those of slabs, one case each.
    pub utilisations: Vec<f64>,
    /// Bytes of a slab, 64 or 128, one variant each.
    pub slab_bytes: Vec<u32>,
    /// How often everything is measured.
    pub rounds: u32,
    /// Of everything random.
    pub seed: u64,
    /// How the benchmark was started, for the report.
    pub command: String,
}

impl Options {
    /// The defaults for this device; on the simulator as many pairs as it handles in a moment.
    pub fn on(device: DeviceChoice) -> Options {
        let items = match device {
            DeviceChoice::Sim => vec![500],
            _ => vec![1 << 22, 1 << 26],
        };
        let command = "warpkeep bench gpu slab".to_owned();
        let (utilisations, slab_bytes) = (vec![0.3, 0.5, 0.6, 0.65, 0.75], vec![64, 128]);
        Options { device, items, utilisations, slab_bytes, rounds: 3, seed: 1, command }
    }

    pub(super) fn check(&self) -> Result<(), BenchError> {
        check(self.device, self.rounds, &self.items)?;
        if self.items.iter().any(|items| !PAIRS.contains(items)) {
            return invalid("a slab hash has 100 to 2^29 pairs; give --items 2^22");
        }
        if self.utilisations.is_empty() || self.utilisations.iter().any(|share| !UTILISATIONS.contains(share))
        {
            return invalid(format!(
                "utilisation is {} to {}; give --utilisation 0.5,0.6",
                UTILISATIONS.start(),
                UTILISATIONS.end()
            ));
        }
        if self.slab_bytes.is_empty() || self.slab_bytes.iter().any(|bytes| !matches!(bytes, 64 | 128)) {
            return invalid("slabs have 64 or 128 bytes; give --slab-bytes 64,128");
        }
        Ok(())
    }

    /// The utilisations, the lowest first, each once.
    pub(super) fn sorted_utilisations(&self) -> Vec<f64> {
        sorted_shares(&self.utilisations)
    }
}
