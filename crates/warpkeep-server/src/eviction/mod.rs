//! Eviction: which items are removed to make room.
//!
//! Each block of the store has one of a few sizes, and a chunk has blocks of one size. So there are three ways to
//! make room for an item:
//!
//! 1. In the background, items are evicted until some chunks are free, or can be freed by moving records together,
//!    which the store does by itself. Sizes are ignored: the least requested items are evicted, and the size that
//!    is written most takes over the chunks.
//! 2. A write that finds no block evicts a few items of its own size, if they are as cold as others.
//! 3. If they are not, or there are none, or that does not help, some chunks are emptied: their records are moved
//!    or evicted.

mod clock;
mod frequency;
mod sketch;

use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::thread::Thread;
use std::time::{Duration, Instant};

use warpkeep::Table;

use self::clock::Clock;
use self::frequency::{Stored, is_warm};
use self::sketch::Sketch;
use crate::keyspace::Keyspace;

/// One byte in this many is kept free, or can be made free by moving records together.
const SPARE: u64 = 64;
/// How long room is made at a time, behind the clients' backs.
const SLICE: Duration = Duration::from_millis(5);

/// How items are chosen that go to make room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// The items with the fewest recent requests.
    #[default]
    Frequency,
    /// CLOCK, as in Mega-KV's paper: items not requested since the hand last passed.
    Clock,
}

/// Chooses the items that go, and has them go.
pub(crate) struct Evictor {
    policy: Policy,
    /// Bytes that are to be free, or easy to free.
    spare: u64,
    /// The thread that makes room in the background.
    housekeeper: OnceLock<Thread>,
}

enum Policy {
    Frequency(Sketch),
    Clock(Clock),
}

/// The space that a refused write needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// Bytes of its key and its value, as they are stored.
    pub(crate) like: (usize, usize),
    /// It is a slot of the table that is missing, and any item will do.
    pub(crate) slot: bool,
    /// How often it has been tried before.
    pub(crate) attempt: usize,
}

impl Evictor {
    /// For items that take this many bytes in all.
    pub(crate) fn new(eviction: Eviction, bytes: u64) -> Evictor {
        let policy = match eviction {
            Eviction::Frequency => Policy::Frequency(Sketch::new(bytes)),
            Eviction::Clock => Policy::Clock(Clock::new(bytes)),
        };
        Evictor { policy, spare: bytes / SPARE, housekeeper: OnceLock::new() }
    }

    /// Records a request for the key with this hash.
    #[inline]
    pub(crate) fn note(&self, hash: u64) {
        match &self.policy {
            Policy::Frequency(sketch) => sketch.note(hash),
            Policy::Clock(clock) => clock.note(hash),
        }
    }

    /// Counts the requests of a batch.
    pub(crate) fn count(&self, requests: usize) {
        if let Policy::Frequency(sketch) = &self.policy {
            sketch.count(requests as u64);
        }
    }

    /// The calling thread is to be woken when room is missing.
    pub(crate) fn serve(&self) {
        let _ = self.housekeeper.set(std::thread::current());
    }

    /// Makes room behind the clients' backs.
    pub(crate) fn keep_room(&self, keyspace: &Keyspace<'_>) {
        let table = keyspace.table();
        if let Policy::Frequency(sketch) = &self.policy {
            sketch.age(table.len());
        }
        let begun = Instant::now();
        // Items that were just evicted are not free yet.
        let mut coming = 0;
        while keyspace.store.spare_bytes() + coming < self.spare && begun.elapsed() < SLICE {
            match self.evict(keyspace, &table, None) {
                0 => break,
                bytes => coming += bytes,
            }
        }
    }

    /// Makes room for a write that found none.
    pub(crate) fn make_room(&self, keyspace: &Keyspace<'_>, table: &Table, need: Need) {
        /// How often a write evicts; after that it waits for readers of the evicted items.
        const ATTEMPTS: usize = 3;
        /// Whole chunks are tried again, if it still does not help.
        const TURN: usize = 32;
        if let Some(housekeeper) = self.housekeeper.get() {
            housekeeper.unpark();
        }
        let like = (!need.slot).then_some(need.like);
        let gone = match need.attempt {
            0 if !need.slot && self.is_warm(keyspace, table, need.like) => 0,
            0..ATTEMPTS => self.evict(keyspace, table, like),
            _ => u64::from(!need.attempt.is_multiple_of(TURN)),
        };
        if gone == 0 && !need.slot {
            let (key, value) = need.like;
            let vacated = table.vacate(key, value, |key| self.remove(keyspace, table, key));
            if let Err(error) = vacated {
                tracing::warn!(%error, "no room could be made");
            }
        }
    }

    /// Whether items of this size are warmer than others, or there are none.
    fn is_warm(&self, keyspace: &Keyspace<'_>, table: &Table, like: (usize, usize)) -> bool {
        let candidates = |like| self.candidates(keyspace, table, like).unwrap_or_default();
        is_warm(&candidates(Some(like)), &candidates(None))
    }

    /// Items picked at random, the coldest first.
    fn candidates(
        &self,
        keyspace: &Keyspace<'_>,
        table: &Table,
        like: Option<(usize, usize)>,
    ) -> Result<Vec<Stored>, warpkeep::Error> {
        match &self.policy {
            Policy::Frequency(sketch) => {
                frequency::candidates(|hash| sketch.estimate(hash), keyspace, table, like)
            }
            Policy::Clock(clock) => frequency::candidates(|hash| clock.peek(hash), keyspace, table, like),
        }
    }

    /// Has a few items go; gives the bytes that they took, about.
    fn evict(&self, keyspace: &Keyspace<'_>, table: &Table, like: Option<(usize, usize)>) -> u64 {
        let victims = match &self.policy {
            Policy::Frequency(_) => self.candidates(keyspace, table, like).map(frequency::victims),
            Policy::Clock(clock) => clock.victims(keyspace, table, like),
        };
        match victims {
            Ok((keys, bytes)) => {
                keys.iter().for_each(|key| self.remove(keyspace, table, key));
                bytes
            }
            Err(error) => {
                tracing::warn!(%error, "no room could be made");
                0
            }
        }
    }

    fn remove(&self, keyspace: &Keyspace<'_>, table: &Table, key: &[u8]) {
        match keyspace.evict(table, key) {
            Ok(gone) => drop(keyspace.evicted.fetch_add(u64::from(gone), Ordering::Relaxed)),
            Err(error) => tracing::warn!(%error, "an item could not be thrown away"),
        }
    }
}

#[cfg(test)]
mod tests;
