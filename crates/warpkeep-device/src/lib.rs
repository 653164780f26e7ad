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
//! | [`Stream`], [`Event`] | order, and time |
//! | [`Program`], [`Module`], [`Kernel`] | source; loaded code; what is launched |
//! | [`compile_for`], [`KernelCache`] | code for an architecture, with no GPU at hand |
//! | [`sim`] | the simulator, for tests that choose schedules and crashes |
//!
//! Nothing here needs CUDA to build. Where there is no driver, asking for a GPU is an error that says so.

mod arch;
mod backend;
mod budget;
mod buffer;
mod choice;
mod compile;
#[cfg(feature = "cuda")]
mod cuda;
mod device;
mod error;
mod event;
mod health;
mod info;
mod module;
mod pinned;
mod pointer;
mod program;
mod reached;
mod registered;
pub mod sim;
mod simulated;
mod stream;

pub use arch::Arch;
pub use buffer::{Buffer, View};
pub use choice::DeviceChoice;
pub use compile::{Compiled, KernelCache, Resources, SEAM, compile_for, compile_with, compiler_version};
pub use device::Device;
pub use error::{CudaVersion, DeviceError, NoCuda, Result};
pub use event::Event;
pub use info::{Abilities, DeviceInfo, devices};
pub use module::{Kernel, Module};
pub use pinned::PinnedBuffer;
pub use pointer::DevicePtr;
pub use program::{Entry, KernelEntry, MAX_PARAMS_BYTES, Program};
pub use registered::{MemoryKind, RegisterOptions, Registered};
pub use sim::{Grid, Mode};
pub use stream::Stream;
