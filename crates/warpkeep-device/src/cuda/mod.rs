//! GPUs, through CUDA's driver.

mod context;
mod driver;
mod kernels;
mod memory;
mod ranges;
mod reserved;

pub(crate) use context::open;
pub(crate) use driver::devices;
