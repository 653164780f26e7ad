//! `warpkeep backup`.

use std::path::PathBuf;

use clap::Args;
use warpkeep_bench::size::Size;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::{Format, counted};
use crate::progress::Bars;
use crate::store::StoreAt;

/// Of which store, and where to.
#[derive(Debug, Args)]
pub(crate) struct Backup {
    #[command(flatten)]
    store: StoreAt,
    /// The directory to make; it must not exist, or be empty.
    to: PathBuf,
    #[command(flatten)]
    pub(crate) format: Format,
}

impl Backup {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let bars = Bars::new(!self.format.json, &Interrupt::never());
        let report = self.store.with_store(|store| {
            let mut progress = bars.bytes("copying");
            Ok(store.backup(&self.to, &mut |done, total| progress.set(done, total))?)
        })?;
        drop(bars);
        self.format.show(&report, || {
            format!(
                "backed up {} with {} ({}) to {} in {:.2} s\n",
                counted(report.tables, "table"),
                counted(report.items, "item"),
                Size(report.bytes),
                report.path.display(),
                report.seconds
            )
        })
    }
}
