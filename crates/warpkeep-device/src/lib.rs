//! Where the kernels of Warpkeep run: a GPU through CUDA, or a simulator of one on the CPU.
//!
//! A [`Device`] allocates, copies, launches and times. Kernels are CUDA C++ written against one small header, the seam, so that
//! the same source is compiled by NVRTC for the GPU and by a C++ compiler for the simulator; a [`Program`] holds both.
//!
//! | word | what it is |
//! | --- | --- |
//! | [`DeviceChoice`], [`devices`] | the names of what kernels can run on, and what is here |
//! | [`Device`] | a handle to one of them, with a budget of memory |
//! | [`Buffer`], [`PinnedBuffer`], [`Registered`] | device memory; host memory it reaches; the same in a mapping of others |
//! | [`StagedBuffer`], [`GrowingBuffer`] | a column with a pinned host side; device memory that grows in place |
//! | [`Stream`], [`Event`] | order, and time |
//! | [`Workspace`], [`WorkspacePool`], [`StepTimer`] | what a batch needs, kept for the next one; where its time goes |
//! | [`kernel_set!`], [`KernelSet`], [`LazyKernels`], [`TypedKernel`] | kernels declared once; loaded at first use; what is launched |
//! | [`Program`], [`Module`], [`Kernel`] | the same by hand: source; loaded code; a kernel by name |
//! | [`compile_for`], [`KernelCache`] | code for an architecture, with no GPU at hand |
//! | [`PartitionPlan`], [`SmAffinity`], [`DuplicateTable`] | the host's side of headers for kernels: see [`SEAM`] |
//! | [`fault`] | named steps that a test can have left out |
//! | [`sim`] | the simulator, for tests that choose schedules and crashes |
//!
//! Nothing here needs CUDA to build. Where there is no driver, asking for a GPU is an error that says so.

mod address_space;
mod arch;
mod backend;
mod budget;
mod buffer;
mod choice;
mod column;
mod compile;
#[cfg(feature = "cuda")]
mod cuda;
mod device;
mod duplicates;
mod error;
mod event;
pub mod fault;
mod growing;
mod health;
mod info;
mod kernel_set;
mod lazy_kernels;
mod module;
mod partition;
mod pinned;
mod pointer;
mod program;
mod reached;
mod registered;
pub mod sim;
mod simulated;
mod sm_affinity;
mod staged;
mod stream;
mod timer;
mod workspace;

pub use arch::Arch;
pub use buffer::{Buffer, View};
pub use choice::DeviceChoice;
pub use compile::{Compiled, KernelCache, Resources, SEAM, compile_for, compile_with, compiler_version};
pub use device::Device;
pub use duplicates::DuplicateTable;
pub use error::{CudaVersion, DeviceError, NoCuda, Result};
pub use event::Event;
pub use growing::GrowingBuffer;
pub use info::{Abilities, DeviceInfo, devices};
pub use kernel_set::{KernelSet, TypedKernel};
pub use lazy_kernels::LazyKernels;
pub use module::{Kernel, Module};
pub use partition::{Partition, PartitionPlan};
pub use pinned::PinnedBuffer;
pub use pointer::DevicePtr;
pub use program::{Agreement, Entry, KernelEntry, MAX_PARAMS_BYTES, Program, SimulatedKernel, StatedNumber};
pub use registered::{MemoryKind, RegisterOptions, Registered};
pub use sim::{Grid, Mode};
pub use sm_affinity::{AffineBatch, SmAffinity};
pub use staged::StagedBuffer;
pub use stream::Stream;
pub use timer::{StepTime, StepTimer, TimedBatch};
pub use workspace::{Workspace, WorkspacePool};
