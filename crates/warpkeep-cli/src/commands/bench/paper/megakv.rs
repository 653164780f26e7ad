//! `warpkeep bench paper megakv`.

use std::time::Duration;

use clap::Args;
use warpkeep::DeviceChoice;
use warpkeep_bench::paper::megakv;

use super::super::{Files, Places, command_line};
use crate::failure::Failure;

/// How to run it.
#[derive(Debug, Args)]
pub(super) struct Megakv {
    #[command(flatten)]
    places: Places,
    /// Only these figures, by number; by default all.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    figure: Vec<megakv::Figure>,
    /// The device that looks keys up beside the CPU: cuda:0 and so on, or sim, whose times mean nothing.
    #[arg(long, default_value_t, value_name = "DEVICE")]
    device: DeviceChoice,
    /// Items with keys and values of 8 bytes; of larger ones as many as have the same bytes together.
    #[arg(long, default_value_t = 64_000_000)]
    items: u64,
    /// Threads of the server.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Clients of each thread, each with one request at a time.
    #[arg(long, default_value_t = 1024)]
    clients: usize,
    /// Keys of a get.
    #[arg(long, default_value_t = 16)]
    keys_a_get: usize,
    /// Sizes of batches, in keys, whose time is measured for figures 11, 13 and 16.
    #[arg(long, value_delimiter = ',', default_value = "64,256,1024,4096,16384", value_name = "N,...")]
    batch: Vec<usize>,
    /// The cycles of figures 13 and 16.
    #[arg(long, value_delimiter = ',', default_value = "120us,160us,200us,240us,280us,320us", value_parser = humantime::parse_duration, value_name = "TIME,...")]
    cycles: Vec<Duration>,
    /// Rounds of each case.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// How long a round takes.
    #[arg(long, default_value = "500ms", value_parser = humantime::parse_duration, value_name = "TIME")]
    round_time: Duration,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    pub(super) files: Files,
}

impl Megakv {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let (dir, image_dir) = self.places.prepare()?;
        let options = megakv::Options {
            dir: dir.to_path_buf(),
            image_dir: image_dir.to_path_buf(),
            figures: self.figure.clone(),
            device: self.device,
            items: self.items,
            threads: self.threads,
            clients: self.clients,
            keys_a_get: self.keys_a_get,
            batches: self.batch.clone(),
            cycles: self.cycles.clone(),
            rounds: self.rounds,
            round_time: self.round_time,
            seed: self.seed,
            command: command_line(),
        };
        self.files.run(|progress| megakv::run(&options, progress))
    }
}
