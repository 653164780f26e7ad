//! The effect of a write: the unit of logs and checkpoints.

/// What a change did to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// The key has this value now.
    Put,
    /// The key is gone.
    Delete,
}

/// The effect of one operation on one key: what is logged, checkpointed, and replayed.
///
/// A change states the outcome, not the operation, so it can be replayed any number of times: replay keeps the
/// change with the larger version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// The table it belongs to; 0 is the catalogue.
    pub table: u32,
    /// Put or delete.
    pub kind: ChangeKind,
    /// Grows with every change of the key; drawn while the key's writers are serialised.
    pub version: u64,
    /// The key.
    pub key: &'a [u8],
    /// The value; empty for a delete.
    pub value: &'a [u8],
}
