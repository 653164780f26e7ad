//! Writing: changes are staged while their keys are held, then published all at once.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use warpkeep_image::{Block, Guard, Persist};
use warpkeep_record::{LockKey, LockRequest, prefetch};

use crate::bucket::{Body, Head};
use crate::find::{Found, Place, Sought};
use crate::grow::Seen;
use crate::levels::Levels;
use crate::slot::{EMPTY, offset_of, pack};
use crate::table::stripe_of;
use crate::{Table, TableError, Value};

/// The most blocks that are allocated ahead: more would be evicted from the cache before they are written.
const AT_HAND: usize = 256;

/// Where a key is in a table, or that it is not there: what a [`Stage`] finds out once and needs again.
pub type Seat = warpkeep_record::Seat<Found>;

/// What becomes of a slot.
enum Change {
    /// An item in a slot that was claimed for it: the state that makes it visible, and the record it leads to.
    Fill { hash: u64, place: Place, state: u64, record: Option<u64> },
    /// A new commit word replaces the old one.
    Replace { hash: u64, at: u64, word: u64, record: Option<u64>, old: Option<u64> },
    /// The old item is removed.
    Clear { hash: u64, found: Found, old: Option<u64> },
}

/// Changes to a table whose keys are held, not yet visible. Dropped, it leaves nothing behind.
pub struct Stage<'t, P: Persist> {
    table: &'t Table<P>,
    changes: Vec<Change>,
    /// Blocks for records to come.
    at_hand: Vec<Block<'t, P>>,
    // Before the guard: keys are let go before the epoch is.
    _held: Vec<MutexGuard<'t, ()>>,
    guard: Guard,
}

impl<P: Persist> Table<P> {
    /// What a key is locked and sorted by: its hash.
    #[inline]
    pub fn lock_key(&self, key: &[u8]) -> LockKey {
        LockKey::new(self.hash(key))
    }

    /// Locks these keys against other writers, and prefetches their items.
    pub fn stage(&self, keys: impl IntoIterator<Item = impl Into<LockRequest>>) -> Stage<'_, P> {
        let keys = keys.into_iter();
        let mut stripes: Vec<usize> = Vec::with_capacity(keys.size_hint().0);
        let mut wanted: Vec<LockRequest> = Vec::with_capacity(keys.size_hint().0);
        {
            let guard = &self.heap.pin();
            let levels = self.levels(guard);
            for key in keys {
                let key = key.into();
                self.prefetch_buckets(levels, key.lock.bits());
                wanted.push(key);
                stripes.push(stripe_of(key.lock.bits()));
            }
        }
        // In order, so that two batches never wait for each other.
        stripes.sort_unstable();
        stripes.dedup();
        // Pinned after the locks are taken: a writer that waits must not hold up what is to be freed.
        let held = stripes.into_iter().map(|stripe| self.lock_stripe(stripe)).collect();
        let stage = Stage {
            table: self,
            changes: Vec::with_capacity(wanted.len()),
            at_hand: Vec::new(),
            _held: held,
            guard: self.heap.pin(),
        };
        if wanted.len() > 1 {
            self.prefetch_items(stage.levels(), wanted);
        }
        stage
    }
}

/// Changes that are visible, and whose keys are held until this is dropped.
pub struct Published<'t, P: Persist> {
    stage: Option<Stage<'t, P>>,
    /// Items more than before.
    added: u64,
}

impl<P: Persist> Drop for Published<'_, P> {
    fn drop(&mut self) {
        let Some(stage) = self.stage.take() else { return };
        let table = stage.table;
        // Keys are let go first, for the drain takes them, too.
        drop(stage);
        if self.added > 0 {
            table.assist(self.added);
        }
    }
}

impl<'t, P: Persist> Stage<'t, P> {
    fn levels(&self) -> &Levels {
        self.table.levels(&self.guard)
    }

    /// The state of the table at the beginning of the stage, for [`Table::make_room`].
    pub fn seen(&self) -> Seen {
        Seen::of(self.levels())
    }

    /// Allocates blocks ahead for this many values, and prefetches them.
    pub fn expect_values(&mut self, count: usize) {
        let table = self.table;
        if let Some(pool) = table.pool {
            self.at_hand = table.heap.allocate_at_hand(pool, count.min(AT_HAND));
            for block in &self.at_hand {
                table.record_lines.fetch(table.image(), block.offset(), prefetch::line_to_write);
            }
        }
    }

    /// Where a key is. A change to it that was staged before is not seen: stage one change a key.
    pub fn seat(&self, key: &[u8], lock: LockKey) -> Seat {
        let hash = lock.bits();
        // A value that is read has been prefetched already.
        let sought = Sought { hash, key, value_is_read: false };
        let found = self.table.find_with_best(self.levels(), sought);
        Seat::new(lock, found, |found| self.table.is_damaged(found, key))
    }

