//! `warpkeep bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use warpkeep_bench::report::Report;
use warpkeep_bench::size::Size;
use warpkeep_bench::storage;

use crate::EXIT_CODES;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
use crate::progress::Bars;

/// What to measure.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: Benchmark,
}

/// One a benchmark.
#[derive(Debug, Subcommand)]
enum Benchmark {
    /// What durability costs, and how long coming back takes.
    ///
    /// Commits with Power by one writer and by many, against bare loops of write and fdatasync on the same disk in
    /// the same rounds; then stores of some sizes are brought back after a crash of the process and after the loss of
    /// their image.
    #[command(after_help = EXIT_CODES)]
    Storage(Storage),
}

impl Bench {
    pub(crate) fn wants_json(&self) -> bool {
        match &self.what {
            Benchmark::Storage(storage) => storage.files.on_stdout(),
        }
    }

    pub(crate) fn run(&self) -> Result<(), Failure> {
        match &self.what {
            Benchmark::Storage(storage) => storage.run(),
        }
    }
}

/// Where results go.
#[derive(Debug, Args)]
struct Files {
    /// Write every figure of every round to this file.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write everything, the machine included, to this file; without a file, print it instead of tables.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    json: Option<Option<PathBuf>>,
}

impl Files {
    fn on_stdout(&self) -> bool {
        matches!(self.json, Some(None))
    }

    fn write(&self, report: &Report) -> Result<(), Failure> {
        if let Some(path) = &self.csv {
            report.write_csv(path)?;
        }
        if let Some(Some(path)) = &self.json {
            report.write_json(path)?;
        }
        match self.on_stdout() {
            true => output::print(&(report.to_json()? + "\n")),
            false => output::print(&report.to_text()),
        }
    }
}

/// A part of the storage benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Group commit.
    Commit,
    /// Re-attach and rebuild.
    Recovery,
}

/// How to run it.
#[derive(Debug, Args)]
struct Storage {
    /// A directory on the disk to measure; made if it is missing. What the benchmark writes there it removes.
    #[arg(long, default_value = ".", value_name = "DIR")]
    dir: PathBuf,
    /// A directory for images, on tmpfs; --dir if it is missing.
    #[arg(long, default_value = "/dev/shm", value_name = "DIR")]
    image_dir: PathBuf,
    /// Only this part.
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// Threads that commit at once, one case each.
    #[arg(long, default_value = "1,16,64", value_delimiter = ',', value_name = "N,...")]
    writers: Vec<usize>,
    /// Rounds of each variant of a case.
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// How long a round takes.
    #[arg(long, default_value = "1s", value_parser = humantime::parse_duration, value_name = "TIME")]
    round_time: Duration,
    /// Live data of the stores to bring back, one case each.
    #[arg(long, default_value = "1G", value_delimiter = ',', value_name = "SIZE,...")]
    sizes: Vec<Size>,
    /// Bytes in a value of those stores.
    #[arg(long, default_value_t = 1024, value_name = "BYTES")]
    value_bytes: usize,
    /// Writes after the checkpoint, as a share of the items in per cent.
    #[arg(long, default_value_t = 10, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    tail_percent: u32,
    /// How often each store is brought back, either way.
    #[arg(long, default_value_t = 3)]
    repeats: u32,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    files: Files,
}

impl Storage {
    fn run(&self) -> Result<(), Failure> {
        let doing = format!("make the directory {}", self.dir.display());
        std::fs::create_dir_all(&self.dir).map_err(Failure::io(doing))?;
        let options = storage::Options {
            dir: self.dir.clone(),
            image_dir: if self.image_dir.is_dir() { self.image_dir.clone() } else { self.dir.clone() },
            writers: if self.only == Some(Part::Recovery) { Vec::new() } else { self.writers.clone() },
            rounds: self.rounds,
            round_time: self.round_time,
            sizes: if self.only == Some(Part::Commit) { Vec::new() } else { self.sizes.clone() },
            value_bytes: self.value_bytes,
            tail_percent: self.tail_percent,
            repeats: self.repeats,
            seed: self.seed,
            command: command_line(),
        };
        let bars = Bars::new(!self.files.on_stdout(), &Interrupt::listen()?);
        let report = storage::run(&options, &bars)?;
        drop(bars);
        self.files.write(&report)
    }
}

/// How the program was started, without where it lies.
fn command_line() -> String {
    let quoted = |argument: String| match argument.contains(char::is_whitespace) || argument.is_empty() {
        true => format!("'{argument}'"),
        false => argument,
    };
    let arguments =
        std::env::args_os().skip(1).map(|argument| quoted(argument.to_string_lossy().into_owned()));
    std::iter::once("warpkeep".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}
