//! A table: its header in the image, and what a running process keeps about it.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use crossbeam_epoch::{Atomic, Owned, Shared};
use warpkeep_core::{KeyCells, KeySpec, MergeRule, Seed, ValueSpec, hash_bytes};
use warpkeep_image::{Guard, Heap, Image, ImageError, Marker, Persist, PoolId};
use warpkeep_record::{DamagedItem, RecordForm, RecordLines, in_parallel};

use crate::bucket::{Body, Bucket, Shape};
use crate::displace::Displacing;
use crate::find::Found;
use crate::geometry::Geometry;
use crate::gpu::change_feed::ChangeFeed;
use crate::grow::Growth;
use crate::header::{Header, JOURNAL_AT, LEVELS_AT};
use crate::layout::Layout;
use crate::levels::{Level, Levels, overflow_buckets};
use crate::marking::Marking;
use crate::matching;
use crate::slot::{EMPTY, INSERT, offset_of};
use crate::{TableError, Value, stats::TableStats};

/// Buckets that a thread takes at a time in a walk over all.
pub(crate) const SHARE: u64 = 16 * 1024;
/// Locks of keys. A batch of a thread holds 64 at once: of 4096, two threads would have one in common more often than
/// not, and the second would sleep.
const STRIPES: usize = 1 << 16;
/// How full a table is when it has the items it was created for.
const CREATION_LOAD: f64 = 0.85;
/// The overflow has one bucket for this many of the levels.
const OVERFLOW_SHARE: u64 = 1000;

/// What a table is created with.
#[derive(Clone, Copy, Debug)]
pub struct TableSpec {
    /// What keys are.
    pub key: KeySpec,
    /// What values are.
    pub value: ValueSpec,
    /// How the table is laid out.
    pub geometry: Geometry,
    /// Items that the table holds without growth.
    pub capacity: u64,
    /// What a slot holds.
    pub layout: Layout,
    /// What a merge does.
    pub merge: MergeRule,
    /// Of the hashes of its keys.
    pub seed: Seed,
}

/// A GPHash table in an image, run by the CPU.
///
/// Readers take no locks: they pin an epoch, look at the slots of a key, and follow the references; what a writer
/// replaces stays until no reader can hold it. Writers of one key are serialised by a stripe of locks, and publish with
/// one 8-byte store.
pub struct Table<P: Persist> {
    pub(crate) heap: Arc<Heap<P>>,
    pub(crate) header: u64,
    pub(crate) geometry: Geometry,
    pub(crate) shape: Shape,
    /// Slots in the header, for keys whose fingerprint is a reserved state.
    pub(crate) specials: Level,
    pub(crate) matching: matching::Level,
    /// Lines of memory that a record takes, as far as they are fetched ahead.
    pub(crate) record_lines: RecordLines,
    pub(crate) form: RecordForm,
    pub(crate) pool: Option<PoolId>,
    pub(crate) key: KeySpec,
    pub(crate) value: ValueSpec,
    pub(crate) seed: Seed,
    pub(crate) layout: Layout,
    merge: MergeRule,
    levels: Atomic<Levels>,
    stripes: Box<[Mutex<()>]>,
    pub(crate) items: AtomicI64,
    pub(crate) in_overflow: AtomicU64,
    pub(crate) growth: Mutex<Growth>,
    /// Items that writers added while levels were being drained.
    pub(crate) added: AtomicU64,
    pub(crate) displacing: Displacing,
    /// Lookups check values against their checksums.
    pub(crate) checks_gets: bool,
    /// A device works it: its kernels may be looking for items, which stay where they are but for turns of its engine.
    pub(crate) by_device: AtomicBool,
    /// What the CPU writes, for a device that has the index in its memory.
    pub(crate) changes: Arc<ChangeFeed>,
}

impl<P: Persist> Table<P> {
    /// Creates an empty table. Nothing refers to its [header](Table::header) yet.
    pub fn create(heap: &Arc<Heap<P>>, spec: &TableSpec) -> Result<Table<P>, TableError> {
        Table::create_as(heap, spec, &Header::of(spec))
    }

