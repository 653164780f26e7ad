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
/// Slices of the table that are looked at to make room once.
const SLICES: usize = 256;
/// Items that make room for one of their size. More than one: freed records are used again only after a moment.
const AT_ONCE: u64 = 4;
/// Bytes of a record beside key and value, about.
const HEAD: u64 = 32;

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

    /// Moves the hand on by a slice of the table and notes the items that are to go.
    fn turn(
        &self,
        keyspace: &Keyspace<'_>,
        table: &Table<'_>,
        wanted: &mut Wanted,
    ) -> Result<(), warpkeep::Error> {
        let mut position = *self.hand.lock();
        let more = table.scan_some(&mut position, |item| {
            let len = (item.key.len() + item.value.len()) as u64;
            // Only who may go loses its mark: nobody else has had its turn.
            let goes = wanted.bytes > 0
                && wanted.class.is_none_or(|class| class == class_of(len))
                && self.mark(keyspace.hash(item.key)).swap(0, Ordering::Relaxed) == 0;
            if goes {
                wanted.bytes = wanted.bytes.saturating_sub(len + HEAD);
                wanted.keys.push(item.key.to_vec());
            }
        })?;
        *self.hand.lock() = if more { position } else { ScanPosition::default() };
        Ok(())
    }

    /// Throws items away that take about `len` bytes each, so that another of that size finds room.
    pub(crate) fn evict_like(&self, keyspace: &Keyspace<'_>, table: &Table<'_>, len: u64) {
        let mut wanted =
            Wanted { bytes: AT_ONCE * (len + HEAD), class: Some(class_of(len)), keys: Vec::new() };
        if self.go_round(keyspace, table, &mut wanted) == 0 {
            // It may be slots that are missing, or whole chunks: any item will do.
            wanted = Wanted { bytes: AT_ONCE * (len + HEAD), class: None, keys: Vec::new() };
            self.go_round(keyspace, table, &mut wanted);
        }
    }

    /// Throws items away that take about `bytes` in all.
    pub(crate) fn evict(&self, keyspace: &Keyspace<'_>, bytes: u64) {
        let table = keyspace.table();
        self.go_round(keyspace, &table, &mut Wanted { bytes, class: None, keys: Vec::new() });
    }

    /// Moves the hand on until enough is gone; gives how many items are.
    fn go_round(&self, keyspace: &Keyspace<'_>, table: &Table<'_>, wanted: &mut Wanted) -> u64 {
        let mut gone = 0;
        for _ in 0..SLICES {
            if let Err(error) = self.turn(keyspace, table, wanted) {
                tracing::warn!(%error, "no room could be made");
                break;
            }
            gone += self.throw_away(keyspace, table, &wanted.keys);
            wanted.keys.clear();
            if wanted.bytes == 0 {
                break;
            }
        }
        // What was thrown away can be used again when nobody can see it any more, which takes a few steps.
        (0..4).for_each(|_| warpkeep_gphash::hasten_freeing());
        gone
    }

    fn throw_away(&self, keyspace: &Keyspace<'_>, table: &Table<'_>, victims: &[Vec<u8>]) -> u64 {
        let mut gone = 0;
        for key in victims {
            match keyspace.evict(table, key) {
                Ok(done) => gone += u64::from(done),
                Err(error) => tracing::warn!(%error, "an item could not be thrown away"),
            }
        }
        keyspace.evicted.fetch_add(gone, Ordering::Relaxed);
        gone
    }
}

/// What is to be thrown away.
struct Wanted {
    /// Bytes that are still to go.
    bytes: u64,
    /// Of this size only.
    class: Option<Option<u64>>,
    keys: Vec<Vec<u8>>,
}

/// The size of the block that an item takes.
fn class_of(len: u64) -> Option<u64> {
    warpkeep_image::size_class(len + HEAD)
}
