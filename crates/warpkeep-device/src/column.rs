//! Buffers as columns of batches.

use std::ops::Range;

use bytemuck::Pod;
use warpkeep_core::{Column, ColumnMut, DeviceSlice, DeviceSliceMut, MemorySpace, Status};

use crate::buffer::Buffer;
use crate::choice::DeviceChoice;
use crate::device::Device;
use crate::error::Result;

impl Device {
    /// The memory of this device, as columns of batches name it. The simulator counts as the first device.
    pub fn memory_space(&self) -> MemorySpace {
        MemorySpace::Device(ordinal(self.choice()))
    }
}

fn ordinal(choice: DeviceChoice) -> u32 {
    match choice {
        DeviceChoice::Cuda(ordinal) => ordinal,
        DeviceChoice::Cpu | DeviceChoice::Sim => 0,
    }
}

impl Buffer {
    /// The whole buffer as a column of elements, to be read by a batch.
    ///
    /// Writes to the buffer that are still in a stream must come before the batch in its own stream; what a batch reads while it is written
    /// is unspecified.
    ///
    /// ```
    /// # use warpkeep_device::{Device, DeviceChoice};
    /// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
    /// # let device = Device::open(DeviceChoice::Sim)?;
    /// let keys = device.upload(&[7u64, 8])?;
    /// let column = keys.column::<u8>()?;
    /// assert_eq!((column.len(), column.space()), (16, device.memory_space()));
    /// # Ok::<(), warpkeep_device::DeviceError>(())
    /// ```
    pub fn column<T: Pod>(&self) -> Result<Column<'_, T>> {
        self.column_of(0..self.view::<T>()?.len())
    }

    /// As [`column`](Self::column), with some of the buffer's elements.
    pub fn column_of<T: Pod>(&self, elements: Range<usize>) -> Result<Column<'_, T>> {
        let (address, len) = self.elements::<T>(elements)?;
        // SAFETY: the range lies in this buffer, which is borrowed; device memory is aligned for every type, and elements follow each other.
        Ok(Column::Device(unsafe { DeviceSlice::from_raw(address, len, self.ordinal()) }))
    }

    /// The whole buffer as a column that a batch writes its answers to.
    pub fn column_mut<T: Pod>(&mut self) -> Result<ColumnMut<'_, T>> {
        let len = self.view::<T>()?.len();
        self.column_of_mut(0..len)
    }

    /// As [`column_mut`](Self::column_mut), with some of the buffer's elements.
    pub fn column_of_mut<T: Pod>(&mut self, elements: Range<usize>) -> Result<ColumnMut<'_, T>> {
        let (address, len) = self.elements::<T>(elements)?;
        // SAFETY: as `column_of`; the buffer is borrowed exclusively.
        Ok(ColumnMut::Device(unsafe { DeviceSliceMut::from_raw(address, len, self.ordinal()) }))
    }

    /// The whole buffer as the column of a batch's statuses, a byte each.
    pub fn status_column_mut(&mut self) -> ColumnMut<'_, Status> {
        // SAFETY: the buffer is borrowed exclusively, and a status is a byte. The host reads statuses as bytes, so that the bytes
        // before the batch need not be statuses.
        ColumnMut::Device(unsafe {
            DeviceSliceMut::from_raw(self.ptr().address(), self.len(), self.ordinal())
        })
    }

    fn elements<T: Pod>(&self, elements: Range<usize>) -> Result<(u64, usize)> {
        let view = self.view::<T>()?;
        let end = view.ptr(elements.end.max(elements.start))?;
        let len = elements.len();
        Ok((end.address() - (len * size_of::<T>()) as u64, len))
    }

    fn ordinal(&self) -> u32 {
        ordinal(self.choice())
    }
}

#[cfg(test)]
#[cfg(not(no_simulator))]
mod tests {
    use super::*;
    use crate::{DeviceError, Mode};

    #[test]
    fn columns_lie_in_their_buffer() {
        let device = Device::simulated(Mode::fast()).unwrap();
        let mut buffer = device.upload(&[1_u32, 2, 3, 4]).unwrap();
        let at = buffer.ptr().address();
        let Column::Device(part) = buffer.column_of::<u32>(1..3).unwrap() else { panic!("on the device") };
        assert_eq!((part.address(), part.len(), part.device()), (at + 4, 2, 0));
        let Column::Device(none) = buffer.column_of::<u32>(4..4).unwrap() else { panic!("on the device") };
        assert_eq!((none.address(), none.len()), (at + 16, 0));
        assert_eq!(buffer.column::<u64>().unwrap().len(), 2);
        assert_eq!(buffer.column_mut::<u8>().unwrap().len(), 16);
        assert!(matches!(buffer.column::<[u8; 3]>(), Err(DeviceError::NotWholeElements { .. })));
        assert!(matches!(buffer.column_of::<u32>(3..5), Err(DeviceError::OutOfBounds { .. })));
        assert!(buffer.column_of_mut::<u32>(0..usize::MAX).is_err());
    }
}
