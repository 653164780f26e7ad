//! A store: named tables in one image, with a log behind them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use warpkeep_core::{
    Answers, Batch, BatchView, Change, ChangeKind, Durability, KeySpec, MergeRule, Op, Results, Seed, Status,
    ValueSpec,
};
use warpkeep_gphash::{Geometry, Layout, Progress, TableSpec, TableStats};
use warpkeep_image::{Coherent, CreateOptions, HeapOptions, HeapUsage, OpenOptions, Persist};
use warpkeep_log::{ChangeBatch, LogOptions, OsDisk};

use crate::tables::{CATALOGUE, MAX_NAME, NamedTable, Tables, encode_spec};
use crate::{Error, ImageFile, Keeper, LogPlace, OpenReport, Result, open, planner};

/// How to open a store.
#[derive(Clone, Debug, Default)]
pub struct StoreOptions {
    /// Where the image lies; in the store's directory if not said. On tmpfs it is as fast as memory and a GPU can use
    /// it; it is rebuilt from the log after a restart of the machine.
    pub image: Option<PathBuf>,
    /// Do without a log: only `Process` is on offer, and nothing survives the machine for sure.
    pub without_log: bool,
    /// How the image is created.
    pub create: CreateOptions,
    /// How the image is opened.
    pub open: OpenOptions,
    /// How the image may grow.
    pub heap: HeapOptions,
    /// How the log is written.
    pub log: LogOptions,
}

/// What a table is to hold.
#[derive(Clone, Copy, Debug)]
pub struct TableOptions {
    /// What keys are.
    pub key: KeySpec,
    /// What values are.
    pub value: ValueSpec,
    /// Items to make room for at once; the table grows beyond.
    pub capacity: u64,
    /// How the table is laid out.
    pub geometry: Geometry,
    /// What a slot holds; what suits keys and values if not said.
    pub layout: Option<Layout>,
    /// What a merge does.
    pub merge: MergeRule,
}

impl TableOptions {
    /// A table of such keys and values, otherwise as usual.
    pub fn new(key: KeySpec, value: ValueSpec) -> TableOptions {
        TableOptions {
            key,
            value,
            capacity: 1024,
            geometry: Geometry::default(),
            layout: None,
            merge: MergeRule::None,
        }
    }

    /// With room for so many items at once.
    #[must_use]
    pub fn capacity(mut self, items: u64) -> TableOptions {
        self.capacity = items;
        self
    }

    /// Laid out like this.
    #[must_use]
    pub fn geometry(mut self, geometry: Geometry) -> TableOptions {
        self.geometry = geometry;
        self
    }

    /// With slots like this.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> TableOptions {
        self.layout = Some(layout);
        self
    }

    /// With this rule for merges.
    #[must_use]
    pub fn merge(mut self, rule: MergeRule) -> TableOptions {
        self.merge = rule;
        self
    }
}

/// Named tables that survive the process and, where there is a log, the machine.
///
/// ```
/// use warpkeep::{Durability, KeySpec, Store, TableOptions, ValueSpec};
/// # let directory = tempfile::tempdir().unwrap();
/// # let directory = directory.path();
/// let store = Store::open(directory)?;
/// let rows = store.create_table("rows", TableOptions::new(KeySpec::U64, ValueSpec::fixed(128)?))?;
/// rows.put(7, &[1; 128], Durability::Power)?;
/// drop(rows);
/// drop(store); // no close: as if the process had been killed
///
/// let store = Store::open(directory)?;
/// assert_eq!(store.table("rows")?.get(7)?, Some(vec![1; 128]));
/// store.close()?;
/// # Ok::<(), warpkeep::Error>(())
/// ```
pub struct Store<P: Persist = Coherent> {
    keeper: Arc<Keeper<P, Tables<P>>>,
    report: OpenReport,
    maintenance: Option<Maintenance>,
}

/// The thread that makes tables grow before they are full.
struct Maintenance {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Store<Coherent> {
    /// Opens the store in a directory, or creates it: image and log lie there.
    pub fn open(directory: impl AsRef<Path>) -> Result<Store> {
        Store::open_with(directory, StoreOptions::default())
    }

