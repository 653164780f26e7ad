//! CLOCK: which items were recently requested, and which may be evicted.
//!
//! Every key has a mark byte, which several keys may share; a request sets it. A hand cycles over the items: an
//! item with a set mark has it cleared and stays, any other is evicted.

use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use warpkeep::{ScanPosition, Table};

use crate::keyspace::Keyspace;

/// Bytes of memory per mark: keys that share a mark stay longer than they should.
const BYTES_A_MARK: u64 = 64;
/// Slices of the table that are looked at to make room once.
const SLICES: usize = 8;
/// Items that go at once, at the most.
const AT_ONCE: usize = 8;
/// Bytes of a record beside key and value, about.
const HEAD: u64 = 32;

/// Which keys were recently requested.
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

    /// Records a request for the key with this hash.
    #[inline]
    pub(crate) fn note(&self, hash: u64) {
        let mark = self.mark(hash);
        // A line that is only read can be in many caches.
        if mark.load(Ordering::Relaxed) == 0 {
            mark.store(1, Ordering::Relaxed);
        }
    }

    /// Whether the hand, passing this key, evicts its item.
    pub(super) fn goes(&self, hash: u64) -> bool {
        self.mark(hash).swap(0, Ordering::Relaxed) == 0
    }

    /// Whether the key with this hash was requested since the hand last passed, as a number.
    pub(super) fn peek(&self, hash: u64) -> u8 {
        self.mark(hash).load(Ordering::Relaxed)
    }

    /// Moves the hand on until it has found some victims; returns their keys and about how many bytes they take. If
    /// lengths are given, only items that take as much space as one with a key and a value of these lengths.
    pub(super) fn victims(
        &self,
        keyspace: &Keyspace<'_>,
        table: &Table,
        like: Option<(usize, usize)>,
    ) -> Result<(Vec<Vec<u8>>, u64), warpkeep::Error> {
        let class = like.map(|(key, value)| class_of((key + value) as u64));
        let (mut keys, mut bytes) = (Vec::new(), 0);
        for _ in 0..SLICES {
            let mut position = *self.hand.lock();
            let more = table.scan_some(&mut position, |item| {
                let len = (item.key.len() + item.value.len()) as u64;
                // Only eligible items lose their mark: for the others the hand has not passed.
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
