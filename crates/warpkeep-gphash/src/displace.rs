//! Displacement: an item moves to another of its slots, so that a key without a free slot gets the one it leaves.
//!
//! An item moves only to a slot that lookups read later, and is stored there before it leaves the old slot. A reader
//! that goes through the slots of a key in order therefore finds it at least once. A word in the header names the slot
//! that the item leaves: after a crash with the item in both slots, opening clears that one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpkeep_image::Persist;

use crate::Table;
use crate::bucket::Bucket;
use crate::find::Place;
use crate::header::JOURNAL_AT;
use crate::levels::{Level, Levels};
use crate::slot::{EMPTY, INSERT};

/// When items may be displaced. One item moves at a time, because one word names the slot.
pub(crate) struct Displacing {
    /// All readers use the present levels; until then they do not agree on the order of slots.
    settled: Mutex<Arc<AtomicBool>>,
    /// Running scans, which read bucket by bucket and would miss an item that moves.
    scans: AtomicU64,
    /// Items moved since the table was opened.
    pub(crate) moved: AtomicU64,
}

impl Displacing {
    pub(crate) fn new() -> Displacing {
        Displacing {
            settled: Mutex::new(Arc::new(AtomicBool::new(true))),
            scans: AtomicU64::new(0),
            moved: AtomicU64::new(0),
        }
    }

    /// Keeps items where they are while the levels are changed.
    pub(crate) fn hold(&self) -> MutexGuard<'_, Arc<AtomicBool>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps items where they are while a scan is under way.
    pub(crate) fn scan(&self) -> Scanning<'_> {
        self.scans.fetch_add(1, Ordering::SeqCst);
        // A displacement that did not see this has moved its item when the lock is free.
        drop(self.hold());
        Scanning(self)
    }

    /// Ends a scan.
    pub(crate) fn resume(&self) {
        self.scans.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A scan under way.
pub(crate) struct Scanning<'d>(&'d Displacing);

impl Drop for Scanning<'_> {
    fn drop(&mut self) {
        self.0.resume();
    }
}

/// A bucket that a key may be in.
struct Seat<'l> {
    level: &'l Level,
    bucket: u64,
}

impl Seat<'_> {
    fn is(&self, other: &Seat<'_>) -> bool {
        (self.level.offset, self.bucket) == (other.level.offset, other.bucket)
    }
}

impl<P: Persist> Table<P> {
    /// Frees a slot for a key with this hash, whose buckets are full, and claims it.
    #[cold]
    pub(crate) fn displace(&self, levels: &Levels, hash: u64) -> Option<Place> {
        let settled = self.displacing.hold();
        let guard = &self.heap.pin();
        let current = std::ptr::eq(self.levels(guard), levels);
        let watched = self.displacing.scans.load(Ordering::SeqCst) > 0 || self.is_worked_by_device();
        if !current || !settled.load(Ordering::Acquire) || watched {
            return None;
        }
        for seat in self.seats(levels, hash) {
            let bucket = seat.level.bucket(&self.shape, seat.bucket);
            for slot in 0..self.shape.slots() {
                if self.move_on(levels, &seat, bucket, slot) {
                    self.displacing.moved.fetch_add(1, Ordering::Relaxed);
                    return Some(Place { slot: bucket.slot(&self.shape, slot), in_overflow: false });
                }
            }
        }
        None
    }

    /// The buckets of a key in the order of lookups, without the overflow.
    fn seats<'l>(&self, levels: &'l Levels, hash: u64) -> Vec<Seat<'l>> {
        let locations = self.geometry.locations(hash, levels.base_buckets());
        let seats = levels.open().flat_map(|(below, level)| {
            locations.tops().iter().map(move |top| Seat { level, bucket: top >> below })
        });
        seats.collect()
    }

    /// Moves the item in a slot to a later one of its slots, if one is free, and claims the slot; returns whether it
    /// did.
    fn move_on(&self, levels: &Levels, seat: &Seat<'_>, bucket: Bucket<'_>, slot: usize) -> bool {
        let state = bucket.state(slot);
        let mut key = Vec::new();
        if self.read_any(bucket, slot, &mut key).is_none() {
            return false;
        }
        let hash = self.hash(&key);
        let seats = self.seats(levels, hash);
        let Some(here) = seats.iter().rposition(|other| other.is(seat)) else { return false };
        let later = || seats[here + 1..].iter();
        let has_room = |later: &Seat<'_>| {
            let states = later.level.bucket(&self.shape, later.bucket).states(&self.shape).iter();
            states.map(|state| state.load(Ordering::Relaxed)).any(|state| state == EMPTY)
        };
        // A first look without its lock: usually there is no free slot.
        if !later().any(has_room) {
            return false;
        }
        // Never waits for the lock: its holder may be waiting for this thread. Skips keys of the same batch, too.
        let Some(_held) = self.try_lock(hash) else { return false };
        if bucket.state(slot) != state {
            return false;
        }
        let mut rooms = later().map(|later| later.level.bucket(&self.shape, later.bucket));
        let Some(to) = rooms.find_map(|bucket| self.claim_in(bucket)) else { return false };
        let (image, journal) = (self.image(), self.header + JOURNAL_AT);
        image.store(journal, bucket.slot(&self.shape, slot).state);
        image.flush("gphash.journal", journal, 8);
        // The slot is named before the item is in two slots.
        image.fence("gphash.journal");
        self.move_item(bucket, slot, to, INSERT);
        true
    }
}
