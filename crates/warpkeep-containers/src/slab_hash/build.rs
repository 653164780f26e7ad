//! How an empty table is filled by a sorted batch: each bucket by one tile, in the order of the batch.

use warpkeep_device::{Buffer, Device, DevicePtr, Grid, Result, Stream};

use super::body::check_empty;
use super::cell::CellValue;
use super::kernels::{Build, Plan, THREADS};
use super::request::{SlabAnswer, SlabStatus};
use super::table::{SlabTable, unless_short};
use crate::slab_alloc::check_column;
use crate::{ContainerError, Sorter};

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

/// What a bulk build works in, kept for the next one.
#[derive(Debug, Default)]
pub(super) struct BuildScratch {
    /// What the batch is sorted by, and the numbers of the insertions.
    keys: Option<Buffer>,
    numbers: Option<Buffer>,
    /// Where the runs of equal keys begin.
    begins: Option<Buffer>,
    /// The runs of each bucket.
    bounds: Option<Buffer>,
}

/// More than this is not kept: to allocate it takes a small part of the time of the build that needs it.
const MOST_KEPT: usize = 256 << 20;

impl BuildScratch {
    fn bytes(&self) -> usize {
        let columns = [&self.keys, &self.numbers, &self.begins, &self.bounds];
        columns.into_iter().flatten().map(Buffer::len).sum()
    }
}

/// Makes a column this long, if it is shorter. Its contents are lost then.
fn long_enough<'a>(column: &'a mut Option<Buffer>, bytes: usize, device: &Device) -> Result<&'a mut Buffer> {
    if column.as_ref().is_none_or(|buffer| buffer.len() < bytes) {
        // The old one is freed first, because both might not fit.
        *column = None;
        *column = Some(device.allocate(bytes)?);
    }
    Ok(column.as_mut().expect("it was allocated above, or was long enough"))
}

impl SlabTable {
    /// Fills an empty table, after what is in the stream, and waits for it.
    ///
    /// # Safety
    /// The columns are as long as the batch says, and no other code uses them meanwhile.
    pub(super) unsafe fn build_on(
        &mut self,
        batch: &Insertions,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        check_column(self.counters(), 0, 0, "a slab hash", stream)?;
        // What is in the stream may change the table.
        stream.synchronize()?;
        let counts = self.read_counts()?;
        check_empty(counts.live)?;
        // Tombstones, or what kernels of the caller stored and did not count.
        if counts.dead > 0 || self.is_lent() {
            self.clear()?;
        }
        if batch.count == 0 {
            return Ok(());
        }
        self.counts = None;
        let sorter = match self.sorter.take() {
            Some(sorter) => sorter,
            None => Sorter::new(&self.device)?,
        };
        let mut scratch = std::mem::take(&mut self.scratch);
        // SAFETY: the caller's promise.
        let built = unsafe { self.build_with(&sorter, &mut scratch, batch, stream) };
        // Sorting takes about as much again.
        if built.is_ok() && 2 * scratch.bytes() <= MOST_KEPT {
            self.scratch = scratch;
        } else {
            sorter.free_scratch();
        }
        self.sorter = Some(sorter);
        Ok(built?)
    }

    /// Gives the memory back that builds have kept; whether there was any.
    pub(super) fn free_scratch(&mut self) -> bool {
        let kept = std::mem::take(&mut self.scratch).bytes();
        if let Some(sorter) = &self.sorter {
            sorter.free_scratch();
        }
        kept > 0
    }

