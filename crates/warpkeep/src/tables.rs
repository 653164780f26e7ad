//! The tables of a store, as recovery and checkpoints see them.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use warpkeep_core::{Change, ChangeKind};
use warpkeep_device::Device;
use warpkeep_image::{Heap, Image, Marker, Owner, Persist};
use warpkeep_record::{Budget, DamagedItem, Pool, Progress};

use crate::attributes::{self, Attributes};
use crate::catalogue::{Catalogue, Entry, Written};
use crate::device::DeviceOptions;
use crate::index::{DeviceImage, Index, Spec};
use crate::metrics::TableMetrics;
use crate::{Error, Items, Result};

/// Changes of the catalogue are logged under this number.
pub(crate) const CATALOGUE: u32 = 0;
/// Names are kept in the catalogue's block.
pub(crate) const MAX_NAME: usize = 255;

/// All tables of a store.
pub struct Tables<P: Persist> {
    heap: Arc<Heap<P>>,
    open: RwLock<Open<P>>,
    /// Held while the catalogue is changed.
    changing: Mutex<()>,
    /// The image on the device of the tables, if there is one.
    device: OnceLock<(Arc<DeviceImage<P>>, DeviceOptions)>,
    /// Threads for large batches.
    pool: OnceLock<Pool>,
    /// Tables that were dropped while in use: their space is freed later.
    dropped: Mutex<Vec<Arc<NamedTable<P>>>>,
}

struct Open<P: Persist> {
    by_name: BTreeMap<String, Arc<NamedTable<P>>>,
    by_id: BTreeMap<u32, Arc<NamedTable<P>>>,
    next_id: u32,
    /// Ids of dropped tables: redo ignores changes of theirs that it still meets.
    dropped: BTreeSet<u32>,
    /// Attributes by the id of their table, with the version of their last change, or 1 if that was before the
    /// store was opened.
    attributes: BTreeMap<u32, (u64, Attributes)>,
}

/// Another catalogue, ready to be installed.
pub(crate) struct NextCatalogue<P: Persist> {
    catalogue: Written<P>,
    next: Open<P>,
    removed: Option<Arc<NamedTable<P>>>,
}

/// A table with its name.
pub(crate) struct NamedTable<P: Persist> {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) spec: Spec,
    /// The version of its creation, or 1 if that was before the store was opened: a drop with a smaller version
    /// meant another table of this name.
    since: u64,
    /// It has been dropped; handles that still exist get an error.
    gone: AtomicBool,
    /// The process that opened it.
    pub(crate) owner: Owner,
    pub(crate) metrics: TableMetrics,
    pub(crate) table: Index<P>,
}

impl<P: Persist> NamedTable<P> {
    fn new(id: u32, name: &str, table: Index<P>, spec: Spec, since: u64) -> NamedTable<P> {
        let (gone, metrics) = (AtomicBool::new(false), TableMetrics::new(name, &table.figures()));
        let (name, owner) = (name.to_owned(), table.owner());
        NamedTable { id, name, table, spec, since, gone, owner, metrics }
    }

    /// A slice of growth.
    pub(crate) fn maintain(&self, budget: Budget) -> Result<Progress> {
        self.table.maintain(budget)
    }

    /// Moves it to a device, if devices support such a table. It is not in use yet.
    fn move_to_device(&self, image: &Arc<DeviceImage<P>>, options: DeviceOptions) -> Result<()> {
        // Values that a device reads are not checked.
        if self.spec.check_gets { Ok(()) } else { self.table.move_to_device(image, options) }
    }

    /// Gives out every item, each checked; the first that is damaged is the error.
    pub(crate) fn scan_checked(&self, mut each: impl FnMut(&Change<'_>) -> Result<()>) -> Result<()> {
        self.table.scan_checked(self.id, |item| match item {
            Ok(change) => each(change),
            Err(item) => Err(self.damaged(item)),
        })
    }

    /// The error for a damaged item.
    pub(crate) fn damaged(&self, item: &DamagedItem) -> Error {
        Error::DamagedItem { table: self.name.clone(), item: Box::new(item.clone()) }
    }

    /// Whether it has been dropped.
    #[inline]
    pub(crate) fn is_dropped(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }
}

/// The value, once it has no other owner: the maintenance thread may hold it for another moment. Otherwise the
/// shared value.
fn unshare<T>(mut shared: Arc<T>, turns: usize) -> std::result::Result<T, Arc<T>> {
    for _ in 0..turns {
        match Arc::try_unwrap(shared) {
            Ok(alone) => return Ok(alone),
            Err(still) => shared = still,
        }
        std::thread::yield_now();
    }
    Err(shared)
}

impl<P: Persist> NamedTable<P> {
    /// Frees everything it has.
    fn demolish(self) -> Result<()> {
        self.table.demolish()
    }
}

impl<P: Persist> Tables<P> {
    fn open(&self) -> RwLockReadGuard<'_, Open<P>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<NamedTable<P>>> {
        self.open().by_name.get(name).cloned()
    }

