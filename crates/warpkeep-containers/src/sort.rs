//! Sort, scan, runs and merges: the host's side of `warpkeep/radix_sort.h`, `device_scan.h` and `sorted_runs.h`.

use std::ops::Range;

use bytemuck::NoUninit;
use warpkeep_device::{
    Buffer, Device, DeviceError, DevicePtr, Grid, KernelSet as _, Program, Result, StagedBuffer, Stream,
    TypedKernel, Workspace, WorkspacePool,
};

use crate::{SortKey, SortValue};

const DIGIT_BITS: u32 = 8;
const DIGITS: u32 = 1 << DIGIT_BITS;
const SORT_THREADS: u32 = 256;
const SCAN_TILE: u64 = 2048;
const SCAN_THREADS: u32 = 256;
const SCAN_ALONE_THREADS: u32 = 1024;
const SCAN_ALONE_EACH: u32 = 4;
/// As many items are scanned by one block faster than by three launches.
const SCANNED_ALONE: u64 = 1 << 14;
const RUN_TILE: u64 = 2048;
const RUN_THREADS: u32 = 256;
const MERGE_EACH: u64 = 16;
const MERGE_THREADS: u32 = 128;
/// Items of one call.
const MOST_ITEMS: u64 = u32::MAX as u64;

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
struct RadixPass {
    keys: DevicePtr,
    values: DevicePtr,
    sorted_keys: DevicePtr,
    sorted_values: DevicePtr,
    counts: DevicePtr,
    totals: DevicePtr,
    count: u64,
    tiles: u32,
    shift: u32,
    mask: u32,
    end: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
struct DeviceScan {
    items: DevicePtr,
    count: u64,
    sums: DevicePtr,
    tiles: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
struct RunSearch {
    keys: DevicePtr,
    count: u64,
    counts: DevicePtr,
    begins: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
struct SortedMerge {
    first_keys: DevicePtr,
    first_values: DevicePtr,
    first_count: u64,
    second_keys: DevicePtr,
    second_values: DevicePtr,
    second_count: u64,
    keys: DevicePtr,
    values: DevicePtr,
}

warpkeep_device::kernel_set! {
    struct SortKernels in "sort.cu", prefix "containers_" {
        count_u32_16: RadixPass,
        count_u64_12: RadixPass,
        count_u64_16: RadixPass,
        scan_digits: RadixPass,
        scatter_u32: RadixPass,
        scatter_u32_u32: RadixPass,
        scatter_u32_u64: RadixPass,
        scatter_u64: RadixPass,
        scatter_u64_u32: RadixPass,
        scatter_u64_u64: RadixPass,
        tile_u32: RadixPass,
        tile_u32_u32: RadixPass,
        tile_u32_u64: RadixPass,
        tile_u64: RadixPass,
        tile_u64_u32: RadixPass,
        tile_u64_u64: RadixPass,
        sum_tiles: DeviceScan,
        scan_sums: DeviceScan,
        scan_items: DeviceScan,
        scan_tiles: DeviceScan,
        count_runs_u32: RunSearch,
        count_runs_u64: RunSearch,
        list_runs_u32: RunSearch,
        list_runs_u64: RunSearch,
        merge_u32: SortedMerge,
        merge_u32_u32: SortedMerge,
        merge_u32_u64: SortedMerge,
        merge_u64: SortedMerge,
        merge_u64_u32: SortedMerge,
        merge_u64_u64: SortedMerge,
    }
    agree {
        digits = DIGITS,
        sort_threads = SORT_THREADS,
        items_u32_u32 = items_per_thread(4, 4),
        items_u64_u32 = items_per_thread(8, 4),
        items_u32_u64 = items_per_thread(4, 8),
        items_u64 = items_per_thread(8, 0),
        items_u64_u64 = items_per_thread(8, 8),
        scan_tile = SCAN_TILE,
        scan_threads = SCAN_THREADS,
        scan_alone_threads = SCAN_ALONE_THREADS,
        scan_alone_each = SCAN_ALONE_EACH,
        run_tile = RUN_TILE,
        merge_each = MERGE_EACH,
    }
}

/// Items of a tile for each thread that sorts: `kSortItems` of the header.
const fn items_per_thread(key_bytes: usize, value_bytes: usize) -> u32 {
    if key_bytes + value_bytes > 12 { 12 } else { 16 }
}

/// Memory of one call.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    keys: StagedBuffer,
    values: StagedBuffer,
    counts: StagedBuffer,
    sums: StagedBuffer,
}

impl Columns {
    /// Has the memory of a sort, and of a search for runs, of this many items, so that neither fails for want of it.
    pub(crate) fn reserve<K: SortKey, V: SortValue>(&mut self, device: &Device, count: usize) -> Result<()> {
        let each = items_per_thread(size_of::<K>(), size_of::<V>()) * SORT_THREADS;
        let tiles = count.div_ceil(RUN_TILE as usize);
        let counters = (DIGITS as usize * (count.div_ceil(each as usize) + 1)).max(tiles);
        self.keys.reserve(device, count * size_of::<K>())?;
        self.values.reserve(device, count * size_of::<V>())?;
        self.counts.reserve(device, 4 * counters)?;
        self.sums.reserve(device, 4 * (tiles.div_ceil(SCAN_TILE as usize) + 1))?;
        Ok(())
    }
}

/// Sorts, scans and merges columns in device memory.
///
/// Calls run after the work in the caller's stream and wait until they are done. Several threads may use one sorter, each with a
/// stream of its own. A column that is too short or memory of another device is refused before anything is changed.
///
/// ```
/// use warpkeep_containers::Sorter;
/// use warpkeep_device::{Device, DeviceChoice};
///
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// let device = Device::open(DeviceChoice::Sim)?;
/// let (sorter, stream) = (Sorter::new(&device)?, device.stream()?);
/// let mut keys = device.upload(&[3_u32, 1, 3, 2])?;
/// let mut rows = device.upload(&[0_u32, 1, 2, 3])?;
/// sorter.sort_pairs::<u32, u32>(&mut keys, &mut rows, 4, &stream)?;
/// assert_eq!(keys.to_vec::<u32>()?, [1, 2, 3, 3]);
/// assert_eq!(rows.to_vec::<u32>()?, [1, 3, 0, 2]);
/// # Ok::<(), warpkeep_device::DeviceError>(())
/// ```
#[derive(Debug)]
pub struct Sorter {
    device: Device,
    kernels: SortKernels,
    workspaces: WorkspacePool<Columns>,
}

impl Sorter {
    /// The program that its kernels are in.
    pub fn program() -> Program {
        SortKernels::program()
    }

