//! `warpkeep bench scale`.

use std::time::Duration;

use clap::Args;
use warpkeep::DeviceChoice;
use warpkeep_bench::device::{self, ScaleOptions};

use super::{Files, Places, command_line};
use crate::failure::Failure;

/// How to run it.
#[derive(Debug, Args)]
pub(super) struct ScaleArgs {
    #[command(flatten)]
    places: Places,
    /// The device: cuda:0 and so on, or sim, whose times mean nothing.
    #[arg(long, default_value = "cuda:0", value_name = "DEVICE")]
    device: DeviceChoice,
    /// Numbers of items, one case each; by default 1, 4, 16 and 64 million, and a few thousand on the simulator.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    sizes: Vec<u64>,
    /// Bytes in a value.
    #[arg(long, default_value_t = 128, value_name = "BYTES")]
    value_bytes: usize,
    /// Operations in a batch, but no more than a quarter of the items: all sizes are measured with the first, the
    /// largest also with the others.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    batch: Vec<usize>,
    /// How often each is measured.
    #[arg(long)]
    rounds: Option<u32>,
    /// How long batches go on in a round.
    #[arg(long, value_parser = humantime::parse_duration, value_name = "TIME")]
    round_time: Option<Duration>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    pub(super) files: Files,
}

impl ScaleArgs {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let (dir, image_dir) = self.places.prepare()?;
        let usual = ScaleOptions::on(self.device);
        let options = ScaleOptions {
            dir: dir.to_path_buf(),
            image_dir: image_dir.to_path_buf(),
            device: self.device,
            sizes: if self.sizes.is_empty() { usual.sizes } else { self.sizes.clone() },
            value_bytes: self.value_bytes,
            batches: if self.batch.is_empty() { usual.batches } else { self.batch.clone() },
            rounds: self.rounds.unwrap_or(usual.rounds),
            round_time: self.round_time.unwrap_or(usual.round_time),
            seed: self.seed,
            command: command_line(),
        };
        self.files.run(|progress| device::run_scale(&options, progress))
    }
}
