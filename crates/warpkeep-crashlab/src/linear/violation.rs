//! The results of a check.

use std::fmt;

use super::history::Operation;

/// The extent of a successful check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Histories, each of one key.
    pub keys: usize,
    /// Operations in them.
    pub operations: usize,
    /// Configurations visited: sets of operations done, with the state after them.
    pub places: usize,
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Checked { keys, operations, places } = self;
        write!(f, "{operations} operations on {keys} keys, {places} places searched")
    }
}

/// A history that no order explains, shrunk to the operations that show it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", self.subject())]
pub struct NotLinearizable {
    /// The key, if known.
    pub key: Option<Vec<u8>>,
    /// How many operations the whole history has.
    pub of: usize,
    /// The reason.
    pub(crate) reason: Reason,
}

/// Why a history did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// No order explains these.
    Unexplained {
        operations: Vec<Operation>,
        /// Whether they are all that happened until then, so that the key was not there before them.
        from_start: bool,
        /// As many of them as an order explains.
        furthest: Vec<usize>,
    },
    /// There were too many orders to try.
    Undecided { places: usize },
}

impl NotLinearizable {
    /// The operations that cannot be explained together; empty if it could not be decided.
    pub fn operations(&self) -> &[Operation] {
        match &self.reason {
            Reason::Unexplained { operations, .. } => operations,
            Reason::Undecided { .. } => &[],
        }
    }

    /// Whether the search gave up.
    pub fn is_undecided(&self) -> bool {
        matches!(self.reason, Reason::Undecided { .. })
    }

    fn subject(&self) -> String {
        let key = self.key.as_ref().map_or("a key".to_owned(), |key| format!("key {key:02x?}"));
        format!("{key}, {} operations", self.of)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operations, from_start, furthest) = match self {
            Reason::Undecided { places } => {
                return write!(
                    f,
                    "not decided after {places} places; give it shorter histories, or fewer threads to a key"
                );
            }
            Reason::Unexplained { operations, from_start, furthest } => (operations, from_start, furthest),
        };
        let before = if *from_start { "the key was not there before" } else { "whatever was there before" };
        write!(f, "no order explains these {} of them, {before}:", operations.len())?;
        for (number, operation) in operations.iter().enumerate() {
            write!(f, "\n  {number:>3}. {operation}")?;
        }
        match furthest.is_empty() {
            true => write!(f, "\n  none of them can be the first"),
            false => write!(f, "\n  an order gets as far as {furthest:?}, and no other fits next"),
        }
    }
}
