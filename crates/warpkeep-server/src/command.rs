//! A command, as a parser found it in a connection's input: an operation and its key.

use crate::lifetime::Lifetime;
use crate::span::Span;

/// No entry, no read.
pub(crate) const NONE: u32 = u32::MAX;

/// The operation. A command on many keys becomes one of these for each key; see [`Command::part`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// The answer is known: it lies in the batch's texts.
    Reply,
    /// The same, and then the connection is closed.
    Farewell,
    /// A request to the server as a whole, executed before the batch; see [`crate::server_commands`].
    Server,
    // memcached
    /// `get`, `gets`.
    McGet,
    /// `gat`, `gats`.
    McGat,
    /// `set`.
    McSet,
    /// `add`.
    McAdd,
    /// `replace`.
    McReplace,
    /// `append`.
    McAppend,
    /// `prepend`.
    McPrepend,
    /// `cas`.
    McCas,
    /// `incr`.
    McIncr,
    /// `decr`.
    McDecr,
    /// `touch`.
    McTouch,
    /// `delete`.
    McDelete,
    /// `mg` without changes.
    MetaGet,
    /// `mg` that may change the item.
    MetaGetAndChange,
    /// `ms`.
    MetaSet,
    /// `md`.
    MetaDelete,
    /// `ma`.
    MetaArithmetic,
    /// `me`.
    MetaDebug,
    // RESP
    /// `GET`, and a part of `MGET`.
    Get,
    /// `SET` and its kin.
    Set,
    /// A part of `MSET`.
    SetPart,
    /// A part of `DEL` or `UNLINK`.
    Delete,
    /// A part of `EXISTS` or `TOUCH`.
    Exists,
    /// `INCR` and its kin; the number is the addend, as an `i64`.
    Increment,
    /// `INCRBYFLOAT`.
    IncrementFloat,
    /// `EXPIRE` and its kin.
    Expire,
    /// `PERSIST`.
    Persist,
    /// `TTL` and its kin.
    TimeToLive,
    /// `GETDEL`.
    GetDelete,
    /// `GETEX`.
    GetExpire,
    /// `APPEND`.
    Append,
    /// `STRLEN`.
    Length,
    /// `GETRANGE`.
    GetRange,
    /// `SETRANGE`.
    SetRange,
    /// `TYPE`.
    Type,
    /// `SETBIT`; the number is the place, the other the bit.
    SetBit,
    /// `GETBIT`.
    GetBit,
    // Parts of atomic commands on several keys: see [`crate::batch::Work::carried`].
    /// Checks whether the key exists.
    Look,
    /// Stores a value if none of the keys that were looked at was there.
    SetIfNone,
    /// Takes the item of a key, or with `GIVE` a copy of it; with `NX` only if none of the checked keys existed.
    Take,
    /// Stores the taken item, under the same conditions. With `XX` it is already stored; with `COUNTED` the answer
    /// is a number, and with `QUIET` also if nothing was taken.
    Give,
}

impl Verb {
    /// Whether it is about a key.
    pub(crate) fn has_key(self) -> bool {
        !matches!(self, Verb::Reply | Verb::Farewell | Verb::Server)
    }

    /// Whether it is memcached's.
    #[inline]
    pub(crate) fn is_memcached(self) -> bool {
        (Verb::McGet as u8..=Verb::MetaDebug as u8).contains(&(self as u8))
    }

    /// Whether it is one of memcached's meta commands.
    #[inline]
    pub(crate) fn is_meta(self) -> bool {
        (Verb::MetaGet as u8..=Verb::MetaDebug as u8).contains(&(self as u8))
    }

    /// Whether it can change its key.
    #[inline]
    pub(crate) fn writes(self) -> bool {
        self.has_key()
            && !matches!(
                self,
                Verb::McGet
                    | Verb::MetaGet
                    | Verb::MetaDebug
                    | Verb::Get
                    | Verb::Exists
                    | Verb::TimeToLive
                    | Verb::Length
                    | Verb::GetRange
                    | Verb::Type
                    | Verb::GetBit
                    | Verb::Look
            )
    }

    /// Whether it is a part of a command that is done as one.
    pub(crate) fn is_part_of_one(self) -> bool {
        matches!(self, Verb::Look | Verb::SetIfNone | Verb::Take | Verb::Give)
    }

