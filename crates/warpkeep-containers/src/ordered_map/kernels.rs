//! The kernels of `kernels/ordered_map_u32.cu`, `ordered_map_u64.cu` and `ordered_map_u128.cu`, and what both sides agree on.

use bytemuck::NoUninit;
use warpkeep_device::{Device, DevicePtr, KernelSet as _, Program, Result, TypedKernel};

pub(super) use super::key::sealed::Shape;
use super::op::{OrderedOpKind, OrderedStatus};

/// Threads of a block.
pub(super) const THREADS: u32 = 128;
/// Threads of a block that keeps the upper levels of a directory in shared memory.
pub(super) const CACHING_THREADS: u32 = 512;
/// Pairs of a full leaf, threads that read or sort one, and threads that write one.
pub(super) const LEAF_PAIRS: u32 = 14;
pub(super) const LEAF_THREADS: u64 = 16;
pub(super) const LEAF_WRITERS: u64 = 8;
/// Leaves that a block of `keep` works.
pub(super) const KEEP_LEAVES: u64 = 512;
/// Numbers that the host reads of a batch.
pub(super) const BATCH_TOTALS: usize = 4;
/// Keys that a thread looks at that checks their order.
pub(super) const ORDER_EACH: u64 = 8;
/// Separators that a thread reads at once, and levels of them that there can be.
pub(super) const FANOUT: u64 = 16;
pub(super) const LEVELS: usize = 8;
/// Neighbours become one leaf if they have no more pairs together.
pub(super) const MERGE_PAIRS: u32 = 11;
/// Pairs of the leaves that one that overflows becomes, at most, and of those of a map that is built.
pub(super) const SPLIT_PAIRS: u64 = 11;
/// What verification counts: five kinds of mistakes, and the handles in use.
pub(super) const WRONG_WORDS: usize = 6;
/// Words that count the nodes that kernels took, and the words from one to the next.
pub(super) const NODE_STRIPES: u64 = 16;
pub(super) const STRIPE_WORDS: u64 = 32;

impl Shape {
    pub(super) const fn key_bytes(self) -> usize {
        match self {
            Self::U32 => 4,
            Self::U64 => 8,
            Self::U128 => 16,
        }
    }

    pub(super) const fn value_bytes(self) -> usize {
        match self {
            Self::U32 => 4,
            Self::U64 | Self::U128 => 8,
        }
    }

    pub(super) const fn leaf_bytes(self) -> usize {
        match self {
            Self::U32 => 128,
            Self::U64 => 256,
            Self::U128 => 384,
        }
    }
}

/// A version of a map for the parameters of kernels: `wk::OrderedMapRef<u32, u32>`, `<u64, u64>` or `<U128, u64>` of
/// `warpkeep/ordered_map.h`. Good as long
/// as the [snapshot](super::OrderedSnapshot) that it was taken from.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub struct OrderedMapRef {
    pub(super) leaves: DevicePtr,
    pub(super) separators: DevicePtr,
    pub(super) handles: DevicePtr,
    pub(super) before: DevicePtr,
    pub(super) levels: [u64; LEVELS],
    pub(super) leaf_count: u32,
    pub(super) depth: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct SortedBatch {
    pub(super) keys: DevicePtr,
    pub(super) numbers: DevicePtr,
    pub(super) begins: DevicePtr,
    pub(super) owners: DevicePtr,
    pub(super) present: DevicePtr,
    pub(super) values: DevicePtr,
    pub(super) leaves: DevicePtr,
    pub(super) slots: DevicePtr,
    pub(super) runs_at: DevicePtr,
    pub(super) runs: u64,
    pub(super) count: u64,
}

