//! Reads of a version in device memory.

use bytemuck::NoUninit;
use warpkeep_device::{DevicePtr, Grid, Result, Stream, TypedKernel};

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
use crate::batch_columns::settled;

/// Pairs of all ranges of one call: offsets have 32 bits.
const MOST_PAIRS: u64 = u32::MAX as u64;

/// Reads keep the upper levels of the directory in shared memory if each thread that the device runs at once has this
/// many keys: with fewer a block would spend more time to fetch them.
const CACHING_KEYS: u64 = 4;

/// Where the pairs of ranges go.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pairs {
    /// The same room for each.
    Fixed { keys: DevicePtr, values: DevicePtr, stride: u64, room: u64 },
    /// One behind the other, in columns of the workspace that become as long as they must be.
    Ragged,
    /// The same, and at most this many of each.
    Limited(u64),
    /// One behind the other in columns with this much room; the offsets go to a column.
    RaggedIn { keys: DevicePtr, values: DevicePtr, offsets: DevicePtr, room: u64 },
}

impl Pairs {
    pub(super) const NONE: Pairs =
        Pairs::Fixed { keys: DevicePtr::NULL, values: DevicePtr::NULL, stride: 0, room: 0 };
}

/// Launches the kernel of few reads, or that of many with its number of blocks.
///
/// # Safety
/// As [`TypedKernel::launch`].
unsafe fn launch_reads<P: NoUninit>(
    plain: &TypedKernel<P>,
    (cached, blocks): (&TypedKernel<P>, u32),
    count: u64,
    params: &P,
    stream: &Stream,
) -> Result<()> {
    let threads = CACHING_THREADS;
    // SAFETY: the caller's promise.
    unsafe {
        match count < CACHING_KEYS * u64::from(blocks) * u64::from(threads) {
            true => plain.launch(Grid::covering(count, THREADS), params, stream),
            false => cached.launch(Grid { blocks, threads, shared_bytes: 0 }, params, stream),
        }
    }
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
        let (kernels, blocks) = (&self.kernels, self.caching_blocks.find);
        // SAFETY: the caller's promise.
        unsafe { launch_reads(&kernels.find, (&kernels.find_cached, blocks), params.count, &params, stream) }
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
        let tolerance = near.tolerance.to_u128();
        let params = NearSearch {
            tolerance: [tolerance as u64, (tolerance >> 64) as u64],
            group_bits: near.group_bits,
            ..self.near_of(version, staged, is_down, near.or_equal)
        };
        // SAFETY: the caller's promise.
        unsafe { self.launch_near(&params, stream) }
    }

    /// The parameters of a search of neighbours that accepts all.
    fn near_of(&self, version: &Version, staged: &Staged, is_down: bool, or_equal: bool) -> NearSearch {
        NearSearch {
            map: self.reference(version),
            keys: staged.keys,
            statuses: staged.statuses,
            found_keys: staged.found_keys,
            found_values: staged.values,
            count: staged.count as u64,
            tolerance: [u64::MAX; 2],
            group_bits: 128,
            is_down: is_down.into(),
            or_equal: or_equal.into(),
            reserved: 0,
        }
    }

    /// # Safety
    /// As [`find`](Self::find).
    unsafe fn launch_near(&self, params: &NearSearch, stream: &Stream) -> Result<()> {
        let (kernels, blocks) = (&self.kernels, self.caching_blocks.near);
        // SAFETY: the caller's promise.
        unsafe { launch_reads(&kernels.near, (&kernels.near_cached, blocks), params.count, params, stream) }
    }

    /// Enqueues zeros for a column, if it is there.
    ///
    /// # Safety
    /// It is so long, and stays until the stream is synchronised.
    pub(super) unsafe fn fill_column(&self, column: DevicePtr, bytes: usize, stream: &Stream) -> Result<()> {
        match column.is_null() {
            true => Ok(()),
            // SAFETY: the caller's promise.
            false => unsafe { self.device.fill_raw(column, bytes, 0, stream) },
        }
    }

    /// Enqueues the answer that operations have no keys in a range and no pairs.
    ///
    /// # Safety
    /// As [`find`](Self::find).
    pub(super) unsafe fn no_pairs(&self, staged: &Staged, pairs: Pairs, stream: &Stream) -> Result<()> {
        // SAFETY: the caller's promise; there is an offset for each operation, and one more.
        unsafe {
            if let Pairs::RaggedIn { offsets, .. } = pairs {
                self.fill_column(offsets, 4 * (staged.count + 1), stream)?;
            }
            self.fill_column(staged.counts, 4 * staged.count, stream)
        }
    }

    /// Enqueues operations that all ask for a neighbour.
    ///
    /// # Safety
    /// As [`find`](Self::find).
    pub(super) unsafe fn neighbours(
        &self,
        version: &Version,
        staged: &Staged,
        stream: &Stream,
    ) -> Result<()> {
        use OrderedOpKind::{Ceiling, Floor, Predecessor};
        let is_down = matches!(staged.code, Predecessor | Floor);
        let params = self.near_of(version, staged, is_down, matches!(staged.code, Ceiling | Floor));
        // SAFETY: the caller's promise.
        unsafe { self.launch_near(&params, stream) }
    }

    /// Enqueues operations that are all of one kind and only read, and what they answer in columns that are not theirs.
    ///
    /// # Safety
    /// As [`find`](Self::find).
    pub(super) unsafe fn read_alone(
        &self,
        version: &Version,
        staged: &Staged,
        pairs: Pairs,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let Staged { code, keys, count, statuses, values, found_keys, .. } = *staged;
        // SAFETY: the caller's promise.
        unsafe {
            match code {
                OrderedOpKind::Range | OrderedOpKind::Count => {
                    let mut workspace = self.workspaces.take(&self.device)?;
                    let (none, columns) = (SortedBatch::NONE, &mut workspace.columns.pairs);
                    let read = self.read_around(version, &none, staged, pairs, columns, stream);
                    // Before its columns are given back.
                    settled(read, stream)?;
                    stream.synchronize()?;
                    self.workspaces.put_back(workspace);
                    return Ok(());
                }
                _ if code.looks_around() => self.neighbours(version, staged, stream)?,
                _ => {
                    let found = match code {
                        OrderedOpKind::Contains => {
                            self.fill_column(values, self.shape.value_bytes() * count, stream)?;
                            DevicePtr::NULL
                        }
                        _ => values,
                    };
                    self.find(version, keys, count, statuses, found, stream)?;
                    self.fill_column(found_keys, self.shape.key_bytes() * count, stream)?;
                }
            }
            Ok(self.no_pairs(staged, pairs, stream)?)
        }
    }

    /// Works the operations of a batch that concern other keys than their own: neighbours, counts and ranges; or,
    /// without a batch, ranges or counts alone. Gives the number of all pairs of ragged ranges, and waits for them.
    ///
    /// # Safety
    /// As [`find`](Self::find), for the columns of the batch, too; those of its values have zeros where no
    /// operation has written.
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
        let are_alone = batch.runs == 0;
        let kernels = &self.kernels;
        let launch = |params: &Reads| {
            let (plain, cached) = (&kernels.ranges, (&kernels.ranges_cached, self.caching_blocks.ranges));
            // SAFETY: the caller's promise; where pairs go, the columns have room for all, or the kernel knows for how
            // many.
            unsafe {
                match are_alone {
                    true => launch_reads(plain, cached, params.count, params, stream),
                    false => kernels.read.launch(Grid::covering(params.count, THREADS), params, stream),
                }
            }
        };
        if !are_alone {
            // SAFETY: the caller's promise. The kernel writes what is not zero.
            unsafe {
                self.fill_column(staged.found_keys, self.shape.key_bytes() * staged.count, stream)?;
                self.fill_column(staged.counts, 4 * staged.count, stream)?;
            }
        }
        if let Pairs::Fixed { keys, values, stride, room } = pairs {
            (params.pair_keys, params.pair_values, params.stride, params.room) = (keys, values, stride, room);
            launch(&params)?;
            return Ok(0);
        }
        // First the number of each, then the pairs, when it is known where they go.
        params.stride = match pairs {
            Pairs::Limited(most) => most,
            _ => u64::MAX,
        };
        let lengths = match pairs {
            Pairs::RaggedIn { offsets, .. } => offsets,
            _ => columns.offsets.reserve(&self.device, 4 * (staged.count + 1))?.ptr(),
        };
        params.lengths = lengths;
        params.total = columns.total.zeros(&self.device, 8, stream)?;
        if !are_alone {
            // SAFETY: there is a length for each operation.
            unsafe { self.fill_column(lengths, 4 * staged.count, stream)? };
        }
        launch(&params)?;
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
        launch(&params)?;
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
