//! The kernels of `kernels/hash_map.cu` and `kernels/hash_set.cu`, and what both sides agree on.

use bytemuck::NoUninit;
use warpkeep_device::{Device, DevicePtr, KernelSet as _, Program, Result, TypedKernel};

use super::op::{MapOpKind, MapStatus};
use super::table::HashMapRef;

/// Threads of a block.
pub(super) const THREADS: u32 = 128;
/// A map has 2^k buckets, and k lies between these.
pub(super) const LEAST_BITS: u32 = 6;
pub(super) const MOST_BITS: u32 = 31;
/// Flags in the first word of a slot: it holds a key, and the key is in its second bucket.
pub(super) const HELD: u64 = 1;
pub(super) const SECOND: u64 = 2;
/// Words that kernels count in.
pub(super) const CONTROL_WORDS: usize = 7;
/// Which word counts the keys without a slot, and which is the first that [`Kernels::verify`] counts in.
pub(super) const PENDING: usize = 1;
pub(super) const FIRST_VERIFIED: usize = 2;

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Plan {
    pub(super) keys: DevicePtr,
    pub(super) sorted: DevicePtr,
    pub(super) numbers: DevicePtr,
    pub(super) count: u64,
    pub(super) seed: u64,
    pub(super) rotation: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Batch {
    pub(super) map: HashMapRef,
    pub(super) sorted: DevicePtr,
    pub(super) numbers: DevicePtr,
    pub(super) begins: DevicePtr,
    pub(super) runs: u64,
    pub(super) count: u64,
    pub(super) codes: DevicePtr,
    pub(super) operands: DevicePtr,
    pub(super) statuses: DevicePtr,
    pub(super) before: DevicePtr,
    pub(super) list: DevicePtr,
    pub(super) listed: u64,
    pub(super) pending: DevicePtr,
    pub(super) rotation: u32,
    pub(super) code: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Lookup {
    pub(super) map: HashMapRef,
    pub(super) keys: DevicePtr,
    pub(super) statuses: DevicePtr,
    pub(super) values: DevicePtr,
    pub(super) count: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Doubling {
    pub(super) map: HashMapRef,
    pub(super) slots: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Whole {
    pub(super) map: HashMapRef,
    pub(super) keys: DevicePtr,
    pub(super) values: DevicePtr,
    pub(super) slots: u64,
    pub(super) room: u64,
}

warpkeep_device::kernel_set! {
    struct MapKernels in "hash_map.cu", prefix "hash_map_" {
        plan: Plan,
        apply: Batch,
        build: Batch,
        place: Batch,
        refuse: Batch,
        find: Lookup,
        double: Doubling,
        retrieve: Whole,
        verify: Whole,
    }
    agree {
        ref_bytes = size_of::<HashMapRef>(),
        slots = Shape::Map.slots(),
        least_bits = LEAST_BITS,
        most_bits = MOST_BITS,
        held = HELD,
        second = SECOND,
        control_words = CONTROL_WORDS,
        inserted = MapStatus::Inserted,
        updated = MapStatus::Updated,
        found = MapStatus::Found,
        absent = MapStatus::Absent,
        erased = MapStatus::Erased,
        full = MapStatus::Full,
        insert = MapOpKind::Insert,
        put = MapOpKind::Put,
        add = MapOpKind::Add,
        min = MapOpKind::Min,
        max = MapOpKind::Max,
        find_op = MapOpKind::Find,
        contains = MapOpKind::Contains,
        erase = MapOpKind::Erase,
    }
}

warpkeep_device::kernel_set! {
    struct SetKernels in "hash_set.cu", prefix "hash_set_" {
        plan: Plan,
        apply: Batch,
        build: Batch,
        place: Batch,
        refuse: Batch,
        find: Lookup,
        double: Doubling,
        retrieve: Whole,
        verify: Whole,
    }
    agree {
        ref_bytes = size_of::<HashMapRef>(),
        slots = Shape::Set.slots(),
        least_bits = LEAST_BITS,
        most_bits = MOST_BITS,
        held = HELD,
        second = SECOND,
        control_words = CONTROL_WORDS,
    }
}

/// What the slots of a bucket have, which is 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A key and a value.
    Map,
    /// A key alone.
    Set,
}

impl Shape {
    /// Words of a slot, or of a pair in a file.
    pub(super) const fn words(self) -> usize {
        match self {
            Self::Map => 2,
            Self::Set => 1,
        }
    }

    /// Slots of a bucket.
    pub(super) const fn slots(self) -> u64 {
        8 / self.words() as u64
    }

    pub(super) fn program(self) -> Program {
        match self {
            Self::Map => MapKernels::program(),
            Self::Set => SetKernels::program(),
        }
    }
}

/// The kernels of maps or of sets: they take the same parameters.
#[derive(Debug)]
pub(super) struct Kernels {
    pub(super) plan: TypedKernel<Plan>,
    pub(super) apply: TypedKernel<Batch>,
    pub(super) build: TypedKernel<Batch>,
    pub(super) place: TypedKernel<Batch>,
    pub(super) refuse: TypedKernel<Batch>,
    pub(super) find: TypedKernel<Lookup>,
    pub(super) double: TypedKernel<Doubling>,
    pub(super) retrieve: TypedKernel<Whole>,
    pub(super) verify: TypedKernel<Whole>,
}

impl Kernels {
    pub(super) fn load(device: &Device, shape: Shape) -> Result<Kernels> {
        Ok(match shape {
            Shape::Map => {
                let MapKernels { plan, apply, build, place, refuse, find, double, retrieve, verify } =
                    MapKernels::load(device)?;
                Kernels { plan, apply, build, place, refuse, find, double, retrieve, verify }
            }
            Shape::Set => {
                let SetKernels { plan, apply, build, place, refuse, find, double, retrieve, verify } =
                    SetKernels::load(device)?;
                Kernels { plan, apply, build, place, refuse, find, double, retrieve, verify }
            }
        })
    }
}
