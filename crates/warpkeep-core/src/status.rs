//! The result of one operation.

use std::fmt;

use crate::CoreError;

/// The result of one operation of a batch.
///
/// The codes are shared with kernels and never change. The upper four bits are the [`StatusClass`], so that a
/// kernel or a mask over a whole column can classify answers without a table. 0 is [`Status::Pending`]: in memory
/// that was zeroed before a run, it marks the operations that were never reached.
///
/// ```
/// use warpkeep_core::{Status, StatusClass};
/// assert_eq!(Status::try_from(0x20), Ok(Status::NotFound));
/// assert!(Status::NotFound.is_declined() && !Status::NotFound.is_error());
/// assert_eq!(Status::TableFull.class(), StatusClass::Exhausted);
/// assert_eq!(Status::Corrupt.to_string(), "corrupt");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Status {
    /// No answer yet.
    #[default]
    Pending = 0x00,

    /// Done, and the key existed: found, replaced, removed, swapped, added to, merged into.
    Ok = 0x10,
    /// Done, and the key was not there before.
    Created = 0x11,

    /// Nothing done: the key does not exist.
    NotFound = 0x20,
    /// Nothing done: the key exists already.
    AlreadyExists = 0x21,
    /// Nothing done: the key's version is not the expected one; the answer holds the current version.
    VersionMismatch = 0x22,

    /// Refused: the key or the value is longer than the table takes.
    TooLarge = 0x30,
    /// Refused: the operation does not apply to the stored value, or the table has no merge rule.
    WrongType = 0x31,
    /// Refused: the operation is invalid: an unknown code, or offsets that run backwards. Only batches in
    /// device memory get this far; those in host memory are checked when they are made.
    Malformed = 0x32,

    /// Not done: the table's index has no slot for the key until it has grown.
    TableFull = 0x40,
    /// Not done: no space is left for the value.
    OutOfSpace = 0x41,
    /// Read, but the value does not fit into the rest of the output buffer.
    OutputFull = 0x42,

    /// The stored item is damaged: its checksum does not match.
    Corrupt = 0x50,
    /// The engine stopped before it answered: the operation may or may not have been done.
    Indeterminate = 0x51,
}

/// The class of a [`Status`]: its upper four bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum StatusClass {
    /// No answer yet.
    Pending = 0,
    /// Done.
    Done = 1,
    /// Nothing done because the operation's own condition did not hold: an answer, not an error.
    Declined = 2,
    /// Nothing done, and trying again gives the same.
    Refused = 3,
    /// Nothing done for lack of room; trying again once there is room may succeed.
    Exhausted = 4,
    /// The result is unknown, or the data could not be read.
    Failed = 5,
}

impl Status {
    /// Every status, in the order of the codes.
    pub const ALL: [Status; 14] = [
        Status::Pending,
        Status::Ok,
        Status::Created,
        Status::NotFound,
        Status::AlreadyExists,
        Status::VersionMismatch,
        Status::TooLarge,
        Status::WrongType,
        Status::Malformed,
        Status::TableFull,
        Status::OutOfSpace,
        Status::OutputFull,
        Status::Corrupt,
        Status::Indeterminate,
    ];

    /// The code shared with kernels.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The class of the answer.
    pub const fn class(self) -> StatusClass {
        match self.code() >> 4 {
            0 => StatusClass::Pending,
            1 => StatusClass::Done,
            2 => StatusClass::Declined,
            3 => StatusClass::Refused,
            4 => StatusClass::Exhausted,
            _ => StatusClass::Failed,
        }
    }

    /// Whether the operation was done.
    pub const fn is_ok(self) -> bool {
        matches!(self.class(), StatusClass::Done)
    }

    /// Whether there is no answer yet.
    pub const fn is_pending(self) -> bool {
        matches!(self, Status::Pending)
    }

    /// Whether the operation's own condition did not hold.
    pub const fn is_declined(self) -> bool {
        matches!(self.class(), StatusClass::Declined)
    }

