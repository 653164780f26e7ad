//! `warpkeep demo`: the engine at work, and the effects of crashes.

mod model;
mod places;
mod plan;
mod report;
mod run;
mod victim;
mod writer;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::Format;
use crate::progress::Bars;
use crate::store::Worked;
use places::Places;
use plan::Plan;
use run::Run;
pub(crate) use writer::DemoWriter;

/// The table of the demonstration.
const TABLE: &str = "embeddings";
/// Threads of the writer that is killed.
const WRITERS: u32 = 4;

/// How much of it.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Where to make a directory for the store; by default the system's place for temporary files.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Rows to load.
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(400..=1 << 32))]
    items: u64,
    /// How long rows are looked up.
    #[arg(long, default_value = "2", value_name = "SECONDS", value_parser = seconds)]
    seconds: Duration,
    /// How often a writer is killed.
    #[arg(long, default_value_t = 3, value_name = "K", value_parser = clap::value_parser!(u32).range(0..=1000))]
    kills: u32,
    /// Seed of everything random; drawn by default.
    #[arg(long)]
    seed: Option<u64>,
    /// Leave the store behind to look at.
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    worked: Worked,
    #[command(flatten)]
    pub(crate) format: Format,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let in_reason = seconds.filter(|seconds| *seconds <= Duration::from_secs(3600));
    in_reason.ok_or_else(|| "write a number of seconds from 0 to 3600, such as 2 or 0.5".to_owned())
}

impl Demo {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let seed = match self.seed {
            Some(seed) => seed,
            None => {
                let mut seed = [0; 8];
                warpkeep_image::fill_random(&mut seed)?;
                // Short enough to be typed again.
                u64::from_le_bytes(seed) % 1_000_000
            }
        };
        let places = Places::new(self.dir.as_deref(), self.items, self.worked)?;
        let interrupt = Interrupt::listen()?;
        let run = Run {
            plan: Plan { seed, rows: self.items, writers: WRITERS },
            places: &places,
            format: self.format,
            bars: Bars::new(!self.format.json, &interrupt),
            interrupt,
        };
        let mut report = run.run(self.seconds, self.kills)?;
        drop(run);
        report.kept = self.keep;
        if self.keep {
            places.keep();
        }
        self.format.show(&report, || report.text())
    }
}
