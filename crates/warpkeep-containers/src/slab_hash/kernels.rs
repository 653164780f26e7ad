//! The kernels of `kernels/slab_*.cu`, and what both sides agree on.

use bytemuck::NoUninit;
use warpkeep_device::{Device, DevicePtr, KernelSet as _, Program, Result, TypedKernel};

use super::cell::Cell;
use super::request::{GATHER, SlabOpKind, SlabStatus};
use super::table::SlabTableRef;
use super::verify::VERIFIED_WORDS;

/// Threads of a block.
pub(super) const THREADS: u32 = 128;

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Requests {
    pub(super) table: SlabTableRef,
    pub(super) codes: DevicePtr,
    pub(super) keys: DevicePtr,
    pub(super) values: DevicePtr,
    pub(super) statuses: DevicePtr,
    pub(super) found: DevicePtr,
    pub(super) count: u64,
    pub(super) gathered: DevicePtr,
    pub(super) room: u64,
    pub(super) code: u32,
    pub(super) reserved: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Codes {
    pub(super) codes: DevicePtr,
    pub(super) count: u64,
    pub(super) puts: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Move {
    pub(super) from: SlabTableRef,
    pub(super) to: SlabTableRef,
    pub(super) failed: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct List {
    pub(super) table: SlabTableRef,
    pub(super) keys: DevicePtr,
    pub(super) values: DevicePtr,
    pub(super) next: DevicePtr,
    pub(super) room: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Plan {
    pub(super) table: SlabTableRef,
    pub(super) keys: DevicePtr,
    pub(super) sorted: DevicePtr,
    pub(super) numbers: DevicePtr,
    pub(super) statuses: DevicePtr,
    pub(super) found: DevicePtr,
    pub(super) count: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Build {
    pub(super) table: SlabTableRef,
    pub(super) sorted: DevicePtr,
    pub(super) numbers: DevicePtr,
    pub(super) begins: DevicePtr,
    pub(super) bounds: DevicePtr,
    pub(super) runs: u64,
    pub(super) count: u64,
    pub(super) values: DevicePtr,
    pub(super) statuses: DevicePtr,
    pub(super) found: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Verify {
    pub(super) table: SlabTableRef,
    pub(super) reached: DevicePtr,
    pub(super) counts: DevicePtr,
    pub(super) unique: u32,
    pub(super) reserved: u32,
}

/// The kernels for slabs of one size.
#[derive(Debug)]
pub(super) struct Kernels {
    pub(super) apply: TypedKernel<Requests>,
    pub(super) read: TypedKernel<Requests>,
    pub(super) rebuild: TypedKernel<Move>,
    pub(super) build: TypedKernel<Build>,
    pub(super) list: TypedKernel<List>,
    pub(super) flush: TypedKernel<SlabTableRef>,
    pub(super) release: TypedKernel<SlabTableRef>,
    pub(super) verify: TypedKernel<Verify>,
    pub(super) count_puts: TypedKernel<Codes>,
    pub(super) plan: TypedKernel<Plan>,
    pub(super) bound: TypedKernel<Build>,
    pub(super) settle: TypedKernel<Build>,
}

/// Declares the kernels for one kind of cells.
macro_rules! slab_kernels {
    ($set:ident, $main:literal, $prefix:literal, $cell:expr) => {
        warpkeep_device::kernel_set! {
            struct $set in $main, prefix $prefix {
                apply_64: Requests,
                apply_128: Requests,
                read_64: Requests,
                read_128: Requests,
                rebuild_64: Move,
                rebuild_128: Move,
                build_64: Build,
                build_128: Build,
                list_64: List,
                list_128: List,
                flush_64: SlabTableRef,
                flush_128: SlabTableRef,
                release_64: SlabTableRef,
                release_128: SlabTableRef,
                verify_64: Verify,
                verify_128: Verify,
                count_puts: Codes,
                plan: Plan,
                bound: Build,
                settle: Build,
            }
            agree {
                reference = size_of::<SlabTableRef>(),
                cell = $cell.bytes(),
                key = $cell.key_bytes(),
                inserted = SlabStatus::Inserted,
                counted = SlabStatus::Counted,
                delete_all = SlabOpKind::DeleteAll,
                gather = GATHER,
                verified = VERIFIED_WORDS,
            }
        }

        impl $set {
            fn of_size(device: &Device, slab_bytes: u32) -> Result<Kernels> {
                let set = Self::load(device)?;
                let is_small = slab_bytes == 64;
                Ok(Kernels {
                    apply: if is_small { set.apply_64 } else { set.apply_128 },
                    read: if is_small { set.read_64 } else { set.read_128 },
                    rebuild: if is_small { set.rebuild_64 } else { set.rebuild_128 },
                    build: if is_small { set.build_64 } else { set.build_128 },
                    list: if is_small { set.list_64 } else { set.list_128 },
                    flush: if is_small { set.flush_64 } else { set.flush_128 },
                    release: if is_small { set.release_64 } else { set.release_128 },
                    verify: if is_small { set.verify_64 } else { set.verify_128 },
                    count_puts: set.count_puts,
                    plan: set.plan,
                    bound: set.bound,
                    settle: set.settle,
                })
            }
        }
    };
}

slab_kernels!(Pairs32, "slab_pairs_32.cu", "slab_pairs_32_", Cell::Pair32);
slab_kernels!(Pairs64, "slab_pairs_64.cu", "slab_pairs_64_", Cell::Pair64);
slab_kernels!(Keys32, "slab_keys_32.cu", "slab_keys_32_", Cell::Key32);
slab_kernels!(Keys64, "slab_keys_64.cu", "slab_keys_64_", Cell::Key64);

/// Declares the kernels for batches whose keys need not be unique.
macro_rules! multi_kernels {
    ($set:ident, $main:literal, $prefix:literal) => {
        warpkeep_device::kernel_set! {
            struct $set in $main, prefix $prefix {
                apply_64: Requests,
                apply_128: Requests,
                read_64: Requests,
                read_128: Requests,
            }
        }

        impl $set {
            fn into(self, kernels: &mut Kernels, slab_bytes: u32) {
                (kernels.apply, kernels.read) = match slab_bytes {
                    64 => (self.apply_64, self.read_64),
                    _ => (self.apply_128, self.read_128),
                };
            }
        }
    };
}

multi_kernels!(Multi32, "slab_multi_32.cu", "slab_multi_32_");
multi_kernels!(Multi64, "slab_multi_64.cu", "slab_multi_64_");

impl Kernels {
    /// The programs that these kernels are in.
    pub(super) fn programs(cell: Cell, unique: bool) -> Vec<Program> {
        let all = match cell {
            Cell::Pair32 => Pairs32::program(),
            Cell::Pair64 => Pairs64::program(),
            Cell::Key32 => Keys32::program(),
            Cell::Key64 => Keys64::program(),
        };
        match (unique, cell) {
            (false, Cell::Pair32) => vec![all, Multi32::program()],
            (false, Cell::Pair64) => vec![all, Multi64::program()],
            // Keys alone are unique: no table has them otherwise.
            (true, _) | (false, Cell::Key32 | Cell::Key64) => vec![all],
        }
    }

    pub(super) fn load(device: &Device, cell: Cell, unique: bool, slab_bytes: u32) -> Result<Self> {
        let mut kernels = match cell {
            Cell::Pair32 => Pairs32::of_size(device, slab_bytes)?,
            Cell::Pair64 => Pairs64::of_size(device, slab_bytes)?,
            Cell::Key32 => Keys32::of_size(device, slab_bytes)?,
            Cell::Key64 => Keys64::of_size(device, slab_bytes)?,
        };
        match (unique, cell) {
            (false, Cell::Pair32) => Multi32::load(device)?.into(&mut kernels, slab_bytes),
            (false, Cell::Pair64) => Multi64::load(device)?.into(&mut kernels, slab_bytes),
            (true, _) | (false, Cell::Key32 | Cell::Key64) => {}
        }
        Ok(kernels)
    }
}
