//! A table: its header in the image, and its state in a running process.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};

use warpkeep_core::{KeySpec, MergeRule, Seed, ValueSpec, hash_bytes};
use warpkeep_image::{Heap, Image, ImageError, Marker, Persist, PoolId};
use warpkeep_record::{LockKey, RecordForm, RecordLines, in_parallel};

use crate::bucket::{Bucket, Shape};
use crate::directory;
use crate::find::Found;
use crate::header::{self, Header};
use crate::shard::{CREATION_LOAD, Held, MAX_SHARDS, Mirror, Run, Shard, Tally, layout_for, locate};
use crate::space::{self, Unused};
use crate::upkeep::Upkeep;
use crate::{TableError, Value, stats::TableStats};

/// Shards that a thread takes at a time in a walk over all.
pub(crate) const SHARE: u64 = 64;
/// The parameters of a new table.
#[derive(Clone, Copy, Debug)]
pub struct TableSpec {
    /// The keys.
    pub key: KeySpec,
    /// The values.
    pub value: ValueSpec,
    /// Items to make room for at once; the table grows beyond.
    pub capacity: u64,
    /// The number of shards, which never changes; 0 for [as many as suit the capacity](crate::default_shards). More let more
    /// writers work at once; fewer and larger ones become fuller before they grow.
    pub shards: u32,
    /// The merge rule.
    pub merge: MergeRule,
    /// Of the hashes of its keys.
    pub seed: Seed,
}

/// A TurboHash table in an image.
///
/// Readers take no locks: they pin an epoch, read the buckets of a key, and trust the result if the bucket's commit
/// word is the same afterwards; replaced records stay until no reader can hold them. Writers of a shard are
/// serialised, and publish with one 8-byte store a bucket.
///
/// ```
/// use std::{path::Path, sync::Arc};
/// use warpkeep_core::{KeySpec, MergeRule, Seed, ValueSpec};
/// use warpkeep_image::{Coherent, Format, Heap, HeapOptions, Image, MIN_CHUNK, PlainMemory, Surroundings};
/// use warpkeep_turbohash::{Table, TableError, TableSpec};
///
/// let memory = Arc::new(PlainMemory::new(4 * MIN_CHUNK, 1000 * MIN_CHUNK));
/// let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
/// let image = Image::format(memory, Coherent, Path::new("memory"), &format, Surroundings::default())?;
/// image.begin(1)?;
/// let heap = Heap::recover::<TableError>(&Arc::new(image), HeapOptions::default(), |_| Ok(()))?;
/// let spec = TableSpec {
///     key: KeySpec::U64,
///     value: ValueSpec::variable(100)?,
///     capacity: 1000,
///     shards: 0,
///     merge: MergeRule::None,
///     seed: Seed(7),
/// };
/// let table = Table::create(&Arc::new(heap), &spec)?;
/// let key = 42_u64.to_le_bytes();
/// let lock = table.lock_key(&key);
/// let mut stage = table.stage([lock]);
/// let seat = stage.seat(&key, lock);
/// stage.put(&seat, &key, b"forty-two", 1)?;
/// stage.publish();
/// assert_eq!(table.get(&key, |value| value.to_vec()), Some(b"forty-two".to_vec()));
/// # Ok::<(), TableError>(())
/// ```
pub struct Table<P: Persist> {
    pub(crate) heap: Arc<Heap<P>>,
    pub(crate) header: u64,
    pub(crate) directory: u64,
    pub(crate) shape: Shape,
    pub(crate) form: RecordForm,
    /// Lines of memory that a record takes, as far as they are fetched ahead.
    pub(crate) record_lines: RecordLines,
    pub(crate) pool: Option<PoolId>,
    pub(crate) key: KeySpec,
    pub(crate) value: ValueSpec,
    pub(crate) seed: Seed,
    merge: MergeRule,
    mirror: Mirror,
    held: Box<[Held]>,
    pub(crate) items: AtomicI64,
    pub(crate) deleted: AtomicI64,
    pub(crate) buckets: AtomicU64,
    pub(crate) upkeep: Upkeep,
    /// Values are checked when they are looked up.
    checks_gets: bool,
}

