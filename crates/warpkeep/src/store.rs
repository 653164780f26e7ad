//! A store: named tables in one image, with a log behind them.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use warpkeep_core::{Change, ChangeKind, Seed};
use warpkeep_device::{Device, DeviceChoice};
use warpkeep_image::{Coherent, HeapUsage, Persist};
use warpkeep_log::{ChangeBatch, OsDisk, create_durably};

use crate::checkpointer::Checkpointer;
use crate::device::DeviceOptions;
use crate::index::{Figures, Spec};
use crate::lease::{Shared, Threads};
use crate::maintenance::Maintenance;
use crate::space::Search;
use crate::tables::{CATALOGUE, MAX_NAME, Tables};
use crate::{
    CheckpointOptions, Error, ImageFile, Items, Keeper, LogPlace, OpenReport, Origin, Result, StoreOptions,
    Table, TableOptions, metrics, open,
};

/// How often it is tried to free a dropped table's space before that is left to the thread in the background.
const PATIENCE: usize = 1000;

/// Named tables that survive the process and, where there is a log, the machine.
///
/// A store belongs to the process that opened it. In a child made by `fork` every call returns [`Error::Forked`],
/// and dropping it there changes nothing.
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
    shared: Arc<Shared<P>>,
    report: OpenReport,
}

/// The device options; refuses invalid shares.
pub(crate) fn device_options(options: &StoreOptions) -> Result<DeviceOptions> {
    let StoreOptions { device_index: index, device_values: values, host_gets, .. } = *options;
    DeviceOptions { index, values, host_gets }.check()
}

/// The device that the options ask for.
fn device_of(options: &StoreOptions) -> Result<Option<Device>> {
    device_options(options)?;
    Ok(match options.device {
        DeviceChoice::Cpu => None,
        choice => Some(Device::open(choice)?),
    })
}

impl Store<Coherent> {
    /// Opens the store in a directory, or creates it: image and log lie there.
    pub fn open(directory: impl AsRef<Path>) -> Result<Store> {
        Store::open_with(directory, StoreOptions::default())
    }

    /// Opens the store in a directory, or creates it.
    pub fn open_with(directory: impl AsRef<Path>, options: StoreOptions) -> Result<Store> {
        // Before anything else is touched: a device that is not there is an error of its own.
        let device = device_of(&options)?;
        Store::open_over(directory.as_ref(), options, device.as_ref(), None)
    }

    /// The same, with the log directory that is locked already.
    pub(crate) fn open_with_log(directory: &Path, options: StoreOptions, log: OsDisk) -> Result<Store> {
        let device = device_of(&options)?;
        Store::open_over(directory, options, device.as_ref(), Some(log))
    }

    /// Opens the store in a directory, or creates it, and runs its tables on a device that the caller has, such as one
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
        device_options(&options)?;
        Store::open_over(directory.as_ref(), options, Some(device), None)
    }

    fn open_over(
        directory: &Path,
        options: StoreOptions,
        device: Option<&Device>,
        locked: Option<OsDisk>,
    ) -> Result<Store> {
        let device_options = device_options(&options)?;
        options.checkpoints.check()?;
        create_durably(directory, options.log.directory_mode()).map_err(Error::io(directory, "create it"))?;
        crate::repair::Marker::check(directory)?;
        let place = ImageFile {
            path: options.image_path(directory),
            persist: Coherent,
            create: options.create.clone(),
            open: options.open.clone(),
            abandon: options.abandon_image,
            progress: options.progress.clone(),
        };
        let log = match (locked, options.log_path(directory)) {
            (Some(disk), _) => Some(LogPlace::new(disk, options.log)),
            (None, Some(path)) => Some(LogPlace::new(OsDisk::open_with(path, &options.log)?, options.log)),
            (None, None) => None,
        };
        let (keeper, mut report): (Keeper<_, Tables<_>>, _) = open(&place, log, options.heap, &())?;
        if options.check_items && report.origin == Origin::Reattached {
            let begun = Instant::now();
            keeper.items().scan(&mut |_| Ok(()))?;
            report.seconds += begun.elapsed().as_secs_f64();
        }
        if let Some(device) = device {
            keeper.items().move_to_device(device, device_options)?;
        }
        keeper.items().use_threads(options.threads);
        Ok(Store::over(keeper, report, options.checkpoints))
    }
}

impl<P: Persist> Store<P> {
    fn over(keeper: Keeper<P, Tables<P>>, report: OpenReport, checkpoints: CheckpointOptions) -> Store<P> {
        metrics::opened(&report);
        let shared = Arc::new(Shared::new(keeper.owner()));
        let keeper = Arc::new(keeper);
        let checkpointer = keeper.log().and_then(|_| Checkpointer::start(&keeper));
        if report.owes_checkpoint && checkpoints.automatic {
            // So that the first `Power` batch waits for as little of it as possible.
            keeper.checkpoints().request();
        }
        let maintenance = Maintenance::start(&keeper, &shared.leases, checkpoints);
        shared.set_threads(Threads { maintenance, checkpointer });
        Store { keeper, shared, report }
    }

