//! Leaves in device memory: which are free, and which old versions still need.

use warpkeep_device::{
    Buffer, Device, DeviceError, DevicePtr, Grid, GrowingBuffer, Result, StagedBuffer, Stream,
};

use super::kernels::{Kernels, NewLeaves, Shape, Sweep, THREADS};
use crate::ContainerError;

/// One part in this many of the leaves is left for batches that remove keys, and at least this many: a map that has all the memory
/// it can have must still be able to give some back.
const SPARE_SHARE: u64 = 16;
const LEAST_SPARE: u64 = 64;

/// Leaves, each known by its handle.
#[derive(Debug)]
pub(super) struct LeafPool {
    leaves: GrowingBuffer,
    /// Handles of leaves that were given back.
    free: GrowingBuffer,
    pub(super) state: PoolState,
    most: u64,
    shape: Shape,
    /// Leaves that a batch replaced and that old versions may need.
    retired: Vec<Retired>,
    /// Memory for the handles of one batch, in case a snapshot is taken while the batch ends.
    spare: Option<Buffer>,
    /// The pins that the retired leaves were compared with last.
    compared: Vec<u64>,
}

/// Which leaves are not in use.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PoolState {
    /// How many are on the list of free ones.
    pub(super) free: u64,
    /// The first handle that was never used.
    pub(super) fresh: u64,
}

/// Leaves that are not in use since a version.
#[derive(Debug)]
struct Retired {
    handles: Buffer,
    count: u64,
    end: u64,
    is_new: bool,
}

/// Columns that a sweep needs.
#[derive(Debug, Default)]
pub(super) struct SweepColumns {
    pins: StagedBuffer,
    kept: StagedBuffer,
    listed: StagedBuffer,
    held: StagedBuffer,
}

impl LeafPool {
    /// A pool without leaves, which can grow to this many bytes of them.
    pub(super) fn new(device: &Device, shape: Shape, most_bytes: Option<u64>) -> Result<LeafPool> {
        let most_bytes = match most_bytes {
            Some(most) => most,
            None => device.memory()?.1,
        };
        let most = (most_bytes / shape.leaf_bytes() as u64).clamp(1, u64::from(u32::MAX) - 1);
        Ok(LeafPool {
            leaves: device.reserve(most as usize * shape.leaf_bytes())?,
            free: device.reserve(4 * most as usize)?,
            state: PoolState::default(),
            most,
            shape,
            retired: Vec::new(),
            spare: None,
            compared: Vec::new(),
        })
    }

    pub(super) fn leaves(&self) -> DevicePtr {
        self.leaves.ptr()
    }

    /// Bytes of device memory.
    pub(super) fn bytes(&self) -> u64 {
        let retired: usize = self.retired.iter().map(|retired| retired.handles.len()).sum();
        let spare = self.spare.as_ref().map_or(0, Buffer::len);
        (self.leaves.backed() + self.free.backed() + retired + spare) as u64
    }

    pub(super) fn most_bytes(&self) -> u64 {
        self.most * self.shape.leaf_bytes() as u64
    }

    /// Leaves that only old versions need.
    pub(super) fn retired(&self) -> u64 {
        self.retired.iter().map(|retired| retired.count).sum()
    }

    /// Lists of handles that no leaf of the current version has.
    pub(super) fn unused(&self) -> impl Iterator<Item = (DevicePtr, u64)> {
        let free = (self.free.ptr(), self.state.free);
        self.retired.iter().map(|retired| (retired.handles.ptr(), retired.count)).chain([free])
    }

    /// Leaves for a batch to write: the state that the pool has afterwards, unless the batch is given up. A batch that adds keys leaves
    /// some for one that removes them.
    pub(super) fn claim(
        &mut self,
        from: PoolState,
        count: u64,
        version: u64,
        adds: bool,
    ) -> Result<(NewLeaves, PoolState)> {
        let spare = if adds { (from.fresh / SPARE_SHARE).max(LEAST_SPARE) } else { 0 };
        let of_free = count.min(from.free);
        let after = PoolState { free: from.free - of_free, fresh: from.fresh + count - of_free };
        self.grow(after.fresh + spare.saturating_sub(after.free))?;
        let fresh = NewLeaves {
            leaves: self.leaves.ptr(),
            free: self.free.ptr(),
            free_count: from.free,
            fresh: from.fresh,
            version,
        };
        Ok((fresh, after))
    }

    fn grow(&mut self, leaves: u64) -> Result<()> {
        let of = self.shape.leaf_bytes();
        if leaves > self.most {
            let (asked, reserved) = (leaves * of as u64, self.most * of as u64);
            return Err(DeviceError::OutOfAddresses { asked, reserved });
        }
        // A quarter more, if there is memory for it, so that it does not grow in every batch.
        let ample = (leaves + leaves / 4).min(self.most);
        if self.leaves.len() >= leaves as usize * of {
            return Ok(());
        }
        for leaves in [ample, leaves] {
            let grown =
                self.free.grow(4 * leaves as usize).and_then(|()| self.leaves.grow(leaves as usize * of));
            match grown {
                Err(error) if error.is_out_of_memory() && leaves == ample => {}
                other => return other,
            }
        }
        Ok(())
    }

    /// Remembers leaves that are not in use from version `end` on: old versions need some of them.
    pub(super) fn retire(&mut self, handles: Buffer, count: u64, end: u64) {
        self.retired.push(Retired { handles, count, end, is_new: true });
    }

