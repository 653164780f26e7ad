//! The benchmarks' own kernels, `kernels/*.cu`, and their parameters.
#![allow(unsafe_code, reason = "the simulator's entries are C functions")]

use bytemuck::NoUninit;
use warpkeep_containers::{OrderedWriterRef, SlabAllocRef};
use warpkeep_device::DevicePtr;

/// Words that a kernel spreads its sums over.
pub(crate) const SUMS: usize = 64;

/// Rows to read or write; see `kernels/limits.cu`.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct AccessParams {
    pub(crate) words: DevicePtr,
    pub(crate) rows: u64,
    pub(crate) count: u64,
    pub(crate) seed: u64,
    pub(crate) stride: u64,
    pub(crate) salt: u64,
    pub(crate) sums: DevicePtr,
    pub(crate) homes: u64,
    pub(crate) came: DevicePtr,
}

impl AccessParams {
    /// The row of an access.
    pub(crate) fn row_of(&self, number: u64) -> u64 {
        let drawn = scatter(self.seed, number);
        let below = |range: u64| ((u128::from(drawn) * u128::from(range)) >> 64) as u64;
        if let Some(share) = self.rows.checked_div(self.homes) {
            return number % self.homes * share + below(share);
        }
        if self.stride > 0 { number * self.stride + below(self.stride) } else { below(self.rows) }
    }
}

fn scatter(seed: u64, number: u64) -> u64 {
    let x = number.wrapping_add(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    x ^ (x >> 32)
}

/// Answers to check; see `kernels/answers.cu`.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct AnswersParams {
    pub(crate) count: u64,
    pub(crate) numbers: DevicePtr,
    pub(crate) statuses: DevicePtr,
    pub(crate) values: DevicePtr,
    pub(crate) value_len: u64,
    pub(crate) generation: u64,
    pub(crate) seed: u64,
    pub(crate) status: u32,
    pub(crate) with_value: u32,
    pub(crate) wrong: DevicePtr,
}

/// Sizes of the units that mixed claims are of.
pub(crate) const UNIT_SIZES: [u32; 5] = [32, 64, 128, 256, 512];

/// Units that threads claim or give back; see `kernels/alloc.cu`.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct AllocParams {
    pub(crate) pool: SlabAllocRef,
    pub(crate) handles: DevicePtr,
    pub(crate) count: u64,
    pub(crate) mistakes: DevicePtr,
    pub(crate) rounds: u64,
}

/// The same for units of all sizes; see `kernels/alloc.cu`.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct MixedParams {
    pub(crate) of_32: SlabAllocRef,
    pub(crate) of_64: SlabAllocRef,
    pub(crate) of_128: SlabAllocRef,
    pub(crate) of_256: SlabAllocRef,
    pub(crate) of_512: SlabAllocRef,
    pub(crate) handles: DevicePtr,
    pub(crate) count: u64,
    pub(crate) mistakes: DevicePtr,
    pub(crate) seed: u64,
    pub(crate) gives_back: u64,
}

impl MixedParams {
    /// The size that a thread's unit has, as an index into [`UNIT_SIZES`].
    pub(crate) fn size_class(seed: u64, number: u64) -> usize {
        (scatter(seed, number) >> 32) as usize % UNIT_SIZES.len()
    }
}

/// Columns of requests, and where the answers go; see `kernels/requests.h`.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct RequestColumns {
    pub(crate) ops: DevicePtr,
    pub(crate) keys: DevicePtr,
    pub(crate) values: DevicePtr,
    pub(crate) answers: DevicePtr,
    pub(crate) count: u64,
}

/// Words of a slab of the paper's layout, and the first key that it cannot store.
pub(crate) const WARP_SLAB_WORDS: usize = 16;
pub(crate) const RESERVED_KEYS: u32 = u32::MAX - 1;

/// A pool of the paper's allocator; see `kernels/warp_slab.h`.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct WarpPoolRef {
    pub(crate) units: DevicePtr,
    pub(crate) bitmaps: DevicePtr,
    pub(crate) blocks: u64,
}

/// A table of the paper's layout; see `kernels/warp_slab.h`.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct WarpSlabRef {
    pub(crate) first: DevicePtr,
    pub(crate) pool: WarpPoolRef,
    pub(crate) seed: u64,
    pub(crate) buckets: u64,
}

/// Requests on a table of the paper's layout.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct WarpSlabParams {
    pub(crate) table: WarpSlabRef,
    pub(crate) requests: RequestColumns,
}

/// Bytes of a slab of the paper's graph, its items with weights and without, and the first vertex that it cannot store.
pub(crate) const GRAPH_SLAB_BYTES: usize = 128;
pub(crate) const GRAPH_MAP_ITEMS: u32 = 15;
pub(crate) const GRAPH_SET_ITEMS: u32 = 30;
pub(crate) const RESERVED_VERTICES: u32 = u32::MAX - 1;

