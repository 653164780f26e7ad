//! An index in device memory: its batches.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytemuck::checked;
use warpkeep_device::{
    Device, DevicePtr, Grid, KernelSet as _, Program, Result, Stream, TypedKernel, WorkspacePool,
};

use super::columns::{Columns, HostBatch, Planned, Staged};
use super::kernels::{Batch, CELLS, IndexKernels, PENDING, Plan, Search, SearchAll, THREADS};
use super::layout::Layout;
use super::op::{IndexAnswer, IndexOpKind, IndexStatus};
use super::table::Table;
use crate::Sorter;
use crate::batch_columns::MOST_OPERATIONS;
use crate::batch_plan::HOST_PLANS;

/// How often displacement is tried again, for entries that others were faster than and for operations behind them.
const MOST_ROUNDS: u32 = 16;

#[derive(Debug)]
pub(super) struct DeviceIndex {
    pub(super) device: Device,
    pub(super) kernels: IndexKernels,
    sorter: Sorter,
    table: RwLock<Table>,
    /// It never changes.
    pub(super) layout: Layout,
    /// Operations of slices that are in device memory at once.
    staged: usize,
    pub(super) workspaces: WorkspacePool<Columns>,
}

impl DeviceIndex {
    pub(super) fn program() -> Program {
        IndexKernels::program()
    }

    pub(super) fn new(device: &Device, layout: Layout, staged: usize) -> Result<DeviceIndex> {
        Ok(DeviceIndex {
            device: device.clone(),
            kernels: IndexKernels::load(device)?,
            sorter: Sorter::new(device)?,
            table: RwLock::new(Table::new(device, layout)?),
            layout,
            staged: staged.clamp(1, MOST_OPERATIONS),
            workspaces: WorkspacePool::default(),
        })
    }

    /// The table, for what does not change it. Whatever did before has been waited for.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a batch of slices, and gives each answer in the batch's order.
    pub(super) fn run(&self, batch: &HostBatch<'_>, mut answer: impl FnMut(IndexAnswer)) -> Result<()> {
        if batch.len() == 0 {
            return Ok(());
        }
        let is_search = matches!(batch, HostBatch::Search(_));
        let is_unordered = matches!(batch, HostBatch::All(IndexOpKind::Insert | IndexOpKind::Delete, ..));
        let on_host = !is_search && !is_unordered && batch.len().min(self.staged) <= HOST_PLANS;
        // One workspace for all parts, so that the memory of the first, which is the longest, does for the others: once something has
        // changed, its answers are not to be lost.
        let mut workspace = self.workspaces.take(&self.device)?;
        let (device, columns, stream) = (&self.device, &mut workspace.columns, &workspace.stream);
        for begin in (0..batch.len()).step_by(self.staged) {
            let part = batch.part(begin..batch.len().min(begin.saturating_add(self.staged)));
            let count = part.len();
            // SAFETY: the stream is synchronised before the columns, or the table of a search, are used again.
            let table = unsafe {
                let staged = columns.stage(&part, !on_host, device, stream)?;
                if is_search {
                    Some(self.enqueue_search(&staged, stream)?)
                } else {
                    let planned = match on_host {
                        true => Some(columns.plan_on_host(&part, self.layout, device, stream)?),
                        false => self.plan(&staged, columns, stream)?,
                    };
                    self.apply(&staged, planned, columns, stream)?;
                    None
                }
            };
            // SAFETY: as above.
            let fetched = unsafe { columns.fetch(count, device, stream) };
            stream.synchronize().and(fetched)?;
            drop(table);
            let statuses: &[IndexStatus] = checked::cast_slice(columns.statuses.fetched::<u8>(count));
            let matches = columns.matches.fetched::<u8>(count);
            let found = columns.found.fetched::<[u32; 2]>(count);
            for ((&status, &matches), &found) in statuses.iter().zip(matches).zip(found) {
                answer(IndexAnswer { status, matches, found });
            }
        }
        self.workspaces.put_back(workspace);
        Ok(())
    }

