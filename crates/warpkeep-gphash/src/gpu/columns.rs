//! Columns of a batch in device memory, kept from batch to batch, with pinned memory on the host's side: the device copies from and to that as
//! fast as the link goes, and beside what the program does.

use std::sync::atomic::AtomicU64;

use bytemuck::{NoUninit, Pod};
use warpkeep_device::{Buffer, Device, DevicePtr, PinnedBuffer, Stream};

use super::deals::Deals;
use crate::TableError;

/// One column, as long as the longest batch so far.
#[derive(Debug, Default)]
pub(crate) struct Column {
    device: Option<Buffer>,
    host: Option<PinnedBuffer>,
    /// Bytes that are zero already, after what is in the stream of whoever [cleared](Column::clear_ahead) them.
    clear: usize,
}

/// What is allocated for so many bytes: more than asked for, so that batches of like lengths share it.
fn generous(bytes: usize) -> usize {
    bytes.max(64).next_power_of_two()
}

impl Column {
    /// Has room for so many bytes on the device. What was there is gone if it had not.
    pub(crate) fn room(&mut self, device: &Device, bytes: usize) -> Result<DevicePtr, TableError> {
        match &self.device {
            Some(buffer) if buffer.len() >= bytes => Ok(buffer.ptr()),
            _ => {
                // The old one first: both may not fit.
                (self.device, self.clear) = (None, 0);
                let buffer = device.allocate(generous(bytes))?;
                let at = buffer.ptr();
                self.device = Some(buffer);
                Ok(at)
            }
        }
    }

    /// So many elements on the host, to be filled and [sent](Column::send). They hold anything.
    pub(crate) fn host<T: Pod>(&mut self, device: &Device, count: usize) -> Result<&mut [T], TableError> {
        let bytes = count * size_of::<T>();
        if self.host.as_ref().is_none_or(|host| host.len() < bytes) {
            self.host = None;
            self.host = Some(device.pin(generous(bytes))?);
        }
        let host = self.host.as_mut().expect("it has just been pinned");
        Ok(&mut host.elements_mut()?[..count])
    }

    /// Begins to copy what is on the host, so many elements, to the device; gives where they lie.
    ///
    /// # Safety
    /// The stream is synchronised before the host's side is used again.
    pub(crate) unsafe fn send<T: Pod>(
        &mut self,
        device: &Device,
        count: usize,
        stream: &Stream,
    ) -> Result<DevicePtr, TableError> {
        let at = self.room(device, count * size_of::<T>())?;
        if let (Some(to), Some(host)) = (&self.device, &self.host) {
            // SAFETY: the caller's promise.
            unsafe { to.write_behind(0, &host.elements::<T>()?[..count], stream)? };
        }
        Ok(at)
    }

    /// Begins to copy so many elements to the host. They are there, for [`Column::fetched`], once the stream is synchronised.
    ///
    /// # Safety
    /// The stream is synchronised before the host's side is used.
    pub(crate) unsafe fn fetch<T: Pod>(
        &mut self,
        device: &Device,
        count: usize,
        stream: &Stream,
    ) -> Result<(), TableError> {
        self.host::<T>(device, count)?;
        if let (Some(from), Some(host)) = (&self.device, &mut self.host) {
            // SAFETY: the caller's promise.
            unsafe { from.read_behind(0, &mut host.elements_mut::<T>()?[..count], stream)? };
        }
        Ok(())
    }

    /// What was fetched.
    pub(crate) fn fetched<T: Pod>(&self, count: usize) -> &[T] {
        match &self.host {
            Some(host) => &bytemuck::cast_slice(host.as_slice())[..count],
            None => &[],
        }
    }

    /// The host's side as words that the device may be writing to.
    pub(crate) fn shared_words(&self) -> &[AtomicU64] {
        self.host.as_ref().map_or(&[], PinnedBuffer::shared_words)
    }

