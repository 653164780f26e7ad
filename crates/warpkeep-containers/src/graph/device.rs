//! A graph in device memory: its batches.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytemuck::checked;
use warpkeep_device::{
    Buffer, Device, DevicePtr, Grid, KernelSet as _, Result, Stream, TypedKernel, WorkspacePool,
};

use super::GraphOptions;
use super::columns::{Columns, Extent, HostBatch, Staged};
use super::edge::EdgeStatus;
use super::kernels::{CONTROL_WORDS, Expand, GraphKernels, NEEDED, THREADS, Update, WARP};
use super::storage::{Compaction, Room, Storage, is_short};
use crate::batch_plan::{BatchPlan, HOST_PLANS, PlanColumns};
use crate::{ContainerError, Sorter};

/// Vertices of a graph: the last number of 32 bits is not a vertex.
pub(super) const MOST_VERTICES: u64 = u32::MAX as u64;
/// Entries of a batch: positions have 32 bits.
const MOST_ENTRIES: u64 = u32::MAX as u64 - 1;

#[derive(Debug)]
pub(super) struct DeviceGraph {
    pub(super) device: Device,
    pub(super) kernels: GraphKernels,
    pub(super) sorter: Sorter,
    storage: RwLock<Storage>,
    pub(super) options: GraphOptions,
    pub(super) workspaces: WorkspacePool<Columns>,
}

impl DeviceGraph {
    pub(super) fn new(device: &Device, options: &GraphOptions) -> Result<DeviceGraph> {
        Ok(DeviceGraph {
            device: device.clone(),
            kernels: GraphKernels::load(device)?,
            sorter: Sorter::new(device)?,
            storage: RwLock::new(Storage::new(device, options)?),
            options: options.clone(),
            workspaces: WorkspacePool::default(),
        })
    }

