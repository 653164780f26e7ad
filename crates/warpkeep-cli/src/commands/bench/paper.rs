//! `warpkeep bench paper`.

use std::time::Duration;

use clap::{Args, Subcommand};
use warpkeep::DeviceChoice;
use warpkeep_bench::paper::{gphash, turbohash};

use super::{Files, Places, command_line};
use crate::EXIT_CODES;
use crate::failure::Failure;

/// Which paper.
#[derive(Debug, Args)]
pub(super) struct Paper {
    #[command(subcommand)]
    which: Which,
}

#[derive(Debug, Subcommand)]
enum Which {
    /// GPHash: figures 7, 12, 13 and 14 by the CPU engine; 5, 6, 9, 11 and 15 by a device.
    ///
    /// For figures that cannot be measured it reports their requirements.
    #[command(after_help = EXIT_CODES)]
    Gphash(Gphash),
    /// TurboHash: figures 1, 6, 10, 11 and 12, and how long coming back takes.
    #[command(after_help = EXIT_CODES)]
    Turbohash(Turbohash),
}

/// How to run it.
#[derive(Debug, Args)]
struct Gphash {
    #[command(flatten)]
    places: Places,
    /// Only these figures, by number; by default 7,12,13,14, or with a device 5,6,9,11,15.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    figure: Vec<gphash::Figure>,
    /// The device for figures that need one: cuda:0 and so on, or sim, whose figures mean nothing.
    #[arg(long, default_value_t, value_name = "DEVICE")]
    device: DeviceChoice,
    /// Items of a table.
    #[arg(long, default_value_t = 16_000_000)]
    items: u64,
    /// Threads at work; 0 stands for all cores.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// How often everything is loaded and measured anew; by default three times, and once with a device.
    #[arg(long)]
    repeats: Option<u32>,
    /// Rounds of each repeat; by default three, and one with a device.
    #[arg(long)]
    rounds: Option<u32>,
    /// How long a round takes; by default 500ms, and 20ms with a device.
    #[arg(long, value_parser = humantime::parse_duration, value_name = "TIME")]
    round_time: Option<Duration>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    files: Files,
}

/// How to run it.
#[derive(Debug, Args)]
struct Turbohash {
    #[command(flatten)]
    places: Places,
    /// Only these, by number, or restart; by default all.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    figure: Vec<turbohash::Figure>,
    /// Items of a table.
    #[arg(long, default_value_t = 16_000_000)]
    items: u64,
    /// Threads at work in figure 6; 0 stands for all cores.
    #[arg(long, value_delimiter = ',', default_value = "1,0", value_name = "N,...")]
    threads: Vec<usize>,
    /// How often tables are filled anew.
    #[arg(long, default_value_t = 3)]
    repeats: u32,
    /// Rounds of figure 6.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// How long a round takes.
    #[arg(long, default_value = "500ms", value_parser = humantime::parse_duration, value_name = "TIME")]
    round_time: Duration,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    files: Files,
}

impl Paper {
    pub(super) fn on_stdout(&self) -> bool {
        match &self.which {
            Which::Gphash(gphash) => gphash.files.on_stdout(),
            Which::Turbohash(turbohash) => turbohash.files.on_stdout(),
        }
    }

    pub(super) fn run(&self) -> Result<(), Failure> {
        match &self.which {
            Which::Gphash(gphash) => gphash.run(),
            Which::Turbohash(turbohash) => turbohash.run(),
        }
    }
}

impl Turbohash {
    fn run(&self) -> Result<(), Failure> {
        let (dir, image_dir) = self.places.prepare()?;
        let options = turbohash::Options {
            dir: dir.to_path_buf(),
            image_dir: image_dir.to_path_buf(),
            figures: self.figure.clone(),
            items: self.items,
            threads: self.threads.clone(),
            repeats: self.repeats,
            rounds: self.rounds,
            round_time: self.round_time,
            seed: self.seed,
            command: command_line(),
        };
        self.files.run(|progress| turbohash::run(&options, progress))
    }
}

impl Gphash {
    fn run(&self) -> Result<(), Failure> {
        let (dir, image_dir) = self.places.prepare()?;
        let usual = gphash::Options::on(self.device);
        let options = gphash::Options {
            dir: dir.to_path_buf(),
            image_dir: image_dir.to_path_buf(),
            figures: self.figure.clone(),
            device: self.device,
            items: self.items,
            threads: self.threads,
            repeats: self.repeats.unwrap_or(usual.repeats),
            rounds: self.rounds.unwrap_or(usual.rounds),
            round_time: self.round_time.unwrap_or(usual.round_time),
            seed: self.seed,
            command: command_line(),
        };
        self.files.run(|progress| gphash::run(&options, progress))
    }
}
