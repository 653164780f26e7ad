//! Batches of gets with keys and answers in device memory.

use std::sync::{Mutex, PoisonError};

use warpkeep_device::{DevicePtr, Stream};
use warpkeep_image::Persist;

use super::engine::{DeviceEngine, Workplace, check_count, check_fixed};
use super::mirror::Reflection;
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
    watch: Option<Watch<'r>>,
    // Kept until the kernels are done with it.
    _mirror: Option<Reflection>,
    // The table's items stay where they are, and its records what they are, until these are dropped.
    _staying: Staying<'r>,
    _guard: crossbeam_epoch::Guard,
}

impl Reading<'_> {
    /// Waits for the answers.
    pub fn finish(mut self) -> Result<(), TableError> {
        self.stream.synchronize()?;
        match self.watch.take() {
            None => Ok(()),
            Some(mut watch) => {
                watch.host("host: waiting");
                watch.finish()
            }
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
        let guard = table.heap.pin();
        let params = GetParams {
            table: self.table_params(table, &guard)?,
            count: rows.count,
            keys: rows.keys,
            statuses: rows.statuses,
            versions: rows.versions,
            values: rows.values,
        };
        // SAFETY: the caller's promise; the rest is the table's, and stays while the reading lasts.
        let mirror =
            unsafe { self.launch_gets(table, params, &mut place.columns, stream, false, &mut watch)? };
        watch.host("host: launches");
        Ok(Reading {
            stream,
            scratch: Some(place),
            scratches: &self.reading,
            watch: Some(watch),
            _mirror: mirror,
            _staying: staying,
            _guard: guard,
        })
    }
}