impl SortedBatch {
    pub(super) const NONE: Self = Self {
        keys: DevicePtr::NULL,
        numbers: DevicePtr::NULL,
        begins: DevicePtr::NULL,
        owners: DevicePtr::NULL,
        present: DevicePtr::NULL,
        values: DevicePtr::NULL,
        leaves: DevicePtr::NULL,
        slots: DevicePtr::NULL,
        runs_at: DevicePtr::NULL,
        runs: 0,
        count: 0,
    };
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Find {
    pub(super) map: OrderedMapRef,
    pub(super) keys: DevicePtr,
    pub(super) statuses: DevicePtr,
    pub(super) values: DevicePtr,
    pub(super) count: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct NearSearch {
    pub(super) map: OrderedMapRef,
    pub(super) keys: DevicePtr,
    pub(super) statuses: DevicePtr,
    pub(super) found_keys: DevicePtr,
    pub(super) found_values: DevicePtr,
    pub(super) count: u64,
    pub(super) tolerance: [u64; 2],
    pub(super) group_bits: u32,
    pub(super) is_down: u32,
    pub(super) or_equal: u32,
    pub(super) reserved: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Reads {
    pub(super) map: OrderedMapRef,
    pub(super) batch: SortedBatch,
    pub(super) codes: DevicePtr,
    pub(super) lows: DevicePtr,
    pub(super) highs: DevicePtr,
    pub(super) count: u64,
    pub(super) statuses: DevicePtr,
    pub(super) found_keys: DevicePtr,
    pub(super) found_values: DevicePtr,
    pub(super) counts: DevicePtr,
    pub(super) pair_keys: DevicePtr,
    pub(super) pair_values: DevicePtr,
    pub(super) offsets: DevicePtr,
    pub(super) stride: u64,
    pub(super) room: u64,
    pub(super) lengths: DevicePtr,
    pub(super) total: DevicePtr,
    pub(super) code: u32,
    pub(super) reserved: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Ranks {
    pub(super) map: OrderedMapRef,
    pub(super) keys: DevicePtr,
    pub(super) ranks: DevicePtr,
    pub(super) statuses: DevicePtr,
    pub(super) found_keys: DevicePtr,
    pub(super) found_values: DevicePtr,
    pub(super) count: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Retrieve {
    pub(super) map: OrderedMapRef,
    pub(super) keys: DevicePtr,
    pub(super) values: DevicePtr,
    pub(super) first: u64,
    pub(super) leaves: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Plan {
    pub(super) keys: DevicePtr,
    pub(super) sorted: DevicePtr,
    pub(super) numbers: DevicePtr,
    pub(super) words: DevicePtr,
    pub(super) marks: DevicePtr,
    pub(super) begins: DevicePtr,
    pub(super) count: u64,
    pub(super) step: u32,
    pub(super) reserved: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Work {
    pub(super) map: OrderedMapRef,
    pub(super) batch: SortedBatch,
    pub(super) codes: DevicePtr,
    pub(super) operands: DevicePtr,
    pub(super) statuses: DevicePtr,
    pub(super) before: DevicePtr,
    pub(super) leaves: DevicePtr,
    pub(super) slots: DevicePtr,
    pub(super) finals: DevicePtr,
    pub(super) sums: ChangeSums,
    pub(super) code: u32,
    pub(super) usual: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct ChangeSums {
    pub(super) sums: DevicePtr,
    pub(super) blocks: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Changes {
    pub(super) keys: DevicePtr,
    pub(super) values: DevicePtr,
    pub(super) leaves: DevicePtr,
    pub(super) slots: DevicePtr,
    pub(super) deltas: DevicePtr,
    pub(super) count: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Gather {
    pub(super) batch: SortedBatch,
    pub(super) leaves: DevicePtr,
    pub(super) slots: DevicePtr,
    pub(super) finals: DevicePtr,
    pub(super) sums: ChangeSums,
    pub(super) changes: Changes,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Groups {
    pub(super) map: OrderedMapRef,
    pub(super) changes: Changes,
    pub(super) begins: DevicePtr,
    pub(super) leaves: DevicePtr,
    pub(super) count: u64,
    pub(super) outs: DevicePtr,
    pub(super) retired: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Size {
    pub(super) groups: Groups,
    pub(super) sums: ChangeSums,
    pub(super) runs: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct NewLeaves {
    pub(super) leaves: DevicePtr,
    pub(super) free: DevicePtr,
    pub(super) free_count: u64,
    pub(super) fresh: u64,
    pub(super) version: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct NewDirectory {
    pub(super) separators: DevicePtr,
    pub(super) handles: DevicePtr,
    pub(super) before: DevicePtr,
    pub(super) levels: [u64; LEVELS],
    pub(super) leaf_count: u64,
    pub(super) depth: u32,
    pub(super) reserved: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Rewrite {
    pub(super) groups: Groups,
    pub(super) fresh: NewLeaves,
    pub(super) to: NewDirectory,
    pub(super) count: u64,
    pub(super) sources: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Keep {
    pub(super) groups: Groups,
    pub(super) to: NewDirectory,
    pub(super) sources: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Merge {
    pub(super) map: OrderedMapRef,
    pub(super) merged: DevicePtr,
    pub(super) twos: u64,
    pub(super) fresh: NewLeaves,
    pub(super) to: NewDirectory,
    pub(super) retired: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Retire {
    pub(super) from: DevicePtr,
    pub(super) handles: DevicePtr,
    pub(super) ends: DevicePtr,
    pub(super) count: u64,
    pub(super) end: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Sweep {
    pub(super) leaves: DevicePtr,
    pub(super) retired: DevicePtr,
    pub(super) ends: DevicePtr,
    pub(super) count: u64,
    pub(super) pins: DevicePtr,
    pub(super) pin_count: u64,
    pub(super) free: DevicePtr,
    pub(super) kept: DevicePtr,
    pub(super) kept_ends: DevicePtr,
    pub(super) listed: DevicePtr,
    pub(super) held: DevicePtr,
    pub(super) leaf_bytes: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Verify {
    pub(super) map: OrderedMapRef,
    pub(super) version: u64,
    pub(super) used: DevicePtr,
    pub(super) handles: u64,
    pub(super) list: DevicePtr,
    pub(super) listed: u64,
    pub(super) wrong: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Fill {
    pub(super) batch: SortedBatch,
    pub(super) operands: DevicePtr,
    pub(super) statuses: DevicePtr,
    pub(super) before: DevicePtr,
    pub(super) fresh: NewLeaves,
    pub(super) to: NewDirectory,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct KeyOrder {
    pub(super) keys: DevicePtr,
    pub(super) count: u64,
    pub(super) disorder: DevicePtr,
    pub(super) repeats: DevicePtr,
}

/// A map that is open for kernels, for their parameters: `wk::OrderedWriterRef<u32, u32>`, `<u64, u64>` or `<U128, u64>` of
/// `warpkeep/ordered_writer.h`. Good until the [writer](super::OrderedWriter) that it was taken from is finished or dropped.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub struct OrderedWriterRef {
    pub(super) map: OrderedMapRef,
    pub(super) heads: DevicePtr,
    pub(super) taken: DevicePtr,
    pub(super) free: DevicePtr,
    pub(super) free_count: u64,
    pub(super) fresh: u64,
    pub(super) capacity: u32,
    pub(super) reserved: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Finish {
    pub(super) writer: OrderedWriterRef,
    pub(super) to: NewDirectory,
    pub(super) version: u64,
    pub(super) nodes: u64,
    pub(super) leaves: u64,
    pub(super) live: DevicePtr,
    pub(super) lows: DevicePtr,
    pub(super) leaf_lows: DevicePtr,
    pub(super) leaf_nodes: DevicePtr,
    pub(super) dead: DevicePtr,
    pub(super) sorted: DevicePtr,
    pub(super) numbers: DevicePtr,
    pub(super) changed: DevicePtr,
    pub(super) retired: DevicePtr,
    pub(super) pairs: DevicePtr,
}

/// The kernels of one type of keys and values. Those of all take the same parameters.
macro_rules! kernels {
    ($($kernel:ident: $params:ty,)*) => {
        #[derive(Debug)]
        pub(super) struct Kernels {
            $(pub(super) $kernel: TypedKernel<$params>,)*
        }

        warpkeep_device::kernel_set! {
            struct U32Kernels in "ordered_map_u32.cu", prefix "ordered_map_u32_" {
                $($kernel: $params,)*
            }
            agree {
                ref_bytes = size_of::<OrderedMapRef>(),
                leaf_bytes = Shape::U32.leaf_bytes(),
                leaf_pairs = LEAF_PAIRS,
                fanout = FANOUT,
                levels = LEVELS,
                merge_pairs = MERGE_PAIRS,
                caching_threads = CACHING_THREADS,
                wrong_words = WRONG_WORDS,
                split_pairs = SPLIT_PAIRS,
                leaf_writers = LEAF_WRITERS,
                keep_leaves = KEEP_LEAVES,
                batch_totals = BATCH_TOTALS,
                order_each = ORDER_EACH,
                writer_ref_bytes = size_of::<OrderedWriterRef>(),
                node_stripes = NODE_STRIPES,
                stripe_words = STRIPE_WORDS,
            }
        }

        warpkeep_device::kernel_set! {
            struct U64Kernels in "ordered_map_u64.cu", prefix "ordered_map_u64_" {
                $($kernel: $params,)*
            }
            agree {
                ref_bytes = size_of::<OrderedMapRef>(),
                leaf_bytes = Shape::U64.leaf_bytes(),
                leaf_pairs = LEAF_PAIRS,
                fanout = FANOUT,
                levels = LEVELS,
                merge_pairs = MERGE_PAIRS,
                caching_threads = CACHING_THREADS,
                wrong_words = WRONG_WORDS,
                split_pairs = SPLIT_PAIRS,
                leaf_writers = LEAF_WRITERS,
                keep_leaves = KEEP_LEAVES,
                batch_totals = BATCH_TOTALS,
                order_each = ORDER_EACH,
                writer_ref_bytes = size_of::<OrderedWriterRef>(),
                node_stripes = NODE_STRIPES,
                stripe_words = STRIPE_WORDS,
                inserted = OrderedStatus::Inserted,
                updated = OrderedStatus::Updated,
                found = OrderedStatus::Found,
                absent = OrderedStatus::Absent,
                erased = OrderedStatus::Erased,
                truncated = OrderedStatus::Truncated,
                full = OrderedStatus::Full,
                insert = OrderedOpKind::Insert,
                put = OrderedOpKind::Put,
                add = OrderedOpKind::Add,
                min = OrderedOpKind::Min,
                max = OrderedOpKind::Max,
                find_op = OrderedOpKind::Find,
                contains = OrderedOpKind::Contains,
                erase = OrderedOpKind::Erase,
                successor = OrderedOpKind::Successor,
                predecessor = OrderedOpKind::Predecessor,
                ceiling = OrderedOpKind::Ceiling,
                floor = OrderedOpKind::Floor,
                count = OrderedOpKind::Count,
                range = OrderedOpKind::Range,
            }
        }

        warpkeep_device::kernel_set! {
            struct U128Kernels in "ordered_map_u128.cu", prefix "ordered_map_u128_" {
                $($kernel: $params,)*
            }
            agree {
                ref_bytes = size_of::<OrderedMapRef>(),
                leaf_bytes = Shape::U128.leaf_bytes(),
                leaf_pairs = LEAF_PAIRS,
                fanout = FANOUT,
                levels = LEVELS,
                merge_pairs = MERGE_PAIRS,
                caching_threads = CACHING_THREADS,
                wrong_words = WRONG_WORDS,
                split_pairs = SPLIT_PAIRS,
                leaf_writers = LEAF_WRITERS,
                keep_leaves = KEEP_LEAVES,
                batch_totals = BATCH_TOTALS,
                order_each = ORDER_EACH,
                writer_ref_bytes = size_of::<OrderedWriterRef>(),
                node_stripes = NODE_STRIPES,
                stripe_words = STRIPE_WORDS,
            }
        }

        impl Kernels {
            pub(super) fn load(device: &Device, shape: Shape) -> Result<Kernels> {
                Ok(match shape {
                    Shape::U32 => {
                        let set = U32Kernels::load(device)?;
                        Kernels { $($kernel: set.$kernel,)* }
                    }
                    Shape::U64 => {
                        let set = U64Kernels::load(device)?;
                        Kernels { $($kernel: set.$kernel,)* }
                    }
                    Shape::U128 => {
                        let set = U128Kernels::load(device)?;
                        Kernels { $($kernel: set.$kernel,)* }
                    }
                })
            }

            pub(super) fn program(shape: Shape) -> Program {
                match shape {
                    Shape::U32 => U32Kernels::program(),
                    Shape::U64 => U64Kernels::program(),
                    Shape::U128 => U128Kernels::program(),
                }
            }
        }
    };
}

kernels! {
    find: Find,
    find_cached: Find,
    near: NearSearch,
    near_cached: NearSearch,
    ranges: Reads,
    ranges_cached: Reads,
    read: Reads,
    rank: Ranks,
    select: Ranks,
    retrieve: Retrieve,
    plan: Plan,
    work: Work,
    gather: Gather,
    size: Size,
    rewrite: Rewrite,
    keep: Keep,
    find_merges: Merge,
    merge: Merge,
    retire: Retire,
    sweep: Sweep,
    verify: Verify,
    fill: Fill,
    check_order: KeyOrder,
    settle: Finish,
    list_nodes: Finish,
    find_changed: Finish,
    keep_unchanged: Finish,
    list_leaves: Finish,
}
