//! `warpkeep bench profile`.

use std::time::Duration;

use clap::Args;
use warpkeep::DeviceChoice;
use warpkeep_bench::device::{self, ProfileOptions};
use warpkeep_bench::workload::Workload;

use super::{Files, Places, command_line};
use crate::failure::Failure;
use crate::output;

/// How to run it.
#[derive(Debug, Args)]
pub(super) struct Profile {
    #[command(flatten)]
    places: Places,
    /// The device: cuda:0 and so on, or sim, whose times mean nothing.
    #[arg(long, default_value = "cuda:0", value_name = "DEVICE")]
    device: DeviceChoice,
    /// Items in the table; by default 16 million, and a few thousand on the simulator.
    #[arg(long, value_name = "N")]
    items: Option<u64>,
    /// Bytes in a value.
    #[arg(long, default_value_t = 128, value_name = "BYTES")]
    value_bytes: usize,
    /// Operations in the largest batch.
    #[arg(long, value_name = "N")]
    largest: Option<usize>,
    /// How often each setting is measured.
    #[arg(long)]
    rounds: Option<u32>,
    /// How long batches of one size go on in a round.
    #[arg(long, value_parser = humantime::parse_duration, value_name = "TIME")]
    round_time: Option<Duration>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep the profile: stores that open this device later use it.
    #[arg(long)]
    save: bool,
    #[command(flatten)]
    pub(super) files: Files,
}

impl Profile {
    pub(super) fn run(&self) -> Result<(), Failure> {
        if self.save && !matches!(self.device, DeviceChoice::Cuda(_)) {
            return Err(Failure::error(
                "only a GPU has a stored profile; leave out --save, or give --device cuda:0",
            ));
        }
        let (dir, image_dir) = self.places.prepare()?;
        let usual = ProfileOptions::on(self.device);
        let options = ProfileOptions {
            dir: dir.to_path_buf(),
            image_dir: image_dir.to_path_buf(),
            device: self.device,
            workload: Workload {
                items: self.items.unwrap_or(usual.workload.items),
                value_bytes: self.value_bytes,
                seed: self.seed,
                ..usual.workload
            },
            largest: self.largest.unwrap_or(usual.largest),
            rounds: self.rounds.unwrap_or(usual.rounds),
            round_time: self.round_time.unwrap_or(usual.round_time),
            command: command_line(),
        };
        let mut measured = None;
        self.files.run(|progress| {
            let (report, profile) = device::run_profile(&options, progress)?;
            measured = Some(profile);
            Ok::<_, warpkeep_bench::BenchError>(report)
        })?;
        let (true, Some(profile)) = (self.save, measured) else { return Ok(()) };
        let devices = warpkeep::devices();
        let Some(info) = devices.iter().find(|info| info.choice == self.device) else { return Ok(()) };
        let path = profile.save(info).map_err(warpkeep::Error::from)?;
        match self.files.on_stdout() {
            true => Ok(()),
            false => output::print(&format!("saved as {}\n", path.display())),
        }
    }
}
