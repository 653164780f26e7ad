//! The memory of a graph on a device: vertex records, and the pool that blocks of edges lie in.
//!
//! New blocks are at the end of the pool. Blocks that were left are dead until the pool is compacted: then all blocks move towards its beginning, in the order of
//! their addresses, through a staging buffer of fixed size.

use warpkeep_device::{
    Buffer, Device, DeviceError, DevicePtr, Grid, GrowingBuffer, Result, Stream, TypedKernel,
};

use super::GraphOptions;
use super::kernels::{Compact, GraphKernels, GraphRef, THREADS};
use crate::{ContainerError, Sorter};

/// Bytes of a vertex record.
pub(super) const RECORD: usize = 16;
/// Slots of the pool: positions have 32 bits.
const MOST_SLOTS: u64 = u32::MAX as u64;
/// Dead slots below which compaction is not worth its launches.
const LEAST_DEAD: u64 = 4096;
/// Edges that compaction moves at once.
const STAGED: u64 = 1 << 20;
/// Slots of the smallest block.
const LEAST_CAPACITY: u64 = 4;

#[derive(Debug)]
pub(super) struct Storage {
    pub(super) records: GrowingBuffer,
    targets: GrowingBuffer,
    weights: Option<GrowingBuffer>,
    ids: Option<GrowingBuffer>,
    times: Option<GrowingBuffer>,
    pub(super) vertices: u64,
    /// Slots that belong or belonged to blocks.
    pub(super) pool_end: u64,
    /// Slots of blocks that were left.
    pub(super) dead: u64,
    /// Edges in lists: those of an undirected graph count twice, loops once.
    pub(super) entries: u64,
    pub(super) loops: u64,
    pub(super) compactions: u64,
}

impl Storage {
    pub(super) fn new(device: &Device, options: &GraphOptions) -> Result<Storage> {
        let all = device.memory()?.1.checked_next_power_of_two().unwrap_or(u64::MAX);
        let array = |element: u64| device.reserve(all.min(element * (MOST_SLOTS + 1)) as usize);
        let array_if = |has: bool, element| has.then(|| array(element)).transpose();
        Ok(Storage {
            records: array(RECORD as u64)?,
            targets: array(4)?,
            weights: array_if(options.weights, 4)?,
            ids: array_if(options.ids, 8)?,
            times: array_if(options.times, 8)?,
            vertices: 0,
            pool_end: 0,
            dead: 0,
            entries: 0,
            loops: 0,
            compactions: 0,
        })
    }

    /// With another number of vertices, which the table has room for.
    pub(super) fn reference_with(&self, vertices: u64) -> GraphRef {
        let at = |array: &Option<GrowingBuffer>| array.as_ref().map_or(DevicePtr::NULL, |array| array.ptr());
        GraphRef {
            records: self.records.ptr(),
            targets: self.targets.ptr(),
            weights: at(&self.weights),
            ids: at(&self.ids),
            times: at(&self.times),
            vertices,
        }
    }

    pub(super) fn reference(&self) -> GraphRef {
        self.reference_with(self.vertices)
    }

    /// All arrays of edges, with the bytes of their elements.
    fn arrays(&self) -> impl Iterator<Item = (usize, &GrowingBuffer)> {
        let optional = [(4, &self.weights), (8, &self.ids), (8, &self.times)];
        let there = optional.into_iter().filter_map(|(bytes, array)| Some((bytes, array.as_ref()?)));
        [(4, &self.targets)].into_iter().chain(there)
    }

    /// Bytes of device memory that it holds.
    pub(super) fn bytes(&self) -> u64 {
        self.records.backed() as u64 + self.arrays().map(|(_, array)| array.backed() as u64).sum::<u64>()
    }

    /// Room for the records of this many vertices.
    pub(super) fn grow_table(&mut self, vertices: u64) -> Result<()> {
        let bytes = RECORD * vertices as usize;
        if bytes > self.records.len() { self.records.grow_zeroed(bytes) } else { Ok(()) }
    }

    fn grow_pool(&mut self, slots: u64) -> Result<()> {
        let slots = slots as usize;
        self.targets.grow(4 * slots)?;
        let optional = [(4, &mut self.weights), (8, &mut self.ids), (8, &mut self.times)];
        for (bytes, array) in optional {
            if let Some(array) = array {
                array.grow(bytes * slots)?;
            }
        }
        Ok(())
    }

