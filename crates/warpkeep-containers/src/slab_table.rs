//! A hash table of chains of slabs, with unique keys or not: the host's side of `warpkeep/slab_hash.h`.

use bytemuck::NoUninit;
use warpkeep_device::{
    Buffer, Device, DeviceError, DevicePtr, Grid, KernelSet as _, Program, Result, StagedBuffer, TypedKernel,
    Workspace, WorkspacePool,
};

use crate::slab_request::{COUNTED, GATHER, INSERTED, RawRequest, is_put};
use crate::{SlabAlloc, SlabAllocOptions, SlabAllocRef, SlabAnswer};

const THREADS: u32 = 128;
/// Two bits of a pair say what it is: those that the number of the bucket saves.
const LEAST_BITS: u32 = 2;
const MOST_BITS: u32 = 30;
/// Counters are spread over lines, as those of a [`SlabAlloc`].
const COUNTER_LINES: usize = 32;
const COUNTER_WORDS: usize = 16;
/// Slabs that tiles which lose a link may hold for a moment: as many as a large GPU has tiles under way.
const MOST_UNDER_WAY: u64 = 1 << 16;

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
struct KeyMixer {
    seed: u32,
    multiplier: u32,
    inverse: u32,
}

impl KeyMixer {
    fn new(seed: u64) -> Self {
        // Splitmix64: neighbouring seeds give unlike numbers.
        let mixed =
            (seed ^ (seed >> 30)).wrapping_add(0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let multiplier = (mixed >> 32) as u32 | 1;
        // Newton's method: each step doubles the number of right bits, of which an odd number has three.
        let inverse = (0..4).fold(multiplier, |inverse: u32, _| {
            inverse.wrapping_mul(2_u32.wrapping_sub(multiplier.wrapping_mul(inverse)))
        });
        Self { seed: mixed as u32, multiplier, inverse }
    }
}

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

/// How a [`SlabMap`](crate::SlabMap), [`SlabSet`](crate::SlabSet) or [`SlabMultiMap`](crate::SlabMultiMap) is laid out, and how large it may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabHashOptions {
    /// Pairs that there is room for at first.
    pub capacity: u64,
    /// Bytes of a slab: 64 for 7 pairs, or 128 for 15.
    pub slab_bytes: u32,
    /// Slabs behind the first ones of all buckets, at most.
    pub most_slabs: u32,
    /// Buckets, at most: a power of two.
    pub most_buckets: u32,
    /// What keys are mixed with. Who chooses keys should not know it.
    pub seed: u64,
}

impl Default for SlabHashOptions {
    fn default() -> Self {
        Self { capacity: 0, slab_bytes: 64, most_slabs: 1 << 28, most_buckets: 1 << MOST_BITS, seed: 0 }
    }
}