    /// Whether it is an error: refused, exhausted or failed.
    pub const fn is_error(self) -> bool {
        matches!(self.class(), StatusClass::Refused | StatusClass::Exhausted | StatusClass::Failed)
    }

    /// Whether the same operation may succeed once there is room.
    pub const fn is_retryable(self) -> bool {
        matches!(self.class(), StatusClass::Exhausted)
    }

    /// Whether a write with this status may be in the table. False is certain; true is certain only together with
    /// [`is_ok`](Self::is_ok).
    pub const fn may_have_written(self) -> bool {
        matches!(self.class(), StatusClass::Done | StatusClass::Pending)
            || matches!(self, Status::Indeterminate)
    }

    /// Its name as people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Ok => "ok",
            Status::Created => "created",
            Status::NotFound => "not found",
            Status::AlreadyExists => "already exists",
            Status::VersionMismatch => "version mismatch",
            Status::TooLarge => "too large",
            Status::WrongType => "wrong type",
            Status::Malformed => "malformed",
            Status::TableFull => "table full",
            Status::OutOfSpace => "out of space",
            Status::OutputFull => "output full",
            Status::Corrupt => "corrupt",
            Status::Indeterminate => "indeterminate",
        }
    }

    /// What to do about it; empty where there is nothing to do.
    pub const fn remedy(self) -> &'static str {
        match self {
            Status::Pending => "wait for the batch to finish",
            Status::Ok | Status::Created | Status::NotFound | Status::AlreadyExists => "",
            Status::VersionMismatch => "read the key again and retry with the version it has now",
            Status::TooLarge => "shorten the key or value, or use a table with a larger limit",
            Status::WrongType => "use fetch-add on 8-byte values and merge on tables with a merge rule",
            Status::Malformed => "check the operation codes and offsets that were put into device memory",
            Status::TableFull => "retry: the table grows in the background; or create it with more capacity",
            Status::OutOfSpace => "delete something, or raise the size limit of the image",
            Status::OutputFull => "read the key again with a larger output buffer",
            Status::Corrupt => "restore the key from a backup or write it anew",
            Status::Indeterminate => "read the key to see whether the write is there",
        }
    }
}

impl TryFrom<u8> for Status {
    type Error = CoreError;

    fn try_from(code: u8) -> Result<Status, CoreError> {
        Status::ALL.into_iter().find(|s| s.code() == code).ok_or(CoreError::UnknownStatus { code })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_pinned_and_round_trip() {
        let codes: Vec<u8> = Status::ALL.iter().map(|s| s.code()).collect();
        assert_eq!(
            codes,
            [0x00, 0x10, 0x11, 0x20, 0x21, 0x22, 0x30, 0x31, 0x32, 0x40, 0x41, 0x42, 0x50, 0x51]
        );
        for code in 0..=u8::MAX {
            match Status::try_from(code) {
                Ok(status) => assert_eq!(status.code(), code),
                Err(e) => {
                    assert!(!codes.contains(&code));
                    assert_eq!(e, CoreError::UnknownStatus { code });
                }
            }
        }
    }

    #[test]
    fn every_status_is_of_exactly_one_kind() {
        for status in Status::ALL {
            let kinds = [status.is_ok(), status.is_pending(), status.is_declined(), status.is_error()];
            assert_eq!(kinds.iter().filter(|k| **k).count(), 1, "{status}");
            assert_eq!(status.class() as u8, status.code() >> 4, "{status}");
            assert!(!status.is_retryable() || status.is_error(), "{status}");
            assert!(!status.is_error() || !status.remedy().is_empty(), "{status}");
        }
    }

    #[test]
    fn a_declined_or_refused_write_is_certainly_not_there() {
        for status in Status::ALL {
            let unsure = matches!(status, Status::Pending | Status::Indeterminate);
            assert_eq!(status.may_have_written(), status.is_ok() || unsure, "{status}");
        }
    }
}