    /// The storage, for what does not change it. Calls that did have waited for their kernels.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Storage> {
        self.storage.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Storage> {
        self.storage.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn compaction<'a>(&'a self, stream: &'a Stream) -> Compaction<'a> {
        Compaction { device: &self.device, kernels: &self.kernels, sorter: &self.sorter, stream }
    }

    /// Runs a batch of slices; gives the answers in the batch's order.
    pub(super) fn run(&self, batch: &HostBatch<'_>) -> Result<Vec<EdgeStatus>, ContainerError> {
        let (count, extent) = (batch.len(), batch.extent(&self.options));
        if count == 0 {
            return Ok(Vec::new());
        }
        let entries = self.check_size(count, extent)?;
        let mut workspace = self.workspaces.take(&self.device)?;
        let (device, columns, stream) = (&self.device, &mut workspace.columns, &workspace.stream);
        let on_host = entries <= HOST_PLANS;
        // SAFETY: the stream is synchronised before the columns are used again.
        unsafe {
            let staged = columns.stage(batch, &self.options, !on_host, device, stream)?;
            let plan = match on_host {
                true => {
                    let keys = self.sort_keys(batch, extent.bits());
                    columns.plans.plan_on_host::<u64>(keys, device, stream)?
                }
                false => self.plan(&staged, extent, &mut columns.plans, stream)?,
            };
            self.apply(&staged, plan, extent, columns, stream)?;
            columns.statuses.fetch::<u8>(device, count, stream)?;
        }
        stream.synchronize()?;
        let statuses: &[EdgeStatus] = checked::cast_slice(columns.statuses.fetched::<u8>(count));
        let statuses = statuses.to_vec();
        self.workspaces.put_back(workspace);
        Ok(statuses)
    }

    /// Runs a batch that is in device memory, after what is in the stream, and waits for it.
    ///
    /// # Safety
    /// The columns are as long as `staged` says, and no other code uses them meanwhile.
    pub(super) unsafe fn run_staged(&self, staged: &Staged, stream: &Stream) -> Result<(), ContainerError> {
        if staged.count == 0 {
            return Ok(());
        }
        let mut workspace = self.workspaces.take(&self.device)?;
        let columns = &mut workspace.columns;
        let control = columns.control.reserve(&self.device, 8 * CONTROL_WORDS)?;
        control.fill_on(0, 8 * CONTROL_WORDS, 0, stream)?;
        let params = Expand { control: control.ptr(), ..self.expand(staged, 0) };
        // SAFETY: this function's contract; each call waits for the stream.
        unsafe {
            self.launch(&self.kernels.largest, staged.count as u64, &params, stream)?;
            let mut words = [0_u64; 2];
            control.read_on(0, &mut words, stream)?;
            let extent = Extent { named: words[0], inserted: words[1] };
            self.check_size(staged.count, extent)?;
            let plan = self.plan(staged, extent, &mut columns.plans, stream)?;
            self.apply(staged, plan, extent, columns, stream)?;
        }
        self.workspaces.put_back(workspace);
        Ok(())
    }

    fn mirrored(&self) -> u32 {
        u32::from(self.options.undirected)
    }

    /// An error if the batch is too long or names a vertex that there cannot be; otherwise how many entries it has.
    fn check_size(&self, count: usize, extent: Extent) -> Result<usize, ContainerError> {
        let entries = (count as u64).saturating_mul(1 + u64::from(self.mirrored()));
        let too_large = |what, given, most| Err(ContainerError::TooLarge { what, given, most });
        match (extent.named, entries) {
            (named, _) if named > MOST_VERTICES => too_large("vertices", named, MOST_VERTICES),
            (_, entries) if entries > MOST_ENTRIES => {
                too_large("entries of one batch", entries, MOST_ENTRIES)
            }
            _ => Ok(entries as usize),
        }
    }

    fn expand(&self, staged: &Staged, bits: u32) -> Expand {
        Expand {
            sources: staged.sources,
            targets: staged.targets,
            codes: staged.codes,
            sorted: DevicePtr::NULL,
            numbers: DevicePtr::NULL,
            control: DevicePtr::NULL,
            count: staged.count as u64,
            code: staged.code,
            bits,
            mirrored: self.mirrored(),
            drops_loops: u32::from(!self.options.keeps_loops),
        }
    }

    /// What `graph_batch::expand` makes of the operations.
    fn sort_keys<'b>(&self, batch: &'b HostBatch<'b>, bits: u32) -> impl Iterator<Item = u64> + 'b {
        let (entries, keeps_loops) = (1 + self.mirrored(), self.options.keeps_loops);
        batch.ops().flat_map(move |op| {
            let (source, target) = (u64::from(op.edge.source), u64::from(op.edge.target));
            (0..entries).map(move |entry| match (source == target, entry) {
                (true, 0) if !keeps_loops => dropped_key(bits),
                (true, 1) => dropped_key(bits),
                (_, 0) => source << bits | target,
                _ => target << bits | source,
            })
        })
    }

    /// Plans a batch on the device.
    ///
    /// # Safety
    /// As [`run_staged`](Self::run_staged).
    unsafe fn plan(
        &self,
        staged: &Staged,
        extent: Extent,
        plans: &mut PlanColumns,
        stream: &Stream,
    ) -> Result<BatchPlan> {
        let (entries, bits) = (staged.count << self.mirrored(), extent.bits());
        let fill = |sorted, numbers| {
            let params = Expand { sorted, numbers, ..self.expand(staged, bits) };
            // SAFETY: the caller's promise; both columns have `entries` elements, and planning waits for the stream.
            unsafe { self.launch(&self.kernels.expand, entries as u64, &params, stream) }
        };
        plans.plan_on_device::<u64>(entries, 2 * bits, &self.sorter, &self.device, stream, fill)
    }

    /// Works a planned batch, as a whole or not at all, and waits for it.
    ///
    /// # Safety
    /// As [`run_staged`](Self::run_staged), for both.
    unsafe fn apply(
        &self,
        staged: &Staged,
        plan: BatchPlan,
        extent: Extent,
        columns: &mut Columns,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let (device, sorter, kernels) = (&self.device, &self.sorter, &self.kernels);
        let mut storage = self.write();
        let vertices = storage.vertices.max(extent.inserted);
        storage.grow_table(vertices)?;
        let (count, bytes) = (plan.runs as usize, 4 * (plan.runs as usize + 1));
        let runs = &mut columns.runs;
        let sources = runs.sources.reserve(device, bytes)?;
        let added = runs.added.reserve(device, bytes)?;
        let removed = runs.removed.reserve(device, bytes)?;
        let firsts = runs.firsts.reserve(device, bytes)?;
        let needs = runs.needs.reserve(device, bytes)?;
        let moves = runs.moves.reserve(device, bytes)?;
        let control = columns.control.reserve(device, 8 * CONTROL_WORDS)?;
        control.fill_on(0, 8 * CONTROL_WORDS, 0, stream)?;
        let mut params = Update {
            graph: storage.reference_with(vertices),
            sorted: plan.sorted,
            numbers: plan.numbers,
            begins: plan.begins,
            runs: plan.runs,
            entries: (staged.count as u64) << self.mirrored(),
            codes: staged.codes,
            weights: staged.weights,
            ids: staged.ids,
            times: staged.times,
            statuses: staged.statuses,
            sources: sources.ptr(),
            targets: runs.targets.reserve(device, bytes)?.ptr(),
            places: runs.places.reserve(device, bytes)?.ptr(),
            winners: runs.winners.reserve(device, bytes)?.ptr(),
            effects: runs.effects.reserve(device, bytes)?.ptr(),
            added: added.ptr(),
            removed: removed.ptr(),
            firsts: firsts.ptr(),
            needs: needs.ptr(),
            moves: moves.ptr(),
            segments: 0,
            moved: 0,
            control: control.ptr(),
            pool_end: 0,
            code: staged.code,
            bits: extent.bits(),
            mirrored: self.mirrored(),
            drops_loops: u32::from(!self.options.keeps_loops),
        };
        // SAFETY: the caller's promise; the columns have an element for each run and one more, and the storage is borrowed exclusively until the stream
        // is synchronised.
        unsafe {
            self.launch(&kernels.resolve, params.runs + 1, &params, stream)?;
            sorter.exclusive_scan(added, count + 1, stream)?;
            sorter.exclusive_scan(removed, count + 1, stream)?;
            params.segments = sorter.find_runs::<u32>(sources, count, firsts, stream)? as u64;
            let segments = params.segments as usize;
            let mut compacted = false;
            // Nothing has changed when it ends with an error, and nothing after it can fail for want of memory.
            let totals = loop {
                control.fill_on(8 * NEEDED, 8 * (CONTROL_WORDS - NEEDED), 0, stream)?;
                self.launch(&kernels.measure, params.segments + 1, &params, stream)?;
                let totals = Totals::read(control, stream)?;
                sorter.exclusive_scan(needs, segments + 1, stream)?;
                sorter.exclusive_scan(moves, segments + 1, stream)?;
                if storage.reserve(totals.needed, compacted)? == Room::There {
                    break totals;
                }
                // Compaction changes the sizes of blocks, so what is needed is measured again.
                compacted = true;
                match self.compaction(stream).run(&mut storage) {
                    Err(error) if !is_short(&error) => return Err(error.into()),
                    _ => {}
                }
            };
            (params.moved, params.pool_end) = (totals.moved, storage.pool_end);
            self.launch(&kernels.relocate, params.moved, &params, stream)?;
            self.launch(&kernels.shift, WARP * params.segments, &params, stream)?;
            self.launch(&kernels.put, params.runs, &params, stream)?;
            self.launch(&kernels.commit, params.segments, &params, stream)?;
            stream.synchronize()?;
            totals.apply(&mut storage);
        }
        storage.vertices = vertices;
        Ok(())
    }

    /// # Safety
    /// As [`TypedKernel::launch`].
    pub(super) unsafe fn launch<P: bytemuck::NoUninit>(
        &self,
        kernel: &TypedKernel<P>,
        threads: u64,
        params: &P,
        stream: &Stream,
    ) -> Result<()> {
        if threads == 0 {
            return Ok(());
        }
        // SAFETY: this function's contract.
        unsafe { kernel.launch(Grid::covering(threads, THREADS), params, stream) }
    }
}

/// `graph_batch::dropped_key`.
fn dropped_key(bits: u32) -> u64 {
    u64::MAX >> (u64::BITS - 2 * bits)
}

/// Sums over a batch: `graph_batch::Control`.
struct Totals {
    added: u64,
    removed: u64,
    loops_added: u64,
    loops_removed: u64,
    needed: u64,
    moved: u64,
    dead: u64,
}

impl Totals {
    fn read(control: &Buffer, stream: &Stream) -> Result<Totals> {
        let mut words = [0; CONTROL_WORDS];
        control.read_on(0, &mut words, stream)?;
        let [_, _, added, removed, loops_added, loops_removed, needed, moved, dead] = words;
        Ok(Totals { added, removed, loops_added, loops_removed, needed, moved, dead })
    }

    fn apply(&self, storage: &mut Storage) {
        storage.entries = storage.entries + self.added - self.removed;
        storage.loops = storage.loops + self.loops_added - self.loops_removed;
        storage.pool_end += self.needed;
        storage.dead += self.dead;
    }
}
