//! The commit word of a bucket: which slots count.
//!
//! | bits | what |
//! | --- | --- |
//! | 0..16 | valid: the slot was filled. A search goes on past a bucket by these |
//! | 16..32 | deleted: what is in a valid slot does not count any more |
//! | 32..64 | sequence number, one more with each change |
//!
//! A reader believes what it found in a bucket only if the whole word is the same afterwards. It is not enough that the
//! sequence number has moved by less than two: a removal is one change, and whoever then writes over the slot makes
//! none before its own commit.

/// The word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Commit(pub(crate) u64);

/// What the word says about slots, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) valid: u16,
    pub(crate) deleted: u16,
}

impl Commit {
    pub(crate) fn marks(self) -> Marks {
        Marks { valid: self.0 as u16, deleted: (self.0 >> 16) as u16 }
    }

    /// Slots with an item.
    #[inline]
    pub(crate) fn live(self) -> u16 {
        self.marks().live()
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

    /// Slots, of so many, that nothing was ever put into.
    #[inline]
    pub(crate) fn empty(self, slots: usize) -> u16 {
        !self.valid & ((1_u32 << slots) - 1) as u16
    }

    /// Whether a search ends here: a new key would be put here at the latest. One slot is kept empty for updates.
    #[inline]
    pub(crate) fn has_room(self, slots: usize) -> bool {
        (self.valid.count_ones() as usize) + 1 < slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let marks = Marks { valid: 0b1011, deleted: 0b0010 };
        let word = Commit(u64::from(u32::MAX) << 32).next(marks);
        assert_eq!(word.0, 0b0010 << 16 | 0b1011, "the sequence number wraps, and harms nobody");
        assert_eq!((word.marks(), word.live()), (marks, 0b1001));
        assert_ne!(word, word.next(marks));
    }

    #[test]
    fn room_is_for_one_more_and_the_spare() {
        let with = |valid| Marks { valid, deleted: 0 };
        assert!(with((1 << 12) - 1).has_room(14) && !with((1 << 13) - 1).has_room(14));
        assert_eq!(with((1 << 13) - 1).empty(14), 1 << 13);
        // What was deleted keeps searches going.
        assert!(!Marks { valid: (1 << 13) - 1, deleted: 1 }.has_room(14));
    }
}