impl<P: Persist> Table<P> {
    /// Creates an empty table; its position is [`Table::header`]. It is not reachable yet.
    pub fn create(heap: &Arc<Heap<P>>, spec: &TableSpec) -> Result<Table<P>, TableError> {
        if spec.shards > MAX_SHARDS {
            return Err(TableError::Shards { shards: spec.shards, max: MAX_SHARDS });
        }
        let (shards, bits) = layout_for(spec.capacity, Shape::new(spec.key, spec.value), spec.shards);
        let bytes = Run::bytes_of(bits).ok_or_else(|| {
            ImageError::Invalid(format!(
                "{} items are more than any image holds; ask for less capacity",
                spec.capacity
            ))
        })?;
        let mut unused = Unused::new(heap);
        let mut runs = Vec::with_capacity(shards as usize);
        for _ in 0..shards {
            let offset = unused.allocate(bytes)?;
            heap.image().zero(offset, bytes);
            heap.image().flush("turbohash.new", offset, bytes);
            runs.push(Run { offset, bits, crowded: false });
        }
        let at = unused.allocate(directory::bytes_for(shards))?;
        directory::write(heap, at, &runs);
        let TableSpec { key, value, merge, seed, .. } = *spec;
        // Values in slots have no records.
        let checksums = Shape::new(key, value) == Shape::References;
        let tiling = Header::tiling_of(key, value, checksums);
        let identity = Header { key, value, seed, merge, tiling, checksums, shards, directory: at };
        let header = identity.write(heap)?;
        let table = Table::over(heap, header, &identity, &runs)?;
        unused.keep();
        Ok(table)
    }

    /// Marks everything that a table's header leads to, and checks it on the way.
    pub fn mark(image: &Image<P>, marker: &Marker<'_, P>, header: u64) -> Result<(), TableError> {
        let identity = Header::read(image, header)?;
        if !marker.block(header, header::LEN)? {
            let what = format!("the table at {header}: something else leads there, too");
            return Err(ImageError::Damaged { path: image.path().to_path_buf(), what }.into());
        }
        let runs = directory::read(image, identity.directory, identity.shards)?;
        directory::mark(image, marker, identity.directory, &runs)?;
        let shape = identity.shape();
        if shape != Shape::References {
            return Ok(());
        }
        let form = identity.form();
        in_parallel(runs.len() as u64, SHARE, |shards| {
            let (mut items, mut some) = (Vec::new(), Vec::new());
            for run in &runs[shards.start as usize..shards.end as usize] {
                items.clear();
                for bucket in Shard::new(image, *run).iter() {
                    bucket.items(shape, &mut some);
                    items.extend_from_slice(&some);
                }
                if run.crowded {
                    // A crash between the two steps of a move leaves an identical slot twice, and attaching removes
                    // one.
                    items.sort_unstable_by_key(|item| (item.payload, item.hash));
                    items.dedup();
                }
                for item in &items {
                    if !form.mark(image, marker, item.payload)? {
                        let what = format!("the record at {}: two items have it", item.payload);
                        return Err(ImageError::Damaged { path: image.path().to_path_buf(), what }.into());
                    }
                }
            }
            Ok(())
        })
    }

    /// Opens a table that has just been [marked](Table::mark), and counts its items. Unpublished changes of the
    /// last holder do not count; an item that was being moved is left in one place.
    pub fn attach(heap: &Arc<Heap<P>>, header: u64) -> Result<Table<P>, TableError> {
        let identity = Header::read(heap.image(), header)?;
        let runs = directory::read(heap.image(), identity.directory, identity.shards)?;
        let table = Table::over(heap, header, &identity, &runs)?;
        in_parallel(runs.len() as u64, SHARE, |shards| {
            for shard in shards.start as usize..shards.end as usize {
                table.check_commits(shard)?;
                table.remove_doubled(shard);
                table.count(shard);
            }
            Ok::<(), TableError>(())
        })?;
        Ok(table)
    }

