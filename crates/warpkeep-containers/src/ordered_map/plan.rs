//! The order in which the device works a batch: by key, and the operations on one key in the batch's order.

use warpkeep_device::{Device, DevicePtr, Grid, Result, StagedBuffer, Stream};

use super::columns::Planned;
use super::kernels::{Plan, Shape, THREADS};
use super::tree::Tree;
use crate::Sorter;
use crate::batch_columns::settled;
use crate::batch_plan::{BatchPlan, PlanColumns};
use crate::sort::Columns as SortColumns;

/// Steps of a plan: those of `kernels/ordered_write.h`.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Step {
    CopyKeys = 0,
    LowerWords = 1,
    UpperWords = 2,
    TakeKeys = 3,
    MarkRuns = 4,
    ListRuns = 5,
}

/// Memory of the plan of a batch with keys of 16 bytes, which the sorter does not know.
#[derive(Debug, Default)]
pub(super) struct WideColumns {
    sorted: StagedBuffer,
    numbers: StagedBuffer,
    words: StagedBuffer,
    marks: StagedBuffer,
    begins: StagedBuffer,
    sort: SortColumns,
    sums: StagedBuffer,
}

impl WideColumns {
    /// Has the memory of a plan of this many keys.
    fn reserve(&mut self, count: usize, device: &Device) -> Result<()> {
        self.sorted.reserve(device, 16 * count)?;
        self.numbers.reserve(device, 4 * count)?;
        self.words.reserve(device, 8 * count)?;
        self.marks.reserve(device, 4 * (count + 1))?;
        self.begins.reserve(device, 4 * count)?;
        self.sort.reserve::<u64, u32>(device, count)?;
        Sorter::reserve_scan(device, count as u64 + 1, &mut self.sums)?;
        Ok(())
    }
}

impl Tree {
    /// Has the memory of a plan of this many keys, so that [`plan`](Self::plan) does not fail for want of it.
    pub(super) fn reserve_plan(
        &self,
        count: usize,
        columns: &mut PlanColumns,
        wide: &mut WideColumns,
    ) -> Result<()> {
        match self.shape {
            Shape::U32 => columns.reserve::<u32>(count, &self.device),
            Shape::U64 => columns.reserve::<u64>(count, &self.device),
            Shape::U128 => wide.reserve(count, &self.device),
        }
    }

    /// Sorts a batch by key, or, if its keys are sorted, only finds the runs of equal keys. Does not wait.
    ///
    /// # Safety
    /// There are `count` keys at this address until the stream is synchronised, and the columns are not used
    /// otherwise until then.
    pub(super) unsafe fn plan(
        &self,
        keys: DevicePtr,
        count: usize,
        is_sorted: bool,
        columns: &mut PlanColumns,
        wide: &mut WideColumns,
        stream: &Stream,
    ) -> Result<Planned> {
        let bits = if is_sorted { 0 } else { 8 * self.shape.key_bytes() as u32 };
        let (sorter, device) = (&self.sorter, &self.device);
        let fill = |sorted: DevicePtr, numbers: DevicePtr| {
            let params = Plan { keys, sorted, numbers, ..plan_of(count) };
            // SAFETY: the caller's promise; both columns have `count` elements.
            unsafe { self.launch_plan(Step::CopyKeys, params, stream) }
        };
        // SAFETY: the caller's promise.
        let planned = unsafe {
            match self.shape {
                Shape::U32 => columns.enqueue_plan::<u32>(count, bits, sorter, device, stream, fill),
                Shape::U64 => columns.enqueue_plan::<u64>(count, bits, sorter, device, stream, fill),
                Shape::U128 => self.plan_wide(keys, count, is_sorted, wide, stream),
            }
        };
        let (plan, runs_at) = settled(planned, stream)?;
        Ok(Planned { plan, runs_at })
    }

    /// As [`plan`](Self::plan), for keys of 16 bytes: sorted by their lower words, then by their upper ones.
    ///
    /// # Safety
    /// As [`plan`](Self::plan).
    unsafe fn plan_wide(
        &self,
        keys: DevicePtr,
        count: usize,
        is_sorted: bool,
        columns: &mut WideColumns,
        stream: &Stream,
    ) -> Result<(BatchPlan, DevicePtr)> {
        let device = &self.device;
        let params = Plan {
            keys,
            sorted: columns.sorted.reserve(device, 16 * count)?,
            numbers: columns.numbers.reserve(device, 4 * count)?,
            words: columns.words.reserve(device, 8 * count)?,
            marks: columns.marks.reserve(device, 4 * (count + 1))?,
            begins: columns.begins.reserve(device, 4 * count)?,
            ..plan_of(count)
        };
        let Plan { sorted, words, numbers, marks, begins, .. } = params;
        // SAFETY: the caller's promise; the columns have an element for each key, and the marks one more.
        unsafe {
            if is_sorted {
                self.launch_plan(Step::CopyKeys, params, stream)?;
            } else {
                for step in [Step::LowerWords, Step::UpperWords] {
                    let of_sort = &mut columns.sort;
                    self.launch_plan(step, params, stream)?;
                    self.sorter.enqueue_sort::<u64, u32>((words, numbers), count, 0..64, of_sort, stream)?;
                }
                self.launch_plan(Step::TakeKeys, params, stream)?;
            }
            self.launch_plan(Step::MarkRuns, params, stream)?;
            self.sorter.enqueue_scan(marks, count as u64 + 1, &mut columns.sums, stream)?;
            self.launch_plan(Step::ListRuns, params, stream)?;
        }
        let plan = BatchPlan { sorted, numbers, begins, runs: count as u64 };
        Ok((plan, marks.offset(4 * count as u64)))
    }

    /// # Safety
    /// As [`plan`](Self::plan), for all columns that the step uses.
    unsafe fn launch_plan(&self, step: Step, params: Plan, stream: &Stream) -> Result<()> {
        let params = Plan { step: step as u32, ..params };
        // One more, for the end of the marks.
        let grid = Grid::covering(params.count + 1, THREADS);
        // SAFETY: the caller's promise.
        unsafe { self.kernels.plan.launch(grid, &params, stream) }
    }
}

/// A plan of this many keys, without columns.
fn plan_of(count: usize) -> Plan {
    let none = DevicePtr::NULL;
    Plan {
        keys: none,
        sorted: none,
        numbers: none,
        words: none,
        marks: none,
        begins: none,
        count: count as u64,
        step: 0,
        reserved: 0,
    }
}
