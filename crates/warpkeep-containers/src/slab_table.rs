//! A hash table of chains of slabs, with unique keys or not: the host's side of `warpkeep/slab_hash.h`.

use bytemuck::NoUninit;
use warpkeep_device::{
    Buffer, Device, DeviceError, DevicePtr, Grid, KernelSet as _, Program, Result, StagedBuffer, TypedKernel,
    Workspace, WorkspacePool,
};

use crate::key_mixer::KeyMixer;
use crate::slab_request::{COUNTED, GATHER, INSERTED, RawRequest, is_put};
use crate::{SlabAlloc, SlabAllocOptions, SlabAllocRef, SlabAnswer, SlabHashOptions, SlabHashStats};

const THREADS: u32 = 128;
/// Counters are spread over lines, as those of a [`SlabAlloc`].
const COUNTER_LINES: usize = 32;
const COUNTER_WORDS: usize = 16;
/// Slabs that tiles which lose a link may hold for a moment: as many as a large GPU has tiles under way.
const MOST_UNDER_WAY: u64 = 1 << 16;

/// A table for the parameters of kernels: `wk::SlabTableRef` of `warpkeep/slab_hash.h`. Of use until the map grows, is flushed or dropped.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub struct SlabTableRef {
    first: DevicePtr,
    slabs: SlabAllocRef,
    counters: DevicePtr,
    mixer: KeyMixer,
    bits: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
struct Requests {
    table: SlabTableRef,
    ops: DevicePtr,
    keys: DevicePtr,
    values: DevicePtr,
    answers: DevicePtr,
    count: u64,
    gathered: DevicePtr,
    room: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
struct Move {
    from: SlabTableRef,
    to: SlabTableRef,
    failed: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
struct List {
    table: SlabTableRef,
    pairs: DevicePtr,
    next: DevicePtr,
    room: u64,
}

warpkeep_device::kernel_set! {
    struct SlabTableKernels in "slab_table.cu", prefix "slab_table_" {
        apply_8: Requests,
        apply_16: Requests,
        apply_multi_8: Requests,
        apply_multi_16: Requests,
        read_8: Requests,
        read_16: Requests,
        read_multi_8: Requests,
        read_multi_16: Requests,
        move_8: Move,
        move_16: Move,
        move_multi_8: Move,
        move_multi_16: Move,
        list_8: List,
        list_16: List,
        flush_8: SlabTableRef,
        flush_16: SlabTableRef,
        release_8: SlabTableRef,
        release_16: SlabTableRef,
    }
    agree {
        inserted = INSERTED,
        counted = COUNTED,
        gather = GATHER,
        reference = size_of::<SlabTableRef>(),
    }
}

/// Columns of a batch.
#[derive(Debug, Default)]
struct Columns {
    ops: StagedBuffer,
    keys: StagedBuffer,
    values: StagedBuffer,
    answers: StagedBuffer,
}

/// The first slabs of all buckets, and what they hold.
#[derive(Debug)]
struct Buckets {
    first: Buffer,
    counters: Buffer,
    bits: u32,
}

impl Buckets {
    fn new(device: &Device, bits: u32, slab_bytes: u32) -> Result<Self> {
        Ok(Self {
            first: device.allocate_zeroed((slab_bytes as usize) << bits)?,
            counters: device.allocate_zeroed(COUNTER_LINES * COUNTER_WORDS * 8)?,
            bits,
        })
    }

    fn buckets(&self) -> u64 {
        1 << self.bits
    }

    /// Pairs and tombstones.
    fn counts(&self) -> Result<(u64, u64)> {
        let lines = self.counters.to_vec::<[u64; COUNTER_WORDS]>()?;
        let sum = |word: usize| lines.iter().fold(0_u64, |sum, line| sum.wrapping_add(line[word]));
        Ok((sum(0), sum(1)))
    }
}

/// The table that maps, sets and multimaps are made of.
#[derive(Debug)]
pub(crate) struct SlabTable {
    device: Device,
    kernels: SlabTableKernels,
    options: SlabHashOptions,
    unique: bool,
    mixer: KeyMixer,
    table: Buckets,
    slabs: SlabAlloc,
    workspaces: WorkspacePool<Columns>,
}

impl SlabTable {
    pub(crate) fn programs() -> Vec<Program> {
        vec![SlabTableKernels::program(), SlabAlloc::program()]
    }