    /// A sorter for columns in the memory of this device.
    pub fn new(device: &Device) -> Result<Sorter> {
        let kernels = SortKernels::load(device)?;
        Ok(Sorter { device: device.clone(), kernels, workspaces: WorkspacePool::default() })
    }

    /// Frees the memory that past calls needed and that is kept for the next ones.
    pub(crate) fn free_scratch(&self) {
        self.workspaces.clear();
    }

    /// Sorts the first `count` keys of a column.
    pub fn sort<K: SortKey>(&self, keys: &mut Buffer, count: usize, stream: &Stream) -> Result<()> {
        self.sort_bits::<K, ()>(keys, None, count, 0..8 * size_of::<K>() as u32, stream)
    }

    /// Sorts the first `count` keys of a column and moves the values along. Equal keys keep their order.
    pub fn sort_pairs<K: SortKey, V: SortValue>(
        &self,
        keys: &mut Buffer,
        values: &mut Buffer,
        count: usize,
        stream: &Stream,
    ) -> Result<()> {
        self.sort_bits::<K, V>(keys, Some(values), count, 0..8 * size_of::<K>() as u32, stream)
    }

    /// As [`sort_pairs`](Sorter::sort_pairs), by some bits of the keys only: fewer bits take fewer passes. With the upper bits of a
    /// hash this is a stable partition.
    ///
    /// # Panics
    /// If `V` has bytes and there are no values, or the bits are not bits of the keys.
    pub fn sort_bits<K: SortKey, V: SortValue>(
        &self,
        keys: &mut Buffer,
        values: Option<&mut Buffer>,
        count: usize,
        bits: Range<u32>,
        stream: &Stream,
    ) -> Result<()> {
        let (key_bytes, value_bytes) = (size_of::<K>(), size_of::<V>());
        assert!(bits.end as usize <= 8 * key_bytes, "{bits:?} are not bits of keys of {key_bytes} bytes");
        assert_eq!(value_bytes > 0, values.is_some(), "values are given if and only if their type has bytes");
        self.check_column(keys, key_bytes, count, "keys")?;
        let values = match values {
            None => DevicePtr::NULL,
            Some(values) => {
                self.check_column(values, value_bytes, count, "values")?;
                values.ptr()
            }
        };
        check_count(count as u64)?;
        let mut workspace = self.workspaces.take(&self.device)?;
        // SAFETY: the lengths were checked, and the stream is synchronised before anything is used again.
        unsafe {
            self.enqueue_sort::<K, V>((keys.ptr(), values), count, bits, &mut workspace.columns, stream)?;
        }
        self.finish(workspace, stream)
    }

