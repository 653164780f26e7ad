//! A table of a store, as programs use it: batches, and single keys.

use std::fmt;
use std::sync::Arc;

use warpkeep_core::{
    Answers, Batch, BatchView, CoreError, Durability, HostBatch, KeyCells, KeySpec, MergeRule, Op, Output,
    Results, Status, ToCell, ValueSpec,
};
use warpkeep_device::Stream;
use warpkeep_image::{Coherent, Persist};

use crate::index::{Form, StepTime, StepWatch};
use crate::lease::{Lease, Leased, Shared};
use crate::metrics::{Counted, Kind};
use crate::{
    DeviceProfile, DeviceStats, Enqueued, Error, Geometry, HostGetBatches, HostGetStrategy, IndexKind,
    Layout, Result, TableStats, planner,
};

/// A table of a store.
///
/// It is a handle: clones of it, in any thread, are the same table, and the store stays open until the last of them is dropped. Once the store is
/// [closed](crate::Store::close), calls give [`Error::Closed`]; once the table is [dropped](crate::Store::drop_table), [`Error::NoTable`].
///
/// ```
/// use warpkeep::{Durability, Inserted, KeySpec, Store, Swapped, TableOptions, ValueSpec};
/// # let directory = tempfile::tempdir().unwrap();
/// let store = Store::open(directory.path())?;
/// let options = TableOptions::new(KeySpec::variable(64)?, ValueSpec::variable(1000)?);
/// let users = store.create_table("users", options)?;
///
/// let Inserted::New(version) = users.insert("ada", "countess", Durability::Power)? else { unreachable!() };
/// assert_eq!(users.insert("ada", "again", Durability::Power)?, Inserted::Exists(version));
/// assert!(matches!(users.compare_and_swap("ada", version, "engineer", Durability::Power)?, Swapped::Done(_)));
/// assert_eq!(users.get("ada")?, Some(b"engineer".to_vec()));
/// assert_eq!(users.update("bob", "nobody", Durability::Power)?, None);
/// # Ok::<(), warpkeep::Error>(())
/// ```
pub struct Table<P: Persist = Coherent> {
    pub(crate) lease: Arc<Lease<P>>,
    // After the lease: with it goes the store, if this is its last user.
    shared: Arc<Shared<P>>,
}

impl<P: Persist> Clone for Table<P> {
    fn clone(&self) -> Table<P> {
        Table { lease: Arc::clone(&self.lease), shared: Arc::clone(&self.shared) }
    }
}

/// The result of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The key is new, and has this version.
    New(u64),
    /// The key existed, with this version; nothing was done.
    Exists(u64),
}

/// The result of a compare-and-swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swapped {
    /// The value was replaced; the key has this version now.
    Done(u64),
    /// The key has this version, not the expected one; nothing was done. Read it again and retry.
    Stale(u64),
    /// The key does not exist; nothing was done.
    Missing,
}

impl<P: Persist> Table<P> {
    pub(crate) fn new(lease: Arc<Lease<P>>, shared: Arc<Shared<P>>) -> Table<P> {
        Table { lease, shared }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.lease.name
    }

    /// Its number, under which its changes are logged.
    pub fn id(&self) -> u32 {
        self.lease.id
    }

    /// The keys.
    pub fn key_spec(&self) -> KeySpec {
        self.lease.spec.key
    }

    /// The cells that represent its keys in batches whose columns lie in device memory, if keys have any length up to a short limit, and
    /// values one: see [`KeyCells`]. Keys in host memory are given as they are.
    pub fn key_cells(&self) -> Option<KeyCells> {
        self.lease.enter().ok()?.named.table.key_cells()
    }

    /// The values.
    pub fn value_spec(&self) -> ValueSpec {
        self.lease.spec.value
    }

    /// Which index it has.
    pub fn index(&self) -> IndexKind {
        self.lease.spec.form.kind()
    }

    /// How it is laid out, if it is a GPHash table.
    pub fn geometry(&self) -> Option<Geometry> {
        match self.lease.spec.form {
            Form::GpHash { geometry, .. } => Some(geometry),
            Form::TurboHash { .. } => None,
        }
    }

    /// The contents of a slot, if it is a GPHash table.
    pub fn layout(&self) -> Option<Layout> {
        match self.lease.spec.form {
            Form::GpHash { layout, .. } => Some(layout),
            Form::TurboHash { .. } => None,
        }
    }

