//! Columns of batches: those of slices, which are sent to the device, and those of callers, which are there.

use bytemuck::Pod;
use warpkeep_device::{Buffer, Device, DeviceError, DevicePtr, Result, StagedBuffer, Stream};

/// Sends `count` elements to the device.
///
/// # Safety
/// The stream is synchronised before the column is used again.
pub(crate) unsafe fn send_column<T: Pod>(
    column: &mut StagedBuffer,
    count: usize,
    elements: impl Iterator<Item = T>,
    device: &Device,
    stream: &Stream,
) -> Result<DevicePtr> {
    column.host::<T>(device, count)?.iter_mut().zip(elements).for_each(|(to, element)| *to = element);
    // SAFETY: the caller's promise.
    unsafe { column.send::<T>(device, count, stream) }
}

/// Room for `count` answers, on both sides: nothing is to fail for want of memory once a container has changed.
pub(crate) fn answer_column<T: Pod>(
    column: &mut StagedBuffer,
    count: usize,
    device: &Device,
) -> Result<DevicePtr> {
    column.host::<T>(device, count)?;
    column.reserve(device, size_of::<T>() * count)
}

/// The address of a caller's column; null if there is none, and an error if it is too short.
pub(crate) fn given_column(
    buffer: Option<&Buffer>,
    element: usize,
    count: usize,
    what: &'static str,
) -> Result<DevicePtr> {
    let Some(buffer) = buffer else { return Ok(DevicePtr::NULL) };
    let (len, size) = ((element as u64).saturating_mul(count as u64), buffer.len() as u64);
    match len <= size {
        true => Ok(buffer.ptr()),
        false => Err(DeviceError::OutOfBounds { what, offset: 0, len, size }),
    }
}