    /// As [`sort_bits`](Self::sort_bits), and does not wait. Values are null if their type has no bytes.
    ///
    /// # Safety
    /// There are `count` keys and values; they and `columns` are not used otherwise until the stream has come to the end of the sort.
    pub(crate) unsafe fn enqueue_sort<K: SortKey, V: SortValue>(
        &self,
        pairs: (DevicePtr, DevicePtr),
        count: usize,
        bits: Range<u32>,
        columns: &mut Columns,
        stream: &Stream,
    ) -> Result<()> {
        if count < 2 || bits.is_empty() {
            return Ok(());
        }
        // SAFETY: this function's contract.
        let sorted = unsafe { self.enqueue_passes::<K, V>(pairs, false, count, bits, columns, stream)? };
        if sorted != pairs {
            // SAFETY: both have `count` items and do not overlap.
            unsafe {
                self.device.copy_raw(pairs.0, sorted.0, count * size_of::<K>(), stream)?;
                if size_of::<V>() > 0 {
                    self.device.copy_raw(pairs.1, sorted.1, count * size_of::<V>(), stream)?;
                }
            }
        }
        Ok(())
    }

    /// Sorts keys with their values, or with numbers of 0 and up if `numbers` are wanted; values are not read then.
    /// Does not wait. After an odd number of passes the result is not where the items were but in `columns`: gives
    /// where.
    ///
    /// # Safety
    /// There are `count` keys, one at least, and as many values; they and `columns` are not used otherwise until the
    /// stream has come to the end of the sort and of what uses its result.
    pub(crate) unsafe fn enqueue_passes<K: SortKey, V: SortValue>(
        &self,
        (keys, values): (DevicePtr, DevicePtr),
        numbers: bool,
        count: usize,
        bits: Range<u32>,
        columns: &mut Columns,
        stream: &Stream,
    ) -> Result<(DevicePtr, DevicePtr)> {
        if count < 2 && !numbers {
            return Ok((keys, values));
        }
        let (key_bytes, value_bytes) = (size_of::<K>(), size_of::<V>());
        let each = u64::from(items_per_thread(key_bytes, value_bytes) * SORT_THREADS);
        let tiles = (count as u64).div_ceil(each) as u32;
        let grid = Grid { blocks: tiles, threads: SORT_THREADS, shared_bytes: 0 };
        let kernels = self.kernels_of(key_bytes, value_bytes);
        let mut pass = RadixPass {
            keys,
            values: if numbers { DevicePtr::NULL } else { values },
            sorted_keys: keys,
            sorted_values: values,
            counts: DevicePtr::NULL,
            totals: DevicePtr::NULL,
            count: count as u64,
            tiles,
            shift: bits.start,
            mask: 0,
            end: bits.end,
        };
        if tiles == 1 {
            // SAFETY: this function's contract; the block reads all items before it writes one.
            unsafe { kernels.tile.launch(grid, &pass, stream)? };
            return Ok((keys, values));
        }
        let mut here = (keys, values);
        let mut there = (
            columns.keys.reserve(&self.device, count * key_bytes)?,
            if value_bytes > 0 {
                columns.values.reserve(&self.device, count * value_bytes)?
            } else {
                DevicePtr::NULL
            },
        );
        let counters = u64::from(DIGITS) * u64::from(tiles);
        pass.counts = columns.counts.reserve(&self.device, 4 * (counters as usize + DIGITS as usize))?;
        pass.totals = pass.counts.offset(4 * counters);
        let threads = tiles.div_ceil(SCAN_ALONE_EACH).next_multiple_of(32).min(SCAN_ALONE_THREADS);
        let scan = Grid { blocks: DIGITS, threads, shared_bytes: 0 };
        for shift in bits.clone().step_by(DIGIT_BITS as usize) {
            pass.mask = (1 << (bits.end - shift).min(DIGIT_BITS)) - 1;
            pass.shift = shift;
            pass.keys = here.0;
            (pass.sorted_keys, pass.sorted_values) = there;
            // SAFETY: this function's contract; there is a counter for each digit and tile, and one for each digit.
            unsafe {
                kernels.count.launch(grid, &pass, stream)?;
                self.kernels.scan_digits.launch(scan, &pass, stream)?;
                kernels.scatter.launch(grid, &pass, stream)?;
            }
            (here, there) = (there, here);
            pass.values = here.1;
        }
        Ok(here)
    }

