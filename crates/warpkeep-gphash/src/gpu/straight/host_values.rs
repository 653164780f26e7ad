//! Values of a batch that lie in host memory, and stay there until the host stores them.

use std::sync::atomic::Ordering;

use warpkeep_core::{HostCells, Op};
use warpkeep_image::Persist;

use super::list::ListForm;
use crate::Table;
use crate::gpu::PublishBy;
use crate::gpu::engine::DeviceEngine;

/// The values of a part of a batch, which the host stores in the image itself, with the tails of their records. What is the device's to do is
/// to say where: over the link and back again they would cost it twice, and the host's cores as much as to store them.
#[derive(Clone, Copy, Debug)]
pub(in crate::gpu) struct HostValues<'v> {
    cells: HostCells<'v>,
    first: usize,
}

impl<'v> HostValues<'v> {
    /// Of operations from `first` on.
    pub(in crate::gpu) fn new(cells: HostCells<'v>, first: usize) -> HostValues<'v> {
        HostValues { cells, first }
    }

    /// The value of an operation of the part.
    #[inline(always)]
    pub(super) fn of(self, operation: usize) -> &'v [u8] {
        self.cells.get(self.first + operation)
    }
}

impl<P: Persist> DeviceEngine<P> {
    /// Batches from host memory, or parts of them, whose values the host has stored in the image itself, and the device has never had.
    pub fn stored_by_host(&self) -> u64 {
        self.straight.words.with_values.load(Ordering::Relaxed)
    }

    /// Whether the host stores the values of such a batch: where it stores words and tails, too, and no value cache wants them on the device.
    pub(in crate::gpu) fn stores_values_by_host(&self, table: &Table<P>, op: Op, count: u64) -> bool {
        let form = ListForm::of(table.form, op, count, 0, table.image().len());
        form.is_some_and(|form| form.tails().is_some())
            && self.profile().chunks(count, true) > 1
            && self.profile().publish_by != PublishBy::Device
            && !self.mirror.has_rows()
    }
}
