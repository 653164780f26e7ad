//! Containers and primitives in the memory of a GPU, or of the simulator of one.
//!
//! | type | what it does |
//! | --- | --- |
//! | [`Sorter`] | stable radix sort of keys with payloads, exclusive scan, runs of equal keys, merge of sorted columns |
//!
//! Columns are [buffers](warpkeep_device::Buffer) of the caller. Calls run after the work in the caller's stream.

mod columns;
mod sort;

pub use columns::{SortKey, SortValue};
pub use sort::{Sorted, Sorter};
pub use warpkeep_device::{DeviceError, Result};
