//! Gets from host memory to host memory, by a device and several threads of the host: keys are copied to pinned memory by all of them,
//! and so are the answers from it; what the device does goes on beside it.
//!
//! Two ways. The device [locates](DeviceEngine::gather_rows) the records, and the host copies the values from where they lie; or the two
//! [share](DeviceEngine::share_rows) a batch, where the device reaches the caller's memory.

mod arrived;
mod clock;
mod copying;
mod filling;
mod gather;
mod launches;
mod sharing;
mod write;

pub use gather::Gathered;
pub use write::{HostWrites, PartAnswers, SentPart};

use warpkeep_core::{AnswerRows, CoreError, HostCells};
use warpkeep_image::Persist;
use warpkeep_record::Pool;

use super::engine::DeviceEngine;
use crate::bucket::Body;
use crate::{Table, TableError};

/// Rows that one thread takes at a time.
const SHARE: usize = 1 << 12;

/// Keys whose values one thread copies at a time, at least and at most: so few that the last ones to finish do not hold up the others for long.
const COPIED: (usize, usize) = (1 << 6, 1 << 10);
/// Such shares that there are for each thread, about.
const SHARES_EACH: usize = 4;

/// Keys whose values one thread copies at a time, of so many: a power of two.
fn copied_at_once(count: usize, threads: usize) -> usize {
    1 << (count / (SHARES_EACH * threads.max(1))).clamp(COPIED.0, COPIED.1).ilog2()
}

/// A batch of gets from host memory: keys, where the answers go, and who helps.
pub struct HostGets<'b> {
    /// As many keys as there are answers.
    pub keys: HostCells<'b>,
    /// Where the answers go.
    pub answers: AnswerRows<'b>,
    /// Who helps.
    pub pool: &'b Pool,
    /// Keys of a launch; 0 for as many as suit the batch.
    pub at_once: usize,
}

impl HostGets<'_> {
    /// An error if there are not as many keys as answers, or they are not such as the table has.
    fn check<P: Persist>(&self, table: &Table<P>) -> Result<(), TableError> {
        super::engine::check_fixed(table)?;
        Ok(check_cells("keys", self.keys, self.answers.len(), |len| table.key.check_len(len))?)
    }
}

/// An error if there are not so many cells, or one is not as long as it must be.
fn check_cells(
    column: &'static str,
    cells: HostCells<'_>,
    count: usize,
    check: impl Fn(usize) -> Result<(), CoreError>,
) -> Result<(), CoreError> {
    let found = match cells {
        HostCells::Empty => {
            check(0)?;
            count
        }
        HostCells::Fixed { len, bytes } => {
            check(len)?;
            bytes.len().checked_div(len).unwrap_or(count)
        }
        HostCells::Variable { offsets, .. } => {
            offsets.windows(2).try_for_each(|pair| check(pair[1].saturating_sub(pair[0]) as usize))?;
            offsets.len().saturating_sub(1)
        }
    };
    match found == count {
        true => Ok(()),
        false => Err(CoreError::ColumnLength { column, found: found as u64, expected: count as u64 }),
    }
}

impl<P: Persist> DeviceEngine<P> {
    /// Whether the device can [point](DeviceEngine::gather_rows) at the records of such a table.
    pub fn points(&self, table: &Table<P>) -> bool {
        table.shape.body == Body::Packed && self.mirror.is_wanted()
    }
}