    /// Whether it stores its value whatever the key has, so that this need not be known.
    #[inline]
    pub(crate) fn overwrites(self) -> bool {
        matches!(self, Verb::McSet | Verb::SetPart)
    }
}

/// Small facts about a command.
pub(crate) mod bits {
    /// Nothing is answered.
    pub(crate) const QUIET: u16 = 1;
    /// The first part of a command with many keys.
    pub(crate) const FIRST: u16 = 2;
    /// The last part.
    pub(crate) const LAST: u16 = 4;
    /// The answer includes the CAS value.
    pub(crate) const CAS: u16 = 8;
    /// In RESP3.
    pub(crate) const RESP3: u16 = 16;
    /// `NX`: only if the key is not there, or has no expiry.
    pub(crate) const NX: u16 = 32;
    /// `XX`: only if it is.
    pub(crate) const XX: u16 = 64;
    /// `GET` and `v`: answer with the value.
    pub(crate) const GIVE: u16 = 128;
    /// `GT`.
    pub(crate) const GT: u16 = 256;
    /// `LT`.
    pub(crate) const LT: u16 = 512;
    /// In milliseconds rather than seconds.
    pub(crate) const MILLIS: u16 = 1024;
    /// A moment rather than a time.
    pub(crate) const MOMENT: u16 = 2048;
    /// Answers with 1 or 0, as `SETNX` does.
    pub(crate) const COUNTED: u16 = 4096;
    /// A part of `MGET`.
    pub(crate) const MANY: u16 = 8192;
    /// A part of a command with many keys that is not its first.
    pub(crate) const CONTINUES: u16 = 16384;
    /// The key is among the keys that the session has decoded.
    pub(crate) const DECODED: u16 = 32768;
}

/// Where a parser stands within a command of many keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Within {
    /// Keys that are left; 0 is between commands. memcached's gets go on to the end of their line.
    pub(crate) left: u32,
    /// The properties of their parts.
    pub(crate) part: Option<Part>,
}

/// The properties that the parts of a command with many keys share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) verb: Verb,
    pub(crate) bits: u16,
    pub(crate) lifetime: Lifetime,
}

/// A command on one key, or a part of one on many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    /// The connection it came from.
    pub(crate) connection: u32,
    pub(crate) verb: Verb,
    pub(crate) bits: u16,
    /// Its first byte in the connection's input, to parse it again.
    pub(crate) at: u32,
    /// In the connection's input, as the two below; but see [`bits::DECODED`].
    pub(crate) key: Span,
    pub(crate) value: Span,
    /// Flags of meta commands; for [`Verb::Reply`], in the batch's texts.
    pub(crate) text: Span,
    pub(crate) hash: u64,
    /// An addend, an expected CAS value, or an offset.
    pub(crate) number: u64,
    /// A second number: the end of a range.
    pub(crate) other: i64,
    /// The client's flags; for a meta command, 1 if it asks whether the item was fetched before.
    pub(crate) flags: u32,
    pub(crate) lifetime: Lifetime,
    /// Its key's entry among those the batch changes.
    pub(crate) entry: u32,
    /// Its read, if the batch does not change its key.
    pub(crate) read: u32,
}

impl Command {
    /// A command without key and value.
    #[inline]
    pub(crate) fn new(verb: Verb, at: usize) -> Command {
        Command {
            connection: NONE,
            verb,
            bits: 0,
            at: at as u32,
            key: Span::default(),
            value: Span::default(),
            text: Span::default(),
            hash: 0,
            number: 0,
            other: 0,
            flags: 0,
            lifetime: Lifetime::Never,
            entry: NONE,
            read: NONE,
        }
    }

    /// Where its parser stood before it.
    pub(crate) fn within(&self) -> Within {
        match self.is(bits::CONTINUES) {
            false => Within::default(),
            true => {
                let bits = self.bits & !(bits::FIRST | bits::LAST);
                let part = Part { verb: self.verb, bits, lifetime: self.lifetime };
                Within { left: self.number as u32, part: Some(part) }
            }
        }
    }

    /// Whether it has one of these bits.
    #[inline]
    pub(crate) fn is(&self, bits: u16) -> bool {
        self.bits & bits != 0
    }
}
