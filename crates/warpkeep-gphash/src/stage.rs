//! Writing: changes are staged while their keys are held, then published all at once.
//!
//! Staging does everything that can fail: it finds or claims slots and writes records, which nothing leads to yet.
//! Publishing stores one word for each change. In between the caller can log what is about to happen.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, Weak};

use crossbeam_epoch::Guard;
use warpkeep_image::{Heap, Persist};

use crate::find::{Found, Place};
use crate::grow::Seen;
use crate::levels::Levels;
use crate::slot::{EMPTY, offset_of, pack};
use crate::table::stripe_of;
use crate::{Table, TableError, Value};

/// What becomes of a slot.
enum Change {
    /// A record in a slot that was claimed for it.
    Fill { place: Place, word: u64 },
    /// Another record in place of the old one.
    Replace { slot: u64, old: u64, word: u64 },
    /// Nothing in place of the old one.
    Clear { found: Found },
}

/// Changes to a table whose keys are held, not yet visible. Dropped, it leaves nothing behind.
pub struct Stage<'t, P: Persist> {
    table: &'t Table<P>,
    changes: Vec<Change>,
    // Before the guard: keys are let go before the epoch is.
    _held: Vec<MutexGuard<'t, ()>>,
    guard: Guard,
}

impl<P: Persist> Table<P> {
    /// The hash of a key, as [`Table::stage`] wants it.
    pub fn hash_of(&self, key: &[u8]) -> u64 {
        self.hash(key)
    }

    /// Holds the keys with these hashes against other writers.
    pub fn stage(&self, hashes: impl IntoIterator<Item = u64>) -> Stage<'_, P> {
        let mut stripes: Vec<usize> = hashes.into_iter().map(stripe_of).collect();
        // In order, so that two batches never wait for each other.
        stripes.sort_unstable();
        stripes.dedup();
        // Pinned after the locks are taken: a writer that waits must not hold up what is to be freed.
        let held = stripes.into_iter().map(|stripe| self.lock_stripe(stripe)).collect();
        Stage { table: self, changes: Vec::new(), _held: held, guard: crossbeam_epoch::pin() }
    }
}

impl<P: Persist> Stage<'_, P> {
    fn levels(&self) -> &Levels {
        self.table.levels(&self.guard)
    }

    /// How the table stands: what [`Table::make_room`] wants to know.
    pub fn seen(&self) -> Seen {
        Seen::of(self.levels())
    }

    /// What a key has now. A change to it that was staged before is not seen: stage one change a key.
    pub fn current(&self, key: &[u8], hash: u64) -> Option<Value<'_, P>> {
        let found = self.table.find(self.levels(), hash, key)?;
        Some(Value::new(self.table.image(), found.record))
    }

    /// Stages a value for a key, new or not. [`TableError::Full`] asks for [`Table::make_room`] and another stage.
    pub fn put(&mut self, key: &[u8], hash: u64, value: &[u8], version: u64) -> Result<(), TableError> {
        let table = self.table;
        let found = table.find(self.levels(), hash, key);
        let place = match found {
            Some(_) => None,
            None => Some(table.claim(self.levels(), hash).ok_or(TableError::Full)?),
        };
        let written = table.form.write(&table.heap, table.pool, version, key, value);
        let record = match written {
            Ok(block) => block.into_offset(),
            Err(error) => {
                place.into_iter().for_each(|place| table.unclaim(place));
                return Err(error.into());
            }
        };
        let word = pack(hash, record);
        self.changes.push(match (found, place) {
            (Some(found), _) => Change::Replace { slot: found.slot, old: found.word, word },
            (None, Some(place)) => Change::Fill { place, word },
            (None, None) => unreachable!("a key is there or has a place"),
        });
        Ok(())
    }

    /// Stages the end of a key; `false` if it is not there.
    pub fn remove(&mut self, key: &[u8], hash: u64) -> bool {
        let found = self.table.find(self.levels(), hash, key);
        self.changes.extend(found.map(|found| Change::Clear { found }));
        found.is_some()
    }

    /// Makes all of it visible, durably. Cannot fail.
    pub fn publish(mut self) {
        let (table, image) = (self.table, self.table.image());
        let changes = std::mem::take(&mut self.changes);
        if changes.is_empty() {
            return;
        }
        // Records before the words that lead to them.
        image.fence("gphash.record");
        let (mut items, mut left_overflow) = (0, 0);
        let mut old = Vec::with_capacity(changes.len());
        for change in &changes {
            let (slot, word) = match change {
                Change::Fill { place, word } => {
                    items += 1;
                    (place.slot, *word)
                }
                Change::Replace { slot, old: word_before, word } => {
                    old.push(offset_of(*word_before));
                    (*slot, *word)
                }
                Change::Clear { found } => {
                    items -= 1;
                    left_overflow += u64::from(found.in_overflow);
                    old.push(offset_of(found.word));
                    (found.slot, EMPTY)
                }
            };
            image.store(slot, word);
            image.flush("gphash.word", slot, 8);
        }
        // Words before the acknowledgement, and before what they led to is used again.
        image.fence("gphash.word");
        table.items.fetch_add(items, Ordering::Relaxed);
        table.in_overflow.fetch_sub(left_overflow, Ordering::AcqRel);
        retire(&table.heap, old, &self.guard);
    }
}

/// Frees records once no reader can hold them.
fn retire<P: Persist>(heap: &Arc<Heap<P>>, offsets: Vec<u64>, guard: &Guard) {
    if offsets.is_empty() {
        return;
    }
    // Weak, so that what waits to be freed does not keep a store from being closed; marking frees it then.
    let heap: Weak<Heap<P>> = Arc::downgrade(heap);
    guard.defer(move || {
        let Some(heap) = heap.upgrade() else { return };
        for offset in offsets {
            let freed = heap.free(offset);
            debug_assert!(freed.is_ok(), "{freed:?}");
        }
    });
}

impl<P: Persist> Drop for Stage<'_, P> {
    fn drop(&mut self) {
        for change in std::mem::take(&mut self.changes) {
            let record = match change {
                Change::Fill { place, word } => {
                    self.table.unclaim(place);
                    word
                }
                Change::Replace { word, .. } => word,
                Change::Clear { .. } => continue,
            };
            // Nobody has seen it.
            let freed = self.table.heap.free(offset_of(record));
            debug_assert!(freed.is_ok(), "{freed:?}");
        }
    }
}
