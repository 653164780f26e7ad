//! Growth: a new top level twice as large; the bottom level is drained into the others, item by item. Shrinking is the
//! reverse: a new bottom level half as large; the top level is drained.
//!
//! Callers of [`Table::maintain`] do the work in slices: a background thread, or a writer that finds no slot. Reads and
//! writes go on meanwhile. Each item is stored in its new slot, durably, before it leaves the old one; a crash leaves
//! it in one of them or in both, and opening clears the old one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};

use warpkeep_image::{Guard, Heap, ImageError, Persist};

use crate::bucket::{Body, Bucket, Slot};
use crate::levels::{Level, Levels, MAX_DRAINED};
use crate::slot::{EMPTY, INSERT};
use crate::table::{new_level, overflow_buckets_for};
use crate::{Progress, Table, TableError};

/// A table grows at this load factor.
const FULL: f64 = 0.92;
/// Below this load factor, a key that finds no slot collides with others of the same hashes, and growth would not help
/// it. No geometry fails so early by chance, once a table has some buckets.
const HOSTILE: f64 = 0.2;
/// That many buckets. Smaller tables can fail by chance at any load factor, and their growth is cheap.
const FEW_BUCKETS: u64 = 4096;
/// A table shrinks only if its load factor is not above this afterwards.
const SHRUNK: f64 = 0.75;
/// Buckets drained at a time when a growth is finished in one call.
const SLICE: u64 = 64;

/// How far a growth has come.
pub(crate) struct Growth {
    draining: bool,
    /// No writer uses the old levels any more.
    ready: Arc<AtomicBool>,
    /// The next bucket to drain, counted over everything that is drained.
    next: u64,
    /// Items that found no other slot.
    stuck: u64,
}

impl Growth {
    pub(crate) fn after_opening(draining: bool) -> Growth {
        Growth { draining, ready: Arc::new(AtomicBool::new(true)), next: 0, stuck: 0 }
    }
}

/// How a table stood at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    buckets: u64,
    drained: usize,
}

impl Seen {
    pub(crate) fn of(levels: &Levels) -> Seen {
        Seen { buckets: levels.top().buckets, drained: levels.drained }
    }
}

/// The result of draining some buckets.
pub(crate) struct Drained {
    /// Items that found no other slot.
    pub(crate) stuck: u64,
}

impl<P: Persist> Table<P> {
    /// Whether it is time to grow, or a growth is under way.
    pub fn wants_maintenance(&self) -> bool {
        let guard = &self.heap.pin();
        let levels = self.levels(guard);
        levels.drained > 0 || self.is_nearly_full(levels)
    }

    fn is_nearly_full(&self, levels: &Levels) -> bool {
        let overflow = levels.overflow.buckets * self.geometry.slots() as u64;
        self.len() as f64 > FULL * levels.capacity(self.geometry) as f64
            || (2 * self.in_overflow.load(Ordering::Relaxed) > overflow.max(8) && self.may_grow(levels))
    }

    /// Whether the free slots are needed for items that are still to be drained. A new item that took one would prevent
    /// the growth from ending.
    pub(crate) fn is_owed(&self, levels: &Levels) -> bool {
        levels.drained > 0 && self.len() as f64 > FULL * levels.capacity(self.geometry) as f64
    }

    /// Whether growth can help a key that finds no slot.
    fn may_grow(&self, levels: &Levels) -> bool {
        let capacity = levels.capacity(self.geometry) as f64;
        levels.top().buckets < FEW_BUCKETS || self.len() as f64 >= HOSTILE * capacity
    }

    /// Does a slice of the pending work: begins a growth if the table is nearly full, drains up to `buckets` buckets,
    /// ends the growth. Beginning takes as long as the allocation of the new level.
    pub fn maintain(&self, buckets: u64) -> Result<Progress, TableError> {
        self.maintain_with(buckets, |levels, run, first, count, from_overflow| {
            Ok(self.drain_buckets(levels, run, first, count, from_overflow))
        })
    }

    /// As [`Table::maintain`], with a function that moves the items. It gets the levels, a run, the first of its
    /// buckets and their number, and whether the run is an overflow.
    pub(crate) fn maintain_with(
        &self,
        buckets: u64,
        drain: impl FnMut(&Levels, &Level, u64, u64, bool) -> Result<Drained, TableError>,
    ) -> Result<Progress, TableError> {
        let mut growth = match self.growth.try_lock() {
            Ok(growth) => growth,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(Progress::Busy),
        };
        match self.step_with(&mut growth, false, buckets, drain)? {
            Progress::Stuck => {
                // Items that cannot leave the old levels do no harm unless the other levels fill up.
                let guard = &self.heap.pin();
                let levels = self.levels(guard);
                if !self.is_nearly_full(levels) || !self.may_add_level(levels) {
                    return Ok(Progress::Stuck);
                }
                self.begin(&mut growth, levels, guard)?;
                Ok(Progress::Working)
            }
            progress => Ok(progress),
        }
    }

