//! Writing: changes are staged while their shards are held, then published all at once.
//!
//! Nothing is written to a bucket before [`Stage::publish`]: a dropped stage leaves nothing behind, and a crash
//! cannot leave anything half claimed.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use warpkeep_image::{Block, Guard, Image, ImageError, Persist};
use warpkeep_record::{LockKey, LockRequest, prefetch};

use crate::bucket::{self, Bucket, Contents, Shape};
use crate::commit::{Commit, Marks};
use crate::find::Found;
use crate::grow::{Full, Seen};
use crate::plan::{Plan, Plans};
use crate::read::prefetch_home;
use crate::shard::Tally;
use crate::{Table, TableError, Value};

/// The most blocks allocated ahead: more would be evicted from the cache before they are written.
const AT_HAND: usize = 256;

/// The position of a key in a table, or its absence: found once by a [`Stage`] and used again.
pub type Seat = warpkeep_record::Seat<Found>;

/// A change of one slot, or of two.
struct Change {
    wave: u32,
    shard: usize,
    /// Where the bucket lies.
    bucket: u64,
    /// The new contents, and their slot.
    fill: Option<(usize, Contents)>,
    /// Marks to set, and marks to clear.
    set: Marks,
    clear: Marks,
    /// Items more or less.
    items: i64,
    /// The record that was written for it.
    record: Option<u64>,
    /// The record that is no longer reachable afterwards.
    old: Option<u64>,
}

/// Changes to a table whose shards are held, not yet visible. Dropped, it leaves nothing behind.
pub struct Stage<'t, P: Persist> {
    table: &'t Table<P>,
    changes: Vec<Change>,
    plans: Plans,
    /// The shard where a key found no place, and its fraction.
    full: Option<(usize, u64)>,
    /// Blocks for the next records.
    at_hand: Vec<Block<'t, P>>,
    // Before the guard: shards are let go before the epoch is.
    held: Vec<(usize, MutexGuard<'t, Tally>)>,
    guard: Guard,
}

impl<P: Persist> Table<P> {
    /// Holds the shards of these keys against other writers, and prefetches the keys' items.
    pub fn stage(&self, keys: impl IntoIterator<Item = impl Into<LockRequest>>) -> Stage<'_, P> {
        let keys: Vec<LockRequest> = keys.into_iter().map(Into::into).collect();
        let mut shards: Vec<usize> = Vec::with_capacity(keys.len());
        {
            let _guard = self.heap.pin();
            for key in &keys {
                let (shard, fraction) = self.locate(key.lock.bits());
                prefetch_home(&self.shard(shard), fraction);
                shards.push(shard);
            }
        }
        // In order, so that two batches never wait for each other.
        shards.sort_unstable();
        shards.dedup();
        // Pinned after the locks are taken: a waiting writer must not delay freeing.
        let held = shards.into_iter().map(|shard| (shard, self.lock(shard))).collect();
        let stage = Stage {
            table: self,
            changes: Vec::new(),
            plans: Plans::default(),
            full: None,
            at_hand: Vec::new(),
            held,
            guard: self.heap.pin(),
        };
        if keys.len() > 1 {
            keys.iter().for_each(|key| self.prefetch_item(key));
        }
        stage
    }
}

/// Visible changes, whose shards are held until this is dropped.
pub struct Published<'t, P: Persist> {
    _stage: Stage<'t, P>,
}

impl<'t, P: Persist> Stage<'t, P> {
    /// The state of the shard that has no place for a key: the argument of [`Table::make_room`].
    pub fn seen(&self) -> Seen {
        let staged = |shard: usize| -> i64 {
            self.changes.iter().filter(|change| change.shard == shard).map(|change| change.items.max(0)).sum()
        };
        let full = self.full.map(|(shard, fraction)| Full {
            shard,
            run: self.table.run(shard),
            fraction,
            staged: staged(shard) as u64,
        });
        Seen { full }
    }

    /// Allocates blocks for `count` values ahead, and prefetches them.
    pub fn expect_values(&mut self, count: usize) {
        let table = self.table;
        if let Some(pool) = table.pool {
            self.at_hand = table.heap.allocate_at_hand(pool, count.min(AT_HAND));
            for block in &self.at_hand {
                table.record_lines.fetch(table.image(), block.offset(), prefetch::line_to_write);
            }
        }
    }

