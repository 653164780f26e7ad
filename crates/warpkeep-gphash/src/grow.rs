//! Growth: a new top level twice as large, the bottom drained into the others, item by item.
//!
//! The work is done in slices, by whoever calls [`Table::maintain`]: a thread in the background, or a writer that finds
//! no place. Reads and writes go on meanwhile. Each item is put into its new place, durably, before it leaves the old
//! one; a crash leaves it in one of them or in both, and opening removes the older.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};

use crossbeam_epoch::Guard;
use warpkeep_image::{ImageError, Persist};

use crate::levels::{Level, Levels, MAX_DRAINED};
use crate::slot::{EMPTY, INSERT, offset_of};
use crate::table::{new_level, overflow_buckets_for};
use crate::{Table, TableError};

/// A table grows when it is this full.
const FULL: f64 = 0.88;
/// Below this a key that finds no place is up against others with the same hashes, and growing would not help it. No
/// geometry fails so early by chance, once a table has some buckets.
const HOSTILE: f64 = 0.2;
/// So many; below, chance can do anything, and growing costs nothing.
const FEW_BUCKETS: u64 = 4096;
/// Buckets drained at a time by those who want it all.
const SLICE: u64 = 64;

/// How far a growth has come.
pub(crate) struct Growth {
    draining: bool,
    /// Nobody writes by the old levels any more.
    ready: Arc<AtomicBool>,
    /// The next bucket to drain, counted over everything that is drained.
    next: u64,
    /// Items that found no other place.
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

/// What a call of [`Table::maintain`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is nothing to do.
    Idle,
    /// There is more to do.
    Working,
    /// Somebody else is at it.
    Busy,
    /// Some items of the old level have no other place for now; it stays, and is to be tried again later.
    Stuck,
}

impl<P: Persist> Table<P> {
    /// Whether it is time to grow, or a growth is under way.
    pub fn wants_maintenance(&self) -> bool {
        let guard = &crossbeam_epoch::pin();
        let levels = self.levels(guard);
        levels.drained > 0 || self.is_nearly_full(levels)
    }

    fn is_nearly_full(&self, levels: &Levels) -> bool {
        let overflow = levels.overflow.buckets * self.geometry.slots() as u64;
        self.len() as f64 > FULL * levels.capacity(self.geometry) as f64
            || (2 * self.in_overflow.load(Ordering::Relaxed) > overflow.max(8) && self.may_grow(levels))
    }

    /// Whether growing can help a key that finds no place.
    fn may_grow(&self, levels: &Levels) -> bool {
        let capacity = levels.capacity(self.geometry) as f64;
        levels.top().buckets < FEW_BUCKETS || self.len() as f64 >= HOSTILE * capacity
    }

    /// Does a slice of whatever is to be done: begins a growth if the table is nearly full, drains up to so many
    /// buckets, ends it. Beginning takes as long as it takes to have the new level's space.
    pub fn maintain(&self, buckets: u64) -> Result<Progress, TableError> {
        let mut growth = match self.growth.try_lock() {
            Ok(growth) => growth,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(Progress::Busy),
        };
        self.step(&mut growth, false, buckets)
    }

