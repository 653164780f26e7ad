//! Tables of any index on a device, as stores and tables use them.

use std::sync::Arc;

use warpkeep_core::KeyCells;
use warpkeep_image::Persist;

use super::{
    DeviceImage, DeviceProfile, Index, PlacedTable, Planned, StepTime, StepTimes, StepWatch, with_placed,
    with_table,
};
use crate::Result;
use crate::device::{DeviceOptions, DeviceStats, HostGetBatches, HostGetStrategy};

impl<P: Persist> Index<P> {
    /// Moves it to a device, if devices support such a table. It is not in use yet.
    pub(crate) fn move_to_device(&self, image: &Arc<DeviceImage<P>>, options: DeviceOptions) -> Result<()> {
        with_placed!(self, placed => placed.execution.move_to_device(image, &placed.table, options))
    }

    /// The cells that represent its keys in device memory: see [`Planned::key_cells`].
    pub(crate) fn key_cells(&self) -> Option<KeyCells> {
        with_table!(self, table => Planned::key_cells(table))
    }

    /// What the device keeps of it; `None` if it runs on the CPU.
    pub(crate) fn device_stats(&self) -> Result<Option<DeviceStats>> {
        with_placed!(self, placed => placed.execution.device_stats())
    }

    pub(crate) fn device_profile(&self) -> Option<DeviceProfile> {
        with_placed!(self, placed => placed.execution.profile())
    }

    pub(crate) fn set_device_profile(&self, profile: DeviceProfile) {
        with_placed!(self, placed => placed.execution.set_profile(profile));
    }

    pub(crate) fn set_host_gets(&self, strategy: Option<HostGetStrategy>) {
        with_placed!(self, placed => placed.execution.set_host_gets(strategy));
    }

    /// The batches of gets from host memory that each strategy did.
    pub(crate) fn host_get_batches(&self) -> Vec<HostGetBatches> {
        with_placed!(self, placed => placed.execution.host_get_counts.batches())
    }

    /// Passes their numbers to the metrics recorder.
    pub(crate) fn publish_host_gets(&self, table: &str) {
        with_placed!(self, placed => placed.execution.host_get_counts.publish(table));
    }

    pub(crate) fn time_steps(&self, wanted: bool) {
        with_placed!(self, placed => {
            placed.execution.device().into_iter().for_each(|device| device.time_steps(wanted));
        });
    }

    pub(crate) fn take_step_times(&self) -> Vec<Vec<StepTime>> {
        with_placed!(self, placed => {
            placed.execution.device().map_or_else(Vec::new, StepTimes::take_step_times)
        })
    }

    /// Begins to time the steps of a batch, if there is a device.
    pub(crate) fn watch_steps(&self) -> Option<StepWatch<'_>> {
        with_placed!(self, placed => placed.execution.device().map(StepTimes::watch_steps))
    }
}
