//! The paper's kernels.

use warpkeep_core::{KeySpec, ValueSpec};
use warpkeep_device::{KernelSet as _, Program};
use warpkeep_image::Persist;

use super::CachePolicy;
use super::params::{CacheAgeParams, CacheFillParams, CachedGetParams, Filling, NOT_CACHED};
use crate::gpu::params::GetParams;
use crate::gpu::program::{constants_for, constants_of};
use crate::{Geometry, Layout, Table};

warpkeep_device::kernel_set! {
    /// The paper's gets, and what fills its bucket cache.
    pub(super) struct PaperKernels in "paper.cu", prefix "gphash_paper_" {
        get: CachedGetParams,
        get_alone: GetParams,
        fill: CacheFillParams,
        age: CacheAgeParams,
    }
    agree {
        filling_bytes = size_of::<Filling>(),
        not_cached = NOT_CACHED,
        lru = CachePolicy::Lru as u32,
        lfu = CachePolicy::Lfu as u32,
    }
}

/// The paper's kernels for new tables of one kind; `None` if no device can work such tables.
pub fn program_for(geometry: Geometry, layout: Layout, key: KeySpec, value: ValueSpec) -> Option<Program> {
    Some(PaperKernels::program().with_constants(constants_for(geometry, layout, key, value)?))
}

/// The same for a table.
pub(super) fn program_of<P: Persist>(table: &Table<P>) -> Option<Program> {
    Some(PaperKernels::program().with_constants(constants_of(table)?))
}
