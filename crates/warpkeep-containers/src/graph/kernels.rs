//! The kernels of `kernels/graph.cu`, and what both sides agree on.

use bytemuck::NoUninit;
use warpkeep_device::DevicePtr;

use super::edge::{EdgeOpKind, EdgeStatus};
use super::sample::Pick;

/// Threads of a block.
pub(super) const THREADS: u32 = 128;
/// Lanes of a warp.
pub(super) const WARP: u64 = 32;
/// Words that the kernels of a batch count in: `graph_batch::Control`.
pub(super) const CONTROL_WORDS: usize = 9;
/// The first of them that [`GraphKernels::measure`] counts in.
pub(super) const NEEDED: usize = 6;
/// Words that [`GraphKernels::verify`] counts in: `graph_whole::Verified`.
pub(super) const VERIFIED_WORDS: usize = 7;

/// What kernels need to read a graph: the struct of the same name in `warpkeep/graph.h`, to be a part of a kernel's parameters.
///
/// It stays good until the next call of the host that changes the graph.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub struct GraphRef {
    pub(super) records: DevicePtr,
    pub(super) targets: DevicePtr,
    pub(super) weights: DevicePtr,
    pub(super) ids: DevicePtr,
    pub(super) times: DevicePtr,
    pub(super) vertices: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Expand {
    pub(super) sources: DevicePtr,
    pub(super) targets: DevicePtr,
    pub(super) codes: DevicePtr,
    pub(super) sorted: DevicePtr,
    pub(super) numbers: DevicePtr,
    pub(super) control: DevicePtr,
    pub(super) count: u64,
    pub(super) code: u32,
    pub(super) bits: u32,
    pub(super) mirrored: u32,
    pub(super) drops_loops: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Update {
    pub(super) graph: GraphRef,
    pub(super) sorted: DevicePtr,
    pub(super) numbers: DevicePtr,
    pub(super) begins: DevicePtr,
    pub(super) runs: u64,
    pub(super) entries: u64,
    pub(super) codes: DevicePtr,
    pub(super) weights: DevicePtr,
    pub(super) ids: DevicePtr,
    pub(super) times: DevicePtr,
    pub(super) statuses: DevicePtr,
    pub(super) sources: DevicePtr,
    pub(super) targets: DevicePtr,
    pub(super) places: DevicePtr,
    pub(super) winners: DevicePtr,
    pub(super) effects: DevicePtr,
    pub(super) added: DevicePtr,
    pub(super) removed: DevicePtr,
    pub(super) firsts: DevicePtr,
    pub(super) needs: DevicePtr,
    pub(super) moves: DevicePtr,
    pub(super) segments: u64,
    pub(super) moved: u64,
    pub(super) control: DevicePtr,
    pub(super) pool_end: u64,
    pub(super) code: u32,
    pub(super) bits: u32,
    pub(super) mirrored: u32,
    pub(super) drops_loops: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Lookup {
    pub(super) graph: GraphRef,
    pub(super) sources: DevicePtr,
    pub(super) targets: DevicePtr,
    pub(super) found: DevicePtr,
    pub(super) count: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Gather {
    pub(super) graph: GraphRef,
    pub(super) listed: DevicePtr,
    pub(super) count: u64,
    pub(super) begins: DevicePtr,
    pub(super) total: DevicePtr,
    pub(super) first: u64,
    pub(super) edges: u64,
    pub(super) targets: DevicePtr,
    pub(super) weights: DevicePtr,
    pub(super) ids: DevicePtr,
    pub(super) times: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Compact {
    pub(super) graph: GraphRef,
    pub(super) count: DevicePtr,
    pub(super) olds: DevicePtr,
    pub(super) listed: DevicePtr,
    pub(super) sizes: DevicePtr,
    pub(super) degrees: DevicePtr,
    pub(super) blocks: u64,
    pub(super) first: u64,
    pub(super) edges: u64,
    pub(super) array: DevicePtr,
    pub(super) staging: DevicePtr,
    pub(super) wide: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Purge {
    pub(super) graph: GraphRef,
    pub(super) doomed: DevicePtr,
    pub(super) doomed_words: u64,
    pub(super) removed: DevicePtr,
    pub(super) loops: DevicePtr,
    pub(super) dead: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Verify {
    pub(super) graph: GraphRef,
    pub(super) pool_end: u64,
    pub(super) control: DevicePtr,
    pub(super) mirrored: u32,
    pub(super) drops_loops: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Sample {
    pub(super) graph: GraphRef,
    pub(super) vertices: DevicePtr,
    pub(super) from: DevicePtr,
    pub(super) until: DevicePtr,
    pub(super) counts: DevicePtr,
    pub(super) places: DevicePtr,
    pub(super) keys: DevicePtr,
    pub(super) targets: DevicePtr,
    pub(super) ids: DevicePtr,
    pub(super) times: DevicePtr,
    pub(super) count: u64,
    pub(super) seed: u64,
    pub(super) hop: u64,
    pub(super) most: u32,
    pub(super) pick: u32,
    pub(super) replaces: u32,
    pub(super) reserved: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Level {
    pub(super) graph: GraphRef,
    pub(super) levels: DevicePtr,
    pub(super) frontier: DevicePtr,
    pub(super) count: u64,
    pub(super) next: DevicePtr,
    pub(super) found: DevicePtr,
    pub(super) level: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Join {
    pub(super) graph: GraphRef,
    pub(super) parents: DevicePtr,
    pub(super) changes: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Count {
    pub(super) graph: GraphRef,
    pub(super) triangles: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Rank {
    pub(super) graph: GraphRef,
    pub(super) ranks: DevicePtr,
    pub(super) sums: DevicePtr,
    pub(super) dangling: DevicePtr,
    pub(super) damping: u64,
    pub(super) base: u64,
}

warpkeep_device::kernel_set! {
    pub(super) struct GraphKernels in "graph.cu", prefix "graph_" {
        largest: Expand,
        expand: Expand,
        resolve: Update,
        measure: Update,
        relocate: Update,
        shift: Update,
        put: Update,
        commit: Update,
        exists: Lookup,
        degrees: Gather,
        gather: Gather,
        list_blocks: Compact,
        measure_blocks: Compact,
        fetch_part: Compact,
        store_part: Compact,
        rebase: Compact,
        purge: Purge,
        verify: Verify,
        sample: Sample,
        advance: Level,
        join: Join,
        shorten: Join,
        triangles: Count,
        spread: Rank,
        settle: Rank,
    }
    agree {
        ref_bytes = size_of::<GraphRef>(),
        control_words = CONTROL_WORDS,
        needed = NEEDED,
        verified_words = VERIFIED_WORDS,
        insert = EdgeOpKind::Insert,
        delete = EdgeOpKind::Delete,
        inserted = EdgeStatus::Inserted,
        updated = EdgeStatus::Updated,
        deleted = EdgeStatus::Deleted,
        absent = EdgeStatus::Absent,
        loop_dropped = EdgeStatus::Loop,
        uniform = Pick::Uniform,
        weighted = Pick::Weighted,
        last = Pick::Last,
    }
}