    /// Replaces each of the first `count` numbers by the sum of those before it, modulo 2^32.
    pub fn exclusive_scan(&self, numbers: &mut Buffer, count: usize, stream: &Stream) -> Result<()> {
        self.check_column(numbers, 4, count, "numbers")?;
        let mut workspace = self.workspaces.take(&self.device)?;
        // SAFETY: the buffer has `count` numbers.
        unsafe { self.enqueue_scan(numbers.ptr(), count as u64, &mut workspace.columns.sums, stream)? };
        self.finish(workspace, stream)
    }

    /// Finds the runs of equal keys in a sorted column: the position of the first key of each, in `begins`, which has room for `count`
    /// positions. Returns the number of runs.
    pub fn find_runs<K: SortKey>(
        &self,
        keys: &Buffer,
        count: usize,
        begins: &mut Buffer,
        stream: &Stream,
    ) -> Result<usize> {
        self.check_column(keys, size_of::<K>(), count, "keys")?;
        self.check_column(begins, 4, count, "positions of runs")?;
        check_count(count as u64)?;
        if count == 0 {
            return Ok(0);
        }
        let mut workspace = self.workspaces.take(&self.device)?;
        let columns = &mut workspace.columns;
        // SAFETY: the columns have `count` items; the stream is synchronised below.
        unsafe { self.enqueue_runs::<K>(keys.ptr(), count, begins.ptr(), columns, stream)? };
        let runs = runs_found(count, columns, stream)?;
        self.workspaces.put_back(workspace);
        Ok(runs)
    }

    /// As [`find_runs`](Self::find_runs), and does not wait: gives the address of the number of runs, which has 32 bits.
    ///
    /// # Safety
    /// There are `count` keys, one at least, and as many positions; they and `columns` are not used otherwise until the stream has come to
    /// the end of the search.
    pub(crate) unsafe fn enqueue_runs<K: SortKey>(
        &self,
        keys: DevicePtr,
        count: usize,
        begins: DevicePtr,
        columns: &mut Columns,
        stream: &Stream,
    ) -> Result<DevicePtr> {
        let tiles = (count as u64).div_ceil(RUN_TILE);
        let counts = columns.counts.reserve(&self.device, 4 * tiles as usize)?;
        let search = RunSearch { keys, count: count as u64, counts, begins };
        let kernels = &self.kernels;
        let (count_runs, list_runs) = match size_of::<K>() {
            4 => (&kernels.count_runs_u32, &kernels.list_runs_u32),
            _ => (&kernels.count_runs_u64, &kernels.list_runs_u64),
        };
        let grid = Grid { blocks: tiles as u32, threads: RUN_THREADS, shared_bytes: 0 };
        // SAFETY: this function's contract; there is a counter for each tile.
        unsafe {
            count_runs.launch(grid, &search, stream)?;
            self.enqueue_scan(counts, tiles, &mut columns.sums, stream)?;
            list_runs.launch(grid, &search, stream)?;
        }
        Ok(columns.sums.ptr().offset(4 * run_sum_at(count) as u64))
    }

