//! Leaves in device memory: which are free, and which old versions still need.

use warpkeep_device::{Device, DeviceError, DevicePtr, GrowingBuffer, Result, Stream};

use super::kernels::{Kernels, NewLeaves, Shape};
use super::retired::{RetiredLeaves, SweepColumns, SweepTo};
use crate::ContainerError;

/// One part in this many of the leaves is left for batches that remove keys, and at least this many: a map that has all the memory
/// it can have must still be able to give some back.
const SPARE_SHARE: u64 = 16;
pub(super) const LEAST_SPARE: u64 = 64;

/// Leaves, each known by its handle.
#[derive(Debug)]
pub(super) struct LeafPool {
    leaves: GrowingBuffer,
    /// Handles of leaves that were given back.
    free: GrowingBuffer,
    pub(super) state: PoolState,
    most: u64,
    shape: Shape,
    pub(super) retired: RetiredLeaves,
}

/// Which leaves are not in use.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PoolState {
    /// How many are on the list of free ones.
    pub(super) free: u64,
    /// The first handle that was never used.
    pub(super) fresh: u64,
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
            retired: RetiredLeaves::default(),
        })
    }

    pub(super) fn leaves(&self) -> DevicePtr {
        self.leaves.ptr()
    }

    /// Bytes of device memory.
    pub(super) fn bytes(&self) -> u64 {
        (self.leaves.backed() + self.free.backed()) as u64 + self.retired.bytes()
    }

    pub(super) fn most_bytes(&self) -> u64 {
        self.most * self.shape.leaf_bytes() as u64
    }

    /// Lists of handles that no leaf of the current version has.
    pub(super) fn unused(&self) -> [(DevicePtr, u64); 2] {
        [self.retired.list(), (self.free.ptr(), self.state.free)]
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
        let to = self.sweep_to();
        self.state.free += self.retired.sweep(pins, to, kernels, columns, device, stream)?;
        Ok(())
    }

    pub(super) fn sweep_to(&self) -> SweepTo {
        let leaf_bytes = self.shape.leaf_bytes() as u64;
        SweepTo { leaves: self.leaves.ptr(), leaf_bytes, free: self.behind_free(self.state) }
    }
}

/// Whether a call failed because there is no memory, or no more than was reserved.
pub(super) trait NoRoom {
    fn is_no_room(&self) -> bool;
}

impl NoRoom for DeviceError {
    fn is_no_room(&self) -> bool {
        self.is_out_of_memory() || matches!(self, Self::OutOfAddresses { .. })
    }
}

impl NoRoom for ContainerError {
    fn is_no_room(&self) -> bool {
        self.device().is_some_and(NoRoom::is_no_room)
    }
}

/// An error of a call that asks for more than there can be.
pub(super) fn too_large(what: &'static str, given: u64, most: u64) -> ContainerError {
    ContainerError::TooLarge { what, given, most }
}
