//! Memory that kernels read and write by rows, each word of which holds its own position.
#![allow(unsafe_code, reason = "kernels are launched, and a mapped file is registered and looked at")]

use std::fmt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use warpkeep_device::{
    Buffer, Device, DevicePtr, Event, Grid, KernelSet as _, RegisterOptions, Registered, Stream, TypedKernel,
};
use warpkeep_image::{Backing, MapOptions, MappedFile};

use crate::BenchError;
use crate::kernels::{AccessParams, LimitKernels, SUMS};

/// Threads of a block, and blocks for each multiprocessor: enough to hide how far memory is.
const THREADS: u32 = 256;
const BLOCKS: u32 = 16;
/// Accesses whose sum is checked, and rows that are checked after writes.
const CHECKED_READS: u64 = 1 << 18;
const CHECKED_WRITES: u64 = 64;
/// Bytes of the rows that are written, and of those that multiprocessors use in their own share.
const WRITTEN: u32 = 128;
/// Bytes of the words that are compared and swapped.
const SWAPPED: u32 = 8;

/// The access to rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Rows of this many bytes, anywhere.
    RandomRead(u32),
    /// Rows of 128 bytes, each multiprocessor anywhere in its own share of the memory.
    OwnRead,
    /// Rows of this many bytes in the order of their addresses, from one end of the memory to the other.
    OrderedRead(u32),
    /// Rows of 128 bytes, anywhere.
    RandomWrite,
    /// The same, each multiprocessor in its own share of the memory.
    OwnWrite,
    /// Rows of 128 bytes in the order of their addresses.
    OrderedWrite,
    /// Compare-and-swap of words of eight bytes, anywhere. It leaves the words as they are.
    RandomSwap,
}

impl Access {
    pub(crate) fn bytes(self) -> u32 {
        match self {
            Access::RandomRead(bytes) | Access::OrderedRead(bytes) => bytes,
            Access::RandomSwap => SWAPPED,
            Access::OwnRead | Access::RandomWrite | Access::OwnWrite | Access::OrderedWrite => WRITTEN,
        }
    }

    fn kernel(self, kernels: &LimitKernels) -> Result<&TypedKernel<AccessParams>, BenchError> {
        match self {
            Access::RandomRead(8) | Access::OrderedRead(8) => Ok(&kernels.read_8),
            Access::RandomRead(16) | Access::OrderedRead(16) => Ok(&kernels.read_16),
            Access::RandomRead(32) | Access::OrderedRead(32) => Ok(&kernels.read_32),
            Access::RandomRead(64) | Access::OrderedRead(64) => Ok(&kernels.read_64),
            Access::RandomRead(128) | Access::OrderedRead(128) => Ok(&kernels.read_128),
            Access::RandomRead(bytes) | Access::OrderedRead(bytes) => Err(BenchError::Invalid(format!(
                "rows of {bytes} bytes cannot be read; choose 8, 16, 32, 64 or 128"
            ))),
            Access::RandomSwap => Ok(&kernels.swap_8),
            Access::OwnRead => Ok(&kernels.read_own_128),
            Access::OwnWrite => Ok(&kernels.write_own_128),
            Access::RandomWrite | Access::OrderedWrite => Ok(&kernels.write_128),
        }
    }

    pub(crate) fn writes(self) -> bool {
        matches!(self, Access::RandomWrite | Access::OwnWrite | Access::OrderedWrite)
    }

    fn is_own(self) -> bool {
        matches!(self, Access::OwnRead | Access::OwnWrite)
    }

    pub(crate) fn is_ordered(self) -> bool {
        matches!(self, Access::OrderedRead(_) | Access::OrderedWrite)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = if self.is_ordered() { "ordered" } else { "random" };
        let what = match self {
            Access::RandomSwap => "compare-and-swap",
            _ if self.writes() => "writes",
            _ => "reads",
        };
        write!(f, "{order} {what} of {} bytes", self.bytes())?;
        if self.is_own() {
            write!(f, ", each multiprocessor in its own share")?;
        }
        Ok(())
    }
}

/// Where the rows lie.
enum Memory {
    Device(Buffer),
    // In this order: registered memory must stay mapped.
    Host { registered: Registered, file: Box<MappedFile> },
}

/// Rows in device memory, or in host memory that the device reaches over its link.
pub(crate) struct Rows {
    memory: Memory,
    bytes: u64,
    sums: Buffer,
    /// Blocks that have run on each multiprocessor.
    came: Buffer,
    kernels: LimitKernels,
    stream: Stream,
    between: (Event, Event),
    grid: Grid,
}

impl Rows {
    /// `bytes` bytes of device memory.
    pub(crate) fn in_device(device: &Device, bytes: u64) -> Result<Rows, BenchError> {
        let bytes = bytes.next_multiple_of(u64::from(WRITTEN));
        let memory = Memory::Device(device.allocate(bytes as usize)?);
        Rows::over(device, memory, bytes)
    }

    /// `bytes` bytes of a file like an image's, registered with the device; it is removed when this is dropped.
    pub(crate) fn over_link(device: &Device, path: &Path, bytes: u64) -> Result<Rows, BenchError> {
        let bytes = bytes.next_multiple_of(2 << 20);
        let file = MappedFile::create(path, bytes, &MapOptions::default())?;
        let at = NonNull::new(file.base()).expect("a file is mapped somewhere");
        // SAFETY: the file stays mapped until the registration, which is dropped before it, is gone; it is read by
        // words, atomically, and never through references.
        let registered = unsafe { device.register(at, bytes as usize, RegisterOptions::HOST)? };
        Rows::over(device, Memory::Host { registered, file: Box::new(file) }, bytes)
    }