/// A graph of the paper; see `kernels/slab_graph.h`.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct SlabGraphRef {
    pub(crate) base: DevicePtr,
    pub(crate) lists: DevicePtr,
    pub(crate) degrees: DevicePtr,
    pub(crate) pool: SlabAllocRef,
    pub(crate) seed: u64,
    pub(crate) vertices: u64,
}

/// What kernels do with a graph of the paper; see `kernels/slab_graph.h`.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct SlabGraphParams {
    pub(crate) graph: SlabGraphRef,
    pub(crate) sources: DevicePtr,
    pub(crate) targets: DevicePtr,
    pub(crate) weights: DevicePtr,
    pub(crate) statuses: DevicePtr,
    pub(crate) count: u64,
    pub(crate) doomed: DevicePtr,
    pub(crate) sums: DevicePtr,
    pub(crate) edges: DevicePtr,
    pub(crate) deletes: u32,
    pub(crate) mirrored: u32,
}

/// Units of the paper's allocator that threads claim or give back.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct WarpAllocParams {
    pub(crate) pool: WarpPoolRef,
    pub(crate) handles: DevicePtr,
    pub(crate) count: u64,
    pub(crate) mistakes: DevicePtr,
}

/// Requests on lists with one node a key; see `kernels/node_list.cu`.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct NodeListParams {
    pub(crate) nodes: DevicePtr,
    pub(crate) buckets: u64,
    pub(crate) fresh: u64,
    pub(crate) seed: u64,
    pub(crate) requests: RequestColumns,
}

/// Cells of a bucket that insertions of Mega-KV's layout have.
pub(crate) const UNIT_CELLS: usize = 8;

/// Searches in an index of Mega-KV's layout; see `kernels/unit_index.cu`.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct UnitSearchParams {
    pub(crate) table: DevicePtr,
    pub(crate) mask: u64,
    pub(crate) hashes: DevicePtr,
    pub(crate) found: DevicePtr,
    pub(crate) count: u64,
}

/// Insertions into one, by partitions.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct UnitInsertParams {
    pub(crate) table: DevicePtr,
    pub(crate) mask: u64,
    pub(crate) hashes: DevicePtr,
    pub(crate) locations: DevicePtr,
    pub(crate) begins: DevicePtr,
    pub(crate) failed: DevicePtr,
}

/// Operations on an ordered map inside a kernel; see `kernels/ordered_changes.cu`.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct OrderedCallParams {
    pub(crate) map: OrderedWriterRef,
    pub(crate) keys: DevicePtr,
    pub(crate) values: DevicePtr,
    pub(crate) statuses: DevicePtr,
    pub(crate) count: u64,
}

/// Columns of operations on ordered structures of the papers; see `kernels/ordered_calls.h`.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct OrderedColumns {
    pub(crate) codes: DevicePtr,
    pub(crate) keys: DevicePtr,
    pub(crate) ends: DevicePtr,
    pub(crate) values: DevicePtr,
    pub(crate) statuses: DevicePtr,
    pub(crate) found_keys: DevicePtr,
    pub(crate) found_values: DevicePtr,
    pub(crate) counts: DevicePtr,
    pub(crate) pair_keys: DevicePtr,
    pub(crate) pair_values: DevicePtr,
    pub(crate) stride: u64,
    pub(crate) count: u64,
    pub(crate) code: u32,
    pub(crate) reserved: u32,
}

/// Pairs and words of a node of the paper's B-tree, and the number that stands for no node.
pub(crate) const TREE_PAIRS: u64 = 15;
pub(crate) const TREE_WORDS: u64 = 16;
pub(crate) const NO_NODE: u32 = (1 << 30) - 1;

/// A B-tree of the paper; see `kernels/link_tree.h`.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct LinkTreeRef {
    pub(crate) nodes: DevicePtr,
    pub(crate) next: DevicePtr,
    pub(crate) capacity: u32,
    pub(crate) reserved: u32,
}

/// Operations on one.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct TreeCallParams {
    pub(crate) tree: LinkTreeRef,
    pub(crate) calls: OrderedColumns,
}

/// A level of one that is built of sorted pairs.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct TreeLevelParams {
    pub(crate) nodes: DevicePtr,
    pub(crate) keys: DevicePtr,
    pub(crate) values: DevicePtr,
    pub(crate) count: u64,
    pub(crate) below: u64,
    pub(crate) first: u32,
    pub(crate) first_below: u32,
    pub(crate) nodes_here: u32,
    pub(crate) each: u32,
    pub(crate) is_leaf: u32,
    pub(crate) reserved: u32,
}

