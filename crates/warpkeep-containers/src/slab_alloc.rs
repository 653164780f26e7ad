//! Units of one size that kernels claim and give back: the host's side of `warpkeep/slab_alloc.h`.

use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::NoUninit;
use warpkeep_device::{
    Buffer, Device, DeviceError, DevicePtr, Event, Grid, GrowingBuffer, KernelSet as _, Program, Result,
    StagedBuffer, Stream, TypedKernel, Workspace, WorkspacePool,
};

const THREADS: u32 = 128;
/// Units of a block, and children of every node above.
const BLOCK: u32 = 1024;
/// Bytes of a node's bitmap.
const NODE_BYTES: usize = BLOCK as usize / 8;
const LEVELS: usize = 3;
const COUNTER_LINES: usize = 32;
const COUNTER_WORDS: usize = 16;
/// What kernels hand out when there is no unit left.
const NO_UNIT: u32 = u32::MAX;
/// One block less than 2^32 units: the last handle means that there is none.
const MOST_UNITS: u32 = u32::MAX - (BLOCK - 1);
const UNIT_SIZES: [u32; 5] = [32, 64, 128, 256, 512];

/// A pool for the parameters of kernels: `wk::SlabAllocRef` of `warpkeep/slab_alloc.h`. Of use until the pool grows or is dropped.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub struct SlabAllocRef {
    units: DevicePtr,
    levels: [DevicePtr; LEVELS],
    counters: DevicePtr,
    blocks: u32,
    unit_bytes: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
struct Params {
    pool: SlabAllocRef,
    handles: DevicePtr,
    count: u64,
    refused: DevicePtr,
    run: u32,
    rounds: u32,
}

warpkeep_device::kernel_set! {
    struct SlabAllocKernels in "slab_alloc.cu", prefix "slab_alloc_" {
        allocate: Params,
        release: Params,
        exchange: Params,
        self_test: Params,
    }
    agree {
        block = BLOCK,
        levels = LEVELS,
        counter_lines = COUNTER_LINES,
        counter_words = COUNTER_WORDS,
        no_unit = NO_UNIT,
        reference = size_of::<SlabAllocRef>(),
    }
}

/// Columns of a batch.
#[derive(Debug, Default)]
struct Columns {
    handles: StagedBuffer,
    refused: StagedBuffer,
}

/// How large a [`SlabAlloc`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabAllocOptions {
    /// Units that there are at first; rounded up to whole blocks of 1024.
    pub initial_units: u32,
    /// Units up to which it can grow: addresses are reserved for this many, which takes no memory.
    pub most_units: u32,
}

impl Default for SlabAllocOptions {
    fn default() -> Self {
        Self { initial_units: 1 << 16, most_units: 1 << 28 }
    }
}

/// What is in a [`SlabAlloc`], exact while no kernel uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabAllocStats {
    /// Units that there are.
    pub capacity: u64,
    /// Units that are taken.
    pub in_use: u64,
    /// Units that were asked for when there was none.
    pub failed: u64,
    /// Handles that were given back and refused: no unit has that number, or it was free.
    pub refused: u64,
    /// Bytes of device memory.
    pub bytes: u64,
}

/// What the bitmaps of a [`SlabAlloc`] say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlabAllocContents {
    /// The handles of the units that are taken, in ascending order.
    pub taken: Vec<u32>,
    /// Free units that kernels do not find. There are none.
    pub hidden: u64,
}

