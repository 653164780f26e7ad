//! CLOCK: which items were asked for of late, and which may go to make room.
//!
//! Every key has a byte, which several keys may share: a request sets it. A hand goes round over the items; an item whose
//! byte is set has it cleared and stays, another goes.

use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use warpkeep::{ScanPosition, Table};

use crate::keyspace::Keyspace;

/// Bytes of memory an item may have, for the number of marks: keys that share one stay longer than they should.
const BYTES_A_MARK: u64 = 64;
/// Slices of the table that are looked at to make room once.
const SLICES: usize = 8;
/// Items that go at once, at the most.
const AT_ONCE: usize = 8;
/// Bytes of a record beside key and value, about.
const HEAD: u64 = 32;

/// Which keys were asked for of late.
pub(crate) struct Clock {
    marks: Box<[AtomicU8]>,
    hand: Mutex<ScanPosition>,
}

impl Clock {
    /// For items that take this many bytes in all.
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

    /// Whether the hand, which comes by, has the item of this key go.
    pub(super) fn goes(&self, hash: u64) -> bool {
        self.mark(hash).swap(0, Ordering::Relaxed) == 0
    }

    /// Whether the key with this hash was asked for since the hand came by, as a number.
    pub(super) fn peek(&self, hash: u64) -> u8 {
        self.mark(hash).load(Ordering::Relaxed)
    }

    /// Moves the hand on until some items are to go; gives their keys, and the bytes that they take, about. Only those that take as
    /// much space as an item with a key and a value of these lengths, if any.
    pub(super) fn victims(
        &self,
        keyspace: &Keyspace<'_>,
        table: &Table<'_>,
        like: Option<(usize, usize)>,
    ) -> Result<(Vec<Vec<u8>>, u64), warpkeep::Error> {
        let class = like.map(|(key, value)| class_of((key + value) as u64));
        let (mut keys, mut bytes) = (Vec::new(), 0);
        for _ in 0..SLICES {
            let mut position = *self.hand.lock();
            let more = table.scan_some(&mut position, |item| {
                let len = (item.key.len() + item.value.len()) as u64;
                // Only what may go loses its mark: for the others the hand has not come by.
                let goes = keys.len() < AT_ONCE
                    && class.is_none_or(|class| class == class_of(len))
                    && self.goes(keyspace.hash(item.key));
                if goes {
                    bytes += len + HEAD;
                    keys.push(item.key.to_vec());
                }
            })?;
            *self.hand.lock() = if more { position } else { ScanPosition::default() };
            if keys.len() >= AT_ONCE {
                break;
            }
        }
        Ok((keys, bytes))
    }
}

/// The size of the block that an item takes.
fn class_of(len: u64) -> Option<u64> {
    warpkeep_image::size_class(len + HEAD)
}