    /// Creates a table with this header, which may be that of an older program.
    pub(crate) fn create_as(
        heap: &Arc<Heap<P>>,
        spec: &TableSpec,
        identity: &Header,
    ) -> Result<Table<P>, TableError> {
        if spec.layout == Layout::InPlace && spec.key.fixed_len().is_none() {
            return Err(TableError::Layout { layout: spec.layout, key: spec.key });
        }
        let (geometry, shape) = (spec.geometry, identity.shape());
        let buckets = geometry.buckets_for(spec.capacity.max(1), CREATION_LOAD);
        let mut unused = Unused { heap, extents: Vec::new() };
        let mut levels = Vec::new();
        for level in 0..geometry.levels() {
            levels.push(unused.note(new_level(heap, &shape, buckets >> level)?));
        }
        let overflow = unused.note(new_level(heap, &shape, overflow_buckets_for(buckets))?);
        let mut levels =
            Levels { levels, drained: 0, shrinking: false, overflow, old_overflows: Vec::new(), block: 0 };
        levels.block = levels.write(heap)?;
        let header = identity.write(heap, levels.block)?;
        let table = Table::over(heap, header, identity, levels)?;
        unused.extents.clear();
        Ok(table)
    }

    /// Marks everything that a table's header leads to, and checks it on the way.
    pub fn mark(image: &Image<P>, marker: &Marker<'_, P>, header: u64) -> Result<(), TableError> {
        let identity = Header::read(image, header)?;
        let shape = identity.shape();
        if !marker.block(header, identity.len())? {
            let what = format!("the table at {header}: something else leads there, too");
            return Err(ImageError::Damaged { path: image.path().to_path_buf(), what }.into());
        }
        let levels = Levels::read(image, identity.geometry, &shape, image.load(header + LEVELS_AT))?;
        levels.mark(&shape, marker)?;
        if matches!(shape.body, Body::Inline { .. }) {
            return Ok(());
        }
        Marking::new(image, marker, &identity, header, &levels).records()
    }

    /// The same for a table that may be damaged: items that lead to no record, or to that of another item, are taken
    /// out, and given.
    pub fn mark_salvaging(
        image: &Image<P>,
        marker: &Marker<'_, P>,
        header: u64,
    ) -> Result<Vec<DamagedItem>, TableError> {
        let identity = Header::read(image, header)?;
        let shape = identity.shape();
        marker.block(header, identity.len())?;
        let levels = Levels::read(image, identity.geometry, &shape, image.load(header + LEVELS_AT))?;
        levels.mark(&shape, marker)?;
        match shape.body {
            Body::Inline { .. } => Ok(Vec::new()),
            Body::Packed | Body::Reference => {
                Marking::new(image, marker, &identity, header, &levels).salvage_records()
            }
        }
    }

    /// Opens a table that has just been [marked](Table::mark): clears slots that were being filled when the last
    /// holder stopped, finishes moves, counts the items.
    pub fn attach(heap: &Arc<Heap<P>>, header: u64) -> Result<Table<P>, TableError> {
        let image = heap.image();
        let identity = Header::read(image, header)?;
        let levels =
            Levels::read(image, identity.geometry, &identity.shape(), image.load(header + LEVELS_AT))?;
        let table = Table::over(heap, header, &identity, levels)?;
        table.repair();
        Ok(table)
    }

    fn over(
        heap: &Arc<Heap<P>>,
        header: u64,
        identity: &Header,
        levels: Levels,
    ) -> Result<Table<P>, TableError> {
        let form = identity.form();
        let growth = Growth::after_opening(levels.drained > 0);
        let shape = identity.shape();
        let pool = match shape.body {
            Body::Inline { .. } => None,
            Body::Packed | Body::Reference => form.pool(heap)?,
        };
        let specials = identity.specials(heap.image(), header);
        Ok(Table {
            pool,
            heap: Arc::clone(heap),
            header,
            geometry: identity.geometry,
            shape,
            specials: specials.unwrap_or_else(Level::none),
            form,
            record_lines: form.lines(),
            matching: matching::Level::detect(),
            key: identity.key,
            value: identity.value,
            seed: identity.seed,
            layout: identity.layout,
            merge: identity.merge,
            levels: Atomic::new(levels),
            stripes: (0..STRIPES).map(|_| Mutex::new(())).collect(),
            items: AtomicI64::new(0),
            in_overflow: AtomicU64::new(0),
            growth: Mutex::new(growth),
            added: AtomicU64::new(0),
            displacing: Displacing::new(),
            checks_gets: false,
            by_device: AtomicBool::new(false),
            changes: Arc::default(),
        })
    }

