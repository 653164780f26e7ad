//! `warpkeep checkpoint`.

use std::time::Instant;

use clap::Args;
use serde::Serialize;
use warpkeep::OpenReport;
use warpkeep_bench::size::Size;

use crate::failure::Failure;
use crate::output::{Format, counted};
use crate::store::{CheckpointReport, LogLook, StoreAt};

/// Of which store.
#[derive(Debug, Args)]
pub(crate) struct Checkpoint {
    #[command(flatten)]
    store: StoreAt,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Serialize)]
struct Report {
    opened: OpenReport,
    checkpoint: Option<CheckpointReport>,
    seconds: f64,
}

impl Checkpoint {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let (opened, seconds) = self.store.with_store(|store| {
            let begun = Instant::now();
            store.checkpoint()?;
            Ok((store.report().clone(), begun.elapsed().as_secs_f64()))
        })?;
        let checkpoint = LogLook::open(&self.store.log_path())?.checkpoint()?;
        let report = Report { opened, checkpoint, seconds };
        self.format.show(&report, || {
            let (id, items, bytes) =
                report.checkpoint.map_or((0, 0, 0), |found| (found.info.id, found.items, found.info.bytes));
            format!(
                "checkpoint {id}: {}, {}, in {:.3} s (the store was opened in {:.3} s)\n",
                counted(items, "item"),
                Size(bytes),
                report.seconds,
                report.opened.seconds
            )
        })
    }
}
