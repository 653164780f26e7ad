//! Device memory that grows in place.

use std::ops::Deref;
use std::sync::Arc;

use crate::backend::Reserved;
use crate::budget::{Budget, Charge};
use crate::buffer::Buffer;
use crate::device::Core;
use crate::error::{DeviceError, Result};
use crate::pointer::DevicePtr;

/// Device memory that grows without moving: its address and its contents stay, so that kernels, other buffers and the parameters of
/// launches that are under way can hold pointers into it.
///
/// Address space for the largest size is reserved at first, which takes no memory; growing backs more of it with memory. It is used as a
/// [`Buffer`] of its present length. Made by [`Device::reserve`](crate::Device::reserve).
///
/// ```
/// # use warpkeep_device::{Device, DeviceChoice};
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// # let device = Device::open(DeviceChoice::Sim)?;
/// let mut slabs = device.reserve(64 << 30)?;
/// assert!(slabs.is_empty());
/// slabs.grow(1 << 20)?;
/// slabs.write(0, &[7u64])?;
/// let at = slabs.ptr();
/// slabs.grow(8 << 20)?;
/// assert_eq!((slabs.ptr(), slabs.view::<u64>()?.get(0)?), (at, 7));
/// # Ok::<(), warpkeep_device::DeviceError>(())
/// ```
#[derive(Debug)]
pub struct GrowingBuffer {
    buffer: Buffer,
    reservation: Reservation,
}

impl GrowingBuffer {
    pub(crate) fn new(core: Arc<Core>, most_bytes: usize, budget: Arc<Budget>) -> Result<Self> {
        let reserved = core.backend.reserve(most_bytes.max(1) as u64)?;
        let buffer = Buffer::borrowed(core.clone(), reserved.at, budget.charge(0)?);
        Ok(Self {
            buffer,
            reservation: Reservation { core, reserved, backed: 0, budget, charges: Vec::new() },
        })
    }

    /// Makes it at least `bytes` long. What there was stays; the contents of the new bytes are unspecified. If there is no memory for it,
    /// the length stays as it was.
    ///
    /// # Errors
    /// [`DeviceError::OutOfAddresses`] if it is more than was reserved, or an error for which
    /// [`is_out_of_memory`](DeviceError::is_out_of_memory) holds.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        self.reservation.back(bytes as u64)?;
        self.buffer.lengthen(bytes);
        Ok(())
    }

    /// As [`grow`](Self::grow), and the new bytes are zero.
    pub fn grow_zeroed(&mut self, bytes: usize) -> Result<()> {
        let before = self.buffer.len();
        self.grow(bytes)?;
        self.buffer.fill_range(before, self.buffer.len() - before, 0)
    }

    /// The length up to which it can grow.
    pub fn reserved(&self) -> usize {
        self.reservation.reserved.bytes as usize
    }

    /// Bytes that are backed by memory: its length, rounded up to what the device maps at once.
    pub fn backed(&self) -> usize {
        self.reservation.backed as usize
    }
}

impl Deref for GrowingBuffer {
    type Target = Buffer;

    fn deref(&self) -> &Buffer {
        &self.buffer
    }
}

/// Address space, part of which is backed by memory.
#[derive(Debug)]
struct Reservation {
    core: Arc<Core>,
    reserved: Reserved,
    backed: u64,
    budget: Arc<Budget>,
    // They give the bytes back to the budget.
    charges: Vec<Charge>,
}

impl Reservation {
    fn back(&mut self, bytes: u64) -> Result<()> {
        let Reserved { at, bytes: reserved, granule } = self.reserved;
        if bytes > reserved {
            return Err(DeviceError::OutOfAddresses { asked: bytes, reserved });
        }
        if bytes <= self.backed {
            return Ok(());
        }
        let more = bytes.next_multiple_of(granule).min(reserved) - self.backed;
        let charge = self.budget.charge(more)?;
        let from: DevicePtr = at.offset(self.backed);
        self.core.backend.back(from, more)?;
        self.charges.push(charge);
        self.backed += more;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.core.backend.release(&self.reserved, self.backed);
    }
}

#[cfg(test)]
#[cfg(not(no_simulator))]
mod tests {
    use super::*;
    use crate::{Device, Mode};

    #[test]
    fn what_cannot_be_had_leaves_it_as_it_was() {
        let device = Device::simulated(Mode::seeded(1)).unwrap();
        let small = device.with_budget(200 << 10);
        let mut buffer = small.reserve(1 << 20).unwrap();
        let (at, granule) = (buffer.ptr(), buffer.reservation.reserved.granule as usize);
        assert_eq!((buffer.len(), buffer.backed(), small.allocated()), (0, 0, 0));
        buffer.grow(1).unwrap();
        assert_eq!((buffer.len(), buffer.backed()), (1, granule));
        buffer.grow(granule).unwrap();
        assert_eq!((buffer.len(), small.allocated()), (granule, granule as u64));
        let error = buffer.grow(300 << 10).unwrap_err();
        assert!(error.is_out_of_memory(), "{error}");
        let error = buffer.grow(2 << 20).unwrap_err();
        assert!(
            matches!(error, DeviceError::OutOfAddresses { reserved, .. } if reserved == 1 << 20),
            "{error}"
        );
        assert_eq!((buffer.ptr(), buffer.len(), buffer.backed()), (at, granule, granule));
        assert!(matches!(buffer.write(granule, &[1_u8]), Err(DeviceError::OutOfBounds { .. })));
        drop(buffer);
        assert_eq!(small.allocated(), 0);
    }
}
