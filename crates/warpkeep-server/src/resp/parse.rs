//! Finds commands in the input of Redis clients.

use super::arguments::{Found, MAX_COMMAND, MAX_UNAUTHENTICATED, bulk, count};
use super::commands::{self, Asked};
use super::multi;
use crate::batch::Batch;
use crate::command::{Command, Part, Within, bits};
use crate::session::{Parsed, Session};
use crate::settings::Access;
use crate::span::Span;

/// The answer to a bulk string that is too long.
const TOO_LONG: &[u8] = b"-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n";

/// Parses the next command.
pub(crate) fn parse(session: &mut Session, input: &[u8], access: &Access, batch: &mut Batch) -> Parsed {
    if session.skip_bulks > 0 {
        return skip(session, input, batch);
    }
    if let (Some(part), left) = (session.within.part, session.within.left) {
        return go_on(session, input, part, left, batch);
    }
    let start = session.at;
    if input[start] != b'*' {
        return super::inline::parse(session, input, access, batch);
    }
    let (count, mut at) = match count(input, start) {
        Found::There(count, next) => (count, next),
        Found::NeedsMore(bytes) => return Parsed::NeedsMore(bytes - start),
        Found::TooLong(..) => return Parsed::NeedsMore(1),
        Found::Broken(what) => return session.say_and_close(batch, input.len(), what.as_bytes()),
    };
    if count == 0 {
        session.at = at;
        return Parsed::Some;
    }
    // A client that is not authenticated must not fill the memory.
    let most = if session.authenticated { MAX_COMMAND } else { MAX_UNAUTHENTICATED };
    let mut arguments = std::mem::take(&mut batch.arguments);
    arguments.clear();
    let mut parsed = None;
    for index in 0..count {
        match bulk(input, at) {
            Found::There(span, next) => {
                arguments.push(span);
                at = next;
            }
            Found::NeedsMore(bytes) if bytes - start > most => {
                let what = b"-ERR Protocol error: the command is too long\r\n";
                parsed = Some(session.say_and_close(batch, input.len(), what));
            }
            Found::NeedsMore(bytes) => parsed = Some(Parsed::NeedsMore(bytes - start)),
            Found::TooLong(len, next) => {
                session.skip = len + 2;
                session.skip_bulks = (count - index - 1) as u32;
                session.refuse_transaction();
                parsed = Some(session.say(batch, next, TOO_LONG));
            }
            Found::Broken(what) => {
                parsed = Some(session.say_and_close(batch, input.len(), what.as_bytes()));
            }
        }
        if parsed.is_some() {
            break;
        }
    }
    let parsed = parsed.unwrap_or_else(|| {
        let asked = Asked { input, arguments: &arguments, next: at };
        match session.special {
            false => commands::command(session, &asked, access, batch),
            true => multi::command(session, &asked, access, batch),
        }
    });
    batch.arguments = arguments;
    parsed
}

/// Skips the rest of a command that is too large.
fn skip(session: &mut Session, input: &[u8], batch: &mut Batch) -> Parsed {
    match bulk(input, session.at) {
        Found::There(_, next) => {
            session.at = next;
            session.skip_bulks -= 1;
            Parsed::Some
        }
        Found::TooLong(len, next) => {
            session.at = next;
            session.skip = len + 2;
            session.skip_bulks -= 1;
            Parsed::Some
        }
        Found::NeedsMore(bytes) => Parsed::NeedsMore(bytes - session.at),
        Found::Broken(what) => session.say_and_close(batch, input.len(), what.as_bytes()),
    }
}

/// The keys that are left of a command with many.
fn go_on(session: &mut Session, input: &[u8], part: Part, left: u32, batch: &mut Batch) -> Parsed {
    let mut at = session.at;
    let mut keys = std::mem::take(&mut batch.arguments);
    keys.clear();
    while keys.len() < left as usize
        && let Found::There(span, next) = bulk(input, at)
    {
        keys.push(span);
        at = next;
    }
    debug_assert_eq!(keys.len(), left as usize, "the whole command was there before");
    let before = batch.len();
    // They are given a database anew.
    parts(session, &keys, at, Part { bits: part.bits & !bits::DECODED, ..part }, batch);
    batch.arguments = keys;
    if session.special {
        multi::set_database(session, input, before, batch);
    }
    Parsed::Some
}

/// Adds the parts of a command with many keys.
pub(super) fn parts(session: &mut Session, keys: &[Span], next: usize, mut part: Part, batch: &mut Batch) {
    let mut place = session.at;
    for (index, &key) in keys.iter().enumerate() {
        let left = (keys.len() - index) as u32;
        let last = if left == 1 { bits::LAST } else { 0 };
        batch.push(Command {
            bits: part.bits | last,
            key,
            number: u64::from(left),
            lifetime: part.lifetime,
            ..Command::new(part.verb, place)
        });
        part.bits = part.bits & !bits::FIRST | bits::CONTINUES;
        // The line end of the key, and then the next bulk string.
        place = key.end() + 2;
    }
    session.at = next;
    session.within = Within::default();
}
