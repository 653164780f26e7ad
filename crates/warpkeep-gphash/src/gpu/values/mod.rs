//! The value cache: values of the keys that are asked for most, in device memory, so that the link carries only the others.
//!
//! It stands beside the [mirror](super::mirror), whose entries lead to its rows; `kernels/values.h` says how they are read, and
//! `kernels/value_load.h` how they are filled. Which keys have rows is frozen between two loads: it is counted which keys are asked for while
//! the engine [learns](super::DeviceEngine::learn_values), and [loading](super::DeviceEngine::load_values) gives rows to the hottest.

mod follow;
mod heat;
mod load;
mod rows;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use heat::Heat;
#[cfg(test)]
pub(in crate::gpu) use load::{Choose, Release};
pub(crate) use rows::Rows;

use super::params::ValuesParams;

/// How much of device memory the value cache may take.
///
/// ```no_run
/// # use warpkeep_gphash::{Table, TableError, gpu::{DeviceEngine, ValueRoom}};
/// # use warpkeep_image::Coherent;
/// # fn example(engine: &DeviceEngine<Coherent>, table: &Table<Coherent>) -> Result<(), TableError> {
/// engine.load_mirror(table)?;
/// // From now on it is counted which keys are asked for.
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
    /// So many bytes.
    Bytes(u64),
}

/// What loading the value cache came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValuesReport {
    /// Rows that there are: less than asked for if the device's memory budget does not allow more, and none without a mirror.
    pub rows: u64,
    /// Values that are in rows now.
    pub cached: u64,
    /// Those of them that were not before.
    pub filled: u64,
    /// Device memory that it takes.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
}

/// How the value cache does, since it was last loaded.
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
    /// Gets of keys that are there.
    pub gets: u64,
    /// Those of them that were answered from device memory.
    pub hits: u64,
    /// Rows that there are.
    pub rows: u64,
    /// Values that were in rows when they were last loaded; fewer if keys were written since.
    pub cached: u64,
    /// Device memory that it takes.
    pub bytes: u64,
    /// Gets that were counted since it was begun to learn what is hot; `None` if it is not being learnt.
    pub learnt: Option<u64>,
}

impl ValuesStats {
    /// Hits out of gets; 0 if there were none.
    pub fn hit_rate(&self) -> f64 {
        if self.gets == 0 { 0.0 } else { self.hits as f64 / self.gets as f64 }
    }
}

/// What goes with a mirror: rows, and how hot its entries are.
#[derive(Clone, Default)]
pub(crate) struct Values {
    pub(crate) rows: Option<Arc<Rows>>,
    pub(crate) heat: Option<Arc<Heat>>,
}

impl Values {
    pub(crate) fn params(&self) -> ValuesParams {
        self.rows.as_ref().map_or(ValuesParams::NONE, |rows| rows.params())
    }

    /// The mirror they belong to is gone.
    pub(crate) fn forget(&mut self) {
        *self = Values::default();
    }
}
