//! A store: named tables in one image, with a log behind them.

use std::fmt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use warpkeep_core::{Change, ChangeKind, Durability, Seed};
use warpkeep_device::{Device, DeviceChoice};
use warpkeep_image::{Coherent, HeapOptions, HeapUsage, Persist};
use warpkeep_log::{ChangeBatch, OsDisk};
use warpkeep_record::Progress;

use crate::checkpointer::Checkpointer;
use crate::device_values::OnDevice;
use crate::index::{Figures, Spec};
use crate::maintenance::Maintenance;
use crate::space::Search;
use crate::tables::{CATALOGUE, MAX_NAME, Tables};
use crate::{
    CheckpointOptions, Error, ImageFile, ImagePlace, Items, Keeper, LogPlace, OpenReport, Origin, Result,
    StoreOptions, Table, TableOptions, metrics, open,
};

/// Named tables that survive the process and, where there is a log, the machine.
///
/// A store belongs to the process that opened it. In a child made by `fork` every call gives [`Error::Forked`], and dropping it there
/// touches nothing.
///
/// ```
/// use warpkeep::{Durability, KeySpec, Store, TableOptions, ValueSpec};
/// # let directory = tempfile::tempdir().unwrap();
/// # let directory = directory.path();
/// let store = Store::open(directory)?;
/// let rows = store.create_table("rows", TableOptions::new(KeySpec::U64, ValueSpec::fixed(128)?))?;
/// rows.put(7, &[1; 128], Durability::Power)?;
/// drop(rows);
/// drop(store); // no close: the next opening re-attaches it, as after a crash
///
/// let store = Store::open(directory)?;
/// assert_eq!(store.table("rows")?.get(7)?, Some(vec![1; 128]));
/// store.close()?;
/// # Ok::<(), warpkeep::Error>(())
/// ```
pub struct Store<P: Persist = Coherent> {
    pub(crate) keeper: Arc<Keeper<P, Tables<P>>>,
    report: OpenReport,
    checkpoints: CheckpointOptions,
    maintenance: Option<Maintenance>,
    checkpointer: Option<Checkpointer>,
}

/// What a device is to keep; refuses shares that are none.
fn on_device(options: &StoreOptions) -> Result<OnDevice> {
    let StoreOptions { device_index: index, device_values: values, get_way, values_by, threads, .. } =
        *options;
    OnDevice { index, values, get_way, values_by, threads }.check()
}

impl Store<Coherent> {
    /// Opens the store in a directory, or creates it: image and log lie there.
    pub fn open(directory: impl AsRef<Path>) -> Result<Store> {
        Store::open_with(directory, StoreOptions::default())
    }

    /// Opens the store in a directory, or creates it.
    pub fn open_with(directory: impl AsRef<Path>, options: StoreOptions) -> Result<Store> {
        // Before anything else is touched: a device that is not there is an error of its own.
        on_device(&options)?;
        let device = match options.device {
            DeviceChoice::Cpu => None,
            choice => Some(Device::open(choice)?),
        };
        Store::open_over(directory.as_ref(), options, device.as_ref())
    }

    /// Opens the store in a directory, or creates it, and has its tables worked by a device that the caller has, such as one
    /// with a budget; [`StoreOptions::device`] says nothing then.
    ///
    /// ```
    /// use warpkeep::{Device, DeviceChoice, Durability, KeySpec, Store, StoreOptions, TableOptions, ValueSpec};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let Ok(device) = Device::open(DeviceChoice::Sim) else { return Ok(()) };
    /// let device = device.with_budget(64 << 20);
    /// let store = Store::open_on(directory.path(), StoreOptions::default(), &device)?;
    /// let rows = store.create_table("rows", TableOptions::new(KeySpec::U64, ValueSpec::fixed(16)?))?;
    /// rows.put(7, &[1; 16], Durability::Process)?;
    /// assert_eq!(rows.get(7)?, Some(vec![1; 16]));
    /// # Ok::<(), warpkeep::Error>(())
    /// ```
    pub fn open_on(directory: impl AsRef<Path>, options: StoreOptions, device: &Device) -> Result<Store> {
        on_device(&options)?;
        Store::open_over(directory.as_ref(), options, Some(device))
    }