    /// Opens the store in a directory, or creates it.
    pub fn open_with(directory: impl AsRef<Path>, options: StoreOptions) -> Result<Store> {
        let directory = directory.as_ref();
        std::fs::create_dir_all(directory).map_err(|source| {
            let (path, doing) = (directory.to_path_buf(), "create it");
            Error::Image(warpkeep_image::ImageError::Io { path, doing, source })
        })?;
        let place = ImageFile {
            path: options.image.unwrap_or_else(|| directory.join("image")),
            persist: Coherent,
            create: options.create,
            open: options.open,
        };
        let log = match options.without_log {
            true => None,
            false => Some(LogPlace::new(OsDisk::open(directory.join("log"))?, options.log)),
        };
        let (keeper, report) = open(&place, log, options.heap, &())?;
        Ok(Store::over(keeper, report))
    }
}

impl<P: Persist> Store<P> {
    fn over(keeper: Keeper<P, Tables<P>>, report: OpenReport) -> Store<P> {
        let keeper = Arc::new(keeper);
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("warpkeep-tables".into());
        // Without it writers do the work themselves when a table is full.
        let thread = thread.spawn({
            let (keeper, stop) = (Arc::clone(&keeper), Arc::clone(&stop));
            move || maintain(&keeper, &stop)
        });
        Store { keeper, report, maintenance: thread.ok().map(|thread| Maintenance { stop, thread }) }
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
        options.merge.check(options.value)?;
        let durability = self.strongest();
        self.keeper.admit(durability)?;
        let tables = self.keeper.items();
        let _alone = tables.hold();
        if tables.get(name).is_some() {
            return Err(Error::TableExists { name: name.to_owned() });
        }
        let id = tables.next_id();
        let seed = Seed(self.keeper.image().header().hash_seed).derive(u64::from(id));
        let spec = TableSpec {
            key: options.key,
            value: options.value,
            geometry: options.geometry,
            capacity: options.capacity,
            layout: options.layout.unwrap_or_else(|| Layout::for_items(options.key, options.value)),
            merge: options.merge,
            seed,
        };
        let table = tables.prepare(id, name, &spec)?;
        let value = encode_spec(id, &spec, 0);
        let version = self.keeper.next_version();
        let mut changes = ChangeBatch::new();
        let key = name.as_bytes();
        changes.push(&Change { table: CATALOGUE, kind: ChangeKind::Put, version, key, value: &value })?;
        self.keeper.write(durability, &changes, || tables.add(table))??;
        self.table(name)
    }

    /// A table that is there.
    pub fn table(&self, name: &str) -> Result<Table<'_, P>> {
        let named = self.keeper.items().get(name).ok_or_else(|| Error::NoTable { name: name.to_owned() })?;
        Ok(Table { store: self, named })
    }

    /// The names of all tables.
    pub fn tables(&self) -> Vec<String> {
        self.keeper.items().list().iter().map(|named| named.name.clone()).collect()
    }

    /// Drops a table and all that is in it.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let durability = self.strongest();
        self.keeper.admit(durability)?;
        let tables = self.keeper.items();
        let _alone = tables.hold();
        if tables.get(name).is_none() {
            return Err(Error::NoTable { name: name.to_owned() });
        }
        let mut changes = ChangeBatch::new();
        let (version, key) = (self.keeper.next_version(), name.as_bytes());
        changes.push(&Change { table: CATALOGUE, kind: ChangeKind::Delete, version, key, value: &[] })?;
        self.keeper.write(durability, &changes, || tables.remove(name))?
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

    /// Closes the store. Dropping it instead is a crash: nothing acknowledged is lost, but the next opening takes
    /// longer.
    pub fn close(mut self) -> Result<()> {
        self.stop_maintenance();
        let keeper = Arc::clone(&self.keeper);
        drop(self);
        let keeper = Arc::into_inner(keeper);
        keeper
            .ok_or_else(|| Error::Invalid("the store is still in use; drop what refers to it first".into()))?
            .close()
    }

    fn strongest(&self) -> Durability {
        if self.keeper.log().is_some() { Durability::Power } else { Durability::Process }
    }

