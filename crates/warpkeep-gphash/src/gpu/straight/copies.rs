//! The states of all slots in device memory: where there is room is seen without a look over the link.

use warpkeep_device::{Buffer, DevicePtr};
use warpkeep_image::Persist;

use super::params::RecopyParams;
use crate::gpu::engine::{DeviceEngine, Workplace};
use crate::gpu::params::TableParams;
use crate::{Table, TableError};

/// Copies of the open levels. Whoever has the turn has them to himself.
#[derive(Default)]
pub(crate) struct LevelCopies {
    buffer: Option<Buffer>,
    /// Of the levels that they are copies of; `None` if they are not what the levels are.
    generation: Option<u64>,
}

impl LevelCopies {
    /// The image has been written without them.
    pub(crate) fn outdate(&mut self) {
        self.generation = None;
    }

    /// They are what the levels are again.
    pub(super) fn confirm<P: Persist>(&mut self, table: &Table<P>) {
        self.generation = Some(table.changes.generation());
    }

    /// Up to date with what was written before; `None` if there is no memory for them.
    pub(super) fn join<P: Persist>(
        &mut self,
        engine: &DeviceEngine<P>,
        table: &Table<P>,
        params: TableParams,
        slots: u64,
        place: &mut Workplace,
    ) -> Result<Option<DevicePtr>, TableError> {
        let (device, bytes) = (engine.device(), 8 * slots as usize);
        let generation = table.changes.generation();
        let changed = table.changes.pending().take_words();
        let known = self.generation.take() == Some(generation);
        if self.buffer.as_ref().is_none_or(|buffer| buffer.len() < bytes) {
            self.buffer = None;
            let free = device.budget_left().min(device.memory()?.0);
            // Kernels number buckets with 32 bits.
            let buckets = slots / table.shape.slots() as u64;
            if bytes as u64 > free - free / 8 || buckets > u64::from(u32::MAX) {
                return Ok(None);
            }
            self.buffer = match device.allocate(bytes) {
                Err(error) if error.is_out_of_memory() => return Ok(None),
                made => Some(made?),
            };
        }
        let copies = self.buffer.as_ref().expect("it was made just now").ptr();
        let (count, offsets) = match changed.filter(|_| known) {
            Some(changed) if changed.is_empty() => (0, DevicePtr::NULL),
            Some(changed) => {
                (changed.len() as u64, place.columns.blocks.put(device, &changed, &place.stream)?)
            }
            None => (slots, DevicePtr::NULL),
        };
        if count > 0 {
            let params = RecopyParams { table: params, copies, count, offsets };
            // SAFETY: there are as many slots as the open levels have, and all of it stays until the stream is synchronised.
            unsafe { place.launch(&engine.kernels.fused()?.recopy, count, &params)? };
            place.stream.synchronize()?;
        }
        self.generation = Some(generation);
        Ok(Some(copies))
    }
}