    /// A part of [`Table::maintain`], for a writer that has just added `added` items: even without a background thread,
    /// a growth is finished long before the levels it added are full.
    pub(crate) fn assist(&self, added: u64) {
        /// Growth adds four times the slots it drains, so this is twice what is needed.
        const ADDED_A_BUCKET: u64 = 8;
        /// Not for every single item: taking the lock costs, too.
        const ADDED_A_TURN: u64 = 64;
        let draining = self.levels(&self.heap.pin()).drained > 0;
        if !draining || self.is_worked_by_device() {
            return;
        }
        let before = self.added.fetch_add(added, Ordering::Relaxed);
        let turns = (before + added) / ADDED_A_TURN - before / ADDED_A_TURN;
        if turns == 0 {
            return;
        }
        let Ok(mut growth) = self.growth.try_lock() else { return };
        if growth.draining && growth.ready.load(Ordering::Acquire) {
            // An item that finds no slot now may find one later. Only an end that cannot be written is an error, which
            // the next caller gets again.
            let _ = self.step(&mut growth, false, turns * ADDED_A_TURN / ADDED_A_BUCKET);
        }
    }

    /// Whether a level can be added while others are being drained.
    fn may_add_level(&self, levels: &Levels) -> bool {
        self.may_grow(levels) && levels.drained < MAX_DRAINED && !levels.shrinking
    }