/// Units of 32, 64, 128, 256 or 512 bytes in device memory, which kernels claim and give back.
///
/// A unit is known by a handle of 32 bits; its address is the base of the pool plus handle times size, before and after growth. Kernels
/// include `warpkeep/slab_alloc.h` and get [`reference`](SlabAlloc::reference) among their parameters. Out of memory is an answer:
/// kernels get `wk::kNoUnit`, and a batch is shorter than what was asked for.
///
/// ```
/// use warpkeep_containers::{SlabAlloc, SlabAllocOptions};
/// use warpkeep_device::{Device, DeviceChoice};
///
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// let device = Device::open(DeviceChoice::Sim)?;
/// let options = SlabAllocOptions { initial_units: 1024, most_units: 1 << 20 };
/// let mut slabs = SlabAlloc::new(&device, 128, options)?;
/// let handles = slabs.allocate(1500)?;
/// assert_eq!(handles.len(), 1024, "that is all there is");
/// slabs.grow(2048)?;
/// assert_eq!(slabs.allocate(476)?.len(), 476);
/// assert_eq!(slabs.release(&handles)?, 0, "nothing was refused");
/// assert_eq!(slabs.in_use()?, 476);
/// # Ok::<(), warpkeep_device::DeviceError>(())
/// ```
#[derive(Debug)]
pub struct SlabAlloc {
    device: Device,
    kernels: SlabAllocKernels,
    unit_bytes: u32,
    blocks: u32,
    most_blocks: u32,
    units: GrowingBuffer,
    bitmaps: GrowingBuffer,
    /// Levels 1 and 2. They are so small that they are there for the largest size from the beginning.
    summaries: [Buffer; LEVELS - 1],
    counters: Buffer,
    /// Units that the host asked for beyond what there are, for which no kernel was needed.
    beyond: AtomicU64,
    workspaces: WorkspacePool<Columns>,
}

impl SlabAlloc {
    /// The program that its kernels are in.
    pub fn program() -> Program {
        SlabAllocKernels::program()
    }

    /// A pool in which nothing is taken.
    ///
    /// # Errors
    /// If the unit has another size than 32, 64, 128, 256 or 512 bytes, if more than 2^32 - 1024 units are asked for, or if there is no
    /// memory for the first ones.
    pub fn new(device: &Device, unit_bytes: u32, options: SlabAllocOptions) -> Result<Self> {
        if !UNIT_SIZES.contains(&unit_bytes) {
            return Err(DeviceError::Call {
                call: "SlabAlloc::new",
                code: "unit size".to_owned(),
                text: format!("units of {unit_bytes} bytes"),
                advice: "ask for units of 32, 64, 128, 256 or 512 bytes, or for runs of them",
            });
        }
        let most_units = options.most_units.max(options.initial_units);
        check_units(most_units, MOST_UNITS, unit_bytes)?;
        let most_blocks = most_units.div_ceil(BLOCK).max(1);
        let supers = most_blocks.div_ceil(BLOCK);
        // What does not exist counts as taken.
        let all_taken = |nodes: u32| -> Result<Buffer> {
            let level = device.allocate(nodes as usize * NODE_BYTES)?;
            level.fill(0xff)?;
            Ok(level)
        };
        let mut pool = Self {
            device: device.clone(),
            kernels: SlabAllocKernels::load(device)?,
            unit_bytes,
            blocks: 0,
            most_blocks,
            units: device.reserve(most_blocks as usize * BLOCK as usize * unit_bytes as usize)?,
            bitmaps: device.reserve(most_blocks as usize * NODE_BYTES)?,
            summaries: [all_taken(supers)?, all_taken(supers.div_ceil(BLOCK))?],
            counters: device.allocate_zeroed(COUNTER_LINES * COUNTER_WORDS * 8)?,
            beyond: AtomicU64::new(0),
            workspaces: WorkspacePool::default(),
        };
        // A pool has a block at least, so that every warp has one to begin with.
        pool.grow(options.initial_units.max(1))?;
        Ok(pool)
    }

