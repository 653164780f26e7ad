//! `warpkeep restore`.

use std::path::PathBuf;

use clap::Args;
use warpkeep::{Error, StoreOptions, restore};
use warpkeep_bench::size::Size;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::{Format, counted};
use crate::progress::Bars;
use crate::store::StoreAt;

/// From where to where.
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The directory of the backup.
    backup: PathBuf,
    #[command(flatten)]
    store: StoreAt,
    #[command(flatten)]
    pub(crate) format: Format,
}

impl Restore {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let bars = Bars::new(!self.format.json, &Interrupt::never());
        let mut progress = bars.bytes("copying");
        let options = StoreOptions { image: self.store.image.clone(), ..StoreOptions::default() };
        let restored = restore(&self.backup, &self.store.directory, options, &mut |done, total| {
            progress.set(done, total);
        });
        let report = restored.map_err(|error| match error {
            // This is the result of checking the backup.
            error @ Error::BackupDamaged { .. } => Failure::Damage(error.to_string()),
            error => error.into(),
        })?;
        drop(bars);
        self.format.show(&report, || {
            format!(
                "restored {} with {} ({}) to {} in {:.2} s\n",
                counted(report.tables as u64, "table"),
                counted(report.items, "item"),
                Size(report.bytes),
                self.store.directory.display(),
                report.seconds
            )
        })
    }
}
