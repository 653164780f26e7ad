//! Columns of a batch in device memory, kept from batch to batch.

use bytemuck::{NoUninit, Pod};
use warpkeep_device::{Buffer, Device, DevicePtr, Stream};

use crate::TableError;

/// One column, as long as the longest batch so far.
#[derive(Debug, Default)]
pub(crate) struct Column(Option<Buffer>);

impl Column {
    /// Has room for so many bytes. What was in it is gone if it had not.
    pub(crate) fn room(&mut self, device: &Device, bytes: usize) -> Result<DevicePtr, TableError> {
        let bytes = bytes.max(8);
        match &self.0 {
            Some(buffer) if buffer.len() >= bytes => Ok(buffer.ptr()),
            _ => {
                // The old one first: both may not fit.
                self.0 = None;
                let buffer = device.allocate(bytes.next_power_of_two())?;
                let at = buffer.ptr();
                self.0 = Some(buffer);
                Ok(at)
            }
        }
    }

    /// Puts elements there.
    pub(crate) fn put<T: NoUninit>(
        &mut self,
        device: &Device,
        elements: &[T],
        stream: &Stream,
    ) -> Result<DevicePtr, TableError> {
        let at = self.room(device, size_of_val(elements))?;
        if let Some(buffer) = &self.0 {
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
        let at = self.room(device, bytes)?;
        if let Some(buffer) = &self.0 {
            buffer.fill_on(0, bytes, 0, stream)?;
        }
        Ok(at)
    }

    /// So many elements of what is there, after what is in the stream.
    pub(crate) fn take<T: Pod>(&self, count: usize, stream: &Stream) -> Result<Vec<T>, TableError> {
        let mut elements = vec![T::zeroed(); count];
        if let Some(buffer) = &self.0 {
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
    pub(crate) asks: Column,
    pub(crate) records: Column,
    pub(crate) ranks: Column,
    pub(crate) regions: Column,
    pub(crate) fetchings: Column,
}