    /// Begins to make the table twice as large; [`Table::maintain`] goes on with it.
    pub fn begin_growth(&self) -> Result<(), TableError> {
        let mut growth: MutexGuard<'_, Growth> = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        if growth.draining {
            return Ok(());
        }
        self.step(&mut growth, true, 0).map(|_| ())
    }

    /// Whether a growth is under way and everybody has left who goes by the levels before it.
    pub fn may_drain(&self) -> bool {
        let growth = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        growth.draining && growth.ready.load(Ordering::Acquire)
    }

    /// Makes the table twice as large, and sees it through. The caller must not hold a stage.
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

    /// Makes room for a key that found none: begins a growth, or sees the one under way through, unless somebody has
    /// done so since the [`Stage`](crate::Stage) that failed was begun: `seen` is its [`Stage::seen`](crate::Stage::seen).
    /// The caller must not hold a stage any more. [`TableError::Full`] if growing would not help.
    pub fn make_room(&self, seen: Seen) -> Result<(), TableError> {
        let mut growth: MutexGuard<'_, Growth> = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        if Seen::of(self.levels(&crossbeam_epoch::pin())) != seen {
            return Ok(());
        }
        if !growth.draining {
            if !self.may_grow(self.levels(&crossbeam_epoch::pin())) {
                return Err(TableError::Full);
            }
            return self.step(&mut growth, true, SLICE).map(|_| ());
        }
        loop {
            match self.step(&mut growth, true, SLICE)? {
                Progress::Idle => return Ok(()),
                Progress::Working | Progress::Busy => std::thread::yield_now(),
                // Some items cannot leave the old levels. One more level gives them, and the key, a place.
                Progress::Stuck => {
                    let guard = &crossbeam_epoch::pin();
                    let levels = self.levels(guard);
                    if !self.may_grow(levels) || levels.drained == MAX_DRAINED {
                        return Err(TableError::Full);
                    }
                    return self.begin(&mut growth, levels, guard);
                }
            }
        }
    }

    fn step(&self, growth: &mut Growth, urgent: bool, buckets: u64) -> Result<Progress, TableError> {
        let guard = &crossbeam_epoch::pin();
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
        for _ in 0..buckets {
            let Some((level, bucket, is_overflow)) = outgoing_bucket(levels, growth.next) else {
                return self.finish(growth, levels, guard);
            };
            growth.stuck += self.drain_bucket(levels, level, bucket, is_overflow);
            growth.next += 1;
        }
        Ok(Progress::Working)
    }

    fn begin(&self, growth: &mut Growth, levels: &Levels, guard: &Guard) -> Result<(), TableError> {
        let buckets = 2 * levels.top().buckets;
        let top = new_level(&self.heap, self.geometry, buckets)?;
        let overflow = match new_level(&self.heap, self.geometry, overflow_buckets_for(buckets)) {
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
        if let Err(error) = self.swing_levels(guard, next) {
            self.heap.free_extent(top.offset)?;
            self.heap.free_extent(overflow.offset)?;
            return Err(error.into());
        }
        *growth = Growth { draining: true, ready: Arc::new(AtomicBool::new(false)), next: 0, stuck: 0 };
        // A writer that still goes by the old levels may put an item where the drain has been. So it begins when
        // everybody who was inside has left.
        let ready = Arc::clone(&growth.ready);
        guard.defer(move || ready.store(true, Ordering::Release));
        guard.flush();
        Ok(())
    }

    /// Moves the items of a bucket up; gives how many could not be.
    fn drain_bucket(&self, levels: &Levels, level: &Level, bucket: u64, from_overflow: bool) -> u64 {
        let image = self.image();
        let mut stuck = 0;
        for slot in 0..self.geometry.slots() {
            let at = level.slot(self.geometry, bucket, slot);
            loop {
                let word = image.load(at);
                if word == EMPTY {
                    break;
                }
                debug_assert_ne!(word, INSERT, "nobody fills a level that is being drained");
                let record = self.form.at(image, offset_of(word));
                let hash = self.hash(&record.key(image));
                let _held = self.lock(hash);
                if image.load(at) != word {
                    continue;
                }
                let Some(place) = self.claim(levels, hash) else {
                    stuck += 1;
                    break;
                };
                image.store(place.slot, word);
                image.flush("gphash.move", place.slot, 8);
                // In its new place before it leaves the old one.
                image.fence("gphash.move");
                image.store(at, EMPTY);
                image.flush("gphash.moved", at, 8);
                // Gone from the old one before the key is let go: once it is replaced, its record is used again, and a
                // word that came back would lead there.
                image.fence("gphash.moved");
                if from_overflow {
                    self.in_overflow.fetch_sub(1, Ordering::AcqRel);
                }
                break;
            }
        }
        stuck
    }

    fn finish(&self, growth: &mut Growth, levels: &Levels, guard: &Guard) -> Result<Progress, TableError> {
        growth.next = 0;
        if growth.stuck > 0 {
            // Some items have no other place. The level stays, and is tried again: deletes may have made room.
            growth.stuck = 0;
            return Ok(Progress::Stuck);
        }
        let gone: Vec<u64> = levels.outgoing().map(|level| level.offset).collect();
        let mut next = levels.clone();
        next.levels.truncate(self.geometry.levels());
        next.old_overflows.clear();
        next.drained = 0;
        self.swing_levels(guard, next)?;
        growth.draining = false;
        let heap = Arc::downgrade(&self.heap);
        guard.defer(move || {
            let Some(heap) = heap.upgrade() else { return };
            for offset in gone {
                let freed: Result<(), ImageError> = heap.free_extent(offset);
                debug_assert!(freed.is_ok(), "{freed:?}");
            }
        });
        guard.flush();
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
