//! Reads of a version in device memory.

use warpkeep_device::{DevicePtr, Grid, Result, Stream};

use super::columns::{PairColumns, Staged};
use super::kernels::{
    CACHING_THREADS, Find, LEAF_THREADS, NearSearch, Ranks, Reads, Retrieve, SortedBatch, THREADS,
};
use super::key::OrderedWord;
use super::near::Near;
use super::op::OrderedOpKind;
use super::pool::too_large;
use super::tree::Tree;
use super::version::Version;
use crate::ContainerError;

/// Pairs of all ranges of one call: offsets have 32 bits.
const MOST_PAIRS: u64 = u32::MAX as u64;

/// Lookups keep the upper levels of the directory in shared memory if each thread that the device runs at once has this many keys: with
/// fewer a block would spend more time to fetch them.
const CACHING_KEYS: u64 = 4;

/// Where the pairs of ranges go.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pairs {
    /// The same room for each.
    Fixed { keys: DevicePtr, values: DevicePtr, stride: u64, room: u64 },
    /// One behind the other, in columns of the workspace that become as long as they must be.
    Ragged,
    /// One behind the other in columns with this much room; the offsets go to a column.
    RaggedIn { keys: DevicePtr, values: DevicePtr, offsets: DevicePtr, room: u64 },
}

impl Pairs {
    pub(super) const NONE: Pairs =
        Pairs::Fixed { keys: DevicePtr::NULL, values: DevicePtr::NULL, stride: 0, room: 0 };
}

impl Tree {
    /// Enqueues lookups of keys.
    ///
    /// # Safety
    /// The columns have `count` elements, or are null where they may be; they and the version stay until the stream is synchronised.
    pub(super) unsafe fn find(
        &self,
        version: &Version,
        keys: DevicePtr,
        count: usize,
        statuses: DevicePtr,
        values: DevicePtr,
        stream: &Stream,
    ) -> Result<()> {
        let params = Find { map: self.reference(version), keys, statuses, values, count: count as u64 };
        let kernels = &self.kernels;
        // SAFETY: the caller's promise.
        unsafe {
            let (blocks, threads) = (self.caching_blocks, CACHING_THREADS);
            if params.count < CACHING_KEYS * u64::from(blocks) * u64::from(threads) {
                return kernels.find.launch(Grid::covering(params.count, THREADS), &params, stream);
            }
            let grid = Grid { blocks, threads, shared_bytes: 0 };
            kernels.find_cached.launch(grid, &params, stream)
        }
    }

    /// Enqueues searches of neighbours of the keys, and puts what they find where `staged` says.
    ///
    /// # Safety
    /// As [`find`](Self::find).
    pub(super) unsafe fn near<K: OrderedWord>(
        &self,
        version: &Version,
        staged: &Staged,
        is_down: bool,
        near: &Near<K>,
        stream: &Stream,
    ) -> Result<()> {
        let params = NearSearch {
            map: self.reference(version),
            keys: staged.keys,
            statuses: staged.statuses,
            found_keys: staged.found_keys,
            found_values: staged.values,
            count: staged.count as u64,
            tolerance: [near.tolerance.to_u128() as u64, (near.tolerance.to_u128() >> 64) as u64],
            group_bits: near.group_bits,
            is_down: is_down.into(),
            or_equal: near.or_equal.into(),
            reserved: 0,
        };
        // SAFETY: the caller's promise.
        unsafe { self.kernels.near.launch(Grid::covering(params.count, THREADS), &params, stream) }
    }

