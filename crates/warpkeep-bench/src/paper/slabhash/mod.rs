//! "A Dynamic Hash Table for the GPU" (the slab hash), by our slab hash and by the paper's own layout, both on one device in one run.

mod allocation;
mod bench;
mod cuckoo_table;
mod figure;
mod increments;
mod mixes;
mod node_list;
mod size;
mod utilisation;
mod warp_table;

#[cfg(test)]
mod tests;

use warpkeep_device::{Device, DeviceChoice};

use self::bench::Bench;
pub use self::figure::Figure;
use crate::gpu::{Clock, check, invalid};
use crate::limits::device::note_of;
use crate::paper::each_once;
use crate::report::Report;
use crate::{BenchError, Progress};

/// Pairs of a table, at least and at most.
const PAIRS: std::ops::RangeInclusive<usize> = 256..=1 << 29;

/// Which figures, and how thoroughly.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which device.
    pub device: DeviceChoice,
    /// The figures; all if empty.
    pub figures: Vec<Figure>,
    /// Pairs of a table; the paper has 2^22.
    pub items: usize,
    /// Pairs of the tables of figure 5, one case each.
    pub sizes: Vec<usize>,
    /// How often everything is measured.
    pub rounds: u32,
    /// Of everything random.
    pub seed: u64,
    /// How the benchmark was started, for the report.
    pub command: String,
}

impl Options {
    /// The defaults for this device, those of the paper; on the simulator as many pairs as it handles in a moment.
    pub fn on(device: DeviceChoice) -> Options {
        let (items, sizes) = match device {
            DeviceChoice::Sim => (512, vec![256, 512]),
            _ => (1 << 22, (16..=26).step_by(2).map(|bits| 1 << bits).collect()),
        };
        let command = "warpkeep bench paper slabhash".to_owned();
        Options { device, figures: Vec::new(), items, sizes, rounds: 3, seed: 1, command }
    }

    fn check(&self) -> Result<(), BenchError> {
        check(self.device, self.rounds, &self.sizes)?;
        if !PAIRS.contains(&self.items) || self.sizes.iter().any(|size| !PAIRS.contains(size)) {
            return invalid("a table has 256 to 2^29 pairs; give --items 2^22 and --sizes 2^16..2^26:2");
        }
        Ok(())
    }
}

/// Measures figures.
///
/// ```no_run
/// use warpkeep_bench::{Quiet, paper::slabhash};
///
/// let options = slabhash::Options { figures: vec!["4a".parse()?], ..slabhash::Options::on("cuda:0".parse()?) };
/// print!("{}", slabhash::run(&options, &Quiet)?.to_text());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    options.check()?;
    let mut report = Report::new("paper slabhash", &options.command, options.seed);
    let device = Device::open(options.device)?;
    report.notes.push(note_of(&device));
    report.notes.push(
        "the paper measured on a Tesla K40c; what is marked as published is what its text says, for its figures carry no numbers; the paper's layout is that of \
         its text, by our own kernels: slabs of 128 bytes with 15 pairs, a warp for each request, without the errors of the published code; the cuckoo index stands for CUDPP's \
         cuckoo hashing; insertions replace, so that keys are unique; requests and answers lie in device memory; every answer was checked"
            .to_owned(),
    );
    let clock = Clock::new(&device)?;
    let bench = Bench { options, device: &device, clock: &clock, progress };
    let figures = if options.figures.is_empty() { Figure::ALL.to_vec() } else { each_once(&options.figures) };
    for figure in figures {
        match figure {
            Figure::Allocation => allocation::run(&bench, &mut report)?,
            Figure::Build => utilisation::build(&bench, &mut report)?,
            Figure::Search => utilisation::search(&bench, &mut report)?,
            Figure::Size => size::run(&bench, &mut report)?,
            Figure::Increments => increments::run(&bench, &mut report)?,
            Figure::Mixes => mixes::by_utilisation(&bench, &mut report)?,
            Figure::Lists => mixes::beside_lists(&bench, &mut report)?,
        }
    }
    report.finish();
    Ok(report)
}