    /// The merge rule.
    pub fn merge_rule(&self) -> MergeRule {
        self.lease.spec.merge
    }

    /// The number of items. Exact while there are no writers.
    pub fn len(&self) -> u64 {
        self.lease.enter().map_or(0, |call| call.named.table.len())
    }

    /// Whether it has no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How full it is, in the terms of its index. Looks at every slot, or at a good part of them.
    pub fn stats(&self) -> Result<TableStats> {
        Ok(self.lease.enter()?.named.table.stats())
    }

    /// What the device keeps of the table in its own memory, and its hit rates; `None` if the table runs on the CPU.
    ///
    /// ```
    /// use warpkeep::{DeviceChoice, KeySpec, Store, StoreOptions, TableOptions, ValueSpec};
    /// # let directory = tempfile::tempdir().unwrap();
    /// let store = Store::open(directory.path())?;
    /// let rows = store.create_table("rows", TableOptions::new(KeySpec::U64, ValueSpec::fixed(16)?))?;
    /// assert_eq!(rows.device_stats()?, None);
    /// # Ok::<(), warpkeep::Error>(())
    /// ```
    pub fn device_stats(&self) -> Result<Option<DeviceStats>> {
        self.lease.enter()?.named.table.device_stats()
    }

    /// The thresholds by which the device does batches of this table; `None` if the table runs on the CPU.
    pub fn device_profile(&self) -> Option<DeviceProfile> {
        self.lease.enter().ok()?.named.table.device_profile()
    }

    /// Replaces the thresholds by which the device does batches of this table, until the store is closed.
    pub fn set_device_profile(&self, profile: DeviceProfile) {
        if let Ok(call) = self.lease.enter() {
            call.named.table.set_device_profile(profile);
        }
    }

    /// Sets the strategy for batches of gets from host memory to host memory, for a table on a device; `None` for
    /// the one that its size and the [device profile](Table::device_profile) decide. See [`StoreOptions::host_gets`](crate::StoreOptions::host_gets).
    pub fn set_host_gets(&self, strategy: Option<HostGetStrategy>) {
        if let Ok(call) = self.lease.enter() {
            call.named.table.set_host_gets(strategy);
        }
    }

    /// How many batches of gets from host memory to host memory each strategy did, for a table on a device.
    pub fn host_get_batches(&self) -> Vec<HostGetBatches> {
        self.lease.enter().map_or_else(|_| Vec::new(), |call| call.named.table.host_get_batches())
    }

    /// Begins, or ceases, to note how long the steps of large batches take on a device: for measurements of this library itself.
    #[doc(hidden)]
    pub fn time_steps(&self, wanted: bool) {
        if let Ok(call) = self.lease.enter() {
            call.named.table.time_steps(wanted);
        }
    }

    /// The step times since the last call, batch by batch.
    #[doc(hidden)]
    pub fn take_step_times(&self) -> Vec<Vec<StepTime>> {
        self.lease.enter().map_or_else(|_| Vec::new(), |call| call.named.table.take_step_times())
    }

    /// Makes the table twice as large now, rather than when it is nearly full. Other threads read and write
    /// meanwhile.
    pub fn grow(&self) -> Result<()> {
        let call = self.lease.enter()?;
        call.keeper.check_writable()?;
        call.named.table.grow()
    }

    /// An empty batch for this table.
    pub fn batch(&self) -> Batch {
        Batch::new(self.key_spec(), self.value_spec())
    }

    /// Does a batch and gives the answers. Operations on one key act in the order of the batch.
    pub fn run(&self, batch: &Batch, durability: Durability) -> Result<Results> {
        let view = batch.view();
        let mut results = Results::new(&view);
        let call = self.lease.enter()?;
        let host = self.host(&view)?;
        execute(&call, &host, durability, &mut results)?;
        call.named.metrics.batch(&host, results.statuses());
        Ok(results)
    }

