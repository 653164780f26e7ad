//! The kernels of `kernels/cuckoo_index.cu`, and what both sides agree on.

use bytemuck::NoUninit;
use warpkeep_device::DevicePtr;

use super::NO_LOCATION;
use super::op::{IndexOpKind, IndexStatus};
use super::table::CuckooIndexRef;
use crate::spread_count::COUNT_WORDS;

/// Threads of a block.
pub(super) const THREADS: u32 = 128;
/// Cells of a bucket.
pub(super) const CELLS: usize = 8;
/// An index has 2^k buckets, and k lies between these.
pub(super) const LEAST_BITS: u32 = 1;
pub(super) const MOST_BITS: u32 = 30;
/// What signatures are multiplied by.
pub(super) const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
/// Words that kernels count in. The first ones have the number of entries.
pub(super) const CONTROL_WORDS: usize = COUNT_WORDS + 4;
/// Which word counts the runs that are not finished, and which the first of those that `verify` counts in.
pub(super) const PENDING: usize = COUNT_WORDS;
pub(super) const FIRST_VERIFIED: usize = COUNT_WORDS + 2;

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Plan {
    pub(super) index: CuckooIndexRef,
    pub(super) hashes: DevicePtr,
    pub(super) sorted: DevicePtr,
    pub(super) numbers: DevicePtr,
    pub(super) count: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Batch {
    pub(super) index: CuckooIndexRef,
    pub(super) hashes: DevicePtr,
    pub(super) sorted: DevicePtr,
    pub(super) numbers: DevicePtr,
    pub(super) begins: DevicePtr,
    pub(super) runs: u64,
    pub(super) count: u64,
    pub(super) codes: DevicePtr,
    pub(super) locations: DevicePtr,
    pub(super) olds: DevicePtr,
    pub(super) statuses: DevicePtr,
    pub(super) matches: DevicePtr,
    pub(super) found: DevicePtr,
    pub(super) list: DevicePtr,
    pub(super) listed: u64,
    pub(super) pending: DevicePtr,
    pub(super) runs_at: DevicePtr,
    pub(super) code: u32,
    pub(super) refuses: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Search {
    pub(super) index: CuckooIndexRef,
    pub(super) hashes: DevicePtr,
    pub(super) statuses: DevicePtr,
    pub(super) matches: DevicePtr,
    pub(super) found: DevicePtr,
    pub(super) count: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct SearchAll {
    pub(super) index: CuckooIndexRef,
    pub(super) hashes: DevicePtr,
    pub(super) counts: DevicePtr,
    pub(super) locations: DevicePtr,
    pub(super) count: u64,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct Whole {
    pub(super) index: CuckooIndexRef,
    pub(super) cells: u64,
}

warpkeep_device::kernel_set! {
    pub(super) struct IndexKernels in "cuckoo_index.cu", prefix "cuckoo_index_" {
        plan: Plan,
        apply: Batch,
        insert: Batch,
        erase: Batch,
        place: Batch,
        search: Search,
        search_all: SearchAll,
        verify: Whole,
    }
    agree {
        ref_bytes = size_of::<CuckooIndexRef>(),
        cells = CELLS,
        least_bits = LEAST_BITS,
        most_bits = MOST_BITS,
        no_location = NO_LOCATION,
        spread = SPREAD,
        control_words = CONTROL_WORDS,
        count_words = COUNT_WORDS,
        inserted = IndexStatus::Inserted,
        replaced = IndexStatus::Replaced,
        found = IndexStatus::Found,
        absent = IndexStatus::Absent,
        deleted = IndexStatus::Deleted,
        full = IndexStatus::Full,
        displaced = IndexStatus::Displaced,
        truncated = IndexStatus::Truncated,
        bad_location = IndexStatus::BadLocation,
        insert = IndexOpKind::Insert,
        replace = IndexOpKind::Replace,
        delete = IndexOpKind::Delete,
        search_op = IndexOpKind::Search,
    }
}