    /// Where it lies on the device.
    pub(crate) fn at(&self) -> DevicePtr {
        self.device.as_ref().map_or(DevicePtr::NULL, Buffer::ptr)
    }

    /// Where the host's side lies, for copies by the device.
    pub(crate) fn host_ptr(&self) -> DevicePtr {
        self.host.as_ref().map_or(DevicePtr::NULL, PinnedBuffer::ptr)
    }

    /// The same byte in all of so many, after what is in the stream; gives where they lie.
    pub(crate) fn fill(
        &mut self,
        device: &Device,
        bytes: usize,
        byte: u8,
        stream: &Stream,
    ) -> Result<DevicePtr, TableError> {
        let at = self.room(device, bytes)?;
        if let Some(buffer) = &self.device {
            buffer.fill_on(0, bytes, byte, stream)?;
        }
        Ok(at)
    }

    /// Puts elements there.
    pub(crate) fn put<T: NoUninit>(
        &mut self,
        device: &Device,
        elements: &[T],
        stream: &Stream,
    ) -> Result<DevicePtr, TableError> {
        let at = self.room(device, size_of_val(elements))?;
        if let Some(buffer) = &self.device {
            buffer.write_on(0, elements, stream)?;
        }
        Ok(at)
    }

    /// Has so many bytes, all zero after what is in the stream.
    pub(crate) fn zeros(
        &mut self,
        device: &Device,
        bytes: usize,
        stream: &Stream,
    ) -> Result<DevicePtr, TableError> {
        self.fill(device, bytes, 0, stream)
    }

    /// The same, of which nothing is left to do if they were [cleared ahead](Column::clear_ahead).
    pub(crate) fn take_zeros(
        &mut self,
        device: &Device,
        bytes: usize,
        stream: &Stream,
    ) -> Result<DevicePtr, TableError> {
        match std::mem::take(&mut self.clear) {
            clear if clear >= bytes => self.room(device, bytes),
            _ => self.zeros(device, bytes, stream),
        }
    }

    /// Clears so many bytes for the next batch, when this one has no more use for them, after what is in the stream: nobody waits for it there. It is for speed
    /// alone, and what this batch came to stands: if it cannot be done, whoever uses the device next is told why.
    pub(crate) fn clear_ahead(&mut self, bytes: usize, stream: &Stream) {
        let cleared = self.device.as_ref().is_some_and(|buffer| buffer.fill_on(0, bytes, 0, stream).is_ok());
        self.clear = if cleared { bytes } else { 0 };
    }

    /// So many elements of what is there, after what is in the stream.
    pub(crate) fn take<T: Pod>(&self, count: usize, stream: &Stream) -> Result<Vec<T>, TableError> {
        let mut elements = vec![T::zeroed(); count];
        if let Some(buffer) = &self.device {
            buffer.read_on(0, &mut elements, stream)?;
        }
        Ok(elements)
    }
}

/// All columns.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    pub(crate) ops: Column,
    pub(crate) keys: Column,
    pub(crate) values: Column,
    pub(crate) arguments: Column,
    pub(crate) blocks: Column,
    pub(crate) statuses: Column,
    pub(crate) versions: Column,
    pub(crate) answers: Column,
    pub(crate) pending: Column,
    pub(crate) counters: Column,
    pub(crate) asked: Column,
    pub(crate) deals: Deals,
    pub(crate) asks: Column,
    /// What a batch that is written straight through comes to, and who is in it.
    pub(crate) enrolled: Column,
    pub(crate) records: Column,
    pub(crate) ranks: Column,
    pub(crate) regions: Column,
    pub(crate) fetchings: Column,
    pub(crate) places: Column,
    pub(crate) left: Column,
    pub(crate) begins: Column,
    pub(crate) lengths: Column,
    pub(crate) act_ranks: Column,
    pub(crate) acting: Column,
    pub(crate) told_words: Column,
    pub(crate) digests: Column,
}
