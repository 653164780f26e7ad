//! An image, looked at without changing it.

use std::path::Path;

use serde::Serialize;
use warpkeep_image::{
    Access, Attached, Coherent, Image, ImageError, OpenOptions, PageReport, Placement, ROOT_COUNT,
};

use crate::output::{date, hex};

/// An image that is open read-only.
pub(crate) struct ImageLook {
    pub(crate) image: Image<Coherent>,
    slot_repaired: bool,
}

/// The state recorded in an image.
#[derive(Debug, Serialize)]
pub(crate) struct ImageReport {
    pub(crate) placement: Placement,
    pub(crate) store_id: String,
    pub(crate) created: String,
    pub(crate) bytes: u64,
    pub(crate) chunk_bytes: u64,
    pub(crate) epoch: u64,
    pub(crate) closed_cleanly: bool,
    /// One of the two state slots is torn; the next opening restores it.
    pub(crate) slot_torn: bool,
    pub(crate) attached: Option<String>,
    /// The process that has it open, if one has.
    pub(crate) held_by: Option<String>,
    pub(crate) roots: Vec<usize>,
    /// Commits that only the log can finish.
    pub(crate) pending_commits: usize,
    pub(crate) pages: Option<PageReport>,
}

impl ImageLook {
    /// Takes no lock: it works beside a writer, and may then see the image move.
    pub(crate) fn open(path: &Path) -> Result<ImageLook, ImageError> {
        // Looking at a copy does no harm.
        let options = OpenOptions { adopt: true, ..OpenOptions::default() };
        let Attached { image, slot_repaired, .. } = Image::open(path, Coherent, Access::ReadOnly, &options)?;
        Ok(ImageLook { image, slot_repaired })
    }

    /// The process that has the image open, if one has.
    pub(crate) fn held_by(&self) -> Option<String> {
        let used = self.image.last_use();
        // An unclean image that could be opened was left on this boot of this machine, so the process number is
        // valid.
        let held = !used.clean && used.holder.is_alive().is_ok_and(|alive| alive);
        held.then(|| used.holder.to_string())
    }

    pub(crate) fn report(&self) -> Result<ImageReport, ImageError> {
        let image = &self.image;
        let roots: Vec<usize> = (0..ROOT_COUNT)
            .filter_map(|index| image.root(index).map(|root| root.map(|_| index)).transpose())
            .collect::<Result<_, _>>()?;
        let placement = match image.file() {
            Some(file) => file.placement().clone(),
            None => Placement::of(image.path())?,
        };
        Ok(ImageReport {
            placement,
            store_id: hex(&image.header().store_id),
            created: date(image.header().created),
            bytes: image.len(),
            chunk_bytes: image.chunk_size(),
            epoch: image.epoch(),
            closed_cleanly: image.last_use().clean,
            slot_torn: self.slot_repaired,
            attached: Some(image.last_use().attached).filter(|&attached| attached > 0).map(date),
            held_by: self.held_by(),
            roots,
            pending_commits: image.pending()?.len(),
            pages: image.file().and_then(|file| file.page_report().ok()),
        })
    }
}
