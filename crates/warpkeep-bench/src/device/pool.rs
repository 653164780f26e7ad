//! Keys that are drawn once and used by all: batches are parts of them.

use std::ops::Range;

use warpkeep_device::{Buffer, Device, DevicePtr};

use super::keys::{KeyColumn, Keys};
use crate::BenchError;
use crate::workload::{Distribution, Workload};

/// Keys of one workload, here and in device memory.
pub(crate) struct Pool {
    pub(crate) numbers: Vec<u64>,
    /// As the library takes them: one after the other.
    keys: KeyColumn,
    on_device: OnDevice,
}

/// Keys and numbers in device memory; keys in rows of whole words.
struct OnDevice {
    numbers: Buffer,
    keys: Buffer,
    row_bytes: usize,
}

impl Pool {
    /// Drawn items; absent keys if requested.
    pub(crate) fn drawn(
        device: &Device,
        keys: impl Into<Keys>,
        distribution: Distribution,
        absent: bool,
        len: usize,
    ) -> Result<Pool, BenchError> {
        let keys = keys.into();
        let picks = keys.workload().picks(distribution, u64::from(absent))?.take(len);
        let numbers = picks.map(|number| if absent { Workload::absent(number) } else { number }).collect();
        Pool::of(device, keys, numbers)
    }

    /// These items.
    pub(crate) fn of(device: &Device, keys: impl Into<Keys>, numbers: Vec<u64>) -> Result<Pool, BenchError> {
        let keys = keys.into();
        let on_device = OnDevice {
            numbers: device.upload(&numbers)?,
            keys: device.upload(&keys.rows(&numbers))?,
            row_bytes: keys.row_bytes(),
        };
        Ok(Pool { keys: KeyColumn::of(&keys, &numbers), numbers, on_device })
    }

    /// The part of the pool that is batch number `turn` of this size.
    pub(crate) fn batch(&self, turn: usize, size: usize) -> Range<usize> {
        let size = size.min(self.numbers.len());
        let parts = (self.numbers.len() / size.max(1)).max(1);
        let first = turn % parts * size;
        first..first + size
    }

    /// Keys, as the library takes them.
    pub(crate) fn keys(&self) -> &KeyColumn {
        &self.keys
    }

    /// Where the keys of a part lie for kernels.
    pub(crate) fn keys_at(&self, part: &Range<usize>) -> DevicePtr {
        self.on_device.keys.ptr().offset((part.start * self.on_device.row_bytes) as u64)
    }

    /// Where its numbers do.
    pub(crate) fn numbers_at(&self, part: &Range<usize>) -> DevicePtr {
        self.on_device.numbers.ptr().offset(8 * part.start as u64)
    }
}
