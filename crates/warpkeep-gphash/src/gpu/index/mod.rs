//! The device index: a hash table in device memory from each key of a table to its record.
//!
//! # Problem
//!
//! A hash probe over the link is a random access to host memory. The link delivers 50 million rows of 128 bytes a
//! second at random addresses, and 400 million in address order. With the index in device memory only values cross the
//! link, and they can be sorted first.
//!
//! # Layout
//!
//! Four entries of 16 bytes are a line of 64 bytes. A key's entry is in the line that its hash selects, or in a later
//! one; one probe of a line usually finds the key or proves that it is absent. Keys longer than their hashes are
//! stored in a column beside the entries, where memory allows it (`kernels/index/keys.h`). Entries refer to records,
//! not to slots, so a table that grows keeps its index.
//!
//! # Invariants
//!
//! * The image is the source of truth. An index is built from it whenever a table is opened.
//! * A reader never finds anything in the index that is older than what it has seen in the image: a publisher marks
//!   the entry busy, which sends readers to the image, stores the slot word, and then sets the entry.
//! * Changes that the CPU makes go through the [change feed](super::change_feed::ChangeFeed) and are applied before
//!   the next kernel reads.
//! * An [`IndexSnapshot`] keeps the memory that its kernels read, even if the engine has another index by then.

mod build;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_epoch::Guard;
use warpkeep_device::{Device, DevicePtr};
use warpkeep_image::Persist;

use self::build::{IndexBuilder, IndexMemory};
use crate::gpu::change_feed::ChangeFeed;
use crate::gpu::engine::{DeviceEngine, THREADS, Workspace};
use crate::gpu::params::{
    ApplyParams, BUSY, CountEntriesParams, IndexChange, IndexParams, RehashParams, Run, TOMBSTONE,
    TableParams,
};
use crate::gpu::value_cache::{Frequencies, Rows, ValueCache};
use crate::{Table, TableError};

/// The result of building a device index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexReport {
    /// Items in the index.
    pub items: u64,
    /// Device memory of the index; 0 if there is none because it does not fit the device's budget.
    pub bytes: u64,
    /// The part of `bytes` that the key column takes; 0 if the index has none.
    pub key_bytes: u64,
    /// How long it took.
    pub took: Duration,
}

/// The device index of an engine, if it has one.
#[derive(Default)]
pub(crate) struct DeviceIndex(Mutex<State>);

/// The index with its value cache, behind the lock.
#[derive(Default)]
pub(in crate::gpu) struct State {
    /// Whether the engine should have an index.
    enabled: bool,
    /// Whether an index is built without a key column.
    omit_keys: bool,
    memory: Option<Arc<IndexMemory>>,
    pub(in crate::gpu) values: ValueCache,
    /// The feed that this index has subscribed to.
    feed: Option<Arc<ChangeFeed>>,
    /// For kernels between batches.
    workspace: Option<Workspace>,
}

/// Entries of an index that are not vacant, and those of them that are no tombstones.
struct EntryCounts {
    occupied: u64,
    live: u64,
}

/// An index as a batch uses it: its memory stays while kernels read it, even if the engine replaces the index
/// meanwhile.
#[derive(Clone)]
pub(crate) struct IndexSnapshot {
    memory: Arc<IndexMemory>,
    values: ValueCache,
}

impl IndexSnapshot {
    pub(crate) fn params(&self) -> IndexParams {
        IndexParams { values: self.values.params(), ..self.memory.params() }
    }

    /// Whether a match is exact: the index itself distinguishes keys with equal hashes.
    pub(crate) fn has_exact_keys<P: Persist>(&self, table: &Table<P>) -> bool {
        hash_is_key(table) || self.memory.key_bytes() > 0
    }

    /// Accounts for `keys` new keys that have got entries.
    pub(crate) fn count_new_keys(&self, keys: u64) {
        self.memory.used.fetch_add(keys, Ordering::Relaxed);
    }

    /// The rows of the value cache, if there is one.
    pub(crate) fn rows(&self) -> Option<&Rows> {
        self.values.rows.as_deref()
    }

    /// Entries, vacant ones included.
    pub(crate) fn entry_count(&self) -> u64 {
        self.memory.entry_count()
    }

    /// The frequency counters of the entries, while gets are counted.
    pub(crate) fn frequencies(&self) -> Option<&Frequencies> {
        self.values.frequencies.as_deref()
    }
}

/// What a batch does with the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexAccess {
    /// A batch of gets.
    Read,
    /// A batch that may add this many new keys. The caller holds the write lock.
    Write(u64),
}

/// Whether the hash is a bijection of the key, so that equal hashes mean equal keys.
fn hash_is_key<P: Persist>(table: &Table<P>) -> bool {
    table.key_row_len() == Some(8)
}

impl DeviceIndex {
    pub(in crate::gpu) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the engine should have an index.
    pub(crate) fn is_enabled(&self) -> bool {
        self.state().enabled
    }

