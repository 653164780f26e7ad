//! The kernels of `tests/kernels` as programs.

use bytemuck::NoUninit;
use warpkeep_device::sim::Mode;
use warpkeep_device::{Device, DevicePtr, KernelCache, KernelSet as _, Module, Program};

// Where the simulator's build of these kernels lies.
#[cfg(not(no_simulator))]
#[link(name = "warpkeep_test_kernels", kind = "static")]
unsafe extern "C" {}

/// `table::Params`.
#[derive(Debug, Clone, Copy, NoUninit)]
#[repr(C)]
pub(crate) struct TableParams {
    pub(crate) slots: DevicePtr,
    pub(crate) keys: DevicePtr,
    pub(crate) values: DevicePtr,
    pub(crate) buckets: u64,
    pub(crate) count: u64,
}

/// `publish::Params`.
#[derive(Debug, Clone, Copy, NoUninit)]
#[repr(C)]
pub(crate) struct PublishParams {
    pub(crate) data: DevicePtr,
    pub(crate) flags: DevicePtr,
    pub(crate) seen: DevicePtr,
    pub(crate) between: u32,
    pub(crate) rounds: u32,
}

/// A fence of system scope between data and flag.
pub(crate) const SYSTEM_FENCE: u32 = 3;
/// Counting at device scope.
pub(crate) const DEVICE_SCOPE: u32 = 2;

/// Slots of a bucket.
pub(crate) const SLOTS: u64 = 16;

warpkeep_device::kernel_set! {
    /// The kernels that run on both machines.
    pub(crate) struct BothKernels in "both.cu" {
        table_insert: TableParams,
        table_find: TableParams,
        publish_count: PublishParams,
        publish_records: PublishParams,
    }
    agree {
        table_slots = SLOTS,
    }
}

/// Their program, with checks in the kernels.
pub(crate) fn program() -> Program {
    BothKernels::program().with_constants([("WK_CHECKED", 1)])
}

/// The kernels on a device. They are not kept: tests leave nothing in the user's cache.
pub(crate) fn load(device: &Device) -> warpkeep_device::Result<Module> {
    device.load_with(&program(), &KernelCache::none())
}

/// How many items to work on: a seeded simulator checks every step and takes its time.
pub(crate) fn items(device: &Device) -> u64 {
    match device.simulator().map(|simulator| simulator.mode().clone()) {
        Some(Mode::Seeded(_)) => 300,
        Some(Mode::Fast(_)) => 20_000,
        None => 1_000_000,
    }
}
