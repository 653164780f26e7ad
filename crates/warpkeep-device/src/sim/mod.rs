//! A simulator of a GPU on the CPU: runs kernels written against the seam header, and finds what is wrong with them.
//!
//! A warp is 32 fibers. They run until they meet: at a collective, at the block's barrier, or at the end. What a GPU leaves
//! undefined is an error here, with the kernel, the lane and the place in its source: see [`FaultKind`].
//!
//! - [`Fast`] runs blocks on all cores, with the host's own atomics.
//! - [`Seeded`] runs all lanes on one thread, in an order that depends on the seed alone. Lanes are interrupted at memory
//!   operations; stores take their time, so that a missing fence shows; every access is checked; the power can go
//!   at any step, and the [`StoreRecord`]s say what it could leave ([`CrashImage`]).
//!
//! # Memory in seeded mode
//!
//! A store is seen first by its lane, then by the lane's block, then by the device, and, if it goes to [`Memory::Image`], at last
//! reaches the image. It moves on at random; a fence (or a release) of some scope moves it on to that scope:
//!
//! | | seen by the block | seen by the device | in the image, before what follows |
//! | --- | --- | --- | --- |
//! | `Tile::sync`, `sync_block`, `fence<Block>` | yes | | |
//! | `fence<Device>` | yes | yes | |
//! | `fence<System>`, `persist_fence` | yes | yes | yes |
//! | `ballot`, `shfl` and the like | | | |
//!
//! A fence carries what its lane has stored, and what others have ordered towards it: the stores of its block that are behind a
//! fence of block scope or a `sync`, and those of other blocks that are behind one of device scope. Stores to the same bytes
//! keep their order. A weak store of 16 bytes may be seen by halves. Atomic operations act at their scope: one of block scope
//! that races with another block works on stale values, as it may on a GPU. The end of a launch orders everything.
//!
//! Loads are carried out in order. A weak load may give what was there before another block changed it, as from a cache that
//! nobody keeps coherent: back to the last acquire or fence of device scope, or wider, by a lane of its own block. Relaxed loads,
//! `load_l2` and atomic operations give what is there. So a missing acquire between blocks shows; one within a block does not.
//!
//! # What it does not see
//!
//! Plain dereferences, which the seam's rules forbid: they are neither checked nor delayed. A loop that never calls anything
//! of the seam is not interrupted. A lane has 64 KiB of stack; beyond it the process dies of a guard page.
//!
//! # Kernels in other crates
//!
//! A crate with kernels depends on this one, calls `warpkeep-device-build` in its build script, and declares its kernels with
//! [`kernel_set!`](crate::kernel_set). The entry of `WK_KERNEL(name, Params)` in the simulator is the symbol `wk_sim_name`. Where there is
//! no C++ compiler, and so no simulator, the build script sets the cfg `no_simulator`.
//!
//! # Example
//!
//! ```
//! # #[cfg(not(no_simulator))] {
//! use warpkeep_device::sim::{Grid, Mode, Simulator};
//!
//! // What WK_KERNEL makes; here one without a body, and so without parameters to look at.
//! unsafe extern "C" fn nothing(_params: *const std::ffi::c_void) {}
//!
//! let simulator = Simulator::new(Mode::seeded(7))?;
//! // SAFETY: the kernel touches no memory.
//! let report = unsafe { simulator.launch("nothing", nothing, Grid { blocks: 2, threads: 64, shared_bytes: 0 }, &[]) }?;
//! assert!(!report.crashed);
//! # }
//! # Ok::<(), warpkeep_device::sim::SimError>(())
//! ```

mod crash;
mod error;
#[cfg(not(no_simulator))]
mod ffi;
mod log;
#[cfg_attr(no_simulator, path = "machine_missing.rs")]
mod machine;
mod mode;
mod simulator;

pub use crash::CrashImage;
pub use error::{Fault, FaultKind, Place, SimError};
pub use log::{RegionId, StoreRecord, TraceEvent, TraceKind};
pub use mode::{Fast, Mode, Seeded};
pub use simulator::{Contents, Grid, Memory, RunReport, Simulator};
