//! "Mega-KV: A Case for GPUs to Maximize the Throughput of In-Memory Key-Value Stores".

mod figure;
mod index;
mod pipeline;

use std::path::PathBuf;
use std::time::Duration;

use warpkeep_device::DeviceChoice;

pub use self::figure::Figure;
use self::figure::Part;
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
    /// The device that looks keys up, beside the CPU.
    pub device: DeviceChoice,
    /// Items with keys and values of 8 bytes. Of larger ones there are fewer, with as many bytes together.
    pub items: u64,
    /// Threads of the server.
    pub threads: usize,
    /// Clients of each thread, each with one request at a time.
    pub clients: usize,
    /// Keys of a get.
    pub keys_a_get: usize,
    /// The sizes of batches, in keys, whose time is measured for figures 11, 13 and 16.
    pub batches: Vec<usize>,
    /// The cycles of figures 13 and 16.
    pub cycles: Vec<Duration>,
    /// Rounds of each case.
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
            device: DeviceChoice::Cpu,
            items: 64_000_000,
            threads: 1,
            clients: 1024,
            keys_a_get: 16,
            batches: vec![64, 256, 1024, 4096, 16_384],
            cycles: [120, 160, 200, 240, 280, 320].map(Duration::from_micros).to_vec(),
            rounds: 3,
            round_time: Duration::from_millis(500),
            seed: 1,
            command: "warpkeep bench paper megakv".to_owned(),
        }
    }
}

impl Options {
    fn check(&self) -> Result<(), BenchError> {
        let wrong = |what: String| Err(BenchError::Invalid(what));
        if self.rounds == 0 || self.round_time.is_zero() {
            return wrong("at least one round, and some time for it, are needed".to_owned());
        }
        if !(1000..=100_000_000).contains(&self.items) {
            return wrong(format!("{} items are not possible; take 1000 to 10^8", self.items));
        }
        if !(1..=512).contains(&self.threads) || !(1..=1 << 16).contains(&self.clients) {
            return wrong(format!(
                "{} threads with {} clients each are not possible; take 1 to 512 threads, and 1 to 65536 clients",
                self.threads, self.clients
            ));
        }
        if !(1..=1024).contains(&self.keys_a_get) {
            return wrong(format!("{} keys of a get are not possible; take 1 to 1024", self.keys_a_get));
        }
        if self.batches.len() < 2 || self.batches.iter().any(|batch| !(1..=1 << 20).contains(batch)) {
            return wrong("two sizes of batches or more are needed, of 1 to 2^20 keys".to_owned());
        }
        if self.cycles.iter().any(Duration::is_zero) {
            return wrong("a cycle takes some time; write 120us, for example".to_owned());
        }
        Ok(())
    }
}

/// Measures figures. Files are made in directories of their own and removed, also after an error.
///
/// ```no_run
/// use warpkeep_bench::{Quiet, paper::megakv};
///
/// let options = megakv::Options { figures: vec!["14".parse()?], items: 1_000_000, ..Default::default() };
/// print!("{}", megakv::run(&options, &Quiet)?.to_text());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    options.check()?;
    let mut report = Report::new("paper megakv", &options.command, options.seed);
    report.machine.add_place("disk", &options.dir)?;
    report.machine.add_place("image", &options.image_dir)?;
    report.notes.push(
        "the paper measured with two Xeon E5-2650v2 and two GTX 780; what is marked as published is what its text says"
            .to_owned(),
    );
    if options.device == DeviceChoice::Sim {
        report
            .notes
            .push("sim is a simulator: its figures show that everything runs, and nothing else".to_owned());
    }
    let figures = match options.figures.is_empty() {
        true => Figure::all().collect(),
        false => each_once(&options.figures),
    };
    for figure in figures {
        match figure.part() {
            Part::Index => index::run(figure.number(), options, progress, &mut report)?,
            Part::Pipeline => pipeline::run(figure.number(), options, progress, &mut report)?,
        }
    }
    report.finish();
    pipeline::charts(&mut report);
    Ok(report)
}
