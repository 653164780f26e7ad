//! The operation of a batch.

use std::fmt;
use std::str::FromStr;

/// The operation of a whole batch.
///
/// ```
/// use warpkeep_bench::device::Operation;
///
/// assert_eq!("absent".parse(), Ok(Operation::AbsentGet));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Gets of keys that are there.
    Get,
    /// Gets of keys that are not.
    AbsentGet,
    /// Whether existing keys exist: gets without values. Not through the library.
    Locate,
    /// Puts of new keys.
    Insert,
    /// Puts of keys that are there.
    Update,
    /// Deletes of keys that are there.
    Delete,
}

impl Operation {
    /// All of them.
    pub const ALL: [Operation; 6] = [
        Operation::Get,
        Operation::AbsentGet,
        Operation::Locate,
        Operation::Insert,
        Operation::Update,
        Operation::Delete,
    ];

    /// Its name as people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Get => "get",
            Operation::AbsentGet => "absent",
            Operation::Locate => "locate",
            Operation::Insert => "insert",
            Operation::Update => "update",
            Operation::Delete => "delete",
        }
    }

    /// Whether it only reads.
    pub const fn only_reads(self) -> bool {
        matches!(self, Operation::Get | Operation::AbsentGet | Operation::Locate)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Operation::AbsentGet => "absent get",
            other => other.name(),
        })
    }
}

impl FromStr for Operation {
    type Err = String;

    fn from_str(text: &str) -> Result<Operation, String> {
        let found = Operation::ALL.into_iter().find(|operation| operation.name() == text);
        found.ok_or_else(|| {
            format!("`{text}` is no operation; there are: get, absent, locate, insert, update, delete")
        })
    }
}
