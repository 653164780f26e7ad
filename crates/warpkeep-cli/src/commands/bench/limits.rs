//! `warpkeep bench limits`.

use std::time::Duration;

use clap::Args;
use warpkeep::DeviceChoice;
use warpkeep_bench::limits;
use warpkeep_bench::size::Size;

use super::{Files, Places, command_line};
use crate::failure::Failure;

/// How to run it.
#[derive(Debug, Args)]
pub(super) struct Limits {
    #[command(flatten)]
    places: Places,
    /// A device to measure as well: cuda:0 and so on, or sim, whose times mean nothing.
    #[arg(long, default_value_t, value_name = "DEVICE")]
    device: DeviceChoice,
    /// Device memory to gather from.
    #[arg(long, default_value = "8G", value_name = "SIZE")]
    device_memory: Size,
    /// Host memory that the device reaches over its link, one case each: the larger, the slower.
    #[arg(long, default_value = "1G,16G", value_delimiter = ',', value_name = "SIZE,...")]
    host_memory: Vec<Size>,
    /// Memory that the CPU reads random lines from.
    #[arg(long, default_value = "2G", value_name = "SIZE")]
    memory: Size,
    /// Threads at work, one case each; 0 stands for all cores.
    #[arg(long, default_value = "1,0", value_delimiter = ',', value_name = "N,...")]
    threads: Vec<usize>,
    /// How often each is measured.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// How long a round of the CPU takes.
    #[arg(long, default_value = "200ms", value_parser = humantime::parse_duration, value_name = "TIME")]
    round_time: Duration,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    pub(super) files: Files,
}

impl Limits {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let (dir, image_dir) = self.places.prepare()?;
        let options = limits::Options {
            dir: dir.to_path_buf(),
            image_dir: image_dir.to_path_buf(),
            device: self.device,
            device_bytes: self.device_memory.0,
            host_bytes: self.host_memory.iter().map(|size| size.0).collect(),
            memory_bytes: self.memory.0,
            threads: self.threads.clone(),
            rounds: self.rounds,
            round_time: self.round_time,
            seed: self.seed,
            command: command_line(),
        };
        self.files.run(|progress| limits::run(&options, progress))
    }
}
