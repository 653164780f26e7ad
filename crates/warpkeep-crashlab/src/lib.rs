//! The crash explorer of Warpkeep.
//!
//! It records the stores, flushes, fences, writes, renames and syncs of a scenario. At every boundary it builds the
//! states that a crash could leave, under the fault model stated in [`model`]; reopens each with the real recovery
//! code, which the test gives as a closure; and lets that closure check whether anything promised is missing. Then
//! it crashes the recovery.
//!
//! # Writing a scenario
//!
//! 1. Make a [`Trace`], and with it a [`LabMemory`], a [`LabDisk`], or both.
//! 2. Run the code under test on them: a [`Recorder`] is its `Persist`, the memory its `Backing`, the disk its
//!    `Disk`. Call [`Trace::ack`] whenever something has been promised. Preparation goes
//!    between [`Trace::pause`] and [`Trace::resume`].
//! 3. Give the trace to an [`Explorer`], with a check. The check opens the remaining state, compares it with
//!    [`Reopen::acked`], and returns an error if something is missing. It may continue to work, and
//!    [`Reopen::ack`] more: the next crash is checked against that too.
//! 4. Give the same to [`mutation_gate`]: each flush, fence and sync is dropped in turn, and the check must
//!    notice.
//!
//! ```
//! use warpkeep_crashlab::{Crash, Explorer, LabMemory, MemoryModel, Trace};
//! use warpkeep_image::Persist;
//!
//! // A value in one line, and in another the flag that says it is there.
//! let (value, flag) = (0x40, 0x80);
//! let trace = Trace::new();
//! let memory = LabMemory::new(&trace, 4096, 4096);
//! let persist = memory.recorder();
//! persist.store(memory.word(value), 7);
//! persist.flush("value", memory.word(value).as_ptr().cast(), 8);
//! persist.fence("value");
//! persist.store(memory.word(flag), 1);
//! persist.flush("flag", memory.word(flag).as_ptr().cast(), 8);
//! persist.fence("flag");
//! trace.ack(7);
//!
//! let explorer = Explorer::new([Crash::Process, Crash::PowerPersistent(MemoryModel::X86Lines)]);
//! let found = explorer.explore(&trace, |reopen| {
//!     // The crash may have come before there was anything.
//!     let Some(memory) = reopen.memory() else { return Ok(()) };
//!     match (memory.load(flag), memory.load(value)) {
//!         (0, _) if reopen.acked().is_empty() => Ok(()),
//!         (1, 7) => Ok(()),
//!         other => Err(format!("found {other:?}")),
//!     }
//! });
//! found.assert_clean();
//! println!("{found}");
//! ```
//!
//! [`torture`] kills real processes.

mod buffer;
mod disk;
mod event;
mod explore;
mod extent;
mod fault;
mod hash;
pub mod linear;
mod memory;
pub mod model;
mod mutate;
mod pick;
mod plan;
mod pool;
mod quiet;
mod reopen;
mod run;
mod space;
pub mod torture;
mod trace;
mod world;

pub use disk::LabDisk;
pub use event::{Entry, Event, Site, SiteKind};
pub use explore::{Exploration, Explorer, Violation};
pub use extent::{EXTENT, explores_fully};
pub use fault::{DiskCall, Fault};
pub use memory::{LabMemory, Recorder};
pub use model::{Crash, MemoryModel};
pub use mutate::{Gate, mutation_gate, mutation_gate_of};
pub use reopen::Reopen;
pub use trace::Trace;
