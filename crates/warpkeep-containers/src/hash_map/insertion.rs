//! Batches of insertions that are worked without a plan.
//!
//! A sort takes most of the time of a planned batch, and most keys do not need it: they are in the batch once and find a slot at once. So one kernel inserts
//! what it can, and lists the rest: operations whose key another operation has inserted, with that operation, and keys without a slot. Only the rest is
//! worked in the batch's order, and only if a key is in it twice: keys without a slot that all differ are worked as they come.

use warpkeep_device::{DevicePtr, Grid, Result, Stream};

use super::columns::{Columns, Planned, Staged};
use super::device::{DeviceMap, Pass};
use super::kernels::{CLEAR, COLLECT, COMPARE, FLAG, Fresh, Lookup, PENDING, PENDING_NEXT, REMOVE, THREADS};
use super::op::MapOpKind;
use super::table::{Counts, Table, fits};
use super::width::{MapKey, MapValue};
use crate::batch_plan::BatchPlan;

/// The places of a table in which the keys of a rest are compared, for each of them.
const PLACES: usize = 4;

/// What a batch of insertions left to do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rest {
    /// The numbers of operations, and how many there are.
    list: DevicePtr,
    count: usize,
    /// If no operation is known to have the key of another: the parameters with which that is found out.
    unknown: Option<Fresh>,
}

impl<K: MapKey, V: MapValue> DeviceMap<K, V> {
    /// Whether a batch can do without a plan in a map of this length: of keys that are there it may only say so, and there must be slots for all.
    pub(super) fn is_fresh(staged: &Staged, length: u64, table: &Table) -> bool {
        let only_adds = staged.code == MapOpKind::Insert as u32 || length == 0;
        staged.inserts() && only_adds && fits(length + staged.count as u64, table.capacity())
    }

    /// Inserts what needs no order, and waits for it. Gives what has been counted, and what is left.
    ///
    /// # Safety
    /// As [`run_staged`](Self::run_staged); the table is not used otherwise. It is empty after what is in the stream, if `is_empty` says so.
    pub(super) unsafe fn insert_fresh(
        &self,
        staged: &Staged,
        is_empty: bool,
        table: &Table,
        columns: &mut Columns,
        stream: &Stream,
    ) -> Result<(Counts, Option<Rest>)> {
        // All memory is there before the first change.
        columns.plans.reserve::<K>(staged.count, &self.device)?;
        let [rest, repeated] = columns.plans.fresh_lists(&self.device, staged.count)?;
        let has_searched = !is_empty;
        let mut params = Fresh {
            map: table.reference(),
            keys: staged.keys,
            operands: staged.operands,
            statuses: staged.statuses,
            before: staged.before,
            count: staged.count as u64,
            rest,
            repeated,
            repetitions: 0,
            places: 0,
            has_searched: u32::from(has_searched),
            step: FLAG,
        };
        let kernels = &self.kernels;
        let grid = Grid::covering(params.count, THREADS);
        table.control.fill_on(8 * PENDING, 16, 0, stream)?;
        // SAFETY: this function's contract; the lists have room for all operations.
        unsafe {
            if has_searched {
                let Staged { keys, statuses, before: values, count, .. } = *staged;
                let lookup = Lookup { map: table.reference(), keys, statuses, values, count: count as u64 };
                kernels.find.launch(grid, &lookup, stream)?;
            }
            kernels.insert_fresh.launch(grid, &params, stream)?;
        }
        let mut counts = table.counts_on(stream)?;
        if counts.pending[1] > 0 {
            params.repetitions = counts.pending[1];
            let repeated = Grid::covering(params.repetitions, THREADS);
            for (step, grid) in [(FLAG, repeated), (COLLECT, grid), (REMOVE, repeated)] {
                // SAFETY: as above.
                unsafe { kernels.sort_out_repeated.launch(grid, &Fresh { step, ..params }, stream)? };
            }
            counts = table.counts_on(stream)?;
        }
        let count = counts.pending[0] as usize;
        let places = staged.count.min(PLACES * count);
        // Half of the places stay free, at least.
        let is_unknown = params.repetitions == 0 && 2 * count <= places;
        let fresh = Fresh { repetitions: count as u64, places: places as u64, ..params };
        let rest = Rest { list: params.rest, count, unknown: is_unknown.then_some(fresh) };
        Ok((counts, (count > 0).then_some(rest)))
    }

    /// Works what [`insert_fresh`](Self::insert_fresh) left, and waits for it. Gives the number of keys.
    ///
    /// # Safety
    /// As [`insert_fresh`](Self::insert_fresh), of this batch; the lists have room for the rest.
    pub(super) unsafe fn work_rest(
        &self,
        rest: Rest,
        staged: &Staged,
        columns: &mut Columns,
        lists: [DevicePtr; 2],
        table: &mut Table,
        stream: &Stream,
    ) -> Result<u64> {
        let staged = &Staged { count: rest.count, ..*staged };
        let kernels = &self.kernels;
        if let Some(fresh) = rest.unknown {
            let none = DevicePtr::NULL;
            let plan = BatchPlan { sorted: none, numbers: rest.list, begins: none, runs: rest.count as u64 };
            let planned = Planned { plan, runs_at: none, rotation: table.bits };
            let mut pass = Pass::new(kernels, staged, &planned, lists, stream);
            pass.unless = table.control.ptr().offset(8 * PENDING_NEXT as u64);
            // SAFETY: the caller's promise; the list of repeated operations is not used, and has room for the places. Kernels displace keys only if
            // all of the rest differ.
            let left = unsafe {
                for (step, threads) in [(CLEAR, fresh.places), (COMPARE, fresh.repetitions)] {
                    let grid = Grid::covering(threads, THREADS);
                    kernels.compare_rest.launch(grid, &Fresh { step, ..fresh }, stream)?;
                }
                pass.run(&kernels.place, table)?
            };
            if left.next == 0 {
                // SAFETY: as above.
                return unsafe { self.finish(pass, left, table) };
            }
        }
        // SAFETY: the caller's promise; the kernels listed as many operations as they counted.
        unsafe {
            let planned = self.plan_rest(staged, (rest.list, rest.count), table.bits, columns, stream)?;
            self.work(Pass::new(kernels, staged, &planned, lists, stream), table)
        }
    }

    /// # Safety
    /// As [`insert_fresh`](Self::insert_fresh); the list has `count` operations of the batch, each once.
    unsafe fn plan_rest(
        &self,
        staged: &Staged,
        (list, count): (DevicePtr, usize),
        rotation: u32,
        columns: &mut Columns,
        stream: &Stream,
    ) -> Result<Planned> {
        // SAFETY: the caller's promise; both columns have an element for each listed operation.
        let plan = unsafe {
            columns.plans.plan_listed::<K>(
                (list, count),
                &self.sorter,
                &self.device,
                stream,
                |sorted, numbers| {
                    self.launch_plan(&Staged { count, ..*staged }, list, rotation, (sorted, numbers), stream)
                },
            )?
        };
        Ok(Planned { plan, runs_at: DevicePtr::NULL, rotation })
    }
}
