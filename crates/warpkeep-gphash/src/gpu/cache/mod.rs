//! The bucket cache: copies of a table's hot buckets in device memory, so that the link carries values and not buckets.
//!
//! Between two loads the same buckets have copies, so readers ask one map and take no locks. What a device publishes reaches the image and
//! the copy; what the CPU writes is [noted](notes::Notes) and copied again before the next kernel reads. Only the buckets of levels
//! have copies, and only while nothing is being drained.

mod choose;
mod copies;
mod load;
mod notes;
#[cfg(test)]
#[cfg(not(no_simulator))]
mod race;

use std::time::Duration;

pub(crate) use copies::Cache;
pub(crate) use notes::Notes;

use crate::TableError;

/// Which buckets have copies.
///
/// ```no_run
/// # use warpkeep_gphash::{Table, gpu::{CacheError, CachePolicy, DeviceEngine}};
/// # use warpkeep_image::Coherent;
/// # fn example(engine: &DeviceEngine<Coherent>, table: &Table<Coherent>) -> Result<(), CacheError> {
/// // From now on it is counted which buckets are used.
/// engine.load_cache(table, 0.0, CachePolicy::Lfu)?;
/// // ... batches ...
/// let report = engine.load_cache(table, 0.2, CachePolicy::Lfu)?;
/// println!("{} of {} buckets have copies", report.cached, report.buckets);
/// // ... batches, and from time to time ...
/// engine.load_cache(table, 0.2, CachePolicy::Lfu)?;
/// println!("hit rate {:.2}", engine.cache_stats()?.hit_rate());
/// # Ok(())
/// # }
/// ```
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

/// What loading a cache came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheReport {
    /// Buckets of the table.
    pub buckets: u64,
    /// Those that have copies now. Less than asked for if the device's memory budget does not allow more.
    pub cached: u64,
    /// Those of them that had none before.
    pub replaced: u64,
    /// How long it took.
    pub took: Duration,
}

/// How a cache does, since it was last made: for another share, policy or table size it is made anew.
///
/// ```
/// use warpkeep_gphash::gpu::CacheStats;
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

/// Why a cache could not be loaded. The table is good, and kernels read the image.
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

    /// Kernels went on reading copies that were to be replaced.
    #[error("{places} cached buckets were in use for too long; load the cache again when fewer kernels run")]
    InUse {
        /// How many.
        places: u64,
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
