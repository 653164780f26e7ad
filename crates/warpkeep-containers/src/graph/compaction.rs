//! Compaction of the pool: all blocks move towards its beginning, in the order of their addresses, through a staging
//! buffer.

use warpkeep_device::{
    Buffer, Device, DevicePtr, Grid, GrowingBuffer, Result, StagedBuffer, Stream, TypedKernel,
};

use super::kernels::{Compact, GraphKernels, THREADS};
use super::storage::{Storage, is_short, read_word};
use crate::Sorter;
use crate::sort::Columns as SortColumns;

/// Edges that are moved at once, at most.
const STAGED: u64 = 1 << 20;
/// The same if memory is short.
const STAGED_SPARE: u64 = 1 << 17;
/// Slots of the smallest block.
const LEAST_CAPACITY: u64 = 4;
/// Parts of the pool that are compacted one after the other if memory is short. Each takes a look at all vertices.
const PARTS: u64 = 64;
/// Slots of such a part, at least.
const LEAST_SLOTS: u64 = 1 << 12;

/// Memory to compact a part of the pool.
#[derive(Debug)]
pub(super) struct Window {
    slots: u64,
    /// Blocks that it has room for.
    blocks: u64,
    olds: Buffer,
    listed: Buffer,
    sizes: Buffer,
    degrees: Buffer,
    count: Buffer,
    staging: Buffer,
    sort: SortColumns,
    sums: StagedBuffer,
}

impl Window {
    /// For this many slots of a pool with the lists of this many vertices, through a staging buffer for `staged` edges.
    fn new(device: &Device, vertices: u64, slots: u64, staged: u64) -> Result<Window> {
        let blocks = vertices.min(slots.div_ceil(LEAST_CAPACITY));
        let column = || device.allocate(4 * (blocks as usize + 1));
        let mut sort = SortColumns::default();
        sort.reserve::<u32, u32>(device, blocks as usize)?;
        let mut sums = StagedBuffer::default();
        Sorter::reserve_scan(device, blocks + 1, &mut sums)?;
        Ok(Window {
            slots,
            blocks,
            olds: column()?,
            listed: column()?,
            sizes: column()?,
            degrees: column()?,
            count: device.allocate(8)?,
            staging: device.allocate(8 * staged.max(1) as usize)?,
            sort,
            sums,
        })
    }

    /// Slots of the window that is kept for a pool of this size.
    pub(super) fn spare_slots(pool: u64) -> u64 {
        match pool {
            0 => 0,
            _ => (pool.next_power_of_two() / PARTS).max(LEAST_SLOTS),
        }
    }

    /// A window to be kept.
    pub(super) fn spare(device: &Device, vertices: u64, slots: u64) -> Result<Window> {
        Window::new(device, vertices.next_power_of_two(), slots, slots.min(STAGED_SPARE))
    }

    /// Whether it has room to compact a pool of this many vertices in parts of `slots` slots.
    pub(super) fn covers(&self, vertices: u64, slots: u64) -> bool {
        self.slots >= slots && self.blocks >= vertices.min(self.slots.div_ceil(LEAST_CAPACITY))
    }

    /// Bytes of device memory, without those of its sorts.
    pub(super) fn bytes(&self) -> u64 {
        let columns = [&self.olds, &self.listed, &self.sizes, &self.degrees, &self.count, &self.staging];
        columns.iter().map(|column| column.len() as u64).sum()
    }
}

/// What compacting takes.
pub(super) struct Compaction<'a> {
    pub(super) device: &'a Device,
    pub(super) kernels: &'a GraphKernels,
    pub(super) sorter: &'a Sorter,
    pub(super) stream: &'a Stream,
}

