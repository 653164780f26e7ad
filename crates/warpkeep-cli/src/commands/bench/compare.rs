//! `warpkeep bench compare`.

use std::time::Duration;

use clap::Args;
use warpkeep::Durability;
use warpkeep_bench::compare;
use warpkeep_bench::workload::Workload;

use super::{Files, Places, command_line, durability};
use crate::failure::Failure;

/// How to run it.
#[derive(Debug, Args)]
pub(super) struct Compare {
    #[command(flatten)]
    places: Places,
    /// Items that everybody holds.
    #[arg(long, default_value_t = 16_000_000)]
    items: u64,
    /// Bytes in a key, 8 to 128; maps are built for 8 and 32.
    #[arg(long, default_value_t = 8, value_name = "BYTES")]
    key_bytes: usize,
    /// Bytes in a value, 8 to 1 MiB; maps are built for 8, 64, 128 and 1024.
    #[arg(long, default_value_t = 128, value_name = "BYTES")]
    value_bytes: usize,
    /// Threads at work, one case each; 0 stands for all cores.
    #[arg(long, default_value = "1,0", value_delimiter = ',', value_name = "N,...")]
    threads: Vec<usize>,
    /// Operations in a batch, or in a transaction.
    #[arg(long, default_value_t = 1024, value_name = "N")]
    batch: usize,
    /// What a put must survive: process or power.
    #[arg(long, default_value = "process", value_parser = durability)]
    durability: Durability,
    /// Rounds of each contestant.
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// How long a contestant works in a round.
    #[arg(long, default_value = "500ms", value_parser = humantime::parse_duration, value_name = "TIME")]
    round_time: Duration,
    /// Only these contestants, and warpkeep.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    only: Vec<String>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    pub(super) files: Files,
}

impl Compare {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let (dir, image_dir) = self.places.prepare()?;
        let options = compare::Options {
            dir: dir.to_path_buf(),
            image_dir: image_dir.to_path_buf(),
            workload: Workload {
                items: self.items,
                key_bytes: self.key_bytes,
                value_bytes: self.value_bytes,
                seed: self.seed,
            },
            threads: self.threads.clone(),
            batch: self.batch,
            durability: self.durability,
            rounds: self.rounds,
            round_time: self.round_time,
            only: self.only.clone(),
            command: command_line(),
            ..compare::Options::default()
        };
        self.files.run(|progress| compare::run(&options, progress))
    }
}