    /// Makes the pool at least `units` units large. Handles, addresses and contents stay; no kernel may be using the pool meanwhile, and
    /// later ones get a new [`reference`](Self::reference). If there is no memory for it, the pool stays as it was.
    ///
    /// # Errors
    /// [`DeviceError::OutOfAddresses`] if it is more than the options said, or an error for which
    /// [`is_out_of_memory`](DeviceError::is_out_of_memory) holds.
    pub fn grow(&mut self, units: u32) -> Result<()> {
        // The reserved addresses can be more: they are whole pages.
        check_units(units, self.most_blocks * BLOCK, self.unit_bytes)?;
        let blocks = units.div_ceil(BLOCK);
        if blocks <= self.blocks {
            return Ok(());
        }
        self.bitmaps.grow_zeroed(blocks as usize * NODE_BYTES)?;
        self.units.grow(blocks as usize * BLOCK as usize * self.unit_bytes as usize)?;
        clear_bits(&self.summaries[0], self.blocks, blocks)?;
        // Those of a super block that was there before may have been closed, because all of its blocks were full.
        clear_bits(&self.summaries[1], self.blocks / BLOCK, blocks.div_ceil(BLOCK))?;
        self.blocks = blocks;
        Ok(())
    }

    /// Units that there are.
    pub fn capacity(&self) -> u64 {
        u64::from(self.blocks) * u64::from(BLOCK)
    }

    /// Units up to which it can grow.
    pub fn most_units(&self) -> u64 {
        u64::from(self.most_blocks) * u64::from(BLOCK)
    }

    /// Bytes of a unit.
    pub fn unit_bytes(&self) -> u32 {
        self.unit_bytes
    }

    /// Units that are taken. Exact while no kernel uses the pool.
    pub fn in_use(&self) -> Result<u64> {
        Ok(self.stats()?.in_use)
    }

    /// What is in the pool. Exact while no kernel uses it.
    pub fn stats(&self) -> Result<SlabAllocStats> {
        let counters = self.counters.to_vec::<[u64; COUNTER_WORDS]>()?;
        // Units are often given back by another warp than claimed them, so that only the sum is meaningful.
        let sum = |word: usize| counters.iter().fold(0_u64, |sum, line| sum.wrapping_add(line[word]));
        let summaries = self.summaries.iter().map(Buffer::len).sum::<usize>();
        let bytes = self.units.backed() + self.bitmaps.backed() + summaries + self.counters.len();
        Ok(SlabAllocStats {
            capacity: self.capacity(),
            in_use: sum(0),
            failed: sum(1).saturating_add(self.beyond.load(Ordering::Relaxed)),
            refused: sum(2),
            bytes: bytes as u64,
        })
    }

    /// The memory of the units: the one with handle `h` begins at byte `h * unit_bytes`.
    pub fn memory(&self) -> &Buffer {
        &self.units
    }

    /// The pool for the parameters of a kernel of one's own.
    pub fn reference(&self) -> SlabAllocRef {
        SlabAllocRef {
            units: self.units.ptr(),
            levels: [self.bitmaps.ptr(), self.summaries[0].ptr(), self.summaries[1].ptr()],
            counters: self.counters.ptr(),
            blocks: self.blocks,
            unit_bytes: self.unit_bytes,
        }
    }

    /// Claims `count` units whose contents are unspecified; fewer, if there are fewer.
    pub fn allocate(&self, count: usize) -> Result<Vec<u32>> {
        self.claim(count, 1, false)
    }

    /// As [`allocate`](Self::allocate), and the units are all zeros.
    pub fn allocate_zeroed(&self, count: usize) -> Result<Vec<u32>> {
        self.claim(count, 1, true)
    }

    /// As [`allocate`](Self::allocate), for runs of 1, 2, 4, 8, 16 or 32 units that lie side by side: gives the handle of the first of
    /// each, a multiple of the length.
    pub fn allocate_runs(&self, count: usize, length: u32) -> Result<Vec<u32>> {
        check_run(length)?;
        self.claim(count, length, false)
    }

    fn claim(&self, count: usize, run: u32, zeroed: bool) -> Result<Vec<u32>> {
        let count = self.possible(count, self.capacity() / u64::from(run), run);
        let mut workspace = self.workspaces.take(&self.device)?;
        let handles = workspace.columns.handles.reserve(&self.device, 4 * count)?;
        let params = Params {
            pool: self.reference(),
            handles,
            count: count as u64,
            refused: DevicePtr::NULL,
            run,
            rounds: zeroed.into(),
        };
        self.launch(&self.kernels.allocate, &workspace, &params)?;
        let mut claimed = workspace.columns.handles.take::<u32>(count, &workspace.stream)?;
        self.workspaces.put_back(workspace);
        claimed.retain(|handle| *handle != NO_UNIT);
        Ok(claimed)
    }

