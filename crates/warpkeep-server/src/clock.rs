//! CLOCK: which items were asked for of late, and which may go to make room.
//!
//! Every key has a byte, which several keys may share: a read sets it. A hand goes round over the items; an item whose
//! byte is set has it cleared and stays, another goes.

use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use warpkeep::{ScanPosition, Table};

use crate::keyspace::Keyspace;

/// Bytes of memory an item may have, for the number of marks: keys that share one stay longer than they should.
const BYTES_A_MARK: u64 = 64;
/// Slices of the table that are looked at for an item of a certain size.
const SLICES: usize = 256;
/// Items that make room for one of their size. More than one: freed records are used again only after a moment.
const AT_ONCE: usize = 16;

/// Who was asked for of late.
pub(crate) struct Clock {
    marks: Box<[AtomicU8]>,
    hand: Mutex<ScanPosition>,
}

impl Clock {
    /// For items that take so many bytes in all.
    pub(crate) fn new(bytes: u64) -> Clock {
        let marks = (bytes / BYTES_A_MARK).next_power_of_two().clamp(1 << 16, 1 << 30);
        Clock { marks: (0..marks).map(|_| AtomicU8::new(0)).collect(), hand: Mutex::default() }
    }

    fn mark(&self, hash: u64) -> &AtomicU8 {
        &self.marks[hash as usize & (self.marks.len() - 1)]
    }

    /// The key with this hash was asked for.
    #[inline]
    pub(crate) fn note(&self, hash: u64) {
        let mark = self.mark(hash);
        // A line that is only read can be in many caches.
        if mark.load(Ordering::Relaxed) == 0 {
            mark.store(1, Ordering::Relaxed);
        }
    }

    /// Moves the hand on by a slice of the table, and gives the items that may go to `each`, with the bytes they take.
    fn turn(
        &self,
        keyspace: &Keyspace<'_>,
        table: &Table<'_>,
        mut each: impl FnMut(&[u8], usize),
    ) -> Result<(), warpkeep::Error> {
        let mut position = *self.hand.lock();
        let more = table.scan_some(&mut position, |item| {
            if self.mark(keyspace.hash(item.key)).swap(0, Ordering::Relaxed) == 0 {
                each(item.key, item.key.len() + item.value.len());
            }
        })?;
        *self.hand.lock() = if more { position } else { ScanPosition::default() };
        Ok(())
    }

    /// Throws items away that take about `len` bytes each, so that another of that size finds room.
    pub(crate) fn evict_like(&self, keyspace: &Keyspace<'_>, table: &Table<'_>, len: usize) {
        let class = |len: usize| warpkeep_image::size_class(len as u64 + 32);
        let mut gone = 0;
        for slice in 0..SLICES {
            let mut victims: Vec<Vec<u8>> = Vec::new();
            // Later, those of any size: it may be slots that are missing.
            let turned = self.turn(keyspace, table, |key, bytes| {
                if class(bytes) == class(len) || slice > SLICES / 2 {
                    victims.push(key.to_vec());
                }
            });
            if let Err(error) = turned {
                return tracing::warn!(%error, "no room could be made");
            }
            gone += self.throw_away(keyspace, table, &victims);
            if gone >= AT_ONCE {
                break;
            }
        }
        warpkeep_gphash::hasten_freeing();
    }

    /// Throws items away that take about `bytes` in all; gives how many.
    pub(crate) fn evict(&self, keyspace: &Keyspace<'_>, mut bytes: u64) -> usize {
        let mut gone = 0;
        // Twice round at the most: the first may only clear marks.
        for _ in 0..SLICES {
            let table = keyspace.table();
            let mut victims: Vec<Vec<u8>> = Vec::new();
            let mut freed = 0;
            let turned = self.turn(keyspace, &table, |key, len| {
                if freed < bytes {
                    freed += len as u64 + 32;
                    victims.push(key.to_vec());
                }
            });
            if let Err(error) = turned {
                tracing::warn!(%error, "no room could be made");
                break;
            }
            gone += self.throw_away(keyspace, &table, &victims);
            bytes = bytes.saturating_sub(freed);
            if bytes == 0 {
                break;
            }
        }
        warpkeep_gphash::hasten_freeing();
        gone
    }

    fn throw_away(&self, keyspace: &Keyspace<'_>, table: &Table<'_>, victims: &[Vec<u8>]) -> usize {
        let mut gone = 0;
        for key in victims {
            match keyspace.evict(table, key) {
                Ok(done) => gone += usize::from(done),
                Err(error) => tracing::warn!(%error, "an item could not be thrown away"),
            }
        }
        keyspace.evicted.fetch_add(gone as u64, Ordering::Relaxed);
        gone
    }
}
