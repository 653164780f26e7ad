//! What to measure of a device, and how thoroughly.

use std::path::PathBuf;
use std::time::Duration;

use warpkeep::DeviceChoice;
use warpkeep_gphash::gpu::paper::CachePolicy;
use warpkeep_gphash::{Geometry, Layout};

use super::keys::Keys;
use super::strategy::Variant;
use super::{Operation, Strategy};
use crate::BenchError;
use crate::compare::MAX_BATCH;
use crate::workload::{Distribution, Workload};

/// Threads that store words, at the most: more than any machine has cores for.
const MOST_WORD_THREADS: usize = 1024;

/// What to measure of a device, and how thoroughly.
#[derive(Clone, Debug)]
pub struct Options {
    /// A directory on a disk, which the library needs; a directory of its own is made in it, and removed.
    pub dir: PathBuf,
    /// A directory for images, which a GPU wants on tmpfs; used in the same way.
    pub image_dir: PathBuf,
    /// Which device.
    pub device: DeviceChoice,
    /// Items, keys, values, seed.
    pub workload: Workload,
    /// Whether keys have any length, from 8 bytes to the workload's, which is then 63 at the most.
    pub variable_keys: bool,
    /// The contents of a slot.
    pub layout: Layout,
    /// The table's layout.
    pub geometry: Geometry,
    /// Items as a share of the table's slots; by default as full as a new table, with room for the inserted items.
    pub load_factor: Option<f64>,
    /// How the table is used.
    pub strategies: Vec<Strategy>,
    /// The operations.
    pub operations: Vec<Operation>,
    /// How items are drawn.
    pub distributions: Vec<Distribution>,
    /// Operations in a batch.
    pub batches: Vec<usize>,
    /// Shares of the buckets that have copies, from 0 to 1, for the bucket cache.
    pub cache_shares: Vec<f64>,
    /// Shares of the values that are in device memory, from 0 to 1, for the value cache.
    pub value_shares: Vec<f64>,
    /// Which buckets have copies.
    pub policy: CachePolicy,
    /// Threads of the host that publish fused writes; if not given, the device profile decides.
    pub word_threads: Option<usize>,
    /// Whether the steps of fused writes and of gets are timed, too.
    pub steps: bool,
    /// How often everything is measured.
    pub rounds: u32,
    /// How long batches of one size go on in a round; at least one is done.
    pub round_time: Duration,
    /// How the benchmark was started, for the report.
    pub command: String,
}

impl Options {
    /// The defaults for this device: as many items as the paper has, or, on the simulator, as many as it handles in
    /// a moment.
    pub fn on(device: DeviceChoice) -> Options {
        let simulated = device == DeviceChoice::Sim;
        Options {
            dir: PathBuf::from("."),
            image_dir: PathBuf::from("/dev/shm"),
            device,
            workload: Workload {
                items: if simulated { 1 << 13 } else { 16_000_000 },
                key_bytes: 8,
                value_bytes: 128,
                seed: 1,
            },
            variable_keys: false,
            layout: Layout::Packed,
            geometry: Geometry::default(),
            load_factor: None,
            // A log of all that is written takes a disk, and space on it.
            strategies: Strategy::ALL
                .into_iter()
                .filter(|&strategy| {
                    !matches!(strategy, Strategy::Alone | Strategy::FusedLink) && !strategy.is_logged()
                })
                .collect(),
            operations: Operation::ALL.to_vec(),
            distributions: vec![Distribution::Uniform, Distribution::Zipfian(0.99)],
            batches: (if simulated { 6..=10 } else { 10..=24 }).step_by(2).map(|bits| 1 << bits).collect(),
            cache_shares: vec![0.2, 1.0],
            value_shares: vec![0.2],
            policy: CachePolicy::Lfu,
            word_threads: None,
            steps: false,
            rounds: 3,
            round_time: Duration::from_millis(if simulated { 1 } else { 50 }),
            command: "warpkeep bench device".to_owned(),
        }
    }