    /// How many of these claims to run: no column is as long as all of them may be. Those beyond `most`, which cannot succeed, are counted here.
    fn possible(&self, claims: usize, most: u64, run: u32) -> usize {
        let possible = claims.min(usize::try_from(most).unwrap_or(usize::MAX));
        let beyond = ((claims - possible) as u64).saturating_mul(run.into());
        let add = |sum: u64| Some(sum.saturating_add(beyond));
        let _ = self.beyond.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        possible
    }

    /// Gives units back; returns how many were refused, because no unit has that handle or it was free already. A handle that was given
    /// back and handed out again meanwhile cannot be told from a good one.
    pub fn release(&self, handles: &[u32]) -> Result<u64> {
        self.release_runs(handles, 1)
    }

    /// As [`release`](Self::release), for runs of this length. A run of which a unit is free is refused as a whole.
    pub fn release_runs(&self, handles: &[u32], length: u32) -> Result<u64> {
        check_run(length)?;
        self.counted(&self.kernels.release, handles, handles.len(), length, 0)
    }

    /// Claims a unit for each of the first `count` places of a column in device memory, after what is in the stream, and waits for it; gives
    /// how many were claimed. A place for which there was no unit has 2^32 - 1, `wk::kNoUnit`.
    ///
    /// # Errors
    /// If the column is too short or of another device, before anything is claimed.
    pub fn allocate_on(&self, handles: &mut Buffer, count: usize, stream: &Stream) -> Result<u64> {
        check_column(handles, 4, count, "handles", stream)?;
        let missing = self.counted_on(&self.kernels.allocate, handles, count, stream)?;
        Ok(count as u64 - missing)
    }

    /// Gives the units of the first `count` handles of a column in device memory back, after what is in the stream, and waits for it; returns
    /// how many were refused, as [`release`](Self::release) does.
    ///
    /// # Errors
    /// If the column is too short or of another device, before anything is given back.
    pub fn release_on(&self, handles: &Buffer, count: usize, stream: &Stream) -> Result<u64> {
        check_column(handles, 4, count, "handles", stream)?;
        self.counted_on(&self.kernels.release, handles, count, stream)
    }

    /// As [`allocate_on`](Self::allocate_on), and does not wait: gives the event of its end.
    ///
    /// # Errors
    /// As [`allocate_on`](Self::allocate_on).
    ///
    /// # Safety
    /// Until the event is reached, no other code uses the column, and the pool neither grows nor is dropped.
    pub unsafe fn enqueue_allocate(
        &self,
        handles: &mut Buffer,
        count: usize,
        stream: &Stream,
    ) -> Result<Event> {
        check_column(handles, 4, count, "handles", stream)?;
        // SAFETY: the column is long enough; the rest is this function's contract.
        unsafe { self.start(&self.kernels.allocate, handles, count, DevicePtr::NULL, stream)? };
        stream.record()
    }

    /// As [`release_on`](Self::release_on), and does not wait: gives the event of its end. What is refused is counted in the
    /// [`stats`](Self::stats).
    ///
    /// # Errors
    /// As [`release_on`](Self::release_on).
    ///
    /// # Safety
    /// Until the event is reached, no other code changes the column, and the pool neither grows nor is dropped.
    pub unsafe fn enqueue_release(&self, handles: &Buffer, count: usize, stream: &Stream) -> Result<Event> {
        check_column(handles, 4, count, "handles", stream)?;
        // SAFETY: the column is long enough; the rest is this function's contract.
        unsafe { self.start(&self.kernels.release, handles, count, DevicePtr::NULL, stream)? };
        stream.record()
    }

