//! What the CPU writes to a table that a device keeps copies of, or has a mirror of.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::gpu::params::Told;

/// Notes beyond this are not kept one by one: then everything that has a copy is copied again.
const MANY: usize = 1 << 16;
/// Items beyond this are not kept one by one: then the mirror is given up, until somebody makes it anew.
const MANY_ITEMS: usize = 1 << 20;

/// Between a table and the engine that has copies of its buckets: who writes with the CPU notes here what changes, and the engine
/// copies it again before it reads.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Somebody reads them.
    watched: AtomicBool,
    /// Somebody has a mirror.
    mirrored: AtomicBool,
    /// How often the levels have changed.
    generation: AtomicU64,
    changed: Mutex<Changed>,
}

/// What was changed since the engine last looked.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    offsets: Vec<u64>,
    all: bool,
    /// What keys have been given, in this order.
    told: Vec<Told>,
    too_much: bool,
    /// Words that have changed, for whoever has copies of whole levels.
    states: Vec<u64>,
    all_states: bool,
    watched: bool,
    mirrored: bool,
}

impl Notes {
    /// To be held from before words are stored until they are in the image, by whoever stores them with the CPU; `None` if nobody has
    /// copies of them.
    pub(crate) fn noting(&self) -> Option<MutexGuard<'_, Changed>> {
        let anybody = self.watched.load(Ordering::Acquire) || self.mirrored.load(Ordering::Acquire);
        anybody.then(|| self.changed())
    }

    pub(in crate::gpu) fn changed(&self) -> MutexGuard<'_, Changed> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The levels are about to change: copies of their buckets are of no use from now on.
    pub(crate) fn levels_change(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    pub(in crate::gpu) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Begins or ends to take notes. Nobody writes meanwhile.
    pub(super) fn watch(&self, watched: bool) {
        let mut changed = self.changed();
        changed.clear();
        changed.watched = watched;
        self.watched.store(watched, Ordering::Release);
    }

    /// The same, of what keys have.
    pub(in crate::gpu) fn mirror(&self, mirrored: bool) {
        let mut changed = self.changed();
        (changed.told, changed.too_much, changed.mirrored) = (Vec::new(), false, mirrored);
        // What was written before nobody has noted.
        (changed.states, changed.all_states) = (Vec::new(), true);
        self.mirrored.store(mirrored, Ordering::Release);
    }
}

impl Changed {
    /// A word changes: the state of a slot, or what commits its item.
    pub(crate) fn note(&mut self, offset: u64) {
        if self.offsets.len() >= MANY {
            (self.offsets, self.all) = (Vec::new(), true);
        }
        if self.watched && !self.all {
            self.offsets.push(offset);
        }
        if self.states.len() >= MANY {
            (self.states, self.all_states) = (Vec::new(), true);
        }
        // Who has copies of levels has a mirror, too.
        if self.mirrored && !self.all_states {
            self.states.push(offset);
        }
    }

    /// A key has another record, or none.
    pub(crate) fn tell(&mut self, hash: u64, record: Option<u64>) {
        if self.told.len() >= MANY_ITEMS {
            (self.told, self.too_much) = (Vec::new(), true);
        }
        if self.mirrored && !self.too_much {
            self.told.push(Told { hash, record: record.unwrap_or_default() });
        }
    }

    /// What keys have been given since this was last asked, each key once; `None` if that is too much to say.
    pub(in crate::gpu) fn take_told(&mut self) -> Option<Vec<Told>> {
        if self.too_much {
            return None;
        }
        let mut told = std::mem::take(&mut self.told);
        // The last one counts. Stable, so that it is the last of those with the same hash.
        told.sort_by_key(|one| one.hash);
        let mut last: Vec<Told> = Vec::with_capacity(told.len());
        for one in told {
            match last.last_mut() {
                Some(before) if before.hash == one.hash => *before = one,
                _ => last.push(one),
            }
        }
        Some(last)
    }

    /// Words that have changed since this was last asked; `None` if they are too many to name.
    pub(in crate::gpu) fn take_states(&mut self) -> Option<Vec<u64>> {
        let states = std::mem::take(&mut self.states);
        (!std::mem::take(&mut self.all_states)).then_some(states)
    }

    /// Puts back what could not be passed on.
    pub(in crate::gpu) fn put_back(&mut self, told: Vec<Told>) {
        let since = std::mem::replace(&mut self.told, told);
        self.told.extend(since);
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

    #[test]
    fn of_a_key_the_last_is_told() {
        let notes = Notes::default();
        notes.mirror(true);
        let mut changed = notes.noting().unwrap();
        changed.note(8);
        assert!(changed.is_empty(), "nobody has copies of slots");
        for (hash, record) in [(7, Some(80)), (5, Some(16)), (7, None), (5, Some(24))] {
            changed.tell(hash, record);
        }
        let told = changed.take_told().unwrap();
        assert_eq!(told, [Told { hash: 5, record: 24 }, Told { hash: 7, record: 0 }]);
        changed.put_back(told);
        changed.tell(5, None);
        assert_eq!(changed.take_told().unwrap()[0], Told { hash: 5, record: 0 });
        for hash in 0..2 * MANY_ITEMS as u64 {
            changed.tell(hash, None);
        }
        assert_eq!(changed.take_told(), None);
    }
}
