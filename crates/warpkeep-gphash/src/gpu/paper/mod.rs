//! The paper's gets, as a baseline for benchmarks: one thread per key instead of a warp, and a cache of hot buckets in
//! device memory instead of the device index. They have kernels and parameters of their own. Tables do not use them.
//!
//! The cache is a snapshot. After a write to the table, [load](Paper::load_cache) it again before the next get.

mod cache;
mod reading;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytemuck::{NoUninit, Pod, Zeroable};
use warpkeep_core::{KeySpec, ValueSpec};
use warpkeep_device::{Device, DevicePtr, KernelSet as _, Program};
use warpkeep_image::Persist;

use self::cache::CacheState;
pub use self::reading::PaperReading;
use crate::gpu::engine::check_fixed;
use crate::gpu::kernels::{constants_for, constants_of};
use crate::gpu::params::{GetParams, TableParams};
use crate::{Geometry, Layout, Table, TableError};

/// The paper's gets of one table.
///
/// ```no_run
/// # use warpkeep_gphash::{Table, gpu::DeviceEngine, gpu::paper::{CacheError, CachePolicy, Paper}};
/// # use warpkeep_image::Coherent;
/// # fn example(engine: &DeviceEngine<Coherent>, table: &Table<Coherent>) -> Result<(), CacheError> {
/// let paper = Paper::new(engine.device(), table)?;
/// // The first load starts the counters of the buckets.
/// paper.load_cache(engine, table, 0.0, CachePolicy::Lfu)?;
/// // ... batches ...
/// let report = paper.load_cache(engine, table, 0.2, CachePolicy::Lfu)?;
/// println!("{} of {} buckets have copies", report.cached, report.buckets);
/// println!("hit rate {:.2}", paper.cache_stats()?.hit_rate());
/// # Ok(())
/// # }
/// ```
pub struct Paper {
    kernels: PaperKernels,
    state: Mutex<CacheState>,
}

impl Paper {
    /// Compiles the kernels for a table. The cache is empty.
    pub fn new<P: Persist>(device: &Device, table: &Table<P>) -> Result<Paper, TableError> {
        check_fixed(table)?;
        let error = || TableError::NotForDevices { key: table.key, value: table.value };
        let program = PaperKernels::program().with_constants(constants_of(table).ok_or_else(error)?);
        let kernels = PaperKernels::of(&device.load(&program)?)?;
        Ok(Paper { kernels, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The paper's kernels for new tables of one kind; `None` if no device supports such tables.
pub fn program_for(geometry: Geometry, layout: Layout, key: KeySpec, value: ValueSpec) -> Option<Program> {
    Some(PaperKernels::program().with_constants(constants_for(geometry, layout, key, value)?))
}

/// Which buckets the cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CachePolicy {
    /// A random choice. Uses are not counted.
    Random = 0,
    /// The buckets that were used last.
    Lru = 1,
    /// The buckets that were used most often. Each load halves the counts.
    Lfu = 2,
}

/// The result of loading a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheReport {
    /// Buckets of the table.
    pub buckets: u64,
    /// Buckets in the cache: fewer than requested if the device's memory budget does not allow more.
    pub cached: u64,
    /// The duration of the load.
    pub took: Duration,
}

/// Counters of a cache since its last load.
///
/// ```
/// use warpkeep_gphash::gpu::paper::CacheStats;
///
/// let stats = CacheStats { lookups: 400, hits: 300, cached_buckets: 20, buckets: 100 };
/// assert_eq!(stats.hit_rate(), 0.75);
/// assert_eq!(CacheStats::default().hit_rate(), 0.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Buckets that gets needed.
    pub lookups: u64,
    /// Those found in device memory.
    pub hits: u64,
    /// Buckets in the cache.
    pub cached_buckets: u64,
    /// Buckets of the table.
    pub buckets: u64,
}

impl CacheStats {
    /// Hits per lookup; 0 if there were no lookups.
    pub fn hit_rate(&self) -> f64 {
        if self.lookups == 0 { 0.0 } else { self.hits as f64 / self.lookups as f64 }
    }
}

/// Why a cache could not be loaded. The table is intact, and gets read the image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The share is not between 0 and 1.
    #[error("a cache cannot hold a share of {share} of the buckets; give a number from 0 to 1")]
    InvalidShare {
        /// The share that was given.
        share: f64,
    },

    /// A growth or shrink is moving items to other buckets.
    #[error(
        "the table is growing or shrinking, so its buckets are not worth copies yet; load the cache when it is done"
    )]
    TableResizing,

    /// The table has more buckets than a cache can number.
    #[error("a cache knows {} buckets at the most, and the table has {buckets}; work it without one", u32::MAX - 1)]
    TooManyBuckets {
        /// Buckets of the table.
        buckets: u64,
    },

    /// An error of the table or of its device.
    #[error(transparent)]
    Table(#[from] TableError),
}

impl From<warpkeep_device::DeviceError> for CacheError {
    fn from(error: warpkeep_device::DeviceError) -> CacheError {
        CacheError::Table(error.into())
    }
}

warpkeep_device::kernel_set! {
    /// The paper's gets, and the kernels that fill its bucket cache.
    struct PaperKernels in "paper.cu", prefix "gphash_paper_" {
        get: CachedGetParams,
        get_alone: GetParams,
        fill: CacheFillParams,
        age: CacheAgeParams,
    }
    agree {
        filling_bytes = size_of::<CacheFill>(),
        not_cached = NOT_CACHED,
        lru = CachePolicy::Lru as u32,
        lfu = CachePolicy::Lfu as u32,
    }
}

// The structs of `kernels/paper/cache.h`, byte for byte.

/// The frame of a bucket that has no copy.
const NOT_CACHED: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
struct CacheParams {
    frames: DevicePtr,
    copies: DevicePtr,
    frequencies: DevicePtr,
    hit_counters: DevicePtr,
    policy: u32,
    clock: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
struct CachedGetParams {
    get: GetParams,
    cache: CacheParams,
}

/// A bucket, and the frame that gets its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct CacheFill {
    frame: u32,
    bucket: u32,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
struct CacheFillParams {
    table: TableParams,
    cache: CacheParams,
    count: u64,
    fills: DevicePtr,
}

#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
struct CacheAgeParams {
    count: u64,
    frequencies: DevicePtr,
}
