//! The simulator itself.

use std::ffi::c_void;

use super::error::SimError;
use super::log::{RegionId, StoreRecord, TraceEvent};
use super::machine::Machine;
use super::mode::Mode;

/// As much shared memory as a block can have, of both kinds together.
const SHARED_BYTES: u32 = 227 * 1024;
/// As many threads as a block can have.
const THREADS: u32 = 1024;
/// As many bytes as a kernel takes.
const PARAMS_BYTES: usize = 4096;

/// How many lanes a kernel is launched with.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks of the grid.
    pub blocks: u32,
    /// Threads of a block; whole warps of 32, if the kernel has collectives of a whole warp.
    pub threads: u32,
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
}

impl Grid {
    /// Blocks of `threads` threads, enough for `count` of them in all, and one at least.
    pub fn covering(count: u64, threads: u32) -> Self {
        let blocks = count.div_ceil(u64::from(threads.max(1))).clamp(1, u64::from(u32::MAX >> 1));
        Self { blocks: blocks as u32, threads, shared_bytes: 0 }
    }
}

/// What memory is, to the simulator.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Memory {
    /// A buffer of the device.
    Device = 0,
    /// Host memory that the device can reach.
    Host = 1,
    /// Host memory that outlives a crash: stores to it are logged.
    Image = 2,
}

/// What registered memory holds at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Contents {
    /// Something: it may be read.
    Written,
    /// Nothing yet: reading it is a mistake until it was written. For [`Memory::Device`] alone.
    Unwritten,
}

/// What came of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunReport {
    /// Operations on memory that all lanes did; a rough number in fast mode.
    pub steps: u64,
    /// How often one lane made way for another.
    pub switches: u64,
    /// In seeded mode, a digest of every step: equal runs have equal ones. Else 0.
    pub digest: u64,
    /// In seeded mode, the steps of all launches so far: the clock of crashes and logs.
    pub now: u64,
    /// Whether the power went during it.
    pub crashed: bool,
    /// Threads that worked on it.
    pub workers: u32,
}

/// A simulated GPU. It runs one launch at a time; any number of simulators can be used side by side.
#[derive(Debug)]
pub struct Simulator {
    machine: Machine,
    mode: Mode,
}

impl Simulator {
    /// A simulator with no memory registered.
    ///
    /// # Errors
    /// [`SimError::Unavailable`] if the crate was built where there was no C++ compiler.
    pub fn new(mode: Mode) -> Result<Self, SimError> {
        Ok(Self { machine: Machine::new(&mode)?, mode })
    }

    /// How it runs kernels.
    pub fn mode(&self) -> &Mode {
        &self.mode
    }

    /// Runs a kernel and waits for it. If another launch is running, it waits for that first.
    ///
    /// # Errors
    /// [`SimError::Kernel`] if the kernel did what it must not do; memory is then as it was left, and the simulator can be
    /// used again. A crash that was asked for is no error: see [`RunReport::crashed`].
    ///
    /// # Safety
    /// `entry` was made by `WK_KERNEL`, `params` is the struct it takes, and whatever is reached through it, like everything that
    /// is registered and not unregistered, is memory that lives through the call and that no other code uses meanwhile.
    pub unsafe fn launch(
        &self,
        kernel_name: &str,
        entry: unsafe extern "C" fn(*const c_void),
        grid: Grid,
        params: &[u8],
    ) -> Result<RunReport, SimError> {
        let Grid { blocks, threads, shared_bytes } = grid;
        let kernel = kernel_name;
        if blocks == 0
            || blocks > u32::MAX >> 1
            || threads == 0
            || threads > THREADS
            || shared_bytes > SHARED_BYTES
        {
            return Err(SimError::BadGrid { kernel: kernel.to_owned(), blocks, threads, shared_bytes });
        }
        if params.len() > PARAMS_BYTES {
            return Err(SimError::ParamsTooLarge { kernel: kernel.to_owned(), bytes: params.len() });
        }
        // SAFETY: the caller's promise.
        unsafe { self.machine.launch(kernel, entry, grid, params) }
    }

    /// Tells it of memory that kernels may touch. Where accesses are checked, all others are errors.
    ///
    /// # Errors
    /// [`SimError::BadRegion`] if it is empty or overlaps what is registered.
    pub fn register(
        &self,
        address: u64,
        bytes: u64,
        kind: Memory,
        contents: Contents,
    ) -> Result<RegionId, SimError> {
        self.machine
            .add_region(address, bytes, kind, contents == Contents::Written)
            .ok_or(SimError::BadRegion { address, bytes })
    }

    /// Tells it that the memory that begins there is gone. Accesses are errors from now on.
    ///
    /// # Errors
    /// [`SimError::NotRegistered`] if none begins there.
    pub fn unregister(&self, address: u64) -> Result<(), SimError> {
        if self.machine.remove_region(address) { Ok(()) } else { Err(SimError::NotRegistered { address }) }
    }

    /// Tells it that the host has written these bytes: kernels may read them.
    ///
    /// # Errors
    /// [`SimError::NotRegistered`] if they do not lie in one registered range.
    pub fn note_written(&self, address: u64, bytes: u64) -> Result<(), SimError> {
        if bytes == 0 || self.machine.note_written(address, bytes) {
            Ok(())
        } else {
            Err(SimError::NotRegistered { address })
        }
    }

    /// In seeded mode, the power goes when this many steps of all launches are done; `None` for not at all. After a crash,
    /// say `None` before launching what recovers.
    pub fn crash_at(&self, step: Option<u64>) {
        self.machine.set_crash(step);
    }

    /// The stores to image memory since the last call, in the order in which each byte got them. Only in seeded mode.
    pub fn take_store_log(&self) -> Vec<StoreRecord> {
        self.machine.take_log()
    }

    /// The steps since the last call, if the mode keeps them.
    pub fn take_trace(&self) -> Vec<TraceEvent> {
        self.machine.take_trace()
    }
}
