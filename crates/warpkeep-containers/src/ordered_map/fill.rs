//! Pairs with different keys that are put into an empty map: their leaves are written at once.

use std::sync::Arc;

use warpkeep_device::{DevicePtr, Grid, Result, StagedBuffer, Stream};

use super::batch::{Draft, Memory};
use super::columns::{Columns, Staged};
use super::kernels::{Fill, KeyOrder, LEAF_WRITERS, ORDER_EACH, SPLIT_PAIRS, SortedBatch, THREADS};
use super::reads::Pairs;
use super::retired::SweepColumns;
use super::tree::{Tree, Writer};
use super::version::{Layout, Version};
use crate::ContainerError;
use crate::batch_plan::BatchPlan;

/// Whether a batch puts pairs with different keys into an empty map, and asks for nothing else.
pub(super) fn fills(version: &Version, staged: &Staged, runs: u64) -> bool {
    let asks = !staged.counts.is_null() || !staged.found_keys.is_null();
    version.layout.leaf_count == 0 && staged.only_inserts() && !asks && runs == staged.count as u64
}

impl Tree {
    /// Writes the leaves and the directory of a batch for which [`fills`] holds, enqueues `fetch`, and waits for both.
    ///
    /// # Safety
    /// The columns are as long as `staged` and the plan say, and no other code uses them until the stream is synchronised.
    pub(super) unsafe fn fill(
        &self,
        writer: &mut Writer,
        version: Arc<Version>,
        staged: &Staged,
        plan: &BatchPlan,
        stream: &Stream,
        fetch: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let (count, number) = (staged.count as u64, version.number + 1);
        let layout = Layout::new(self.shape, count.div_ceil(SPLIT_PAIRS));
        let unclaimed = writer.pool.state;
        let (fresh, state) = writer.pool.claim(unclaimed, layout.leaf_count, number, true)?;
        self.reserve_retired(writer, 0, true, stream)?;
        let directory = self.directories.take_with_spare(&self.device, layout.bytes)?;
        let mut draft = Draft {
            layout,
            directory: Some(directory),
            length: count,
            state,
            retired: Vec::new(),
            unmerged: None,
        };
        let to = layout.directory(draft.at());
        let batch =
            SortedBatch { keys: plan.sorted, numbers: plan.numbers, runs: count, count, ..SortedBatch::NONE };
        let params = Fill {
            batch,
            operands: staged.operands,
            statuses: staged.statuses,
            before: staged.values,
            fresh,
            to,
        };
        let grid = Grid::covering(LEAF_WRITERS * layout.leaf_count, THREADS);
        // SAFETY: the caller's promise; the directory has room for all leaves, and the pool has the new ones.
        unsafe { self.kernels.fill.launch(grid, &params, stream)? };
        fetch()?;
        let next = Version::new(number, count, layout, draft.directory.take(), self.directories.clone());
        // The batch is no pin of the version that it replaces.
        drop::<Arc<Version>>(version);
        // SAFETY: no leaf is retired.
        unsafe { self.commit(writer, next, draft.state, &draft.retired, stream) }
    }

    /// Puts pairs whose keys are in ascending order, none of which has an answer, and waits for it. Gives the position
    /// of the first key that is less than the one before it, if there is one: then nothing is put.
    ///
    /// # Safety
    /// The columns are as long as `staged` says, and no other code uses them meanwhile.
    pub(super) unsafe fn put_sorted(
        &self,
        staged: &Staged,
        columns: &mut Columns,
        stream: &Stream,
    ) -> Result<Option<usize>, ContainerError> {
        let Columns { plan, wide, work, pairs, sweep, statuses, .. } = columns;
        // SAFETY: the caller's promise; all calls wait for the stream.
        unsafe {
            let (disorder, repeats) = self.check_order(staged, statuses, stream)?;
            if disorder.is_some() {
                return Ok(disorder);
            }
            if !repeats && self.fill_empty(staged, sweep, stream)? {
                return Ok(None);
            }
            let plan = self.plan(staged.keys, staged.count, true, plan, wide, stream)?;
            let mut memory = Memory { work, pairs, sweep };
            self.apply(staged, plan, Pairs::NONE, &mut memory, stream, |_, _| Ok(()))?;
        }
        Ok(None)
    }

    /// Writes the leaves of pairs with different keys in ascending order straight from their columns, if the map is
    /// empty: says whether it was.
    ///
    /// # Safety
    /// As [`put_sorted`](Self::put_sorted).
    unsafe fn fill_empty(
        &self,
        staged: &Staged,
        sweep: &mut SweepColumns,
        stream: &Stream,
    ) -> Result<bool, ContainerError> {
        self.writing(stream, |writer| {
            if writer.is_open {
                return Err(ContainerError::BeingWritten);
            }
            self.collect(writer, sweep, stream)?;
            let version = self.current();
            let (runs, none) = (staged.count as u64, DevicePtr::NULL);
            let in_order = BatchPlan { sorted: staged.keys, numbers: none, begins: none, runs };
            if !fills(&version, staged, runs) {
                return Ok(false);
            }
            // SAFETY: the caller's promise.
            unsafe { self.fill(writer, version, staged, &in_order, stream, || Ok(()))? };
            Ok(true)
        })
    }

    /// The position of the first key that is less than the one before it, and whether one is equal to the one before
    /// it.
    ///
    /// # Safety
    /// As [`put_sorted`](Self::put_sorted), until the stream is synchronised.
    unsafe fn check_order(
        &self,
        staged: &Staged,
        column: &mut StagedBuffer,
        stream: &Stream,
    ) -> Result<(Option<usize>, bool)> {
        let disorder = column.fill(&self.device, 16, 0xFF, stream)?;
        let repeats = disorder.offset(8);
        let params = KeyOrder { keys: staged.keys, count: staged.count as u64, disorder, repeats };
        let grid = Grid::covering(params.count.div_ceil(ORDER_EACH), THREADS);
        // SAFETY: the caller's promise; both words are the column's.
        unsafe {
            self.device.fill_raw(repeats, 8, 0, stream)?;
            self.kernels.check_order.launch(grid, &params, stream)?;
        }
        let words: Vec<u64> = column.take(2, stream)?;
        Ok(((words[0] < params.count).then_some(words[0] as usize), words[1] != 0))
    }
}