    /// Works the operations of a batch that concern other keys than their own: neighbours, counts and ranges. Gives the number of all pairs of
    /// ragged ranges, and waits for them.
    ///
    /// # Safety
    /// As [`find`](Self::find), for the columns of the batch, too.
    pub(super) unsafe fn read_around(
        &self,
        version: &Version,
        batch: &SortedBatch,
        staged: &Staged,
        pairs: Pairs,
        columns: &mut PairColumns,
        stream: &Stream,
    ) -> Result<u64, ContainerError> {
        let mut params = Reads {
            map: self.reference(version),
            batch: *batch,
            codes: staged.codes,
            lows: staged.keys,
            highs: staged.ends,
            count: staged.count as u64,
            statuses: staged.statuses,
            found_keys: staged.found_keys,
            found_values: staged.values,
            counts: staged.counts,
            pair_keys: DevicePtr::NULL,
            pair_values: DevicePtr::NULL,
            offsets: DevicePtr::NULL,
            stride: 0,
            room: 0,
            lengths: DevicePtr::NULL,
            total: DevicePtr::NULL,
            code: staged.code as u32,
            reserved: 0,
        };
        let grid = Grid::covering(params.count, THREADS);
        let are_ranges = matches!(staged.code, OrderedOpKind::Range | OrderedOpKind::Count);
        let kernel = match batch.runs == 0 && staged.codes.is_null() && are_ranges {
            true => &self.kernels.ranges,
            false => &self.kernels.read,
        };
        if let Pairs::Fixed { keys, values, stride, room } = pairs {
            (params.pair_keys, params.pair_values, params.stride, params.room) = (keys, values, stride, room);
            // SAFETY: the caller's promise.
            unsafe { kernel.launch(grid, &params, stream)? };
            return Ok(0);
        }
        // First the number of each, then the pairs, when it is known where they go.
        let lengths = match pairs {
            Pairs::RaggedIn { offsets, .. } => offsets,
            _ => columns.offsets.reserve(&self.device, 4 * (staged.count + 1))?.ptr(),
        };
        params.lengths = lengths;
        params.total = columns.total.zeros(&self.device, 8, stream)?;
        // SAFETY: the caller's promise.
        unsafe { kernel.launch(grid, &params, stream)? };
        let total = columns.total.take::<u64>(1, stream)?[0];
        if total > MOST_PAIRS {
            return Err(too_large("pairs of one call", total, MOST_PAIRS));
        }
        // SAFETY: there is a length for each operation, and room for the end.
        unsafe {
            let last = lengths.offset(4 * params.count);
            columns.total.zeros(&self.device, 8, stream)?;
            self.device.copy_raw(last, params.total, 4, stream)?;
            self.sorter.enqueue_scan(lengths, params.count + 1, &mut columns.sums, stream)?;
        }
        (params.lengths, params.total, params.offsets) = (DevicePtr::NULL, DevicePtr::NULL, lengths);
        (params.pair_keys, params.pair_values, params.room) = match pairs {
            Pairs::RaggedIn { keys, values, room, .. } => (keys, values, room),
            _ => {
                let (shape, pairs) = (self.shape, total as usize);
                (
                    columns.keys.reserve(&self.device, shape.key_bytes() * pairs)?,
                    columns.values.reserve(&self.device, shape.value_bytes() * pairs)?,
                    total,
                )
            }
        };
        // SAFETY: the columns have room for all pairs, or the kernel knows for how many.
        unsafe { kernel.launch(grid, &params, stream)? };
        stream.synchronize()?;
        Ok(total)
    }

    /// Enqueues the number of keys below each key.
    ///
    /// # Safety
    /// As [`find`](Self::find).
    pub(super) unsafe fn rank(
        &self,
        version: &Version,
        keys: DevicePtr,
        ranks: DevicePtr,
        count: usize,
        stream: &Stream,
    ) -> Result<()> {
        let params = Ranks { keys, ranks, ..self.ranks(version, count) };
        // SAFETY: the caller's promise.
        unsafe { self.kernels.rank.launch(Grid::covering(params.count, THREADS), &params, stream) }
    }

    /// Enqueues the search of the pairs with these numbers of keys below them.
    ///
    /// # Safety
    /// As [`find`](Self::find).
    pub(super) unsafe fn select(
        &self,
        version: &Version,
        ranks: DevicePtr,
        staged: &Staged,
        stream: &Stream,
    ) -> Result<()> {
        let params = Ranks {
            ranks,
            statuses: staged.statuses,
            found_keys: staged.found_keys,
            found_values: staged.values,
            ..self.ranks(version, staged.count)
        };
        // SAFETY: the caller's promise.
        unsafe { self.kernels.select.launch(Grid::covering(params.count, THREADS), &params, stream) }
    }

    fn ranks(&self, version: &Version, count: usize) -> Ranks {
        Ranks {
            map: self.reference(version),
            keys: DevicePtr::NULL,
            ranks: DevicePtr::NULL,
            statuses: DevicePtr::NULL,
            found_keys: DevicePtr::NULL,
            found_values: DevicePtr::NULL,
            count: count as u64,
        }
    }

    /// Enqueues the pairs of some leaves, in order.
    ///
    /// # Safety
    /// As [`find`](Self::find), for as many pairs as the leaves have.
    pub(super) unsafe fn retrieve(
        &self,
        version: &Version,
        first: u64,
        leaves: u64,
        keys: DevicePtr,
        values: DevicePtr,
        stream: &Stream,
    ) -> Result<()> {
        let params = Retrieve { map: self.reference(version), keys, values, first, leaves };
        // SAFETY: the caller's promise.
        unsafe {
            self.kernels.retrieve.launch(Grid::covering(LEAF_THREADS * leaves, THREADS), &params, stream)
        }
    }
}
