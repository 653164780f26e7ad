//! Leaves that batches have replaced and that old versions may need.

use warpkeep_device::{Buffer, Device, DevicePtr, Grid, Result, StagedBuffer, Stream};

use super::kernels::{Kernels, Retire, Sweep, THREADS};

/// Room that a list has at least.
const LEAST_ROOM: u64 = 64;

/// A list of leaves: for each its handle, and the version from which on it is not in use. One kernel looks at all of them, however
/// many batches they come from.
#[derive(Debug, Default)]
pub(super) struct RetiredLeaves {
    /// The versions, eight bytes each, then the handles.
    memory: Option<Buffer>,
    room: u64,
    count: u64,
    /// How many of the first ones were compared with the pins.
    swept: u64,
    /// The pins that they were compared with, in ascending order.
    pins: Vec<u64>,
}

/// Columns that a sweep needs.
#[derive(Debug, Default)]
pub(super) struct SweepColumns {
    pins: StagedBuffer,
    kept: StagedBuffer,
    kept_ends: StagedBuffer,
    listed: StagedBuffer,
    held: StagedBuffer,
}

/// Where a pool has its leaves, and where the handles of those go that are free.
#[derive(Debug, Clone, Copy)]
pub(super) struct SweepTo {
    pub(super) leaves: DevicePtr,
    pub(super) leaf_bytes: u64,
    pub(super) free: DevicePtr,
}

impl RetiredLeaves {
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of device memory.
    pub(super) fn bytes(&self) -> u64 {
        self.memory.as_ref().map_or(0, |memory| memory.len() as u64)
    }

    fn ends(&self, first: u64) -> DevicePtr {
        self.memory.as_ref().map_or(DevicePtr::NULL, |memory| memory.ptr().offset(8 * first))
    }

    fn handles(&self, first: u64) -> DevicePtr {
        self.memory.as_ref().map_or(DevicePtr::NULL, |memory| memory.ptr().offset(8 * self.room + 4 * first))
    }

    /// The handles of all of them.
    pub(super) fn list(&self) -> (DevicePtr, u64) {
        (self.handles(0), self.count)
    }

    /// Has room for this many leaves beside those that are there.
    pub(super) fn reserve(&mut self, more: u64, device: &Device, stream: &Stream) -> Result<()> {
        let needed = self.count + more;
        if needed <= self.room {
            return Ok(());
        }
        let bytes = |room: u64| 12 * room as usize;
        // A quarter more, so that a list that grows is not copied for each batch.
        let ample = (needed + needed / 4).max(LEAST_ROOM);
        let (memory, room) = match device.allocate(bytes(ample)) {
            Err(error) if error.is_out_of_memory() => (device.allocate(bytes(needed))?, needed),
            ample_memory => (ample_memory?, ample),
        };
        let (ends, handles) = (self.ends(0), self.handles(0));
        let (to, count) = (memory.ptr(), self.count as usize);
        // SAFETY: both have room for all that there are; the memory before is freed after the stream has come to the end of
        // the copies.
        unsafe {
            device.copy_raw(to, ends, 8 * count, stream)?;
            device.copy_raw(to.offset(8 * room), handles, 4 * count, stream)?;
        }
        if count > 0 {
            stream.synchronize()?;
        }
        (self.memory, self.room) = (Some(memory), room);
        Ok(())
    }

    /// Enqueues leaves that are not in use from version `end` on, for which there is room. They count when
    /// [`extend`](Self::extend) says so.
    ///
    /// # Safety
    /// The lists have as many handles as they say, until the stream is synchronised.
    pub(super) unsafe fn enqueue(
        &self,
        lists: &[(DevicePtr, u64)],
        end: u64,
        kernels: &Kernels,
        stream: &Stream,
    ) -> Result<()> {
        let mut first = self.count;
        for &(from, count) in lists.iter().filter(|(_, count)| *count > 0) {
            let params = Retire { from, handles: self.handles(first), ends: self.ends(first), count, end };
            // SAFETY: the caller's promise, and there is room.
            unsafe { kernels.retire.launch(Grid::covering(count, THREADS), &params, stream)? };
            first += count;
        }
        Ok(())
    }

