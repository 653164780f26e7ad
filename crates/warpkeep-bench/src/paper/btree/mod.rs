//! "GPU Data Structures", chapters 3 and 4: the B-tree and the multiversion B-tree of the thesis, a sorted array, a log-structured merge tree and our ordered map, on one device in one run.

mod bench;
mod changes;
mod dictionary;
mod epochs;
mod increments;
mod levels;
mod link_tree;
mod memory;
mod part;
mod queries;
mod sorted_runs;
#[cfg(test)]
mod tests;
mod version_tree;

use warpkeep_device::{Device, DeviceChoice};

use self::bench::Bench;
pub use self::part::Part;
use crate::gpu::{Clock, check, invalid};
use crate::limits::device::note_of;
use crate::paper::each_once;
use crate::report::Report;
use crate::{BenchError, Progress};

/// Pairs, at least and at most.
const PAIRS: std::ops::RangeInclusive<usize> = 256..=1 << 28;

/// What is measured, and how thoroughly.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which device.
    pub device: DeviceChoice,
    /// The tables and figures; all if empty.
    pub parts: Vec<Part>,
    /// Pairs at the end of table 3.3.
    pub items: usize,
    /// Pairs of the structures of the figures, one case each.
    pub sizes: Vec<usize>,
    /// Operations of the batches of table 3.3 and figure 3.3, one case each.
    pub batches: Vec<usize>,
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
        let (items, sizes, batches) = match device {
            DeviceChoice::Sim => (512, vec![300], vec![64, 128]),
            _ => (1 << 25, vec![1 << 20, 1 << 22, 45_000_000], (16..=22).map(|bits| 1 << bits).collect()),
        };
        let command = "warpkeep bench paper btree".to_owned();
        Options { device, parts: Vec::new(), items, sizes, batches, rounds: 3, seed: 1, command }
    }

    fn check(&self) -> Result<(), BenchError> {
        check(self.device, self.rounds, &self.sizes)?;
        if !PAIRS.contains(&self.items) || self.sizes.iter().any(|size| !PAIRS.contains(size)) {
            return invalid("a tree has 256 to 2^28 pairs; give --items 2^25 and --sizes 2^20,45000000");
        }
        if self.batches.is_empty() || self.batches.iter().any(|&batch| batch == 0 || batch > self.items) {
            return invalid(
                "a batch has one operation at least and --items at most; give --batch 2^16..2^22",
            );
        }
        Ok(())
    }
}

/// Measures tables and figures.
///
/// ```no_run
/// use warpkeep_bench::{Quiet, paper::btree};
///
/// let options = btree::Options { parts: vec!["table 3.3".parse()?], ..btree::Options::on("cuda:0".parse()?) };
/// print!("{}", btree::run(&options, &Quiet)?.to_text());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    options.check()?;
    let mut report = Report::new("paper btree", &options.command, options.seed);
    let device = Device::open(options.device)?;
    report.notes.push(note_of(&device));
    report.notes.push(
        "the text measured chapter 3 on a Titan V and chapter 4 on a Tesla V100; what is marked as published is what it says in numbers; its B-tree is by our own kernels after the \
         text, without the errors of the published code: nodes of 128 bytes with 15 pairs, a tile of 16 lanes for each operation, links to the right, splits on the way down, operations that begin anew when they \
         do not get a latch; its multiversion B-tree has leaves of 14 pairs with a timestamp and the way to an older copy. In place, a leaf is copied once after a \
         snapshot that the host holds, and ranges read a snapshot that was taken before their batch; out of place, each change copies its leaf, each range takes a snapshot, and \
         its answer has exactly the insertions whose timestamps are not later; a split copies nothing. Copies are given back by epochs: a block of 128 threads announces the epoch \
         before every 128 operations and keeps its copies in a ring of 1024 until two epochs are over; if it has no room it waits between operations, and then answers that \
         the tree is full. Keys have 32 bits and are all different; \
         operations and answers lie in device memory; a sorted array and an LSM do not look for keys that they insert, answer nothing, and take memory for each merge within its time; every answer was checked"
            .to_owned(),
    );
    let clock = Clock::new(&device)?;
    let bench = Bench { options, device: &device, clock: &clock, progress };
    let parts = if options.parts.is_empty() { Part::ALL.to_vec() } else { each_once(&options.parts) };
    for part in parts {
        match part {
            Part::Latches => increments::latches(&bench, &mut report)?,
            Part::Increments => increments::run(&bench, &mut report)?,
            Part::Queries => queries::run(&bench, &mut report)?,
            Part::Rebuild => increments::beside_rebuilds(&bench, &mut report)?,
            Part::Deletions => changes::deletions(&bench, &mut report)?,
            Part::Mixes => changes::mixes(&bench, &mut report)?,
            Part::Inserted => queries::of_inserted(&bench, &mut report)?,
            Part::Ranges => changes::ranges(&bench, &mut report)?,
            Part::Lengths => changes::lengths(&bench, &mut report)?,
            Part::Lookups => changes::lookups(&bench, &mut report)?,
            Part::Memory => memory::run(&bench, &mut report)?,
        }
    }
    report.finish();
    Ok(report)
}
