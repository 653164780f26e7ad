//! `warpkeep checkpoint`.

use std::time::Instant;

use clap::Args;
use serde::Serialize;
use warpkeep::{Cells, ImageFile, ImagePlace, LogPlace, OpenReport, open};
use warpkeep_bench::size::Size;
use warpkeep_image::{Attached, Coherent, Domain, Image, ImageError, Persist, Placement};
use warpkeep_log::{CheckpointInfo, LogOptions, OsDisk};

use crate::failure::Failure;
use crate::output::{Format, count};
use crate::store::{Pair, check_is_log};

/// Of which store.
#[derive(Debug, Args)]
pub(crate) struct Checkpoint {
    #[command(flatten)]
    store: Pair,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Debug, Serialize)]
struct Report {
    opened: OpenReport,
    checkpoint: CheckpointInfo,
    seconds: f64,
}

impl Checkpoint {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        check_is_log(&self.store.log)?;
        let report = match Placement::of(&self.store.image)?.domain() {
            Domain::Coherent => self.take(Coherent)?,
            #[cfg(target_arch = "x86_64")]
            Domain::WriteBack => self.take(super::write_back()?)?,
            #[cfg(not(target_arch = "x86_64"))]
            Domain::WriteBack => {
                return Err(Failure::error("persistent memory is not supported on this processor"));
            }
        };
        self.format.show(&report, || {
            format!(
                "checkpoint {}: {} items, {}, in {:.3} s (the store was opened in {:.3} s)\n",
                report.checkpoint.id,
                count(report.checkpoint.changes),
                Size(report.checkpoint.bytes),
                report.seconds,
                report.opened.seconds
            )
        })
    }

    fn take<P: Persist + Clone>(&self, persist: P) -> Result<Report, Failure> {
        let place = AsItIs(ImageFile::new(&self.store.image, persist));
        let log = LogPlace::new(OsDisk::open(&self.store.log)?, LogOptions::default());
        // The number of cells counts for a new image only, and this place makes none.
        let (store, opened) = open::<P, Cells<P>>(&place, Some(log), Default::default(), &1)?;
        let begun = Instant::now();
        let checkpoint = store.checkpoint()?;
        let seconds = begun.elapsed().as_secs_f64();
        store.close()?;
        Ok(Report { opened, checkpoint, seconds })
    }
}

/// An image that is used as it is or not at all: nothing is rebuilt unasked.
struct AsItIs<P>(ImageFile<P>);

impl<P: Persist + Clone> ImagePlace<P> for AsItIs<P> {
    fn open(&self) -> Result<Option<Attached<P>>, ImageError> {
        self.0.open()
    }

    fn create(&self, _store_id: [u8; 16]) -> Result<Image<P>, ImageError> {
        Err(ImageError::Invalid(format!(
            "{} is missing, lost or older than its log; run `warpkeep rebuild` to make it again",
            self.0.path.display()
        )))
    }
}
