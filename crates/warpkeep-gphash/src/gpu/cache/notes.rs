//! What the CPU writes to a table that a device keeps copies of.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Notes beyond this are not kept one by one: then everything that has a copy is copied again.
const MANY: usize = 1 << 16;

/// Between a table and the engine that has copies of its buckets: who writes with the CPU notes here what changes, and the engine
/// copies it again before it reads.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Somebody reads them.
    watched: AtomicBool,
    /// How often the levels have changed.
    generation: AtomicU64,
    changed: Mutex<Changed>,
}

/// What was changed since the engine last looked.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    offsets: Vec<u64>,
    all: bool,
}

impl Notes {
    /// To be held from before words are stored until they are in the image, by whoever stores them with the CPU; `None` if nobody has
    /// copies of them.
    pub(crate) fn noting(&self) -> Option<MutexGuard<'_, Changed>> {
        self.watched.load(Ordering::Acquire).then(|| self.changed())
    }

    pub(super) fn changed(&self) -> MutexGuard<'_, Changed> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The levels are about to change: copies of their buckets are of no use from now on.
    pub(crate) fn levels_change(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Begins or ends to take notes. Nobody writes meanwhile.
    pub(super) fn watch(&self, watched: bool) {
        *self.changed() = Changed::default();
        self.watched.store(watched, Ordering::Release);
    }
}

impl Changed {
    /// A word changes: the state of a slot, or what commits its item.
    pub(crate) fn note(&mut self, offset: u64) {
        if self.offsets.len() >= MANY {
            *self = Changed { offsets: Vec::new(), all: true };
        }
        if !self.all {
            self.offsets.push(offset);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.all && self.offsets.is_empty()
    }

    /// The words; `None` if they are too many to name.
    pub(super) fn offsets(&self) -> Option<&[u64]> {
        (!self.all).then_some(&self.offsets)
    }

    pub(super) fn clear(&mut self) {
        self.offsets.clear();
        self.all = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_taken_while_somebody_reads_them_and_never_without_end() {
        let notes = Notes::default();
        assert!(notes.noting().is_none());
        notes.watch(true);
        notes.noting().unwrap().note(8);
        assert_eq!(notes.changed().offsets(), Some(&[8][..]));
        for offset in 0..2 * MANY as u64 {
            notes.noting().unwrap().note(offset);
        }
        assert!(notes.changed().offsets().is_none() && !notes.changed().is_empty());
        assert!(notes.changed().offsets.is_empty(), "they take no space then");
        notes.changed().clear();
        assert!(notes.changed().is_empty());
    }
}
