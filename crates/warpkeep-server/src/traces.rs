//! When a key was last requested: reported by memcached's `h` and `l` flags, and by `me`.
//!
//! Nothing is recorded until a client asks for the first time, so that other users do not pay for it. From then on
//! about the last million keys are recorded, in memory only.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const SLOTS: usize = 1 << 20;
const FETCHED: u64 = 1 << 31;
const SECONDS: u64 = FETCHED - 1;

/// The records. A slot holds the upper half of a key's hash, whether the key was requested since it was stored, and
/// the time of the last record in seconds, plus one: 0 is an empty slot.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    noted: OnceLock<(Instant, Box<[AtomicU64]>)>,
}

/// The record of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trace {
    /// It was requested since it was stored.
    pub(crate) fetched: bool,
    /// Seconds since it was stored or requested; if unknown, since recording began.
    pub(crate) idle: u64,
}

impl Traces {
    /// Whether anything is noted.
    #[inline]
    pub(crate) fn are_kept(&self) -> bool {
        self.noted.get().is_some()
    }

    /// The record of a key; starts recording.
    pub(crate) fn look(&self, hash: u64) -> Trace {
        let (begun, slots) =
            self.noted.get_or_init(|| (Instant::now(), (0..SLOTS).map(|_| AtomicU64::new(0)).collect()));
        let now = begun.elapsed().as_secs();
        let slot = slots[hash as usize % SLOTS].load(Ordering::Relaxed);
        match slot != 0 && slot >> 32 == hash >> 32 {
            false => Trace { fetched: false, idle: now },
            true => Trace {
                fetched: slot & FETCHED != 0,
                idle: now.saturating_sub((slot & SECONDS).saturating_sub(1)),
            },
        }
    }

    /// Records that a key was requested, or stored anew.
    pub(crate) fn note(&self, hash: u64, fetched: bool) {
        let Some((begun, slots)) = self.noted.get() else { return };
        let seconds = (begun.elapsed().as_secs() + 1) & SECONDS;
        let fetched = if fetched { FETCHED } else { 0 };
        slots[hash as usize % SLOTS].store(hash >> 32 << 32 | fetched | seconds, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_apart_and_remembered_once_somebody_asks() {
        let traces = Traces::default();
        let (first, second) = (1 << 40 | 5, 2 << 40 | 5);
        traces.note(first, true);
        assert!(!traces.are_kept());
        assert_eq!(traces.look(first), Trace::default());
        traces.note(first, true);
        assert!(traces.look(first).fetched);
        // Another key of the same slot is not taken for it.
        assert!(!traces.look(second).fetched);
        traces.note(first, false);
        assert!(!traces.look(first).fetched);
    }
}