    /// Runs a batch in host memory and answers into the caller's arrays. Arrays for another number of operations
    /// are refused, with nothing done.
    ///
    /// For a table on a device, large batches of gets are fastest with keys and values in pinned memory: the device
    /// reads the keys in place, and writes some of the values to their destination while the host copies the others
    /// ([`HostGetStrategy::Split`]).
    ///
    /// ```
    /// use warpkeep::rows::{BatchView, Cells, ColumnMut, Columns, Output, OutputValues};
    /// use warpkeep::{Device, DeviceChoice, Durability, KeySpec, Op, Status, Store, StoreOptions, TableOptions, ValueSpec};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let Ok(device) = Device::open(DeviceChoice::Sim) else { return Ok(()) };
    /// let store = Store::open_on(directory.path(), StoreOptions::default(), &device)?;
    /// let table = store.create_table("rows", TableOptions::new(KeySpec::U64, ValueSpec::fixed(16)?))?;
    /// table.put(7, &[1; 16], Durability::Process)?;
    ///
    /// let (mut keys, mut rows) = (device.pin(2 * 8)?, device.pin(2 * 16)?);
    /// keys.elements_mut::<u64>()?.copy_from_slice(&[7, 9]);
    /// let mut statuses = [Status::Pending; 2];
    /// let gets = Columns::keys_only(Op::Get, Cells::u64s(keys.elements()?));
    /// let batch = BatchView::new(table.key_spec(), table.value_spec(), gets)?;
    /// let values = OutputValues::Rows { len: 16, bytes: ColumnMut::Host(rows.as_mut_slice()) };
    /// let output = Output::new(&batch, ColumnMut::Host(&mut statuses), None, values)?;
    /// let mut answers = output.into_host().expect("all of it is host memory");
    /// table.run_into(&batch, Durability::Process, &mut answers)?;
    ///
    /// assert_eq!(statuses, [Status::Ok, Status::NotFound]);
    /// assert_eq!(rows.as_slice()[..16], [1; 16]);
    /// # Ok::<(), warpkeep::Error>(())
    /// ```
    ///
    /// [`HostGetStrategy::Split`]: crate::HostGetStrategy::Split
    pub fn run_into(
        &self,
        batch: &BatchView<'_>,
        durability: Durability,
        answers: &mut dyn Answers,
    ) -> Result<()> {
        let call = self.lease.enter()?;
        let mut watch = call.named.table.watch_steps();
        let mut note = |step| watch.iter_mut().for_each(|watch| watch.host(step));
        let batch = self.host(batch)?;
        if let Some(rows) = answers.rows_mut()
            && rows.len() != batch.len()
        {
            let (found, expected) = (rows.len() as u64, batch.len() as u64);
            return Err(CoreError::ColumnLength { column: "answers", found, expected }.into());
        }
        let mut counted = Counted::new(answers, batch);
        let done = execute(&call, &batch, durability, &mut counted);
        note("library: the batch, all of it");
        call.named.metrics.add(&counted.tally());
        note("library: answers are counted");
        done?;
        Ok(watch.map_or(Ok(()), StepWatch::finish)?)
    }