    pub(super) fn check(&self) -> Result<(), BenchError> {
        self.workload.check()?;
        self.keys()?;
        let wrong = |what: String| Err(BenchError::Invalid(what));
        if self.variable_keys && self.layout != Layout::Packed {
            return wrong("keys of any length want the layout packed; leave out --layout".to_owned());
        }
        if self.device == DeviceChoice::Cpu {
            return wrong("the CPU is no device; give --device cuda:0, or sim for the simulator".to_owned());
        }
        let lists = [
            ("strategy", self.strategies.is_empty()),
            ("operation", self.operations.is_empty()),
            ("distribution", self.distributions.is_empty()),
            ("batch size", self.batches.is_empty()),
            ("round", self.rounds == 0),
        ];
        if let Some((what, _)) = lists.iter().find(|(_, missing)| *missing) {
            return wrong(format!("at least one {what} is needed"));
        }
        if self.variants().is_empty() {
            return wrong(format!(
                "tables with the layout {} support none of these strategies; the device index and fused writes need the layout packed",
                self.layout
            ));
        }
        if self.batches.iter().any(|batch| !(1..=MAX_BATCH).contains(batch)) {
            return wrong("batches have 1 to 2^24 operations".to_owned());
        }
        if self.cache_shares.iter().any(|share| !(0.0..=1.0).contains(share)) {
            return wrong("a cache holds a share of 0 to 1 of the buckets".to_owned());
        }
        if self.value_shares.iter().any(|share| !(0.0..=1.0).contains(share)) {
            return wrong("a cache holds a share of 0 to 1 of the values".to_owned());
        }
        if self.word_threads.is_some_and(|threads| !(1..=MOST_WORD_THREADS).contains(&threads)) {
            return wrong(format!("words are stored by 1 to {MOST_WORD_THREADS} threads of the host"));
        }
        if self.load_factor.is_some_and(|load| !(0.01..=0.95).contains(&load)) {
            return wrong("the load factor of a table can be 0.01 to 0.95; give one in between".to_owned());
        }
        if self.distributions.iter().any(|distribution| matches!(distribution, Distribution::Latest(_))) {
            return wrong(
                "this benchmark does not draw the latest items; give uniform or zipfian".to_owned(),
            );
        }
        for &distribution in &self.distributions {
            self.workload.picks(distribution, 0)?;
        }
        Ok(())
    }

    /// The keys of the items.
    pub(super) fn keys(&self) -> Result<Keys, BenchError> {
        if self.variable_keys { Keys::of_any_length(self.workload) } else { Ok(self.workload.into()) }
    }

    /// Batch sizes, the smallest first.
    pub(super) fn batch_sizes(&self) -> Vec<usize> {
        let mut sizes = self.batches.clone();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Whether such tables can be used in a strategy.
    pub(super) fn is_open(&self, strategy: Strategy) -> bool {
        match strategy {
            Strategy::Index | Strategy::Ordered | Strategy::Values => self.layout == Layout::Packed,
            Strategy::Fused | Strategy::FusedLink | Strategy::LibraryGather | Strategy::LibrarySplit => {
                self.layout == Layout::Packed
            }
            Strategy::Alone | Strategy::Image | Strategy::BucketCache => true,
            Strategy::Library | Strategy::LibraryPinned | Strategy::LibraryCpu => true,
            Strategy::LibraryProcess | Strategy::LibraryPower => true,
        }
    }

    /// The compared variants, each once.
    pub(super) fn variants(&self) -> Vec<Variant> {
        let mut variants = Vec::new();
        let strategies = self.strategies.iter().flat_map(|strategy| strategy.with_kin());
        for &strategy in strategies.filter(|&&strategy| self.is_open(strategy)) {
            let shares = match strategy {
                Strategy::BucketCache => self.cache_shares.clone(),
                Strategy::Values => self.value_shares.clone(),
                _ => vec![0.0],
            };
            for variant in shares.into_iter().map(|share| Variant { strategy, share }) {
                if !variants.contains(&variant) {
                    variants.push(variant);
                }
            }
        }
        variants
    }

    /// The batch size at which shares and skews are compared: a million, or the nearest below.
    pub(super) fn main_batch(&self) -> usize {
        let sizes = self.batch_sizes();
        sizes.iter().rev().find(|&&size| size <= 1 << 20).or(sizes.first()).copied().unwrap_or(1)
    }

    /// The most items inserted before they are deleted: a quarter of the items, so that the table stays about as
    /// full.
    pub(super) fn most_inserted(&self) -> usize {
        let sizes = self.batch_sizes();
        let fits = |size: &&usize| **size as u64 <= (self.workload.items / 4).max(1);
        sizes
            .iter()
            .filter(fits)
            .map(|&size| size * batches_in_row(size, self.workload.items))
            .max()
            .unwrap_or(0)
    }
}

/// Operations of batches that are written one after the other, and batches, at the most.
const ROW: usize = 1 << 18;
const MOST_IN_ROW: usize = 64;

/// How many batches of a size are written one after the other before they are read back: with a pause before each, a small one would be measured as it is when host and
/// device have just forgotten what it needs.
pub(super) fn batches_in_row(batch: usize, items: u64) -> usize {
    let most = ROW.min(usize::try_from(items / 4).unwrap_or(ROW));
    (most / batch.max(1)).clamp(1, MOST_IN_ROW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_batches_are_written_in_rows_and_never_more_than_a_quarter_of_the_items() {
        let rows =
            |items| [1, 1024, 4096, 1 << 16, 1 << 18, 1 << 22].map(|batch| batches_in_row(batch, items));
        assert_eq!(rows(16_000_000), [64, 64, 64, 4, 1, 1]);
        assert_eq!(rows(40_000), [64, 9, 2, 1, 1, 1]);
        assert_eq!(rows(0), [1; 6]);
    }
}
