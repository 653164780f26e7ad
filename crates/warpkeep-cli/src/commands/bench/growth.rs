//! `warpkeep bench growth`.

use clap::Args;
use warpkeep_bench::growth;

use super::{Files, Places, command_line};
use crate::failure::Failure;

/// How to run it.
#[derive(Debug, Args)]
pub(super) struct Growth {
    #[command(flatten)]
    places: Places,
    /// Numbers of items, one case each.
    #[arg(
        long,
        default_value = "1000000,2000000,4000000,8000000,16000000",
        value_delimiter = ',',
        value_name = "N,..."
    )]
    sizes: Vec<u64>,
    /// Bytes in a value.
    #[arg(long, default_value_t = 128, value_name = "BYTES")]
    value_bytes: usize,
    /// How often each is measured.
    #[arg(long, default_value_t = 3)]
    repeats: u32,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    pub(super) files: Files,
}

impl Growth {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let (dir, image_dir) = self.places.prepare()?;
        let options = growth::Options {
            dir: dir.to_path_buf(),
            image_dir: image_dir.to_path_buf(),
            sizes: self.sizes.clone(),
            value_bytes: self.value_bytes,
            repeats: self.repeats,
            seed: self.seed,
            command: command_line(),
        };
        self.files.run(|progress| growth::run(&options, progress))
    }
}