    /// Does a batch as one, and answers as [`Table::run_into`] does: if an operation finds no room, none is done and all are answered so. With a log, all changes are one record.
    /// Writers of other batches that share a key wait for it. With [`Durability::Process`] a crash may still leave a part of it in the image.
    ///
    /// ```
    /// use warpkeep::{Durability, KeySpec, Results, Store, TableOptions, ValueSpec};
    /// # let directory = tempfile::tempdir().unwrap();
    /// let store = Store::open(directory.path())?;
    /// let table = store.create_table("rows", TableOptions::new(KeySpec::U64, ValueSpec::U64))?;
    /// let mut batch = table.batch();
    /// for key in 0_u64..100 {
    ///     batch.put(key, 7)?;
    /// }
    /// let mut results = Results::new(&batch.view());
    /// table.run_as_one(&batch.view(), Durability::Process, &mut results)?;
    /// assert!(results.statuses().iter().all(|status| status.is_ok()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_as_one(
        &self,
        batch: &BatchView<'_>,
        durability: Durability,
        answers: &mut dyn Answers,
    ) -> Result<()> {
        let call = self.lease.enter()?;
        let batch = self.host(batch)?;
        let mut counted = Counted::new(answers, batch);
        let done = planner::execute_as_one(&call.keeper, &call.named, &batch, durability, &mut counted);
        call.named.metrics.add(&counted.tally());
        done
    }

    /// Runs a batch whose columns lie in host memory or in that of the table's device, after the work already in
    /// the stream, and answers into the caller's arrays in either memory. All is done, also on the device, when it
    /// returns.
    ///
    /// Keys and values in device memory stay there: a get copies nothing to the host, and a write only the columns
    /// for the log, if there is one. With two threads, each with a stream of its own, one batch of gets is located
    /// while the values of the other cross the link.
    ///
    /// ```
    /// use warpkeep::rows::{BatchView, Cells, Columns, Output, OutputValues};
    /// use warpkeep::{Device, DeviceChoice, Durability, KeySpec, Op, Status, Store, StoreOptions, TableOptions, ValueSpec};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let Ok(device) = Device::open(DeviceChoice::Sim) else { return Ok(()) };
    /// let store = Store::open_on(directory.path(), StoreOptions::default(), &device)?;
    /// let table = store.create_table("rows", TableOptions::new(KeySpec::U64, ValueSpec::fixed(16)?))?;
    /// let (keys, values) = (device.upload(&[7_u64, 8])?, device.upload(&[1_u8; 32])?);
    /// let mut statuses = device.allocate(2)?;
    /// let keys = Cells::Fixed { len: 8, bytes: keys.column()? };
    /// let values = Cells::Fixed { len: 16, bytes: values.column()? };
    /// let puts = Columns::with_values(Op::Put, keys, values);
    /// let batch = BatchView::new(table.key_spec(), table.value_spec(), puts)?;
    /// let output = Output::new(&batch, statuses.status_column_mut(), None, OutputValues::None)?;
    /// table.run_on(&batch, Durability::Power, output, &device.stream()?)?;
    /// assert_eq!(statuses.to_vec::<u8>()?, [Status::Created as u8; 2]);
    /// assert_eq!(table.get(8)?, Some(vec![1; 16]));
    /// # Ok::<(), warpkeep::Error>(())
    /// ```
    pub fn run_on(
        &self,
        batch: &BatchView<'_>,
        durability: Durability,
        output: Output<'_>,
        stream: &Stream,
    ) -> Result<()> {
        let call = self.lease.enter()?;
        batch.check_table(self.key_spec(), self.value_spec())?;
        // Kernels write as many rows as the batch has, as long as the table's values are.
        output.check(batch)?;
        planner::execute_rows(&call.keeper, &call.named, batch, durability, output, stream)
    }

    /// As [`run_on`](Table::run_on), but returns as soon as the kernels of a batch of gets are in the stream, so that kernels behind it
    /// use the answers without a wait of the host. Other batches, and rows whose length is not a multiple of 8 bytes, are done when it
    /// returns.
    ///
    /// ```
    /// use warpkeep::rows::{BatchView, Cells, Columns, Output, OutputValues};
    /// use warpkeep::{Device, DeviceChoice, Durability, KeySpec, Op, Status, Store, StoreOptions, TableOptions, ValueSpec};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let Ok(device) = Device::open(DeviceChoice::Sim) else { return Ok(()) };
    /// let store = Store::open_on(directory.path(), StoreOptions::default(), &device)?;
    /// let table = store.create_table("rows", TableOptions::new(KeySpec::U64, ValueSpec::fixed(16)?))?;
    /// table.put(7, &[1; 16], Durability::Process)?;
    /// let (keys, stream) = (device.upload(&[7_u64, 8])?, device.stream()?);
    /// let (mut statuses, mut values) = (device.allocate(2)?, device.allocate(32)?);
    /// let gets = Columns::keys_only(Op::Get, Cells::Fixed { len: 8, bytes: keys.column()? });
    /// let batch = BatchView::new(table.key_spec(), table.value_spec(), gets)?;
    /// let rows = OutputValues::Rows { len: 16, bytes: values.column_mut()? };
    /// let output = Output::new(&batch, statuses.status_column_mut(), None, rows)?;
    /// // SAFETY: the buffers outlive the enqueued batch, and no other code uses them until it has been waited for.
    /// let enqueued = unsafe { table.enqueue_on(&batch, Durability::Process, output, &stream)? };
    /// // ... kernels of one's own, in the same stream or behind `enqueued.event()` ...
    /// enqueued.wait()?;
    /// assert_eq!(statuses.to_vec::<u8>()?, [Status::Ok as u8, Status::NotFound as u8]);
    /// assert_eq!(values.to_vec::<u8>()?[..16], [1; 16]);
    /// # Ok::<(), warpkeep::Error>(())
    /// ```
    ///
    /// # Safety
    /// The columns of the batch and of the output stay valid, and no other code on the host or outside the stream's order uses them, until
    /// [`Enqueued::wait`] has returned or the result has been dropped. The result is not leaked.
    #[allow(unsafe_code, reason = "kernels use the columns after it has returned")]
    pub unsafe fn enqueue_on<'t>(
        &'t self,
        batch: &BatchView<'_>,
        durability: Durability,
        output: Output<'_>,
        stream: &'t Stream,
    ) -> Result<Enqueued<'t, P>> {
        let call = self.lease.enter()?;
        batch.check_table(self.key_spec(), self.value_spec())?;
        output.check(batch)?;
        // SAFETY: `Enqueued` drops the gets, which refer to this value, before the call.
        let leased = unsafe { call.value() };
        // SAFETY: as this function's contract says.
        let gets = match unsafe { planner::enqueue_rows(&leased.named, batch, output, stream)? } {
            Ok(gets) => Some(gets),
            Err(output) => {
                planner::execute_rows(&call.keeper, &call.named, batch, durability, output, stream)?;
                None
            }
        };
        Enqueued::new(gets, call, durability, stream)
    }

    fn host<'b>(&self, batch: &BatchView<'b>) -> Result<HostBatch<'b>> {
        batch.check_table(self.key_spec(), self.value_spec())?;
        batch.host().ok_or_else(|| {
            Error::Invalid(
                "the batch lies in device memory; give it to `Table::run_on`, with a stream of that device, or copy it first".into(),
            )
        })
    }

    /// The value of a key.
    pub fn get(&self, key: impl ToCell) -> Result<Option<Vec<u8>>> {
        self.read(key.to_cell().as_ref(), |_, len, fill| {
            let mut value = vec![0; len];
            fill(&mut value);
            value
        })
    }

    /// The version of a key, which grows with every change of it, and its value.
    pub fn get_versioned(&self, key: impl ToCell) -> Result<Option<(u64, Vec<u8>)>> {
        self.read(key.to_cell().as_ref(), |version, len, fill| {
            let mut value = vec![0; len];
            fill(&mut value);
            (version, value)
        })
    }

    /// Passes version and length of a value to `then`, with a function that copies it into a slice of that length.
    pub(crate) fn read<R>(
        &self,
        key: &[u8],
        then: impl FnOnce(u64, usize, &dyn Fn(&mut [u8])) -> R,
    ) -> Result<Option<R>> {
        let read = self.lease.read()?;
        let named = &read.named;
        self.key_spec().check(key)?;
        let found = named.table.get_pinned(read.guard(), key, |value| match value.is_damaged() {
            true => None,
            false => Some(then(value.version(), value.len(), &|to: &mut [u8]| value.copy_to(to))),
        });
        let status = match &found {
            None => Status::NotFound,
            Some(None) => Status::Corrupt,
            Some(Some(_)) => Status::Ok,
        };
        named.metrics.one(Op::Get, status);
        match found {
            Some(None) => Err(refused(self.index(), 0, Op::Get, status, 0)),
            found => Ok(found.flatten()),
        }
    }

    /// Stores a value, whether the key is there or not; gives its version.
    pub fn put(&self, key: impl ToCell, value: impl ToCell, durability: Durability) -> Result<u64> {
        let (key, value) = (key.to_cell(), value.to_cell());
        self.one(Op::Put, key.as_ref(), value.as_ref(), 0, durability).map(|answer| answer.version)
    }

    /// Stores a value if the key is not there.
    pub fn insert(&self, key: impl ToCell, value: impl ToCell, durability: Durability) -> Result<Inserted> {
        let (key, value) = (key.to_cell(), value.to_cell());
        let answer = self.one(Op::Insert, key.as_ref(), value.as_ref(), 0, durability)?;
        Ok(match answer.status {
            Status::AlreadyExists => Inserted::Exists(answer.version),
            _ => Inserted::New(answer.version),
        })
    }

    /// Stores a value if the key is there; gives its version, or `None` if it is not.
    pub fn update(
        &self,
        key: impl ToCell,
        value: impl ToCell,
        durability: Durability,
    ) -> Result<Option<u64>> {
        let (key, value) = (key.to_cell(), value.to_cell());
        let answer = self.one(Op::Update, key.as_ref(), value.as_ref(), 0, durability)?;
        Ok(answer.status.is_ok().then_some(answer.version))
    }

    /// Stores a value if the key has this version; see [`Table::get_versioned`].
    pub fn compare_and_swap(
        &self,
        key: impl ToCell,
        expected_version: u64,
        value: impl ToCell,
        durability: Durability,
    ) -> Result<Swapped> {
        let (key, value) = (key.to_cell(), value.to_cell());
        let answer =
            self.one(Op::CompareAndSwap, key.as_ref(), value.as_ref(), expected_version, durability)?;
        Ok(match answer.status {
            Status::NotFound => Swapped::Missing,
            Status::VersionMismatch => Swapped::Stale(answer.version),
            _ => Swapped::Done(answer.version),
        })
    }

    /// Adds to an 8-byte value, wrapping, and returns the previous value; an absent key starts from 0. To subtract,
    /// add the negative, wrapped.
    pub fn fetch_add(&self, key: impl ToCell, delta: u64, durability: Durability) -> Result<u64> {
        let answer = self.one(Op::FetchAdd, key.to_cell().as_ref(), &[], delta, durability)?;
        Ok(answer.number.unwrap_or(0))
    }

    /// Combines a value with the stored one by the table's [merge rule](Table::merge_rule), or stores it if the key
    /// is absent; returns the version. A table without a rule, or a value that grows too long, is an error.
    pub fn merge(&self, key: impl ToCell, value: impl ToCell, durability: Durability) -> Result<u64> {
        let (key, value) = (key.to_cell(), value.to_cell());
        self.one(Op::Merge, key.as_ref(), value.as_ref(), 0, durability).map(|answer| answer.version)
    }

    /// Removes a key; `false` if it was not there.
    pub fn delete(&self, key: impl ToCell, durability: Durability) -> Result<bool> {
        let answer = self.one(Op::Delete, key.to_cell().as_ref(), &[], 0, durability)?;
        Ok(answer.status.is_ok())
    }

    fn one(
        &self,
        op: Op,
        key: &[u8],
        value: &[u8],
        argument: u64,
        durability: Durability,
    ) -> Result<SingleAnswer> {
        let mut batch = self.batch();
        batch.push(op, key, value, argument).map_err(unwrap_operation)?;
        let results = self.run(&batch, durability)?;
        let (status, version) = (results.statuses()[0], results.versions()[0]);
        match status.is_error() {
            true => Err(refused(self.index(), 0, op, status, key.len() + value.len())),
            false => Ok(SingleAnswer { status, version, number: results.number(0) }),
        }
    }
}