    /// What the key of a seat has.
    pub fn value(&self, seat: &Seat) -> Option<Value<'_, P>> {
        seat.value(self.table.image())
    }

    /// Stages a value for the key of a seat, present or not. After [`TableError::Full`] the caller calls
    /// [`Table::make_room`] and begins another stage.
    pub fn put(&mut self, seat: &Seat, key: &[u8], value: &[u8], version: u64) -> Result<(), TableError> {
        let change = match seat.found() {
            Some(found) => self.replacement(&found, seat.lock().bits(), key, value, version)?,
            None => self.filling(seat.lock().bits(), key, value, version)?,
        };
        self.changes.push(change);
        Ok(())
    }

    /// Writes everything that makes up another value, except the word that makes it count.
    fn replacement(
        &mut self,
        found: &Found,
        hash: u64,
        key: &[u8],
        value: &[u8],
        version: u64,
    ) -> Result<Change, TableError> {
        let (table, at) = (self.table, found.commit_at);
        Ok(match table.shape.body {
            Body::Packed => {
                let record = self.record(key, value, version)?;
                let old = Some(offset_of(found.commit));
                Change::Replace { hash, at, word: pack(hash, record), record: Some(record), old }
            }
            Body::Reference => {
                let record = self.record(key, value, version)?;
                Change::Replace { hash, at, word: record, record: Some(record), old: Some(found.commit) }
            }
            Body::Inline { .. } => {
                let head = Head(found.commit).next(version);
                let value_at = at + 8 * head.value_word() as u64;
                table.image().store(value_at, word_of(value));
                table.image().flush("gphash.value", value_at, 8);
                Change::Replace { hash, at, word: head.0, record: None, old: None }
            }
        })
    }

    /// Claims a slot and writes everything into it, except the state.
    fn filling(&mut self, hash: u64, key: &[u8], value: &[u8], version: u64) -> Result<Change, TableError> {
        let (table, image) = (self.table, self.table.image());
        if table.is_owed(self.levels()) {
            return Err(TableError::Full);
        }
        let place = table.claim(self.levels(), hash).ok_or(TableError::Full)?;
        let record = match table.shape.body {
            Body::Packed | Body::Reference => self.record(key, value, version).map(Some),
            Body::Inline { .. } => Ok(None),
        };
        let record = record.inspect_err(|_| table.unclaim(place))?;
        let slot = place.slot;
        let state = match table.shape.body {
            Body::Packed => pack(hash, record.unwrap_or_default()),
            Body::Inline { .. } | Body::Reference => table.state_in_place(hash),
        };
        if table.shape.body != Body::Packed && !table.shape.fingerprint_is_key() {
            for (number, part) in key.chunks(8).enumerate() {
                image.store(slot.key + 8 * number as u64, word_of(part));
            }
            image.flush("gphash.key", slot.key, key.len().next_multiple_of(8) as u64);
        }
        match table.shape.body {
            Body::Packed => {}
            Body::Reference => {
                image.store(slot.payload, record.unwrap_or_default());
                image.flush("gphash.reference", slot.payload, 8);
            }
            Body::Inline { .. } => {
                // The value before the head: see how readers check.
                let head = Head::first(version);
                image.store(slot.payload + 8 * head.value_word() as u64, word_of(value));
                image.store(slot.payload, head.0);
                image.flush("gphash.value", slot.payload, 24);
            }
        }
        Ok(Change::Fill { hash, place, state, record })
    }

    fn record(&mut self, key: &[u8], value: &[u8], version: u64) -> Result<u64, TableError> {
        let table = self.table;
        let at_hand = self.at_hand.pop();
        let block = table.form.write(&table.heap, table.pool, at_hand, version, key, value)?;
        let len = table.form.len(key.len(), value.len());
        block.flush(["gphash.record", "gphash.tail"], len);
        Ok(block.into_offset())
    }

    /// Stages the end of the key of a seat; `false` if it is not there.
    pub fn remove(&mut self, seat: &Seat) -> bool {
        let Some(found) = seat.found() else { return false };
        let old = self.table.record_of(found.commit);
        self.changes.push(Change::Clear { hash: seat.lock().bits(), found, old });
        true
    }

    /// Makes all changes visible, durably. Cannot fail. The keys are locked until the result is dropped.
    pub fn publish(mut self) -> Published<'t, P> {
        let (table, image) = (self.table, self.table.image());
        let changes = std::mem::take(&mut self.changes);
        if changes.is_empty() {
            return Published { stage: Some(self), added: 0 };
        }
        // Records and slots before the words that lead to them.
        image.fence("gphash.record");
        let (mut items, mut left_overflow) = (0, 0);
        let mut retired = Vec::new();
        // A device may have an index of the table: the change feed gets a change before it is visible.
        let mut feed = table.changes.record();
        for change in &changes {
            let (hash, at, word, record) = match *change {
                Change::Fill { hash, place, state, record } => {
                    items += 1;
                    (hash, place.slot.state, state, record)
                }
                Change::Replace { hash, at, word, record, old } => {
                    retired.extend(old);
                    (hash, at, word, record)
                }
                Change::Clear { hash, found, old } => {
                    items -= 1;
                    left_overflow += u64::from(found.in_overflow);
                    retired.extend(old);
                    (hash, found.state, EMPTY, None)
                }
            };
            if let Some(pending) = &mut feed {
                pending.word(at);
                pending.item(hash, record);
            }
            image.store(at, word);
            image.flush("gphash.word", at, 8);
        }
        // Words before the acknowledgement, and before what they led to is used again.
        image.fence("gphash.word");
        drop(feed);
        table.items.fetch_add(items, Ordering::Relaxed);
        if left_overflow > 0 {
            table.in_overflow.fetch_sub(left_overflow, Ordering::AcqRel);
        }
        table.heap.retire(retired, &self.guard);
        Published { stage: Some(self), added: u64::try_from(items).unwrap_or(0) }
    }
}

/// Up to eight bytes as a word, with zeros behind them.
fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

impl<P: Persist> Drop for Stage<'_, P> {
    fn drop(&mut self) {
        for change in std::mem::take(&mut self.changes) {
            let record = match change {
                Change::Fill { place, record, .. } => {
                    self.table.unclaim(place);
                    record
                }
                Change::Replace { record, .. } => record,
                Change::Clear { .. } => None,
            };
            // It was never visible.
            let freed = record.map_or(Ok(()), |record| self.table.heap.free(record));
            debug_assert!(freed.is_ok(), "{freed:?}");
        }
    }
}
