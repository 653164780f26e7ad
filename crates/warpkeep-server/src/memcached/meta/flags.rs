//! The flags of meta commands.

use super::super::line::{signed, unsigned};
use crate::command::{Verb, bits};
use crate::lifetime::Lifetime;

const INVALID: &[u8] = b"CLIENT_ERROR invalid flag\r\n";
const DUPLICATE: &[u8] = b"CLIENT_ERROR duplicate flag\r\n";
const BAD_TOKEN: &[u8] = b"CLIENT_ERROR bad token in command line format\r\n";

/// The effects that the flags of a command request, beside the returned fields.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    pub(super) quiet: bool,
    pub(super) value: bool,
    pub(super) invalidate: bool,
    /// `T`.
    pub(super) lifetime: Option<Lifetime>,
    /// `N`.
    pub(super) vivify: Option<Lifetime>,
    /// `R`, in seconds.
    pub(super) recache: Option<i64>,
    /// `C`.
    pub(super) compare: Option<u64>,
    /// `F`.
    pub(super) client: u32,
    /// `M`.
    pub(super) mode: u8,
    /// `D`.
    pub(super) delta: u64,
    /// `J`.
    pub(super) initial: u64,
    /// `b`.
    pub(super) encoded: bool,
    /// `h`, `l`, or a `me`.
    pub(super) traced: bool,
}

impl Flags {
    /// Parses flags; the error is the answer.
    pub(super) fn of(verb: Verb, text: &[u8]) -> Result<Flags, &'static [u8]> {
        let mut flags = Flags { delta: 1, ..Flags::default() };
        let (invalid, duplicate, allowed): (_, _, &[u8]) = match verb {
            Verb::MetaSet => (INVALID, DUPLICATE, b"bcCFIkOqTMs"),
            Verb::MetaDelete => (INVALID, DUPLICATE, b"bCIkOqT"),
            Verb::MetaArithmetic => {
                const EITHER: &[u8] = b"CLIENT_ERROR invalid or duplicate flag\r\n";
                (EITHER, EITHER, b"bCNJDTMOqtcvk")
            }
            Verb::MetaDebug => {
                flags.encoded = tokens(text).any(|flag| flag == b"b");
                flags.traced = true;
                return Ok(flags);
            }
            _ => (INVALID, DUPLICATE, b"bcfhklOqstuvNRT"),
        };
        let mut seen = 0_u128;
        for token in tokens(text) {
            let (name, argument) = (token[0], &token[1..]);
            if !allowed.contains(&name) {
                return Err(invalid);
            }
            // Valid flags are ASCII.
            if seen & 1 << name != 0 {
                return Err(duplicate);
            }
            seen |= 1 << name;
            let lifetime = || signed(argument).map(Lifetime::memcached).ok_or(BAD_TOKEN);
            match name {
                b'q' => flags.quiet = true,
                b'b' => flags.encoded = true,
                b'h' | b'l' => flags.traced = true,
                b'v' => flags.value = true,
                b'I' => flags.invalidate = true,
                b'T' => flags.lifetime = Some(lifetime()?),
                b'N' => flags.vivify = Some(lifetime()?),
                b'R' => flags.recache = Some(signed(argument).ok_or(BAD_TOKEN)?),
                b'C' => flags.compare = Some(unsigned(argument).ok_or(BAD_TOKEN)?),
                b'F' => {
                    let number = unsigned(argument).and_then(|number| u32::try_from(number).ok());
                    flags.client = number.ok_or(super::BAD_LINE)?;
                }
                b'D' => flags.delta = unsigned(argument).ok_or(invalid)?,
                b'J' => flags.initial = unsigned(argument).ok_or(invalid)?,
                b'M' => flags.mode = mode(verb, argument)?,
                _ => {}
            }
        }
        Ok(flags)
    }

    /// Whether a get with these may change the item.
    pub(super) fn may_change(&self) -> bool {
        self.lifetime.is_some() || self.vivify.is_some() || self.recache.is_some()
    }

    pub(super) fn bits(&self) -> u16 {
        (if self.quiet { bits::QUIET } else { 0 }) | if self.value { bits::GIVE } else { 0 }
    }
}

/// The letter of a mode, in one spelling.
fn mode(verb: Verb, argument: &[u8]) -> Result<u8, &'static [u8]> {
    let [letter] = argument else { return Err(BAD_TOKEN) };
    match (verb, *letter) {
        (Verb::MetaSet, mode @ (b'E' | b'A' | b'P' | b'R' | b'S')) => Ok(mode),
        (Verb::MetaSet, _) => Err(b"CLIENT_ERROR invalid mode for ms M token\r\n"),
        (_, b'I' | b'+') => Ok(b'I'),
        (_, b'D' | b'-') => Ok(b'D'),
        _ => Err(b"CLIENT_ERROR invalid mode for ma M token\r\n"),
    }
}

/// The flags as they were written.
pub(super) fn tokens(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b' ').filter(|token| !token.is_empty())
}