    /// Runs a batch that is in device memory, after what is in the stream, and waits for it.
    ///
    /// # Safety
    /// The columns are as long as `staged` says, and no other code uses them meanwhile.
    pub(super) unsafe fn run_staged(&self, staged: &Staged, stream: &Stream) -> Result<()> {
        if staged.count == 0 {
            return Ok(());
        }
        if staged.is_search() {
            // SAFETY: this function's contract; the table is borrowed until the stream is synchronised.
            let _table = unsafe { self.enqueue_search(staged, stream)? };
            return stream.synchronize();
        }
        let mut workspace = self.workspaces.take(&self.device)?;
        // SAFETY: this function's contract; the second call waits for the stream.
        unsafe {
            let planned = self.plan(staged, &mut workspace.columns, stream)?;
            self.apply(staged, planned, &mut workspace.columns, stream)?;
        }
        self.workspaces.put_back(workspace);
        Ok(())
    }

    /// Begins to search. The table must not change until the stream is synchronised.
    ///
    /// # Safety
    /// As [`run_staged`](Self::run_staged), until then.
    unsafe fn enqueue_search(&self, staged: &Staged, stream: &Stream) -> Result<RwLockReadGuard<'_, Table>> {
        let table = self.read();
        let Staged { hashes, statuses, matches, found, count, .. } = *staged;
        let params =
            Search { index: table.reference(), hashes, statuses, matches, found, count: count as u64 };
        // SAFETY: the caller's promise.
        unsafe { self.kernels.search.launch(Grid::covering(count as u64, THREADS), &params, stream)? };
        Ok(table)
    }

    /// Gives the locations of all entries that match each hash, in no order.
    pub(super) fn search_all(&self, hashes: &[u64], mut answer: impl FnMut(&[u32])) -> Result<()> {
        const EACH: usize = 2 * CELLS;
        for part in hashes.chunks(self.staged) {
            let count = part.len();
            let mut workspace = self.workspaces.take(&self.device)?;
            let (device, columns, stream) = (&self.device, &mut workspace.columns, &workspace.stream);
            columns.hashes.host::<u64>(device, count)?.copy_from_slice(part);
            let table = self.read();
            // SAFETY: the columns are as long as the kernel writes; the stream is synchronised before they or the table are used again.
            unsafe {
                let params = SearchAll {
                    index: table.reference(),
                    hashes: columns.hashes.send::<u64>(device, count, stream)?,
                    counts: columns.found.reserve(device, 4 * count)?,
                    locations: columns.all.reserve(device, 4 * EACH * count)?,
                    count: count as u64,
                };
                let threads = CELLS as u64 * count as u64;
                self.kernels.search_all.launch(Grid::covering(threads, THREADS), &params, stream)?;
                columns.found.fetch::<u32>(device, count, stream)?;
                columns.all.fetch::<u32>(device, EACH * count, stream)?;
            }
            stream.synchronize()?;
            drop(table);
            let counts = columns.found.fetched::<u32>(count);
            let locations = columns.all.fetched::<u32>(EACH * count);
            for (count, locations) in counts.iter().zip(locations.chunks(EACH)) {
                answer(&locations[..*count as usize]);
            }
            self.workspaces.put_back(workspace);
        }
        Ok(())
    }

    /// Plans a batch on the device, and does not wait: sorted by bucket, so that neighbouring threads work neighbouring buckets. No plan if it
    /// needs none.
    ///
    /// # Safety
    /// As [`run_staged`](Self::run_staged); the stream is synchronised before the columns are used again.
    unsafe fn plan(
        &self,
        staged: &Staged,
        columns: &mut Columns,
        stream: &Stream,
    ) -> Result<Option<Planned>> {
        if staged.is_unordered() {
            return Ok(None);
        }
        let (index, count) = (self.read().reference(), staged.count as u64);
        let bits = 32 + self.layout.bits();
        // SAFETY: the caller's promise; both columns have `count` elements.
        let (plan, runs_at) = unsafe {
            columns.plans.enqueue_plan::<u64>(
                staged.count,
                bits,
                &self.sorter,
                &self.device,
                stream,
                |sorted, numbers| {
                    let params = Plan { index, hashes: staged.hashes, sorted, numbers, count };
                    self.kernels.plan.launch(Grid::covering(count, THREADS), &params, stream)
                },
            )?
        };
        Ok(Some(Planned { plan, runs_at }))
    }

    /// Works a batch: displaces where it must, and answers `Full` where that fails. Waits for it.
    ///
    /// # Safety
    /// As [`run_staged`](Self::run_staged), for both.
    unsafe fn apply(
        &self,
        staged: &Staged,
        planned: Option<Planned>,
        columns: &mut Columns,
        stream: &Stream,
    ) -> Result<()> {
        // All memory is there before the first change.
        let lists = columns.plans.lists(&self.device, staged.count, 8)?;
        // Exclusively: entries that are on their way cannot be found.
        let table = self.write();
        let mut pass = Pass { index: self, staged, planned, lists, listed: None, stream };
        let first = match planned {
            Some(_) => &self.kernels.apply,
            None if staged.code == IndexOpKind::Insert as u32 => &self.kernels.insert,
            None => &self.kernels.erase,
        };
        // SAFETY: the caller's promise, as for all kernels below.
        let mut left = unsafe { pass.run(first, false, &table)? };
        for _ in 0..MOST_ROUNDS {
            if left.pending == 0 {
                return Ok(());
            }
            // SAFETY: as above.
            left = unsafe { pass.run(&self.kernels.place, false, &table)? };
            if left.pending == 0 {
                return Ok(());
            }
            if left.placed == 0 {
                break;
            }
            // SAFETY: as above.
            left = unsafe { pass.run(&self.kernels.apply, false, &table)? };
        }
        // SAFETY: as above.
        unsafe { pass.run(&self.kernels.apply, true, &table)? };
        Ok(())
    }
}

