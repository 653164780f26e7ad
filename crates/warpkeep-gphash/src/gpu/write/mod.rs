//! Writes by the device.
//!
//! Over the link, the index of a table is slow to write: a put in the image takes several dependent random accesses.
//! Batches of mixed operations do that, in [two phases](two_phase). Batches whose operations are all of one kind are
//! *fused writes*, which do all random accesses in device memory and need no round trip to the host between deciding
//! and publishing:
//!
//! 1. **Dedup**: the keys enter a dedup table; of the operations on one key, the first or the last has the effect.
//! 2. **Decide** ([`decide`]): for each effect, a slot is chosen in the [level copies](level_copies), the device index
//!    gives the entry to change, and the [block pool](super::blocks) gives a block for the record. Operations that the
//!    device cannot decide become *fallbacks*, which the CPU applies.
//! 3. **Publish**: records reach the image sequentially, then one word per key. The device does it in a [pipeline] of
//!    chunks, or it sends [store lists](store_list) and [host threads](host_publish) store the words. With values in
//!    [host memory](from_host), the host stores those, too.
//! 4. **Account** ([`stage`]): counters, retired blocks, free rows of the value cache.
//!
//! With a log, the batch stops after deciding: [`FusedStage::learn`] returns which operations have effects, the caller
//! logs them, and then publishes.
//!
//! Fused writes need a [device index](super::DeviceEngine::build_index) that compares keys exactly, and a table that is
//! not growing; otherwise a batch is [staged](super::WriteLock::stage).
//!
//! Invariants:
//! - a word is stored only when its record is in the image;
//! - an index entry is busy while its word is stored, and set afterwards: readers find nothing in the index that the
//!   image does not have;
//! - deciding changes nothing in the image, so a decided batch can be dropped.

mod decide;
pub(super) mod from_host;
pub(super) mod host_publish;
pub(super) mod level_copies;
pub(super) mod params;
mod pipeline;
mod stage;
mod store_list;
pub(super) mod two_phase;

pub use stage::{Decided, FusedStage};

use warpkeep_core::Op;
use warpkeep_device::{DevicePtr, StepTime, StepTimer, Stream, TimedBatch};
use warpkeep_image::Persist;

use crate::gpu::engine::{DeviceEngine, Workspace, check_fixed};
use crate::gpu::profile::PublishBy;
use crate::gpu::write::host_publish::{HostStep, HostThreads};
use crate::{Table, TableError};

/// A batch in device memory whose operations are all of one kind. Keys may occur several times: their operations take
/// effect in the order of the batch.
#[derive(Clone, Copy, Debug)]
pub struct FusedRows {
    /// A put, an insert, an update or a delete.
    pub op: Op,
    /// The number of operations.
    pub count: u64,
    /// The keys, each padded with zeros to whole words; or their [cells](crate::Table::key_cells), if the table stores
    /// them in cells.
    pub keys: DevicePtr,
    /// The values, each padded to whole words; null for deletes, and where the host stores them.
    pub values: DevicePtr,
    /// A byte each, for the code of a [`Status`](warpkeep_core::Status).
    pub statuses: DevicePtr,
}

/// The effects of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// Keys that are new.
    pub created: u64,
    /// Keys that have another value.
    pub replaced: u64,
    /// Keys that are gone.
    pub removed: u64,
    /// Operations that the CPU applied.
    pub by_cpu: u64,
}

/// Whether operations of this kind write records.
fn writes_records(op: Op) -> bool {
    op != Op::Delete
}

/// State of an engine's fused writes.
#[derive(Default)]
pub(crate) struct FusedWrites {
    threads: HostThreads,
    /// Also measures gets.
    pub(in crate::gpu) timer: StepTimer,
}

impl<P: Persist> DeviceEngine<P> {
    /// Has fused writes published by one host thread, which calls `observer` before each of its steps: for tests that
    /// crash there.
    #[doc(hidden)]
    pub fn observe_publish(&self, observer: impl Fn(HostStep) + Send + Sync + 'static) {
        self.adjust(|profile| profile.publish_by = PublishBy::Host(1));
        self.fused.threads.observe(std::sync::Arc::new(observer));
    }

    /// Starts a thread that allocates blocks before batches need them, as many as two more batches like the last fused
    /// write can take: then no batch waits for the image to grow. The thread ends with the engine.
    pub fn refill_ahead(&self) {
        self.block_pool().start_refill();
    }

    /// Starts or stops to measure the steps of fused writes, of gets [in device memory](DeviceEngine::get_rows), and of
    /// gets from host memory whose values the host [gathers](DeviceEngine::gather_rows). Measured kernels run in the
    /// same order and overlap as others, with a few microseconds between them.
    pub fn time_steps(&self, wanted: bool) {
        self.fused.timer.switch(wanted);
    }

    /// Begins to measure the steps that a caller does for a batch, if [steps are measured](Self::time_steps).
    pub fn watch_steps(&self) -> TimedBatch<'_> {
        self.fused.timer.begin()
    }

    /// The steps of all batches that finished since the last call.
    pub fn take_step_times(&self) -> Vec<Vec<StepTime>> {
        self.fused.timer.take()
    }

    /// Copies keys and values of a batch to pinned memory, after the work that is in the stream.
    ///
    /// # Safety
    /// The columns are memory of this engine's device, as long as [`FusedRows`] says, and are not written meanwhile.
    pub unsafe fn pin_rows(
        &self,
        table: &Table<P>,
        rows: &FusedRows,
        stream: &Stream,
    ) -> Result<PinnedRows<'_, P>, TableError> {
        check_fixed(table)?;
        let bytes = |at: DevicePtr, len: usize| match at.is_null() {
            true => 0,
            false => rows.count as usize * len.next_multiple_of(8),
        };
        let (key_bytes, value_bytes) =
            (bytes(rows.keys, table.key_row()), bytes(rows.values, table.value.max_len()));
        // After an error the workspace is dropped, which waits for the device.
        let mut workspace = self.take_workspace()?;
        let columns = &mut workspace.columns;
        for (column, from, bytes) in
            [(&mut columns.keys, rows.keys, key_bytes), (&mut columns.values, rows.values, value_bytes)]
        {
            column.host::<u8>(self.device(), bytes)?;
            // SAFETY: the caller promises the length of the source; the host's side was made for it, and the stream is
            // synchronised below before it is read.
            unsafe { self.device().copy_raw(column.host_ptr(), from, bytes, stream)? };
        }
        stream.synchronize()?;
        Ok(PinnedRows { engine: self, workspace: Some(workspace), key_bytes, value_bytes })
    }
}

/// Keys and values of a batch in device memory, copied to pinned memory of the host: for a log, which reads them there.
/// The memory is kept for the next batch when this is dropped.
pub struct PinnedRows<'e, P: Persist> {
    engine: &'e DeviceEngine<P>,
    workspace: Option<Workspace>,
    key_bytes: usize,
    value_bytes: usize,
}

impl<P: Persist> PinnedRows<'_, P> {
    /// All keys, one after the other; or their [cells](Table::key_cells).
    pub fn keys(&self) -> &[u8] {
        self.workspace.as_ref().map_or(&[], |workspace| workspace.columns.keys.fetched(self.key_bytes))
    }

    /// All values; empty for deletes.
    pub fn values(&self) -> &[u8] {
        self.workspace.as_ref().map_or(&[], |workspace| workspace.columns.values.fetched(self.value_bytes))
    }
}

impl<P: Persist> Drop for PinnedRows<'_, P> {
    fn drop(&mut self) {
        self.workspace.take().into_iter().for_each(|workspace| self.engine.keep_workspace(workspace));
    }
}
