//! Which pools are measured, and how often.

use warpkeep_device::DeviceChoice;

use crate::BenchError;
use crate::gpu::{check, invalid, sorted_shares};
use crate::kernels::UNIT_SIZES;

/// Units that are claimed at once, at least and at most.
const UNITS: std::ops::RangeInclusive<usize> = 32..=1 << 28;
/// How full a pool may be.
const FULL: std::ops::RangeInclusive<f64> = 0.0..=0.99;
/// Units of a pool at the most: handles have 32 bits.
const MOST_UNITS: u64 = 1 << 31;

/// Which pools are measured, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which device.
    pub device: DeviceChoice,
    /// Units that are claimed at once, one for each thread.
    pub units: usize,
    /// Bytes of a unit: 32, 64, 128, 256 or 512.
    pub unit_bytes: u32,
    /// Shares of the pool that are taken before, one case each.
    pub full: Vec<f64>,
    /// How often each thread exchanges its unit in one launch.
    pub exchanges: u32,
    /// How often everything is measured.
    pub rounds: u32,
    /// Of everything random.
    pub seed: u64,
    /// How the benchmark was started, for the report.
    pub command: String,
}

impl Options {
    /// The defaults for this device, those of the slab hash's paper; on the simulator as many units as it handles in a moment.
    pub fn on(device: DeviceChoice) -> Options {
        let (units, exchanges) = match device {
            DeviceChoice::Sim => (1 << 9, 2),
            _ => (1_000_000, 16),
        };
        let command = "warpkeep bench gpu alloc".to_owned();
        Options {
            device,
            units,
            unit_bytes: 128,
            full: vec![0.0, 0.95],
            exchanges,
            rounds: 3,
            seed: 1,
            command,
        }
    }

    pub(super) fn check(&self) -> Result<(), BenchError> {
        check(self.device, self.rounds, &[self.units])?;
        if !UNITS.contains(&self.units) {
            return invalid("32 to 2^28 units are claimed at once; give --units 1000000");
        }
        if !UNIT_SIZES.contains(&self.unit_bytes) {
            return invalid("a unit has 32, 64, 128, 256 or 512 bytes; give --unit-bytes 128");
        }
        if self.full.is_empty() || self.full.iter().any(|full| !FULL.contains(full)) {
            return invalid(format!("a pool is {} to {} full; give --full 0,0.95", FULL.start(), FULL.end()));
        }
        if self.exchanges == 0 {
            return invalid("each thread exchanges its unit once at least; give --exchanges 16");
        }
        if self.capacity() > MOST_UNITS {
            return invalid(format!(
                "a pool of {} units is needed for that; give fewer --units, or a lower --full",
                self.capacity()
            ));
        }
        Ok(())
    }

    /// The shares, the lowest first, each once.
    pub(super) fn sorted_full(&self) -> Vec<f64> {
        sorted_shares(&self.full)
    }

    /// Units of a pool, of which claims take half of those that are free where it is fullest. It is the same in all cases, so that they differ by how full it
    /// is alone.
    pub(super) fn capacity(&self) -> u64 {
        let fullest = self.full.iter().copied().fold(0.0, f64::max);
        (2.0 * self.units as f64 / (1.0 - fullest)).ceil() as u64
    }
}
