//! A hash table of chains of slabs in device memory: the host's side of `warpkeep/slab_hash.h`.

use bytemuck::{NoUninit, checked};
use warpkeep_device::{
    Buffer, Device, DeviceError, DevicePtr, Event, Grid, Program, Result, StagedBuffer, Stream, TypedKernel,
    Workspace, WorkspacePool,
};

use super::batch::Columns;
use super::cell::{Cell, SlabValue};
use super::kernels::{Codes, Kernels, List, Move, Requests, THREADS};
use super::mixer::KeyMixer;
use super::request::{RawRequest, SlabAnswer, SlabOpKind, SlabStatus};
use crate::{SlabAlloc, SlabAllocOptions, SlabAllocRef, SlabHashOptions, SlabHashStats, Sorter};

/// Counters are spread over lines, as those of a [`SlabAlloc`].
const COUNTER_LINES: usize = 32;
const COUNTER_WORDS: usize = 16;
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

/// Columns of a batch of slices.
#[derive(Debug, Default)]
pub(super) struct Staged {
    codes: StagedBuffer,
    keys: StagedBuffer,
    values: StagedBuffer,
    statuses: StagedBuffer,
    found: StagedBuffer,
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

    /// Live cells and tombstones.
    fn counts(&self) -> Result<(u64, u64)> {
        let lines = self.counters.to_vec::<[u64; COUNTER_WORDS]>()?;
        let sum = |word: usize| lines.iter().fold(0_u64, |sum, line| sum.wrapping_add(line[word]));
        Ok((sum(0), sum(1)))
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
    slabs: SlabAlloc,
    /// Made by the first bulk build.
    pub(super) sorter: Option<Sorter>,
    workspaces: WorkspacePool<Staged>,
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
            mixer: KeyMixer::new(options.seed),
            table: Buckets::new(device, bits, options.slab_bytes)?,
            slabs: SlabAlloc::new(device, options.slab_bytes, pool)?,
            sorter: None,
            workspaces: WorkspacePool::default(),
        })
    }

    pub(super) fn len(&self) -> Result<u64> {
        Ok(self.table.counts()?.0)
    }

    pub(super) fn bits(&self) -> u32 {
        self.table.bits
    }

    pub(super) fn stats(&self) -> Result<SlabHashStats> {
        let (len, tombstones) = self.table.counts()?;
        let slabs = self.slabs.stats()?;
        let stats = SlabHashStats {
            len,
            tombstones,
            buckets: self.table.buckets(),
            chained_slabs: slabs.in_use,
            utilisation: 0.0,
            bytes: (self.table.first.len() + self.table.counters.len()) as u64 + slabs.bytes,
        };
        Ok(stats.with_utilisation(self.cell, self.options.slab_bytes))
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

    /// Runs requests, some of which may change the table, at the same time; gives the answer to each.
    pub(super) fn apply<K: bytemuck::Pod, V: SlabValue>(
        &mut self,
        requests: impl ExactSizeIterator<Item = RawRequest<K, V>> + Clone,
    ) -> Result<Vec<SlabAnswer<V>>> {
        let puts = requests.clone().filter(RawRequest::is_put).count() as u64;
        if puts > 0 {
            self.make_room(puts)?;
        }
        let answers = self.run(&self.kernels.apply, requests, None)?;
        if answers.iter().any(|answer| answer.may_tell_of_a_change()) {
            self.tidy()?;
        }
        Ok(answers)
    }

    /// Runs requests that change nothing; values are gathered in the column, if there is one.
    pub(super) fn read<K: bytemuck::Pod, V: SlabValue>(
        &self,
        requests: impl ExactSizeIterator<Item = RawRequest<K, V>>,
        gathered: Option<&Buffer>,
    ) -> Result<Vec<SlabAnswer<V>>> {
        self.run(&self.kernels.read, requests, gathered)
    }

    /// Runs a batch in device memory after what is in the stream, and waits for it.
    ///
    /// # Safety
    /// The columns are as long as the batch says, and no other code uses them meanwhile.
    pub(super) unsafe fn apply_on(&mut self, columns: &Columns, stream: &Stream) -> Result<()> {
        let kind = |code: u8| checked::try_cast::<u8, SlabOpKind>(code).ok();
        let is_read = columns.codes.is_null() && kind(columns.code).is_none_or(SlabOpKind::is_read);
        if is_read {
            // SAFETY: the caller's promise; the event is waited for.
            return unsafe { self.enqueue_read(columns, None, stream)?.synchronize() };
        }
        let puts = match (columns.codes.is_null(), kind(columns.code)) {
            (true, Some(kind)) if kind.is_put() => columns.count as u64,
            (true, _) => 0,
            // SAFETY: the caller's promise.
            (false, _) => unsafe { self.count_puts(columns, stream)? },
        };
        if puts > 0 {
            // Kernels of the caller may still be using the table, which moves if it grows.
            stream.synchronize()?;
            self.make_room(puts)?;
        }
        // SAFETY: the caller's promise.
        unsafe { self.launch(&self.kernels.apply, columns, None, stream)? };
        stream.synchronize()?;
        self.tidy()
    }

    /// Starts a batch that changes nothing; gives the event of its end.
    ///
    /// # Safety
    /// As [`apply_on`](Self::apply_on), and until the event the table is neither changed nor dropped.
    pub(super) unsafe fn enqueue_read(
        &self,
        columns: &Columns,
        gathered: Option<&Buffer>,
        stream: &Stream,
    ) -> Result<Event> {
        // SAFETY: the caller's promise.
        unsafe { self.launch(&self.kernels.read, columns, gathered, stream)? };
        stream.record()
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
        let next = self.device.allocate_zeroed(8)?;
        let list = List { table: self.reference(), keys, values, next: next.ptr(), room };
        // SAFETY: the caller's promise; the counter and the table stay until the stream is synchronised.
        unsafe { self.kernels.list.launch(self.tiles(&self.table), &list, stream)? };
        let mut listed = [0_u64];
        next.read_on(0, &mut listed, stream)?;
        Ok(listed[0])
    }

    /// All keys and their values, as [`list_on`](Self::list_on) lists them.
    pub(super) fn pairs<K: bytemuck::Pod, V: SlabValue>(&self) -> Result<(Vec<K>, Vec<V>)> {
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
            self.rebuild(bits)?;
        }
        Ok(())
    }

    /// Packs the cells of all chains, without tombstones, and gives slabs back. Needs no memory.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.visit(&self.kernels.flush, self.tiles(&self.table), &self.table)
    }

    /// Removes all cells. Buckets stay.
    pub(super) fn clear(&mut self) -> Result<()> {
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

    /// Before a batch that may store this many cells: slabs for them, and buckets, if far too few are there. What cannot be had is missed
    /// by those requests only that need it.
    fn make_room(&mut self, puts: u64) -> Result<()> {
        let (live, dead) = self.table.counts()?;
        let slots = live + dead + puts;
        if self.options.bits_for(slots, self.cell) > self.table.bits + 1 {
            let bits = self.options.bits_for(live + puts, self.cell).max(self.table.bits);
            unless_short(self.rebuild(bits))?;
        }
        unless_short(self.make_slabs(slots, puts))
    }

    /// Slabs for this many cells: each chain has only full slabs before its last one.
    pub(super) fn make_slabs(&mut self, slots: u64, tiles: u64) -> Result<()> {
        let needed = slots / self.cells_each() + tiles.min(MOST_UNDER_WAY) + 1;
        self.slabs.grow(needed.min(self.slabs.most_units()) as u32)
    }

    /// After a batch: more buckets if chains have become long, or the same number without tombstones.
    fn tidy(&mut self) -> Result<()> {
        let (live, dead) = self.table.counts()?;
        let bits = self.options.bits_for(live + dead, self.cell);
        if bits > self.table.bits {
            let bits = self.options.bits_for(live, self.cell);
            if bits > self.table.bits {
                return unless_short(self.rebuild(bits));
            }
        }
        // All places are in chains as long as they should be, or about half of them are tombstones.
        let many = (self.table.buckets() * self.cells_each()).max(live) / 2;
        if dead > many || (bits > self.table.bits && dead > 0) { self.flush() } else { Ok(()) }
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
        let (live, _) = self.table.counts()?;
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

    /// How many requests of a batch may store something.
    ///
    /// # Safety
    /// As [`apply_on`](Self::apply_on).
    unsafe fn count_puts(&self, columns: &Columns, stream: &Stream) -> Result<u64> {
        let puts = self.device.allocate_zeroed(8)?;
        let params = Codes { codes: columns.codes, count: columns.count as u64, puts: puts.ptr() };
        // SAFETY: the caller's promise; the counter stays until it is read.
        unsafe { self.kernels.count_puts.launch(Grid::covering(params.count, THREADS), &params, stream)? };
        let mut counted = [0_u64];
        puts.read_on(0, &mut counted, stream)?;
        Ok(counted[0])
    }

    /// # Safety
    /// The columns are as long as the batch says, and no other code uses them, nor changes the table, until the stream is synchronised.
    unsafe fn launch(
        &self,
        kernel: &TypedKernel<Requests>,
        columns: &Columns,
        gathered: Option<&Buffer>,
        stream: &Stream,
    ) -> Result<()> {
        if columns.count == 0 {
            return Ok(());
        }
        let element = self.cell.value_bytes().max(1);
        let requests = Requests {
            table: self.reference(),
            codes: columns.codes,
            keys: columns.keys,
            values: columns.values,
            statuses: columns.statuses,
            found: columns.found,
            count: columns.count as u64,
            gathered: gathered.map_or(DevicePtr::NULL, Buffer::ptr),
            room: gathered.map_or(0, |column| (column.len() / element) as u64),
            code: columns.code.into(),
            reserved: 0,
        };
        // SAFETY: the caller's promise.
        unsafe { kernel.launch(Grid::covering(requests.count, THREADS), &requests, stream) }
    }

    fn run<K: bytemuck::Pod, V: SlabValue>(
        &self,
        kernel: &TypedKernel<Requests>,
        requests: impl ExactSizeIterator<Item = RawRequest<K, V>>,
        gathered: Option<&Buffer>,
    ) -> Result<Vec<SlabAnswer<V>>> {
        let (device, count, has_values) = (&self.device, requests.len(), size_of::<V>() > 0);
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut workspace = self.workspaces.take(device)?;
        let Workspace { columns, stream, .. } = &mut workspace;
        let codes = columns.codes.host::<u8>(device, count)?;
        let keys = columns.keys.host::<K>(device, count)?;
        let values = if has_values { columns.values.host::<V>(device, count)? } else { &mut [] };
        for (at, request) in requests.enumerate() {
            (codes[at], keys[at]) = (request.code, request.key);
            if let Some(value) = values.get_mut(at) {
                *value = request.value;
            }
        }
        // All memory is there before the first change.
        columns.statuses.host::<u8>(device, count)?;
        if has_values {
            columns.found.host::<V>(device, count)?;
        }
        // SAFETY: the stream is synchronised before the columns are used again, and before the workspace is put back.
        unsafe {
            let batch = Columns {
                codes: columns.codes.send::<u8>(device, count, stream)?,
                code: 0,
                keys: columns.keys.send::<K>(device, count, stream)?,
                values: match has_values {
                    true => columns.values.send::<V>(device, count, stream)?,
                    false => DevicePtr::NULL,
                },
                statuses: columns.statuses.reserve(device, count)?,
                found: match has_values {
                    true => columns.found.reserve(device, size_of::<V>() * count)?,
                    false => DevicePtr::NULL,
                },
                count,
            };
            self.launch(kernel, &batch, gathered, stream)?;
            columns.statuses.fetch::<u8>(device, count, stream)?;
            if has_values {
                columns.found.fetch::<V>(device, count, stream)?;
            }
        }
        stream.synchronize()?;
        let statuses: &[SlabStatus] = checked::cast_slice(columns.statuses.fetched::<u8>(count));
        let found = if has_values { columns.found.fetched::<V>(count) } else { &[] };
        let answer = |(at, status): (usize, &SlabStatus)| {
            SlabAnswer::of(*status, found.get(at).copied().unwrap_or_default())
        };
        let answers = statuses.iter().enumerate().map(answer).collect();
        self.workspaces.put_back(workspace);
        Ok(answers)
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
