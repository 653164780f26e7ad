//! Plans: the state of a bucket once the changes staged so far are published.
//!
//! Changes of one stage may meet in a bucket and depend on each other: there is one spare slot for updates, and a
//! key goes past a bucket that other keys of the same stage have filled. So changes are published in waves, all
//! slots of a wave before its commit words, and its commit words before the next wave. Nearly always there is one.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::commit::{Commit, Marks};

/// The plan of one bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// As they will be.
    pub(crate) marks: Marks,
    /// The wave of the last change.
    pub(crate) wave: u32,
    /// Slots that already count in this wave, or do so until it is over: they must not be written before the next.
    busy: u16,
    /// Whether a search ends here before the stage is published.
    had_room: bool,
}

impl Plan {
    pub(crate) fn new(commit: Commit, slots: usize) -> Plan {
        let marks = commit.marks(slots);
        Plan { marks, wave: 0, busy: 0, had_room: marks.has_room(slots) }
    }

    /// The first wave in which a key can be put behind this bucket, which will be full.
    pub(crate) fn passable_from(&self) -> u32 {
        if self.had_room { self.wave + 1 } else { 0 }
    }

    /// No change before this wave.
    pub(crate) fn not_before(&mut self, wave: u32) {
        if wave > self.wave {
            self.wave = wave;
            self.busy = 0;
        }
    }

    /// A slot of these to be filled, in this wave if possible; `None` of none.
    fn pick(&mut self, among: u16) -> Option<usize> {
        if among == 0 {
            return None;
        }
        if among & !self.busy == 0 {
            self.not_before(self.wave + 1);
        }
        Some((among & !self.busy).trailing_zeros() as usize)
    }

    /// A slot for another version of an item. There is one, unless the bucket was damaged since the table was opened.
    pub(crate) fn update(&mut self, slots: usize, old: usize) -> Option<usize> {
        let new = self.pick(self.marks.empty(slots))?;
        self.marks.valid = self.marks.valid & !(1 << old) | 1 << new;
        self.busy |= 1 << old | 1 << new;
        Some(new)
    }

    /// A slot for a new item: one whose item was deleted, otherwise one that is empty. There is one if the caller found
    /// the bucket to have room.
    pub(crate) fn insert(&mut self, slots: usize) -> Option<usize> {
        let deleted = self.marks.valid & self.marks.deleted;
        let new = self.pick(if deleted != 0 { deleted } else { self.marks.empty(slots) })?;
        self.marks.valid |= 1 << new;
        self.marks.deleted &= !(1 << new);
        self.busy |= 1 << new;
        Some(new)
    }

    /// Removes an item. If searches end here anyway, its slot becomes empty; otherwise it is marked, because other
    /// items may have gone past.
    pub(crate) fn remove(&mut self, slots: usize, old: usize) {
        match self.marks.has_room(slots) {
            true => self.marks.valid &= !(1 << old),
            false => self.marks.deleted |= 1 << old,
        }
        self.busy |= 1 << old;
    }
}

/// The plans of a stage, by where the bucket lies.
pub(crate) type Plans = HashMap<u64, Plan, BuildHasherDefault<OffsetHasher>>;

/// Offsets are not chosen by attackers, so spreading them is enough.
#[derive(Default)]
pub(crate) struct OffsetHasher(u64);

impl Hasher for OffsetHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, offset: u64) {
        self.0 = (self.0 ^ offset).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: usize = 14;

    fn plan(valid: u16, deleted: u16) -> Plan {
        Plan::new(Commit::default().next(Marks { valid, deleted }), SLOTS)
    }

    #[test]
    fn updates_that_share_the_spare_slot_take_turns() {
        let mut full = plan((1 << 13) - 1, 0);
        assert_eq!((full.update(SLOTS, 0), full.wave), (Some(13), 0));
        assert_eq!((full.update(SLOTS, 1), full.wave), (Some(0), 1), "into the slot that the first one left");
        assert_eq!((full.update(SLOTS, 2), full.wave), (Some(1), 2));
        assert_eq!(full.marks.valid.count_ones(), 13);
        let mut roomy = plan(0b11, 0);
        assert_eq!((roomy.update(SLOTS, 0), roomy.update(SLOTS, 1), roomy.wave), (Some(2), Some(3), 0));
        assert_eq!(plan((1 << 14) - 1, 0).update(SLOTS, 0), None, "damage has taken the spare slot");
    }

    #[test]
    fn a_slot_is_not_used_again_in_the_wave_that_frees_it() {
        let mut full = plan((1 << 13) - 1, 0);
        full.remove(SLOTS, 5);
        assert_eq!(full.marks.deleted, 1 << 5);
        assert_eq!((full.insert(SLOTS), full.wave), (Some(5), 1));
        assert_eq!(full.marks, Marks { valid: (1 << 13) - 1, deleted: 0 });
    }

    #[test]
    fn what_is_filled_now_is_passed_a_wave_later() {
        let mut nearly = plan((1 << 12) - 1, 0);
        assert_eq!(nearly.insert(SLOTS), Some(12));
        assert!(!nearly.marks.has_room(SLOTS));
        assert_eq!(nearly.passable_from(), 1);
        assert_eq!(plan((1 << 13) - 1, 0).passable_from(), 0);
    }

    #[test]
    fn where_searches_end_nothing_need_be_marked() {
        let mut roomy = plan(0b111, 0);
        roomy.remove(SLOTS, 1);
        assert_eq!(roomy.marks, Marks { valid: 0b101, deleted: 0 });
    }
}
