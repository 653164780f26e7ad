//! Tables on a device: where their batches run, what the device keeps in its memory, and its figures.

mod execution;
mod host_gets;
mod options;
mod stats;
mod value_cache;

pub(crate) use execution::Execution;
pub use host_gets::{HostGetBatches, HostGetStrategy};
pub(crate) use options::DeviceOptions;
pub use options::{DeviceIndex, DeviceValues};
pub use stats::DeviceStats;
