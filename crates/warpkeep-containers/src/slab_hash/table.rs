//! A hash table of chains of slabs in device memory: the host's side of `warpkeep/slab_hash.h`.

use std::sync::atomic::{AtomicBool, Ordering};

use bytemuck::NoUninit;
use warpkeep_device::{
    Buffer, Device, DeviceError, DevicePtr, Grid, Program, Result, Stream, TypedKernel, WorkspacePool,
};

use super::build::BuildScratch;
use super::cell::{Cell, CellValue};
use super::kernels::{Kernels, List, Move, THREADS};
use super::mixer::KeyMixer;
use super::run::Staged;
use crate::{SlabAlloc, SlabAllocOptions, SlabAllocRef, SlabHashOptions, SlabHashStats, Sorter};

/// Counters are spread over lines, as those of a [`SlabAlloc`].
pub(super) const COUNTER_LINES: usize = 32;
const COUNTER_WORDS: usize = 16;
pub(super) type CounterLine = [u64; COUNTER_WORDS];
/// Slabs that tiles which lose a link may hold for a moment: as many as a large GPU has tiles under way.
const MOST_UNDER_WAY: u64 = 1 << 16;
/// While a table with chains grows, each chain is read by 2^3 tiles at most.
const MOST_MORE_BITS: u32 = 3;

/// A table for the parameters of kernels: `wk::SlabTableRef` of `warpkeep/slab_hash.h`. Of use until the map grows, is flushed or dropped.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub struct SlabTableRef {
    first: DevicePtr,
    slabs: SlabAllocRef,
    counters: DevicePtr,
    mixer: KeyMixer,
    bits: u32,
    reserved: u32,
}

impl SlabTableRef {
    /// The same with another number of buckets, for what depends on that number alone.
    pub(super) fn with_bits(self, bits: u32) -> Self {
        Self { bits, ..self }
    }
}

/// What the cells of a table hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts {
    pub(super) live: u64,
    /// Tombstones.
    pub(super) dead: u64,
}

impl Counts {
    pub(super) fn of(lines: &[CounterLine]) -> Self {
        // A cell is often deleted by another warp than stored it, so that only the sum is meaningful.
        let sum = |word: usize| lines.iter().fold(0_u64, |sum, line| sum.wrapping_add(line[word]));
        Self { live: sum(0), dead: sum(1) }
    }
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
}

/// The table that maps, sets and multimaps are made of.
#[derive(Debug)]
pub(super) struct SlabTable {
    pub(super) device: Device,
    pub(super) cell: Cell,
    pub(super) unique: bool,
    pub(super) kernels: Kernels,
    pub(super) options: SlabHashOptions,
    mixer: KeyMixer,
    table: Buckets,
    pub(super) slabs: SlabAlloc,
    /// Made by the first bulk build.
    pub(super) sorter: Option<Sorter>,
    pub(super) scratch: BuildScratch,
    pub(super) workspaces: WorkspacePool<Staged>,
    /// What the table holds after its last batch, if that is known.
    pub(super) counts: Option<Counts>,
    /// Whether the caller has got a reference: kernels that this table knows nothing of may change it then.
    is_lent: AtomicBool,
}

impl SlabTable {
    pub(super) fn programs(cell: Cell, unique: bool) -> Vec<Program> {
        let mut programs = Kernels::programs(cell, unique);
        programs.push(SlabAlloc::program());
        programs
    }

    /// An empty table; the options have a size of slabs.
    pub(super) fn new(device: &Device, options: SlabHashOptions, cell: Cell, unique: bool) -> Result<Self> {
        cell.check_arch(device.info().abilities.arch)?;
        let pool = SlabAllocOptions { initial_units: 1, most_units: options.most_slabs };
        let bits = options.bits_for(options.capacity, cell);
        Ok(Self {
            device: device.clone(),
            cell,
            unique,
            kernels: Kernels::load(device, cell, unique, options.slab_bytes)?,
            options,
            mixer: KeyMixer::seeded(options.seed),
            table: Buckets::new(device, bits, options.slab_bytes)?,
            slabs: SlabAlloc::new(device, options.slab_bytes, pool)?,
            sorter: None,
            scratch: BuildScratch::default(),
            workspaces: WorkspacePool::default(),
            counts: None,
            is_lent: AtomicBool::new(false),
        })
    }

    pub(super) fn len(&self) -> Result<u64> {
        Ok(self.read_counts()?.live)
    }

    pub(super) fn bits(&self) -> u32 {
        self.table.bits
    }