/// Pairs of a leaf of the paper's multiversion B-tree, and the first timestamp that it cannot have.
pub(crate) const VERSION_PAIRS: u64 = 14;
pub(crate) const MOST_TIME: u32 = u32::MAX - 2;
/// Operations of a block between two announcements of its epoch, nodes that it keeps until they are free, and epochs of which a trace has the counts.
pub(crate) const EPOCH_GROUP: u32 = 128;
pub(crate) const EPOCH_RING: u32 = 1024;
pub(crate) const TRACED_EPOCHS: u32 = 4096;
/// Bytes of what a block keeps of its ring between launches.
pub(crate) const EPOCH_RING_BYTES: usize = 32;

/// A multiversion B-tree of the paper; see `kernels/version_tree.h`.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct VersionTreeRef {
    pub(crate) nodes: LinkTreeRef,
    pub(crate) now: DevicePtr,
    pub(crate) kept_until: u32,
    pub(crate) snapshot: u32,
}

/// Epochs of nodes that are replaced; see `kernels/node_epochs.h`.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct EpochsRef {
    pub(crate) epoch: DevicePtr,
    pub(crate) announced: DevicePtr,
    pub(crate) rings: DevicePtr,
    pub(crate) nodes: DevicePtr,
    pub(crate) counts: DevicePtr,
    pub(crate) trace: DevicePtr,
    pub(crate) blocks: u32,
    pub(crate) reserved: u32,
}

/// Operations on a multiversion B-tree.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct VersionCallParams {
    pub(crate) tree: VersionTreeRef,
    pub(crate) calls: OrderedColumns,
    pub(crate) epochs: EpochsRef,
}

/// Sorted arrays that a read looks into at most.
pub(crate) const MOST_RUNS: usize = 32;

/// Reads of sorted arrays; see `kernels/sorted_runs.cu`.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct SortedRunsParams {
    pub(crate) keys: [DevicePtr; MOST_RUNS],
    pub(crate) values: [DevicePtr; MOST_RUNS],
    pub(crate) counts: [u64; MOST_RUNS],
    pub(crate) runs: u64,
    pub(crate) calls: OrderedColumns,
}

/// The parameters of a kernel that does nothing.
pub(crate) type NothingParams = u64;

warpkeep_device::kernel_set! {
    /// Kernels that read and write rows, and one that does nothing.
    pub(crate) struct LimitKernels in "limits.cu", prefix "bench_" {
        read_8: AccessParams,
        read_16: AccessParams,
        read_32: AccessParams,
        read_64: AccessParams,
        read_128: AccessParams,
        read_own_128: AccessParams,
        write_128: AccessParams,
        write_own_128: AccessParams,
        swap_8: AccessParams,
        nothing: NothingParams,
    }
    agree {
        limits_sums = SUMS,
    }
}

warpkeep_device::kernel_set! {
    /// The kernel that checks answers.
    pub(crate) struct AnswerKernels in "answers.cu", prefix "bench_" {
        answers: AnswersParams,
    }
    agree {
        answers_sums = SUMS,
    }
}

warpkeep_device::kernel_set! {
    /// Kernels that claim units and give them back.
    pub(crate) struct AllocKernels in "alloc.cu", prefix "bench_alloc_" {
        claim: AllocParams,
        claim_2: AllocParams,
        claim_8: AllocParams,
        claim_32: AllocParams,
        release: AllocParams,
        release_2: AllocParams,
        release_8: AllocParams,
        release_32: AllocParams,
        churn: AllocParams,
        mixed: MixedParams,
    }
    agree {
        sums = SUMS,
        sizes = UNIT_SIZES.len(),
    }
}

warpkeep_device::kernel_set! {
    /// The slab hash and the allocator of their paper.
    pub(crate) struct WarpSlabKernels in "warp_slab.cu", prefix "bench_warp_slab_" {
        apply: WarpSlabParams,
        claim: WarpAllocParams,
        release: WarpAllocParams,
    }
    agree {
        words = WARP_SLAB_WORDS,
        reserved = RESERVED_KEYS,
    }
}

warpkeep_device::kernel_set! {
    /// The graph of the paper: a slab hash for each vertex.
    pub(crate) struct SlabGraphKernels in "slab_graph.cu", prefix "bench_slab_graph_" {
        apply_map: SlabGraphParams,
        apply_set: SlabGraphParams,
        unlink_map: SlabGraphParams,
        unlink_set: SlabGraphParams,
        clear_map: SlabGraphParams,
        clear_set: SlabGraphParams,
        triangles_map: SlabGraphParams,
        triangles_set: SlabGraphParams,
        collect_map: SlabGraphParams,
        collect_set: SlabGraphParams,
    }
    agree {
        sums = SUMS,
        slab_bytes = GRAPH_SLAB_BYTES,
        map_items = GRAPH_MAP_ITEMS,
        set_items = GRAPH_SET_ITEMS,
        reserved = RESERVED_VERTICES,
    }
}

