//! A batch is applied to a graph in device memory: first all that reads the graph and says what the batch needs, then
//! all that changes it.

#[cfg(all(test, not(no_simulator)))]
mod tests;

use warpkeep_device::{Buffer, DevicePtr, Grid, Result, Stream, TypedKernel};

use super::calls::TriangleChange;
use super::columns::{Columns, Extent, RunColumns, Staged};
use super::device::DeviceGraph;
use super::kernels::{
    ADDS, CONTROL_WORDS, MEDIUMS, PLAN_THREADS, REMOVES, RUN_SUMS, SEGMENT_SUMS, SHORT_LANES, SUM_THREADS,
    THREADS, Update, WARP,
};
use super::storage::{Room, Storage, is_short};
use crate::ContainerError;
use crate::batch_columns::settled;
use crate::batch_plan::{BatchPlan, Scratch};

/// What is known of the vertices that a batch names, before it is planned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) extent: Extent,
    /// Otherwise there may be larger ones.
    pub(super) is_exact: bool,
}

/// A batch to be applied.
pub(super) struct Work<'a> {
    pub(super) staged: &'a Staged,
    pub(super) known: Known,
    /// If the host has planned it.
    pub(super) planned: Option<BatchPlan>,
    /// Whether the answers come to the host.
    pub(super) fetches: bool,
}

impl DeviceGraph {
    /// Applies a batch, as a whole or not at all, and waits for it.
    ///
    /// # Safety
    /// The columns of the batch are as long as `staged` says, and no other code uses them meanwhile. After an error the
    /// stream is synchronised before anything is used again.
    pub(super) unsafe fn apply(
        &self,
        work: &Work<'_>,
        change: Option<&mut TriangleChange>,
        columns: &mut Columns,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let control = columns.control.reserve(&self.device, 8 * CONTROL_WORDS)?;
        control.fill_on(0, 8 * CONTROL_WORDS, 0, stream)?;
        let at = control.ptr();
        // SAFETY: this function's contract. Kernels that were launched before an error end before another batch begins.
        unsafe {
            // The device plans while this waits for other batches.
            let plan = match work.planned {
                Some(plan) => (plan, DevicePtr::NULL),
                None => self.plan(work.staged, work.known, at, &mut columns.plans, stream)?,
            };
            let _turn = self.turn();
            settled(self.apply_in_turn(work, plan, change, columns, stream), stream)
        }
    }

    /// # Safety
    /// As [`apply`](Self::apply). No other call changes the graph or keeps its state meanwhile.
    unsafe fn apply_in_turn(
        &self,
        work: &Work<'_>,
        mut plan: (BatchPlan, DevicePtr),
        change: Option<&mut TriangleChange>,
        columns: &mut Columns,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let (staged, mut known) = (work.staged, work.known);
        if self.read().frozen != self.pins.frozen() {
            self.freeze(&mut self.write(), stream)?;
        }
        let (params, totals) = loop {
            let control = columns.control.reserve(&self.device, 8 * CONTROL_WORDS)?;
            // Others read the graph, too, while this finds out what the batch needs.
            let storage = self.read();
            let mut params = self.update(&storage, staged, plan, known.extent.bits(), &mut columns.runs)?;
            params.control = control.ptr();
            // SAFETY: this function's contract; there is an element for each run and one more in all columns. The
            // storage is borrowed until the stream is synchronised.
            let totals = unsafe {
                let measured = self.measure_first(&params, control, &columns.runs, stream);
                settled(measured, stream)?
            };
            drop(storage);
            if totals.named == 0 || known.is_exact {
                break (params, totals);
            }
            let inserted = known.extent.inserted.max(totals.inserted);
            let extent = Extent { named: totals.named, inserted };
            self.check_size(staged.count, extent)?;
            known = Known { extent, is_exact: true };
            control.fill_on(0, 8 * CONTROL_WORDS, 0, stream)?;
            // SAFETY: this function's contract; the host has waited for the plan before.
            plan = unsafe { self.plan(staged, known, params.control, &mut columns.plans, stream)? };
        };
        let mut storage = self.write();
        let vertices = storage.vertices.max(known.extent.inserted).max(totals.inserted);
        // SAFETY: this function's contract; kernels that were launched before an error end while the storage is
        // borrowed.
        let changed = unsafe {
            let batch = (params, totals, vertices);
            settled(self.change(&mut storage, batch, change.is_some(), work, columns, stream), stream)?
        };
        if let (Some(change), Some(words)) = (change, changed) {
            let mut counts = [0_u64; 2];
            words.read_on(0, &mut counts, stream)?;
            [change.lost, change.gained] = counts;
        }
        Ok(())
    }