    pub(super) fn stats(&self) -> Result<SlabHashStats> {
        let (counts, slabs) = (self.read_counts()?, self.slabs.stats()?);
        let stats = SlabHashStats {
            len: counts.live,
            tombstones: counts.dead,
            buckets: self.table.buckets(),
            chained_slabs: slabs.in_use,
            utilisation: 0.0,
            bytes: (self.table.first.len() + self.table.counters.len()) as u64 + slabs.bytes,
        };
        Ok(stats.with_utilisation(self.cell, self.options.slab_bytes))
    }

    /// What the table holds now.
    pub(super) fn read_counts(&self) -> Result<Counts> {
        Ok(Counts::of(&self.table.counters.to_vec::<CounterLine>()?))
    }

    /// What the table holds, if no kernel can have changed it since that was read.
    pub(super) fn known_counts(&self) -> Option<Counts> {
        self.counts.filter(|_| !self.is_lent())
    }

    /// Whether kernels of the caller may use the table.
    pub(super) fn is_lent(&self) -> bool {
        self.is_lent.load(Ordering::Relaxed)
    }

    pub(super) fn counters(&self) -> &Buffer {
        &self.table.counters
    }

    /// The table for kernels of the caller.
    pub(super) fn lend(&self) -> SlabTableRef {
        self.is_lent.store(true, Ordering::Relaxed);
        self.reference()
    }

    pub(super) fn reference(&self) -> SlabTableRef {
        self.reference_of(&self.table)
    }

    fn reference_of(&self, table: &Buckets) -> SlabTableRef {
        SlabTableRef {
            first: table.first.ptr(),
            slabs: self.slabs.reference(),
            counters: table.counters.ptr(),
            mixer: self.mixer,
            bits: table.bits,
            reserved: 0,
        }
    }

    /// Lists all keys and their values, in no order, but the values of a key in theirs; gives how many there are.
    ///
    /// # Safety
    /// Both pointers, or that of the keys if the other is null, have room for this many elements, and no other code uses it meanwhile.
    pub(super) unsafe fn list_on(
        &self,
        keys: DevicePtr,
        values: DevicePtr,
        room: u64,
        stream: &Stream,
    ) -> Result<u64> {
        let mut workspace = self.workspaces.take(&self.device)?;
        let next = workspace.columns.counter(&self.device, stream)?;
        let list = List { table: self.reference(), keys, values, next, room };
        // SAFETY: the caller's promise; the counter and the table stay until the stream is synchronised.
        unsafe { self.kernels.list.launch(self.tiles(&self.table), &list, stream)? };
        let listed = workspace.columns.counted(stream)?;
        self.workspaces.put_back(workspace);
        Ok(listed)
    }

    /// All keys and their values, as [`list_on`](Self::list_on) lists them.
    pub(super) fn pairs<K: bytemuck::Pod, V: CellValue>(&self) -> Result<(Vec<K>, Vec<V>)> {
        let room = self.len()?;
        let keys = self.device.allocate(size_of::<K>() * room as usize)?;
        let values = self.device.allocate(size_of::<V>() * room as usize)?;
        let to = if size_of::<V>() > 0 { values.ptr() } else { DevicePtr::NULL };
        // SAFETY: there is room for this many.
        unsafe { self.list_on(keys.ptr(), to, room, &self.device.stream()?)? };
        let values = match size_of::<V>() {
            0 => vec![V::default(); room as usize],
            _ => values.to_vec::<V>()?,
        };
        Ok((keys.to_vec::<K>()?, values))
    }

    /// Makes room for this many cells in all.
    pub(super) fn reserve(&mut self, cells: u64) -> Result<()> {
        let bits = self.options.bits_for(cells, self.cell);
        if bits > self.table.bits {
            self.with_all_memory(|table| table.rebuild(bits))?;
        }
        Ok(())
    }

    /// Takes a step that needs memory; where that is short, once more without what builds have kept.
    fn with_all_memory(&mut self, step: impl Fn(&mut Self) -> Result<()>) -> Result<()> {
        match step(self) {
            Err(error) if error.is_out_of_memory() && self.free_scratch() => step(self),
            other => other,
        }
    }

