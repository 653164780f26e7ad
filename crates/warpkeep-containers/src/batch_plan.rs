//! The order in which a batch is worked: sorted, so that one thread owns all operations on a key and neighbouring threads use
//! neighbouring buckets.

use bytemuck::Pod;
use warpkeep_device::{Buffer, Device, DevicePtr, Result, StagedBuffer, Stream};

use crate::sort::Columns as SortColumns;
use crate::{SortKey, Sorter};

/// Batches of slices with no more operations than this are planned by the host.
pub(crate) const HOST_PLANS: usize = 4096;

/// A sorted batch in device memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchPlan {
    /// What the operations are sorted by.
    pub(crate) sorted: DevicePtr,
    /// The number of each operation in the batch, 4 bytes each.
    pub(crate) numbers: DevicePtr,
    /// Where the runs of equal sort keys begin, 4 bytes each.
    pub(crate) begins: DevicePtr,
    pub(crate) runs: u64,
}

/// Memory of the plan of one batch, and of its lists of runs, kept for the next batch.
#[derive(Debug, Default)]
pub(crate) struct PlanColumns {
    /// The plan of a batch that the host planned.
    on_host: StagedBuffer,
    /// The plan of one that the device planned.
    sorted: Scratch,
    numbers: Scratch,
    begins: Scratch,
    /// Runs that are not finished, before and after a kernel.
    pending: [StagedBuffer; 2],
    /// What sorts and searches need that are not waited for.
    sort: SortColumns,
    search: SortColumns,
}

impl PlanColumns {
    /// Sorts on the host, which for few operations takes less time than the many kernels of a sort, and sends the plan to the
    /// device. Operations with equal sort keys stay in the order of the batch.
    ///
    /// # Safety
    /// The stream is synchronised before the columns are used again.
    pub(crate) unsafe fn plan_on_host<S: Pod + Ord>(
        &mut self,
        sort_keys: impl Iterator<Item = S>,
        device: &Device,
        stream: &Stream,
    ) -> Result<BatchPlan> {
        let mut order: Vec<(S, u32)> = sort_keys.zip(0..).collect();
        order.sort_unstable();
        // One column with three parts, each of whole words.
        let words_of = |bytes: usize| (order.len() * bytes).div_ceil(8);
        let (keys, half) = (words_of(size_of::<S>()), words_of(4));
        let column = &mut self.on_host;
        let words = column.host::<u64>(device, keys + 2 * half)?;
        let (sorted, rest) = words.split_at_mut(keys);
        let (numbers, begins) = rest.split_at_mut(half);
        let sorted = bytemuck::cast_slice_mut::<u64, S>(sorted);
        let numbers = bytemuck::cast_slice_mut::<u64, u32>(numbers);
        let begins = bytemuck::cast_slice_mut::<u64, u32>(begins);
        let mut runs = 0;
        for (at, &(sort_key, number)) in order.iter().enumerate() {
            (sorted[at], numbers[at]) = (sort_key, number);
            if at == 0 || order[at - 1].0 != sort_key {
                begins[runs] = at as u32;
                runs += 1;
            }
        }
        // SAFETY: the caller's promise.
        let sorted = unsafe { column.send::<u64>(device, keys + 2 * half, stream)? };
        let numbers = sorted.offset(8 * keys as u64);
        let begins = numbers.offset(8 * half as u64);
        Ok(BatchPlan { sorted, numbers, begins, runs: runs as u64 })
    }

    /// Plans on the device, and waits for it: `fill` enqueues a kernel that writes the sort keys and the numbers of the operations to
    /// the columns that it is given. Keys are sorted by their lowest `bits` bits, which are all that differ.
    pub(crate) fn plan_on_device<S: SortKey>(
        &mut self,
        count: usize,
        bits: u32,
        sorter: &Sorter,
        device: &Device,
        stream: &Stream,
        fill: impl FnOnce(DevicePtr, DevicePtr) -> Result<()>,
    ) -> Result<BatchPlan> {
        let sorted = self.sorted.reserve(device, size_of::<S>() * count)?;
        let numbers = self.numbers.reserve(device, 4 * count)?;
        let begins = self.begins.reserve(device, 4 * count)?;
        fill(sorted.ptr(), numbers.ptr())?;
        sorter.sort_bits::<S, u32>(sorted, Some(numbers), count, 0..bits, stream)?;
        let runs = sorter.find_runs::<S>(sorted, count, begins, stream)? as u64;
        Ok(BatchPlan { sorted: sorted.ptr(), numbers: numbers.ptr(), begins: begins.ptr(), runs })
    }

    /// As [`plan_on_device`](Self::plan_on_device), and does not wait. The plan has as many runs as there are operations, and the number of
    /// those that there are will be, in 32 bits, at the address that comes with it.
    ///
    /// # Safety
    /// The columns are not used again until the stream has come to the end of the plan and of what uses it.
    pub(crate) unsafe fn enqueue_plan<S: SortKey>(
        &mut self,
        count: usize,
        bits: u32,
        sorter: &Sorter,
        device: &Device,
        stream: &Stream,
        fill: impl FnOnce(DevicePtr, DevicePtr) -> Result<()>,
    ) -> Result<(BatchPlan, DevicePtr)> {
        let sorted = self.sorted.reserve(device, size_of::<S>() * count)?.ptr();
        let numbers = self.numbers.reserve(device, 4 * count)?.ptr();
        let begins = self.begins.reserve(device, 4 * count)?.ptr();
        fill(sorted, numbers)?;
        // SAFETY: the columns are as long as that, and the caller's promise.
        let runs_at = unsafe {
            sorter.enqueue_sort::<S, u32>((sorted, numbers), count, 0..bits, &mut self.sort, stream)?;
            sorter.enqueue_runs::<S>(sorted, count, begins, &mut self.search, stream)?
        };
        Ok((BatchPlan { sorted, numbers, begins, runs: count as u64 }, runs_at))
    }

    /// Two lists with room for this many entries of `bytes` bytes.
    pub(crate) fn lists(&mut self, device: &Device, entries: usize, bytes: usize) -> Result<[DevicePtr; 2]> {
        let mut lists = [DevicePtr::NULL; 2];
        for (list, column) in lists.iter_mut().zip(&mut self.pending) {
            *list = column.reserve(device, bytes * entries)?;
        }
        Ok(lists)
    }
}

/// Device memory as long as the longest batch so far.
#[derive(Debug, Default)]
pub(crate) struct Scratch(Option<Buffer>);

impl Scratch {
    pub(crate) fn reserve(&mut self, device: &Device, bytes: usize) -> Result<&mut Buffer> {
        if self.0.as_ref().is_none_or(|buffer| buffer.len() < bytes) {
            // The old one is freed first, because both might not fit.
            self.0 = None;
            self.0 = Some(device.allocate(bytes.max(64).checked_next_power_of_two().unwrap_or(bytes))?);
        }
        Ok(self.0.as_mut().expect("it was allocated above, or was long enough"))
    }
}