    /// Makes room for a batch that is measured, changes the graph and waits for that. Gives where the triangles are that
    /// went and came, if they are counted.
    ///
    /// # Safety
    /// As [`apply`](Self::apply), for the columns of the parameters, too.
    unsafe fn change(
        &self,
        storage: &mut Storage,
        (mut params, mut totals, vertices): (Update, Totals, u64),
        counts: bool,
        work: &Work<'_>,
        columns: &mut Columns,
        stream: &Stream,
    ) -> Result<Option<Buffer>, ContainerError> {
        let kernels = &self.kernels;
        let triangles = counts.then(|| self.device.allocate_zeroed(2 * 8)).transpose()?;
        // Nothing has changed when this ends with an error, and nothing after it can fail for want of memory.
        let mut compacted = false;
        while storage.reserve(totals.needed, vertices, compacted)? == Room::AfterCompaction {
            compacted = true;
            match self.compaction(stream).run(storage) {
                Err(error) if !is_short(&error) => return Err(error.into()),
                _ => {}
            }
            // Compaction changes the sizes of blocks, so what is needed is measured again.
            let control = columns.control.reserve(&self.device, 8 * CONTROL_WORDS)?;
            control.fill_on(8 * MEDIUMS, 2 * 8, 0, stream)?;
            // SAFETY: this function's contract.
            totals = unsafe { self.measure(&params, control, stream)? };
        }
        params.graph = storage.reference_with(vertices);
        (params.runs, params.runs_at) = (totals.runs, DevicePtr::NULL);
        (params.segments, params.mediums) = (totals.segments, totals.mediums);
        (params.moved, params.pool_end) = (totals.moved, storage.pool_end);
        // SAFETY: this function's contract; there is room for all new blocks and vertices, and the storage is borrowed
        // exclusively until the stream is synchronised.
        unsafe {
            if let Some(words) = &triangles {
                self.count_changed(&params, REMOVES, words.ptr(), stream)?;
            }
            if params.sums.is_null() {
                self.launch(&kernels.finish, WARP * params.segments, &params, stream)?;
            } else {
                self.launch(&kernels.finish_short, SHORT_LANES * params.segments, &params, stream)?;
                self.launch(&kernels.finish_medium, WARP * params.mediums, &params, stream)?;
            }
            if totals.longs > 0 {
                self.launch(&kernels.relocate, params.moved, &params, stream)?;
                self.launch(&kernels.put, params.runs, &params, stream)?;
                self.launch(&kernels.commit, params.segments, &params, stream)?;
            }
            if let Some(words) = &triangles {
                self.count_changed(&params, ADDS, words.ptr().offset(8), stream)?;
            }
            if work.fetches {
                columns.statuses.fetch::<u8>(&self.device, work.staged.count, stream)?;
            }
        }
        stream.synchronize()?;
        totals.apply(storage);
        storage.vertices = vertices;
        Ok(triangles)
    }

    /// The parameters of a planned batch, with columns for as many runs as there can be.
    fn update(
        &self,
        storage: &Storage,
        staged: &Staged,
        (plan, runs_at): (BatchPlan, DevicePtr),
        bits: u32,
        runs: &mut RunColumns,
    ) -> Result<Update> {
        let device = &self.device;
        let bytes = 4 * (plan.runs as usize + 1);
        let stride = (plan.runs + 1).div_ceil(u64::from(THREADS));
        let is_small = plan.runs <= self.most_runs;
        let column = |column: &mut Scratch| -> Result<DevicePtr> { Ok(column.reserve(device, bytes)?.ptr()) };
        let sums = match is_small {
            true => DevicePtr::NULL,
            false => {
                let words = stride as usize * RUN_SUMS.max(SEGMENT_SUMS) as usize;
                runs.sums.reserve(device, 8 * words)?.ptr()
            }
        };
        let has_data = self.options.weights || self.options.ids || self.options.times;
        let touched = match storage.frozen > 0 && has_data {
            true => column(&mut runs.touched)?,
            false => DevicePtr::NULL,
        };
        Ok(Update {
            graph: storage.reference(),
            sorted: plan.sorted,
            numbers: plan.numbers,
            begins: plan.begins,
            runs: plan.runs,
            runs_at,
            entries: (staged.count as u64) << self.mirrored(),
            codes: staged.codes,
            weights: staged.weights,
            ids: staged.ids,
            times: staged.times,
            statuses: staged.statuses,
            sources: column(&mut runs.sources)?,
            targets: column(&mut runs.targets)?,
            places: column(&mut runs.places)?,
            winners: column(&mut runs.winners)?,
            effects: column(&mut runs.effects)?,
            added: column(&mut runs.added)?,
            removed: column(&mut runs.removed)?,
            firsts: column(&mut runs.firsts)?,
            needs: column(&mut runs.needs)?,
            moves: column(&mut runs.moves)?,
            classes: column(&mut runs.classes)?,
            owners: column(&mut runs.owners)?,
            listed: column(&mut runs.listed)?,
            sums,
            stride,
            segments: 0,
            mediums: 0,
            moved: 0,
            control: DevicePtr::NULL,
            pool_end: 0,
            frozen: storage.frozen,
            touched,
            code: staged.code,
            bits,
            mirrored: self.mirrored(),
            drops_loops: u32::from(!self.options.keeps_loops),
        })
    }