    /// Packs the cells of all chains, without tombstones, and gives slabs back. Needs no memory.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.counts = None;
        self.visit(&self.kernels.flush, self.tiles(&self.table), &self.table)
    }

    /// Removes all cells. Buckets stay.
    pub(super) fn clear(&mut self) -> Result<()> {
        self.counts = None;
        self.release_chains(&self.table)?;
        self.table.first.fill(0)?;
        self.table.counters.fill(0)
    }

    /// Cells of a slab.
    fn cells_each(&self) -> u64 {
        self.options.cells_each(self.cell)
    }

    /// A tile for each bucket.
    pub(super) fn all_tiles(&self) -> Grid {
        self.tiles(&self.table)
    }

    fn tiles(&self, table: &Buckets) -> Grid {
        Grid::covering(table.buckets() * u64::from(self.options.slab_bytes / self.cell.bytes()), THREADS)
    }

    /// Whether a batch that may store this many cells leaves the table as it is.
    pub(super) fn has_room(&self, counts: Counts, puts: u64) -> bool {
        let slots = counts.live + counts.dead + puts;
        self.options.bits_for(slots, self.cell) <= self.table.bits + 1
            && self.slabs_for(slots, puts) <= self.slabs.capacity()
    }

    /// Before a batch that may store this many cells: slabs for them, and buckets, if far too few are there. What cannot be had is missed
    /// by those requests only that need it.
    pub(super) fn make_room(&mut self, counts: Counts, puts: u64) -> Result<()> {
        let slots = counts.live + counts.dead + puts;
        if self.options.bits_for(slots, self.cell) > self.table.bits + 1 {
            let bits = self.options.bits_for(counts.live + puts, self.cell).max(self.table.bits);
            unless_short(self.with_all_memory(|table| table.rebuild(bits)))?;
        }
        unless_short(self.with_all_memory(|table| table.make_slabs(slots, puts)))
    }

    /// Slabs for this many cells: each chain has only full slabs before its last one.
    fn slabs_for(&self, slots: u64, tiles: u64) -> u64 {
        (slots / self.cells_each() + tiles.min(MOST_UNDER_WAY) + 1).min(self.slabs.most_units())
    }

    pub(super) fn make_slabs(&mut self, slots: u64, tiles: u64) -> Result<()> {
        self.slabs.grow(self.slabs_for(slots, tiles) as u32)
    }

    /// After a batch: more buckets if chains have become long, or the same number without tombstones.
    pub(super) fn tidy(&mut self, counts: Counts) -> Result<()> {
        let Counts { live, dead } = counts;
        let bits = self.options.bits_for(live + dead, self.cell);
        if bits > self.table.bits {
            let bits = self.options.bits_for(live, self.cell);
            if bits > self.table.bits {
                return unless_short(self.with_all_memory(|table| table.rebuild(bits)));
            }
        }
        // All places are in chains as long as they should be, or about half of them are tombstones.
        let many = (self.table.buckets() * self.cells_each()).max(live) / 2;
        if dead > many || (bits > self.table.bits && dead > 0) { self.flush() } else { Ok(()) }
    }

    /// The same without cells, and more buckets.
    pub(super) fn replace_empty(&mut self, bits: u32) -> Result<()> {
        self.table = Buckets::new(&self.device, bits, self.options.slab_bytes)?;
        Ok(())
    }

    /// More buckets, each of which is filled from the one chain that has its keys.
    pub(super) fn rebuild(&mut self, bits: u32) -> Result<()> {
        while self.table.bits < bits {
            // A chain is read by the tiles of all buckets that it is divided among.
            let step =
                if self.slabs.in_use()? == 0 { bits } else { bits.min(self.table.bits + MOST_MORE_BITS) };
            self.rebuild_once(step)?;
        }
        Ok(())
    }

    fn rebuild_once(&mut self, bits: u32) -> Result<()> {
        self.counts = None;
        let live = self.read_counts()?.live;
        let table = Buckets::new(&self.device, bits, self.options.slab_bytes)?;
        // Both tables have their slabs for a moment.
        let taken = self.slabs.in_use()? * self.cells_each();
        self.make_slabs(taken + live, 0)?;
        let (failed, stream) = (self.device.allocate_zeroed(8)?, self.device.stream()?);
        let from = self.reference();
        let step = Move { from, to: self.reference_of(&table), failed: failed.ptr() };
        // SAFETY: both tables and the pool stay until the stream is synchronised.
        unsafe { self.kernels.rebuild.launch(self.tiles(&table), &step, &stream)? };
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
        self.visit(&self.kernels.release, Grid::covering(table.buckets(), THREADS), table)
    }

    /// Runs a kernel for all buckets of a table.
    fn visit(&self, kernel: &TypedKernel<SlabTableRef>, grid: Grid, table: &Buckets) -> Result<()> {
        let stream = self.device.stream()?;
        // SAFETY: the table and the pool stay until the stream is synchronised.
        unsafe { kernel.launch(grid, &self.reference_of(table), &stream)? };
        stream.synchronize()
    }
}

/// A shortage of memory is not the end: chains can be longer.
pub(super) fn unless_short(result: Result<()>) -> Result<()> {
    match result {
        Err(error) if error.is_out_of_memory() => Ok(()),
        Err(DeviceError::OutOfAddresses { .. }) => Ok(()),
        other => other,
    }
}