/// What is in a [`SlabMap`](crate::SlabMap), [`SlabSet`](crate::SlabSet) or [`SlabMultiMap`](crate::SlabMultiMap).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlabHashStats {
    /// Pairs.
    pub len: u64,
    /// Places of deleted pairs, which a flush frees. Unless keys may have several values, their keys take them again, too.
    pub tombstones: u64,
    /// Buckets.
    pub buckets: u64,
    /// Slabs behind the first ones of the buckets.
    pub chained_slabs: u64,
    /// Bytes of pairs in proportion to the bytes of all slabs.
    pub utilisation: f64,
    /// Bytes of device memory.
    pub bytes: u64,
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
        let bits = bits_for(options.capacity, &options);
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
        // SAFETY: there is room for so many pairs; buffers and table stay until the stream is synchronised.
        unsafe { kernel.launch(self.tiles(&self.table), &list, &stream)? };
        stream.synchronize()?;
        Ok(pairs.to_vec::<[u64; 2]>()?.into_iter().map(|[key, value]| (key as u32, value as u32)).collect())
    }

    /// Makes room for so many pairs in all.
    pub(crate) fn reserve(&mut self, pairs: u64) -> Result<()> {
        let bits = bits_for(pairs, &self.options);
        if bits > self.table.bits {
            self.rebuild(bits)?;
        }
        Ok(())
    }

    /// Builds all chains anew, without tombstones, and gives slabs back.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.rebuild(self.table.bits)
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

    /// Before a batch that may store so many pairs: slabs for them, and buckets, if far too few are there. What cannot be had is missed
    /// by those requests only that need it.
    fn make_room(&mut self, puts: u64) -> Result<()> {
        let (live, dead) = self.table.counts()?;
        let slots = live + dead + puts;
        if bits_for(slots, &self.options) > self.table.bits + 1 {
            unless_short(self.rebuild(bits_for(live + puts, &self.options)))?;
        }
        unless_short(self.make_slabs(slots, puts))
    }

    /// Slabs for so many places: each chain has only full slabs before its last one.
    fn make_slabs(&mut self, slots: u64, tiles: u64) -> Result<()> {
        let needed = slots / self.pairs_each() + tiles.min(MOST_UNDER_WAY) + 1;
        self.slabs.grow(needed.min(self.slabs.most_units()) as u32)
    }

    /// After a batch: more buckets if chains have become long, or the same number without tombstones.
    fn tidy(&mut self) -> Result<()> {
        let (live, dead) = self.table.counts()?;
        let bits = bits_for(live + dead, &self.options);
        if bits > self.table.bits {
            unless_short(self.rebuild(bits_for(live, &self.options).max(self.table.bits)))?;
        } else if dead > self.table.buckets() * self.pairs_each() / 2 {
            unless_short(self.rebuild(self.table.bits))?;
        }
        Ok(())
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
        let stream = self.device.stream()?;
        let kernel = if self.is_small() { &self.kernels.release_8 } else { &self.kernels.release_16 };
        let grid = Grid::covering(table.buckets(), THREADS);
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

/// The buckets for so many places, as a power of two: at most 0.9 slabs each.
fn bits_for(slots: u64, options: &SlabHashOptions) -> u32 {
    let each = u64::from(options.slab_bytes / 8 - 1);
    let buckets = (slots * 10).div_ceil(9 * each).max(1);
    let most = options.most_buckets.max(1).ilog2().clamp(LEAST_BITS, MOST_BITS);
    buckets.next_power_of_two().ilog2().clamp(LEAST_BITS, most)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// `wk::KeyMixer::mix`.
    fn mix(mixer: KeyMixer, key: u32) -> u32 {
        let x = key ^ mixer.seed;
        let x = (x ^ (x >> 16)).wrapping_mul(mixer.multiplier);
        let x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
        x ^ (x >> 16)
    }

    #[test]
    fn multipliers_come_with_their_inverse() {
        for seed in 0..1000 {
            let mixer = KeyMixer::new(seed);
            assert_eq!(mixer.multiplier.wrapping_mul(mixer.inverse), 1);
        }
    }

    #[test]
    fn keys_chosen_against_one_seed_are_spread_by_another() {
        let (known, other) = (KeyMixer::new(1), KeyMixer::new(2));
        let chosen: Vec<u32> = (0..1 << 18).filter(|key| mix(known, *key) % 256 == 7).collect();
        let mut buckets = [0; 256];
        for key in &chosen {
            buckets[(mix(other, *key) % 256) as usize] += 1;
        }
        let most = buckets.iter().max().copied().unwrap_or(0);
        assert!(chosen.len() > 900 && most < 20, "{} keys, {most} in one bucket", chosen.len());
    }

    #[test]
    fn buckets_are_a_power_of_two_with_nine_tenths_of_a_slab_each() {
        let options = SlabHashOptions { most_buckets: 1 << 20, ..SlabHashOptions::default() };
        assert_eq!([0, 25, 26, 50, 51].map(|slots| bits_for(slots, &options)), [2, 2, 3, 3, 4]);
        assert_eq!(bits_for(u64::from(u32::MAX), &options), 20);
        assert_eq!(bits_for(100, &SlabHashOptions { slab_bytes: 128, ..options }), 3);
    }
}
