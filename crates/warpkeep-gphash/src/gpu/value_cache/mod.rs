//! The value cache: values of the most frequent keys in device memory, so that only the others cross the link.
//!
//! # How
//!
//! A cached value has a row in device memory. The entry of its key in the [device index](super::index) refers to the
//! row instead of the record, so that the test whether a value is cached costs nothing. While the engine
//! [learns](super::DeviceEngine::learn_values), gets count how often each entry is used;
//! [loading](super::DeviceEngine::load_values) gives rows to the most frequent keys. Between two loads the choice of
//! keys is frozen.
//!
//! | file | contents |
//! | --- | --- |
//! | `mod.rs` | public types, frequency counters |
//! | `rows.rs` | memory of the rows, free rows, redirection of entries whose values change |
//! | `load.rs` | choice of keys, and filling of rows while gets go on |
//!
//! # Invariants
//!
//! * A row does not change while an entry refers to it, or while a kernel that has seen such an entry may still read
//!   the row.
//! * An update redirects the entry to a free row or to the new record. The old row is free once all epochs have ended
//!   that were pinned at that time.
//!
//! The kernels are in `kernels/value_cache`.

mod load;
mod rows;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use warpkeep_device::{Buffer, Device, DevicePtr};

#[cfg(test)]
pub(in crate::gpu) use self::load::{Release, Selection};
pub(crate) use self::rows::Rows;
use crate::gpu::params::ValuesParams;

/// How much device memory the value cache may take.
///
/// ```no_run
/// # use warpkeep_gphash::{Table, TableError, gpu::{DeviceEngine, ValueRoom}};
/// # use warpkeep_image::Coherent;
/// # fn example(engine: &DeviceEngine<Coherent>, table: &Table<Coherent>) -> Result<(), TableError> {
/// engine.build_index(table)?;
/// // From now on gets are counted for each key.
/// engine.learn_values(table)?;
/// // ... batches of gets ...
/// let report = engine.load_values(table, ValueRoom::Share(0.2))?;
/// println!("{} of {} values are in device memory", report.cached, table.len());
/// // ... batches of gets ...
/// println!("hit rate {:.2}", engine.values_stats()?.hit_rate());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRoom {
    /// Rows for this share of the table's items, from 0 to 1.
    Share(f64),
    /// Rows in this many bytes.
    Bytes(u64),
}

/// The result of loading the value cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValuesReport {
    /// Rows: fewer than requested if the device's memory budget does not allow more, and none without a device index.
    pub rows: u64,
    /// Values that are in rows now.
    pub cached: u64,
    /// Those of them that were not in a row before.
    pub filled: u64,
    /// Device memory of the rows.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
}

/// Counters of the value cache since it was last loaded.
///
/// ```
/// use warpkeep_gphash::gpu::ValuesStats;
///
/// let stats = ValuesStats { gets: 400, hits: 300, ..ValuesStats::default() };
/// assert_eq!(stats.hit_rate(), 0.75);
/// assert_eq!(ValuesStats::default().hit_rate(), 0.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValuesStats {
    /// Gets of keys that exist.
    pub gets: u64,
    /// Those of them that were answered from device memory.
    pub hits: u64,
    /// Rows of the cache.
    pub rows: u64,
    /// Values that were in rows after the last load; fewer now if keys were written since.
    pub cached: u64,
    /// Device memory of the rows.
    pub bytes: u64,
    /// Gets that were counted since learning began; `None` if the engine does not learn.
    pub learnt: Option<u64>,
}

impl ValuesStats {
    /// Hits out of gets; 0 if there were none.
    pub fn hit_rate(&self) -> f64 {
        if self.gets == 0 { 0.0 } else { self.hits as f64 / self.gets as f64 }
    }
}

/// The value cache of a device index: its rows, and the frequency counters while the engine learns.
#[derive(Clone, Default)]
pub(crate) struct ValueCache {
    pub(crate) rows: Option<Arc<Rows>>,
    pub(crate) frequencies: Option<Arc<Frequencies>>,
}

impl ValueCache {
    pub(crate) fn params(&self) -> ValuesParams {
        self.rows.as_ref().map_or(ValuesParams::NONE, |rows| rows.params())
    }

    /// Drops both, with the index that they belong to.
    pub(crate) fn clear(&mut self) {
        *self = ValueCache::default();
    }
}

/// A saturating byte counter for each entry of a device index: how often gets have used it.
pub(crate) struct Frequencies {
    counts: Buffer,
    learnt: AtomicU64,
}

impl Frequencies {
    /// Counters of `entries` entries, all zero; `None` if the device has no memory for them.
    fn new(device: &Device, entries: u64) -> Option<Frequencies> {
        let counts = device.allocate_zeroed(entries as usize).ok()?;
        Some(Frequencies { counts, learnt: AtomicU64::new(0) })
    }

    /// Counters of an index of another size, all zero. The number of counted gets is kept.
    pub(crate) fn for_entries(&self, device: &Device, entries: u64) -> Option<Frequencies> {
        let frequencies = Frequencies::new(device, entries)?;
        frequencies.add_gets(self.learnt());
        Some(frequencies)
    }

    pub(crate) fn ptr(&self) -> DevicePtr {
        self.counts.ptr()
    }

    /// Accounts for `gets` gets that a kernel counts.
    pub(crate) fn add_gets(&self, gets: u64) {
        self.learnt.fetch_add(gets, Ordering::Relaxed);
    }

    /// Gets that were counted.
    fn learnt(&self) -> u64 {
        self.learnt.load(Ordering::Relaxed)
    }
}
