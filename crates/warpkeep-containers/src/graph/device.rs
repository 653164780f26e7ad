//! A graph in device memory: its batches.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytemuck::checked;
use warpkeep_device::{Device, DevicePtr, Grid, KernelSet as _, Result, Stream, TypedKernel, WorkspacePool};

use super::GraphOptions;
use super::apply::{Known, Work};
use super::calls::TriangleChange;
use super::columns::{Columns, Extent, HostBatch, Staged};
use super::compaction::Compaction;
use super::edge::EdgeStatus;
use super::kernels::{CONTROL_WORDS, Expand, GraphKernels, MOST_RUNS, THREADS};
use super::pins::Pins;
use super::storage::Storage;
use crate::batch_columns::settled;
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
    /// Held by each call that changes the graph or keeps its state, before it borrows the storage.
    turn: Mutex<()>,
    pub(super) pins: Pins,
    /// Batches with no more runs are planned by one block.
    pub(super) most_runs: u64,
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
            turn: Mutex::default(),
            pins: Pins::default(),
            most_runs: MOST_RUNS,
            options: options.clone(),
            workspaces: WorkspacePool::default(),
        })
    }

    /// The storage, for what does not change it. Calls that did have waited for their kernels.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Storage> {
        self.storage.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// One call at a time changes the graph. What it finds out before that, it finds out beside others that read.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Storage> {
        self.storage.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn compaction<'a>(&'a self, stream: &'a Stream) -> Compaction<'a> {
        Compaction { device: &self.device, kernels: &self.kernels, sorter: &self.sorter, stream }
    }

    /// Runs a batch of slices; gives the answers in the batch's order, and by how much the triangles change if that is asked for.
    pub(super) fn run(
        &self,
        batch: &HostBatch<'_>,
        change: Option<&mut TriangleChange>,
    ) -> Result<Vec<EdgeStatus>, ContainerError> {
        let (count, extent) = (batch.len(), batch.extent(&self.options));
        if count == 0 {
            return Ok(Vec::new());
        }
        let entries = self.check_size(count, extent)?;
        let mut workspace = self.workspaces.take(&self.device)?;
        let (columns, stream) = (&mut workspace.columns, &workspace.stream);
        let statuses = settled(self.run_in(batch, (extent, entries), change, columns, stream), stream)?;
        self.workspaces.put_back(workspace);
        Ok(statuses)
    }

    fn run_in(
        &self,
        batch: &HostBatch<'_>,
        (extent, entries): (Extent, usize),
        change: Option<&mut TriangleChange>,
        columns: &mut Columns,
        stream: &Stream,
    ) -> Result<Vec<EdgeStatus>, ContainerError> {
        let (device, count, on_host) = (&self.device, batch.len(), entries <= HOST_PLANS);
        // SAFETY: the stream is synchronised before the columns are used again, here or by the caller.
        unsafe {
            // Nothing can fail for want of memory when the graph has changed.
            columns.statuses.host::<u8>(device, count)?;
            let staged = columns.stage(batch, &self.options, !on_host, device, stream)?;
            let known = Known { extent, is_exact: true };
            let planned = match on_host {
                true => {
                    let keys = self.sort_keys(batch, extent.bits());
                    Some(columns.plans.plan_on_host::<u64>(keys, device, stream)?)
                }
                false => None,
            };
            self.apply(&Work { staged: &staged, known, planned, fetches: true }, change, columns, stream)?;
        }
        let statuses: &[EdgeStatus] = checked::cast_slice(columns.statuses.fetched::<u8>(count));
        Ok(statuses.to_vec())
    }

    /// Runs a batch that is in device memory, after what is in the stream, and waits for it.
    ///
    /// # Safety
    /// The columns are as long as `staged` says, and no other code uses them meanwhile.
    pub(super) unsafe fn run_staged(
        &self,
        staged: &Staged,
        change: Option<&mut TriangleChange>,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        if staged.count == 0 {
            return Ok(());
        }
        let mut workspace = self.workspaces.take(&self.device)?;
        // SAFETY: this function's contract.
        let done = unsafe { self.run_staged_in(staged, change, &mut workspace.columns, stream) };
        settled(done, stream)?;
        self.workspaces.put_back(workspace);
        Ok(())
    }

    /// # Safety
    /// As [`run_staged`](Self::run_staged); after an error the stream is synchronised before anything is used again.
    unsafe fn run_staged_in(
        &self,
        staged: &Staged,
        change: Option<&mut TriangleChange>,
        columns: &mut Columns,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let vertices = self.read().vertices;
        let mut known = Known { extent: Extent { named: vertices, inserted: vertices }, is_exact: false };
        if vertices == 0 {
            // Keys of some bits are sorted as if the vertices of the graph were all. Here that would be wrong for sure.
            // SAFETY: this function's contract.
            known = Known { extent: unsafe { self.largest(staged, columns, stream)? }, is_exact: true };
        }
        self.check_size(staged.count, known.extent)?;
        // SAFETY: this function's contract.
        unsafe { self.apply(&Work { staged, known, planned: None, fetches: false }, change, columns, stream) }
    }

    /// The largest vertices of a batch.
    ///
    /// # Safety
    /// As [`run_staged`](Self::run_staged).
    unsafe fn largest(&self, staged: &Staged, columns: &mut Columns, stream: &Stream) -> Result<Extent> {
        let control = columns.control.reserve(&self.device, 8 * CONTROL_WORDS)?;
        control.fill_on(0, 8 * CONTROL_WORDS, 0, stream)?;
        let params = Expand { control: control.ptr(), ..self.expand(staged, 0) };
        // SAFETY: this function's contract; the read waits for the stream.
        unsafe { self.launch(&self.kernels.largest, staged.count as u64, &params, stream)? };
        let mut words = [0_u64; 2];
        control.read_on(0, &mut words, stream)?;
        Ok(Extent { named: words[0], inserted: words[1] })
    }

    pub(super) fn mirrored(&self) -> u32 {
        u32::from(self.options.undirected)
    }

    /// An error if the batch is too long or names a vertex that there cannot be; otherwise how many entries it has.
    pub(super) fn check_size(&self, count: usize, extent: Extent) -> Result<usize, ContainerError> {
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
            control: DevicePtr::NULL,
            named: 0,
            inserted: 0,
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

    /// Plans a batch on the device, and does not wait: gives where the number of its runs will be as well. If it is not
    /// known for sure which vertices it names, the largest one beyond those comes to the control words; the plan means
    /// nothing then.
    ///
    /// # Safety
    /// As [`run_staged`](Self::run_staged).
    pub(super) unsafe fn plan(
        &self,
        staged: &Staged,
        known: Known,
        control: DevicePtr,
        plans: &mut PlanColumns,
        stream: &Stream,
    ) -> Result<(BatchPlan, DevicePtr)> {
        let (entries, bits) = (staged.count << self.mirrored(), known.extent.bits());
        let fill = |sorted| {
            let control = if known.is_exact { DevicePtr::NULL } else { control };
            let (named, inserted) = ((1 << bits) - 1, known.extent.inserted);
            let params = Expand { sorted, control, named, inserted, ..self.expand(staged, bits) };
            // SAFETY: the caller's promise; the column has `entries` elements.
            unsafe { self.launch(&self.kernels.expand, entries as u64, &params, stream) }
        };
        let (sorter, device) = (&self.sorter, &self.device);
        // SAFETY: the caller waits for the stream before the columns are used again.
        unsafe { plans.enqueue_numbered::<u64>(entries, 2 * bits, sorter, device, stream, fill) }
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
