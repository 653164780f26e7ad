//! The contents a server has acknowledged: for each key the number of the last acknowledged write.
//!
//! Each key is written by one connection alone, whose writes are numbered upwards, so that a later write of a key
//! has the larger number and a get can be checked against the writes acknowledged before it was sent.

use std::sync::atomic::{AtomicU32, Ordering};

/// The state of the key is unknown: other programs may have written it.
pub(super) const UNKNOWN: u32 = 0;
/// A write failed, so that the key may be gone or hold any of its values.
pub(super) const DOUBTFUL: u32 = u32::MAX;

/// The last acknowledged write of every key.
#[derive(Debug)]
pub(super) struct Ledger(Vec<AtomicU32>);

impl Ledger {
    pub(super) fn new(items: usize) -> Ledger {
        Ledger((0..items).map(|_| AtomicU32::new(UNKNOWN)).collect())
    }

    /// The last write that was acknowledged.
    #[inline]
    pub(super) fn acknowledged(&self, number: u32) -> u32 {
        self.0[number as usize].load(Ordering::Acquire)
    }

    /// A write was acknowledged.
    #[inline]
    pub(super) fn acknowledge(&self, number: u32, write: u32) {
        self.0[number as usize].store(write, Ordering::Release);
    }

    /// A write failed.
    pub(super) fn doubt(&self, number: u32) {
        self.0[number as usize].store(DOUBTFUL, Ordering::Release);
    }
}

/// The number after this one, skipping the reserved ones.
#[inline]
pub(super) fn next_write(write: u32) -> u32 {
    match write.wrapping_add(1) {
        UNKNOWN | DOUBTFUL => 1,
        next => next,
    }
}

/// Whether a value is older than the acknowledged one. Numbers may have wrapped, so their distance decides.
#[inline]
pub(super) fn is_stale(found: u32, acknowledged: u32) -> bool {
    !matches!(acknowledged, UNKNOWN | DOUBTFUL) && (found.wrapping_sub(acknowledged) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_writes_are_not_stale() {
        assert!(is_stale(4, 5) && !is_stale(5, 5) && !is_stale(6, 5));
        assert!(!is_stale(1, UNKNOWN) && !is_stale(1, DOUBTFUL));
        let last = DOUBTFUL - 1;
        assert_eq!((next_write(7), next_write(last)), (8, 1));
        assert!(!is_stale(1, last) && is_stale(last, 1));
    }
}
