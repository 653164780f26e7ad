//! `warpkeep stat`.

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;
use warpkeep_bench::size::Size;
use warpkeep_image::HeapUsage;
use warpkeep_log::LogError;

use crate::failure::Failure;
use crate::output::{Format, count};
use crate::store::{Image, ImageLook, LogLook};

/// Which store.
#[derive(Debug, Args)]
pub(crate) struct Stat {
    #[command(flatten)]
    store: Image,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Serialize)]
struct Report {
    image: crate::store::ImageReport,
    heap: Option<HeapUsage>,
    log: Option<crate::store::LogReport>,
    notes: Vec<String>,
}

impl Stat {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let look = ImageLook::open(&self.store.image)?;
        let image = look.report()?;
        let mut notes = Vec::new();
        let heap = match &image.held_by {
            Some(holder) => {
                notes.push(format!(
                    "{holder} has the image open, so its heap was not walked; it would move meanwhile"
                ));
                None
            }
            None => match look.survey() {
                Ok(usage) => Some(usage),
                Err(error) => {
                    notes.push(format!("the heap cannot be walked: {error}"));
                    None
                }
            },
        };
        let log = match self.store.log.as_deref().map(LogLook::open) {
            None => None,
            Some(Ok(log)) => Some(log.report()),
            Some(Err(error @ LogError::Held { .. })) => {
                notes.push(error.to_string());
                None
            }
            Some(Err(error)) => return Err(error.into()),
        };
        if let Some(log) = log.as_ref().filter(|log| log.store_id != image.store_id) {
            notes.push(format!(
                "image and log belong to different stores ({} and {})",
                image.store_id, log.store_id
            ));
        }
        let report = Report { image, heap, log, notes };
        self.format.show(&report, || text(&report))
    }
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    let image = &report.image;
    let _ = writeln!(text, "{}", image.placement);
    let _ = writeln!(text, "store {}, created {}", image.store_id, image.created);
    let state = match (&image.held_by, image.closed_cleanly) {
        (Some(holder), _) => format!("open in {holder}"),
        (None, true) => "closed cleanly".to_owned(),
        (None, false) => "left without closing; it will be re-attached".to_owned(),
    };
    let attached = image.attached.as_ref().map_or_else(String::new, |date| format!(", last opened {date}"));
    let _ = writeln!(text, "{state}{attached}, epoch {}", image.epoch);
    let _ = writeln!(text, "{} in chunks of {}", Size(image.bytes), Size(image.chunk_bytes));
    if let Some(cells) = image.cells {
        let _ = writeln!(text, "{} cells", count(cells));
    }
    if image.pending_commits > 0 {
        let _ = writeln!(text, "{} commits that the log will finish", image.pending_commits);
    }
    if image.slot_torn {
        let _ = writeln!(text, "one state slot is torn; the next opening restores it from the other");
    }
    if let Some(pages) = &image.pages {
        let _ = writeln!(text, "pages of this mapping: {pages}");
    }
    if let Some(heap) = &report.heap {
        let _ = write!(text, "{} of {} in use\n{heap}", Size(heap.used_bytes()), Size(heap.total_bytes()));
    }
    if let Some(log) = &report.log {
        let _ = writeln!(
            text,
            "log: {}, epoch {}, {} segments with {} records in {} frames ({}), last record {}",
            if log.closed_cleanly { "closed cleanly" } else { "left without closing" },
            log.epoch,
            log.found.segments,
            count(log.found.records),
            count(log.found.frames),
            Size(log.found.bytes),
            log.last_lsn
        );
        let _ = match &log.checkpoint {
            None => writeln!(text, "no checkpoint yet"),
            Some(checkpoint) => writeln!(
                text,
                "checkpoint {}: {} items, {}, begun after record {}",
                checkpoint.id,
                count(checkpoint.changes),
                Size(checkpoint.bytes),
                checkpoint.start
            ),
        };
        if let Some(torn) = log.found.torn_tail {
            let _ = writeln!(
                text,
                "a write was interrupted in segment {} at byte {}; the next opening cuts it off",
                torn.segment, torn.offset
            );
        }
        for file in &log.found.foreign_files {
            let _ = writeln!(text, "not of this log: {file}");
        }
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}
