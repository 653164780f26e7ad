//! Which ordered maps are measured, and how often.

use std::fmt;
use std::str::FromStr;

use warpkeep_device::DeviceChoice;

use crate::BenchError;
use crate::gpu::{check, invalid};

/// Pairs of a map: every key has an interval of its own, of four numbers at least.
const ITEMS: std::ops::RangeInclusive<usize> = 16..=1 << 30;
/// Pairs of a map up to which the native CPU implementation is measured, too.
const CPU_ITEMS: usize = 1 << 20;

/// Bytes of the keys and of the values of an ordered map.
///
/// ```
/// use warpkeep_bench::gpu::ordered::Pairs;
///
/// assert_eq!("4/4".parse::<Pairs>()?, Pairs::Four);
/// assert!("8/4".parse::<Pairs>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// Keys and values of four bytes.
    Four,
    /// Keys and values of eight bytes.
    Eight,
}

impl Pairs {
    /// Lines of 128 bytes of a leaf.
    pub(super) fn leaf_lines(self) -> u64 {
        match self {
            Pairs::Four => 1,
            Pairs::Eight => 2,
        }
    }
}

impl fmt::Display for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pairs::Four => "4/4",
            Pairs::Eight => "8/8",
        })
    }
}

impl FromStr for Pairs {
    type Err = String;

    fn from_str(text: &str) -> Result<Pairs, String> {
        [Pairs::Four, Pairs::Eight].into_iter().find(|pairs| pairs.to_string() == text.trim()).ok_or_else(
            || format!("no ordered map with pairs of `{text}` bytes is measured; give 4/4 or 8/8"),
        )
    }
}

/// Which ordered maps are measured, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which device.
    pub device: DeviceChoice,
    /// Bytes of keys and values, one case each.
    pub pairs: Vec<Pairs>,
    /// Pairs of the map, one case each.
    pub items: Vec<usize>,
    /// Operations of a batch, one case each; those that are larger than the map are left out.
    pub batches: Vec<usize>,
    /// How often everything is measured.
    pub rounds: u32,
    /// Of everything random.
    pub seed: u64,
    /// How the benchmark was started, for the report.
    pub command: String,
}

impl Options {
    /// The defaults for this device; on the simulator a small map.
    pub fn on(device: DeviceChoice) -> Options {
        let (items, batches) = match device {
            DeviceChoice::Sim => (vec![500], vec![64]),
            _ => (vec![1 << 20, 45_000_000], vec![1 << 12, 1 << 16, 1 << 20, 1 << 22]),
        };
        let pairs = vec![Pairs::Four, Pairs::Eight];
        let command = "warpkeep bench gpu ordered".to_owned();
        Options { device, pairs, items, batches, rounds: 3, seed: 1, command }
    }

    pub(super) fn check(&self) -> Result<(), BenchError> {
        check(self.device, self.rounds, &self.items)?;
        if self.items.iter().any(|items| !ITEMS.contains(items)) {
            return invalid("an ordered map has 16 to 2^30 pairs here; give --items 45000000");
        }
        if self.pairs.is_empty() {
            return invalid("keys and values have some widths; give --pairs 4/4,8/8");
        }
        if self.batches.is_empty() || self.batches.contains(&0) {
            return invalid("a batch has one operation at least; give --batch 2^20");
        }
        Ok(())
    }

    /// Widths and pairs of the maps: for each width the fewest pairs first, and each once.
    pub(super) fn maps(&self) -> Vec<(Pairs, usize)> {
        let mut maps = Vec::new();
        for pairs in [Pairs::Four, Pairs::Eight].into_iter().filter(|pairs| self.pairs.contains(pairs)) {
            maps.extend(sorted(&self.items).into_iter().map(|items| (pairs, items)));
        }
        maps
    }

    /// The batches of a map with this number of pairs, the smallest first, each once.
    pub(super) fn batches_of(&self, items: usize) -> Vec<usize> {
        let mut batches = sorted(&self.batches);
        batches.retain(|&batch| batch <= items);
        batches
    }

    /// Whether the CPU takes part.
    pub(super) fn has_cpu(items: usize) -> bool {
        items <= CPU_ITEMS
    }
}

fn sorted(numbers: &[usize]) -> Vec<usize> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