    pub(crate) fn list(&self) -> Vec<Arc<NamedTable<P>>> {
        self.open().by_name.values().cloned().collect()
    }

    /// Moves all tables that devices support to a device, later ones included. They are not in use yet.
    pub(crate) fn move_to_device(&self, device: &Device, options: DeviceOptions) -> Result<()> {
        let image = Arc::new(DeviceImage::new(device, self.heap.image())?);
        for named in self.list() {
            named.move_to_device(&image, options)?;
        }
        let _ = self.device.set((image, options));
        Ok(())
    }

    /// Runs large batches on this many threads: see [`StoreOptions::threads`](crate::StoreOptions).
    pub(crate) fn use_threads(&self, threads: usize) {
        let _ = self.pool.set(Pool::new(threads));
    }

    /// Threads for large batches.
    pub(crate) fn pool(&self) -> &Pool {
        self.pool.get_or_init(Pool::default)
    }

    /// Held while a change of the catalogue is decided, logged and made.
    pub(crate) fn hold(&self) -> std::sync::MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn next_id(&self) -> u32 {
        self.open().next_id
    }

    /// Lays out a table, which is not reachable yet.
    pub(crate) fn prepare(&self, id: u32, name: &str, spec: &Spec, since: u64) -> Result<NamedTable<P>> {
        let table = Index::create(&self.heap, spec)?;
        // Options left open are fixed now.
        let spec = Spec { form: table.spec().form, ..*spec };
        let named = NamedTable::new(id, name, table, spec, since);
        if let Some((image, options)) = self.device.get() {
            named.move_to_device(image, *options)?;
        }
        Ok(named)
    }

    /// Marks as [`Items::mark`] does, but removes damaged items from their tables, or from one of them: returns
    /// them, each with the number of its table.
    pub(crate) fn mark_salvaging(
        image: &Image<P>,
        marker: &Marker<'_, P>,
        only: Option<&str>,
    ) -> Result<Vec<(u32, DamagedItem)>> {
        let (catalogue, at, len) = Catalogue::load(image)?;
        marker.block(at, len)?;
        let mut damaged = Vec::new();
        for entry in &catalogue.entries {
            if only.is_some_and(|name| name != entry.name) {
                Index::mark(entry.kind, image, marker, entry.header)?;
                continue;
            }
            let found = Index::mark_salvaging(entry.kind, image, marker, entry.header)?;
            damaged.extend(found.into_iter().map(|item| (entry.id, item)));
        }
        Ok(damaged)
    }

    /// Removes from all tables, or from one of them, the items that a check finds damaged: returns them as
    /// [`Tables::mark_salvaging`] does. No other thread uses them yet.
    pub(crate) fn take_damaged(&self, only: Option<&str>) -> Vec<(u32, DamagedItem)> {
        let mut damaged = Vec::new();
        let tables = self.list().into_iter();
        for named in tables.filter(|named| only.is_none_or(|name| name == named.name)) {
            let from = damaged.len();
            let scanned = named.table.scan_checked(named.id, |item| {
                damaged.extend(item.err().map(|item| (named.id, item.clone())));
                Ok::<(), Infallible>(())
            });
            match scanned {
                Ok(()) => {}
                Err(never) => match never {},
            }
            // A growth that was under way when the store was left may have had it in two places.
            damaged[from..].sort_by_key(|(_, item)| (item.bucket, item.slot));
            damaged.dedup_by_key(|(id, item)| (*id, item.bucket, item.slot));
            damaged[from..].iter().for_each(|(_, item)| named.table.discard(item));
        }
        damaged
    }

