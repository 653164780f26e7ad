//! `warpkeep verify`.

use std::fmt::Write as _;
use std::sync::Arc;

use clap::Args;
use warpkeep::{StoreOptions, VerifyReport, verify};
use warpkeep_bench::size::Size;
use warpkeep_bench::{Amount, Progress};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::{Format, count};
use crate::progress::Bars;
use crate::store::{Reading, StoreAt};

/// Which store.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    store: StoreAt,
    /// This command never writes.
    #[command(flatten)]
    _reading: Reading,
    #[command(flatten)]
    pub(crate) format: Format,
}

impl Verify {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let bars = Arc::new(Bars::new(!self.format.json, &Interrupt::never()));
        // Until the amount is known.
        bars.begin("checking", Amount::Count(1));
        let options = StoreOptions { progress: bars.watching("checking"), ..self.store.options()? };
        let checked = verify(&self.store.directory, &options);
        bars.finish();
        let report = checked?;
        self.format.show(&report, || text(&report))?;
        let of_tables: u64 = report.tables.iter().map(|table| table.problem_count).sum();
        match report.sound {
            true => Ok(()),
            false => Err(Failure::Reported(format!(
                "the check found damage in {} places; `warpkeep repair {}` puts items right from checkpoint and log. If \
                 more than items is damaged, rebuild the image if the log is good, or restore a backup",
                report.problems.len() as u64 + of_tables,
                self.store.named()
            ))),
        }
    }
}

fn text(report: &VerifyReport) -> String {
    let mut text = String::new();
    if let Some(image) = &report.image {
        let _ = writeln!(
            text,
            "image: store {}, epoch {}, {}; {} chunks, {} blocks, {} extents, {} in use",
            image.store_id,
            image.epoch,
            if image.closed_cleanly { "closed cleanly" } else { "left without closing" },
            count(image.usage.chunks),
            count(image.usage.used_blocks()),
            image.usage.extents,
            Size(image.usage.used_bytes())
        );
    }
    if let Some(log) = &report.log {
        let _ = writeln!(
            text,
            "log: {} segments, {} frames with {} records, last record {}; {} items in the checkpoint, {} in all",
            log.found.segments,
            count(log.found.frames),
            count(log.found.records),
            log.found.last_lsn,
            count(log.checkpoint_items),
            count(log.items)
        );
    }
    for check in &report.tables {
        let table = &check.table;
        let _ = writeln!(
            text,
            "{} table {}: {} items, {} of keys and values",
            if check.problem_count == 0 { "good    " } else { "DAMAGED " },
            table.name,
            count(table.items),
            Size(check.bytes)
        );
        for problem in &check.problems {
            let _ = writeln!(text, "           {problem}");
        }
        let more = check.problem_count - check.problems.len() as u64;
        if more > 0 {
            let _ = writeln!(text, "           and {} more", count(more));
        }
    }
    for problem in &report.problems {
        let _ = writeln!(text, "DAMAGED  {problem}");
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if report.sound {
        let _ = writeln!(text, "everything that was checked is good ({:.2} s)", report.seconds);
    }
    text
}
