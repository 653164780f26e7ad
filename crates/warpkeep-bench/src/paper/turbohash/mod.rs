//! "TurboHash: A Hash Table for Key-value Store on Persistent Memory", in DRAM.

mod distances;
mod figure;
mod items;
mod load;
mod rates;
mod restart;
mod scope;

use std::path::PathBuf;
use std::time::Duration;

pub use self::figure::Figure;
use crate::paper::each_once;
use crate::report::Report;
use crate::{BenchError, Progress};

/// Which figures, and how thoroughly.
#[derive(Clone, Debug)]
pub struct Options {
    /// A directory on a disk; a directory of its own is made in it, and removed.
    pub dir: PathBuf,
    /// A directory for images, best on tmpfs; used the same way.
    pub image_dir: PathBuf,
    /// The figures; all if empty.
    pub figures: Vec<Figure>,
    /// Items of a table; the paper has 100 to 120 million.
    pub items: u64,
    /// Threads at work in figure 6; 0 stands for all cores.
    pub threads: Vec<usize>,
    /// How often tables are filled anew.
    pub repeats: u32,
    /// Rounds of figure 6.
    pub rounds: u32,
    /// How long a round takes.
    pub round_time: Duration,
    /// Of everything random.
    pub seed: u64,
    /// How the benchmark was started, for the report.
    pub command: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            dir: PathBuf::from("."),
            image_dir: PathBuf::from("/dev/shm"),
            figures: Vec::new(),
            items: 16_000_000,
            threads: vec![1, 0],
            repeats: 3,
            rounds: 5,
            round_time: Duration::from_millis(500),
            seed: 1,
            command: "warpkeep bench paper turbohash".to_owned(),
        }
    }
}

impl Options {
    fn check(&self) -> Result<(), BenchError> {
        if self.repeats == 0 || self.rounds == 0 {
            return Err(BenchError::Invalid("at least one repeat and one round are needed".to_owned()));
        }
        if !(1000..=1 << 32).contains(&self.items) {
            return Err(BenchError::Invalid(format!(
                "{} items are not possible; take 1000 to 2^32",
                self.items
            )));
        }
        Ok(())
    }
}

/// Measures figures. Files are made in directories of their own and removed, also after an error.
///
/// ```no_run
/// use warpkeep_bench::{Quiet, paper::turbohash};
///
/// let options = turbohash::Options { figures: vec!["11".parse()?], items: 1_000_000, ..Default::default() };
/// print!("{}", turbohash::run(&options, &Quiet)?.to_text());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    options.check()?;
    let mut report = Report::new("paper turbohash", &options.command, options.seed);
    report.machine.add_place("disk", &options.dir)?;
    report.machine.add_place("image", &options.image_dir)?;
    report.notes.push(
        "the paper measured on Optane modules, with up to 40 threads; what is marked as published is what its text says, for its \
         figures carry no numbers"
            .to_owned(),
    );
    let figures = if options.figures.is_empty() { Figure::ALL.to_vec() } else { each_once(&options.figures) };
    for figure in figures {
        match figure {
            Figure::Scope => scope::run(options, progress, &mut report)?,
            Figure::Rates => rates::run(options, progress, &mut report)?,
            Figure::Load => load::run(options, progress, &mut report)?,
            Figure::Distances | Figure::Latency => distances::run(options, figure, progress, &mut report)?,
            Figure::Restart => restart::run(options, progress, &mut report)?,
        }
    }
    report.finish();
    Ok(report)
}
