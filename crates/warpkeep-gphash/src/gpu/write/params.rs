//! Kernel parameters of fused writes and of the block pool: the structs of `kernels/write/fused.h`, `pipeline.h` and
//! `block_pool.h`, byte for byte, with the same names. The fields are documented there.

use bytemuck::{NoUninit, Pod, Zeroable};
use warpkeep_device::{DevicePtr, DuplicateTable, Partition};

use crate::gpu::params::{GetParams, TableParams};

/// The counters of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct WriteSummary {
    pub(crate) effects: u64,
    pub(crate) created: u64,
    pub(crate) removed: u64,
    pub(crate) fallbacks: u64,
    pub(crate) retired: u64,
    pub(crate) rows_wanted: u64,
    pub(crate) prefix_effects: u64,
    pub(crate) is_complete: u64,
}

/// The maximum number of chunks of a batch: more would hardly overlap more work.
pub(crate) const MOST_CHUNKS: usize = 64;

/// Bytes of an effect.
pub(crate) const EFFECT_BYTES: usize = 48;

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct FusedParams {
    pub(crate) table: TableParams,
    pub(crate) count: u64,
    pub(crate) first: u64,
    pub(crate) end: u64,
    pub(crate) keys: DevicePtr,
    pub(crate) values: DevicePtr,
    pub(crate) statuses: DevicePtr,
    pub(crate) first_version: u64,
    pub(crate) copies: DevicePtr,
    pub(crate) dedup: DuplicateTable,
    pub(crate) blocks: DevicePtr,
    pub(crate) effects: DevicePtr,
    pub(crate) summary: DevicePtr,
    pub(crate) fallbacks: DevicePtr,
    pub(crate) retired: DevicePtr,
    pub(crate) new_targets: DevicePtr,
    pub(crate) has_effect: DevicePtr,
    pub(crate) unsorted: DevicePtr,
    pub(crate) ranks: DevicePtr,
    pub(crate) partition: Partition,
    pub(crate) mailbox: DevicePtr,
    pub(crate) blocks_done: DevicePtr,
    pub(crate) report: DevicePtr,
    pub(crate) digests: DevicePtr,
    pub(crate) op: u32,
    pub(crate) block_len: u32,
    pub(crate) wide: u32,
    pub(crate) index_bits: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct StepParams {
    pub(crate) batch: FusedParams,
    pub(crate) step: u64,
    pub(crate) chunks: u64,
    pub(crate) work: u64,
    pub(crate) prefix_chunks: u64,
    pub(crate) send_end: u64,
}

/// Kinds of work of a step: stores over the link; marking index entries busy, which sends readers to the image; setting
/// them.
pub(crate) const SEND: u64 = 1;
pub(crate) const MARK_BUSY: u64 = 2;
pub(crate) const SET_ENTRIES: u64 = 4;
/// All three.
pub(crate) const WHOLE_STEP: u64 = SEND | MARK_BUSY | SET_ENTRIES;
/// Threads of a block that only sends.
pub(crate) const SEND_THREADS: u32 = 512;

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct RedirectParams {
    pub(crate) batch: FusedParams,
    pub(crate) rows: GetParams,
    pub(crate) free_rows: DevicePtr,
    pub(crate) free_count: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct CopyLevelsParams {
    pub(crate) table: TableParams,
    pub(crate) copies: DevicePtr,
    pub(crate) count: u64,
    pub(crate) offsets: DevicePtr,
}

/// Contiguous blocks: the offset of the first, and the number of blocks in the runs before.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct BlockRun {
    pub(crate) offset: u64,
    pub(crate) before: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct ExpandParams {
    pub(crate) runs: DevicePtr,
    pub(crate) run_count: u64,
    pub(crate) count: u64,
    pub(crate) block_len: u64,
    pub(crate) tile_blocks: u32,
    pub(crate) value_len: u32,
    pub(crate) blocks: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct SortParams {
    pub(crate) blocks: DevicePtr,
    pub(crate) count: u64,
    pub(crate) ranks: DevicePtr,
    pub(crate) partition: Partition,
    pub(crate) sorted: DevicePtr,
}
