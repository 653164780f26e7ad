//! A map in device memory: its batches.

use std::marker::PhantomData;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytemuck::checked;
use warpkeep_device::{Device, DevicePtr, Grid, Result, Stream, TypedKernel, WorkspacePool};

use super::HashMapOptions;
use super::columns::{Columns, HostBatch, Planned, Staged};
use super::kernels::{Batch, Kernels, Lookup, PENDING, Plan, THREADS};
use super::op::{MapAnswer, MapOpKind, MapStatus};
use super::outstanding::Outstanding;
use super::table::{Counts, Table, fits};
use super::width::{MapKey, MapValue, Shape};
use crate::Sorter;
use crate::batch_columns::MOST_OPERATIONS;
use crate::batch_plan::HOST_PLANS;

/// How often displacement is tried again for keys that others were faster than.
const MOST_DISPLACEMENTS: u32 = 8;

#[derive(Debug)]
pub(super) struct DeviceMap<K: MapKey, V: MapValue> {
    // Dropped, and waited for, before the memory that it uses.
    pub(super) outstanding: Outstanding,
    pub(super) device: Device,
    pub(super) kernels: Kernels,
    pub(super) sorter: Sorter,
    table: RwLock<Table>,
    pub(super) seed: u64,
    /// Operations of slices that are in device memory at once.
    staged: usize,
    pub(super) workspaces: WorkspacePool<Columns>,
    of: PhantomData<fn() -> (K, V)>,
}

impl<K: MapKey, V: MapValue> DeviceMap<K, V> {
    pub(super) fn new(device: &Device, options: &HashMapOptions, seed: u64) -> Result<Self> {
        let shape = Shape::of::<K, V>();
        shape.check_arch(device.info().abilities.arch)?;
        Ok(DeviceMap {
            outstanding: Outstanding::default(),
            device: device.clone(),
            kernels: Kernels::load(device, shape)?,
            sorter: Sorter::new(device)?,
            table: RwLock::new(Table::new(device, shape, options.items, options.most_bytes, seed)?),
            seed,
            staged: options.staged.clamp(1, MOST_OPERATIONS),
            workspaces: WorkspacePool::default(),
            of: PhantomData,
        })
    }