    fn stop_maintenance(&mut self) {
        if let Some(maintenance) = self.maintenance.take() {
            maintenance.stop.store(true, Ordering::Release);
            maintenance.thread.thread().unpark();
            // It has no result; had it panicked, writers would do its work.
            let _ = maintenance.thread.join();
        }
    }
}

impl<P: Persist> Drop for Store<P> {
    fn drop(&mut self) {
        self.stop_maintenance();
    }
}

fn maintain<P: Persist>(keeper: &Keeper<P, Tables<P>>, stop: &AtomicBool) {
    /// Buckets drained before others get a turn.
    const SLICE: u64 = 256;
    while !stop.load(Ordering::Acquire) {
        let mut working = false;
        for named in keeper.items().list() {
            // A full image is the business of whoever writes next, who is told.
            working |= named.table.maintain(SLICE).is_ok_and(|progress| progress == Progress::Working);
        }
        if !working {
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }
}

/// A table of a store.
pub struct Table<'s, P: Persist = Coherent> {
    store: &'s Store<P>,
    named: Arc<NamedTable<P>>,
}

impl<P: Persist> Table<'_, P> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.named.name
    }

    /// Items in it. Exact while nobody writes.
    pub fn len(&self) -> u64 {
        self.named.table.len()
    }

    /// Whether it has no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How full it is, by level.
    pub fn stats(&self) -> TableStats {
        self.named.table.stats()
    }

    /// An empty batch for this table.
    pub fn batch(&self) -> Batch {
        Batch::new(self.named.table.key_spec(), self.named.table.value_spec())
    }

    /// Does a batch and gives the answers. Operations on one key act in the order of the batch.
    pub fn run(&self, batch: &Batch, durability: Durability) -> Result<Results> {
        let view = batch.view();
        let mut results = Results::new(&view);
        self.run_into(&view, durability, &mut results)?;
        Ok(results)
    }

    /// Does a batch that lies in host memory and answers into what the caller gives.
    pub fn run_into(
        &self,
        batch: &BatchView<'_>,
        durability: Durability,
        answers: &mut dyn Answers,
    ) -> Result<()> {
        batch.check_table(self.named.table.key_spec(), self.named.table.value_spec())?;
        let host = batch.host().ok_or_else(|| {
            Error::Invalid(
                "the batch lies in device memory; this table is worked by the CPU, copy it first".into(),
            )
        })?;
        planner::execute(&self.store.keeper, &self.named, &host, durability, answers)
    }

    /// The value of a key.
    pub fn get(&self, key: impl warpkeep_core::ToCell) -> Result<Option<Vec<u8>>> {
        let key = key.to_cell();
        self.named.table.key_spec().check(key.as_ref())?;
        Ok(self.named.table.get(key.as_ref(), |value| value.to_vec()))
    }

    /// Stores a value, whether the key is there or not; gives its version.
    pub fn put(
        &self,
        key: impl warpkeep_core::ToCell,
        value: impl warpkeep_core::ToCell,
        durability: Durability,
    ) -> Result<u64> {
        self.one(Op::Put, key.to_cell().as_ref(), value.to_cell().as_ref(), 0, durability)
            .map(|(_, version)| version)
    }

    /// Removes a key; `false` if it was not there.
    pub fn delete(&self, key: impl warpkeep_core::ToCell, durability: Durability) -> Result<bool> {
        let (status, _) = self.one(Op::Delete, key.to_cell().as_ref(), &[], 0, durability)?;
        Ok(status == Status::Ok)
    }

    fn one(
        &self,
        op: Op,
        key: &[u8],
        value: &[u8],
        argument: u64,
        durability: Durability,
    ) -> Result<(Status, u64)> {
        let mut batch = self.batch();
        batch.push(op, key, value, argument)?;
        let results = self.run(&batch, durability)?;
        let (status, version) = (results.statuses()[0], results.versions()[0]);
        match status {
            Status::TableFull => Err(Error::Table(warpkeep_gphash::TableError::Full)),
            Status::OutOfSpace => Err(Error::Image(warpkeep_image::ImageError::OutOfSpace {
                wanted: (key.len() + value.len()) as u64,
                why: "the image is full; raise its limit or delete data".into(),
            })),
            _ => Ok((status, version)),
        }
    }
}