    fn over(device: &Device, memory: Memory, bytes: u64) -> Result<Rows, BenchError> {
        let homes = device.info().abilities.multiprocessors.max(1);
        let rows = Rows {
            memory,
            bytes,
            sums: device.allocate_zeroed(8 * SUMS)?,
            came: device.allocate_zeroed(4 * homes as usize)?,
            kernels: LimitKernels::load(device)?,
            stream: device.stream()?,
            between: (device.event()?, device.event()?),
            grid: Grid { blocks: homes * BLOCKS, threads: THREADS, shared_bytes: 0 },
        };
        // Every word gets its own position.
        rows.launch(Access::OrderedWrite, &rows.params(Access::OrderedWrite, u64::MAX, 0, 0))?;
        Ok(rows)
    }

    fn at(&self) -> DevicePtr {
        match &self.memory {
            Memory::Device(buffer) => buffer.ptr(),
            Memory::Host { registered, .. } => registered.ptr(),
        }
    }

    /// The number of bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn params(&self, access: Access, count: u64, seed: u64, salt: u64) -> AccessParams {
        let rows = self.bytes / u64::from(access.bytes());
        let count = if access.is_ordered() { count.min(rows) } else { count };
        let stride = if access.is_ordered() { rows / count.max(1) } else { 0 };
        let homes = if access.is_own() { u64::from(self.grid.blocks / BLOCKS) } else { 0 };
        let (sums, came) = (self.sums.ptr(), self.came.ptr());
        AccessParams { words: self.at(), rows, count, seed, stride, salt, sums, homes, came }
    }

    /// Makes `count` accesses, and returns how long the device took for each.
    pub(crate) fn run(&self, access: Access, count: u64, seed: u64) -> Result<f64, BenchError> {
        // Writes of another round are recognised by their salt, and leave words that reads do not expect: reads
        // come first.
        let salt = if access.writes() { (seed + 1) << 40 } else { 0 };
        let params = self.params(access, count, seed, salt);
        let took = self.launch(access, &params)?;
        if access.writes() {
            self.check_writes(access, &params)?;
        }
        Ok(params.count as f64 / took.as_secs_f64())
    }

    /// Checks that reads return the stored words; before anything is written.
    pub(crate) fn check_reads(&self, access: Access, count: u64) -> Result<(), BenchError> {
        let params = self.params(access, count.min(CHECKED_READS), 7, 0);
        self.sums.fill(0)?;
        self.launch(access, &params)?;
        let sum = self.sums.to_vec::<u64>()?.into_iter().fold(0, u64::wrapping_add);
        let words = u64::from(access.bytes()) / 8;
        let of_row = |row: u64| (row * words).wrapping_mul(words).wrapping_add(words * (words - 1) / 2);
        let expected = match access {
            // It counts the words that were as expected.
            Access::RandomSwap => params.count,
            _ => (0..params.count).map(|number| of_row(params.row_of(number))).fold(0, u64::wrapping_add),
        };
        if sum != expected {
            return Err(BenchError::Wrong(format!("{access} added up to {sum}, and not to {expected}")));
        }
        Ok(())
    }

    fn check_writes(&self, access: Access, params: &AccessParams) -> Result<(), BenchError> {
        let words = u64::from(access.bytes()) / 8;
        for number in (0..params.count).step_by((params.count / CHECKED_WRITES).max(1) as usize) {
            let first = params.row_of(number) * words;
            let row = self.row(first, words as usize)?;
            if (0..).zip(&row).any(|(word, found)| *found != first + word + params.salt) {
                return Err(BenchError::Wrong(format!("{access}: row {first} has {row:x?}")));
            }
        }
        Ok(())
    }

    fn row(&self, first: u64, words: usize) -> Result<Vec<u64>, BenchError> {
        let mut row = vec![0_u64; words];
        match &self.memory {
            Memory::Device(buffer) => buffer.read(8 * first as usize, &mut row)?,
            Memory::Host { file, .. } => {
                assert!(8 * (first + words as u64) <= file.len(), "the row lies in the file");
                for (place, word) in (first as usize..).zip(&mut row) {
                    // SAFETY: within the mapping, as just checked, aligned, and read as kernels write it: by words.
                    let there = unsafe { AtomicU64::from_ptr(file.base().add(8 * place).cast()) };
                    *word = there.load(Ordering::Acquire);
                }
            }
        }
        Ok(row)
    }

    fn launch(&self, access: Access, params: &AccessParams) -> Result<Duration, BenchError> {
        let kernel = access.kernel(&self.kernels)?;
        self.came.fill(0)?;
        self.between.0.record(&self.stream)?;
        // SAFETY: the rows and the sums are as long as the parameters say, and stay until the stream is synchronised.
        unsafe { kernel.launch(self.grid, params, &self.stream)? };
        self.between.1.record(&self.stream)?;
        self.stream.synchronize()?;
        Ok(self.between.1.elapsed_since(&self.between.0)?)
    }
}
