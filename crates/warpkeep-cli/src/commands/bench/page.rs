//! `warpkeep bench page`.

use std::path::PathBuf;

use clap::Args;
use warpkeep_bench::page;

use crate::failure::Failure;
use crate::output;

/// Its sources.
#[derive(Debug, Args)]
pub(super) struct Page {
    /// Files that benchmarks wrote with --json or --csv, or folders of them, in the order they should have.
    #[arg(required = true, value_name = "RESULT")]
    results: Vec<PathBuf>,
    /// The directory to write index.html and the plots to; made if it is missing.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Page {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let (path, plots) = page::write(&self.results, &self.out)?;
        output::print(&format!("{} with {plots} plots, which lie beside it as SVG\n", path.display()))
    }
}