    /// Whether there is a value cache.
    pub(crate) fn has_value_cache(&self) -> bool {
        self.state().values.rows.is_some()
    }

    /// Device memory of the index.
    pub(crate) fn bytes(&self) -> u64 {
        self.state().memory.as_ref().map_or(0, |memory| memory.bytes())
    }

    /// The index with all changes applied that the CPU has made; `None` if kernels have to read the image.
    pub(crate) fn acquire<P: Persist>(
        &self,
        engine: &DeviceEngine<P>,
        table: &Table<P>,
        access: IndexAccess,
    ) -> Result<Option<IndexSnapshot>, TableError> {
        let mut state = self.state();
        if !state.enabled {
            return Ok(None);
        }
        match state.update(engine, table, access) {
            // The changes stay in the feed and are applied later. A writer cannot go on without the index: it would
            // miss what the writer publishes.
            Err(TableError::Device(error))
                if error.is_out_of_memory() && (access == IndexAccess::Read || state.memory.is_none()) =>
            {
                Ok(None)
            }
            updated => updated.map(|is_current| state.snapshot().filter(|_| is_current)),
        }
    }
}

impl Drop for DeviceIndex {
    fn drop(&mut self) {
        if let Some(feed) = self.state().feed.take() {
            feed.subscribe(false);
        }
    }
}

impl State {
    /// The index as it is now, for kernels.
    pub(in crate::gpu) fn snapshot(&self) -> Option<IndexSnapshot> {
        self.memory.clone().map(|memory| IndexSnapshot { memory, values: self.values.clone() })
    }

    /// Replaces the index, or removes it.
    fn replace(&mut self, memory: Option<IndexMemory>, feed: &Arc<ChangeFeed>) {
        if self.memory.is_some() != memory.is_some() {
            feed.subscribe(memory.is_some());
        }
        if memory.is_none() {
            // No entry refers to a row any more, and the frequency counters belong to the entries.
            self.values.clear();
        }
        self.memory = memory.map(Arc::new);
        self.feed = Some(Arc::clone(feed));
    }

    fn workspace(&mut self, device: &Device) -> Result<&mut Workspace, TableError> {
        if self.workspace.is_none() {
            self.workspace = Some(Workspace::new(device)?);
        }
        Ok(self.workspace.as_mut().expect("it was made just now"))
    }

    /// Builds an index from the items in the image, large enough for `more` new keys. The caller holds the write
    /// lock, and no kernel reads the new index yet.
    fn build<P: Persist>(
        &mut self,
        engine: &DeviceEngine<P>,
        table: &Table<P>,
        more: u64,
    ) -> Result<(), TableError> {
        let device = engine.device();
        self.replace(None, &table.changes);
        let key_words = (!hash_is_key(table) && !self.omit_keys).then(|| table.key_row().div_ceil(8) as u64);
        let Some(memory) = IndexMemory::for_items(device, table.len() + more, key_words)? else {
            // Otherwise every batch would try again.
            self.enabled = false;
            return Ok(());
        };
        let image = engine.image.cover()?;
        let guard = &table.heap.pin();
        let levels = table.levels(guard);
        let params = TableParams::new(table, levels, image).with_index(memory.params());
        let builder =
            IndexBuilder { image_len: table.heap.image().len(), bucket_slots: table.shape.slots() as u64 };
        let runs: Vec<Run> = table.runs(levels).map(Run::from).collect();
        let built = builder.build_all(engine, self.workspace(device)?, params, &runs);
        let items = match built {
            Err(TableError::Device(error)) if error.is_out_of_memory() => {
                self.enabled = false;
                return Ok(());
            }
            built => built?,
        };
        memory.used.store(items, Ordering::Relaxed);
        self.replace(Some(memory), &table.changes);
        Ok(())
    }

    /// Makes the index large enough for `more` new keys, or removes it. The caller holds the write lock; kernels that
    /// read the old index finish with that.
    fn grow<P: Persist>(
        &mut self,
        engine: &DeviceEngine<P>,
        table: &Table<P>,
        more: u64,
    ) -> Result<(), TableError> {
        let Some(old) = self.memory.clone().filter(|old| !old.has_space_for(more)) else { return Ok(()) };
        // `used` is an upper bound: a key that is written again reuses its tombstone but is counted again. So the
        // entries are counted.
        let counts = self.count_entries(engine, &old)?;
        old.used.store(counts.occupied, Ordering::Relaxed);
        if old.has_space_for(more) {
            return Ok(());
        }
        // Keys without an entry are in the image only, so the index is built from the image. The same where keys can
        // share a hash: the index does not know which of its busy entries still have an item.
        if !hash_is_key(table) || old.unplaced.to_vec::<u64>()? != [0] {
            return self.build(engine, table, more);
        }
        // Tombstones are not copied.
        let Some(larger) = IndexMemory::for_items(engine.device(), counts.live + more, None)? else {
            self.replace(None, &table.changes);
            self.enabled = false;
            return Ok(());
        };
        let old_frequencies = self.values.frequencies.as_ref();
        let frequencies = old_frequencies
            .and_then(|frequencies| frequencies.for_entries(engine.device(), larger.entry_count()));
        let params = RehashParams {
            from: old.params(),
            to: larger.params(),
            from_frequencies: old_frequencies.map_or(DevicePtr::NULL, |frequencies| frequencies.ptr()),
            to_frequencies: frequencies.as_ref().map_or(DevicePtr::NULL, Frequencies::ptr),
        };
        let workspace = self.workspace(engine.device())?;
        // SAFETY: both indexes have as many lines as their parameters say, and stay until the stream is synchronised
        // below.
        unsafe { workspace.launch(&engine.kernels.index()?.rehash, old.entry_count(), THREADS, &params)? };
        workspace.stream.synchronize()?;
        larger.used.store(counts.live, Ordering::Relaxed);
        self.values.frequencies = frequencies.map(Arc::new);
        self.replace(Some(larger), &table.changes);
        Ok(())
    }

