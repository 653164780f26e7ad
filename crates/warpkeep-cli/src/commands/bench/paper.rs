//! `warpkeep bench paper`.

use std::time::Duration;

use clap::{Args, Subcommand};
use warpkeep::DeviceChoice;
use warpkeep_bench::paper::gphash;

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
    /// For figures that cannot be measured it says what they need.
    #[command(after_help = EXIT_CODES)]
    Gphash(Gphash),
}

/// How to run it.
#[derive(Debug, Args)]
struct Gphash {
    #[command(flatten)]
    places: Places,
    /// Only these figures, by number; if not said, 7,12,13,14, or with a device 5,6,9,11,15.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    figure: Vec<gphash::Figure>,
    /// What works the tables of figures that need a device: cuda:0 and so on, or sim, whose figures mean nothing.
    #[arg(long, default_value_t, value_name = "DEVICE")]
    device: DeviceChoice,
    /// Items of a table.
    #[arg(long, default_value_t = 16_000_000)]
    items: u64,
    /// Threads at work; 0 stands for all cores.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// How often everything is loaded and measured anew.
    #[arg(long, default_value_t = 3)]
    repeats: u32,
    /// Rounds of each repeat.
    #[arg(long, default_value_t = 3)]
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
        let Which::Gphash(gphash) = &self.which;
        gphash.files.on_stdout()
    }

    pub(super) fn run(&self) -> Result<(), Failure> {
        let Which::Gphash(gphash) = &self.which;
        gphash.run()
    }
}

impl Gphash {
    fn run(&self) -> Result<(), Failure> {
        let (dir, image_dir) = self.places.prepare()?;
        let options = gphash::Options {
            dir: dir.to_path_buf(),
            image_dir: image_dir.to_path_buf(),
            figures: self.figure.clone(),
            device: self.device,
            items: self.items,
            threads: self.threads,
            repeats: self.repeats,
            rounds: self.rounds,
            round_time: self.round_time,
            seed: self.seed,
            command: command_line(),
        };
        self.files.run(|progress| gphash::run(&options, progress))
    }
}