    /// Begins to make the table twice as large; [`Table::maintain`] goes on with it.
    pub fn begin_growth(&self) -> Result<(), TableError> {
        let mut growth: MutexGuard<'_, Growth> = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        if growth.draining {
            return Ok(());
        }
        self.step(&mut growth, true, 0).map(|_| ())
    }

    /// Whether a growth is under way and no reader or writer uses the levels before it any more.
    pub fn may_drain(&self) -> bool {
        let growth = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        growth.draining && growth.ready.load(Ordering::Acquire)
    }

    /// Makes the table twice as large, and waits for the end of the growth. The caller must not hold a stage.
    pub fn grow(&self) -> Result<(), TableError> {
        let mut growth: MutexGuard<'_, Growth> = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        let mut begun = growth.draining;
        loop {
            match self.step(&mut growth, !begun, SLICE)? {
                Progress::Idle => return Ok(()),
                Progress::Stuck => return Err(TableError::Full),
                Progress::Working | Progress::Busy => std::thread::yield_now(),
            }
            begun = true;
        }
    }

    /// Halves the table as long as its items then take at most three quarters of it, and waits for the end of each
    /// shrink; returns whether it became smaller. The freed space is available to other tables and values.
    pub fn shrink(&self) -> Result<bool, TableError> {
        let mut growth: MutexGuard<'_, Growth> = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.levels(&self.heap.pin()).capacity(self.geometry);
        let mut tried = None;
        loop {
            while growth.draining {
                if self.step(&mut growth, false, SLICE)? == Progress::Stuck {
                    return Err(TableError::Full);
                }
                std::thread::yield_now();
            }
            let guard = &self.heap.pin();
            let levels = self.levels(guard);
            let capacity = levels.capacity(self.geometry);
            let roomy = self.len() as f64 <= SHRUNK * (capacity / 2) as f64;
            let bottom = levels.levels[levels.levels.len() - 1].buckets;
            // Turned around half way: it will not do better the next time.
            let turned = tried.replace(capacity) == Some(capacity);
            if !roomy || turned || !bottom.is_multiple_of(2) {
                return Ok(capacity < before);
            }
            self.begin_shrinking(&mut growth, levels, guard)?;
        }
    }

    fn begin_shrinking(&self, growth: &mut Growth, levels: &Levels, guard: &Guard) -> Result<(), TableError> {
        let bottom = levels.levels[levels.levels.len() - 1].buckets / 2;
        let bottom = new_level(&self.heap, &self.shape, bottom)?;
        let overflow =
            match new_level(&self.heap, &self.shape, overflow_buckets_for(levels.top().buckets / 2)) {
                Ok(overflow) => overflow,
                Err(error) => {
                    self.heap.free_extent(bottom.offset)?;
                    return Err(error.into());
                }
            };
        let mut next = levels.clone();
        next.levels.push(bottom);
        next.drained = 1;
        next.shrinking = true;
        next.old_overflows.push(std::mem::replace(&mut next.overflow, overflow));
        if let Err(error) = self.begin_draining(growth, next, guard) {
            self.heap.free_extent(bottom.offset)?;
            self.heap.free_extent(overflow.offset)?;
            return Err(error);
        }
        Ok(())
    }

    /// Makes space for a key that found no slot: begins a growth, or finishes the one under way, unless another thread
    /// has done so since the [`Stage`](crate::Stage) that failed began: `seen` is its
    /// [`Stage::seen`](crate::Stage::seen). The caller must have dropped that stage. [`TableError::Full`] if growth
    /// would not help.
    pub fn make_room(&self, seen: Seen) -> Result<(), TableError> {
        let mut growth: MutexGuard<'_, Growth> = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        if Seen::of(self.levels(&self.heap.pin())) != seen {
            return Ok(());
        }
        if !growth.draining {
            if !self.may_grow(self.levels(&self.heap.pin())) {
                return Err(TableError::Full);
            }
            return self.step(&mut growth, true, SLICE).map(|_| ());
        }
        loop {
            match self.step(&mut growth, true, SLICE)? {
                Progress::Idle => return Ok(()),
                Progress::Working | Progress::Busy => std::thread::yield_now(),
                // Some items cannot leave the old levels. One more level has slots for them and for the key.
                Progress::Stuck => {
                    let guard = &self.heap.pin();
                    let levels = self.levels(guard);
                    if !self.may_add_level(levels) {
                        return Err(TableError::Full);
                    }
                    return self.begin(&mut growth, levels, guard);
                }
            }
        }
    }

    fn step(&self, growth: &mut Growth, urgent: bool, buckets: u64) -> Result<Progress, TableError> {
        self.step_with(growth, urgent, buckets, |levels, run, first, count, from_overflow| {
            Ok(self.drain_buckets(levels, run, first, count, from_overflow))
        })
    }

    fn step_with(
        &self,
        growth: &mut Growth,
        urgent: bool,
        buckets: u64,
        mut drain: impl FnMut(&Levels, &Level, u64, u64, bool) -> Result<Drained, TableError>,
    ) -> Result<Progress, TableError> {
        let guard = &self.heap.pin();
        let levels = self.levels(guard);
        if !growth.draining {
            if !urgent && !self.is_nearly_full(levels) {
                return Ok(Progress::Idle);
            }
            self.begin(growth, levels, guard)?;
            return Ok(Progress::Working);
        }
        if !growth.ready.load(Ordering::Acquire) {
            guard.flush();
            return Ok(Progress::Working);
        }
        let mut left = buckets;
        while left > 0 {
            let Some((run, first, is_overflow)) = outgoing_bucket(levels, growth.next) else {
                return self.finish(growth, levels, guard);
            };
            let count = left.min(run.buckets - first);
            growth.stuck += drain(levels, run, first, count, is_overflow)?.stuck;
            growth.next += count;
            left -= count;
        }
        Ok(Progress::Working)
    }

    fn drain_buckets(
        &self,
        levels: &Levels,
        run: &Level,
        first: u64,
        count: u64,
        from_overflow: bool,
    ) -> Drained {
        let stuck = (first..first + count)
            .map(|bucket| self.drain_bucket(levels, run.bucket(&self.shape, bucket), from_overflow))
            .sum();
        Drained { stuck }
    }

    fn begin(&self, growth: &mut Growth, levels: &Levels, guard: &Guard) -> Result<(), TableError> {
        let buckets = 2 * levels.top().buckets;
        let top = new_level(&self.heap, &self.shape, buckets)?;
        let overflow = match new_level(&self.heap, &self.shape, overflow_buckets_for(buckets)) {
            Ok(overflow) => overflow,
            Err(error) => {
                self.heap.free_extent(top.offset)?;
                return Err(error.into());
            }
        };
        let mut next = levels.clone();
        next.levels.insert(0, top);
        next.drained += 1;
        next.old_overflows.push(std::mem::replace(&mut next.overflow, overflow));
        if let Err(error) = self.begin_draining(growth, next, guard) {
            self.heap.free_extent(top.offset)?;
            self.heap.free_extent(overflow.offset)?;
            return Err(error);
        }
        Ok(())
    }

    fn begin_draining(&self, growth: &mut Growth, next: Levels, guard: &Guard) -> Result<(), TableError> {
        let ready = Arc::new(AtomicBool::new(false));
        self.swing_levels(guard, next, Some(Arc::clone(&ready)))?;
        *growth = Growth { draining: true, ready, next: 0, stuck: 0 };
        // A writer that still uses the old levels could put an item into a bucket that is already drained. So draining
        // begins when all of them have finished.
        let ready = Arc::clone(&growth.ready);
        guard.defer(move || ready.store(true, Ordering::Release));
        guard.flush();
        Ok(())
    }

    /// Moves the items of a bucket to their new slots; returns the number of items without one.
    fn drain_bucket(&self, levels: &Levels, bucket: Bucket<'_>, from_overflow: bool) -> u64 {
        let mut key = Vec::new();
        let mut stuck = 0;
        for slot in 0..self.shape.slots() {
            loop {
                let state = bucket.state(slot);
                key.clear();
                debug_assert_ne!(state, INSERT, "no writer fills a level that is being drained");
                if self.read_any(bucket, slot, &mut key).is_none() {
                    break;
                }
                let hash = self.hash(&key);
                let _held = self.lock(hash);
                if bucket.state(slot) != state {
                    continue;
                }
                match self.claim(levels, hash) {
                    Some(place) => self.move_item(bucket, slot, place.slot, EMPTY),
                    None => {
                        stuck += 1;
                        break;
                    }
                }
                if from_overflow {
                    self.in_overflow.fetch_sub(1, Ordering::AcqRel);
                }
                break;
            }
        }
        stuck
    }

    /// Moves an item, whose key is held, to a slot that was claimed for it, and leaves another state behind.
    pub(crate) fn move_item(&self, bucket: Bucket<'_>, slot: usize, to: Slot, leaves: u64) {
        let image = self.image();
        let from = bucket.slot(&self.shape, slot);
        for (from, to, words) in [
            (from.key, to.key, self.shape.key_words()),
            (from.payload, to.payload, self.shape.payload_words()),
        ] {
            for word in 0..words as u64 {
                image.store(to + 8 * word, image.load(from + 8 * word));
            }
            if words > 0 {
                image.flush("gphash.copy", to, 8 * words as u64);
            }
        }
        if self.shape.body != Body::Packed {
            // The other fields before the state.
            image.fence("gphash.copy");
        }
        image.store(to.state, bucket.state(slot));
        image.flush("gphash.move", to.state, 8);
        // Stored in its new slot before it leaves the old one.
        image.fence("gphash.move");
        image.store(from.state, leaves);
        image.flush("gphash.moved", from.state, 8);
        // Cleared before the key is unlocked: once the item is replaced, its record is reused, and an old word that
        // survived a crash would refer to it.
        image.fence("gphash.moved");
    }

    fn finish(&self, growth: &mut Growth, levels: &Levels, guard: &Guard) -> Result<Progress, TableError> {
        growth.next = 0;
        if growth.stuck > 0 && levels.shrinking {
            // It has become too full to be smaller. What was about to go stays, and what was added goes.
            let mut next = levels.clone();
            next.shrinking = false;
            next.drained = 1;
            if let Some(old) = next.old_overflows.first_mut() {
                std::mem::swap(old, &mut next.overflow);
            }
            self.begin_draining(growth, next, guard)?;
            return Ok(Progress::Working);
        }
        if growth.stuck > 0 {
            // Some items have no other slot. The level stays and is drained again: deletes may have freed slots.
            growth.stuck = 0;
            return Ok(Progress::Stuck);
        }
        let gone: Vec<u64> = levels.outgoing().map(|level| level.offset).collect();
        let mut next = levels.clone();
        match levels.shrinking {
            true => drop(next.levels.drain(..levels.drained)),
            false => next.levels.truncate(self.geometry.levels()),
        }
        next.shrinking = false;
        next.old_overflows.clear();
        next.drained = 0;
        self.swing_levels(guard, next, None)?;
        growth.draining = false;
        let free = move |heap: &Heap<P>| {
            for offset in gone {
                let freed: Result<(), ImageError> = heap.free_extent(offset);
                debug_assert!(freed.is_ok(), "{freed:?}");
            }
        };
        self.heap.defer(free, guard);
        Ok(Progress::Idle)
    }
}

/// Bucket number `next` of everything that is drained, and whether it is of an overflow.
fn outgoing_bucket(levels: &Levels, mut next: u64) -> Option<(&Level, u64, bool)> {
    for (run, level) in levels.outgoing().enumerate() {
        if next < level.buckets {
            return Some((level, next, run < levels.old_overflows.len()));
        }
        next -= level.buckets;
    }
    None
}
