//! Level copies: the slot words of all open levels in device memory.
//!
//! To find an empty slot, or the slot of a record, in the image takes random reads over the link. Fused writes search
//! these copies instead, and update them with their own words. Changes that the CPU makes arrive through the [change
//! feed](crate::gpu::change_feed); if the levels themselves changed, or the copies are out of date, all slots are
//! copied again.
//!
//! Only the holder of the write lock uses the copies.

use warpkeep_device::{Buffer, DevicePtr};
use warpkeep_image::Persist;

use crate::gpu::engine::{DeviceEngine, THREADS, Workspace};
use crate::gpu::params::TableParams;
use crate::gpu::write::params::CopyLevelsParams;
use crate::{Table, TableError};

/// Copies of the open levels.
#[derive(Default)]
pub(crate) struct LevelCopies {
    buffer: Option<Buffer>,
    /// The generation of the levels that the copies agree with; `None` if they are out of date.
    generation: Option<u64>,
}

impl LevelCopies {
    /// The device writes, or may have written, words of the image that are not in the copies.
    pub(crate) fn outdate(&mut self) {
        self.generation = None;
    }

    /// A batch has updated image and copies alike.
    pub(super) fn confirm<P: Persist>(&mut self, table: &Table<P>) {
        self.generation = Some(table.changes.generation());
    }

    /// Brings the copies of `slots` slots up to date; `None` if there is no memory for them.
    pub(super) fn join<P: Persist>(
        &mut self,
        engine: &DeviceEngine<P>,
        table: &Table<P>,
        params: TableParams,
        slots: u64,
        workspace: &mut Workspace,
    ) -> Result<Option<DevicePtr>, TableError> {
        let (device, bytes) = (engine.device(), 8 * slots as usize);
        let generation = table.changes.generation();
        let changed = table.changes.pending().take_words();
        let was_current = self.generation.take() == Some(generation);
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
                allocated => Some(allocated?),
            };
        }
        let copies = self.buffer.as_ref().expect("allocated above").ptr();
        let (count, offsets) = match changed.filter(|_| was_current) {
            Some(changed) if changed.is_empty() => (0, DevicePtr::NULL),
            Some(changed) => {
                (changed.len() as u64, workspace.columns.blocks.put(device, &changed, &workspace.stream)?)
            }
            None => (slots, DevicePtr::NULL),
        };
        if count > 0 {
            let params = CopyLevelsParams { table: params, copies, count, offsets };
            // SAFETY: the open levels have `slots` slots, the buffer has space for them, and both live until the stream
            // is synchronised.
            unsafe { workspace.launch(&engine.kernels.fused()?.copy_levels, count, THREADS, &params)? };
            workspace.stream.synchronize()?;
        }
        self.generation = Some(generation);
        Ok(Some(copies))
    }
}
