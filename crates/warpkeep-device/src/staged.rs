//! Buffers that both sides of a copy use: device memory, with pinned host memory beside it.

use std::sync::atomic::AtomicU64;

use bytemuck::{NoUninit, Pod};

use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Result;
use crate::pinned::PinnedBuffer;
use crate::pointer::DevicePtr;
use crate::stream::Stream;

/// A column of a batch in device memory, kept from batch to batch, with a pinned host side: copies between the two sides use the whole
/// bandwidth of the link and run while the program does something else.
///
/// Both sides grow to the longest batch so far, and grow by powers of two so that batches of similar lengths share an allocation. Growing
/// does not keep contents: a column is filled anew for each batch. For memory that keeps its contents see
/// [`GrowingBuffer`](crate::GrowingBuffer).
///
/// ```
/// # use warpkeep_device::{Device, DeviceChoice, StagedBuffer};
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// # let device = Device::open(DeviceChoice::Sim)?;
/// let (mut keys, stream) = (StagedBuffer::default(), device.stream()?);
/// keys.host::<u64>(&device, 3)?.copy_from_slice(&[5, 6, 7]);
/// // SAFETY: the stream is synchronised before the host side is used again.
/// unsafe {
///     keys.send::<u64>(&device, 3, &stream)?;
///     stream.synchronize()?;
///     keys.fetch::<u64>(&device, 3, &stream)?;
///     stream.synchronize()?;
/// }
/// assert_eq!(keys.fetched::<u64>(3), [5, 6, 7]);
/// # Ok::<(), warpkeep_device::DeviceError>(())
/// ```
#[derive(Debug, Default)]
pub struct StagedBuffer {
    device: Option<Buffer>,
    host: Option<PinnedBuffer>,
    /// Bytes at the beginning of the device side that [`clear_ahead`](Self::clear_ahead) has zeroed.
    cleared: usize,
}

/// How much to allocate for `bytes` bytes.
fn capacity_for(bytes: usize) -> usize {
    bytes.max(64).checked_next_power_of_two().unwrap_or(bytes)
}

impl StagedBuffer {
    /// Makes the device side at least `bytes` long, and returns its address. If it was shorter, its contents are lost.
    pub fn reserve(&mut self, device: &Device, bytes: usize) -> Result<DevicePtr> {
        if let Some(buffer) = self.device.as_ref().filter(|buffer| buffer.len() >= bytes) {
            return Ok(buffer.ptr());
        }
        // The old allocation is freed first, because both might not fit.
        (self.device, self.cleared) = (None, 0);
        let buffer = device.allocate(capacity_for(bytes))?;
        Ok(self.device.insert(buffer).ptr())
    }

    /// `count` elements of the host side, to be filled before [`send`](Self::send). Their contents are unspecified.
    pub fn host<T: Pod>(&mut self, device: &Device, count: usize) -> Result<&mut [T]> {
        let bytes = count * size_of::<T>();
        if self.host.as_ref().is_none_or(|host| host.len() < bytes) {
            self.host = None;
            self.host = Some(device.pin(capacity_for(bytes))?);
        }
        let host = self.host.as_mut().expect("it was pinned above, or was long enough");
        Ok(&mut host.elements_mut()?[..count])
    }

    /// Starts to copy the first `count` elements of the host side to the device, and returns their address there.
    ///
    /// # Safety
    /// The stream must be synchronised before the host side is used again.
    pub unsafe fn send<T: Pod>(
        &mut self,
        device: &Device,
        count: usize,
        stream: &Stream,
    ) -> Result<DevicePtr> {
        let at = self.reserve(device, count * size_of::<T>())?;
        if let (Some(to), Some(host)) = (&self.device, &self.host) {
            // SAFETY: the caller's promise.
            unsafe { to.write_behind(0, &host.elements::<T>()?[..count], stream)? };
        }
        Ok(at)
    }

    /// Starts to copy the first `count` elements of the device side to the host. Once the stream is synchronised they are in
    /// [`fetched`](Self::fetched).
    ///
    /// # Safety
    /// The stream must be synchronised before the host side is used.
    pub unsafe fn fetch<T: Pod>(&mut self, device: &Device, count: usize, stream: &Stream) -> Result<()> {
        self.host::<T>(device, count)?;
        if let (Some(from), Some(host)) = (&self.device, &mut self.host) {
            // SAFETY: the caller's promise.
            unsafe { from.read_behind(0, &mut host.elements_mut::<T>()?[..count], stream)? };
        }
        Ok(())
    }

    /// The first `count` elements of the host side.
    ///
    /// # Panics
    /// If the host side is shorter.
    pub fn fetched<T: Pod>(&self, count: usize) -> &[T] {
        match &self.host {
            Some(host) => &bytemuck::cast_slice(host.as_slice())[..count],
            None => &[],
        }
    }

    /// The host side as words that a kernel may be writing to.
    pub fn shared_words(&self) -> &[AtomicU64] {
        self.host.as_ref().map_or(&[], PinnedBuffer::shared_words)
    }

    /// The address of the device side.
    pub fn ptr(&self) -> DevicePtr {
        self.device.as_ref().map_or(DevicePtr::NULL, Buffer::ptr)
    }

    /// The address at which kernels reach the host side.
    pub fn host_ptr(&self) -> DevicePtr {
        self.host.as_ref().map_or(DevicePtr::NULL, PinnedBuffer::ptr)
    }

