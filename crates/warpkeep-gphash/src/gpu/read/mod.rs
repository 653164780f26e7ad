//! Batches of gets.
//!
//! | module | keys | values |
//! | --- | --- | --- |
//! | `mod` | rows of whole words in device memory | the same |
//! | `rows` | rows of any length in device memory; also batches that write | the same |
//! | `get_many` | slices in host memory | passed to a closure |
//! | `host` | columns in host memory | columns in host memory, copied by threads of the host |
//!
//! All of them launch the kernels of [`lookup`]: locate the records through the device index, bring them into address
//! order if the batch is large enough, fetch the values, and fall back to the image for keys that the index cannot
//! answer. Without a device index a kernel probes the slots in the image.
//!
//! While kernels run, the batch holds the relocation lock for reading, a pinned epoch, and a snapshot of the index:
//! items stay at their slots, and records and index memory are not freed.

mod get_many;
pub(super) mod host;
pub(super) mod lookup;
pub(super) mod rows;

use warpkeep_device::{DevicePtr, Grid, Stream, TimedBatch, WorkspacePool};
use warpkeep_image::Persist;

use self::lookup::Lookup;
use crate::gpu::engine::{
    Columns, DeviceEngine, RelocationRead, THREADS, Workspace, check_count, check_fixed,
};
use crate::gpu::index::{IndexAccess, IndexSnapshot};
use crate::gpu::params::GetParams;
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
    /// The values, each of whole words; or null, to find out only which keys exist.
    pub values: DevicePtr,
}

/// A batch of gets that is running.
pub struct Reading<'r> {
    stream: &'r Stream,
    /// The workspace of the kernels; kept for others when they are done.
    scratch: Option<Workspace>,
    workspaces: &'r WorkspacePool<Columns>,
    timed: Option<TimedBatch<'r>>,
    // Dropped after `Drop::drop` has waited for the kernels.
    _index: Option<IndexSnapshot>,
    _relocation: RelocationRead<'r>,
    _guard: crossbeam_epoch::Guard,
}

impl Reading<'_> {
    /// Waits for the answers.
    pub fn finish(mut self) -> Result<(), TableError> {
        self.stream.synchronize()?;
        match self.timed.take() {
            None => Ok(()),
            Some(mut timed) => {
                timed.host("host: wait");
                Ok(timed.finish()?)
            }
        }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        // Before the table may free what the kernels read. An error stays with the stream, and its next user reports
        // it.
        let done = self.stream.synchronize();
        if let (Ok(()), Some(scratch)) = (done, self.scratch.take()) {
            self.workspaces.put_back(scratch);
        }
    }
}

impl<P: Persist> DeviceEngine<P> {
    /// Looks up keys in device memory, after the work in the caller's stream, and answers there. Returns at once; the
    /// answers are complete when [`Reading::finish`] has returned, and until then the table keeps everything that the
    /// kernels read. A thread may have several readings. It finishes them before it writes, maintains the table or
    /// takes the [write lock](DeviceEngine::write_lock), whose holder may be waiting for them.
    ///
    /// Consecutive batches in two alternating streams are faster than in one: while the values of one batch cross the
    /// link, the next is located. More streams add nothing.
    ///
    /// # Safety
    /// The columns are memory of this engine's device and as long as [`GetRows`] says, and stay so until the reading
    /// has been finished.
    pub unsafe fn get_rows<'r>(
        &'r self,
        table: &'r Table<P>,
        rows: &GetRows,
        stream: &'r Stream,
    ) -> Result<Reading<'r>, TableError> {
        check_fixed(table)?;
        check_count(rows.count)?;
        let mut timed = self.fused.timer.begin();
        let mut workspace = self.take_workspace()?;
        let relocation = self.relocation_read();
        let guard = table.heap.pin();
        let params = GetParams {
            table: self.table_params(table, &guard)?,
            count: rows.count,
            keys: rows.keys,
            statuses: rows.statuses,
            versions: rows.versions,
            values: rows.values,
        };
        // SAFETY: the caller's promise for the columns; the reading keeps the workspace, the items and the records.
        let snapshot =
            unsafe { self.launch_gets(table, params, &mut workspace.columns, stream, false, &mut timed)? };
        timed.host("host: launches");
        Ok(Reading {
            stream,
            scratch: Some(workspace),
            workspaces: &self.readers,
            timed: Some(timed),
            _index: snapshot,
            _relocation: relocation,
            _guard: guard,
        })
    }

    /// Enqueues the kernels of a batch of gets. Returns the index snapshot that they read, to be kept until the stream
    /// is synchronised. `shares_link` means that other kernels need the link meanwhile and the host waits for those
    /// first, so the fetch must not fill the link's queues.
    ///
    /// # Safety
    /// The columns of the batch hold `get.count` rows. They, `scratch`, and the table's items and records stay as
    /// they are until the stream is synchronised.
    unsafe fn launch_gets(
        &self,
        table: &Table<P>,
        get: GetParams,
        scratch: &mut Columns,
        stream: &Stream,
        shares_link: bool,
        timed: &mut TimedBatch<'_>,
    ) -> Result<Option<IndexSnapshot>, TableError> {
        let snapshot = self.device_index.acquire(self, table, IndexAccess::Read)?;
        let Some(index) = &snapshot else {
            let grid = Grid::covering(get.count.max(1), THREADS);
            // SAFETY: the caller's promise.
            timed.device("get", self.device(), stream, || unsafe {
                Ok::<(), TableError>(self.kernels.read()?.get.launch(grid, &get, stream)?)
            })?;
            return Ok(None);
        };
        let lookup = Lookup {
            get,
            snapshot: index,
            value_row: 8 * table.value.max_len().div_ceil(8) as u64,
            value_step: table.form.value_step(),
            image_len: table.image().len(),
            strategy: self.profile().gets(get.count as usize, !get.values.is_null()),
            shares_link,
        };
        // SAFETY: the caller's promise; the caller also keeps the snapshot.
        unsafe { lookup.launch(self.device(), &self.kernels, scratch, stream, timed)? };
        Ok(snapshot)
    }
}
