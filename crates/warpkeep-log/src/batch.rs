//! A batch of changes, ready to be logged.

use warpkeep_core::Change;

use crate::change::{self, Changes};
use crate::error::LogError;

/// Changes encoded into one buffer, to be appended as one record: all of them survive, or none.
///
/// ```
/// use warpkeep_core::{Change, ChangeKind};
/// use warpkeep_log::ChangeBatch;
///
/// let mut batch = ChangeBatch::new();
/// batch.push(&Change { table: 1, kind: ChangeKind::Put, version: 7, key: b"warp", value: b"weft" })?;
/// assert_eq!(batch.len(), 1);
/// assert_eq!(batch.iter().next().unwrap().value, b"weft");
/// batch.clear(); // keeps its memory for the next batch
/// assert!(batch.is_empty());
/// # Ok::<(), warpkeep_log::LogError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ChangeBatch {
    bytes: Vec<u8>,
    count: u32,
}

impl ChangeBatch {
    /// An empty batch.
    pub fn new() -> ChangeBatch {
        ChangeBatch::default()
    }

    /// Adds a change after the others. If it cannot be encoded the batch stays as it was.
    pub fn push(&mut self, change: &Change<'_>) -> Result<(), LogError> {
        let count = self.count.checked_add(1);
        let count = count.ok_or(LogError::TooLong { what: "a batch", len: u64::from(self.count) + 1 })?;
        change::encode(change, &mut self.bytes)?;
        self.count = count;
        Ok(())
    }

    /// Forgets the changes, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    /// How many changes there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The encoded changes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The changes, in the order they were pushed.
    pub fn iter(&self) -> Changes<'_> {
        Changes::trusted(&self.bytes, self.len())
    }
}

impl<'a> IntoIterator for &'a ChangeBatch {
    type Item = Change<'a>;
    type IntoIter = Changes<'a>;

    fn into_iter(self) -> Changes<'a> {
        self.iter()
    }
}