    /// Sets the first `bytes` bytes of the device side, after what is in the stream; returns their address.
    pub fn fill(&mut self, device: &Device, bytes: usize, byte: u8, stream: &Stream) -> Result<DevicePtr> {
        let at = self.reserve(device, bytes)?;
        self.cleared = 0;
        if let Some(buffer) = &self.device {
            buffer.fill_on(0, bytes, byte, stream)?;
        }
        Ok(at)
    }

    /// Copies elements to the device side, after what is in the stream, and waits for it; returns their address.
    pub fn put<T: NoUninit>(
        &mut self,
        device: &Device,
        elements: &[T],
        stream: &Stream,
    ) -> Result<DevicePtr> {
        let at = self.reserve(device, size_of_val(elements))?;
        self.cleared = 0;
        if let Some(buffer) = &self.device {
            buffer.write_on(0, elements, stream)?;
        }
        Ok(at)
    }

    /// Reads the first `count` elements of the device side, after what is in the stream, and waits for it.
    pub fn take<T: Pod>(&self, count: usize, stream: &Stream) -> Result<Vec<T>> {
        let mut elements = vec![T::zeroed(); count];
        if let Some(buffer) = &self.device {
            buffer.read_on(0, &mut elements, stream)?;
        }
        Ok(elements)
    }

    /// Zeroes the first `bytes` bytes of the device side, after what is in the stream; returns their address.
    pub fn zeros(&mut self, device: &Device, bytes: usize, stream: &Stream) -> Result<DevicePtr> {
        self.fill(device, bytes, 0, stream)
    }

    /// As [`zeros`](Self::zeros), but does nothing for bytes that [`clear_ahead`](Self::clear_ahead) has zeroed.
    pub fn take_zeros(&mut self, device: &Device, bytes: usize, stream: &Stream) -> Result<DevicePtr> {
        match std::mem::take(&mut self.cleared) {
            cleared if cleared >= bytes => self.reserve(device, bytes),
            _ => self.zeros(device, bytes, stream),
        }
    }

    /// Zeroes the first `bytes` bytes for the next batch, after what is in the stream, when this batch no longer uses them. A failure does not
    /// change what this batch has done: the next call on the device reports it.
    pub fn clear_ahead(&mut self, bytes: usize, stream: &Stream) {
        let cleared = self.device.as_ref().is_some_and(|buffer| buffer.fill_on(0, bytes, 0, stream).is_ok());
        self.cleared = if cleared { bytes } else { 0 };
    }
}

#[cfg(test)]
#[cfg(not(no_simulator))]
mod tests {
    use super::*;
    use crate::Mode;

    fn device() -> Device {
        Device::simulated(Mode::seeded(1)).unwrap()
    }

    #[test]
    fn it_grows_by_powers_of_two_and_stays_where_it_is_long_enough() {
        let device = device();
        let mut column = StagedBuffer::default();
        assert!(column.ptr().is_null() && column.host_ptr().is_null() && column.shared_words().is_empty());
        let first = column.reserve(&device, 65).unwrap();
        assert_eq!(device.allocated(), 128);
        assert_eq!(column.reserve(&device, 128).unwrap(), first);
        column.reserve(&device, 129).unwrap();
        assert_eq!(device.allocated(), 256, "the old allocation is gone");
        let small = device.with_budget(200);
        assert!(column.reserve(&small, 300).is_err_and(|error| error.is_out_of_memory()));
        assert!(column.ptr().is_null(), "after a failure there is none");
        column.reserve(&device, 300).unwrap();
    }

    #[test]
    fn zeros_that_were_cleared_ahead_are_not_cleared_again() {
        let (device, mut column) = (device(), StagedBuffer::default());
        let stream = device.stream().unwrap();
        column.put(&device, &[7_u8; 64], &stream).unwrap();
        column.clear_ahead(32, &stream);
        // What is beyond the cleared bytes was not touched, and is not for the caller to look at.
        column.take_zeros(&device, 32, &stream).unwrap();
        assert_eq!(column.take::<u8>(64, &stream).unwrap(), [[0; 32], [7; 32]].concat());
        // Only once, and not after something else was stored.
        column.put(&device, &[7_u8; 64], &stream).unwrap();
        column.clear_ahead(64, &stream);
        column.put(&device, &[9_u8; 8], &stream).unwrap();
        column.take_zeros(&device, 16, &stream).unwrap();
        assert_eq!(column.take::<u8>(16, &stream).unwrap(), [0; 16]);
    }

    #[test]
    fn elements_cross_the_link_both_ways() {
        let (device, mut column) = (device(), StagedBuffer::default());
        let stream = device.stream().unwrap();
        column.host::<u32>(&device, 100).unwrap().iter_mut().zip(0..).for_each(|(to, i)| *to = i);
        // SAFETY: the stream is synchronised before the host side is used again.
        unsafe {
            column.send::<u32>(&device, 100, &stream).unwrap();
            stream.synchronize().unwrap();
            column.host::<u32>(&device, 100).unwrap().fill(0);
            column.fetch::<u32>(&device, 60, &stream).unwrap();
        }
        stream.synchronize().unwrap();
        assert_eq!(column.fetched::<u32>(60), (0..60).collect::<Vec<u32>>());
        assert_eq!(column.fetched::<u32>(100)[60..], [0; 40]);
        assert_eq!(column.shared_words().len(), 64);
    }
}