    /// Runs a kernel on a column of the caller; gives what it counted.
    fn counted_on(
        &self,
        kernel: &TypedKernel<Params>,
        handles: &Buffer,
        count: usize,
        stream: &Stream,
    ) -> Result<u64> {
        let mut workspace = self.workspaces.take(&self.device)?;
        let refused = workspace.columns.refused.zeros(&self.device, 8, stream)?;
        // SAFETY: the column is long enough, and borrowed like the pool until the stream has been waited for.
        unsafe { self.start(kernel, handles, count, refused, stream)? };
        let counted = workspace.columns.refused.take::<u64>(1, stream)?[0];
        self.workspaces.put_back(workspace);
        Ok(counted)
    }

    /// # Safety
    /// The column has `count` handles; it, the counter and the pool stay until the kernel is done, and no other code uses the column meanwhile.
    unsafe fn start(
        &self,
        kernel: &TypedKernel<Params>,
        handles: &Buffer,
        count: usize,
        refused: DevicePtr,
        stream: &Stream,
    ) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let params = Params {
            pool: self.reference(),
            handles: handles.ptr(),
            count: count as u64,
            refused,
            run: 1,
            rounds: 0,
        };
        // SAFETY: the caller's promise.
        unsafe { kernel.launch(Grid::covering(params.count, THREADS), &params, stream) }
    }

    /// Gives units back and claims `claims` others in one launch; a unit given back may be among them. Returns the claimed ones, fewer if
    /// there were fewer, and the handles that were refused.
    pub fn exchange(&self, handles: &[u32], claims: usize) -> Result<(Vec<u32>, Vec<u32>)> {
        // A unit is claimed once, and once more each time that it is given back.
        let claims = self.possible(claims, self.capacity() + handles.len() as u64, 1);
        // Claims are spread among the others, so that both run at the same time. No unit has the last handle.
        let count = handles.len() + claims;
        let mut given = handles.iter().map(|handle| (*handle).min(NO_UNIT - 1));
        let mut due = 0;
        let mut next = || {
            due += handles.len();
            let gives = due >= count;
            due -= if gives { count } else { 0 };
            if gives { given.next().unwrap_or(NO_UNIT) } else { NO_UNIT }
        };
        let sent: Vec<u32> = (0..count).map(|_| next()).collect();
        let mut workspace = self.workspaces.take(&self.device)?;
        let Workspace { columns, stream, .. } = &mut workspace;
        let column = columns.handles.put(&self.device, &sent, stream)?;
        let params = Params {
            pool: self.reference(),
            handles: column,
            count: count as u64,
            refused: DevicePtr::NULL,
            run: 1,
            rounds: 0,
        };
        self.launch(&self.kernels.exchange, &workspace, &params)?;
        let answers = workspace.columns.handles.take::<u32>(count, &workspace.stream)?;
        self.workspaces.put_back(workspace);
        let (mut claimed, mut refused) = (Vec::new(), Vec::new());
        for (sent, answer) in sent.into_iter().zip(answers).filter(|(_, answer)| *answer != NO_UNIT) {
            if sent == NO_UNIT { &mut claimed } else { &mut refused }.push(answer);
        }
        Ok((claimed, refused))
    }

    /// Lets `threads` threads claim units, write to them, look whether another thread did, and give them back, this many times; returns the
    /// number of mistakes, which is 0. What it claimed is free afterwards. For tests, and to see how fast a GPU does it.
    pub fn self_test(&self, threads: usize, rounds: u32) -> Result<u64> {
        self.counted(&self.kernels.self_test, &[], threads, 1, rounds)
    }

    /// Runs a kernel that counts something.
    fn counted(
        &self,
        kernel: &TypedKernel<Params>,
        handles: &[u32],
        count: usize,
        run: u32,
        rounds: u32,
    ) -> Result<u64> {
        let mut workspace = self.workspaces.take(&self.device)?;
        let Workspace { columns, stream, .. } = &mut workspace;
        let column = columns.handles.put(&self.device, handles, stream)?;
        let refused = columns.refused.zeros(&self.device, 8, stream)?;
        let params =
            Params { pool: self.reference(), handles: column, count: count as u64, refused, run, rounds };
        self.launch(kernel, &workspace, &params)?;
        let counted = workspace.columns.refused.take::<u64>(1, &workspace.stream)?[0];
        self.workspaces.put_back(workspace);
        Ok(counted)
    }

    /// Reads all bitmaps: which units are taken, and whether a free one is hidden. For tests and reports; no kernel may be using the pool.
    pub fn inspect(&self) -> Result<SlabAllocContents> {
        let bits = |buffer: &Buffer, count: u32| -> Result<Vec<bool>> {
            let mut words = vec![0_u32; count.div_ceil(32) as usize];
            buffer.read(0, &mut words)?;
            Ok((0..count).map(|bit| words[(bit / 32) as usize] >> (bit % 32) & 1 == 1).collect())
        };
        let taken = bits(&self.bitmaps, self.blocks * BLOCK)?;
        let closed = bits(&self.summaries[0], self.blocks)?;
        let closed_above = bits(&self.summaries[1], self.blocks.div_ceil(BLOCK))?;
        let is_hidden = |unit: usize| {
            let block = unit / BLOCK as usize;
            closed[block] || closed_above[block / BLOCK as usize]
        };
        let free = taken.iter().enumerate().filter(|(_, taken)| !**taken);
        let hidden = free.filter(|(unit, _)| is_hidden(*unit)).count() as u64;
        let handles = taken.iter().zip(0_u32..).filter(|(taken, _)| **taken).map(|(_, handle)| handle);
        Ok(SlabAllocContents { taken: handles.collect(), hidden })
    }

    fn launch(
        &self,
        kernel: &TypedKernel<Params>,
        workspace: &Workspace<Columns>,
        params: &Params,
    ) -> Result<()> {
        if params.count == 0 {
            return Ok(());
        }
        // SAFETY: the column has this many handles, and with the pool it stays until the caller has read from the stream, which
        // waits for the kernel.
        unsafe { workspace.launch(kernel, params.count, THREADS, params) }
    }
}

