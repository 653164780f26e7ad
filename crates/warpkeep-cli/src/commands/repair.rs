//! `warpkeep repair`.

use clap::Args;

use super::repair_manifest;
use crate::failure::Failure;
use crate::output::Format;
use crate::store::StoreAt;

/// Which store, and what of it.
#[derive(Debug, Args)]
pub(crate) struct Repair {
    #[command(flatten)]
    store: StoreAt,
    /// Make the manifest of the log again from checkpoint and segments, if neither of its copies can be read.
    #[arg(long, required = true)]
    manifest: bool,
    #[command(flatten)]
    pub(crate) format: Format,
}

impl Repair {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        repair_manifest::run(&self.store, self.format)
    }
}