    fn over(
        heap: &Arc<Heap<P>>,
        header: u64,
        identity: &Header,
        runs: &[Run],
    ) -> Result<Table<P>, TableError> {
        let shape = identity.shape();
        let form = identity.form();
        let pool = match shape {
            Shape::References => form.pool(heap)?,
            Shape::Values { .. } => None,
        };
        Ok(Table {
            heap: Arc::clone(heap),
            header,
            directory: identity.directory,
            shape,
            form,
            record_lines: form.lines(),
            pool,
            key: identity.key,
            value: identity.value,
            seed: identity.seed,
            merge: identity.merge,
            mirror: runs.iter().map(|run| AtomicU64::new(run.to_word())).collect(),
            held: runs.iter().map(|_| Held::default()).collect(),
            items: AtomicI64::new(0),
            deleted: AtomicI64::new(0),
            buckets: AtomicU64::new(runs.iter().map(|run| run.buckets()).sum()),
            upkeep: Upkeep::new(runs.len()),
            checks_gets: false,
        })
    }

    /// Whether the commit words of a shard are such as a table stores: writers rely on it.
    fn check_commits(&self, number: usize) -> Result<(), ImageError> {
        let slots = self.shape.slots();
        let fault = |bucket: Bucket<'_>| bucket.commit().fault(slots).map(|fault| (bucket.at, fault));
        match self.shard(number).iter().find_map(fault) {
            None => Ok(()),
            Some((at, fault)) => Err(ImageError::Damaged {
                path: self.image().path().to_path_buf(),
                what: format!("the commit word of the bucket at {at}: {fault}"),
            }),
        }
    }

    /// Counts the items of a shard.
    fn count(&self, number: usize) {
        let mut tally = self.lock(number);
        for bucket in self.shard(number).iter() {
            let marks = bucket.commit().marks(self.shape.slots());
            tally.items += u64::from(marks.live().count_ones());
            tally.deleted += u64::from((marks.valid & marks.deleted).count_ones());
        }
        tally.unmeasured = tally.deleted;
        self.items.fetch_add(tally.items as i64, Ordering::Relaxed);
        self.deleted.fetch_add(tally.deleted as i64, Ordering::Relaxed);
        self.note_wants(number, self.run(number), &tally);
    }

    /// The space it lies in.
    pub fn heap(&self) -> &Arc<Heap<P>> {
        &self.heap
    }

    /// The offset of its header in the image, which the catalogue stores.
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

    /// The keys.
    pub fn key_spec(&self) -> KeySpec {
        self.key
    }

    /// The values.
    pub fn value_spec(&self) -> ValueSpec {
        self.value
    }

    /// The merge rule.
    pub fn merge_rule(&self) -> MergeRule {
        self.merge
    }

    /// Slots in it, with items or not.
    pub fn slots(&self) -> u64 {
        self.buckets.load(Ordering::Relaxed) * self.shape.slots() as u64
    }

    /// The parameters that would create this table.
    pub fn spec(&self) -> TableSpec {
        let usable = self.buckets.load(Ordering::Relaxed) * self.shape.usable() as u64;
        TableSpec {
            key: self.key,
            value: self.value,
            capacity: (usable as f64 * CREATION_LOAD) as u64,
            shards: self.shards() as u32,
            merge: self.merge,
            seed: self.seed,
        }
    }

