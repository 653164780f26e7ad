//! `warpkeep rebuild`.

use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use warpkeep::engine::check_elsewhere;
use warpkeep::{OpenReport, StoreOptions, WorkProgress};
use warpkeep_bench::{Amount, Progress};
use warpkeep_image::{ImageHold, Medium, Placement, store_id_of};

use crate::confirm::confirm;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::{Format, counted, hex};
use crate::progress::Bars;
use crate::store::{ImageLook, LogLook, StoreAt, check_is_log};

/// Of which store.
#[derive(Debug, Args)]
pub(crate) struct Rebuild {
    #[command(flatten)]
    store: StoreAt,
    /// Do not ask before discarding the image.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Serialize)]
struct Report {
    tables: Vec<String>,
    opened: OpenReport,
}

impl Rebuild {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let path = self.store.image_path();
        self.store.check_has_log()?;
        check_is_log(&self.store.log_path())?;
        let placement = Placement::of(&path)?;
        if placement.medium == Medium::DevDax {
            return Err(Failure::error("an image on a device cannot be replaced by this command yet"));
        }
        // All of the log is read before anything is thrown away.
        let bars = Arc::new(Bars::new(!self.format.json, &Interrupt::never()));
        bars.begin("reading the log", Amount::Count(1));
        let log = LogLook::open(&self.store.log_path())?;
        log.read_all()?;
        bars.finish();
        let store_id = log.recovery.store_id();
        if !self.store.abandon_image
            && let Some(last) = log.recovery.image()
        {
            // Another image than the store's own would be left behind.
            let other = store_id_of(&path).ok().flatten().filter(|id| *id != store_id);
            if let Some(other) = other {
                return Err(warpkeep::Error::Mismatch { image: hex(&other), log: hex(&store_id) }.into());
            }
            check_elsewhere(last.path(), &placement.path, &store_id)?;
        }
        drop(log);

        let there = path.try_exists().map_err(Failure::io(format!("look at {}", path.display())))?;
        if there {
            let held = ImageHold::alone(&path)?;
            let old = ImageLook::open(&path).ok();
            if let Some(old) = old.as_ref().filter(|old| old.image.header().store_id != store_id) {
                let (image, log) = (hex(&old.image.header().store_id), hex(&store_id));
                return Err(warpkeep::Error::Mismatch { image, log }.into());
            }
            let unclean =
                old.as_ref().is_some_and(|old| old.report().is_ok_and(|report| !report.closed_cleanly));
            let warning = match unclean {
                true => {
                    " It was left without closing: writes with Process that its log never got will be lost."
                }
                false => "",
            };
            let question = format!("Throw {} away and rebuild it from its log?{warning}", path.display());
            confirm(self.yes, "the image", &question)?;
            drop((old, held));
        }
        let report = self.replace(&placement, bars.watching("rebuilding"));
        bars.finish();
        let report = report?;
        self.format.show(&report, || {
            format!(
                "rebuilt in {:.3} s: {} from the checkpoint, {} redone, {}\n",
                report.opened.seconds,
                counted(report.opened.loaded, "item"),
                counted(report.opened.redone, "change"),
                counted(report.tables.len() as u64, "table")
            )
        })
    }

    /// Makes the new image. The old one is thrown away only when that has worked.
    fn replace(&self, placement: &Placement, progress: WorkProgress) -> Result<Report, Failure> {
        let path = &placement.path;
        let aside = {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            path.with_file_name(format!(".{name}.old"))
        };
        let moved = match std::fs::rename(path, &aside) {
            Ok(()) => true,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
            Err(error) => return Err(Failure::io(format!("move {} aside", path.display()))(error)),
        };
        let made = self.make(progress);
        match (&made, moved) {
            (_, false) => {}
            (Ok(_), true) => {
                std::fs::remove_file(&aside).map_err(Failure::io(format!("remove {}", aside.display())))?;
            }
            (Err(_), true) => {
                std::fs::rename(&aside, path)
                    .map_err(Failure::io(format!("put {} back", aside.display())))?;
                eprintln!(
                    "warpkeep: the old image is back in its place; if there was no room for both, remove it and try again"
                );
            }
        }
        made
    }

    fn make(&self, progress: WorkProgress) -> Result<Report, Failure> {
        // The user was warned of the possible loss before.
        let image = self.store.image.clone();
        let options = StoreOptions { image, abandon_image: true, progress, ..StoreOptions::default() };
        let store = self.store.open(options)?;
        let report = Report { tables: store.tables(), opened: store.report().clone() };
        store.close()?;
        Ok(report)
    }
}
