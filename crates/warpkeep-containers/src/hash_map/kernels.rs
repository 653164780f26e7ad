//! The kernels of `kernels/hash_map*.cu` and `kernels/hash_set*.cu`, and what both sides agree on.

use bytemuck::NoUninit;
use warpkeep_device::{Device, DevicePtr, KernelSet, Program, Result, TypedKernel};

use super::mix::{HELD, SECOND};
use super::op::{MapOpKind, MapStatus};
use super::table::RawRef;
use super::width::Shape;
use crate::spread_count::COUNT_WORDS;

/// Threads of a block.
pub(super) const THREADS: u32 = 128;
/// Slots that a thread of [`Kernels::retrieve`] looks at.
pub(super) const RETRIEVED: u64 = 4;
/// A map has 2^k buckets, and k is at least this.
pub(super) const LEAST_BITS: u32 = 6;
/// Words that kernels count in. The first ones have the number of keys.
pub(super) const CONTROL_WORDS: usize = COUNT_WORDS + 7;
/// Which words count the keys without a slot, and which is the first that [`Kernels::verify`] counts in.
pub(super) const PENDING: usize = COUNT_WORDS;
pub(super) const PENDING_NEXT: usize = COUNT_WORDS + 1;
pub(super) const FIRST_VERIFIED: usize = COUNT_WORDS + 2;

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Plan {
    pub(super) keys: DevicePtr,
    pub(super) list: DevicePtr,
    pub(super) sorted: DevicePtr,
    pub(super) numbers: DevicePtr,
    pub(super) count: u64,
    pub(super) seed: u64,
    pub(super) rotation: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Batch {
    pub(super) map: RawRef,
    pub(super) keys: DevicePtr,
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
    pub(super) pending_count: DevicePtr,
    pub(super) runs_at: DevicePtr,
    pub(super) listed_at: DevicePtr,
    pub(super) unless: DevicePtr,
    pub(super) rotation: u32,
    pub(super) code: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Fresh {
    pub(super) map: RawRef,
    pub(super) keys: DevicePtr,
    pub(super) operands: DevicePtr,
    pub(super) statuses: DevicePtr,
    pub(super) before: DevicePtr,
    pub(super) count: u64,
    pub(super) rest: DevicePtr,
    pub(super) repeated: DevicePtr,
    pub(super) repetitions: u64,
    pub(super) places: u64,
    pub(super) has_searched: u32,
    pub(super) step: u32,
}

/// The launches of [`Kernels::sort_out_repeated`].
pub(super) const FLAG: u32 = 0;
pub(super) const COLLECT: u32 = 1;
pub(super) const REMOVE: u32 = 2;
/// The launches of [`Kernels::compare_rest`].
pub(super) const CLEAR: u32 = 0;
pub(super) const COMPARE: u32 = 1;

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Lookup {
    pub(super) map: RawRef,
    pub(super) keys: DevicePtr,
    pub(super) statuses: DevicePtr,
    pub(super) values: DevicePtr,
    pub(super) count: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Doubling {
    pub(super) map: RawRef,
    pub(super) slots: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Whole {
    pub(super) map: RawRef,
    pub(super) keys: DevicePtr,
    pub(super) values: DevicePtr,
    pub(super) slots: u64,
    pub(super) room: u64,
}

/// The kernels of one pair of widths. Their parameters are the same for all.
#[derive(Debug)]
pub(super) struct Kernels {
    pub(super) plan: TypedKernel<Plan>,
    pub(super) apply: TypedKernel<Batch>,
    pub(super) insert_fresh: TypedKernel<Fresh>,
    pub(super) sort_out_repeated: TypedKernel<Fresh>,
    pub(super) compare_rest: TypedKernel<Fresh>,
    pub(super) place: TypedKernel<Batch>,
    pub(super) refuse: TypedKernel<Batch>,
    pub(super) find: TypedKernel<Lookup>,
    pub(super) double: TypedKernel<Doubling>,
    pub(super) retrieve: TypedKernel<Whole>,
    pub(super) verify: TypedKernel<Whole>,
}

/// Declares the kernel sets of all pairs of widths.
macro_rules! widths {
    ($($set:ident in $source:literal, prefix $prefix:literal, keys $keys:literal, values $values:literal $({ $($more:tt)* })?;)*) => {
        $(
            warpkeep_device::kernel_set! {
                struct $set in $source, prefix $prefix {
                    plan: Plan,
                    apply: Batch,
                    insert_fresh: Fresh,
                    sort_out_repeated: Fresh,
                    compare_rest: Fresh,
                    place: Batch,
                    refuse: Batch,
                    find: Lookup,
                    double: Doubling,
                    retrieve: Whole,
                    verify: Whole,
                }
                agree {
                    ref_bytes = size_of::<RawRef>(),
                    key_bytes = $keys,
                    value_bytes = $values,
                    slots = Shape { key_bytes: $keys, value_bytes: $values }.slots(),
                    least_bits = LEAST_BITS,
                    most_bits = Shape { key_bytes: $keys, value_bytes: $values }.most_bits(),
                    retrieved = RETRIEVED,
                    held = HELD,
                    second = SECOND,
                    control_words = CONTROL_WORDS,
                    count_words = COUNT_WORDS,
                    $($($more)*)?
                }
            }
        )*

        impl Kernels {
            pub(super) fn program(shape: Shape) -> Program {
                match (shape.key_bytes, shape.value_bytes) {
                    $(($keys, $values) => $set::program(),)*
                    _ => unreachable!("no type of keys and values has {shape:?}"),
                }
            }

            pub(super) fn load(device: &Device, shape: Shape) -> Result<Kernels> {
                match (shape.key_bytes, shape.value_bytes) {
                    $(($keys, $values) => {
                        let $set { plan, apply, insert_fresh, sort_out_repeated, compare_rest, place, refuse, find, double, retrieve, verify } =
                            $set::load(device)?;
                        Ok(Kernels { plan, apply, insert_fresh, sort_out_repeated, compare_rest, place, refuse, find, double, retrieve, verify })
                    })*
                    _ => unreachable!("no type of keys and values has {shape:?}"),
                }
            }
        }
    };
}

widths! {
    Map8To8 in "hash_map.cu", prefix "hash_map_", keys 8, values 8 {
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
    };
    Map8To4 in "hash_map_8_4.cu", prefix "hash_map_8_4_", keys 8, values 4;
    Map8To16 in "hash_map_8_16.cu", prefix "hash_map_8_16_", keys 8, values 16;
    Map4To4 in "hash_map_4_4.cu", prefix "hash_map_4_4_", keys 4, values 4;
    Map4To8 in "hash_map_4_8.cu", prefix "hash_map_4_8_", keys 4, values 8;
    Map4To16 in "hash_map_4_16.cu", prefix "hash_map_4_16_", keys 4, values 16;
    Set8 in "hash_set.cu", prefix "hash_set_", keys 8, values 0;
    Set4 in "hash_set_4.cu", prefix "hash_set_4_", keys 4, values 0;
}