    /// Counts leaves that were [enqueued](Self::enqueue).
    pub(super) fn extend(&mut self, count: u64) {
        self.count += count;
    }

    /// Puts the handles of those that none of these versions needs, in ascending order, behind the free ones: gives how many. Waits
    /// for it. With an error nothing has changed.
    pub(super) fn sweep(
        &mut self,
        pins: &[u64],
        to: SweepTo,
        kernels: &Kernels,
        columns: &mut SweepColumns,
        device: &Device,
        stream: &Stream,
    ) -> Result<u64> {
        // What was kept is still needed unless a version that it was compared with has gone: new ones need no old leaf.
        let mut now = pins.iter();
        let is_released = !self.pins.iter().all(|pin| now.any(|its| its == pin));
        let first = if is_released { 0 } else { self.swept };
        let (count, mut left) = (self.count - first, 0);
        if count > 0 && pins.is_empty() {
            // This needs no memory.
            // SAFETY: the list of free leaves has room for every leaf that there is.
            unsafe { device.copy_raw(to.free, self.handles(first), 4 * count as usize, stream)? };
            stream.synchronize()?;
        } else if count > 0 {
            let (kept, kept_ends) = (
                columns.kept.reserve(device, 4 * count as usize)?,
                columns.kept_ends.reserve(device, 8 * count as usize)?,
            );
            let params = Sweep {
                pins: columns.pins.put(device, pins, stream)?,
                pin_count: pins.len() as u64,
                free: to.free,
                kept,
                kept_ends,
                listed: columns.listed.zeros(device, 16, stream)?,
                ..self.sweep_of(first, to)
            };
            // SAFETY: the lists have room for all leaves that are looked at.
            unsafe { kernels.sweep.launch(Grid::covering(count, THREADS), &params, stream)? };
            // One number for both: the leaves that are kept are the others.
            let freed = columns.listed.take::<u64>(1, stream)?[0];
            left = count - freed;
            // SAFETY: the kernel has kept that many, which is not more than there were.
            unsafe {
                device.copy_raw(self.handles(first), kept, 4 * left as usize, stream)?;
                device.copy_raw(self.ends(first), kept_ends, 8 * left as usize, stream)?;
            }
            stream.synchronize()?;
        }
        self.count = first + left;
        self.swept = self.count;
        self.pins = pins.to_vec();
        Ok(count - left)
    }

    /// For each of these versions, in ascending order: how many leaves it needs that the current one does not.
    pub(super) fn held_by(
        &self,
        pins: &[u64],
        to: SweepTo,
        kernels: &Kernels,
        columns: &mut SweepColumns,
        device: &Device,
        stream: &Stream,
    ) -> Result<Vec<u64>> {
        let held = columns.held.zeros(device, 8 * (pins.len() + 1), stream)?;
        if self.count > 0 {
            let pin_count = pins.len() as u64;
            let at = columns.pins.put(device, pins, stream)?;
            let nowhere = SweepTo { free: DevicePtr::NULL, ..to };
            let params = Sweep { pins: at, pin_count, held, ..self.sweep_of(0, nowhere) };
            // SAFETY: the words are there; the stream is waited for below.
            unsafe { kernels.sweep.launch(Grid::covering(self.count, THREADS), &params, stream)? };
        }
        let mut sum = 0_u64;
        let differences: Vec<u64> = columns.held.take(pins.len(), stream)?;
        Ok(differences
            .iter()
            .map(|difference| {
                sum = sum.wrapping_add(*difference);
                sum
            })
            .collect())
    }

    /// A look at the leaves from the first on.
    fn sweep_of(&self, first: u64, to: SweepTo) -> Sweep {
        Sweep {
            leaves: to.leaves,
            retired: self.handles(first),
            ends: self.ends(first),
            count: self.count - first,
            pins: DevicePtr::NULL,
            pin_count: 0,
            free: to.free,
            kept: DevicePtr::NULL,
            kept_ends: DevicePtr::NULL,
            listed: DevicePtr::NULL,
            held: DevicePtr::NULL,
            leaf_bytes: to.leaf_bytes,
        }
    }
}
