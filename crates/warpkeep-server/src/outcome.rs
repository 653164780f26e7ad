//! The result of a command; each protocol encodes it in its own way.

use warpkeep::Status;

use crate::item::Head;
use crate::span::Span;

/// Where the bytes of a value lie while a batch is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Among the bytes that the batch read from the table.
    Read(Span),
    /// In the input of a connection.
    Input(u32, Span),
    /// Among the bytes that commands of the batch produced.
    Made(Span),
}

impl Place {
    /// How many bytes there are.
    pub(crate) fn len(self) -> usize {
        let (Place::Read(span) | Place::Input(_, span) | Place::Made(span)) = self;
        span.len as usize
    }

    /// A part of it.
    pub(crate) fn part(self, start: usize, end: usize) -> Place {
        let part = |span: Span| Span { start: span.start + start as u32, len: (end - start) as u32 };
        match self {
            Place::Read(span) => Place::Read(part(span)),
            Place::Input(connection, span) => Place::Input(connection, part(span)),
            Place::Made(span) => Place::Made(part(span)),
        }
    }
}

/// The version of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// It is in the table.
    Stored(u64),
    /// It is the batch's change of this number, and known when that is done.
    Coming(u32),
}

/// The item under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Current {
    pub(crate) value: Place,
    pub(crate) head: Head,
    pub(crate) version: Version,
}

/// Why a change was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no room for it.
    NoRoom,
    /// The disk is full, of the log or of the image.
    DiskFull,
    /// The store has failed; the log says how.
    Failed,
}

impl Refusal {
    /// The reason for a refused change, from the store's status.
    pub(crate) fn of(status: Status) -> Option<Refusal> {
        match status {
            Status::TableFull | Status::OutOfSpace => Some(Refusal::NoRoom),
            status if status.is_ok() || status == Status::NotFound => None,
            _ => Some(Refusal::Failed),
        }
    }
}

/// The result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Not executed: it is put off to the next batch.
    Cut,
    /// The answer is in the batch's texts.
    Reply,
    /// The key is not there.
    Miss,
    /// The item under the key, before or after the command.
    Hit(Current),
    /// The same for a meta command, with the client's part in renewing the item.
    MetaHit { current: Current, wins: bool, was_won: bool },
    /// It was stored, as the batch's change of this number.
    Stored(u32),
    /// A condition was not met.
    NotStored,
    /// The CAS value was another.
    Exists,
    /// It was removed.
    Deleted,
    /// Its expiry was changed.
    Touched,
    /// A number of memcached's.
    Number(u64),
    /// A number of Redis's.
    Integer(i64),
    /// Bytes that were made.
    Bytes(Place),
    /// It makes no sense; the whole answer, with its line end.
    Wrong(&'static str),
    /// It was not done.
    Refused(Refusal),
}
