//! Which indexes are measured, and how often.

use warpkeep_device::DeviceChoice;

use crate::BenchError;
use crate::gpu::{check, invalid, sorted_shares};

/// Buckets of an index, at least and at most: locations have 32 bits.
const BUCKETS: std::ops::RangeInclusive<usize> = 16..=1 << 28;
/// Displacement begins to fail not far above the last.
const LOADS: std::ops::RangeInclusive<f64> = 0.1..=0.95;
/// Entries of an index at the most for which the native CPU implementation is measured, too.
const CPU_ENTRIES: u64 = 1 << 24;

/// Which indexes are measured, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which device.
    pub device: DeviceChoice,
    /// Buckets of eight cells, one case each; rounded up to a power of two.
    pub buckets: Vec<usize>,
    /// Shares of the cells that have an entry, one case each.
    pub loads: Vec<f64>,
    /// Operations of a batch, one case each; those that are larger than the index are left out.
    pub batches: Vec<usize>,
    /// How often everything is measured.
    pub rounds: u32,
    /// Of everything random.
    pub seed: u64,
    /// How the benchmark was started, for the report.
    pub command: String,
}

impl Options {
    /// The defaults for this device, those of Mega-KV's paper with a larger batch; on the simulator as many buckets as it handles in a moment.
    pub fn on(device: DeviceChoice) -> Options {
        let (buckets, batches) = match device {
            DeviceChoice::Sim => (vec![1 << 6], vec![64]),
            _ => (vec![1 << 20, 1 << 25], vec![1 << 16, 1 << 20, 1 << 24]),
        };
        let command = "warpkeep bench gpu cuckoo".to_owned();
        Options { device, buckets, loads: vec![0.8], batches, rounds: 3, seed: 1, command }
    }

    pub(super) fn check(&self) -> Result<(), BenchError> {
        check(self.device, self.rounds, &self.buckets)?;
        if self.buckets.iter().any(|buckets| !BUCKETS.contains(buckets)) {
            return invalid("an index has 16 to 2^28 buckets; give --buckets 2^25");
        }
        if self.loads.is_empty() || self.loads.iter().any(|load| !LOADS.contains(load)) {
            return invalid(format!(
                "an index is {} to {} full; give --load 0.8",
                LOADS.start(),
                LOADS.end()
            ));
        }
        if self.batches.is_empty() || self.batches.contains(&0) {
            return invalid("a batch has one operation at least; give --batch 2^24");
        }
        Ok(())
    }

    /// Buckets of the indexes, the fewest first, each once.
    pub(super) fn bucket_counts(&self) -> Vec<u64> {
        let mut counts: Vec<u64> =
            self.buckets.iter().map(|count| count.next_power_of_two() as u64).collect();
        counts.sort_unstable();
        counts.dedup();
        counts
    }

    /// The loads, the lowest first, each once.
    pub(super) fn sorted_loads(&self) -> Vec<f64> {
        sorted_shares(&self.loads)
    }

    /// The batches that an index with this many entries can have, the smallest first, each once.
    pub(super) fn batches_of(&self, entries: u64) -> Vec<usize> {
        let mut batches: Vec<usize> =
            self.batches.iter().copied().filter(|&batch| batch as u64 <= entries).collect();
        batches.sort_unstable();
        batches.dedup();
        batches
    }

    /// Whether the CPU takes part.
    pub(super) fn has_cpu(&self, entries: u64) -> bool {
        entries <= CPU_ENTRIES
    }
}
