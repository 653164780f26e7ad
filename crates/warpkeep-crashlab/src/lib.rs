//! (docs later)

mod buffer;
mod disk;
mod event;
mod explore;
mod fault;
mod hash;
mod memory;
mod model;
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
pub use fault::{DiskCall, Fault};
pub use memory::{LabMemory, Recorder};
pub use model::{Crash, MemoryModel};
pub use mutate::{Gate, mutation_gate};
pub use reopen::Reopen;
pub use trace::Trace;
