//! `warpkeep repair`.

use clap::Args;

use super::{repair_items, repair_manifest};
use crate::failure::Failure;
use crate::output::Format;
use crate::store::StoreAt;

/// The store, and the part to repair.
#[derive(Debug, Args)]
pub(crate) struct Repair {
    #[command(flatten)]
    store: StoreAt,
    /// Repair the damaged items of this table only.
    table: Option<String>,
    /// Only report what would be done.
    #[arg(long, conflicts_with = "manifest")]
    dry_run: bool,
    /// Rebuild the manifest of the log from checkpoint and segments, if neither of its copies can be read.
    #[arg(long, conflicts_with = "table")]
    manifest: bool,
    #[command(flatten)]
    pub(crate) format: Format,
}

impl Repair {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        match self.manifest {
            true => repair_manifest::run(&self.store, self.format),
            false => repair_items::run(&self.store, self.table.as_deref(), self.dry_run, self.format),
        }
    }
}