    /// Empties slots that were being filled, removes the older half of unfinished moves, and counts.
    fn repair(&self) {
        let (guard, image) = (&self.heap.pin(), self.image());
        let levels = self.levels(guard);
        let left = image.load(self.header + JOURNAL_AT);
        let outgoing: Vec<u64> = levels.outgoing().map(|run| run.offset).collect();
        let overflows: Vec<u64> = levels.overflows().map(|run| run.offset).collect();
        for run in self.runs(levels) {
            let items = AtomicI64::new(0);
            let done = in_parallel(run.buckets, SHARE, |buckets| {
                let mut found = 0;
                for bucket in buckets.map(|bucket| run.bucket(&self.shape, bucket)) {
                    for slot in 0..self.shape.slots() {
                        let state = bucket.state(slot);
                        if state == EMPTY {
                            continue;
                        }
                        let at = bucket.slot(&self.shape, slot).state;
                        let moving = outgoing.contains(&run.offset) || at == left;
                        if state == INSERT || moving && self.is_elsewhere(levels, bucket, slot, state) {
                            image.store(at, EMPTY);
                            image.flush("gphash.repair", at, 8);
                        } else {
                            found += 1;
                        }
                    }
                }
                image.fence("gphash.repair");
                items.fetch_add(found, Ordering::Relaxed);
                Ok::<(), Infallible>(())
            });
            match done {
                Ok(()) => {}
                Err(never) => match never {},
            }
            let items = items.into_inner();
            self.items.fetch_add(items, Ordering::Relaxed);
            if overflows.contains(&run.offset) {
                self.in_overflow.fetch_add(items as u64, Ordering::Relaxed);
            }
        }
    }

    /// Whether an item that was being moved has reached its new slot.
    pub(crate) fn is_elsewhere(&self, levels: &Levels, bucket: Bucket<'_>, slot: usize, state: u64) -> bool {
        let mut key = Vec::new();
        if self.read_any(bucket, slot, &mut key).is_none() {
            return false;
        }
        let hash = self.hash(&key);
        let locations = self.geometry.locations(hash, levels.base_buckets());
        let in_levels = levels.open().flat_map(|(below, level)| {
            locations.tops().iter().map(move |top| level.bucket(&self.shape, top >> below))
        });
        let in_overflow = overflow_buckets(&levels.overflow, hash)
            .map(|bucket| levels.overflow.bucket(&self.shape, bucket));
        let here = bucket.slot(&self.shape, slot).state;
        in_levels.chain(in_overflow).any(|other| {
            (0..self.shape.slots())
                .filter(|&place| other.slot(&self.shape, place).state != here)
                .any(|place| other.state(place) == state && other.has_key(&self.shape, place, &key))
        })
    }

    /// The space it lies in.
    pub fn heap(&self) -> &Arc<Heap<P>> {
        &self.heap
    }

    /// Where its header lies in the image: what the catalogue keeps.
    pub fn header(&self) -> u64 {
        self.header
    }

    /// The number of items. Exact while there are no writers.
    pub fn len(&self) -> u64 {
        self.items.load(Ordering::Relaxed).max(0) as u64
    }

    /// Whether it has no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What keys are.
    pub fn key_spec(&self) -> KeySpec {
        self.key
    }

    /// The cells that it keeps its keys in, if it does: where keys have any length up to a short limit, and values one.
    pub fn key_cells(&self) -> Option<KeyCells> {
        self.form.cells()
    }

    /// Bytes of a key in rows of a batch in device memory: of the key itself, or of its [cell](Table::key_cells);
    /// `None` if keys have any length there, too.
    pub fn key_row_len(&self) -> Option<usize> {
        self.key_cells().map(KeyCells::row_len).or_else(|| self.key.fixed_len())
    }

    /// The same; where keys have any length, of the longest.
    pub(crate) fn key_row(&self) -> usize {
        self.key_row_len().unwrap_or_else(|| self.key.max_len())
    }

    /// What values are.
    pub fn value_spec(&self) -> ValueSpec {
        self.value
    }

    /// How it is laid out.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// What a slot holds.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// What a merge does.
    pub fn merge_rule(&self) -> MergeRule {
        self.merge
    }

    /// What it would have to be created with to be what it is.
    pub fn spec(&self) -> TableSpec {
        let capacity = self.levels(&self.heap.pin()).capacity(self.geometry);
        let capacity = (capacity as f64 * CREATION_LOAD) as u64;
        TableSpec {
            key: self.key,
            value: self.value,
            geometry: self.geometry,
            capacity,
            layout: self.layout,
            merge: self.merge,
            seed: self.seed,
        }
    }