    fn open_over(directory: &Path, options: StoreOptions, device: Option<&Device>) -> Result<Store> {
        let keeps = on_device(&options)?;
        options.checkpoints.check()?;
        let mut private = std::fs::DirBuilder::new();
        private.recursive(true).mode(options.log.directory_mode());
        private.create(directory).map_err(Error::io(directory, "create it"))?;
        crate::repair::Marker::check(directory)?;
        let place = ImageFile {
            path: options.image_path(directory),
            persist: Coherent,
            create: options.create.clone(),
            open: options.open.clone(),
            abandon: options.abandon_image,
            progress: options.progress.clone(),
        };
        let log = match options.log_path(directory) {
            None => None,
            Some(path) => Some(LogPlace::new(OsDisk::open_with(path, &options.log)?, options.log)),
        };
        let (keeper, mut report): (Keeper<_, Tables<_>>, _) = open(&place, log, options.heap, &())?;
        if options.check_items && report.origin == Origin::Reattached {
            let begun = Instant::now();
            keeper.items().scan(&mut |_| Ok(()))?;
            report.seconds += begun.elapsed().as_secs_f64();
        }
        if let Some(device) = device {
            keeper.items().give_to(device, keeps)?;
        }
        keeper.items().use_threads(options.threads);
        Ok(Store::over(keeper, report, options.checkpoints))
    }
}

impl<P: Persist> Store<P> {
    fn over(keeper: Keeper<P, Tables<P>>, report: OpenReport, checkpoints: CheckpointOptions) -> Store<P> {
        metrics::opened(&report);
        let keeper = Arc::new(keeper);
        let checkpointer = keeper.log().and_then(|_| Checkpointer::start(&keeper));
        if report.owes_checkpoint && checkpoints.automatic {
            // So that the first `Power` batch waits for as little of it as possible.
            keeper.checkpoints().request();
        }
        let maintenance = Maintenance::start(&keeper, checkpoints);
        Store { keeper, report, checkpoints, maintenance, checkpointer }
    }

    /// A store with no thread in the background.
    pub(crate) fn without_threads(keeper: Keeper<P, Tables<P>>, report: OpenReport) -> Store<P> {
        let (keeper, checkpoints) = (Arc::new(keeper), CheckpointOptions::OFF);
        Store { keeper, report, checkpoints, maintenance: None, checkpointer: None }
    }

    /// Whether it was opened [to be read only](Store::open_read_only).
    pub fn is_read_only(&self) -> bool {
        self.keeper.is_read_only()
    }

    /// A store over any place, for tests that bring their own memory and disk: without the thread in the background, so
    /// that the same calls always do the same.
    #[doc(hidden)]
    pub fn open_in(place: &impl ImagePlace<P>, log: Option<LogPlace>, heap: HeapOptions) -> Result<Store<P>> {
        let (keeper, report) = open(place, log, heap, &())?;
        Ok(Store::without_threads(keeper, report))
    }

    /// When [`Store::maintain`] takes a checkpoint.
    #[doc(hidden)]
    pub fn set_checkpoints(&mut self, checkpoints: CheckpointOptions) {
        self.checkpoints = checkpoints;
    }

    /// Gives all tables to a device, as [`Store::open_on`] does.
    #[doc(hidden)]
    pub fn give_to(&self, device: &Device) -> Result<()> {
        self.keeper.items().give_to(device, on_device(&StoreOptions::default())?)
    }

