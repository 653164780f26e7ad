//! `warpkeep rebuild`.

use std::io::{IsTerminal, Write};

use clap::Args;
use serde::Serialize;
use warpkeep::{Cells, ImageFile, LogPlace, OpenReport, open};
use warpkeep_image::{Coherent, Domain, Medium, Persist, Placement};
use warpkeep_log::{LogOptions, OsDisk};

use crate::failure::Failure;
use crate::output::{Format, count};
use crate::store::{ImageLook, LogLook, Pair, cells_in, hold};

/// Of which store.
#[derive(Debug, Args)]
pub(crate) struct Rebuild {
    #[command(flatten)]
    store: Pair,
    /// How many cells the store has; without it, as many as the old image says, or else as the log names.
    #[arg(long, value_name = "N")]
    cells: Option<u64>,
    /// Do not ask before throwing the image away.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Serialize)]
struct Report {
    cells: u64,
    opened: OpenReport,
}

impl Rebuild {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let path = &self.store.image;
        let placement = Placement::of(path)?;
        if placement.medium == Medium::DevDax {
            return Err(Failure::error("an image on a device cannot be replaced by this command yet"));
        }
        // All of the log is read before anything is thrown away.
        let log = LogLook::open(&self.store.log)?;
        let contents = log.read_all()?;
        let store_id = log.recovery.store_id();
        drop(log);

        let held = match path.try_exists().map_err(Failure::io(format!("look at {}", path.display())))? {
            true => Some(hold(path, true)?),
            false => None,
        };
        let old = held.as_ref().and_then(|_| ImageLook::open(path).ok());
        if let Some(old) = old.as_ref().filter(|old| old.image.header().store_id != store_id) {
            let (image, log) = (old.image.header().store_id, store_id);
            let hex = crate::output::hex;
            return Err(warpkeep::Error::Mismatch { image: hex(&image), log: hex(&log) }.into());
        }
        let known = old.as_ref().and_then(|old| cells_in(&old.image));
        let cells = self.cells.or(known).unwrap_or(contents.cells).max(1);
        if cells < contents.cells {
            return Err(Failure::Usage(format!(
                "the log names {} cells, so {cells} are too few; give --cells {}",
                contents.cells, contents.cells
            )));
        }
        if held.is_some() {
            let unclean =
                old.as_ref().is_some_and(|old| old.report().is_ok_and(|report| !report.closed_cleanly));
            self.confirm(unclean)?;
        }
        drop((old, held));
        let opened = self.replace(&placement, cells)?;
        let report = Report { cells, opened };
        self.format.show(&report, || {
            format!(
                "rebuilt in {:.3} s: {} items from the checkpoint, {} changes redone, {} cells\n",
                report.opened.seconds,
                count(report.opened.loaded),
                count(report.opened.redone),
                count(report.cells)
            )
        })
    }

    /// Makes the new image. The old one is thrown away only when that has worked.
    fn replace(&self, placement: &Placement, cells: u64) -> Result<OpenReport, Failure> {
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
        let made = match placement.domain() {
            Domain::Coherent => self.make(Coherent, cells),
            #[cfg(target_arch = "x86_64")]
            Domain::WriteBack => super::write_back().and_then(|domain| self.make(domain, cells)),
            #[cfg(not(target_arch = "x86_64"))]
            Domain::WriteBack => Err(Failure::error("persistent memory is not supported on this processor")),
        };
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

    fn confirm(&self, unclean: bool) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        if !std::io::stdin().is_terminal() {
            return Err(Failure::Usage("this throws the image away; give --yes to agree".to_owned()));
        }
        let warning = match unclean {
            true => " It was left without closing: writes with Process that its log never got will be lost.",
            false => "",
        };
        eprint!("Throw {} away and rebuild it from its log?{warning} [y/N] ", self.store.image.display());
        let _ = std::io::stderr().flush();
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).map_err(Failure::io("read the answer"))?;
        match answer.trim() {
            "y" | "Y" | "yes" => Ok(()),
            _ => Err(Failure::error("nothing was changed")),
        }
    }

    fn make<P: Persist + Clone>(&self, persist: P, cells: u64) -> Result<OpenReport, Failure> {
        let place = ImageFile::new(&self.store.image, persist);
        let log = LogPlace::new(OsDisk::open(&self.store.log)?, LogOptions::default());
        let (store, opened) = open::<P, Cells<P>>(&place, Some(log), Default::default(), &cells)?;
        store.close()?;
        Ok(opened)
    }
}