    /// # Safety
    /// As [`build_on`](Self::build_on).
    unsafe fn build_with(
        &mut self,
        sorter: &Sorter,
        scratch: &mut BuildScratch,
        batch: &Insertions,
        stream: &Stream,
    ) -> Result<()> {
        let mut bits = self.options.bits_for(batch.count as u64, self.cell).max(self.bits());
        // SAFETY: the caller's promise.
        let mut runs = unsafe { self.sort(batch, bits, sorter, scratch, stream)? };
        let wanted = self.options.bits_for(runs as u64, self.cell);
        if wanted > self.bits() {
            unless_short(self.replace_empty(wanted))?;
        }
        if self.bits() != bits {
            // There are many duplicates, or there is no memory for as many buckets.
            bits = self.bits();
            // SAFETY: as above.
            runs = unsafe { self.sort(batch, bits, sorter, scratch, stream)? };
        }
        unless_short(self.make_slabs(runs as u64, 0))?;
        let bounds = long_enough(&mut scratch.bounds, 8 << bits, &self.device)?;
        bounds.fill_on(0, 8 << bits, 0, stream)?;
        let ptr = |column: &Option<Buffer>| column.as_ref().map_or(DevicePtr::NULL, Buffer::ptr);
        let params = Build {
            table: self.reference(),
            sorted: ptr(&scratch.keys),
            numbers: ptr(&scratch.numbers),
            // Without duplicates every position is a run.
            begins: if runs < batch.count { ptr(&scratch.begins) } else { DevicePtr::NULL },
            bounds: ptr(&scratch.bounds),
            runs: runs as u64,
            count: batch.count as u64,
            values: batch.values,
            statuses: batch.statuses,
            found: batch.found,
        };
        // SAFETY: the caller's promise; the sorted columns and the table stay until the stream is synchronised.
        unsafe {
            self.kernels.bound.launch(Grid::covering(params.runs, THREADS), &params, stream)?;
            self.kernels.build.launch(self.all_tiles(), &params, stream)?;
            if params.runs < params.count {
                self.kernels.settle.launch(Grid::covering(params.count, THREADS), &params, stream)?;
            }
        }
        stream.synchronize()
    }

    /// Sorts a batch as a table with 2^bits buckets has its keys; gives the number of runs of equal keys. Keys that need not be unique are a
    /// run each. All insertions are answered as if they had been stored.
    ///
    /// # Safety
    /// As [`build_on`](Self::build_on).
    unsafe fn sort(
        &self,
        batch: &Insertions,
        bits: u32,
        sorter: &Sorter,
        scratch: &mut BuildScratch,
        stream: &Stream,
    ) -> Result<usize> {
        let (device, count, key_bytes) = (&self.device, batch.count, self.cell.key_bytes());
        let keys = long_enough(&mut scratch.keys, key_bytes * count, device)?;
        let numbers = long_enough(&mut scratch.numbers, 4 * count, device)?;
        let plan = Plan {
            table: self.reference().with_bits(bits),
            keys: batch.keys,
            sorted: keys.ptr(),
            numbers: numbers.ptr(),
            statuses: batch.statuses,
            found: batch.found,
            count: count as u64,
        };
        // SAFETY: the caller's promise; both columns have `count` elements, and sorting waits for the stream.
        unsafe { self.kernels.plan.launch(Grid::covering(count as u64, THREADS), &plan, stream)? };
        let key_bits = 8 * key_bytes as u32;
        // Equal keys have to lie side by side only where they are to be found.
        let sorted_by = if self.unique { 0..key_bits } else { key_bits - bits..key_bits };
        match key_bytes {
            4 => sorter.sort_bits::<u32, u32>(keys, Some(numbers), count, sorted_by, stream)?,
            _ => sorter.sort_bits::<u64, u32>(keys, Some(numbers), count, sorted_by, stream)?,
        }
        if !self.unique {
            return Ok(count);
        }
        let begins = long_enough(&mut scratch.begins, 4 * count, device)?;
        match key_bytes {
            4 => sorter.find_runs::<u32>(keys, count, begins, stream),
            _ => sorter.find_runs::<u64>(keys, count, begins, stream),
        }
    }

    /// As [`build_on`](Self::build_on), with slices.
    pub(super) fn build<K: bytemuck::Pod, V: CellValue>(
        &mut self,
        keys: &[K],
        values: &[V],
    ) -> Result<Vec<SlabAnswer<V>>, ContainerError> {
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
