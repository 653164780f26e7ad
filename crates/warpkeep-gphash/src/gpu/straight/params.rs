//! What kernels are given: the structs of `kernels/straight.h`, `parts.h` and `supply.h`, byte for byte.

use bytemuck::{NoUninit, Pod, Zeroable};
use warpkeep_device::DevicePtr;

use crate::gpu::params::{GetParams, TableParams};
use crate::gpu::regions::Regions;

/// What a batch written straight through came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Came {
    pub(crate) acts: u64,
    pub(crate) created: u64,
    pub(crate) removed: u64,
    pub(crate) asked: u64,
    pub(crate) retired: u64,
    /// Rows of the value cache that were asked for.
    pub(crate) rows: u64,
    /// Acts of the operations that were decided before the others.
    pub(crate) early: u64,
    /// Not 0 once the device has told the rest.
    pub(crate) is_told: u64,
}

/// Parts of a batch, at the most: with more of them there is hardly more at once.
pub(crate) const MOST_PARTS: usize = 64;

/// Bytes of an enrolment, and of an act.
pub(crate) const ENROLLED_BYTES: usize = 16;
pub(crate) const ACT_BYTES: usize = 48;

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct StraightParams {
    pub(crate) table: TableParams,
    pub(crate) count: u64,
    pub(crate) first: u64,
    pub(crate) end: u64,
    pub(crate) keys: DevicePtr,
    pub(crate) values: DevicePtr,
    pub(crate) statuses: DevicePtr,
    pub(crate) first_version: u64,
    pub(crate) copies: DevicePtr,
    pub(crate) enrolled: DevicePtr,
    pub(crate) enrolments: u64,
    pub(crate) blocks: DevicePtr,
    pub(crate) acts: DevicePtr,
    pub(crate) came: DevicePtr,
    pub(crate) asks: DevicePtr,
    pub(crate) retired: DevicePtr,
    pub(crate) rows: DevicePtr,
    pub(crate) acting: DevicePtr,
    pub(crate) decided: DevicePtr,
    pub(crate) ranks: DevicePtr,
    pub(crate) regions: Regions,
    pub(crate) words: DevicePtr,
    pub(crate) sent: DevicePtr,
    pub(crate) told: DevicePtr,
    pub(crate) digests: DevicePtr,
    pub(crate) op: u32,
    pub(crate) block_len: u32,
    pub(crate) wide: u32,
    pub(crate) index_bits: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct BeatParams {
    pub(crate) straight: StraightParams,
    pub(crate) beat: u64,
    pub(crate) parts: u64,
    pub(crate) does: u64,
    pub(crate) early: u64,
    pub(crate) until: u64,
}

/// What a launch does of a beat: what crosses the link, what sends readers to the image, and what brings them back.
pub(crate) const SENDS: u64 = 1;
pub(crate) const VEILS: u64 = 2;
pub(crate) const ENTRIES: u64 = 4;
/// All of it.
pub(crate) const WHOLE_BEAT: u64 = SENDS | VEILS | ENTRIES;
/// Threads of a block that does nothing but send.
pub(crate) const SEND_THREADS: u32 = 512;

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct FollowParams {
    pub(crate) batch: StraightParams,
    pub(crate) rows: GetParams,
    pub(crate) spares: DevicePtr,
    pub(crate) spare_count: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct RecopyParams {
    pub(crate) table: TableParams,
    pub(crate) copies: DevicePtr,
    pub(crate) count: u64,
    pub(crate) offsets: DevicePtr,
}

/// Blocks side by side.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct BlockRun {
    pub(crate) offset: u64,
    pub(crate) before: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(crate) struct SpellParams {
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
    pub(crate) regions: Regions,
    pub(crate) sorted: DevicePtr,
}
