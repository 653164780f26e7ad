//! `warpkeep bench load-factor`.

use clap::Args;
use warpkeep::Geometry;
use warpkeep_bench::load_factor;

use super::{Files, command_line};
use crate::failure::Failure;

/// How to run it.
#[derive(Debug, Args)]
pub(super) struct LoadFactor {
    /// Keys to insert.
    #[arg(long, default_value_t = 16_000_000)]
    items: u64,
    /// How full a fresh table would be with all of them.
    #[arg(long, default_value_t = 1.0)]
    load: f64,
    /// Only these layouts, such as 2L-2H-8S; by default all.
    #[arg(long, value_delimiter = ',', value_name = "GEOMETRY,...")]
    geometries: Vec<Geometry>,
    /// Fresh tables of each geometry, each with keys of its own.
    #[arg(long, default_value_t = 3)]
    repeats: u32,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    pub(super) files: Files,
}

impl LoadFactor {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let options = load_factor::Options {
            items: self.items,
            load: self.load,
            geometries: self.geometries.clone(),
            repeats: self.repeats,
            seed: self.seed,
            command: command_line(),
        };
        self.files.run(|progress| load_factor::run(&options, progress))
    }
}