fn execute<P: Persist>(
    call: &Leased<P>,
    batch: &HostBatch<'_>,
    durability: Durability,
    answers: &mut dyn Answers,
) -> Result<()> {
    let metrics = &call.named.metrics;
    let begun = metrics.begin(batch.len());
    planner::execute(&call.keeper, &call.named, batch, durability, answers)?;
    if begun.is_some() {
        metrics.end(begun, Kind::of(batch, durability), batch.len());
    }
    Ok(())
}

/// The answer to a batch of one that is no error.
struct SingleAnswer {
    status: Status,
    version: u64,
    number: Option<u64>,
}

/// There is only one operation, so its index is meaningless.
fn unwrap_operation(error: CoreError) -> Error {
    match error {
        CoreError::Operation { reason, .. } => Error::Core(*reason),
        other => Error::Core(other),
    }
}

/// The error for an operation that was refused, found no room or failed.
pub(crate) fn refused(table: IndexKind, index: usize, op: Op, status: Status, bytes: usize) -> Error {
    match status {
        Status::TableFull => table.full(),
        Status::OutOfSpace => Error::Image(warpkeep_image::ImageError::OutOfSpace {
            wanted: bytes as u64,
            why: "the image is full; raise its limit or delete data".into(),
        }),
        status => Error::Refused { index, op, status },
    }
}

impl<P: Persist> Drop for Table<P> {
    fn drop(&mut self) {
        if !self.lease.owner.is_here() {
            // In a child made by `fork` the table is the parent's; this child frees none of it.
            std::mem::forget(self.clone());
        }
    }
}

impl<P: Persist> fmt::Debug for Table<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("name", &self.name())
            .field("key", &self.key_spec())
            .field("value", &self.value_spec())
            .finish_non_exhaustive()
    }
}