    /// Counts entries. The caller holds the write lock, so that they do not change meanwhile.
    fn count_entries<P: Persist>(
        &mut self,
        engine: &DeviceEngine<P>,
        memory: &IndexMemory,
    ) -> Result<EntryCounts, TableError> {
        let workspace = self.workspace(engine.device())?;
        let counts = workspace.columns.counters.put(engine.device(), &[0_u64; 2], &workspace.stream)?;
        let params = CountEntriesParams { index: memory.params(), counts };
        // SAFETY: the index has as many lines as its parameters say; it and the counters stay until `take` has
        // synchronised the stream.
        unsafe {
            workspace.launch(
                &engine.kernels.index()?.count_entries,
                memory.entry_count(),
                THREADS,
                &params,
            )?;
        }
        let counts: Vec<u64> = workspace.columns.counters.take(2, &workspace.stream)?;
        Ok(EntryCounts { occupied: counts[0], live: counts[1] })
    }

    /// Applies changes of the CPU. The kernel reads the keys of the records, so the caller has pinned an epoch since
    /// before it took the changes from the feed.
    fn apply<P: Persist>(
        &mut self,
        engine: &DeviceEngine<P>,
        table: &Table<P>,
        changes: &[IndexChange],
        guard: &Guard,
    ) -> Result<(), TableError> {
        let Some(memory) = self.memory.clone() else { return Ok(()) };
        let (device, image) = (engine.device(), engine.image.cover()?);
        let workspace = self.workspace(device)?;
        let params = ApplyParams {
            table: TableParams::new(table, table.levels(guard), image).with_index(memory.params()),
            count: changes.len() as u64,
            changes: workspace.columns.blocks.put(device, changes, &workspace.stream)?,
            removed: if hash_is_key(table) { TOMBSTONE } else { BUSY },
        };
        // SAFETY: the column has `count` changes; it and the index stay until the stream is synchronised below. No
        // other kernel changes these entries: what a device publishes meanwhile is of other keys.
        unsafe { workspace.launch(&engine.kernels.index()?.apply, params.count, THREADS, &params)? };
        workspace.stream.synchronize()?;
        memory.used.fetch_add(written(changes), Ordering::Relaxed);
        Ok(())
    }

    /// Brings the index up to date; returns whether it is.
    fn update<P: Persist>(
        &mut self,
        engine: &DeviceEngine<P>,
        table: &Table<P>,
        access: IndexAccess,
    ) -> Result<bool, TableError> {
        // Only the holder of the write lock may replace the index: then no batch is about to publish to this one.
        let lock = if access == IndexAccess::Read { engine.try_write_lock() } else { None };
        let may_replace = lock.is_some() || access != IndexAccess::Read;
        let more = if let IndexAccess::Write(more) = access { more } else { 0 };
        // Pinned before the changes are taken: the kernel reads the records that they name.
        let guard = &table.heap.pin();
        let changes = table.changes.pending().take_items();
        let (Some(changes), true) = (changes, self.memory.is_some()) else {
            if may_replace {
                self.build(engine, table, more)?;
            }
            return Ok(may_replace);
        };
        let needed = written(&changes) + more;
        let has_space =
            |state: &State| state.memory.as_ref().is_some_and(|memory| memory.has_space_for(needed));
        let grown = if may_replace && !has_space(self) { self.grow(engine, table, needed) } else { Ok(()) };
        if grown.is_err() {
            table.changes.pending().put_back(changes);
            return grown.map(|()| false);
        }
        if changes.is_empty() {
            return Ok(true);
        }
        let applied = match has_space(self) {
            true => self.apply(engine, table, &changes, guard).map(|()| true),
            false => Ok(false),
        };
        if !matches!(applied, Ok(true)) {
            table.changes.pending().put_back(changes);
        }
        applied
    }
}

/// Changes that may need a new entry.
fn written(changes: &[IndexChange]) -> u64 {
    changes.iter().filter(|change| change.record != 0).count() as u64
}