    /// Finds out what a batch answers and what it needs. The host waits once.
    ///
    /// # Safety
    /// As [`apply`](Self::apply), for the columns of the parameters, too.
    unsafe fn measure_first(
        &self,
        params: &Update,
        control: &Buffer,
        runs: &RunColumns,
        stream: &Stream,
    ) -> Result<Totals, ContainerError> {
        let most = params.runs + 1;
        if !params.touched.is_null() {
            runs.touched.zero(4 * most as usize, stream)?;
        }
        // SAFETY: this function's contract.
        unsafe {
            self.launch(&self.kernels.resolve, most, params, stream)?;
            if !params.sums.is_null() {
                self.sum(&self.kernels.sum_runs, RUN_SUMS, params, stream)?;
                self.launch(&self.kernels.place, most, params, stream)?;
            }
            self.measure(params, control, stream)
        }
    }

    /// Finds out what a batch needs, and waits for that.
    ///
    /// # Safety
    /// As [`apply`](Self::apply), for the columns of the parameters, too.
    unsafe fn measure(
        &self,
        params: &Update,
        control: &Buffer,
        stream: &Stream,
    ) -> Result<Totals, ContainerError> {
        let kernels = &self.kernels;
        // SAFETY: this function's contract; there are no more segments than runs, and than sources of some bits.
        unsafe {
            if params.sums.is_null() {
                let threads = (params.runs as u32).div_ceil(4).next_multiple_of(WARP as u32);
                let threads = threads.clamp(WARP as u32, PLAN_THREADS);
                kernels.plan.launch(Grid { blocks: 1, threads, shared_bytes: 0 }, params, stream)?;
            } else {
                let most = params.runs.min(1 << params.bits) + 1;
                self.launch(&kernels.measure, most, params, stream)?;
                self.sum(&kernels.sum_segments, SEGMENT_SUMS, params, stream)?;
                self.launch(&kernels.settle_needs, most, params, stream)?;
            }
        }
        Ok(Totals::read(control, stream)?)
    }

    /// # Safety
    /// As [`apply`](Self::apply): each column has `stride` words.
    unsafe fn sum(
        &self,
        kernel: &TypedKernel<Update>,
        columns: u32,
        params: &Update,
        stream: &Stream,
    ) -> Result<()> {
        let threads = params.stride.div_ceil(4).clamp(1, u64::from(SUM_THREADS)) as u32;
        let threads = threads.next_multiple_of(WARP as u32);
        // SAFETY: this function's contract.
        unsafe { kernel.launch(Grid { blocks: columns, threads, shared_bytes: 0 }, params, stream) }
    }
}

/// Sums over a batch: `graph_batch::Control`.
struct Totals {
    /// The largest vertices plus 1, beyond those that were known; 0 if there are none.
    named: u64,
    inserted: u64,
    loops_added: u64,
    loops_removed: u64,
    mediums: u64,
    longs: u64,
    runs: u64,
    added: u64,
    removed: u64,
    segments: u64,
    needed: u64,
    moved: u64,
    dead: u64,
    frozen_dead: u64,
}

impl Totals {
    fn read(control: &Buffer, stream: &Stream) -> Result<Totals> {
        let mut words = [0; CONTROL_WORDS];
        control.read_on(0, &mut words, stream)?;
        let [named, inserted, loops_added, loops_removed, mediums, longs, runs, rest @ ..] = words;
        let [added, removed, segments, needed, moved, dead, frozen_dead] = rest;
        let all = Totals {
            named,
            inserted,
            loops_added,
            loops_removed,
            mediums,
            longs,
            runs,
            added,
            removed,
            segments,
            needed,
            moved,
            dead,
            frozen_dead,
        };
        Ok(all)
    }

    fn apply(&self, storage: &mut Storage) {
        storage.entries = storage.entries + self.added - self.removed;
        storage.loops = storage.loops + self.loops_added - self.loops_removed;
        storage.pool_end += self.needed;
        storage.dead += self.dead;
        storage.frozen_dead += self.frozen_dead;
        storage.version += 1;
    }
}