warpkeep_device::kernel_set! {
    /// Lists with one node a key.
    pub(crate) struct NodeListKernels in "node_list.cu", prefix "bench_node_list_" {
        apply: NodeListParams,
    }
}

warpkeep_device::kernel_set! {
    /// Mega-KV's index: searches by cells of a bucket and lanes of a job, and insertions.
    pub(crate) struct UnitKernels in "unit_index.cu", prefix "bench_unit_" {
        search_8_1: UnitSearchParams,
        search_8_4: UnitSearchParams,
        search_8_8: UnitSearchParams,
        search_16_1: UnitSearchParams,
        search_16_4: UnitSearchParams,
        search_16_8: UnitSearchParams,
        search_16_16: UnitSearchParams,
        search_32_1: UnitSearchParams,
        search_32_4: UnitSearchParams,
        search_32_8: UnitSearchParams,
        search_32_16: UnitSearchParams,
        search_32_32: UnitSearchParams,
        insert: UnitInsertParams,
    }
    agree {
        sums = SUMS,
        cells = UNIT_CELLS,
    }
}

warpkeep_device::kernel_set! {
    /// Inserts and lookups of an ordered map inside a kernel.
    pub(crate) struct OrderedCallKernels in "ordered_changes.cu", prefix "bench_ordered_" {
        insert_4: OrderedCallParams,
        insert_8: OrderedCallParams,
        find_4: OrderedCallParams,
        find_8: OrderedCallParams,
    }
}

warpkeep_device::kernel_set! {
    /// The B-tree of its paper.
    pub(crate) struct LinkTreeKernels in "link_tree.cu", prefix "bench_link_tree_" {
        read: TreeCallParams,
        run: TreeCallParams,
        run_ranges: TreeCallParams,
        insert_coupled: TreeCallParams,
        build: TreeLevelParams,
    }
    agree {
        pairs = TREE_PAIRS,
        words = TREE_WORDS,
        no_right = NO_NODE,
    }
}

warpkeep_device::kernel_set! {
    /// The multiversion B-tree of its paper.
    pub(crate) struct VersionTreeKernels in "version_tree.cu", prefix "bench_version_tree_" {
        read: VersionCallParams,
        run_in_place: VersionCallParams,
        run_in_place_ranges: VersionCallParams,
        run_out_of_place: VersionCallParams,
        run_out_of_place_ranges: VersionCallParams,
        build: TreeLevelParams,
    }
    agree {
        pairs = VERSION_PAIRS,
        words = TREE_WORDS,
        no_right = NO_NODE,
        newest = MOST_TIME,
        group = EPOCH_GROUP,
        ring = EPOCH_RING,
        ring_bytes = EPOCH_RING_BYTES,
        traced_epochs = TRACED_EPOCHS,
    }
}

warpkeep_device::kernel_set! {
    /// Reads of sorted arrays.
    pub(crate) struct SortedRunsKernels in "sorted_runs.cu", prefix "bench_sorted_runs_" {
        read: SortedRunsParams,
    }
    agree {
        most = MOST_RUNS,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use warpkeep_device::{Arch, DeviceError, KernelCache, KernelSet as _, compile_with, compiler_version};

    use super::*;

    #[test]
    fn all_kernels_compile_for_a_gpu_and_nothing_spills() {
        if let Err(error @ DeviceError::NoNvrtc { .. }) = compiler_version() {
            writeln!(std::io::stdout().lock(), "SKIPPED: no NVRTC ({error})").expect("standard output");
            return;
        }
        let programs = [
            LimitKernels::program(),
            AnswerKernels::program(),
            AllocKernels::program(),
            WarpSlabKernels::program(),
            SlabGraphKernels::program(),
            NodeListKernels::program(),
            UnitKernels::program(),
            OrderedCallKernels::program(),
            LinkTreeKernels::program(),
            VersionTreeKernels::program(),
            SortedRunsKernels::program(),
        ];
        for program in programs {
            let compiled =
                compile_with(&KernelCache::none(), Arch::new(9, 0), &program).expect("they compile");
            assert!(!compiled.log.contains("warning"), "{}", compiled.log);
            for kernel in program.kernels {
                let uses =
                    compiled.resources.get(kernel.name).unwrap_or_else(|| panic!("no {}", kernel.name));
                assert!(!uses.spills() && uses.registers <= 64, "{}: {uses:?}", kernel.name);
            }
        }
    }
}
