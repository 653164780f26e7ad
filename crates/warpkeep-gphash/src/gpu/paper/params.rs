//! What the paper's kernels are given: the structs of `kernels/paper_cache.h`, byte for byte.

use bytemuck::{NoUninit, Pod, Zeroable};
use warpkeep_device::DevicePtr;

use crate::gpu::params::{GetParams, TableParams};

/// The place of a bucket that has no copy.
pub(super) const NOT_CACHED: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct CacheParams {
    pub(super) places: DevicePtr,
    pub(super) copies: DevicePtr,
    pub(super) heat: DevicePtr,
    pub(super) tallies: DevicePtr,
    pub(super) policy: u32,
    pub(super) clock: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct CachedGetParams {
    pub(super) get: GetParams,
    pub(super) cache: CacheParams,
}

/// A bucket that gets a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Filling {
    pub(super) place: u32,
    pub(super) bucket: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct CacheFillParams {
    pub(super) table: TableParams,
    pub(super) cache: CacheParams,
    pub(super) count: u64,
    pub(super) fillings: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub(super) struct CacheAgeParams {
    pub(super) count: u64,
    pub(super) heat: DevicePtr,
}
