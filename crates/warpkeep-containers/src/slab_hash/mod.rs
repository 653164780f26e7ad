//! Slab hash: hash tables of chains of slabs.

mod batch;
mod body;
mod build;
mod calls;
mod cell;
mod cpu;
mod file;
mod kernels;
mod map;
mod mixer;
mod multi_map;
mod options;
mod request;
mod run;
mod set;
mod table;
mod verify;

pub use batch::{DeviceSlabAnswers, DeviceSlabOps, SlabOpKinds};
pub use cell::{SlabKey, SlabValue};
pub use map::SlabMap;
pub use multi_map::SlabMultiMap;
pub use options::{SlabHashOptions, SlabHashStats};
pub use request::{SlabAnswer, SlabMultiRequest, SlabOpKind, SlabRequest, SlabStatus};
pub use set::SlabSet;
pub use table::SlabTableRef;
