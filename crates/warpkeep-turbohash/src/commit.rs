//! The commit word of a bucket: which slots count.
//!
//! | bits | meaning |
//! | --- | --- |
//! | 0..16 | valid: the slot was filled. These decide whether a search continues past a bucket |
//! | 16..32 | deleted: the contents of a valid slot no longer count |
//! | 32..64 | sequence number, one more with each change |
//!
//! A reader trusts what it found in a bucket only if the whole word is the same afterwards. It is not enough that
//! the sequence number has moved by less than two: a removal is one change, and a writer that then reuses the slot
//! makes no change before its own commit.

/// The word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Commit(pub(crate) u64);

/// The marks of the slots, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) valid: u16,
    pub(crate) deleted: u16,
}

impl Commit {
    /// The marks of a bucket with `slots` slots. Bits beyond the last slot are masked out: only damage sets them.
    #[inline]
    pub(crate) fn marks(self, slots: usize) -> Marks {
        let within = all(slots);
        Marks { valid: self.0 as u16 & within, deleted: (self.0 >> 16) as u16 & within }
    }

    /// Which of `slots` slots have an item.
    #[inline]
    pub(crate) fn live(self, slots: usize) -> u16 {
        self.marks(slots).live()
    }

    /// Its fault, if a table with this number of slots a bucket never stores such a word. Opening a table checks
    /// every bucket, so that writers can rely on the spare slot.
    pub(crate) fn fault(self, slots: usize) -> Option<&'static str> {
        let marks = self.marks(slots);
        if (self.0 | self.0 >> 16) as u16 & !all(slots) != 0 {
            Some("it names a slot beyond the last")
        } else if marks.deleted & !marks.valid != 0 {
            Some("it marks a slot as deleted that was never filled")
        } else if marks.valid.count_ones() as usize >= slots {
            Some("it leaves no slot to spare")
        } else {
            None
        }
    }

    /// The word after this one.
    pub(crate) fn next(self, marks: Marks) -> Commit {
        let sequence = ((self.0 >> 32) as u32).wrapping_add(1);
        Commit(u64::from(marks.valid) | u64::from(marks.deleted) << 16 | u64::from(sequence) << 32)
    }
}

impl Marks {
    /// Slots with an item.
    #[inline]
    pub(crate) fn live(self) -> u16 {
        self.valid & !self.deleted
    }

    /// Slots, of `slots`, that were never filled.
    #[inline]
    pub(crate) fn empty(self, slots: usize) -> u16 {
        !self.valid & all(slots)
    }

    /// Whether a search ends here: a new key would be put here at the latest. One slot is kept empty for updates.
    #[inline]
    pub(crate) fn has_room(self, slots: usize) -> bool {
        (self.valid.count_ones() as usize) + 1 < slots
    }
}

/// A bit for each of `slots` slots, at most 16.
#[inline]
fn all(slots: usize) -> u16 {
    ((1_u32 << slots) - 1) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let marks = Marks { valid: 0b1011, deleted: 0b0010 };
        let word = Commit(u64::from(u32::MAX) << 32).next(marks);
        assert_eq!(word.0, 0b0010 << 16 | 0b1011, "the sequence number wraps without harm");
        assert_eq!((word.marks(14), word.live(14)), (marks, 0b1001));
        assert_ne!(word, word.next(marks));
        assert_eq!(word.fault(14), None);
    }

    #[test]
    fn bits_beyond_the_last_slot_name_no_slot_and_are_faults() {
        for (slots, bit) in [9, 14].into_iter().flat_map(|slots| (slots..16).map(move |bit| (slots, bit))) {
            for word in [Commit(1 << bit), Commit(1 << (16 + bit)), Commit(0x1_0001 << bit)] {
                assert_eq!(word.marks(slots), Marks::default());
                assert!(word.fault(slots).is_some_and(|fault| fault.contains("beyond")), "{word:?}");
            }
        }
        assert!(Commit(1 << 16).fault(14).is_some(), "deleted and never filled");
        assert!(Commit(0x3fff).fault(14).is_some() && Commit(0x1fff).fault(14).is_none());
        assert!(Commit(u64::MAX << 32).fault(9).is_none(), "any sequence number is one");
    }

    #[test]
    fn room_is_for_one_more_and_the_spare() {
        let with = |valid| Marks { valid, deleted: 0 };
        assert!(with((1 << 12) - 1).has_room(14) && !with((1 << 13) - 1).has_room(14));
        assert_eq!(with((1 << 13) - 1).empty(14), 1 << 13);
        // A deleted slot keeps searches going.
        assert!(!Marks { valid: (1 << 13) - 1, deleted: 1 }.has_room(14));
    }
}
