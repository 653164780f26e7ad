//! Meta commands: `mg`, `ms`, `md`, `ma` and `me`.

mod encode;
mod encoded;
mod execute;
mod flags;

pub(super) use encode::encode;
pub(super) use execute::execute;

use self::encoded::Key;
use self::flags::Flags;
use super::MAX_KEY;
use super::line::{next_word, signed};
use super::parse::{BAD_LINE, ERROR, Line, value};
use crate::batch::Batch;
use crate::command::{Command, Verb, bits};
use crate::item::MAX_VALUE;
use crate::session::{Parsed, Session};
use crate::span::Span;

const BAD_KEY: &[u8] = b"CLIENT_ERROR error decoding key\r\n";

/// Parses a meta command.
pub(super) fn parse(session: &mut Session, line: &Line<'_>, batch: &mut Batch) -> Parsed {
    let name = line.words.get(line.input, 0);
    let Some(key) = line.words.span(1) else {
        return session.say(batch, line.next, if name == b"me" { BAD_LINE } else { ERROR });
    };
    if key.len as usize > MAX_KEY {
        return session.say(batch, line.next, BAD_LINE);
    }
    let verb = match name {
        b"ms" => return set(session, line, key, batch),
        b"md" => Verb::MetaDelete,
        b"ma" => Verb::MetaArithmetic,
        _ => Verb::MetaDebug,
    };
    add(session, line.input, verb, (key, rest(line, 2)), line.next, batch)
}

/// Parses an `mg`, whose line ends at `end`. The most frequent command has its own fast path.
#[inline]
pub(super) fn get(
    session: &mut Session,
    input: &[u8],
    (end, next): (usize, usize),
    batch: &mut Batch,
) -> Parsed {
    let Some(key) = next_word(input, session.at + 3, end) else { return session.say(batch, next, ERROR) };
    if key.len as usize > MAX_KEY {
        return session.say(batch, next, BAD_LINE);
    }
    add(session, input, Verb::MetaGet, (key, Span::between(key.end(), end)), next, batch)
}

/// Adds a command with its flags.
fn add(
    session: &mut Session,
    input: &[u8],
    verb: Verb,
    (key, text): (Span, Span),
    next: usize,
    batch: &mut Batch,
) -> Parsed {
    let flags = match Flags::of(verb, text.of(input)) {
        Ok(flags) => flags,
        Err(wrong) => return session.say(batch, next, wrong),
    };
    let careful = std::mem::take(&mut session.careful);
    let verb = match verb {
        Verb::MetaGet if careful || flags.may_change() => Verb::MetaGetAndChange,
        verb => verb,
    };
    let mut command = Command {
        key,
        text,
        bits: flags.bits(),
        flags: flags.traced.into(),
        ..Command::new(verb, session.at)
    };
    if flags.encoded {
        let Some(key) = Key::decode(key.of(input)) else {
            // In memcached's words.
            let arithmetic: &[u8] = b"CLIENT_ERROR invalid or duplicate flag\r\n";
            let wrong = if verb == Verb::MetaArithmetic { arithmetic } else { BAD_KEY };
            return session.say(batch, next, wrong);
        };
        key.keep(session, &mut command);
    }
    batch.push(command);
    session.at = next;
    Parsed::Some
}

/// `ms`: a line, and then a value.
fn set(session: &mut Session, line: &Line<'_>, key: Span, batch: &mut Batch) -> Parsed {
    let bytes = signed(line.words.get(line.input, 2)).and_then(|bytes| usize::try_from(bytes).ok());
    let Some(bytes) = bytes.filter(|&bytes| bytes <= i32::MAX as usize - 2) else {
        return session.say(batch, line.next, BAD_LINE);
    };
    let text = rest(line, 3);
    let flags = match Flags::of(Verb::MetaSet, text.of(line.input)) {
        Ok(flags) => flags,
        Err(wrong) => {
            session.skip = bytes as u64 + 2;
            return session.say(batch, line.next, wrong);
        }
    };
    let decoded = match flags.encoded {
        false => None,
        true => match Key::decode(key.of(line.input)) {
            Some(key) => Some(key),
            None => {
                session.skip = bytes as u64 + 2;
                return session.say(batch, line.next, BAD_KEY);
            }
        },
    };
    if bytes > MAX_VALUE {
        session.skip = bytes as u64 + 2;
        return session.say(batch, line.next, b"SERVER_ERROR object too large for cache\r\n");
    }
    let command =
        Command { key, text, bits: flags.bits() & !bits::QUIET, ..Command::new(Verb::MetaSet, session.at) };
    let before = batch.len();
    let parsed = value(session, line, command, bytes, batch);
    // Not before the value is there: until then it is parsed again and again.
    if let (Some(decoded), Some(command)) = (decoded, batch.commands.get_mut(before))
        && command.verb == Verb::MetaSet
    {
        decoded.keep(session, command);
    }
    parsed
}

/// The words of a line from the given one on.
fn rest(line: &Line<'_>, from: usize) -> Span {
    match (line.words.span(from), line.words.len().checked_sub(1).and_then(|last| line.words.span(last))) {
        (Some(first), Some(last)) => Span::between(first.start as usize, last.end()),
        _ => Span::default(),
    }
}