/// What a kernel left to do.
#[derive(Debug, Clone, Copy)]
struct Left {
    /// Runs that are not finished.
    pending: u64,
    /// Runs for which a displacing kernel added entries.
    placed: u64,
}

/// The kernels that work one batch: first all its runs, then those on the list of the one before.
struct Pass<'a> {
    index: &'a DeviceIndex,
    staged: &'a Staged,
    /// `None` if every operation is a run of its own.
    planned: Option<Planned>,
    lists: [DevicePtr; 2],
    /// How many runs the first list has; `None` before there is one.
    listed: Option<u64>,
    stream: &'a Stream,
}

impl Pass<'_> {
    /// # Safety
    /// The columns are as long as the batch says, and the table is not used otherwise.
    unsafe fn run(&mut self, kernel: &TypedKernel<Batch>, refuses: bool, table: &Table) -> Result<Left> {
        let (staged, planned) = (self.staged, self.planned);
        let (planned, runs_at) =
            planned.map_or((None, DevicePtr::NULL), |Planned { plan, runs_at }| (Some(plan), runs_at));
        let runs = planned.map_or(staged.count as u64, |plan| plan.runs);
        debug_assert_eq!(table.layout, self.index.layout);
        table.control.fill_on(8 * PENDING, 16, 0, self.stream)?;
        let params = Batch {
            index: table.reference(),
            hashes: if planned.is_some() { DevicePtr::NULL } else { staged.hashes },
            sorted: planned.map_or(DevicePtr::NULL, |plan| plan.sorted),
            numbers: planned.map_or(DevicePtr::NULL, |plan| plan.numbers),
            begins: planned.map_or(DevicePtr::NULL, |plan| plan.begins),
            runs,
            count: staged.count as u64,
            codes: staged.codes,
            locations: staged.locations,
            olds: staged.olds,
            statuses: staged.statuses,
            matches: staged.matches,
            found: staged.found,
            list: if self.listed.is_some() { self.lists[0] } else { DevicePtr::NULL },
            listed: self.listed.unwrap_or(0),
            pending: self.lists[1],
            runs_at,
            code: staged.code,
            refuses: u32::from(refuses),
        };
        let threads = self.listed.unwrap_or(runs);
        // SAFETY: the caller's promise; the lists have room for all runs.
        unsafe { kernel.launch(Grid::covering(threads, THREADS), &params, self.stream)? };
        let mut counted = [0_u64; 2];
        table.control.read_on(8 * PENDING, &mut counted, self.stream)?;
        let [pending, placed] = counted;
        self.lists.swap(0, 1);
        self.listed = Some(pending);
        Ok(Left { pending, placed })
    }
}
