//! Maintenance: shards that are nearly full grow before a key has no slot; shards in which searches continue far
//! past deleted items are rebuilt.
//!
//! Writers mark shards that may need it; [`Table::maintain`] examines them.

use std::sync::Mutex;
use std::sync::TryLockError;
use std::sync::atomic::{AtomicU64, Ordering};

use warpkeep_image::Persist;

use crate::measure::Walk;
use crate::shard::{Run, Tally};
use crate::{Progress, Table, TableError};

/// A shard grows when it is this full, as a share of the slots that items can be in.
const FULL: f64 = 0.93;
/// The length of searches is measured when this share of the slots has been deleted since the last time.
const MEASURED: f64 = 1.0 / 16.0;

/// Which shards may need maintenance, and counts of the work done.
pub(crate) struct Upkeep {
    /// A bit a shard.
    wanted: Box<[AtomicU64]>,
    count: AtomicU64,
    /// The next shard to examine; held by the thread that does the work.
    next: Mutex<usize>,
    pub(crate) grown: AtomicU64,
    pub(crate) collected: AtomicU64,
    pub(crate) shrunk: AtomicU64,
    /// Items that moved on.
    pub(crate) displaced: AtomicU64,
}

impl Upkeep {
    pub(crate) fn new(shards: usize) -> Upkeep {
        Upkeep {
            wanted: (0..shards.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            count: AtomicU64::new(0),
            next: Mutex::new(0),
            grown: AtomicU64::new(0),
            collected: AtomicU64::new(0),
            shrunk: AtomicU64::new(0),
            displaced: AtomicU64::new(0),
        }
    }

    /// How many shards are noted.
    pub(crate) fn waiting(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    fn note(&self, shard: usize) {
        let (word, bit) = (&self.wanted[shard / 64], 1 << (shard % 64));
        // Looked at first, so that a line is written to once.
        if word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::AcqRel) & bit == 0 {
            self.count.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn forget(&self, shard: usize) {
        let bit = 1 << (shard % 64);
        if self.wanted[shard / 64].fetch_and(!bit, Ordering::AcqRel) & bit != 0 {
            self.count.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// The first shard from this one on, wrapping around, that may need maintenance.
    fn first_from(&self, shard: usize) -> Option<usize> {
        let words = self.wanted.len();
        let rest = !0 << (shard % 64);
        (0..=words).find_map(|step| {
            let word = (shard / 64 + step) % words;
            let mask = if step == 0 {
                rest
            } else if step == words {
                !rest
            } else {
                !0
            };
            let wanted = self.wanted[word].load(Ordering::Acquire) & mask;
            (wanted != 0).then(|| 64 * word + wanted.trailing_zeros() as usize)
        })
    }

    pub(crate) fn count_rebuilt(&self, before: u32, after: u32) {
        let counter = match after.cmp(&before) {
            std::cmp::Ordering::Greater => &self.grown,
            std::cmp::Ordering::Equal => &self.collected,
            std::cmp::Ordering::Less => &self.shrunk,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl<P: Persist> Table<P> {
    /// Whether [`Table::maintain`] has shards to examine.
    pub fn wants_maintenance(&self) -> bool {
        self.upkeep.waiting() > 0
    }

    /// Shards made larger since the table was opened.
    pub fn shards_grown(&self) -> u64 {
        self.upkeep.grown.load(Ordering::Relaxed)
    }

    fn is_nearly_full(&self, run: Run, tally: &Tally) -> bool {
        tally.items as f64 > FULL * run.usable(self.shape) as f64
    }

    fn is_worth_measuring(&self, run: Run, tally: &Tally) -> bool {
        tally.unmeasured.min(tally.deleted) as f64 > MEASURED * run.slots(self.shape) as f64
    }

    /// Marks a shard that may need maintenance.
    pub(crate) fn note_wants(&self, number: usize, run: Run, tally: &Tally) {
        if self.is_nearly_full(run, tally) || self.is_worth_measuring(run, tally) {
            self.upkeep.note(number);
        }
    }

    /// Examines shards that may need maintenance, up to about this many buckets: makes nearly full ones larger, and
    /// rebuilds those in which searches are longer than necessary.
    pub fn maintain(&self, buckets: u64) -> Result<Progress, TableError> {
        let mut next = match self.upkeep.next.try_lock() {
            Ok(next) => next,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(Progress::Busy),
        };
        let (mut done, mut held) = (0, 0);
        while done < buckets.max(1) {
            let Some(number) = self.upkeep.first_from(*next % self.shards()) else {
                return Ok(Progress::Idle);
            };
            *next = number + 1;
            let Some(mut tally) = self.try_lock(number) else {
                held += 1;
                if held > self.upkeep.waiting() {
                    return Ok(Progress::Busy);
                }
                continue;
            };
            // First, so that marks set by writers from now on are kept.
            self.upkeep.forget(number);
            let attended = self.attend(number, &mut tally);
            done += match attended {
                Ok(buckets) => buckets,
                Err(error) => {
                    self.upkeep.note(number);
                    return Err(error);
                }
            };
        }
        Ok(if self.wants_maintenance() { Progress::Working } else { Progress::Idle })
    }

    /// Maintains a shard, which is held; returns how many buckets were examined.
    fn attend(&self, number: usize, tally: &mut Tally) -> Result<u64, TableError> {
        let guard = &self.heap.pin();
        let shard = self.shard(number);
        let buckets = shard.run.buckets();
        if self.is_nearly_full(shard.run, tally) {
            self.rebuild(number, tally, shard.run.bits + 1, guard)?;
        } else if self.is_worth_measuring(shard.run, tally) {
            tally.unmeasured = 0;
            if Walk::of(&shard, self.shape, self.shards()).is_long() {
                self.rebuild(number, tally, shard.run.bits, guard)?;
            }
        }
        Ok(buckets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_found_from_anywhere() {
        let upkeep = Upkeep::new(130);
        assert_eq!(upkeep.first_from(0), None);
        for shard in [3, 64, 129] {
            upkeep.note(shard);
            upkeep.note(shard);
        }
        assert_eq!(upkeep.count.load(Ordering::Relaxed), 3);
        for (from, found) in [(0, 3), (3, 3), (4, 64), (64, 64), (65, 129), (129, 129)] {
            assert_eq!(upkeep.first_from(from), Some(found));
        }
        upkeep.forget(129);
        assert_eq!((upkeep.first_from(65), upkeep.first_from(127)), (Some(3), Some(3)));
        upkeep.forget(64);
        upkeep.forget(3);
        assert_eq!((upkeep.first_from(5), upkeep.count.load(Ordering::Relaxed)), (None, 0));
    }
}
