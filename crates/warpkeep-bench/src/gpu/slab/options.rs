//! Which tables are measured, and how often.

use std::fmt;
use std::str::FromStr;

use warpkeep_device::DeviceChoice;

use super::shape::Shape;
use crate::BenchError;
use crate::gpu::{check, invalid, sorted_shares};

/// Pairs of a table, at least and at most.
const PAIRS: std::ops::RangeInclusive<usize> = 100..=1 << 29;
/// Bytes of pairs in proportion to those of slabs; long chains are what is above.
const UTILISATIONS: std::ops::RangeInclusive<f64> = 0.05..=0.8;

/// Bytes of the keys and of the values of a slab hash.
///
/// ```
/// use warpkeep_bench::gpu::slab::Pairs;
///
/// assert_eq!("8/8".parse::<Pairs>()?, Pairs::Eight);
/// assert!("4/8".parse::<Pairs>().is_err());
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
    /// Slabs of this many bytes.
    pub(super) const fn shape(self, slab_bytes: u32) -> Shape {
        match self {
            Pairs::Four => Shape::of(slab_bytes),
            Pairs::Eight => Shape::of_pairs(slab_bytes, 16),
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
        [Pairs::Four, Pairs::Eight]
            .into_iter()
            .find(|pairs| pairs.to_string() == text.trim())
            .ok_or_else(|| format!("no slab hash with pairs of `{text}` bytes is measured; give 4/4 or 8/8"))
    }
}

/// Which tables are measured, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which device.
    pub device: DeviceChoice,
    /// Bytes of keys and values, one case each.
    pub pairs: Vec<Pairs>,
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
        let pairs = vec![Pairs::Four, Pairs::Eight];
        Options { device, pairs, items, utilisations, slab_bytes, rounds: 3, seed: 1, command }
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
        if self.pairs.is_empty() {
            return invalid("no pairs are to be measured; give --pairs 4/4,8/8");
        }
        if self.slab_bytes.is_empty() || self.slab_bytes.iter().any(|bytes| !matches!(bytes, 64 | 128)) {
            return invalid("slabs have 64 or 128 bytes; give --slab-bytes 64,128");
        }
        if self.pairs.iter().any(|&pairs| self.attainable(pairs).is_empty()) {
            return invalid(format!(
                "{}; give a lower --utilisation, or other --pairs or --slab-bytes",
                self.left_out().join("; ")
            ));
        }
        Ok(())
    }

    /// The utilisations, the lowest first, and bytes of slabs of the tables that can be as full.
    pub(super) fn attainable(&self, pairs: Pairs) -> Vec<(f64, Vec<u32>)> {
        let slabs = |share: f64| -> Vec<u32> {
            let fits = |bytes: &u32| share <= pairs.shape(*bytes).most_utilisation();
            self.slab_bytes.iter().copied().filter(fits).collect()
        };
        let shares = self.sorted_utilisations().into_iter().map(|share| (share, slabs(share)));
        shares.filter(|(_, slabs)| !slabs.is_empty()).collect()
    }

    /// What each layout cannot reach, for the report.
    pub(super) fn left_out(&self) -> Vec<String> {
        let mut told = Vec::new();
        for &pairs in &self.pairs {
            for &bytes in &self.slab_bytes {
                let (shape, shares) = (pairs.shape(bytes), self.sorted_utilisations());
                let above: Vec<String> = shares
                    .iter()
                    .filter(|&&share| share > shape.most_utilisation())
                    .map(f64::to_string)
                    .collect();
                if !above.is_empty() {
                    told.push(format!(
                        "slabs of {bytes} bytes hold {} pairs of {pairs}, and need long chains for a utilisation above {:.2}; left out: {}",
                        shape.pairs,
                        shape.most_utilisation(),
                        above.join(", ")
                    ));
                }
            }
        }
        told
    }

    /// How many pairs tables have, and of which bytes.
    pub(super) fn tables(&self) -> Vec<(usize, Pairs)> {
        let of_items = |items: &usize| {
            let items = *items;
            self.pairs.iter().map(move |pairs| (items, *pairs))
        };
        self.items.iter().flat_map(of_items).collect()
    }

    /// The utilisations, the lowest first, each once.
    pub(super) fn sorted_utilisations(&self) -> Vec<f64> {
        sorted_shares(&self.utilisations)
    }
}
