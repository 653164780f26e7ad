//! The order in which a batch is worked: sorted, so that one thread owns all operations on a key and neighbouring threads use
//! neighbouring buckets.

use warpkeep_device::{Device, DevicePtr, Result, StagedBuffer, Stream};

/// A sorted batch in device memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchPlan {
    /// What the operations are sorted by, 8 bytes each.
    pub(crate) sorted: DevicePtr,
    /// The number of each operation in the batch, 4 bytes each.
    pub(crate) numbers: DevicePtr,
    /// Where the runs of equal sort keys begin, 4 bytes each.
    pub(crate) begins: DevicePtr,
    pub(crate) runs: u64,
}

impl BatchPlan {
    /// Sorts on the host, which for few operations takes less time than the many kernels of a sort, and sends the plan to the
    /// device. Operations with equal sort keys stay in the order of the batch.
    ///
    /// # Safety
    /// The stream is synchronised before `column` is used again.
    pub(crate) unsafe fn on_host(
        sort_keys: impl Iterator<Item = u64>,
        column: &mut StagedBuffer,
        device: &Device,
        stream: &Stream,
    ) -> Result<BatchPlan> {
        let mut order: Vec<(u64, u32)> = sort_keys.zip(0..).collect();
        order.sort_unstable();
        // One column with three parts.
        let (count, half) = (order.len(), order.len().div_ceil(2));
        let words = column.host::<u64>(device, count + 2 * half)?;
        let (sorted, rest) = words.split_at_mut(count);
        let (numbers, begins) = rest.split_at_mut(half);
        let (numbers, begins) =
            (bytemuck::cast_slice_mut::<u64, u32>(numbers), bytemuck::cast_slice_mut::<u64, u32>(begins));
        let mut runs = 0;
        for (at, &(sort_key, number)) in order.iter().enumerate() {
            (sorted[at], numbers[at]) = (sort_key, number);
            if at == 0 || order[at - 1].0 != sort_key {
                begins[runs] = at as u32;
                runs += 1;
            }
        }
        // SAFETY: the caller's promise.
        let sorted = unsafe { column.send::<u64>(device, count + 2 * half, stream)? };
        let numbers = sorted.offset(8 * count as u64);
        let begins = numbers.offset(8 * half as u64);
        Ok(BatchPlan { sorted, numbers, begins, runs: runs as u64 })
    }
}