    /// Frees everything it has. Nothing must lead to it any more, durably.
    pub fn demolish(self) -> Result<(), TableError> {
        let levels = self.levels(&self.heap.pin()).clone();
        let mut records = std::collections::BTreeSet::new();
        for bucket in self.runs(&levels).flat_map(|run| run.iter(&self.shape)) {
            let slots = (0..self.shape.slots()).filter(|&slot| self.is_item(bucket.state(slot)));
            records.extend(slots.filter_map(|slot| {
                self.record_of(match self.shape.body {
                    Body::Packed => bucket.state(slot),
                    Body::Inline { .. } | Body::Reference => bucket.payload(&self.shape, slot, 0),
                })
            }));
        }
        for record in records {
            self.heap.free(record)?;
        }
        for level in levels.overflows().chain(&levels.levels) {
            self.heap.free_extent(level.offset)?;
        }
        self.heap.free(levels.block)?;
        Ok(self.heap.free(self.header)?)
    }

    pub(crate) fn is_worked_by_device(&self) -> bool {
        self.by_device.load(Ordering::Acquire)
    }

    /// Takes the table over from a lost device that wrote to it: empties the slots that the device had claimed. There must
    /// be no writers, because a claim of theirs would be emptied, too.
    pub fn take_over(&self) {
        let (guard, image) = (&self.heap.pin(), self.image());
        for bucket in self.runs(self.levels(guard)).flat_map(|run| run.iter(&self.shape)) {
            for slot in (0..self.shape.slots()).filter(|&slot| bucket.state(slot) == INSERT) {
                image.store(bucket.slot(&self.shape, slot).state, EMPTY);
            }
        }
        // The items that the lost device was writing are not counted yet. Items can be in two slots only if the device
        // was moving them, and then it did not write.
        let levels = self.levels(guard);
        if levels.drained == 0 && levels.old_overflows.is_empty() {
            let items: u64 = self.runs(levels).map(|run| self.count_items(run)).sum();
            self.items.store(items as i64, Ordering::Relaxed);
        }
    }

    /// Lets the CPU move items again after the device was lost. Nothing must look for items at their slots.
    pub fn release_from_device(&self) {
        self.by_device.store(false, Ordering::Release);
    }

    /// Whether a state is that of an item.
    #[inline]
    pub(crate) fn is_item(&self, state: u64) -> bool {
        state != EMPTY && state != INSERT
    }

    /// The record that a commit word leads to.
    #[inline]
    pub(crate) fn record_of(&self, commit: u64) -> Option<u64> {
        match self.shape.body {
            Body::Packed => Some(offset_of(commit)),
            Body::Reference => Some(commit),
            Body::Inline { .. } => None,
        }
    }

    /// Whether its records have checksums. Tables of older programs have none, nor have values in slots.
    pub fn has_checksums(&self) -> bool {
        !matches!(self.shape.body, Body::Inline { .. }) && self.form.has_checksums()
    }

    /// Whether lookups of the CPU check values against their checksums, and report a mismatch as
    /// [damaged](warpkeep_record::Value::is_damaged). To be set before the table is used; not for tables on a device.
    pub fn check_gets(&mut self, on: bool) {
        self.checks_gets = on && self.has_checksums();
    }

    /// Whether they are.
    pub fn checks_gets(&self) -> bool {
        self.checks_gets
    }

    /// Whether the stored item of a key fails its checksum, where the table checks gets.
    #[inline(always)]
    pub(crate) fn is_damaged(&self, found: &Found, key: &[u8]) -> bool {
        self.checks_gets && self.fails_checksum(found.commit, key)
    }

