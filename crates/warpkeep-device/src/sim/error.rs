//! What can go wrong in the simulator.

use std::fmt;

/// What the simulator could not do, or what a kernel did wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The crate was built without the feature `simulator`, or where there is no C++ compiler.
    #[error("this build has no simulator: {}", why_unavailable())]
    Unavailable,
    /// A grid that no GPU would take.
    #[error(
        "kernel {kernel} cannot be launched with {blocks} blocks of {threads} threads and {shared_bytes} bytes of shared \
             memory: use at least 1 block, 1 to 1024 threads and at most 232448 bytes"
    )]
    BadGrid {
        /// The kernel's name.
        kernel: String,
        /// Blocks asked for.
        blocks: u32,
        /// Threads of a block asked for.
        threads: u32,
        /// Dynamic shared memory asked for.
        shared_bytes: u32,
    },
    /// More parameters than a kernel can take.
    #[error(
        "kernel {kernel} was given {bytes} bytes of parameters: pass at most 4096, and the rest through memory"
    )]
    ParamsTooLarge {
        /// The kernel's name.
        kernel: String,
        /// Bytes given.
        bytes: usize,
    },
    /// Memory that cannot be registered.
    #[error(
        "{bytes} bytes at {address:#x} cannot be registered: they are empty or overlap memory that is; unregister that first"
    )]
    BadRegion {
        /// Where it begins.
        address: u64,
        /// Its length.
        bytes: u64,
    },
    /// Memory that is not registered.
    #[error(
        "no memory that is registered begins at or holds {address:#x}: register it first, and unregister it by its beginning"
    )]
    NotRegistered {
        /// The address given.
        address: u64,
    },
    /// The host gave no more memory or threads.
    #[error("the simulator ran out of memory in kernel {kernel}: launch fewer or smaller blocks")]
    OutOfMemory {
        /// The kernel's name; empty if none was running.
        kernel: String,
    },
    /// A kernel did what it must not do.
    #[error("{0}")]
    Kernel(Box<Fault>),
}

impl SimError {
    /// What the kernel did, if it was the kernel.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Kernel(fault) => Some(fault),
            _ => None,
        }
    }
}

/// A position in kernel source.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// The file, as it was named to the compiler. Empty if there is no position to tell.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.file.is_empty() {
            f.write_str("an unknown place")
        } else {
            write!(f, "{}:{}", self.file, self.line)
        }
    }
}

/// What a kernel did wrong, and where. The simulator can be used again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What it was.
    pub kind: FaultKind,
    /// The kernel's name.
    pub kernel: String,
    /// The block in the grid.
    pub block: u32,
    /// The warp in the block.
    pub warp: u32,
    /// The lane in the warp.
    pub lane: u32,
    /// Where the lane was.
    pub place: Place,
    /// The particulars, for people.
    pub detail: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, kernel, block, warp, lane, place, detail } = self;
        write!(
            f,
            "kernel {kernel}: {kind}: block {block}, warp {warp}, lane {lane}, at {place}: {detail}; {}",
            kind.advice()
        )
    }
}

/// The kinds of [`Fault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// Lanes of one mask are at different collectives.
    Diverged,
    /// A collective names a lane that has returned, or that the block does not have.
    LaneGone,
    /// A collective without the calling lane in its mask, or that asks a lane outside it.
    NotInMask,
    /// Lanes of a block are at different barriers, or some never come.
    BarrierDiverged,
    /// No lane of the block can go on.
    Deadlock,
    /// A lane has used up its steps.
    Runaway,
    /// A `WK_ASSERT` with this code did not hold.
    Assertion(u32),
    /// An access where no memory is registered, or beyond a buffer.
    OutOfBounds,
    /// An access to a buffer that was freed.
    UseAfterFree,
    /// A load of what was never written.
    Uninitialised,
    /// An access to an address that is not a multiple of its size.
    Misaligned,
    /// Memory that was read with `load_once` and changed in the same launch.
    ReadOnlyChanged,
    /// More shared memory than there is.
    SharedMemory,
    /// Parameters of another size than the kernel takes.
    BadParams,
    /// No memory for stacks.
    Resources,
}

/// Why there is no simulator, and what to do.
fn why_unavailable() -> &'static str {
    match cfg!(feature = "simulator") {
        true => "there was no C++17 compiler; install g++ or clang++ and build again",
        false => "it was built without the feature gpu; build it with that feature",
    }
}

impl FaultKind {
    /// The kind of this number and code, as the simulator tells it.
    #[cfg(not(no_simulator))]
    pub(super) fn from_raw(kind: u32, code: u32) -> Self {
        match kind {
            1 => Self::Diverged,
            2 => Self::LaneGone,
            3 => Self::NotInMask,
            4 => Self::BarrierDiverged,
            5 => Self::Deadlock,
            6 => Self::Runaway,
            7 => Self::Assertion(code),
            8 => Self::OutOfBounds,
            9 => Self::UseAfterFree,
            10 => Self::Uninitialised,
            11 => Self::Misaligned,
            12 => Self::ReadOnlyChanged,
            13 => Self::SharedMemory,
            14 => Self::BadParams,
            _ => Self::Resources,
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::Diverged => "let all lanes of the tile reach the same collective",
            Self::LaneGone => "keep lanes alive until the tile's last collective, and launch whole warps",
            Self::NotInMask => "call a tile's collective from all of its lanes and no others",
            Self::BarrierDiverged => "let all threads of the block reach the same sync_block",
            Self::Deadlock => "let all lanes that a mask names reach the collective",
            Self::Runaway => "look at the loop there",
            Self::Assertion(_) => "look at what the code stands for",
            Self::OutOfBounds => "check the index, and that the buffer was registered",
            Self::UseAfterFree => "keep the buffer until the launch is over",
            Self::Uninitialised => "write or zero the memory first",
            Self::Misaligned => "align the address to the size of the access",
            Self::ReadOnlyChanged => "read it with load or load_l2",
            Self::SharedMemory => "declare less, or launch with more shared_bytes",
            Self::BadParams => "pass the struct that the kernel names",
            Self::Resources => "launch smaller blocks, or fewer at once",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Diverged => f.write_str("lanes at different collectives"),
            Self::LaneGone => f.write_str("a collective waits for a lane that is gone"),
            Self::NotInMask => f.write_str("a lane outside the collective's mask"),
            Self::BarrierDiverged => f.write_str("a barrier that not all reach"),
            Self::Deadlock => f.write_str("deadlock"),
            Self::Runaway => f.write_str("a lane runs away"),
            Self::Assertion(code) => write!(f, "assertion {code} failed"),
            Self::OutOfBounds => f.write_str("access out of bounds"),
            Self::UseAfterFree => f.write_str("use after free"),
            Self::Uninitialised => f.write_str("uninitialised memory"),
            Self::Misaligned => f.write_str("misaligned access"),
            Self::ReadOnlyChanged => f.write_str("read-only memory changed"),
            Self::SharedMemory => f.write_str("too much shared memory"),
            Self::BadParams => f.write_str("wrong parameters"),
            Self::Resources => f.write_str("out of resources"),
        }
    }
}