    /// Another catalogue, written but not reachable: everything that can fail fails here. The thread that
    /// [holds](Tables::hold) the catalogue installs it.
    fn plan(&self, change: impl FnOnce(&mut Open<P>)) -> Result<NextCatalogue<P>> {
        let mut next = {
            let open = self.open();
            Open {
                by_name: open.by_name.clone(),
                by_id: open.by_id.clone(),
                next_id: open.next_id,
                dropped: open.dropped.clone(),
                attributes: open.attributes.clone(),
            }
        };
        change(&mut next);
        let attributes = |id| next.attributes.get(&id).map(|(_, found)| found.clone()).unwrap_or_default();
        let entry = |table: &Arc<NamedTable<P>>| Entry {
            id: table.id,
            name: table.name.clone(),
            header: table.table.header(),
            kind: table.table.kind(),
            attributes: attributes(table.id),
            check_gets: table.spec.check_gets,
        };
        let catalogue =
            Catalogue { entries: next.by_id.values().map(entry).collect(), next_id: next.next_id };
        Ok(NextCatalogue { catalogue: catalogue.write(&self.heap)?, next, removed: None })
    }

    /// The catalogue with another table.
    pub(crate) fn plan_add(&self, table: NamedTable<P>) -> Result<NextCatalogue<P>> {
        let table = Arc::new(table);
        let planned = self.plan(|open| {
            open.next_id = open.next_id.max(table.id + 1);
            open.by_name.insert(table.name.clone(), Arc::clone(&table));
            open.by_id.insert(table.id, Arc::clone(&table));
        });
        if planned.is_err() {
            // It is not reachable.
            self.demolish(table)?;
        }
        planned
    }

    /// The catalogue without a table.
    pub(crate) fn plan_removal(&self, name: &str) -> Result<NextCatalogue<P>> {
        let mut removed = None;
        let planned = self.plan(|open| {
            if let Some(table) = open.by_name.remove(name) {
                open.by_id.remove(&table.id);
                open.dropped.insert(table.id);
                open.attributes.remove(&table.id);
                removed = Some(table);
            }
        })?;
        Ok(NextCatalogue { removed, ..planned })
    }

    /// The catalogue with other attributes of a table.
    pub(crate) fn plan_attributes(
        &self,
        id: u32,
        version: u64,
        attributes: Attributes,
    ) -> Result<NextCatalogue<P>> {
        self.plan(|open| {
            open.attributes.insert(id, (version, attributes));
        })
    }

    /// The attributes of a table.
    pub(crate) fn attributes(&self, id: u32) -> Attributes {
        self.open().attributes.get(&id).map(|(_, attributes)| attributes.clone()).unwrap_or_default()
    }

    /// Publishes the plan in the image, then in the running process; a removed table's space is freed.
    pub(crate) fn install(&self, planned: NextCatalogue<P>) -> Result<()> {
        let NextCatalogue { catalogue, next, removed } = planned;
        {
            let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(table) = &removed {
                table.gone.store(true, Ordering::Release);
            }
            catalogue.install()?;
            *open = next;
        }
        removed.map_or(Ok(()), |table| self.demolish(table))
    }

    /// Frees a dropped table's space, now or when it is no longer in use; at the latest the next opening finds it
    /// free.
    fn demolish(&self, table: Arc<NamedTable<P>>) -> Result<()> {
        match unshare(table, 1) {
            Ok(named) => named.demolish(),
            Err(table) => {
                self.dropped.lock().unwrap_or_else(PoisonError::into_inner).push(table);
                Ok(())
            }
        }
    }

    /// Frees the space of dropped tables that were still in use, each after this many attempts to find it unused.
    pub(crate) fn demolish_dropped(&self, attempts: usize) -> Result<()> {
        let dropped = std::mem::take(&mut *self.dropped.lock().unwrap_or_else(PoisonError::into_inner));
        let mut done = Ok(());
        for table in dropped {
            match unshare(table, attempts) {
                Ok(named) => done = done.and(named.demolish()),
                Err(table) => self.dropped.lock().unwrap_or_else(PoisonError::into_inner).push(table),
            }
        }
        done
    }

    fn redo_attributes(&self, id: u32, version: u64, attributes: Attributes) -> Result<()> {
        let newer = {
            let open = self.open();
            // Attributes of a table that was dropped, perhaps later in the log, are not kept.
            let newer = open.attributes.get(&id).is_none_or(|(known, _)| *known < version);
            newer && open.by_id.contains_key(&id)
        };
        match newer {
            true => self.install(self.plan_attributes(id, version, attributes)?),
            false => Ok(()),
        }
    }

