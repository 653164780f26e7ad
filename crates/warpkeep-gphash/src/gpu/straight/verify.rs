//! Keys that are longer than their hashes, compared with those of the records that the mirror has for them: `kernels/verify.h`.

use warpkeep_device::DevicePtr;
use warpkeep_image::Persist;

use super::params::{StraightParams, VerifyParams};
use crate::TableError;
use crate::gpu::engine::{DeviceEngine, Workplace};
use crate::gpu::regions::Division;
use crate::gpu::steps::Watch;

/// What is known of the table.
pub(super) struct Verifying {
    pub(super) image_len: u64,
    pub(super) key_len: u64,
}

impl Verifying {
    /// Puts the kernels into the stream of a workplace; gives where the record of each key will be.
    ///
    /// # Safety
    /// The columns of the batch are as long as the kernels take them to be. They and those of the workplace stay, and nobody else uses them,
    /// until the stream is synchronised; so do the mirror and the records of the table.
    pub(super) unsafe fn launch<P: Persist>(
        &self,
        engine: &DeviceEngine<P>,
        place: &mut Workplace,
        batch: &StraightParams,
        watch: &mut Watch<'_>,
    ) -> Result<DevicePtr, TableError> {
        let (device, kernels, count) = (engine.device(), &engine.kernels, batch.count);
        let Workplace { columns, stream, .. } = &mut *place;
        let params = VerifyParams {
            table: batch.table,
            count,
            keys: batch.keys,
            records: columns.suspected.room(device, 8 * count as usize)?,
            ranks: columns.suspect_ranks.room(device, 4 * count as usize)?,
            regions: Division::of(self.image_len, count).zeros(
                device,
                &mut columns.suspect_regions,
                stream,
            )?,
            suspects: columns.suspects.room(device, 16 * count as usize)?,
        };
        let lanes = self.key_len.div_ceil(8).next_power_of_two();
        let (place, stream) = (&*place, &place.stream);
        // SAFETY: as this function's contract says.
        unsafe {
            watch.device("suspect", device, stream, || place.launch(&kernels.suspect, count, &params))?;
            watch.device("line up suspects", device, stream, || {
                params.regions.line_up(&kernels.line_up, stream)
            })?;
            watch.device("queue", device, stream, || place.launch(&kernels.queue, count, &params))?;
            watch
                .device("verify", device, stream, || place.launch(&kernels.verify, count * lanes, &params))?;
        }
        Ok(params.records)
    }
}