    /// Merges two sorted columns of keys with values into one. Of equal keys those of the first column come first; each column keeps its
    /// order.
    ///
    /// # Panics
    /// If `V` has bytes and a column has no values, or the other way round.
    pub fn merge<K: SortKey, V: SortValue>(
        &self,
        first: Sorted<'_>,
        second: Sorted<'_>,
        merged_keys: &mut Buffer,
        merged_values: Option<&mut Buffer>,
        stream: &Stream,
    ) -> Result<()> {
        let (key_bytes, value_bytes) = (size_of::<K>(), size_of::<V>());
        // No column has as many keys as the sum would be if it were larger.
        let total = first.count.saturating_add(second.count);
        self.check_column(merged_keys, key_bytes, total, "merged keys")?;
        let mut values = [DevicePtr::NULL; 2];
        for (column, values) in [first, second].iter().zip(&mut values) {
            self.check_column(column.keys, key_bytes, column.count, "keys")?;
            assert_eq!(value_bytes > 0, column.values.is_some(), "values are given if their type has bytes");
            if let Some(given) = column.values {
                self.check_column(given, value_bytes, column.count, "values")?;
                *values = given.ptr();
            }
        }
        // Not by its address: memory of no bytes has none.
        let is_given = merged_values.is_some();
        assert_eq!(value_bytes > 0, is_given, "merged values are given if their type has bytes");
        let merged = match merged_values {
            Some(merged) => {
                self.check_column(merged, value_bytes, total, "merged values")?;
                merged.ptr()
            }
            None => DevicePtr::NULL,
        };
        if total == 0 {
            return Ok(());
        }
        let params = SortedMerge {
            first_keys: first.keys.ptr(),
            first_values: values[0],
            first_count: first.count as u64,
            second_keys: second.keys.ptr(),
            second_values: values[1],
            second_count: second.count as u64,
            keys: merged_keys.ptr(),
            values: merged,
        };
        let kernels = &self.kernels;
        let kernel = match (key_bytes, value_bytes) {
            (4, 0) => &kernels.merge_u32,
            (4, 4) => &kernels.merge_u32_u32,
            (4, _) => &kernels.merge_u32_u64,
            (_, 0) => &kernels.merge_u64,
            (_, 4) => &kernels.merge_u64_u32,
            _ => &kernels.merge_u64_u64,
        };
        let threads = (total as u64).div_ceil(MERGE_EACH);
        // SAFETY: all columns are as long as the parameters say, and borrowed until the stream is synchronised; the merged ones
        // exclusively.
        unsafe { kernel.launch(Grid::covering(threads, MERGE_THREADS), &params, stream)? };
        stream.synchronize()
    }

    /// An error unless a column is memory of this device and has `count` elements of this many bytes.
    fn check_column(&self, column: &Buffer, element: usize, count: usize, what: &'static str) -> Result<()> {
        column.check_device(&self.device, what)?;
        check_range(what, (element as u64).saturating_mul(count as u64), column.len() as u64)
    }

    fn kernels_of(&self, key_bytes: usize, value_bytes: usize) -> SortOf<'_> {
        let kernels = &self.kernels;
        let (scatter, tile) = match (key_bytes, value_bytes) {
            (4, 0) => (&kernels.scatter_u32, &kernels.tile_u32),
            (4, 4) => (&kernels.scatter_u32_u32, &kernels.tile_u32_u32),
            (4, _) => (&kernels.scatter_u32_u64, &kernels.tile_u32_u64),
            (_, 0) => (&kernels.scatter_u64, &kernels.tile_u64),
            (_, 4) => (&kernels.scatter_u64_u32, &kernels.tile_u64_u32),
            _ => (&kernels.scatter_u64_u64, &kernels.tile_u64_u64),
        };
        let count = match (key_bytes, items_per_thread(key_bytes, value_bytes)) {
            (4, _) => &kernels.count_u32_16,
            (_, 12) => &kernels.count_u64_12,
            _ => &kernels.count_u64_16,
        };
        SortOf { count, scatter, tile }
    }