    pub(crate) fn new(device: &Device, options: SlabHashOptions, unique: bool) -> Result<Self> {
        if !matches!(options.slab_bytes, 64 | 128) {
            return Err(DeviceError::Call {
                call: "a slab hash",
                code: "slab size".to_owned(),
                text: format!("slabs of {} bytes", options.slab_bytes),
                advice: "ask for slabs of 64 or 128 bytes",
            });
        }
        let pool = SlabAllocOptions { initial_units: 1, most_units: options.most_slabs };
        let bits = options.bits_for(options.capacity);
        Ok(Self {
            device: device.clone(),
            kernels: SlabTableKernels::load(device)?,
            options,
            unique,
            mixer: KeyMixer::new(options.seed),
            table: Buckets::new(device, bits, options.slab_bytes)?,
            slabs: SlabAlloc::new(device, options.slab_bytes, pool)?,
            workspaces: WorkspacePool::default(),
        })
    }

    pub(crate) fn len(&self) -> Result<u64> {
        Ok(self.table.counts()?.0)
    }

    pub(crate) fn stats(&self) -> Result<SlabHashStats> {
        let (len, tombstones) = self.table.counts()?;
        let slabs = self.slabs.stats()?;
        let all_slabs = (self.table.buckets() + slabs.in_use) * u64::from(self.options.slab_bytes);
        Ok(SlabHashStats {
            len,
            tombstones,
            buckets: self.table.buckets(),
            chained_slabs: slabs.in_use,
            utilisation: (8 * len) as f64 / all_slabs as f64,
            bytes: (self.table.first.len() + self.table.counters.len()) as u64 + slabs.bytes,
        })
    }

    pub(crate) fn reference(&self) -> SlabTableRef {
        self.reference_of(&self.table)
    }

    fn reference_of(&self, table: &Buckets) -> SlabTableRef {
        SlabTableRef {
            first: table.first.ptr(),
            slabs: self.slabs.reference(),
            counters: table.counters.ptr(),
            mixer: self.mixer,
            bits: table.bits,
        }
    }

    /// Runs requests, some of which may change the table, at the same time; gives the answer to each.
    pub(crate) fn apply(
        &mut self,
        requests: impl ExactSizeIterator<Item = RawRequest> + Clone,
    ) -> Result<Vec<SlabAnswer>> {
        let puts = requests.clone().filter(is_put).count() as u64;
        if puts > 0 {
            self.make_room(puts)?;
        }
        let kernels = &self.kernels;
        let kernel = match (self.unique, self.is_small()) {
            (true, true) => &kernels.apply_8,
            (true, false) => &kernels.apply_16,
            (false, true) => &kernels.apply_multi_8,
            (false, false) => &kernels.apply_multi_16,
        };
        let answers = self.run(kernel, requests, None)?;
        if answers.iter().any(|answer| answer.may_tell_of_a_change()) {
            self.tidy()?;
        }
        Ok(answers)
    }

    /// Runs requests that change nothing; values are gathered in the column, if there is one.
    pub(crate) fn read(
        &self,
        requests: impl ExactSizeIterator<Item = RawRequest>,
        gathered: Option<&Buffer>,
    ) -> Result<Vec<SlabAnswer>> {
        let kernels = &self.kernels;
        let kernel = match (self.unique, self.is_small()) {
            (true, true) => &kernels.read_8,
            (true, false) => &kernels.read_16,
            (false, true) => &kernels.read_multi_8,
            (false, false) => &kernels.read_multi_16,
        };
        self.run(kernel, requests, gathered)
    }

