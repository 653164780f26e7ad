//! What the paper has in place of the device index, as a baseline for benchmarks: gets with a thread a key, and copies of a table's hot
//! buckets in device memory. Kernels and parameters of its own; tables use none of it.
//!
//! The copies are a snapshot: after the table was written, [load](Paper::load_cache) them again before the next get.

mod choose;
mod copies;
mod load;
mod params;
mod program;
mod reading;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use warpkeep_device::{Device, KernelSet as _};
use warpkeep_image::Persist;

use self::copies::State;
use self::program::PaperKernels;
pub use self::program::program_for;
pub use self::reading::PaperReading;
use super::engine::check_fixed;
use crate::{Table, TableError};

/// The paper's gets of one table.
///
/// ```no_run
/// # use warpkeep_gphash::{Table, gpu::DeviceEngine, gpu::paper::{CacheError, CachePolicy, Paper}};
/// # use warpkeep_image::Coherent;
/// # fn example(engine: &DeviceEngine<Coherent>, table: &Table<Coherent>) -> Result<(), CacheError> {
/// let paper = Paper::new(engine.device(), table)?;
/// // From now on it is counted which buckets are used.
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
    state: Mutex<State>,
}

impl Paper {
    /// Compiles the kernels for a table; it has no copies of buckets yet.
    pub fn new<P: Persist>(device: &Device, table: &Table<P>) -> Result<Paper, TableError> {
        check_fixed(table)?;
        let error = || TableError::NotForDevices { key: table.key, value: table.value };
        let module = device.load(&program::program_of(table).ok_or_else(error)?)?;
        let kernels = PaperKernels::of(&module)?;
        Ok(Paper { kernels, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which buckets have copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CachePolicy {
    /// Any. Nothing is counted.
    Random = 0,
    /// Those used last.
    Lru = 1,
    /// Those used most. Uses before a load count half after it.
    Lfu = 2,
}

/// The result of loading a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheReport {
    /// Buckets of the table.
    pub buckets: u64,
    /// Those that have copies now. Less than asked for if the device's memory budget does not allow more.
    pub cached: u64,
    /// How long it took.
    pub took: Duration,
}

/// How a cache does, since it was last loaded.
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
    /// Buckets that kernels asked for.
    pub lookups: u64,
    /// Those that were found in device memory.
    pub hits: u64,
    /// Buckets that have copies.
    pub cached_buckets: u64,
    /// Buckets of the table.
    pub buckets: u64,
}

impl CacheStats {
    /// Hits out of lookups; 0 if there were none.
    pub fn hit_rate(&self) -> f64 {
        if self.lookups == 0 { 0.0 } else { self.hits as f64 / self.lookups as f64 }
    }
}

/// Why a cache could not be loaded. The table is good, and gets read the image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// Not a share.
    #[error("a cache cannot hold a share of {share} of the buckets; give a number from 0 to 1")]
    Share {
        /// What was given.
        share: f64,
    },

    /// Items are on their way to other buckets.
    #[error(
        "the table is growing or shrinking, so its buckets are not worth copies yet; load the cache when it is done"
    )]
    Moving,

    /// More buckets than can be numbered.
    #[error("a cache knows {} buckets at the most, and the table has {buckets}; work it without one", u32::MAX - 1)]
    TooManyBuckets {
        /// Buckets of the table.
        buckets: u64,
    },

    /// Of the table or its device.
    #[error(transparent)]
    Table(#[from] TableError),
}

impl From<warpkeep_device::DeviceError> for CacheError {
    fn from(error: warpkeep_device::DeviceError) -> CacheError {
        CacheError::Table(error.into())
    }
}
