//! Containers and primitives in the memory of a GPU, or of the simulator of one.
//!
//! | type | what it does |
//! | --- | --- |
//! | [`Sorter`] | stable radix sort of keys with payloads, exclusive scan, runs of equal keys, merge of sorted columns |
//! | [`SlabAlloc`] | units of 32 to 512 bytes that kernels claim and give back |
//!
//! Columns are [buffers](warpkeep_device::Buffer) of the caller. Calls run after the work in the caller's stream.

mod columns;
mod slab_alloc;
mod sort;

pub use columns::{SortKey, SortValue};
pub use slab_alloc::{SlabAlloc, SlabAllocContents, SlabAllocOptions, SlabAllocRef, SlabAllocStats};
pub use sort::{Sorted, Sorter};
pub use warpkeep_device::{DeviceError, Result};