    /// All pairs, in no order.
    pub(crate) fn pairs(&self) -> Result<Vec<(u32, u32)>> {
        let room = self.len()?;
        let (pairs, next) = (self.device.allocate(16 * room as usize)?, self.device.allocate_zeroed(8)?);
        let stream = self.device.stream()?;
        let list = List { table: self.reference(), pairs: pairs.ptr(), next: next.ptr(), room };
        let kernel = if self.is_small() { &self.kernels.list_8 } else { &self.kernels.list_16 };
        // SAFETY: there is room for this many pairs; buffers and table stay until the stream is synchronised.
        unsafe { kernel.launch(self.tiles(&self.table), &list, &stream)? };
        stream.synchronize()?;
        Ok(pairs.to_vec::<[u64; 2]>()?.into_iter().map(|[key, value]| (key as u32, value as u32)).collect())
    }

    /// Makes room for this many pairs in all.
    pub(crate) fn reserve(&mut self, pairs: u64) -> Result<()> {
        let bits = self.options.bits_for(pairs);
        if bits > self.table.bits {
            self.rebuild(bits)?;
        }
        Ok(())
    }

    /// Packs the pairs of all chains, without tombstones, and gives slabs back. Needs no memory.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let kernel = if self.is_small() { &self.kernels.flush_8 } else { &self.kernels.flush_16 };
        self.visit(kernel, self.tiles(&self.table), &self.table)
    }

    /// Removes all pairs. Buckets stay.
    pub(crate) fn clear(&mut self) -> Result<()> {
        self.release_chains(&self.table)?;
        self.table.first.fill(0)?;
        self.table.counters.fill(0)
    }

    /// Pairs of a slab.
    fn pairs_each(&self) -> u64 {
        u64::from(self.options.slab_bytes / 8 - 1)
    }

    fn is_small(&self) -> bool {
        self.options.slab_bytes == 64
    }

    /// A tile for each bucket.
    fn tiles(&self, table: &Buckets) -> Grid {
        Grid::covering(table.buckets() * u64::from(self.options.slab_bytes / 8), THREADS)
    }

    /// Before a batch that may store this many pairs: slabs for them, and buckets, if far too few are there. What cannot be had is missed
    /// by those requests only that need it.
    fn make_room(&mut self, puts: u64) -> Result<()> {
        let (live, dead) = self.table.counts()?;
        let slots = live + dead + puts;
        if self.options.bits_for(slots) > self.table.bits + 1 {
            unless_short(self.rebuild(self.options.bits_for(live + puts).max(self.table.bits)))?;
        }
        unless_short(self.make_slabs(slots, puts))
    }

    /// Slabs for this many places: each chain has only full slabs before its last one.
    fn make_slabs(&mut self, slots: u64, tiles: u64) -> Result<()> {
        let needed = slots / self.pairs_each() + tiles.min(MOST_UNDER_WAY) + 1;
        self.slabs.grow(needed.min(self.slabs.most_units()) as u32)
    }

    /// After a batch: more buckets if chains have become long, or the same number without tombstones.
    fn tidy(&mut self) -> Result<()> {
        let (live, dead) = self.table.counts()?;
        let bits = self.options.bits_for(live + dead);
        if bits > self.table.bits {
            let bits = self.options.bits_for(live);
            if bits > self.table.bits {
                return unless_short(self.rebuild(bits));
            }
        }
        // All places are in chains as long as they should be, or about half of them are tombstones.
        let many = (self.table.buckets() * self.pairs_each()).max(live) / 2;
        if dead > many || (bits > self.table.bits && dead > 0) { self.flush() } else { Ok(()) }
    }