/// Clears the bits `from..to` of a level.
fn clear_bits(level: &Buffer, from: u32, to: u32) -> Result<()> {
    let (first, end) = (from / 32, to.div_ceil(32));
    let mut words = vec![0_u32; (end - first) as usize];
    level.read(4 * first as usize, &mut words)?;
    for bit in from..to {
        words[(bit / 32 - first) as usize] &= !(1 << (bit % 32));
    }
    level.write(4 * first as usize, &words)
}

/// An error unless a column is of the stream's device and has `count` elements of this many bytes.
pub(crate) fn check_column(
    column: &Buffer,
    element: usize,
    count: usize,
    what: &'static str,
    stream: &Stream,
) -> Result<()> {
    // A fill of nothing compares the devices, and does nothing else.
    match column.fill_on(0, 0, 0, stream) {
        Err(DeviceError::OtherDevice { theirs, ours, .. }) => {
            return Err(DeviceError::OtherDevice { what, theirs: ours, ours: theirs });
        }
        compared => compared?,
    }
    let (len, size) = ((element as u64).saturating_mul(count as u64), column.len() as u64);
    match len <= size {
        true => Ok(()),
        false => Err(DeviceError::OutOfBounds { what, offset: 0, len, size }),
    }
}

fn check_run(length: u32) -> Result<()> {
    match length {
        1 | 2 | 4 | 8 | 16 | 32 => Ok(()),
        _ => Err(DeviceError::Call {
            call: "SlabAlloc",
            code: "run length".to_owned(),
            text: format!("runs of {length} units"),
            advice: "ask for runs of 1, 2, 4, 8, 16 or 32 units, or for larger units",
        }),
    }
}

fn check_units(units: u32, most: u32, unit_bytes: u32) -> Result<()> {
    let bytes = |units: u32| u64::from(units) * u64::from(unit_bytes);
    match units <= most {
        true => Ok(()),
        false => Err(DeviceError::OutOfAddresses { asked: bytes(units), reserved: bytes(most) }),
    }
}
