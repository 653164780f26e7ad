//! How an empty table is filled by a sorted batch: each bucket by one tile, in the order of the batch.

use warpkeep_device::{Buffer, DevicePtr, Grid, Result, Stream};

use super::cell::SlabValue;
use super::kernels::{Build, Plan, THREADS};
use super::request::{SlabAnswer, SlabStatus};
use super::table::{SlabTable, unless_short};
use crate::Sorter;

/// Insertions in device memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Insertions {
    pub(super) keys: DevicePtr,
    /// Null for zeros.
    pub(super) values: DevicePtr,
    pub(super) statuses: DevicePtr,
    /// Null if they are not wanted.
    pub(super) found: DevicePtr,
    pub(super) count: usize,
}

/// A batch sorted by bucket and key.
struct Sorted {
    keys: Buffer,
    numbers: Buffer,
    begins: Buffer,
    runs: usize,
}

impl SlabTable {
    /// Fills an empty table, after what is in the stream, and waits for it.
    ///
    /// # Safety
    /// The columns are as long as the batch says, and no other code uses them meanwhile.
    pub(super) unsafe fn build_on(&mut self, batch: &Insertions, stream: &Stream) -> Result<()> {
        if batch.count == 0 {
            return Ok(());
        }
        // Kernels of the caller may still be using the table.
        stream.synchronize()?;
        // What is left of deleted keys.
        self.clear()?;
        let sorter = match self.sorter.take() {
            Some(sorter) => sorter,
            None => Sorter::new(&self.device)?,
        };
        // SAFETY: the caller's promise.
        let built = unsafe { self.build_with(&sorter, batch, stream) };
        // Bulk builds are rare, and what they sorted in may be as large as the table.
        sorter.free_scratch();
        self.sorter = Some(sorter);
        built
    }

    /// # Safety
    /// As [`build_on`](Self::build_on).
    unsafe fn build_with(&mut self, sorter: &Sorter, batch: &Insertions, stream: &Stream) -> Result<()> {
        let mut bits = self.options.bits_for(batch.count as u64, self.cell).max(self.bits());
        // SAFETY: the caller's promise.
        let mut sorted = unsafe { self.sort(batch, bits, sorter, stream)? };
        let runs = sorted.runs as u64;
        let wanted = self.options.bits_for(runs, self.cell);
        if wanted > self.bits() {
            unless_short(self.rebuild(wanted))?;
        }
        if self.bits() != bits {
            // There are many duplicates, or there is no memory for as many buckets.
            bits = self.bits();
            drop(sorted);
            // SAFETY: as above.
            sorted = unsafe { self.sort(batch, bits, sorter, stream)? };
        }
        unless_short(self.make_slabs(runs, 0))?;
        let params = Build {
            table: self.reference(),
            sorted: sorted.keys.ptr(),
            numbers: sorted.numbers.ptr(),
            begins: if self.unique { sorted.begins.ptr() } else { DevicePtr::NULL },
            runs,
            count: batch.count as u64,
            values: batch.values,
            statuses: batch.statuses,
            found: batch.found,
        };
        // SAFETY: the caller's promise; the sorted columns and the table stay until the stream is synchronised.
        unsafe {
            self.kernels.build.launch(self.all_tiles(), &params, stream)?;
            if runs < params.count {
                self.kernels.settle.launch(Grid::covering(params.count, THREADS), &params, stream)?;
            }
        }
        stream.synchronize()
    }

    /// Sorts a batch as a table with 2^bits buckets has its keys. Keys that need not be unique are a run each.
    ///
    /// # Safety
    /// As [`build_on`](Self::build_on).
    unsafe fn sort(&self, batch: &Insertions, bits: u32, sorter: &Sorter, stream: &Stream) -> Result<Sorted> {
        let (device, count, key_bytes) = (&self.device, batch.count, self.cell.key_bytes());
        let mut keys = device.allocate(key_bytes * count)?;
        let mut numbers = device.allocate(4 * count)?;
        let mut begins = device.allocate(if self.unique { 4 * count } else { 0 })?;
        let plan = Plan {
            table: self.reference().with_bits(bits),
            keys: batch.keys,
            sorted: keys.ptr(),
            numbers: numbers.ptr(),
            count: count as u64,
        };
        // SAFETY: the caller's promise; both columns have `count` elements, and sorting waits for the stream.
        unsafe { self.kernels.plan.launch(Grid::covering(count as u64, THREADS), &plan, stream)? };
        match key_bytes {
            4 => sorter.sort_pairs::<u32, u32>(&mut keys, &mut numbers, count, stream)?,
            _ => sorter.sort_pairs::<u64, u32>(&mut keys, &mut numbers, count, stream)?,
        }
        let runs = match (self.unique, key_bytes) {
            (false, _) => count,
            (true, 4) => sorter.find_runs::<u32>(&keys, count, &mut begins, stream)?,
            (true, _) => sorter.find_runs::<u64>(&keys, count, &mut begins, stream)?,
        };
        Ok(Sorted { keys, numbers, begins, runs })
    }

    /// As [`build_on`](Self::build_on), with slices.
    pub(super) fn build<K: bytemuck::Pod, V: SlabValue>(
        &mut self,
        keys: &[K],
        values: &[V],
    ) -> Result<Vec<SlabAnswer<V>>> {
        let (count, has_values) = (keys.len(), size_of::<V>() > 0);
        let stream = self.device.stream()?;
        let on_device = self.device.upload(keys)?;
        let statuses = self.device.allocate(count)?;
        let column = |filled: bool| match (has_values, filled) {
            (false, _) => Ok(None),
            (true, true) => self.device.upload(values).map(Some),
            (true, false) => self.device.allocate(size_of::<V>() * count).map(Some),
        };
        let (values, found) = (column(true)?, column(false)?);
        let ptr = |buffer: &Option<Buffer>| buffer.as_ref().map_or(DevicePtr::NULL, Buffer::ptr);
        let batch = Insertions {
            keys: on_device.ptr(),
            values: ptr(&values),
            statuses: statuses.ptr(),
            found: ptr(&found),
            count,
        };
        // SAFETY: the columns have `count` elements each, and are used by no other code.
        unsafe { self.build_on(&batch, &stream)? };
        let statuses = statuses.to_vec::<u8>()?;
        let statuses: &[SlabStatus] = bytemuck::checked::cast_slice(&statuses);
        let found = found.map_or(Ok(Vec::new()), |found| found.to_vec::<V>())?;
        let answer = |(at, status): (usize, &SlabStatus)| {
            SlabAnswer::of(*status, found.get(at).copied().unwrap_or_default())
        };
        Ok(statuses.iter().enumerate().map(answer).collect())
    }
}
