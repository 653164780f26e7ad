//! Batches of gets with keys and answers in device memory.

use std::sync::{Mutex, PoisonError};

use warpkeep_device::{DevicePtr, Stream};
use warpkeep_image::Persist;

use super::engine::{DeviceEngine, Fetch, Workplace, check_count, check_fixed};
use super::hosts::Left;
use super::mirror::{For, Reflection};
use super::order::{Fetching, Measured, Order};
use super::params::GetParams;
use super::staying::Staying;
use super::steps::Watch;
use crate::{Table, TableError};

/// Columns of a batch of gets in device memory.
#[derive(Clone, Copy, Debug)]
pub struct GetRows {
    /// How many keys.
    pub count: u64,
    /// The keys, each of whole words with zeros behind it; or their [cells](Table::key_cells).
    pub keys: DevicePtr,
    /// A byte each: the code of a [`Status`](warpkeep_core::Status).
    pub statuses: DevicePtr,
    /// Eight bytes each; or null.
    pub versions: DevicePtr,
    /// The values, each of whole words; or null, to be told only whether keys are there.
    pub values: DevicePtr,
}

/// A batch of gets under way.
pub struct Reading<'r> {
    stream: &'r Stream,
    /// What the kernels need beside the batch, to be given back when they are done.
    scratch: Option<Workplace>,
    scratches: &'r Mutex<Vec<Workplace>>,
    order: &'r Order,
    measured: Option<Measured>,
    watch: Option<Watch<'r>>,
    /// What is left to do together with the host.
    left: Option<Box<dyn Left + 'r>>,
    /// Kept until they are.
    mirror: Option<Reflection>,
    // The table's items stay where they are, and its records what they are, until these are dropped.
    _staying: Staying<'r>,
    _guard: crossbeam_epoch::Guard,
}

impl Reading<'_> {
    /// Waits for the answers; what the host has to do for them is done here.
    pub fn finish(mut self) -> Result<(), TableError> {
        match (self.left.take(), &mut self.scratch) {
            (Some(left), Some(place)) => left.finish(place, self.stream, self.measured.as_ref())?,
            _ => self.stream.synchronize()?,
        }
        if let Some(mut watch) = self.watch.take() {
            watch.host("host: waiting");
            watch.finish()?;
        }
        // Only of batches that a mirror answered: without one there is no order.
        match self.measured.as_ref().filter(|_| self.mirror.is_some()) {
            Some(measured) => self.order.note(measured),
            None => Ok(()),
        }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        // Before the table may free what the kernels look at. An error is the stream's, and told by whoever uses it next.
        let done = self.stream.synchronize();
        if let (Ok(()), Some(scratch)) = (done, self.scratch.take()) {
            self.scratches.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
        }
    }
}

impl<P: Persist> DeviceEngine<P> {
    /// Looks keys up that lie in device memory, after what is in the caller's stream, and answers there. Returns at once; the
    /// answers are there when [`Reading::finish`] has returned, and the table keeps what the kernel looks at until then. A thread may have several
    /// readings; it finishes them before it writes, maintains or takes a [turn](DeviceEngine::turn): whoever has that may be waiting for them.
    ///
    /// Batches one after the other in two streams, by turns, are answered sooner than in one: while the values of one cross the link, the next is located. More streams add
    /// nothing.
    ///
    /// # Safety
    /// The columns are memory of this engine's device and as long as [`GetRows`] says, and stay so until the reading has
    /// been finished.
    pub unsafe fn get_rows<'r>(
        &'r self,
        table: &'r Table<P>,
        rows: &GetRows,
        stream: &'r Stream,
    ) -> Result<Reading<'r>, TableError> {
        check_fixed(table)?;
        check_count(rows.count)?;
        let mut watch = self.straight.steps.watch();
        let mut place = self.take_place()?;
        let staying = self.stay();
        let guard = crossbeam_epoch::pin();
        let count = rows.count as usize;
        let params = GetParams {
            table: self.table_params(table, &guard, count, For::Reading)?,
            count: rows.count,
            keys: rows.keys,
            statuses: rows.statuses,
            versions: rows.versions,
            values: rows.values,
        };
        let (fetching, mut measured) = match rows.values.is_null() || !self.mirror.is_wanted() {
            true => (Fetching::AsTheyCome, None),
            false => {
                let by_host = || self.host_can_fetch(table, rows);
                self.order.choose(count, by_host, self.device(), stream)?
            }
        };
        let told = match fetching {
            Fetching::ByHost => self.ask_host(table, params, &mut place)?,
            _ => None,
        };
        let (mirror, left) = match told {
            Some((mirror, left)) => (Some(mirror), Some(left)),
            None => {
                if fetching == Fetching::ByHost {
                    // It went another way than it was to be measured for.
                    measured = None;
                }
                let ordered = match fetching {
                    Fetching::Ordered => true,
                    Fetching::AsTheyCome => false,
                    Fetching::ByHost => self.order.usual(count),
                };
                let fetch = Fetch { ordered, beside_others: false };
                // SAFETY: the caller's promise; the rest is the table's, and stays while the reading lasts.
                let mirror = unsafe {
                    self.launch_gets(table, params, &mut place.columns, stream, fetch, &mut watch)?
                };
                (mirror, None)
            }
        };
        if let Some(measured) = measured.as_ref().filter(|_| left.is_none()) {
            measured.end(stream)?;
        }
        watch.host("host: launches");
        Ok(Reading {
            stream,
            scratch: Some(place),
            scratches: &self.reading,
            order: &self.order,
            measured,
            watch: Some(watch),
            left,
            mirror,
            _staying: staying,
            _guard: guard,
        })
    }
}
