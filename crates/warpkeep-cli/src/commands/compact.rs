//! `warpkeep compact`.

use std::time::Instant;

use clap::Args;
use serde::Serialize;
use warpkeep::Compacted;
use warpkeep_bench::size::Size;

use crate::failure::Failure;
use crate::output::{Format, counted};
use crate::store::StoreAt;

/// Of which store.
#[derive(Debug, Args)]
pub(crate) struct Compact {
    #[command(flatten)]
    store: StoreAt,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    done: Compacted,
    seconds: f64,
}

impl Compact {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let report = self.store.with_store(|store| {
            let begun = Instant::now();
            let done = store.compact()?;
            Ok(Report { done, seconds: begun.elapsed().as_secs_f64() })
        })?;
        self.format.show(&report, || {
            let done = report.done;
            format!(
                "{} made smaller, {} moved, in {:.3} s; free in the image: {}, before: {}\n",
                counted(done.shrunk, "table"),
                counted(done.moved, "record"),
                report.seconds,
                Size(done.free_after),
                Size(done.free_before)
            )
        })
    }
}