    /// Reserves the memory that a scan of this many numbers needs, so that it does not fail for want of it.
    pub(crate) fn reserve_scan(device: &Device, count: u64, sums: &mut StagedBuffer) -> Result<DevicePtr> {
        sums.reserve(device, 4 * (count.div_ceil(SCAN_TILE) as usize + 1))
    }

    /// As [`exclusive_scan`](Self::exclusive_scan), of numbers at any address, and does not wait.
    ///
    /// # Safety
    /// There are `count` numbers, which stay until the stream is synchronised; so does `sums`.
    pub(crate) unsafe fn enqueue_scan(
        &self,
        items: DevicePtr,
        count: u64,
        sums: &mut StagedBuffer,
        stream: &Stream,
    ) -> Result<()> {
        let tiles = count.div_ceil(SCAN_TILE);
        let sums = Self::reserve_scan(&self.device, count, sums)?;
        let scan = DeviceScan { items, count, sums, tiles };
        let alone = Grid { blocks: 1, threads: SCAN_ALONE_THREADS, shared_bytes: 0 };
        if count <= SCANNED_ALONE {
            // SAFETY: the caller's promise; the sum of all lies behind those of the tiles.
            return unsafe { self.kernels.scan_items.launch(alone, &scan, stream) };
        }
        let grid = Grid { blocks: tiles as u32, threads: SCAN_THREADS, shared_bytes: 0 };
        // SAFETY: the caller's promise; there is a sum for each tile, and one more.
        unsafe {
            self.kernels.sum_tiles.launch(grid, &scan, stream)?;
            self.kernels.scan_sums.launch(alone, &scan, stream)?;
            self.kernels.scan_tiles.launch(grid, &scan, stream)
        }
    }

    /// Waits for the kernels of a call, and keeps its memory for the next one.
    fn finish(&self, workspace: Workspace<Columns>, stream: &Stream) -> Result<()> {
        stream.synchronize()?;
        self.workspaces.put_back(workspace);
        Ok(())
    }
}

/// The kernels that sort keys and values of some lengths.
struct SortOf<'a> {
    count: &'a TypedKernel<RadixPass>,
    scatter: &'a TypedKernel<RadixPass>,
    tile: &'a TypedKernel<RadixPass>,
}

/// A sorted column, for [`Sorter::merge`].
#[derive(Clone, Copy, Debug)]
pub struct Sorted<'a> {
    /// The keys, in ascending order.
    pub keys: &'a Buffer,
    /// Their values, if they have any.
    pub values: Option<&'a Buffer>,
    /// How many.
    pub count: usize,
}

/// The number of runs that an enqueued search among `count` keys finds. Waits for it.
pub(crate) fn runs_found(count: usize, columns: &mut Columns, stream: &Stream) -> Result<usize> {
    let sum_at = run_sum_at(count);
    let sums: Vec<u32> = columns.sums.take(sum_at + 1, stream)?;
    Ok(sums[sum_at] as usize)
}

/// Which of the sums that a search for runs leaves is their number.
fn run_sum_at(count: usize) -> usize {
    (count as u64).div_ceil(RUN_TILE).div_ceil(SCAN_TILE) as usize
}

/// Positions have 32 bits.
fn check_count(count: u64) -> Result<()> {
    check_range("items of one call", count, MOST_ITEMS)
}

fn check_range(what: &'static str, len: u64, size: u64) -> Result<()> {
    match len <= size {
        true => Ok(()),
        false => Err(DeviceError::OutOfBounds { what, offset: 0, len, size }),
    }
}
