//! The order in which a batch is worked: sorted, so that one thread owns all operations on a key and neighbouring threads use
//! neighbouring buckets.

use bytemuck::Pod;
use warpkeep_device::{Buffer, Device, DevicePtr, Result, StagedBuffer, Stream};

use crate::sort::{Columns as SortColumns, runs_found};
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
    /// Operations that are not worked at once, and those whose key another one has inserted.
    fresh: [StagedBuffer; 2],
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
        if count == 0 {
            let none = DevicePtr::NULL;
            return Ok(BatchPlan { sorted: none, numbers: none, begins: none, runs: 0 });
        }
        // SAFETY: the stream is waited for, and the plan is used before the next one is made.
        let (mut plan, _) = unsafe { self.enqueue_plan::<S>(count, bits, sorter, device, stream, fill)? };
        plan.runs = self.wait_for_runs(count, stream)?;
        Ok(plan)
    }

    /// Waits for the runs of an enqueued plan of `count` operations, and gives their number.
    pub(crate) fn wait_for_runs(&mut self, count: usize, stream: &Stream) -> Result<u64> {
        Ok(runs_found(count, &mut self.search, stream)? as u64)
    }

    /// Reserves the memory that a plan of `count` operations needs, so that [`plan_listed`](Self::plan_listed) does not fail for want of it.
    pub(crate) fn reserve<S: SortKey>(&mut self, count: usize, device: &Device) -> Result<()> {
        self.sorted.reserve(device, size_of::<S>() * count)?;
        self.numbers.reserve(device, 4 * count)?;
        self.begins.reserve(device, 4 * count)?;
        self.sort.reserve::<S, u32>(device, count)?;
        self.search.reserve::<S, u32>(device, count)
    }

    /// Plans some operations of a batch, and waits for it: `fill` enqueues a kernel that writes their sort keys and numbers.
    ///
    /// # Safety
    /// `list` has `count` numbers, one at least, which the plan puts in order; no other code uses it meanwhile.
    pub(crate) unsafe fn plan_listed<S: SortKey>(
        &mut self,
        (list, count): (DevicePtr, usize),
        sorter: &Sorter,
        device: &Device,
        stream: &Stream,
        fill: impl FnOnce(DevicePtr, DevicePtr) -> Result<()>,
    ) -> Result<BatchPlan> {
        let sorted = self.sorted.reserve(device, size_of::<S>() * count)?.ptr();
        let numbers = self.numbers.reserve(device, 4 * count)?.ptr();
        let begins = self.begins.reserve(device, 4 * count)?.ptr();
        // SAFETY: the columns are as long as that, and the caller's promise; `runs_found` waits for the stream.
        let (sorted, numbers) = unsafe {
            sorter.enqueue_sort::<u32, ()>((list, DevicePtr::NULL), count, 0..32, &mut self.sort, stream)?;
            fill(sorted, numbers)?;
            let bits = 0..8 * size_of::<S>() as u32;
            let pairs = (sorted, numbers);
            let (sorted, numbers) =
                sorter.enqueue_passes::<S, u32>(pairs, false, count, bits, &mut self.sort, stream)?;
            sorter.enqueue_runs::<S>(sorted, count, begins, &mut self.search, stream)?;
            (sorted, numbers)
        };
        let runs = self.wait_for_runs(count, stream)?;
        Ok(BatchPlan { sorted, numbers, begins, runs })
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
        // SAFETY: the caller's promise.
        unsafe { self.enqueue::<S>((count, false), bits, sorter, device, stream, fill) }
    }

    /// As [`enqueue_plan`](Self::enqueue_plan), of operations whose numbers are their positions: `fill` enqueues a
    /// kernel that writes only their sort keys.
    ///
    /// # Safety
    /// As `enqueue_plan`.
    pub(crate) unsafe fn enqueue_numbered<S: SortKey>(
        &mut self,
        count: usize,
        bits: u32,
        sorter: &Sorter,
        device: &Device,
        stream: &Stream,
        fill: impl FnOnce(DevicePtr) -> Result<()>,
    ) -> Result<(BatchPlan, DevicePtr)> {
        // SAFETY: the caller's promise.
        unsafe { self.enqueue::<S>((count, true), bits, sorter, device, stream, |keys, _| fill(keys)) }
    }

    /// # Safety
    /// As [`enqueue_plan`](Self::enqueue_plan).
    unsafe fn enqueue<S: SortKey>(
        &mut self,
        (count, numbered): (usize, bool),
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
        let (pairs, bits) = ((sorted, numbers), 0..bits);
        // SAFETY: the columns are as long as that, and the caller's promise.
        unsafe {
            let (sorted, numbers) =
                sorter.enqueue_passes::<S, u32>(pairs, numbered, count, bits, &mut self.sort, stream)?;
            let runs_at = sorter.enqueue_runs::<S>(sorted, count, begins, &mut self.search, stream)?;
            Ok((BatchPlan { sorted, numbers, begins, runs: count as u64 }, runs_at))
        }
    }

    /// Two lists of operations of a batch that is not planned as a whole.
    pub(crate) fn fresh_lists(&mut self, device: &Device, operations: usize) -> Result<[DevicePtr; 2]> {
        let mut lists = [DevicePtr::NULL; 2];
        for (list, column) in lists.iter_mut().zip(&mut self.fresh) {
            *list = column.reserve(device, 4 * operations)?;
        }
        Ok(lists)
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
    /// Zeroes the first `bytes` bytes, which have been reserved, after what is in the stream.
    pub(crate) fn zero(&self, bytes: usize, stream: &Stream) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |buffer| buffer.fill_on(0, bytes, 0, stream))
    }

    pub(crate) fn reserve(&mut self, device: &Device, bytes: usize) -> Result<&mut Buffer> {
        if self.0.as_ref().is_none_or(|buffer| buffer.len() < bytes) {
            // The old one is freed first, because both might not fit.
            self.0 = None;
            self.0 = Some(device.allocate(bytes.max(64).checked_next_power_of_two().unwrap_or(bytes))?);
        }
        Ok(self.0.as_mut().expect("it was allocated above, or was long enough"))
    }
}