impl Compaction<'_> {
    /// Moves all blocks to the beginning of the pool, or behind those that belong to snapshots, and gives each the size
    /// that its edges need. Without memory to move all at once it does a part after the other.
    pub(super) fn run(&self, storage: &mut Storage) -> Result<()> {
        let slots = storage.pool_end - storage.frozen;
        if slots == 0 {
            return Ok(());
        }
        let staged = storage.entries.min(STAGED);
        match Window::new(self.device, storage.vertices, slots, staged) {
            Ok(mut window) => self.slide(storage, &mut window),
            Err(error) if is_short(&error) => {
                let Some(mut spare) = storage.spare.take() else { return Err(error) };
                let done = self.slide(storage, &mut spare);
                storage.spare = Some(spare);
                done
            }
            Err(error) => Err(error),
        }
    }

    /// Moves the blocks, those of as many slots at once as the window has room for.
    fn slide(&self, storage: &mut Storage, window: &mut Window) -> Result<()> {
        let (begin, end) = (storage.frozen, storage.pool_end);
        let mut to = begin;
        for from in (begin..end).step_by(window.slots.max(1) as usize) {
            to += self.slide_part(storage, from..(from + window.slots).min(end), to, window)?;
        }
        self.stream.synchronize()?;
        (storage.pool_end, storage.dead) = (to, storage.frozen_dead);
        storage.compactions += 1;
        Ok(())
    }

    /// Moves the blocks that begin in a part of the pool to the position `to`, which is not behind the first of them;
    /// gives the slots that they have there.
    fn slide_part(
        &self,
        storage: &Storage,
        part: std::ops::Range<u64>,
        to: u64,
        window: &mut Window,
    ) -> Result<u64> {
        let mut params = Compact {
            graph: storage.reference(),
            count: window.count.ptr(),
            olds: window.olds.ptr(),
            listed: window.listed.ptr(),
            sizes: window.sizes.ptr(),
            degrees: window.degrees.ptr(),
            blocks: 0,
            first: 0,
            edges: 0,
            array: DevicePtr::NULL,
            staging: window.staging.ptr(),
            wide: 0,
            from: part.start,
            until: part.end,
            to,
        };
        let launch = |kernel: &TypedKernel<Compact>, threads: u64, params: &Compact| {
            // SAFETY: the window has room for all blocks of the part, and its staging buffer for the edges that are
            // moved at once; the storage is borrowed exclusively, and every use of the columns by the host waits for
            // the stream.
            unsafe { kernel.launch(Grid::covering(threads.max(1), THREADS), params, self.stream) }
        };
        window.count.fill_on(0, 8, 0, self.stream)?;
        launch(&self.kernels.list_blocks, storage.vertices, &params)?;
        params.blocks = read_word(&window.count, self.stream)?;
        if params.blocks == 0 {
            return Ok(0);
        }
        let (blocks, pairs) = (params.blocks as usize, (window.olds.ptr(), window.listed.ptr()));
        // SAFETY: the columns have an element for each block and one more, and are not used otherwise before the reads
        // below.
        unsafe {
            self.sorter.enqueue_sort::<u32, u32>(pairs, blocks, 0..32, &mut window.sort, self.stream)?;
            launch(&self.kernels.measure_blocks, params.blocks + 1, &params)?;
            for column in [&window.sizes, &window.degrees] {
                self.sorter.enqueue_scan(column.ptr(), params.blocks + 1, &mut window.sums, self.stream)?;
            }
        }
        let (mut slots, mut moving) = ([0_u32], [0_u32]);
        window.sizes.read_on(4 * blocks, &mut slots, self.stream)?;
        window.degrees.read_on(4 * blocks, &mut moving, self.stream)?;
        let (moving, staged) = (u64::from(moving[0]), window.staging.len() as u64 / 8);
        let mut slide = |bytes: usize, array: &GrowingBuffer| -> Result<()> {
            (params.array, params.wide) = (array.ptr(), u64::from(bytes == 8));
            for first in (0..moving).step_by(staged as usize) {
                (params.first, params.edges) = (first, (moving - first).min(staged));
                launch(&self.kernels.fetch_part, params.edges, &params)?;
                launch(&self.kernels.store_part, params.edges, &params)?;
            }
            Ok(())
        };
        for (bytes, array) in storage.arrays() {
            slide(bytes, array)?;
        }
        launch(&self.kernels.rebase, params.blocks, &params)?;
        Ok(u64::from(slots[0]))
    }
}
