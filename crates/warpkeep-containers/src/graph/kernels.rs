//! The kernels of `kernels/graph.cu`, and what both sides agree on.

use bytemuck::NoUninit;
use warpkeep_device::DevicePtr;

use super::edge::{EdgeOpKind, EdgeStatus};
use super::sample::Pick;
use super::sample_columns::NO_VERTEX;
use super::sample_params::{Choose, Number};

/// Threads of a block.
pub(super) const THREADS: u32 = 128;
/// Lanes of a warp.
pub(super) const WARP: u64 = 32;
/// Words that the kernels of a batch count in: `graph_batch::Control`.
pub(super) const CONTROL_WORDS: usize = 14;
/// The first of the two that [`GraphKernels::measure`] counts in.
pub(super) const MEDIUMS: usize = 4;
/// Columns of sums of runs, and of segments.
pub(super) const RUN_SUMS: u32 = 3;
pub(super) const SEGMENT_SUMS: u32 = 4;
/// Threads of a block that sums up, at most.
pub(super) const SUM_THREADS: u32 = 1024;
/// Lanes that work a short segment of a large batch.
pub(super) const SHORT_LANES: u64 = 8;
/// Threads of the block that plans a small batch, at most, and runs of such a batch.
pub(super) const PLAN_THREADS: u32 = 1024;
pub(super) const MOST_RUNS: u64 = 4096;
/// Words that [`GraphKernels::verify`] counts in: `graph_whole::Verified`.
pub(super) const VERIFIED_WORDS: usize = 7;

/// Words that the kernels of triangles count in: `graph_triangles::Control`.
pub(super) const TRIANGLE_WORDS: usize = FOUND + 64 * 4;
/// The first word of triangles; those between the sums are 0.
pub(super) const FOUND: usize = 4;
/// Vertices with more edges are oriented by a block.
pub(super) const HUB: u64 = 4096;
/// The longest list that a tile has in its registers; it has as many lanes.
pub(super) const TINY: u64 = 8;
/// The longest list that a warp has in its table.
pub(super) const SHORT: u64 = 64;
/// Slots of the table of a block.
pub(super) const BLOCK_SLOTS: u32 = 4096;
/// The effects of a run that adds an edge, and of one that removes it: `graph_batch::Effect`.
pub(super) const ADDS: u32 = 1;
pub(super) const REMOVES: u32 = 2;

/// Words that [`GraphKernels::purge`] counts in: `graph_whole::Purged`.
pub(super) const PURGED_WORDS: usize = 5;

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
    pub(super) control: DevicePtr,
    pub(super) named: u64,
    pub(super) inserted: u64,
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
    pub(super) runs_at: DevicePtr,
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
    pub(super) classes: DevicePtr,
    pub(super) owners: DevicePtr,
    pub(super) listed: DevicePtr,
    pub(super) sums: DevicePtr,
    pub(super) stride: u64,
    pub(super) segments: u64,
    pub(super) mediums: u64,
    pub(super) moved: u64,
    pub(super) control: DevicePtr,
    pub(super) pool_end: u64,
    pub(super) frozen: u64,
    pub(super) touched: DevicePtr,
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
    pub(super) weights: DevicePtr,
    pub(super) ids: DevicePtr,
    pub(super) times: DevicePtr,
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
    pub(super) from: u64,
    pub(super) until: u64,
    pub(super) to: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Purge {
    pub(super) graph: GraphRef,
    pub(super) doomed: DevicePtr,
    pub(super) doomed_words: u64,
    pub(super) control: DevicePtr,
    pub(super) needs: DevicePtr,
    pub(super) pool_end: u64,
    pub(super) frozen: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Held {
    pub(super) pinned: GraphRef,
    pub(super) graph: GraphRef,
    pub(super) frozen: u64,
    pub(super) slots: DevicePtr,
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
pub(super) struct Rank {
    pub(super) graph: GraphRef,
    pub(super) ranks: DevicePtr,
    pub(super) sums: DevicePtr,
    pub(super) dangling: DevicePtr,
    pub(super) change: DevicePtr,
    pub(super) damping: u64,
    pub(super) base: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Orient {
    pub(super) graph: GraphRef,
    pub(super) degrees: DevicePtr,
    pub(super) lists: DevicePtr,
    pub(super) targets: DevicePtr,
    pub(super) control: DevicePtr,
    pub(super) hubs: DevicePtr,
    pub(super) some: DevicePtr,
    pub(super) many: DevicePtr,
    pub(super) count: u64,
    pub(super) most: u32,
    pub(super) reserved: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Changed {
    pub(super) graph: GraphRef,
    pub(super) sources: DevicePtr,
    pub(super) targets: DevicePtr,
    pub(super) effects: DevicePtr,
    pub(super) firsts: DevicePtr,
    pub(super) runs: u64,
    pub(super) segments: u64,
    pub(super) triangles: DevicePtr,
    pub(super) effect: u32,
    pub(super) reserved: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Peel {
    pub(super) graph: GraphRef,
    pub(super) left: DevicePtr,
    pub(super) cores: DevicePtr,
    pub(super) frontier: DevicePtr,
    pub(super) count: u64,
    pub(super) next: DevicePtr,
    pub(super) found: DevicePtr,
    pub(super) least: DevicePtr,
    pub(super) level: u64,
}

warpkeep_device::kernel_set! {
    pub(super) struct GraphKernels in "graph.cu", prefix "graph_" {
        largest: Expand,
        expand: Expand,
        resolve: Update,
        relocate: Update,
        put: Update,
        commit: Update,
        plan: Update,
        finish: Update,
        sum_runs: Update,
        place: Update,
        measure: Update,
        sum_segments: Update,
        settle_needs: Update,
        finish_short: Update,
        finish_medium: Update,
        exists: Lookup,
        degrees: Gather,
        gather: Gather,
        list_blocks: Compact,
        measure_blocks: Compact,
        fetch_part: Compact,
        store_part: Compact,
        rebase: Compact,
        measure_purge: Purge,
        purge: Purge,
        count_frozen: Held,
        count_held: Held,
        verify: Verify,
        allot: Choose,
        choose_any: Choose,
        choose_some: Choose,
        stage: Choose,
        stage_by_warp: Choose,
        fetch: Choose,
        enter: Number,
        mark: Number,
        assign: Number,
        advance: Level,
        join: Join,
        shorten: Join,
        spread: Rank,
        settle: Rank,
        list_degrees: Orient,
        orient: Orient,
        orient_hubs: Orient,
        count_tiny: Orient,
        count_short: Orient,
        count_long: Orient,
        count_changed: Changed,
        prepare: Peel,
        take: Peel,
        peel: Peel,
    }
    agree {
        ref_bytes = size_of::<GraphRef>(),
        control_words = CONTROL_WORDS,
        plan_threads = PLAN_THREADS,
        most_runs = MOST_RUNS,
        mediums = MEDIUMS,
        run_sums = RUN_SUMS,
        segment_sums = SEGMENT_SUMS,
        sum_threads = SUM_THREADS,
        short_lanes = SHORT_LANES,
        verified_words = VERIFIED_WORDS,
        purged_words = PURGED_WORDS,
        triangle_words = TRIANGLE_WORDS,
        found = FOUND,
        hub = HUB,
        tiny = TINY,
        short = SHORT,
        block_slots = BLOCK_SLOTS,
        adds = ADDS,
        removes = REMOVES,
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
        no_vertex = NO_VERTEX,
    }
}