    /// The value of an item that was found under a guard.
    #[inline(always)]
    pub(crate) fn value_of(&self, found: &Found, key: &[u8]) -> Value<'_, P> {
        Value::new(self.image(), found.item).damaged(self.is_damaged(found, key))
    }

    #[cold]
    #[inline(never)]
    fn fails_checksum(&self, commit: u64, key: &[u8]) -> bool {
        self.record_of(commit).is_some_and(|record| self.form.check(self.image(), record, key).is_err())
    }

    /// How full it is, by level.
    pub fn stats(&self) -> TableStats {
        TableStats::of(self)
    }

    pub(crate) fn image(&self) -> &Image<P> {
        self.heap.image()
    }

    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        // A key that is too long for a cell is in no table: any hash will do.
        match self.form.cells().and_then(|cells| cells.cell(key)) {
            Some(cell) => hash_bytes(self.seed, cell.as_bytes()),
            None => hash_bytes(self.seed, key),
        }
    }

    #[inline]
    pub(crate) fn levels<'g>(&self, guard: &'g Guard) -> &'g Levels {
        // SAFETY: never null, and what it is replaced with is freed only once no guard can see it.
        unsafe { self.levels.load(Ordering::Acquire, guard).deref() }
    }

    /// Replaces the levels, durably, and frees the old block when no reader uses it. If the order of lookups changes,
    /// no item is displaced until `settled`.
    pub(crate) fn swing_levels(
        &self,
        guard: &Guard,
        mut next: Levels,
        settled: Option<Arc<AtomicBool>>,
    ) -> Result<(), ImageError> {
        let image = self.image();
        next.block = next.write(&self.heap)?;
        let mut displacing = self.displacing.hold();
        if let Some(settled) = settled {
            *displacing = settled;
        }
        image.store(self.header + LEVELS_AT, next.block);
        image.flush("gphash.swing", self.header + LEVELS_AT, 8);
        image.fence("gphash.swing");
        self.changes.levels_change();
        let old = self.levels.swap(Owned::new(next), Ordering::AcqRel, guard);
        drop(displacing);
        // SAFETY: just unlinked; readers that still see it hold guards.
        let block = unsafe { old.deref() }.block;
        self.heap.retire(vec![block], guard);
        // SAFETY: as above; it is destroyed once, because one thread at a time replaces the levels.
        unsafe { guard.defer_destroy(old) };
        // Out of this thread's bag: the domain of the heap ends with the heap, not with this thread.
        guard.flush();
        Ok(())
    }

    /// Holds off other writers of keys with this hash.
    pub(crate) fn lock(&self, hash: u64) -> MutexGuard<'_, ()> {
        self.lock_stripe(stripe_of(hash))
    }

    /// The same, unless a thread, this one included, already holds it.
    pub(crate) fn try_lock(&self, hash: u64) -> Option<MutexGuard<'_, ()>> {
        match self.stripes[stripe_of(hash)].try_lock() {
            Ok(held) => Some(held),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Slots of a bucket.
    pub fn bucket_items(&self) -> u64 {
        self.shape.slots() as u64
    }

    /// How many locks stand for all keys.
    #[inline]
    pub(crate) fn locks(&self) -> usize {
        self.stripes.len()
    }

    pub(crate) fn lock_stripe(&self, stripe: usize) -> MutexGuard<'_, ()> {
        self.stripes[stripe].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Persist> Drop for Table<P> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: no reader of this table is left.
        let guard = unsafe { crossbeam_epoch::unprotected() };
        let levels = self.levels.swap(Shared::null(), Ordering::Relaxed, guard);
        // SAFETY: it was made by `Owned`, and no reference to it is left.
        drop(unsafe { levels.into_owned() });
    }
}

/// By its upper bits: a batch in the order of its hashes is in the order of its stripes.
pub(crate) fn stripe_of(hash: u64) -> usize {
    (hash >> (u64::BITS - STRIPES.ilog2())) as usize
}

/// Buckets of the overflow for a top level of this many: a thousandth of a table of two levels.
pub(crate) fn overflow_buckets_for(top: u64) -> u64 {
    (top + top / 2).div_ceil(OVERFLOW_SHARE).max(1)
}

/// Levels of a table that may not come to be: freed unless it does.
struct Unused<'h, P: Persist> {
    heap: &'h Heap<P>,
    extents: Vec<u64>,
}

impl<P: Persist> Unused<'_, P> {
    fn note(&mut self, level: Level) -> Level {
        self.extents.push(level.offset);
        level
    }
}

impl<P: Persist> Drop for Unused<'_, P> {
    fn drop(&mut self) {
        for &extent in &self.extents {
            let freed = self.heap.free_extent(extent);
            debug_assert!(freed.is_ok(), "{freed:?}");
        }
    }
}

/// An empty level.
pub(crate) fn new_level<P: Persist>(
    heap: &Heap<P>,
    shape: &Shape,
    buckets: u64,
) -> Result<Level, ImageError> {
    let bytes = buckets.checked_mul(shape.bytes()).ok_or_else(|| {
        ImageError::Invalid(format!(
            "a level of {buckets} buckets is larger than any image; ask for less capacity"
        ))
    })?;
    let offset = heap.allocate_extent(bytes)?;
    heap.image().zero(offset, bytes);
    heap.image().flush("gphash.level", offset, bytes);
    Ok(Level::new(heap.image(), shape, offset, buckets))
}
