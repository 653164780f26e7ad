//! Operations on one key.

use std::fmt;

use crate::CoreError;

/// One operation on one key.
///
/// The codes are shared with kernels and never change; 0 is not an operation, so that unfilled memory is detected.
///
/// | | the key exists | the key is absent | value | argument | answers with a value |
/// | --- | --- | --- | --- | --- | --- |
/// | `Get` | reads it | [`NotFound`] | | | the stored value |
/// | `Put` | replaces the value | creates it | yes | | |
/// | `Insert` | [`AlreadyExists`] | creates it | yes | | |
/// | `Update` | replaces the value | [`NotFound`] | yes | | |
/// | `Delete` | removes it | [`NotFound`] | | | |
/// | `CompareAndSwap` | replaces the value if the version is the argument, else [`VersionMismatch`] | [`NotFound`] | yes | expected version | |
/// | `FetchAdd` | adds the argument, wrapping, to a value of 8 bytes, else [`WrongType`] | starts from 0 | | the addend | the previous value, 8 bytes |
/// | `Merge` | combines both values by the table's merge rule | creates it with the given value | yes | | |
///
/// [`NotFound`]: crate::Status::NotFound
/// [`AlreadyExists`]: crate::Status::AlreadyExists
/// [`VersionMismatch`]: crate::Status::VersionMismatch
/// [`WrongType`]: crate::Status::WrongType
///
/// ```
/// use warpkeep_core::Op;
/// assert_eq!(Op::try_from(2), Ok(Op::Put));
/// assert!(Op::try_from(0).is_err());
/// assert!(Op::Put.takes_value() && !Op::Get.writes());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Op {
    /// Read the value.
    Get = 1,
    /// Store the value, whether the key is there or not.
    Put = 2,
    /// Store the value if the key is not there.
    Insert = 3,
    /// Store the value if the key is there.
    Update = 4,
    /// Remove the key.
    Delete = 5,
    /// Store the value if the key's version is the argument.
    CompareAndSwap = 6,
    /// Add the argument to the 8-byte value and answer with the previous value.
    FetchAdd = 7,
    /// Combine the given value with the stored one.
    Merge = 8,
}

impl Op {
    /// Every operation, in the order of the codes.
    pub const ALL: [Op; 8] =
        [Op::Get, Op::Put, Op::Insert, Op::Update, Op::Delete, Op::CompareAndSwap, Op::FetchAdd, Op::Merge];

    /// The code shared with kernels.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Whether it can change the table.
    pub const fn writes(self) -> bool {
        !matches!(self, Op::Get)
    }

    /// Whether it comes with a value.
    pub const fn takes_value(self) -> bool {
        matches!(self, Op::Put | Op::Insert | Op::Update | Op::CompareAndSwap | Op::Merge)
    }

    /// Whether it comes with an argument: an expected version, or an addend.
    pub const fn takes_argument(self) -> bool {
        matches!(self, Op::CompareAndSwap | Op::FetchAdd)
    }

    /// Whether its answer holds a value when it succeeds.
    pub const fn answers_value(self) -> bool {
        matches!(self, Op::Get | Op::FetchAdd)
    }

    /// Its name as people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Get => "get",
            Op::Put => "put",
            Op::Insert => "insert",
            Op::Update => "update",
            Op::Delete => "delete",
            Op::CompareAndSwap => "compare-and-swap",
            Op::FetchAdd => "fetch-add",
            Op::Merge => "merge",
        }
    }
}

impl TryFrom<u8> for Op {
    type Error = CoreError;

    fn try_from(code: u8) -> Result<Op, CoreError> {
        match code.checked_sub(1).and_then(|i| Op::ALL.get(usize::from(i))) {
            Some(op) => Ok(*op),
            None => Err(CoreError::UnknownOp { code }),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_pinned_and_round_trip() {
        let codes: Vec<u8> = Op::ALL.iter().map(|op| op.code()).collect();
        assert_eq!(codes, [1, 2, 3, 4, 5, 6, 7, 8]);
        for code in 0..=u8::MAX {
            match Op::try_from(code) {
                Ok(op) => assert_eq!(op.code(), code),
                Err(e) => {
                    assert!(!(1..=8).contains(&code));
                    assert_eq!(e, CoreError::UnknownOp { code });
                }
            }
        }
    }

    #[test]
    fn only_get_leaves_the_table_alone() {
        for op in Op::ALL {
            assert_eq!(op.writes(), op != Op::Get);
            assert!(op.writes() || !(op.takes_value() || op.takes_argument()));
        }
    }
}