    /// Makes room for `needed` more slots at the end of the pool, or says that it has to be compacted for that; `compacted` if it was. An error leaves everything as it
    /// is.
    pub(super) fn reserve(&mut self, needed: u64, compacted: bool) -> Result<Room, ContainerError> {
        let can_compact = self.dead > 0 && !compacted;
        let is_worth = self.dead >= LEAST_DEAD && self.dead > self.pool_end - self.dead + needed;
        let slots = self.pool_end + needed;
        if can_compact && (is_worth || slots > MOST_SLOTS) {
            return Ok(Room::AfterCompaction);
        }
        if slots > MOST_SLOTS {
            return Err(ContainerError::TooLarge { what: "slots of edges", given: slots, most: MOST_SLOTS });
        }
        match self.grow_pool(slots) {
            Err(error) if can_compact && is_short(&error) => Ok(Room::AfterCompaction),
            grown => Ok(grown.map(|()| Room::There)?),
        }
    }
}

/// Whether there is room for new blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    There,
    AfterCompaction,
}

/// Whether the device has too little memory for it.
pub(super) fn is_short(error: &DeviceError) -> bool {
    error.is_out_of_memory() || matches!(error, DeviceError::OutOfAddresses { .. })
}

/// What compacting takes.
pub(super) struct Compaction<'a> {
    pub(super) device: &'a Device,
    pub(super) kernels: &'a GraphKernels,
    pub(super) sorter: &'a Sorter,
    pub(super) stream: &'a Stream,
}

impl Compaction<'_> {
    /// Moves all blocks to the beginning of the pool, and gives each the size that its edges need.
    pub(super) fn run(&self, storage: &mut Storage) -> Result<()> {
        if storage.pool_end == 0 {
            return Ok(());
        }
        let most = storage.vertices.min(storage.pool_end / LEAST_CAPACITY) as usize;
        let column = || self.device.allocate(4 * (most + 1));
        let (mut olds, mut listed, mut sizes, mut degrees) = (column()?, column()?, column()?, column()?);
        let staging = self.device.allocate(8 * storage.entries.clamp(1, STAGED) as usize)?;
        let count = self.device.allocate_zeroed(8)?;
        let mut params = Compact {
            graph: storage.reference(),
            count: count.ptr(),
            olds: olds.ptr(),
            listed: listed.ptr(),
            sizes: sizes.ptr(),
            degrees: degrees.ptr(),
            blocks: 0,
            first: 0,
            edges: 0,
            array: DevicePtr::NULL,
            staging: staging.ptr(),
            wide: 0,
        };
        let launch = |kernel: &TypedKernel<Compact>, threads: u64, params: &Compact| {
            // SAFETY: the columns have room for all blocks, the staging buffer for the edges of a part; the storage is borrowed exclusively, and every
            // use of the columns by the host waits for the stream.
            unsafe { kernel.launch(Grid::covering(threads.max(1), THREADS), params, self.stream) }
        };
        launch(&self.kernels.list_blocks, storage.vertices, &params)?;
        params.blocks = read_word(&count, self.stream)?;
        let blocks = params.blocks as usize;
        self.sorter.sort_pairs::<u32, u32>(&mut olds, &mut listed, blocks, self.stream)?;
        launch(&self.kernels.measure_blocks, params.blocks + 1, &params)?;
        self.sorter.exclusive_scan(&mut sizes, blocks + 1, self.stream)?;
        self.sorter.exclusive_scan(&mut degrees, blocks + 1, self.stream)?;
        let mut end = [0_u32];
        sizes.read_on(4 * blocks, &mut end, self.stream)?;
        for (bytes, array) in storage.arrays() {
            (params.array, params.wide) = (array.ptr(), u64::from(bytes == 8));
            for first in (0..storage.entries).step_by(STAGED as usize) {
                (params.first, params.edges) = (first, (storage.entries - first).min(STAGED));
                launch(&self.kernels.fetch_part, params.edges, &params)?;
                launch(&self.kernels.store_part, params.edges, &params)?;
            }
        }
        launch(&self.kernels.rebase, params.blocks, &params)?;
        self.stream.synchronize()?;
        (storage.pool_end, storage.dead) = (u64::from(end[0]), 0);
        storage.compactions += 1;
        Ok(())
    }
}

fn read_word(buffer: &Buffer, stream: &Stream) -> Result<u64> {
    let mut word = [0];
    buffer.read_on(0, &mut word, stream)?;
    Ok(word[0])
}
