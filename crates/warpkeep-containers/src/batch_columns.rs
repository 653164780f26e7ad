//! Columns of batches: those of slices, which are sent to the device, and those of callers, which are there.

use bytemuck::Pod;
use warpkeep_device::{Buffer, Device, DeviceError, DevicePtr, Result, StagedBuffer, Stream};

use crate::ContainerError;

/// Operations that a batch can have if it changes a container: kernels number them with 32 bits.
pub(crate) const MOST_OPERATIONS: usize = u32::MAX as usize;

/// An error if a batch that changes a container has too many operations.
pub(crate) fn check_operations(count: usize) -> Result<(), ContainerError> {
    let (what, given, most) = ("operations of a batch", count as u64, MOST_OPERATIONS as u64);
    if count > MOST_OPERATIONS { Err(ContainerError::TooLarge { what, given, most }) } else { Ok(()) }
}

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

/// The address of a caller's column; null if there is none, and an error if it is too short or memory of another device.
pub(crate) fn own_column(
    buffer: Option<&Buffer>,
    element: usize,
    count: usize,
    what: &'static str,
    device: &Device,
) -> Result<DevicePtr> {
    let Some(buffer) = buffer else { return Ok(DevicePtr::NULL) };
    buffer.check_device(device, what)?;
    let (len, size) = ((element as u64).saturating_mul(count as u64), buffer.len() as u64);
    match len <= size {
        true => Ok(buffer.ptr()),
        false => Err(DeviceError::OutOfBounds { what, offset: 0, len, size }),
    }
}

/// Waits for the stream before an error is returned: kernels that were launched before it use columns of the caller and
/// memory of the container. Of two errors the first one tells the caller more.
pub(crate) fn settled<T, E>(result: std::result::Result<T, E>, stream: &Stream) -> std::result::Result<T, E> {
    if result.is_err() {
        let _ = stream.synchronize();
    }
    result
}
