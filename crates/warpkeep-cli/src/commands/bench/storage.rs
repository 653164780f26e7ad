//! `warpkeep bench storage`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use warpkeep_bench::size::Size;
use warpkeep_bench::storage;

use super::{Files, Places, command_line};
use crate::failure::Failure;

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
pub(super) struct Storage {
    #[command(flatten)]
    places: Places,
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
    pub(super) files: Files,
}

impl Storage {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let (dir, image_dir) = self.places.prepare()?;
        let options = storage::Options {
            dir: dir.to_path_buf(),
            image_dir: image_dir.to_path_buf(),
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
        self.files.run(|progress| storage::run(&options, progress))
    }
}
