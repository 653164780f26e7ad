//! `warpkeep stat`.

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;
use warpkeep::{DeviceStats, HostGetBatches, Peek, PeekSource, TableStats};
use warpkeep_bench::size::Size;
use warpkeep_log::LogError;

use super::list;
use super::table_stats;
use crate::bar::bar;
use crate::failure::Failure;
use crate::output::{Format, count, counted};
use crate::store::{ImageLook, ImageReport, LogLook, LogReport, Reading, StoreAt, Worked};

/// Which store, or which table.
#[derive(Debug, Args)]
pub(crate) struct Stat {
    #[command(flatten)]
    store: StoreAt,
    /// Show how full this table is, by levels or shards, and how far searches walk. This opens the store; without
    /// this option, or with --read-only, nothing is changed.
    table: Option<String>,
    /// The device, whose copy of the table is shown, too.
    #[command(flatten)]
    worked: Worked,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Serialize)]
struct Report {
    image: Option<ImageReport>,
    tables: Option<Peek>,
    log: Option<LogReport>,
    /// The durability levels that writes can have.
    durability: Vec<&'static str>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct TableReport<'a> {
    table: &'a str,
    stats: TableStats,
    /// The device's copy of it.
    device: Option<DeviceStats>,
    /// Which way batches of gets go there.
    host_gets: Vec<HostGetBatches>,
}

impl Stat {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        match &self.table {
            Some(table) => self.table(table),
            None => self.store(),
        }
    }

    fn table(&self, name: &str) -> Result<(), Failure> {
        let (stats, device, host_gets) =
            self.store.on(self.worked).with_store_to_read(self.reading, |store| {
                let table = store.table(name)?;
                Ok((table.stats()?, table.device_stats()?, table.host_get_batches()))
            })?;
        let report = TableReport { table: name, stats, device, host_gets };
        self.format.show(&report, || {
            let device = report.device.as_ref().map(table_stats::device).unwrap_or_default();
            table_stats::text(report.table, &report.stats) + &device + &table_stats::ways(&report.host_gets)
        })
    }

    fn store(&self) -> Result<(), Failure> {
        let mut notes = Vec::new();
        let image = match self.store.image_path().exists() {
            true => match ImageLook::open(&self.store.image_path()).and_then(|look| look.report()) {
                Ok(image) => Some(image),
                Err(error) => {
                    notes.push(error.to_string());
                    None
                }
            },
            false => None,
        };
        let held_by = image.as_ref().and_then(|image| image.held_by.as_ref());
        let tables = match held_by {
            Some(holder) => {
                notes.push(format!("{holder} has the store open, so its tables were not looked at"));
                None
            }
            None => Some(self.store.peek()?),
        };
        let has_log = self.store.has_log()?;
        let log = match has_log.then(|| LogLook::open(&self.store.log_path())) {
            None => None,
            Some(Ok(log)) => Some(log.report()?),
            // Its holder has been named.
            Some(Err(LogError::Held { .. })) if held_by.is_some() => None,
            Some(Err(error)) => {
                notes.push(error.to_string());
                None
            }
        };
        if let (Some(image), Some(log)) = (&image, &log)
            && log.store_id != image.store_id
        {
            notes.push(format!(
                "image and log belong to different stores ({} and {})",
                image.store_id, log.store_id
            ));
        }
        let durability = if has_log { vec!["process", "power"] } else { vec!["process"] };
        let report = Report { image, tables, log, durability, notes };
        self.format.show(&report, || text(&report))
    }
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    if let Some(image) = &report.image {
        image_text(image, &mut text);
    }
    let _ = match report.durability.contains(&"power") {
        true => writeln!(text, "writes survive the process, and with power the machine"),
        false => writeln!(
            text,
            "writes survive the process; there is no log, so nothing survives the machine for sure"
        ),
    };
    if let Some(peek) = &report.tables {
        let _ = write!(text, "\n{}", list::tables(peek));
        if peek.source == PeekSource::Image {
            let (used, total) = (peek.usage.used_bytes(), peek.usage.total_bytes());
            let share = used as f64 / total.max(1) as f64;
            let _ = write!(
                text,
                "\nspace {} {} of {} in use\n{}",
                bar(share, 30),
                Size(used),
                Size(total),
                peek.usage
            );
        } else {
            let _ = writeln!(text, "there is no image to use; opening the store rebuilds it from the log");
        }
    }
    if let Some(log) = &report.log {
        let _ = writeln!(text);
        log_text(log, &mut text);
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn image_text(image: &ImageReport, text: &mut String) {
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
    if image.pending_commits > 0 {
        let _ = writeln!(text, "{} commits that the log will finish", image.pending_commits);
    }
    if image.slot_torn {
        let _ = writeln!(text, "one state slot is torn; the next opening restores it from the other");
    }
    if let Some(pages) = &image.pages {
        let _ = writeln!(text, "pages of this mapping: {pages}");
    }
}

fn log_text(log: &LogReport, text: &mut String) {
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
            "checkpoint {}: {}, {}, begun after record {}",
            checkpoint.info.id,
            counted(checkpoint.items, "item"),
            Size(checkpoint.info.bytes),
            checkpoint.info.start
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