    /// The table, for what does not change it. Whatever did before has been waited for.
    pub(super) fn read(&self) -> Result<RwLockReadGuard<'_, Table>> {
        let table = self.lock();
        self.outstanding.wait_for_changes()?;
        Ok(table)
    }

    /// The table, for what changes it. Whatever used it before has been waited for.
    pub(super) fn write(&self) -> Result<RwLockWriteGuard<'_, Table>> {
        let table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        self.outstanding.wait_for_all()?;
        Ok(table)
    }

    /// The table, which enqueued work may be changing.
    pub(super) fn lock(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock_exclusively(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Doubles until there is room for this many keys.
    pub(super) fn reserve(&self, items: u64) -> Result<()> {
        let workspace = self.workspaces.take(&self.device)?;
        self.write()?.reserve(items, &self.kernels, &workspace.stream)?;
        self.workspaces.put_back(workspace);
        Ok(())
    }

    /// Runs a batch of slices, and gives each answer in the batch's order.
    pub(super) fn run(
        &self,
        batch: &HostBatch<'_, K, V>,
        with_before: bool,
        mut answer: impl FnMut(MapAnswer<V>),
    ) -> Result<()> {
        let is_lookup = matches!(batch, HostBatch::All(MapOpKind::Find | MapOpKind::Contains, ..));
        for begin in (0..batch.len()).step_by(self.staged) {
            let part = batch.part(begin..batch.len().min(begin.saturating_add(self.staged)));
            let count = part.len();
            let mut workspace = self.workspaces.take(&self.device)?;
            let (device, columns, stream) = (&self.device, &mut workspace.columns, &workspace.stream);
            let on_host = !is_lookup && count <= HOST_PLANS;
            let may_be_fresh = matches!(batch, HostBatch::All(kind, ..) if kind.inserts());
            // SAFETY: the stream is synchronised before the columns, or the table of a lookup, are used again.
            let table = unsafe {
                let staged = columns.stage(&part, !on_host || may_be_fresh, with_before, device, stream)?;
                if is_lookup {
                    Some(self.enqueue_lookup(&staged, stream)?)
                } else if self.try_fresh(&staged, columns, stream)? {
                    None
                } else {
                    let rotation = self.read()?.bits;
                    let planned = match on_host {
                        true => columns.plan_on_host(&part, self.seed, rotation, device, stream)?,
                        false => self.plan(&staged, columns, stream)?,
                    };
                    self.apply(&staged, &planned, columns, stream)?;
                    None
                }
            };
            // SAFETY: as above.
            let fetched = unsafe { columns.fetch::<V>(count, with_before, device, stream) };
            stream.synchronize().and(fetched)?;
            drop(table);
            let statuses: &[MapStatus] = checked::cast_slice(columns.statuses.fetched::<u8>(count));
            let before = if with_before { columns.before.fetched::<V>(count) } else { &[] };
            for (at, &status) in statuses.iter().enumerate() {
                answer(MapAnswer { status, before: before.get(at).copied().unwrap_or(V::zeroed()) });
            }
            self.workspaces.put_back(workspace);
        }
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
        if staged.is_lookup() {
            // SAFETY: this function's contract; the table is borrowed until the stream is synchronised.
            let _table = unsafe { self.enqueue_lookup(staged, stream)? };
            return stream.synchronize();
        }
        let mut workspace = self.workspaces.take(&self.device)?;
        let columns = &mut workspace.columns;
        // SAFETY: this function's contract; all calls wait for the stream.
        unsafe {
            if !self.try_fresh(staged, columns, stream)? {
                let planned = self.plan(staged, columns, stream)?;
                self.apply(staged, &planned, columns, stream)?;
            }
        }
        self.workspaces.put_back(workspace);
        Ok(())
    }

    /// Works a batch without a plan, if it is one that needs none. Waits for it.
    ///
    /// # Safety
    /// As [`run_staged`](Self::run_staged).
    unsafe fn try_fresh(&self, staged: &Staged, columns: &mut Columns, stream: &Stream) -> Result<bool> {
        if !staged.inserts() {
            return Ok(false);
        }
        let lists = columns.plans.lists(&self.device, staged.count, 4)?;
        let mut table = self.write()?;
        let length = table.len_on(stream)?;
        if !Self::is_fresh(staged, length, &table) {
            return Ok(false);
        }
        table.set_known(None);
        // SAFETY: the caller's promise; the length is that after what is in the stream.
        let (counts, rest) = unsafe { self.insert_fresh(staged, length == 0, &table, columns, stream)? };
        let length = match rest {
            None => counts.length,
            // SAFETY: the caller's promise; the rest is that of this batch.
            Some(rest) => unsafe { self.work_rest(rest, staged, columns, lists, &mut table, stream)? },
        };
        table.set_known(Some(length));
        Ok(true)
    }

    /// Begins to find keys. The table must not change until the stream is synchronised.
    ///
    /// # Safety
    /// As [`run_staged`](Self::run_staged), until then.
    unsafe fn enqueue_lookup(&self, staged: &Staged, stream: &Stream) -> Result<RwLockReadGuard<'_, Table>> {
        let table = self.lock();
        self.outstanding.order_after_changes(stream)?;
        // SAFETY: the caller's promise.
        unsafe { self.launch_find(staged, &table, stream)? };
        Ok(table)
    }

    /// # Safety
    /// As [`run_staged`](Self::run_staged), until the stream has come to the end of it; the table is not changed until then.
    pub(super) unsafe fn launch_find(&self, staged: &Staged, table: &Table, stream: &Stream) -> Result<()> {
        let values = match staged.code == MapOpKind::Find as u32 {
            true => staged.before,
            false => DevicePtr::NULL,
        };
        let Staged { keys, statuses, count, .. } = *staged;
        let params = Lookup { map: table.reference(), keys, statuses, values, count: count as u64 };
        // SAFETY: this function's contract.
        unsafe { self.kernels.find.launch(Grid::covering(count as u64, THREADS), &params, stream) }
    }

    /// Writes what a batch is sorted by, or those of its operations that are listed.
    ///
    /// # Safety
    /// As [`launch_find`](Self::launch_find); both columns have an element for each operation.
    pub(super) unsafe fn launch_plan(
        &self,
        staged: &Staged,
        list: DevicePtr,
        rotation: u32,
        (sorted, numbers): (DevicePtr, DevicePtr),
        stream: &Stream,
    ) -> Result<()> {
        let (keys, count, seed) = (staged.keys, staged.count as u64, self.seed);
        let params = Plan { keys, list, sorted, numbers, count, seed, rotation: u64::from(rotation) };
        // SAFETY: this function's contract.
        unsafe { self.kernels.plan.launch(Grid::covering(count, THREADS), &params, stream) }
    }

    /// Plans a batch on the device, and does not wait. It is sorted by bucket, so that neighbouring threads work neighbouring buckets.
    ///
    /// # Safety
    /// As [`launch_find`](Self::launch_find); the columns are not used again until then.
    pub(super) unsafe fn enqueue_plan(
        &self,
        staged: &Staged,
        rotation: u32,
        columns: &mut Columns,
        stream: &Stream,
    ) -> Result<Planned> {
        // SAFETY: the caller's promise; both columns have an element for each operation.
        let (plan, runs_at) = unsafe {
            columns.plans.enqueue_plan::<K>(
                staged.count,
                8 * size_of::<K>() as u32,
                &self.sorter,
                &self.device,
                stream,
                |sorted, numbers| {
                    self.launch_plan(staged, DevicePtr::NULL, rotation, (sorted, numbers), stream)
                },
            )?
        };
        Ok(Planned { plan, runs_at, rotation })
    }

    /// Plans a batch on the device. It waits only if the number of different keys must be known: it is the size that an empty map will have.
    ///
    /// # Safety
    /// As [`run_staged`](Self::run_staged).
    unsafe fn plan(&self, staged: &Staged, columns: &mut Columns, stream: &Stream) -> Result<Planned> {
        let table = self.read()?;
        let rotation = table.bits;
        let is_sized = staged.inserts() && Self::may_outgrow(staged.count as u64, &table, stream)?;
        drop(table);
        if !is_sized {
            // SAFETY: the caller's promise; whatever works the plan waits for the stream.
            return unsafe { self.enqueue_plan(staged, rotation, columns, stream) };
        }
        let plan = columns.plans.plan_on_device::<K>(
            staged.count,
            8 * size_of::<K>() as u32,
            &self.sorter,
            &self.device,
            stream,
            // SAFETY: the caller's promise; both columns have an element for each operation, and planning waits for the stream.
            |sorted, numbers| unsafe {
                self.launch_plan(staged, DevicePtr::NULL, rotation, (sorted, numbers), stream)
            },
        )?;
        Ok(Planned { plan, runs_at: DevicePtr::NULL, rotation })
    }

    /// Whether the map is empty and too small for this many keys.
    fn may_outgrow(keys: u64, table: &Table, stream: &Stream) -> Result<bool> {
        Ok(!fits(keys, table.capacity()) && table.len_on(stream)? == 0)
    }

    /// Works a planned batch: grows if it must, and answers `Full` only if it cannot. Waits for it.
    ///
    /// # Safety
    /// As [`run_staged`](Self::run_staged), for both.
    unsafe fn apply(
        &self,
        staged: &Staged,
        planned: &Planned,
        columns: &mut Columns,
        stream: &Stream,
    ) -> Result<()> {
        // All memory but that for growth is there before the first change.
        let lists = columns.plans.lists(&self.device, planned.plan.runs as usize, 4)?;
        let mut table = self.write()?;
        let pass = Pass::new(&self.kernels, staged, planned, lists, stream);
        // An empty map is given its size at once. Otherwise the keys that are new are not known yet.
        let new = planned.plan.runs;
        if staged.inserts() && planned.runs_at.is_null() && Self::may_outgrow(new, &table, stream)? {
            table.grow_for(new, &self.kernels, stream)?;
        }
        table.set_known(None);
        // SAFETY: the caller's promise.
        let length = unsafe { self.work(pass, &mut table)? };
        table.set_known(Some(length));
        Ok(())
    }

    /// Works the runs of a plan, and waits for it. Gives the number of keys.
    ///
    /// # Safety
    /// As [`run_staged`](Self::run_staged), for all of the pass.
    pub(super) unsafe fn work(&self, mut pass: Pass<'_>, table: &mut Table) -> Result<u64> {
        // SAFETY: the caller's promise, for both.
        unsafe {
            let left = pass.run(&self.kernels.apply, table)?;
            self.finish(pass, left, table)
        }
    }

    /// Goes on with what the first kernel of a pass left to do.
    ///
    /// # Safety
    /// As [`work`](Self::work).
    pub(super) unsafe fn finish(&self, mut pass: Pass<'_>, mut left: Left, table: &mut Table) -> Result<u64> {
        loop {
            if left.pending > 0 && fits(left.length + left.pending, table.capacity()) {
                // SAFETY: the caller's promise.
                left = unsafe { pass.displace(left, table)? };
            }
            if left.pending == 0 {
                return Ok(left.length);
            }
            if !table.grow_for(left.length + left.pending, &self.kernels, pass.stream)? {
                // SAFETY: as above.
                unsafe {
                    left = pass.displace(left, table)?;
                    pass.refuse(left, table)?;
                }
                return Ok(left.length);
            }
            // SAFETY: as above.
            left = unsafe { pass.run(&self.kernels.apply, table)? };
        }
    }
}

