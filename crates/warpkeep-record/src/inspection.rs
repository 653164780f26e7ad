//! The results of inspecting a table.

/// The results of inspecting a table that is not in use: every item must be where a search finds it, and only
/// there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Items in it.
    pub items: u64,
    /// Slots that were being filled when the last holder stopped; the next opening empties them.
    pub unfinished: u64,
    /// Slots marked as deleted, in an index that has such.
    pub deleted: u64,
    /// Items that were being moved when the last holder stopped; the next opening finishes it.
    pub moving: u64,
    /// Items that a search for their key does not reach, or whose key does not match their hash: damage.
    pub misplaced: u64,
    /// Items whose key exists twice: damage.
    pub doubled: u64,
}

impl Inspection {
    /// Whether there is no damage.
    pub fn is_clean(&self) -> bool {
        self.misplaced == 0 && self.doubled == 0
    }
}