    /// What the threads in the background do, once: a slice of `buckets` buckets for each table, and a checkpoint if the
    /// log is too long; whether there is more to do.
    #[doc(hidden)]
    pub fn maintain(&self, buckets: u64) -> Result<bool> {
        self.keeper.check_process()?;
        let mut working = false;
        for named in self.keeper.items().list() {
            working |= named.maintain(buckets)? == Progress::Working;
        }
        self.keeper.keep_reserve(&self.checkpoints);
        if self.keeper.wants_checkpoint(&self.checkpoints) {
            self.keeper.checkpoint()?;
        }
        Ok(working)
    }

    /// How the store came back when it was opened.
    pub fn report(&self) -> &OpenReport {
        &self.report
    }

    /// Creates a table. With a log it survives the machine when this returns.
    pub fn create_table(&self, name: &str, options: TableOptions) -> Result<Table<'_, P>> {
        if name.is_empty() || name.len() > MAX_NAME {
            return Err(Error::Invalid(format!(
                "a table's name has 1 to {MAX_NAME} bytes, '{name}' has not"
            )));
        }
        self.keeper.check_process()?;
        options.merge.check(options.value)?;
        let mut search = Search::default();
        loop {
            match self.lay_out_table(name, &options) {
                Err(error) if search.goes_on(&self.keeper, &error) => {}
                Err(error) => return Err(error),
                Ok(()) => return self.table(name),
            }
        }
    }

    fn lay_out_table(&self, name: &str, options: &TableOptions) -> Result<()> {
        let durability = self.strongest();
        self.keeper.admit(durability)?;
        let tables = self.keeper.items();
        let _alone = tables.hold();
        if tables.get(name).is_some() {
            return Err(Error::TableExists { name: name.to_owned() });
        }
        let id = tables.next_id();
        let seed = Seed(self.keeper.image().header().hash_seed).derive(u64::from(id));
        let spec = Spec::of(options, seed)?;
        let version = self.keeper.next_version();
        let table = tables.prepare(id, name, &spec, version)?;
        let value = table.spec.encode(id, 0);
        let mut changes = ChangeBatch::new();
        let key = name.as_bytes();
        changes.push(&Change { table: CATALOGUE, kind: ChangeKind::Put, version, key, value: &value })?;
        // Before it is logged, so that what was promised does not fail for want of space.
        let planned = tables.plan_add(table)?;
        self.keeper.write(durability, &changes, || tables.install(planned))?
    }

    /// The table of this name; created with these options if it is not there yet. One that is there must have the keys, values and merge
    /// rule of the options, or it is refused; capacity and layout may differ.
    ///
    /// ```
    /// use warpkeep::{Durability, KeySpec, Store, TableOptions, ValueSpec};
    /// # let directory = tempfile::tempdir().unwrap();
    /// let options = TableOptions::new(KeySpec::U64, ValueSpec::U64);
    /// for run in 0..2 {
    ///     let store = Store::open(directory.path())?;
    ///     let counts = store.table_or_create("counts", options)?;
    ///     assert_eq!(counts.fetch_add(7, 1, Durability::Power)?, run);
    ///     drop(counts);
    ///     store.close()?;
    /// }
    /// # Ok::<(), warpkeep::Error>(())
    /// ```
    pub fn table_or_create(&self, name: &str, options: TableOptions) -> Result<Table<'_, P>> {
        // Another thread may create it between the two looks.
        let found = match self.table(name) {
            Err(Error::NoTable { .. }) => match self.create_table(name, options) {
                Err(Error::TableExists { .. }) => self.table(name)?,
                created => return created,
            },
            found => found?,
        };
        if (found.key_spec(), found.value_spec()) != (options.key, options.value) {
            return Err(Error::OtherTypes {
                table: name.to_owned(),
                table_keys: found.key_spec(),
                table_values: found.value_spec(),
                keys: options.key,
                values: options.value,
            });
        }
        if found.merge_rule() != options.merge {
            return Err(Error::Invalid(format!(
                "the table '{name}' was created with the merge rule {}, the program asks for {}; ask for that of the table, or \
                 choose another name",
                found.merge_rule().name(),
                options.merge.name()
            )));
        }
        Ok(found)
    }

    /// A table that is there.
    pub fn table(&self, name: &str) -> Result<Table<'_, P>> {
        self.keeper.check_process()?;
        let named = self.keeper.items().get(name).ok_or_else(|| Error::NoTable { name: name.to_owned() })?;
        Ok(Table { store: self, named })
    }

    /// The names of all tables; none in another process than the one that opened the store.
    pub fn tables(&self) -> Vec<String> {
        if !self.keeper.owner().is_here() {
            return Vec::new();
        }
        self.keeper.items().list().iter().map(|named| named.name.clone()).collect()
    }

    /// Drops a table and all that is in it.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let durability = self.strongest();
        self.keeper.admit(durability)?;
        let tables = self.keeper.items();
        let _alone = tables.hold();
        let Some(named) = tables.get(name) else { return Err(Error::NoTable { name: name.to_owned() }) };
        named.metrics.publish(&Figures { items: 0, load_factor: 0.0, ..named.table.figures() });
        // The last one to let go of it frees what it has.
        drop(named);
        let mut changes = ChangeBatch::new();
        let (version, key) = (self.keeper.next_version(), name.as_bytes());
        changes.push(&Change { table: CATALOGUE, kind: ChangeKind::Delete, version, key, value: &[] })?;
        let planned = tables.plan_removal(name)?;
        self.keeper.write(durability, &changes, || tables.install(planned))?
    }

    /// Writes all items to a checkpoint, while writers go on, and trims the log.
    pub fn checkpoint(&self) -> Result<()> {
        self.keeper.checkpoint().map(|_| ())
    }

    /// Makes everything written so far survive the machine.
    pub fn flush(&self) -> Result<()> {
        self.keeper.flush()
    }

    /// What the space of the image is used for.
    pub fn usage(&self) -> HeapUsage {
        self.keeper.heap().usage()
    }

    /// Bytes of the image that can serve any size of value: free chunks, those by which it may still grow, and those that become free
    /// when records move together, which happens where they are wanted.
    pub fn spare_bytes(&self) -> u64 {
        self.keeper.heap().spare_bytes()
    }

    /// Closes the store. Dropping it instead gives the image up unclosed: nothing acknowledged is lost and other processes
    /// can open it at once, but the next opening takes longer, as after a crash.
    pub fn close(mut self) -> Result<()> {
        self.keeper.check_process()?;
        if let Some(log) = self.keeper.log() {
            // Before the thread is stopped, which may be making it.
            self.keeper.checkpoint_if_owed(log)?;
        }
        self.stop_maintenance();
        let keeper = Arc::clone(&self.keeper);
        drop(self);
        let keeper = Arc::into_inner(keeper);
        keeper
            .ok_or_else(|| Error::Invalid("the store is still in use; drop what refers to it first".into()))?
            .close()
    }

    pub(crate) fn strongest(&self) -> Durability {
        if self.keeper.log().is_some() { Durability::Power } else { Durability::Process }
    }

    fn stop_maintenance(&mut self) {
        if let Some(maintenance) = self.maintenance.take() {
            maintenance.stop();
        }
        if let Some(checkpointer) = self.checkpointer.take() {
            checkpointer.stop();
        }
    }
}

impl<P: Persist> Drop for Store<P> {
    fn drop(&mut self) {
        if !self.keeper.owner().is_here() {
            // A child made by `fork` has none of the threads, and shares files, locks and a device with its parent: nothing of it
            // is ended or let go of here.
            std::mem::forget((self.maintenance.take(), self.checkpointer.take()));
            std::mem::forget(Arc::clone(&self.keeper));
            return;
        }
        self.stop_maintenance();
    }
}

impl<P: Persist> fmt::Debug for Store<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("tables", &self.tables()).finish_non_exhaustive()
    }
}
