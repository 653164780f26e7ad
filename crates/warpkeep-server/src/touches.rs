//! Changes of keys that are watched while they do not exist: such a key has no version to compare.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

const COUNTERS: usize = 1 << 14;

/// Counts changes while a key is watched, of many keys in one counter.
#[derive(Debug)]
pub(crate) struct Touches {
    watching: Arc<AtomicUsize>,
    counters: Box<[AtomicU32]>,
}

/// Changes are counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Watching(Arc<AtomicUsize>);

impl Touches {
    pub(crate) fn new() -> Touches {
        Touches { watching: Arc::default(), counters: (0..COUNTERS).map(|_| AtomicU32::new(0)).collect() }
    }

    /// From now on changes are counted.
    pub(crate) fn watch(&self) -> Watching {
        self.watching.fetch_add(1, Ordering::SeqCst);
        Watching(Arc::clone(&self.watching))
    }

    /// Whether changes are counted. Checked after a change is made: if false, the change precedes every watch.
    #[inline]
    pub(crate) fn are_counted(&self) -> bool {
        self.watching.load(Ordering::SeqCst) > 0
    }

    /// Counts a change of the key with this hash.
    pub(crate) fn note(&self, hash: u64) {
        self.counters[hash as usize % COUNTERS].fetch_add(1, Ordering::SeqCst);
    }

    /// Changes so far of the key with this hash, and of keys that share its counter.
    pub(crate) fn of(&self, hash: u64) -> u32 {
        self.counters[hash as usize % COUNTERS].load(Ordering::SeqCst)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
