//! Growth: shards become larger one by one, when a key has no slot, or before.

use warpkeep_image::Persist;

use crate::rebuild::Unbuilt;
use crate::shard::Run;
use crate::{Table, TableError};

/// If a shard has no place for a key although less than this share of its slots is in use, its keys have the same
/// home, and growing would not help: chance does not fill sixteen buckets in a row so early.
const HOSTILE: f64 = 0.2;
/// A shard with this share of its slots marked as deleted is rebuilt at its size before it grows.
const RECLAIMABLE: f64 = 0.125;
/// With at most this many items staged, items are displaced for a key without a slot. That makes room for one
/// key at a time, and a batch starts over for each.
const FEW: u64 = 64;
/// Shrinking a table stops before its shards would be fuller than this.
const SHRUNK: f64 = 0.75;

/// How a shard stood that had no place for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub(crate) full: Option<Full>,
}

/// A shard without a place for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) shard: usize,
    pub(crate) run: Run,
    /// Where in the shard the key is at home.
    pub(crate) fraction: u64,
    /// Items staged for it beside its own.
    pub(crate) staged: u64,
}

impl<P: Persist> Table<P> {
    /// Makes room for a key that found none: removes its shard's deleted items, displaces items, or makes the shard
    /// larger, unless another thread has rebuilt it since the failed [`Stage`](crate::Stage) began: `seen` is its
    /// [`Stage::seen`](crate::Stage::seen). The caller must not hold a stage any more. [`TableError::Full`] if
    /// growing would not help.
    pub fn make_room(&self, seen: Seen) -> Result<(), TableError> {
        let Some(Full { shard: number, run, fraction, staged }) = seen.full else { return Ok(()) };
        let mut tally = self.lock(number);
        let guard = &self.heap.pin();
        if self.run(number) != run {
            return Ok(());
        }
        let slots = run.slots(self.shape) as f64;
        if tally.deleted as f64 >= RECLAIMABLE * slots {
            return Ok(self.rebuild(number, &mut tally, run.bits, guard)?);
        }
        if staged <= FEW && self.displace(number, &mut tally, fraction) {
            return Ok(());
        }
        if ((tally.items + staged) as f64) < HOSTILE * slots {
            return Err(TableError::Full);
        }
        Ok(self.rebuild(number, &mut tally, run.bits + 1, guard)?)
    }

    /// Makes the table twice as large, shard by shard. The caller must not hold a stage.
    pub fn grow(&self) -> Result<(), TableError> {
        for number in 0..self.shards() {
            let mut tally = self.lock(number);
            let bits = self.run(number).bits + 1;
            self.rebuild(number, &mut tally, bits, &self.heap.pin())?;
        }
        Ok(())
    }

    /// Removes the items marked as deleted from all shards; returns how many shards were rebuilt.
    /// [`Table::maintain`] does so where it is worth it.
    pub fn collect(&self) -> Result<u64, TableError> {
        let mut collected = 0;
        for number in 0..self.shards() {
            let mut tally = self.lock(number);
            if tally.deleted > 0 {
                let bits = self.run(number).bits;
                self.rebuild(number, &mut tally, bits, &self.heap.pin())?;
                collected += 1;
            }
        }
        Ok(collected)
    }

    /// Makes shards smaller that have become too large for their items; returns whether there were any. Other
    /// tables and values can use the freed space.
    pub fn shrink(&self) -> Result<bool, TableError> {
        let mut smaller = false;
        for number in 0..self.shards() {
            let mut tally = self.lock(number);
            let now = self.run(number).bits;
            let fits = |bits: u32| {
                let slots = Run { offset: 0, bits, crowded: false }.slots(self.shape);
                tally.items as f64 <= SHRUNK * slots as f64
            };
            let Some(least) = (0..now).find(|&bits| fits(bits)) else { continue };
            for bits in least..now {
                match self.rebuild(number, &mut tally, bits, &self.heap.pin()) {
                    // Colliding keys need more room than their number suggests.
                    Err(Unbuilt::NoPlace) => {}
                    done => {
                        done?;
                        smaller = true;
                        break;
                    }
                }
            }
        }
        Ok(smaller)
    }
}