    /// Whether values are checked against their checksums when they are looked up: a value that differs from the
    /// written one is then [damaged](warpkeep_record::Value::is_damaged). The table is not in use yet.
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
        self.checks_gets && found.record.is_some_and(|record| self.is_wrong(record, key))
    }

    /// The value of an item that was found under a guard.
    #[inline(always)]
    pub(crate) fn value_of(&self, found: &Found, key: &[u8]) -> Value<'_, P> {
        Value::new(self.image(), found.item).damaged(self.is_damaged(found, key))
    }

    #[cold]
    #[inline(never)]
    fn is_wrong(&self, record: u64, key: &[u8]) -> bool {
        self.form.check(self.image(), record, key).is_err()
    }

    /// How full it is, and how far searches walk.
    pub fn stats(&self) -> TableStats {
        TableStats::of(self)
    }

    /// Frees all its space. It must no longer be reachable, durably.
    pub fn demolish(self) -> Result<(), TableError> {
        let mut items = Vec::new();
        for number in 0..self.shards() {
            let shard = self.shard(number);
            if self.shape == Shape::References {
                for bucket in shard.iter() {
                    bucket.items(self.shape, &mut items);
                    for item in &items {
                        self.heap.free(item.payload)?;
                    }
                }
            }
            space::free(&self.heap, shard.run.offset, shard.run.bytes())?;
        }
        space::free(&self.heap, self.directory, directory::bytes_for(self.shards() as u32))?;
        Ok(self.heap.free(self.header)?)
    }

    pub(crate) fn image(&self) -> &Image<P> {
        self.heap.image()
    }

    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        hash_bytes(self.seed, key)
    }

    /// What a key is locked and sorted by: its hash.
    #[inline]
    pub fn lock_key(&self, key: &[u8]) -> LockKey {
        LockKey::new(self.hash(key))
    }

    /// Items that a bucket has room for.
    pub(crate) fn bucket_items(&self) -> u64 {
        self.shape.slots() as u64
    }

    /// How many shards there are.
    #[inline]
    pub(crate) fn shards(&self) -> usize {
        self.mirror.len()
    }

    /// How many locks stand for all keys.
    #[inline]
    pub(crate) fn locks(&self) -> usize {
        self.shards()
    }

    /// The shard of a hash, and the fraction that determines the position in it.
    #[inline]
    pub(crate) fn locate(&self, hash: u64) -> (usize, u64) {
        locate(hash, self.mirror.len())
    }

    /// Where a shard lies at this moment.
    #[inline]
    pub(crate) fn run(&self, shard: usize) -> Run {
        Run::from_word(self.mirror[shard].load(Ordering::Acquire))
    }

    /// A shard in its current state. Valid as long as an epoch is pinned that was pinned before, or the shard is
    /// held.
    #[inline]
    pub(crate) fn shard(&self, shard: usize) -> Shard<'_> {
        Shard::new(self.image(), self.run(shard))
    }

    /// How often a shard was rebuilt. If this and [`Table::run`], loaded after it, are unchanged, the reader has
    /// missed nothing.
    pub(crate) fn rebuilt(&self, shard: usize) -> u64 {
        self.held[shard].rebuilt.load(Ordering::Acquire)
    }

    /// Publishes another run of a shard, which is held, to later readers.
    pub(crate) fn show(&self, shard: usize, run: Run) {
        self.held[shard].rebuilt.fetch_add(1, Ordering::AcqRel);
        self.set_run(shard, run);
    }

    /// The same for a run that lies where it lay.
    pub(crate) fn set_run(&self, shard: usize, run: Run) {
        self.mirror[shard].store(run.to_word(), Ordering::Release);
    }

    /// Holds off other writers of a shard.
    pub(crate) fn lock(&self, shard: usize) -> MutexGuard<'_, Tally> {
        self.held[shard].tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, unless another thread holds it.
    pub(crate) fn try_lock(&self, shard: usize) -> Option<MutexGuard<'_, Tally>> {
        match self.held[shard].tally.try_lock() {
            Ok(held) => Some(held),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