    fn redo_catalogue(&self, change: &Change<'_>) -> Result<()> {
        if let Some(logged) = attributes::logged(change.key, change.value) {
            let (id, attributes) = logged?;
            return self.redo_attributes(id, change.version, attributes);
        }
        let name = std::str::from_utf8(change.key)
            .map_err(|_| Error::Invalid("a table's name is not text".into()))?;
        match change.kind {
            // A checkpoint that began just before may have seen later changes.
            ChangeKind::Delete if self.get(name).is_some_and(|named| named.since >= change.version) => Ok(()),
            ChangeKind::Delete => self.install(self.plan_removal(name)?),
            ChangeKind::Put => {
                let (id, spec) = Spec::decode(change.value)?;
                let known = self.open().by_id.contains_key(&id) || self.open().dropped.contains(&id);
                // The name belongs to another table by now, which a checkpoint may have listed before the log
                // reaches that point: this one was dropped in between.
                let replaced = self.get(name).is_some_and(|named| named.since > change.version);
                match (known, replaced) {
                    (true, _) => Ok(()),
                    (false, true) => {
                        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
                        open.dropped.insert(id);
                        open.next_id = open.next_id.max(id.saturating_add(1));
                        Ok(())
                    }
                    (false, false) => {
                        self.install(self.plan_add(self.prepare(id, name, &spec, change.version)?)?)
                    }
                }
            }
        }
    }
}

impl<P: Persist> Items<P> for Tables<P> {
    type Config = ();

    fn create(heap: &Arc<Heap<P>>, (): &()) -> Result<Self> {
        Catalogue { entries: Vec::new(), next_id: CATALOGUE + 1 }.store(heap)?;
        Tables::attach(heap)
    }

    fn mark(image: &Image<P>, marker: &Marker<'_, P>) -> Result<()> {
        let (catalogue, at, len) = Catalogue::load(image)?;
        marker.block(at, len)?;
        for entry in &catalogue.entries {
            Index::mark(entry.kind, image, marker, entry.header)?;
        }
        Ok(())
    }

    fn attach(heap: &Arc<Heap<P>>) -> Result<Self> {
        let (catalogue, ..) = Catalogue::load(heap.image())?;
        let next_id = catalogue.next_id;
        let mut open = Open {
            by_name: BTreeMap::new(),
            by_id: BTreeMap::new(),
            next_id,
            dropped: BTreeSet::new(),
            attributes: BTreeMap::new(),
        };
        for entry in catalogue.entries {
            if !entry.attributes.is_empty() {
                open.attributes.insert(entry.id, (1, entry.attributes));
            }
            let mut table = Index::attach(entry.kind, heap, entry.header)?;
            table.check_gets(entry.check_gets);
            let spec = table.spec();
            let named = Arc::new(NamedTable::new(entry.id, &entry.name, table, spec, 1));
            open.by_name.insert(named.name.clone(), Arc::clone(&named));
            open.by_id.insert(named.id, named);
        }
        Ok(Tables {
            heap: Arc::clone(heap),
            open: RwLock::new(open),
            changing: Mutex::new(()),
            device: OnceLock::new(),
            pool: OnceLock::new(),
            dropped: Mutex::default(),
        })
    }

    fn redo(&self, change: &Change<'_>) -> Result<()> {
        if change.table == CATALOGUE {
            return self.redo_catalogue(change);
        }
        let table = self.open().by_id.get(&change.table).cloned();
        match table {
            Some(named) => named.table.redo(change),
            // Dropped, here or later in the log; or even before the checkpoint, by one thread while another was
            // writing. The durable part is a prefix of the log, so its creation cannot be missing.
            None => {
                let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
                open.next_id = open.next_id.max(change.table.saturating_add(1));
                Ok(())
            }
        }
    }

    fn stands_alone(change: &Change<'_>) -> bool {
        change.table == CATALOGUE
    }

    fn count(&self) -> u64 {
        self.list().iter().map(|named| 1 + named.table.len()).sum()
    }

    fn scan(&self, each: &mut dyn FnMut(&Change<'_>) -> Result<()>) -> Result<()> {
        let tables = self.list();
        for named in &tables {
            let value = named.spec.encode(named.id, named.table.len());
            let key = named.name.as_bytes();
            let version = named.since;
            each(&Change { table: CATALOGUE, kind: ChangeKind::Put, version, key, value: &value })?;
        }
        for named in &tables {
            let known = self.open().attributes.get(&named.id).cloned();
            if let Some((version, attributes)) = known {
                let (key, value) = (attributes::log_key(named.id), attributes.encode());
                each(&Change { table: CATALOGUE, kind: ChangeKind::Put, version, key: &key, value: &value })?;
            }
        }
        for named in &tables {
            named.scan_checked(&mut *each)?;
        }
        Ok(())
    }
}