    /// Where a key is, whose lock key was given to [`Table::stage`]. A change to it that was staged before is not seen:
    /// stage one change a key.
    pub fn seat(&self, key: &[u8], lock: LockKey) -> Seat {
        let hash = lock.bits();
        let (shard, fraction) = self.table.locate(hash);
        debug_assert!(self.holds(shard), "the key is not held");
        let found = self.table.find(&self.table.shard(shard), hash, fraction, key);
        Seat::new(lock, found, |found| self.table.is_damaged(found, key))
    }

    fn holds(&self, shard: usize) -> bool {
        self.held.binary_search_by_key(&shard, |&(held, _)| held).is_ok()
    }

    /// The value of the key of a seat.
    pub fn value(&self, seat: &Seat) -> Option<Value<'_, P>> {
        seat.value(self.table.image())
    }

    /// Stages a value for the key of a seat, new or not. After [`TableError::Full`] call [`Table::make_room`] and
    /// stage again. Only a new key can fail so: another value of a key always has a slot.
    pub fn put(&mut self, seat: &Seat, key: &[u8], value: &[u8], version: u64) -> Result<(), TableError> {
        let table = self.table;
        table.key.check(key)?;
        table.value.check(value)?;
        let shard = table.locate(seat.lock().bits()).0;
        let bucket = match seat.found() {
            Some(found) => self.plan(found.bucket),
            None => self.room(seat.lock().bits()).ok_or(TableError::Full)?,
        };
        let (record, contents) = self.contents(seat.lock().bits(), key, value, version)?;
        let slots = table.shape.slots();
        // Planned only after the record exists.
        let plan = self.plans.get_mut(&bucket).expect("the plan of the bucket was made above");
        let before = plan.marks;
        let slot = match seat.found() {
            Some(found) => plan.update(slots, found.slot),
            None => plan.insert(slots),
        };
        let Some(slot) = slot else {
            if let Some(record) = record {
                table.heap.free(record)?;
            }
            return Err(no_slot_to_spare(table.image(), bucket).into());
        };
        let (set, clear) = difference(before, plan.marks);
        self.changes.push(Change {
            wave: plan.wave,
            shard,
            bucket,
            fill: Some((slot, contents)),
            set,
            clear,
            items: i64::from(seat.found().is_none()),
            record,
            old: seat.found().and_then(|found| found.record),
        });
        Ok(())
    }

    /// The plan of a bucket, by its offset.
    fn plan(&mut self, bucket: u64) -> u64 {
        let (image, slots) = (self.table.image(), self.table.shape.slots());
        self.plans.entry(bucket).or_insert_with(|| Plan::new(Commit(image.load(bucket)), slots));
        bucket
    }

    /// The bucket for a new key, with a plan: the first on its path with a slot whose item was deleted, otherwise the
    /// one where the path ends.
    fn room(&mut self, hash: u64) -> Option<u64> {
        let (number, fraction) = self.table.locate(hash);
        let (shard, slots) = (self.table.shard(number), self.table.shape.slots());
        let mut wave = 0;
        // The first with a deleted slot, and the wave in which it can be reached.
        let mut reusable = None;
        let mut end = None;
        for bucket in shard.path(fraction) {
            let plan = self.planned(bucket, slots);
            if plan.marks.valid & plan.marks.deleted != 0 && reusable.is_none() {
                reusable = Some((bucket.at, wave));
            }
            if plan.marks.has_room(slots) {
                end = Some((bucket.at, wave));
                break;
            }
            wave = wave.max(plan.passable_from());
        }
        let Some((bucket, wave)) = reusable.or(end) else {
            self.full = Some((number, fraction));
            return None;
        };
        self.plan(bucket);
        if let Some(plan) = self.plans.get_mut(&bucket) {
            plan.not_before(wave);
        }
        Some(bucket)
    }

    fn planned(&self, bucket: Bucket<'_>, slots: usize) -> Plan {
        let planned = self.plans.get(&bucket.at).copied();
        planned.unwrap_or_else(|| Plan::new(bucket.commit(), slots))
    }

    /// The contents of a slot, and its record if there is one, which is written.
    fn contents(
        &mut self,
        hash: u64,
        key: &[u8],
        value: &[u8],
        version: u64,
    ) -> Result<(Option<u64>, Contents), TableError> {
        let table = self.table;
        if let Shape::Values { .. } = table.shape {
            return Ok((None, Contents { hash, payload: word_of(value), version }));
        }
        let at_hand = self.at_hand.pop();
        let block = table.form.write(&table.heap, table.pool, at_hand, version, key, value)?;
        let len = table.form.len(key.len(), value.len());
        block.flush(["turbohash.record", "turbohash.tail"], len);
        let record = block.into_offset();
        Ok((Some(record), Contents { hash, payload: record, version: 0 }))
    }

    /// Stages the end of the key of a seat; `false` if it is not there.
    pub fn remove(&mut self, seat: &Seat) -> bool {
        let Some(found) = seat.found() else { return false };
        let (shard, slots) = (self.table.locate(seat.lock().bits()).0, self.table.shape.slots());
        let bucket = self.plan(found.bucket);
        let plan = self.plans.get_mut(&bucket).expect("the plan of the bucket was made above");
        let before = plan.marks;
        plan.remove(slots, found.slot);
        let (set, clear) = difference(before, plan.marks);
        let (wave, old) = (plan.wave, found.record);
        self.changes.push(Change {
            wave,
            shard,
            bucket,
            fill: None,
            set,
            clear,
            items: -1,
            record: None,
            old,
        });
        true
    }

    /// Makes all changes visible, durably. Cannot fail. The shards are held until the result is dropped.
    pub fn publish(mut self) -> Published<'t, P> {
        let table = self.table;
        let mut changes = std::mem::take(&mut self.changes);
        if changes.is_empty() {
            return Published { _stage: self };
        }
        // Changes of a bucket side by side: its word is stored once a wave.
        changes.sort_by_key(|change| (change.wave, change.bucket));
        for wave in changes.chunk_by(|one, other| one.wave == other.wave) {
            self.publish_wave(wave);
        }
        let mut items = 0;
        for change in &changes {
            items += change.items;
            let deleted =
                i64::from(change.set.deleted.count_ones()) - i64::from(change.clear.deleted.count_ones());
            if let Ok(held) = self.held.binary_search_by_key(&change.shard, |&(held, _)| held) {
                let tally = &mut self.held[held].1;
                tally.items = tally.items.saturating_add_signed(change.items);
                tally.deleted = tally.deleted.saturating_add_signed(deleted);
                tally.unmeasured += deleted.max(0) as u64;
            }
            table.deleted.fetch_add(deleted, Ordering::Relaxed);
        }
        table.items.fetch_add(items, Ordering::Relaxed);
        for (shard, tally) in &self.held {
            table.note_wants(*shard, table.run(*shard), tally);
        }
        table.heap.retire(changes.iter().filter_map(|change| change.old).collect(), &self.guard);
        Published { _stage: self }
    }

    fn publish_wave(&self, wave: &[Change]) {
        let (image, shape) = (self.table.image(), self.table.shape);
        for change in wave {
            if let Some((slot, contents)) = &change.fill {
                if change.items > 0 {
                    let shard = self.table.shard(change.shard);
                    self.table.note_passing(&shard, contents.hash, change.bucket);
                }
                bucket::fill(image, shape, change.bucket, *slot, contents);
            }
        }
        if wave.iter().any(|change| change.fill.is_some()) {
            // Records and slots before the words that lead to them.
            image.fence("turbohash.slot");
        }
        for changes in wave.chunk_by(|one, other| one.bucket == other.bucket) {
            let at = changes[0].bucket;
            let commit = Commit(image.load(at));
            let marks = changes.iter().fold(commit.marks(shape.slots()), |marks, change| Marks {
                valid: marks.valid & !change.clear.valid | change.set.valid,
                deleted: marks.deleted & !change.clear.deleted | change.set.deleted,
            });
            image.store(at, commit.next(marks).0);
            image.flush("turbohash.commit", at, 8);
        }
        // Words before the acknowledgement and before the next wave, and before replaced records are reused.
        image.fence("turbohash.commit");
    }
}

/// Marks to set, and marks to clear.
fn difference(before: Marks, after: Marks) -> (Marks, Marks) {
    let set = Marks { valid: after.valid & !before.valid, deleted: after.deleted & !before.deleted };
    let clear = Marks { valid: before.valid & !after.valid, deleted: before.deleted & !after.deleted };
    (set, clear)
}

/// A bucket whose commit word was valid when the table was opened, and is not any more.
fn no_slot_to_spare<P: Persist>(image: &Image<P>, bucket: u64) -> ImageError {
    let what = format!("the bucket at {bucket}: no slot is free, though one is always kept free for updates");
    ImageError::Damaged { path: image.path().to_path_buf(), what }
}

/// Up to eight bytes as a word, with zeros behind them.
fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

impl<P: Persist> Drop for Stage<'_, P> {
    fn drop(&mut self) {
        for record in self.changes.drain(..).filter_map(|change| change.record) {
            // It was never visible.
            let freed = self.table.heap.free(record);
            debug_assert!(freed.is_ok(), "{freed:?}");
        }
    }
}
