//! Benchmarks of Warpkeep: workloads, measurement, reports.
//!
//! One module a benchmark; the shared parts are around them: [`workload`] for the work, [`measure`] for spreads and
//! latencies, [`report`] and [`chart`] for the results, [`machine`] for the machine. Rates on a shared machine
//! drift by more than the differences of interest, so a benchmark interleaves the compared variants, reports the
//! spread with every figure, and says so when the spread is wider than the difference.

#![deny(unsafe_code)]

pub mod chart;
pub mod compare;
pub mod device;
mod error;
pub mod gpu;
pub mod growth;
mod kernels;
pub mod limits;
mod lines;
pub mod load_factor;
pub mod machine;
pub mod measure;
mod memory;
pub mod page;
pub mod paper;
mod pinned;
mod progress;
pub mod report;
mod scratch;
pub mod server;
pub mod size;
mod sizes;
pub mod storage;
mod table;
mod values;
pub mod workload;

pub use error::BenchError;
pub use progress::{Amount, Progress, Quiet};
pub use sizes::{BatchSizes, one_number};
pub use table::Table;
pub use values::Values;