    fn rebuild(&mut self, bits: u32) -> Result<()> {
        let (live, _) = self.table.counts()?;
        let table = Buckets::new(&self.device, bits, self.options.slab_bytes)?;
        // Both tables have their slabs for a moment.
        let taken = self.slabs.in_use()? * self.pairs_each();
        self.make_slabs(taken + live, self.table.buckets())?;
        let (failed, stream) = (self.device.allocate_zeroed(8)?, self.device.stream()?);
        let from = self.reference();
        let step = Move { from, to: self.reference_of(&table), failed: failed.ptr() };
        let kernel = match (self.unique, self.is_small()) {
            (true, true) => &self.kernels.move_8,
            (true, false) => &self.kernels.move_16,
            (false, true) => &self.kernels.move_multi_8,
            (false, false) => &self.kernels.move_multi_16,
        };
        // SAFETY: both tables and the pool stay until the stream is synchronised.
        unsafe { kernel.launch(self.tiles(&self.table), &step, &stream)? };
        stream.synchronize()?;
        if failed.to_vec::<u64>()?[0] > 0 {
            self.release_chains(&table)?;
            let bytes = |slabs: u64| slabs * u64::from(self.options.slab_bytes);
            let (asked, reserved) = (bytes(self.slabs.capacity() + 1), bytes(self.slabs.most_units()));
            return Err(DeviceError::OutOfAddresses { asked, reserved });
        }
        self.release_chains(&self.table)?;
        self.table = table;
        Ok(())
    }

    fn release_chains(&self, table: &Buckets) -> Result<()> {
        let kernel = if self.is_small() { &self.kernels.release_8 } else { &self.kernels.release_16 };
        self.visit(kernel, Grid::covering(table.buckets(), THREADS), table)
    }

    /// Runs a kernel for all buckets of a table.
    fn visit(&self, kernel: &TypedKernel<SlabTableRef>, grid: Grid, table: &Buckets) -> Result<()> {
        let stream = self.device.stream()?;
        // SAFETY: the table and the pool stay until the stream is synchronised.
        unsafe { kernel.launch(grid, &self.reference_of(table), &stream)? };
        stream.synchronize()
    }

    fn run(
        &self,
        kernel: &TypedKernel<Requests>,
        requests: impl ExactSizeIterator<Item = RawRequest>,
        gathered: Option<&Buffer>,
    ) -> Result<Vec<SlabAnswer>> {
        let count = requests.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        let device = &self.device;
        let mut workspace = self.workspaces.take(device)?;
        let Workspace { columns, stream, .. } = &mut workspace;
        let ops = columns.ops.host::<u32>(device, count)?;
        let keys = columns.keys.host::<u32>(device, count)?;
        let values = columns.values.host::<u32>(device, count)?;
        for (((op, key), value), request) in ops.iter_mut().zip(keys).zip(values).zip(requests) {
            [*op, *key, *value] = request;
        }
        // SAFETY: the stream is synchronised before the columns are used again, and before the workspace is put back.
        unsafe {
            let batch = Requests {
                table: self.reference(),
                ops: columns.ops.send::<u32>(device, count, stream)?,
                keys: columns.keys.send::<u32>(device, count, stream)?,
                values: columns.values.send::<u32>(device, count, stream)?,
                answers: columns.answers.reserve(device, 8 * count)?,
                count: count as u64,
                gathered: gathered.map_or(DevicePtr::NULL, Buffer::ptr),
                room: gathered.map_or(0, |column| column.len() as u64 / 4),
            };
            workspace.launch(kernel, count as u64, THREADS, &batch)?;
            workspace.columns.answers.fetch::<u64>(device, count, &workspace.stream)?;
        }
        workspace.stream.synchronize()?;
        let answers =
            workspace.columns.answers.fetched(count).iter().map(|word| SlabAnswer::of(*word)).collect();
        self.workspaces.put_back(workspace);
        Ok(answers)
    }
}

/// Goes on if memory is short: chains are longer then, or requests are answered with [`SlabAnswer::Full`].
fn unless_short(done: Result<()>) -> Result<()> {
    match done {
        Err(error) if error.is_out_of_memory() || matches!(error, DeviceError::OutOfAddresses { .. }) => {
            Ok(())
        }
        other => other,
    }
}
