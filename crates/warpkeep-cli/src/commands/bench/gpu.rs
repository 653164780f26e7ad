//! `warpkeep bench gpu`.

use clap::{Args, Subcommand};
use warpkeep::DeviceChoice;
use warpkeep_bench::BatchSizes;
use warpkeep_bench::gpu::{map, sort};

use super::{Files, command_line};
use crate::EXIT_CODES;
use crate::failure::Failure;

/// Which container.
#[derive(Debug, Args)]
pub(super) struct Gpu {
    #[command(subcommand)]
    which: Which,
}

#[derive(Debug, Subcommand)]
enum Which {
    /// Radix sort: items a second of keys alone and of keys with values.
    ///
    /// Random keys in device memory are sorted, and compared with what the sort of the standard library makes of them, which is measured
    /// beside it. The bytes that a sort moves are compared with copies within device memory, measured in the same run.
    #[command(after_help = EXIT_CODES)]
    Sort(Sort),
    /// Hash map of 64-bit keys and values: operations a second by how full it is, and the time of doubling.
    ///
    /// All keys are inserted at once, found, not found, used in mixed batches and erased, also in smaller batches, with operations and answers in device memory; then
    /// maps are filled until they double. The same batches go to the twin of the map on the CPU. Every answer is checked, and rates are
    /// compared with random reads of device memory, measured in the same run.
    #[command(after_help = EXIT_CODES)]
    Map(Map),
}

/// How to run it.
#[derive(Debug, Args)]
struct Sort {
    /// The device: cuda:0 and so on, or sim, whose figures mean nothing.
    #[arg(long, default_value = "cuda:0", value_name = "DEVICE")]
    device: DeviceChoice,
    /// Items of a sort, one case each, up to 2^30: numbers, 2^20, or 2^16..2^24 for all powers of two and 2^16..2^24:4 for every fourth.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    items: Vec<BatchSizes>,
    /// Bytes of a key and of its value, one case each: 4 or 8 for keys alone, 4+4, 4+8, 8+4, 8+8.
    #[arg(long, value_delimiter = ',', value_name = "BYTES,...")]
    shapes: Vec<sort::Shape>,
    /// How often everything is measured.
    #[arg(long)]
    rounds: Option<u32>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    files: Files,
}

/// How to run it.
#[derive(Debug, Args)]
struct Map {
    /// The device: cuda:0 and so on, or sim, whose figures mean nothing.
    #[arg(long, default_value = "cuda:0", value_name = "DEVICE")]
    device: DeviceChoice,
    /// Slots of the map, one case each, 256 to 2^30, rounded up to a power of two: numbers, 2^20, or 2^20..2^28:4 for every fourth power
    /// of two.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    items: Vec<BatchSizes>,
    /// Keys as a share of the slots, one case each, 0.05 to 0.93.
    #[arg(long, value_delimiter = ',', value_name = "SHARE,...")]
    load: Vec<f64>,
    /// Operations of smaller batches, one case each, on a map that stays as full as it is; batches too large for a map are left out.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    batch: Vec<BatchSizes>,
    /// How often everything is measured.
    #[arg(long)]
    rounds: Option<u32>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    files: Files,
}

impl Gpu {
    pub(super) fn on_stdout(&self) -> bool {
        match &self.which {
            Which::Sort(sort) => sort.files.on_stdout(),
            Which::Map(map) => map.files.on_stdout(),
        }
    }

    pub(super) fn run(&self) -> Result<(), Failure> {
        match &self.which {
            Which::Sort(sort) => sort.run(),
            Which::Map(map) => map.run(),
        }
    }
}

impl Sort {
    fn run(&self) -> Result<(), Failure> {
        let usual = sort::Options::on(self.device);
        let options = sort::Options {
            device: self.device,
            items: given(BatchSizes::all(&self.items), usual.items),
            shapes: given(self.shapes.clone(), usual.shapes),
            rounds: self.rounds.unwrap_or(usual.rounds),
            seed: self.seed,
            command: command_line(),
        };
        self.files.run(|progress| sort::run(&options, progress))
    }
}

impl Map {
    fn run(&self) -> Result<(), Failure> {
        let usual = map::Options::on(self.device);
        let options = map::Options {
            device: self.device,
            items: given(BatchSizes::all(&self.items), usual.items),
            loads: given(self.load.clone(), usual.loads),
            batches: given(BatchSizes::all(&self.batch), usual.batches),
            rounds: self.rounds.unwrap_or(usual.rounds),
            seed: self.seed,
            command: command_line(),
        };
        self.files.run(|progress| map::run(&options, progress))
    }
}

/// The given values, or the default ones.
fn given<T>(given: Vec<T>, usual: Vec<T>) -> Vec<T> {
    if given.is_empty() { usual } else { given }
}
