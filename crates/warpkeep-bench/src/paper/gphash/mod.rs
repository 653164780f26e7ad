//! "GPHash: An Efficient Hash Index for GPU with Byte-Granularity Persistent Memory", by the CPU engine and by a device.

mod figure;
mod geometry;
mod load;
mod on_device;
mod sweep;
mod time;

use std::path::PathBuf;
use std::time::Duration;

use warpkeep_device::DeviceChoice;

pub use self::figure::Figure;
use crate::paper::each_once;
use crate::report::Report;
use crate::workload::Workload;
use crate::{BenchError, Progress, compare};

/// Bytes in a value, as in the paper.
const VALUE_BYTES: usize = 128;
/// Operations in a batch, as in the paper.
const BATCH: usize = 1 << 12;

/// Which figures, and how thoroughly.
#[derive(Clone, Debug)]
pub struct Options {
    /// A directory on a disk, for logs; a directory of its own is made in it, and removed.
    pub dir: PathBuf,
    /// A directory for images, best on tmpfs; used in the same way.
    pub image_dir: PathBuf,
    /// The figures; if empty, those that the CPU engine can do, or those that the device can.
    pub figures: Vec<Figure>,
    /// The device for figures that need one; without one they are named and not measured.
    pub device: DeviceChoice,
    /// Items of a table; the paper has 16 million.
    pub items: u64,
    /// Threads at work; 0 stands for all cores.
    pub threads: usize,
    /// How often everything is loaded and measured anew.
    pub repeats: u32,
    /// Rounds of each repeat.
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
            items: 16_000_000,
            threads: 0,
            repeats: 3,
            rounds: 3,
            round_time: Duration::from_millis(500),
            seed: 1,
            command: "warpkeep bench paper gphash".to_owned(),
        }
    }
}

impl Options {
    /// The defaults for this device. A device is less disturbed by its own work than a CPU: one short round is as
    /// good as three long ones, and the duration of a figure depends on the host, which checks every answer.
    pub fn on(device: DeviceChoice) -> Options {
        match device {
            DeviceChoice::Cpu => Options::default(),
            _ => Options {
                device,
                repeats: 1,
                rounds: 1,
                round_time: Duration::from_millis(20),
                ..Options::default()
            },
        }
    }

    /// A comparison of our table with the limits of memory, with the paper's workloads.
    fn compare(&self) -> compare::Options {
        compare::Options {
            dir: self.dir.clone(),
            image_dir: self.image_dir.clone(),
            workload: Workload { items: self.items, key_bytes: 8, value_bytes: VALUE_BYTES, seed: self.seed },
            threads: vec![self.threads],
            batches: vec![BATCH],
            // The paper's tables have no log: they lie in persistent memory, as ours lies in its image.
            promise: compare::Promise::NoLog,
            rounds: self.rounds,
            round_time: self.round_time,
            only: vec!["memory".to_owned()],
            command: self.command.clone(),
            ..compare::Options::default()
        }
    }

    fn check(&self) -> Result<(), BenchError> {
        if self.repeats == 0 || self.rounds == 0 {
            return Err(BenchError::Invalid("at least one repeat and one round are needed".to_owned()));
        }
        if self.items < 1000 {
            return Err(BenchError::Invalid(format!("{} items are too few; take at least 1000", self.items)));
        }
        self.compare().workload.check()
    }
}

/// Measures figures. Files are made in directories of their own and removed, also after an error.
///
/// ```no_run
/// use warpkeep_bench::{Quiet, paper::gphash};
///
/// let options = gphash::Options { figures: vec!["14".parse()?], items: 1_000_000, ..Default::default() };
/// print!("{}", gphash::run(&options, &Quiet)?.to_text());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    options.check()?;
    let mut report = Report::new("paper gphash", &options.command, options.seed);
    report.machine.add_place("log", &options.dir)?;
    report.machine.add_place("image", &options.image_dir)?;
    report.notes.push(
        "the paper measured on a V100 with six Optane modules; what is marked as published is what its text says, for its figures \
         carry no numbers"
            .to_owned(),
    );
    let has_device = options.device != DeviceChoice::Cpu;
    if options.device == DeviceChoice::Sim {
        report
            .notes
            .push("sim is a simulator: its figures show that everything runs, and nothing else".to_owned());
    }
    let figures = match (options.figures.is_empty(), has_device) {
        (false, _) => each_once(&options.figures),
        (true, true) => Figure::on_device().collect(),
        (true, false) => Figure::on_cpu().collect(),
    };
    for figure in figures {
        match figure.number() {
            7 => load::run(options, progress, &mut report)?,
            12 => sweep::run(options, progress, &mut report)?,
            13 => geometry::run(options, progress, &mut report)?,
            14 => time::run(options, progress, &mut report)?,
            number if figure.is_on_device() && has_device => {
                on_device::run(number, options, progress, &mut report)?;
            }
            _ => report.notes.push(figure.needs()),
        }
    }
    report.finish();
    Ok(report)
}
