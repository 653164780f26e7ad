//! `warpkeep verify`.

use std::fmt::Write as _;
use std::path::Path;

use clap::Args;
use serde::Serialize;
use warpkeep_bench::size::Size;

use crate::failure::Failure;
use crate::output::{Format, count};
use crate::store::{Contents, Image, ImageLook, IsDamage, LogLook, hold};

/// Which store.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    store: Image,
    #[command(flatten)]
    pub(crate) format: Format,
}

/// What was looked at, and what came of it.
#[derive(Debug, Serialize)]
struct Check {
    what: &'static str,
    damage: Option<String>,
    found: Option<String>,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    sound: bool,
    checks: Vec<Check>,
    notes: Vec<String>,
}

impl Report {
    /// Takes note of a check; an error that tells of no damage ends the command.
    fn take<T, E: IsDamage + Into<Failure> + std::fmt::Display>(
        &mut self,
        what: &'static str,
        result: Result<T, E>,
        found: impl FnOnce(&T) -> String,
    ) -> Result<Option<T>, Failure> {
        match result {
            Ok(value) => {
                self.checks.push(Check { what, damage: None, found: Some(found(&value)) });
                Ok(Some(value))
            }
            Err(error) if error.is_damage() => {
                self.checks.push(Check { what, damage: Some(error.to_string()), found: None });
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn damaged(&self) -> usize {
        self.checks.iter().filter(|check| check.damage.is_some()).count()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for check in &self.checks {
            let _ = match &check.damage {
                None => writeln!(text, "good     {}: {}", check.what, check.found.as_deref().unwrap_or("")),
                Some(damage) => writeln!(text, "DAMAGED  {}: {damage}", check.what),
            };
        }
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        text
    }
}

impl Verify {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let mut report = Report::default();
        // For as long as this lasts, nobody can open the image for writing.
        let _held = hold(&self.store.image, false)?;
        let image = check_image(&self.store.image, &mut report)?;
        if let Some(log) = &self.store.log {
            let log = check_log(log, &mut report)?;
            if let (Some(image), Some(log)) = (&image, &log) {
                check_pair(image, log, &mut report)?;
            }
        } else if image
            .as_ref()
            .is_some_and(|look| look.image.pending().is_ok_and(|pending| !pending.is_empty()))
        {
            report
                .notes
                .push("the image was left with commits that its log must finish; give --log".to_owned());
        }
        report.sound = report.damaged() == 0;
        self.format.show(&report, || report.text())?;
        match report.damaged() {
            0 => self.format.say("everything that was checked is good"),
            damaged => {
                Err(Failure::Reported(format!("{damaged} of {} checks found damage", report.checks.len())))
            }
        }
    }
}

fn check_image(path: &Path, report: &mut Report) -> Result<Option<ImageLook>, Failure> {
    let opened = ImageLook::open(path);
    let found = |look: &ImageLook| {
        format!("store {}, epoch {}", id(&look.image.header().store_id), look.image.epoch())
    };
    let Some(look) = report.take("header, state slots, roots, pending commits", opened, found)? else {
        return Ok(None);
    };
    if look.report()?.slot_torn {
        report.notes.push("one state slot is torn; the next opening restores it from the other".to_owned());
    }
    let found = |usage: &warpkeep_image::HeapUsage| {
        format!(
            "{} chunks, {} blocks, {} extents; {} in use",
            count(usage.chunks),
            count(usage.used_blocks()),
            usage.extents,
            Size(usage.used_bytes())
        )
    };
    report.take("descriptors and every record in the image", look.survey(), found)?;
    Ok(Some(look))
}

fn check_log(path: &Path, report: &mut Report) -> Result<Option<LogLook>, Failure> {
    let found = |look: &LogLook| {
        let found = look.recovery.report();
        format!(
            "{} segments, {} frames with {} records, last record {}",
            found.segments,
            count(found.frames),
            count(found.records),
            found.last_lsn
        )
    };
    let Some(look) = report.take("manifest and every frame of the log", LogLook::open(path), found)? else {
        return Ok(None);
    };
    if let Some(torn) = look.recovery.report().torn_tail {
        report.notes.push(format!(
            "a write was interrupted in segment {} at byte {}; it was never acknowledged, and the next opening cuts it off",
            torn.segment, torn.offset
        ));
    }
    for file in &look.recovery.report().foreign_files {
        report.notes.push(format!("{file} is not a file of this log; it was left alone"));
    }
    let found = |contents: &Contents| {
        format!(
            "{} items in the checkpoint, {} changes in {} records after it",
            count(contents.items),
            count(contents.changes),
            count(contents.records)
        )
    };
    report.take("every block of the checkpoint and every record", look.read_all(), found)?;
    Ok(Some(look))
}

fn check_pair(image: &ImageLook, log: &LogLook, report: &mut Report) -> Result<(), Failure> {
    let (ours, theirs) = (image.image.header().store_id, log.recovery.store_id());
    let together = match ours == theirs {
        true => Ok(()),
        false => Err(warpkeep::Error::Mismatch { image: id(&ours), log: id(&theirs) }),
    };
    report.take("image and log belong together", together, |()| "the same store".to_owned())?;
    if ours == theirs && image.image.epoch() < log.recovery.epoch() {
        report.notes.push("the image is older than the log; opening the store rebuilds it".to_owned());
    }
    Ok(())
}

fn id(bytes: &[u8]) -> String {
    crate::output::hex(bytes)
}
