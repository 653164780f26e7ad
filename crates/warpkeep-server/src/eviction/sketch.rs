//! Recent request counts of keys: counters of four bits, which keys share.
//!
//! A key has four counters, all in one cache line, so that a request costs one miss at the most. The estimate is
//! the smallest of them, because the others may include other keys' requests. All counters are halved from time to
//! time, so that old requests count for less.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of memory that an item may have, for each byte of counters.
const BYTES_A_BYTE: u64 = 64;
/// Requests, for each item, after which counters are halved.
const REQUESTS_AN_ITEM: u64 = 12;
/// The largest value of a counter.
const MOST: u64 = 15;

/// A line of memory, 128 counters.
#[repr(align(64))]
#[derive(Default)]
struct Line([AtomicU64; 8]);

/// Counters for all keys.
pub(crate) struct Sketch {
    lines: Box<[Line]>,
    /// Requests since the counters were halved.
    requests: AtomicU64,
}

impl Sketch {
    /// For items that take this many bytes in all.
    pub(crate) fn new(bytes: u64) -> Sketch {
        let lines = (bytes / BYTES_A_BYTE / 64).next_power_of_two().clamp(1 << 10, 1 << 24);
        Sketch { lines: (0..lines).map(|_| Line::default()).collect(), requests: AtomicU64::new(0) }
    }

    /// The four words that a key has counters in, and by how many bits each counter is shifted.
    #[inline]
    fn counters(&self, hash: u64) -> [(&AtomicU64, u32); 4] {
        let line = &self.lines[hash as usize & (self.lines.len() - 1)];
        std::array::from_fn(|number| {
            // Bits that do not choose the line.
            let bits = (hash >> (32 + 8 * number)) as u32;
            (&line.0[2 * number + (bits >> 4 & 1) as usize], 4 * (bits & 15))
        })
    }

    /// Records a request for the key with this hash.
    #[inline]
    pub(crate) fn note(&self, hash: u64) {
        let counters = self.counters(hash).map(|(word, shift)| (word, shift, word.load(Ordering::Relaxed)));
        let count = |(_, shift, word): (&AtomicU64, u32, u64)| word >> shift & MOST;
        let least = counters.map(count).into_iter().min().unwrap_or(MOST);
        // A line that is only read can be in many caches, so saturated counters are not written.
        if least == MOST {
            return;
        }
        for (word, shift, seen) in counters {
            if seen >> shift & MOST == least {
                // If another thread updates the same word at this moment, one of the two counts is lost, which does
                // no harm.
                let _ =
                    word.compare_exchange(seen, seen + (1 << shift), Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    /// An upper bound of the recent requests for the key with this hash.
    pub(crate) fn estimate(&self, hash: u64) -> u8 {
        let counts = self.counters(hash).map(|(word, shift)| word.load(Ordering::Relaxed) >> shift & MOST);
        counts.into_iter().min().unwrap_or(0) as u8
    }

    /// Counts requests.
    pub(crate) fn count(&self, requests: u64) {
        self.requests.fetch_add(requests, Ordering::Relaxed);
    }

    /// Halves all counters if there were enough requests for this many items; whether it did.
    pub(crate) fn age(&self, items: u64) -> bool {
        if self.requests.load(Ordering::Relaxed) < REQUESTS_AN_ITEM * items.max(1 << 10) {
            return false;
        }
        self.requests.store(0, Ordering::Relaxed);
        for word in self.lines.iter().flat_map(|line| &line.0) {
            let seen = word.load(Ordering::Relaxed);
            if seen != 0 {
                word.store(seen >> 1 & 0x7777_7777_7777_7777, Ordering::Relaxed);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpkeep_core::{Seed, hash_bytes};

    fn hash(key: u64) -> u64 {
        hash_bytes(Seed(7), &key.to_le_bytes())
    }

    #[test]
    fn requests_are_counted_and_forgotten() {
        let sketch = Sketch::new(64 << 20);
        for key in 0..100 {
            (0..key).for_each(|_| sketch.note(hash(key)));
        }
        for key in 0..100 {
            assert_eq!(u64::from(sketch.estimate(hash(key))), key.min(MOST), "{key}");
        }
        sketch.count(1 << 20);
        assert!(!sketch.age(1 << 20) && sketch.age(1 << 10) && !sketch.age(1 << 10));
        for key in 0..100 {
            assert_eq!(u64::from(sketch.estimate(hash(key))), key.min(MOST) / 2, "{key}");
        }
    }

    #[test]
    fn keys_of_a_full_sketch_are_rarely_taken_for_others() {
        let sketch = Sketch::new(64 << 20);
        // One key for each 256 bytes, once each.
        (0..1 << 18).for_each(|key| sketch.note(hash(key)));
        let wrong = (0..1 << 18).filter(|&key| sketch.estimate(hash(key)) > 1).count();
        assert!(wrong < 1 << 14, "{wrong} of {} were counted with others", 1 << 18);
    }
}
