//! Which maps are measured, and how often.

use warpkeep_device::DeviceChoice;

use super::pairs::Pairs;
use crate::BenchError;
use crate::gpu::{check, invalid, sorted_shares};

/// Slots of a map at the least, which is the smallest that there is, and at the most.
const SLOTS: std::ops::RangeInclusive<usize> = 256..=1 << 30;
/// Above the last a map grows.
const LOADS: std::ops::RangeInclusive<f64> = 0.05..=0.95;
/// Above this a batch that inserts other keys can make the map grow.
pub(super) const MOST_CHANGED_LOAD: f64 = 0.93;

/// Slots of a map up to which the CPU form is measured, too.
const CPU_SLOTS: u64 = 1 << 22;

/// Which maps are measured, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which device.
    pub device: DeviceChoice,
    /// Bytes of keys and values, one case each.
    pub pairs: Vec<Pairs>,
    /// Slots of the map, one case each; rounded up to a power of two, and to those of the smallest map.
    pub items: Vec<usize>,
    /// Shares of the slots that have a key, one case each.
    pub loads: Vec<f64>,
    /// Operations of smaller batches, one case each; those that are larger than the map are left out.
    pub batches: Vec<usize>,
    /// How often everything is measured.
    pub rounds: u32,
    /// Of everything random.
    pub seed: u64,
    /// How the benchmark was started, for the report.
    pub command: String,
}

impl Options {
    /// The defaults for this device; on the simulator as many items as it handles in a moment.
    pub fn on(device: DeviceChoice) -> Options {
        let (items, batches) = match device {
            DeviceChoice::Sim => (vec![1 << 10], vec![8]),
            _ => (vec![1 << 20, 1 << 24], vec![1 << 12, 1 << 16, 1 << 20]),
        };
        let command = "warpkeep bench gpu map".to_owned();
        let pairs = vec![Pairs::USUAL];
        Options { device, pairs, items, loads: vec![0.5, 0.8, 0.9], batches, rounds: 3, seed: 1, command }
    }

    pub(super) fn check(&self) -> Result<(), BenchError> {
        check(self.device, self.rounds, &self.items)?;
        if self.items.iter().any(|items| !SLOTS.contains(items)) {
            return invalid("a map has 256 to 2^30 slots; give --items 2^20");
        }
        if self.pairs.is_empty() {
            return invalid("keys and values have some widths; give --pairs 8/8,4/4");
        }
        if self.loads.is_empty() || self.loads.iter().any(|load| !LOADS.contains(load)) {
            return invalid(format!(
                "a map is {} to {} full, beyond which it grows; give --load 0.5,0.9",
                LOADS.start(),
                LOADS.end()
            ));
        }
        if self.batches.contains(&0) {
            return invalid("a batch has one operation at least; give --batch 4096");
        }
        Ok(())
    }

    /// Widths and slots of the maps: for each pair of widths the fewest slots first, and each once.
    pub(super) fn sizes(&self) -> Vec<(Pairs, u64)> {
        let mut sizes: Vec<(Pairs, u64)> = Vec::new();
        for (number, &pairs) in self.pairs.iter().enumerate() {
            let slots = |items: &usize| (items.next_power_of_two() as u64).max(pairs.least_slots());
            let mut counts: Vec<u64> = self.items.iter().map(slots).collect();
            counts.sort_unstable();
            counts.dedup();
            if !self.pairs[..number].contains(&pairs) {
                sizes.extend(counts.into_iter().map(|slots| (pairs, slots)));
            }
        }
        sizes
    }

    /// Whether the CPU form takes part.
    pub(super) fn has_cpu(slots: u64) -> bool {
        slots <= CPU_SLOTS
    }

    /// The loads, the lowest first, each once.
    pub(super) fn sorted_loads(&self) -> Vec<f64> {
        sorted_shares(&self.loads)
    }
}
