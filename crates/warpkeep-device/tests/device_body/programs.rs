//! The kernels of `tests/kernels` as programs.

use bytemuck::NoUninit;
use warpkeep_device::sim::Mode;
use warpkeep_device::{Device, DevicePtr, KernelCache, Module, Program};

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

#[cfg(not(no_simulator))]
warpkeep_device::kernels! {
    static KERNELS = [
        table_insert: TableParams,
        table_find: TableParams,
        publish_count: PublishParams,
        publish_records: PublishParams,
    ];
}

#[cfg(no_simulator)]
static KERNELS: &[warpkeep_device::KernelEntry] = {
    const fn cuda_only(name: &'static str, params_bytes: usize) -> warpkeep_device::KernelEntry {
        warpkeep_device::KernelEntry { name, params_bytes, simulated: None }
    }
    &[
        cuda_only("table_insert", size_of::<TableParams>()),
        cuda_only("table_find", size_of::<TableParams>()),
        cuda_only("publish_count", size_of::<PublishParams>()),
        cuda_only("publish_records", size_of::<PublishParams>()),
    ]
};

/// The kernels that run on both machines.
pub(crate) fn program() -> Program {
    Program {
        name: "test kernels",
        sources: &[
            ("tests.cu", "#include \"publish.h\"\n#include \"table.h\"\n"),
            ("publish.h", include_str!("../kernels/publish.h")),
            ("table.h", include_str!("../kernels/table.h")),
        ],
        defines: vec![("WK_CHECKED".to_owned(), "1".to_owned())],
        kernels: KERNELS,
    }
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