    /// Has memory for a list of this many handles that [`take_spare`](Self::take_spare) gives.
    pub(super) fn reserve_spare(&mut self, count: u64, device: &Device) -> Result<()> {
        let bytes = 4 * count as usize;
        if self.spare.as_ref().is_none_or(|spare| spare.len() < bytes) {
            self.spare = None;
            self.spare = Some(device.allocate(bytes.next_power_of_two())?);
        }
        Ok(())
    }

    pub(super) fn take_spare(&mut self) -> Option<Buffer> {
        self.spare.take()
    }

    /// Where the handles of leaves go that are free next, if the pool is in this state.
    pub(super) fn behind_free(&self, state: PoolState) -> DevicePtr {
        self.free.ptr().offset(4 * state.free)
    }

    /// Takes leaves back that no version needs.
    ///
    /// # Safety
    /// There are `count` handles at this address, each of a leaf that is in use by no version.
    pub(super) unsafe fn give_back(
        &mut self,
        handles: DevicePtr,
        count: u64,
        device: &Device,
        stream: &Stream,
    ) -> Result<()> {
        let to = self.behind_free(self.state);
        // SAFETY: the caller's promise; the list of free leaves has room for every leaf that there is.
        unsafe { device.copy_raw(to, handles, 4 * count as usize, stream)? };
        self.state.free += count;
        Ok(())
    }

    /// Takes back the leaves that none of these versions needs, in ascending order.
    pub(super) fn collect(
        &mut self,
        pins: &[u64],
        kernels: &Kernels,
        columns: &mut SweepColumns,
        device: &Device,
        stream: &Stream,
    ) -> Result<()> {
        // What was kept is still needed unless one of the versions that it was compared with has gone: new ones need no old leaf.
        let released = self.compared.iter().copied().find(|pin| pins.binary_search(pin).is_err());
        let mut chunks = std::mem::take(&mut self.retired);
        let mut swept = Ok(());
        for chunk in &mut chunks {
            if swept.is_ok() && (chunk.is_new || released.is_some_and(|pin| pin < chunk.end)) {
                swept = self.sweep(chunk, pins, kernels, columns, device, stream);
            }
        }
        chunks.retain(|chunk| chunk.count > 0);
        if swept.is_err() {
            chunks.iter_mut().for_each(|chunk| chunk.is_new = true);
        }
        self.retired = chunks;
        self.compared = pins.to_vec();
        swept
    }

    fn sweep(
        &mut self,
        chunk: &mut Retired,
        pins: &[u64],
        kernels: &Kernels,
        columns: &mut SweepColumns,
        device: &Device,
        stream: &Stream,
    ) -> Result<()> {
        if pins.iter().all(|pin| *pin >= chunk.end) {
            // SAFETY: no version before `end` is there, and later ones do not use these leaves.
            unsafe { self.give_back(chunk.handles.ptr(), chunk.count, device, stream)? };
            stream.synchronize()?;
            chunk.count = 0;
            return Ok(());
        }
        let kept = columns.kept.reserve(device, 4 * chunk.count as usize)?;
        let listed = columns.listed.zeros(device, 16, stream)?;
        let params = Sweep {
            pins: columns.pins.put(device, pins, stream)?,
            pin_count: pins.len() as u64,
            free: self.behind_free(self.state),
            kept,
            listed,
            ..self.sweep_of(chunk)
        };
        let grid = Grid::covering(chunk.count, THREADS);
        // SAFETY: the lists have room for all leaves of the chunk; the stream is waited for.
        unsafe { kernels.sweep.launch(grid, &params, stream)? };
        let [freed, left]: [u64; 2] =
            columns.listed.take(2, stream)?.try_into().expect("two words were asked for");
        // SAFETY: there are `left` handles, and the chunk was longer.
        unsafe { device.copy_raw(chunk.handles.ptr(), kept, 4 * left as usize, stream)? };
        stream.synchronize()?;
        self.state.free += freed;
        (chunk.count, chunk.is_new) = (left, false);
        Ok(())
    }

    fn sweep_of(&self, chunk: &Retired) -> Sweep {
        Sweep {
            leaves: self.leaves.ptr(),
            retired: chunk.handles.ptr(),
            count: chunk.count,
            end: chunk.end,
            pins: DevicePtr::NULL,
            pin_count: 0,
            free: DevicePtr::NULL,
            kept: DevicePtr::NULL,
            listed: DevicePtr::NULL,
            held: DevicePtr::NULL,
            leaf_bytes: self.shape.leaf_bytes() as u64,
        }
    }

    /// For each of these versions, in ascending order: how many leaves it needs that the current one does not.
    pub(super) fn held_by(
        &self,
        pins: &[u64],
        kernels: &Kernels,
        columns: &mut SweepColumns,
        device: &Device,
        stream: &Stream,
    ) -> Result<Vec<u64>> {
        let held = columns.held.zeros(device, 8 * (pins.len() + 1), stream)?;
        let at = columns.pins.put(device, pins, stream)?;
        for chunk in &self.retired {
            let params = Sweep { pins: at, pin_count: pins.len() as u64, held, ..self.sweep_of(chunk) };
            // SAFETY: the words are there; the stream is waited for below.
            unsafe { kernels.sweep.launch(Grid::covering(chunk.count, THREADS), &params, stream)? };
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
}

/// An error of a call that asks for more than there can be.
pub(super) fn too_large(what: &'static str, given: u64, most: u64) -> ContainerError {
    ContainerError::TooLarge { what, given, most }
}