    /// A store with no thread in the background.
    pub(crate) fn without_threads(keeper: Keeper<P, Tables<P>>, report: OpenReport) -> Store<P> {
        let shared = Arc::new(Shared::new(keeper.owner()));
        Store { keeper: Arc::new(keeper), shared, report }
    }

    /// Whether it was opened [to be read only](Store::open_read_only).
    pub fn is_read_only(&self) -> bool {
        self.keeper.is_read_only()
    }

    /// How the store was recovered when it was opened.
    pub fn report(&self) -> &OpenReport {
        &self.report
    }

    /// Creates a table. With a log it survives the machine when this returns.
    pub fn create_table(&self, name: &str, options: TableOptions) -> Result<Table<P>> {
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
        let durability = self.keeper.strongest();
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
        // Before it is logged, so that a logged change cannot fail for lack of space.
        let planned = tables.plan_add(table)?;
        self.keeper.write(durability, &changes, || tables.install(planned))?
    }

    /// The table of this name; created with these options if it does not exist yet. An existing one must have the
    /// keys, values and merge rule of the options, or it is refused; capacity and layout may differ.
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
    pub fn table_or_create(&self, name: &str, options: TableOptions) -> Result<Table<P>> {
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
    pub fn table(&self, name: &str) -> Result<Table<P>> {
        self.keeper.check_process()?;
        let named = self.keeper.items().get(name).ok_or_else(|| Error::NoTable { name: name.to_owned() })?;
        let lease = self.shared.lease(&self.keeper, Arc::clone(&named));
        if named.is_dropped() {
            // By another thread, since it was looked up.
            self.shared.end_lease(named.id);
            return Err(Error::NoTable { name: name.to_owned() });
        }
        Ok(Table::new(lease, Arc::clone(&self.shared)))
    }

    /// The names of all tables; none in another process than the one that opened the store.
    pub fn tables(&self) -> Vec<String> {
        if !self.keeper.owner().is_here() {
            return Vec::new();
        }
        self.keeper.items().list().iter().map(|named| named.name.clone()).collect()
    }

    /// Drops a table and all that is in it. Handles of it answer [`Error::NoTable`] from then on; its space is free once calls in progress have
    /// returned.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let durability = self.keeper.strongest();
        self.keeper.admit(durability)?;
        let tables = self.keeper.items();
        let _alone = tables.hold();
        let Some(named) = tables.get(name) else { return Err(Error::NoTable { name: name.to_owned() }) };
        named.metrics.publish(&Figures { items: 0, load_factor: 0.0, ..named.table.figures() });
        let id = named.id;
        drop(named);
        let mut changes = ChangeBatch::new();
        let (version, key) = (self.keeper.next_version(), name.as_bytes());
        changes.push(&Change { table: CATALOGUE, kind: ChangeKind::Delete, version, key, value: &[] })?;
        let planned = tables.plan_removal(name)?;
        self.keeper.write(durability, &changes, || tables.install(planned))??;
        self.shared.end_lease(id);
        tables.demolish_dropped(PATIENCE)
    }

    /// Writes all items to a checkpoint, while writers go on, and trims the log.
    pub fn checkpoint(&self) -> Result<()> {
        self.keeper.checkpoint().map(|_| ())
    }

    /// Makes everything written so far survive the machine.
    pub fn flush(&self) -> Result<()> {
        self.keeper.flush()
    }

    /// The use of the image's space.
    pub fn usage(&self) -> HeapUsage {
        self.keeper.heap().usage()
    }

    /// Bytes of the image that can serve any size of value: free chunks, chunks by which it may still grow, and
    /// chunks that become free when records move together, which happens on demand.
    pub fn spare_bytes(&self) -> u64 {
        self.keeper.heap().spare_bytes()
    }

    /// Closes the store. Dropping it instead leaves the image unclosed: nothing acknowledged is lost and other
    /// processes can open it at once, but the next opening takes longer, as after a crash.
    pub fn close(self) -> Result<()> {
        self.keeper.check_process()?;
        if self.shared.is_entered_here() {
            return Err(Error::Invalid(
                "the store cannot be closed from within a call on one of its tables, such as the closure of a scan; close it \
                 after that call has returned"
                    .into(),
            ));
        }
        // Before the thread is stopped, which may be making it.
        let owed = self.keeper.log().map_or(Ok(()), |log| self.keeper.checkpoint_if_owed(log));
        self.shared.close();
        owed?;
        let keeper = Arc::clone(&self.keeper);
        drop(self);
        let in_use = || Error::Invalid("the store is still in use; drop what refers to it first".into());
        Arc::into_inner(keeper).ok_or_else(in_use)?.close()
    }
}

impl<P: Persist> Drop for Store<P> {
    fn drop(&mut self) {
        if !self.keeper.owner().is_here() {
            // A child made by `fork` has none of the threads, and shares files, locks and a device with its parent:
            // none of it is ended or released here.
            std::mem::forget((Arc::clone(&self.keeper), Arc::clone(&self.shared)));
        }
    }
}

impl<P: Persist> fmt::Debug for Store<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("tables", &self.tables()).finish_non_exhaustive()
    }
}
