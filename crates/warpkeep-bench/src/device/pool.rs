//! Keys that are drawn once and used by all: batches are parts of them.

use std::ops::Range;

use warpkeep_device::{Buffer, Device, DevicePtr};

use crate::BenchError;
use crate::workload::{Distribution, Workload};

/// Keys of one workload, here and in device memory.
pub(crate) struct Pool {
    workload: Workload,
    pub(crate) numbers: Vec<u64>,
    /// As the library takes them: one after the other.
    keys: Vec<u8>,
    on_device: OnDevice,
}

/// Keys and numbers in device memory; keys in rows of whole words.
struct OnDevice {
    numbers: Buffer,
    keys: Buffer,
    row_bytes: usize,
}

impl Pool {
    /// So many items, drawn; keys that are not there if that is asked for.
    pub(crate) fn drawn(
        device: &Device,
        workload: &Workload,
        distribution: Distribution,
        absent: bool,
        len: usize,
    ) -> Result<Pool, BenchError> {
        let picks = workload.picks(distribution, u64::from(absent))?.take(len);
        let numbers = picks.map(|number| if absent { Workload::absent(number) } else { number }).collect();
        Pool::of(device, workload, numbers)
    }

    /// These items.
    pub(crate) fn of(device: &Device, workload: &Workload, numbers: Vec<u64>) -> Result<Pool, BenchError> {
        let row_bytes = workload.key_bytes.next_multiple_of(8);
        let mut keys = Vec::with_capacity(numbers.len() * workload.key_bytes);
        numbers.iter().for_each(|&number| workload.append_key(number, &mut keys));
        let rows = if row_bytes == workload.key_bytes {
            device.upload(&keys)?
        } else {
            let mut rows = vec![0_u8; numbers.len() * row_bytes];
            for (row, key) in rows.chunks_exact_mut(row_bytes).zip(keys.chunks_exact(workload.key_bytes)) {
                row[..key.len()].copy_from_slice(key);
            }
            device.upload(&rows)?
        };
        let on_device = OnDevice { numbers: device.upload(&numbers)?, keys: rows, row_bytes };
        Ok(Pool { workload: *workload, numbers, keys, on_device })
    }

    /// The part of the pool that is batch number `turn` of this size.
    pub(crate) fn batch(&self, turn: usize, size: usize) -> Range<usize> {
        let size = size.min(self.numbers.len());
        let parts = (self.numbers.len() / size.max(1)).max(1);
        let first = turn % parts * size;
        first..first + size
    }

    /// Keys of a part, as the library takes them.
    pub(crate) fn keys(&self, part: &Range<usize>) -> &[u8] {
        let bytes = self.workload.key_bytes;
        &self.keys[part.start * bytes..part.end * bytes]
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