/// What a kernel left to do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left {
    /// Keys in the map.
    pub(super) length: u64,
    /// Keys without a slot.
    pub(super) pending: u64,
    /// What the word `PENDING_NEXT` has.
    pub(super) next: u64,
}

/// The kernels that work one batch: first all its runs, then those on the list of the one before.
pub(super) struct Pass<'a> {
    kernels: &'a Kernels,
    staged: &'a Staged,
    planned: &'a Planned,
    lists: [DevicePtr; 2],
    /// How many runs the first list has; `None` before there is one.
    listed: Option<u64>,
    /// If there is a word here, and it is not 0, the kernels do nothing.
    pub(super) unless: DevicePtr,
    stream: &'a Stream,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        kernels: &'a Kernels,
        staged: &'a Staged,
        planned: &'a Planned,
        lists: [DevicePtr; 2],
        stream: &'a Stream,
    ) -> Self {
        Pass { kernels, staged, planned, lists, listed: None, unless: DevicePtr::NULL, stream }
    }

    /// # Safety
    /// The columns are as long as the batch says, and the table is not used otherwise.
    pub(super) unsafe fn run(&mut self, kernel: &TypedKernel<Batch>, table: &Table) -> Result<Left> {
        table.control.fill_on(8 * PENDING, 8, 0, self.stream)?;
        // SAFETY: the caller's promise.
        unsafe { self.launch(kernel, table)? };
        let Counts { length, pending: [pending, next] } = table.counts_on(self.stream)?;
        self.lists.swap(0, 1);
        self.listed = Some(pending);
        Ok(Left { length, pending, next })
    }

    /// # Safety
    /// As [`run`](Self::run); the stream is synchronised before the columns are used again.
    unsafe fn launch(&self, kernel: &TypedKernel<Batch>, table: &Table) -> Result<()> {
        let params = Batch {
            list: if self.listed.is_some() { self.lists[0] } else { DevicePtr::NULL },
            listed: self.listed.unwrap_or(0),
            pending: self.lists[1],
            unless: self.unless,
            ..batch_of(self.staged, self.planned, table)
        };
        let threads = self.listed.unwrap_or(self.planned.plan.runs);
        // SAFETY: the caller's promise; the lists have room for all runs.
        unsafe { kernel.launch(Grid::covering(threads, THREADS), &params, self.stream) }
    }

    /// Moves keys that are there to make room for those on the list, as long as that helps.
    ///
    /// # Safety
    /// As [`run`](Self::run).
    unsafe fn displace(&mut self, mut left: Left, table: &Table) -> Result<Left> {
        for _ in 0..MOST_DISPLACEMENTS {
            let before = left.pending;
            // SAFETY: the caller's promise.
            left = unsafe { self.run(&self.kernels.place, table)? };
            if left.pending == 0 || left.pending == before {
                break;
            }
        }
        Ok(left)
    }

    /// Answers `Full` for the keys on the list.
    ///
    /// # Safety
    /// As [`run`](Self::run).
    unsafe fn refuse(&mut self, left: Left, table: &Table) -> Result<()> {
        if left.pending > 0 {
            // SAFETY: the caller's promise.
            unsafe { self.launch(&self.kernels.refuse, table)? };
        }
        self.stream.synchronize()
    }
}

/// The parameters of a kernel that works all runs of a batch and lists none.
pub(super) fn batch_of(staged: &Staged, planned: &Planned, table: &Table) -> Batch {
    Batch {
        map: table.reference(),
        keys: if planned.plan.begins.is_null() { staged.keys } else { DevicePtr::NULL },
        sorted: planned.plan.sorted,
        numbers: planned.plan.numbers,
        begins: planned.plan.begins,
        runs: planned.plan.runs,
        count: staged.count as u64,
        codes: staged.codes,
        operands: staged.operands,
        statuses: staged.statuses,
        before: staged.before,
        list: DevicePtr::NULL,
        listed: 0,
        pending: DevicePtr::NULL,
        pending_count: table.control.ptr().offset(8 * PENDING as u64),
        runs_at: planned.runs_at,
        listed_at: DevicePtr::NULL,
        unless: DevicePtr::NULL,
        rotation: planned.rotation,
        code: staged.code,
    }
}
