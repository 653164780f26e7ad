//! Finds commands in the input of memcached clients.

use memchr::memchr;

use super::line::{Words, next_word, signed, unsigned};
use super::{MAX_KEY, meta};
use crate::batch::Batch;
use crate::command::{Command, Part, Verb, Within, bits};
use crate::item::MAX_VALUE;
use crate::lifetime::Lifetime;
use crate::misbehaviour::is_http;
use crate::server_commands::ServerCommand;
use crate::session::{Parsed, Session};
use crate::settings::Access;
use crate::span::Span;

/// The longest line that is not a get.
const LINE: usize = 2048;
/// The longest get, of a client that need not authenticate first.
const GET_LINE: usize = 1 << 20;

pub(super) const ERROR: &[u8] = b"ERROR\r\n";
pub(super) const BAD_LINE: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
pub(super) const BAD_CHUNK: &[u8] = b"CLIENT_ERROR bad data chunk\r\n";
const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";
const TOO_LONG: &[u8] = b"CLIENT_ERROR line too long\r\n";
const BAD_EXPTIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";

/// A line that is about to be parsed.
pub(super) struct Line<'i> {
    pub(super) input: &'i [u8],
    pub(super) words: Words,
    /// The position after it.
    pub(super) next: usize,
}

/// Parses the next command.
pub(crate) fn parse(session: &mut Session, input: &[u8], access: &Access, batch: &mut Batch) -> Parsed {
    let start = session.at;
    let Some(len) = memchr(b'\n', &input[start..]) else {
        return without_end(session, input, batch);
    };
    let newline = start + len;
    let end = if len > 0 && input[newline - 1] == b'\r' { newline - 1 } else { newline };
    let next = newline + 1;
    if let Some(part) = session.within.part {
        return keys(session, input, start, (end, next), part, batch);
    }
    if let ([b'm', b'g', b' ', ..], true) = (&input[start..end], session.authenticated) {
        return meta::get(session, input, (end, next), batch);
    }
    let get = match input[start..end] {
        [b'g', b'e', b't', b' ', ..] => Some((4, 0)),
        [b'g', b'e', b't', b's', b' ', ..] => Some((5, bits::CAS)),
        _ => None,
    };
    if let (Some((skip, bits)), true) = (get, session.authenticated) {
        let part = Part { verb: Verb::McGet, bits: bits | bits::FIRST, lifetime: Lifetime::Never };
        return keys(session, input, start + skip, (end, next), part, batch);
    }
    let line = Line { input, words: Words::of(input, start, end), next };
    match session.authenticated {
        true => command(session, &line, end, batch),
        false => authenticate(session, &line, access, batch),
    }
}

/// The line has not ended yet.
fn without_end(session: &mut Session, input: &[u8], batch: &mut Batch) -> Parsed {
    let line = &input[session.at..];
    let is_get = [&b"get "[..], b"gets ", b"gat ", b"gats "].iter().any(|get| line.starts_with(get));
    if line.len() > if is_get && session.authenticated { GET_LINE } else { LINE } {
        return session.say_and_close(batch, input.len(), TOO_LONG);
    }
    Parsed::NeedsMore(line.len() + 1)
}

/// The keys of a get, from `at` to the end of the line.
#[inline]
fn keys(
    session: &mut Session,
    input: &[u8],
    mut at: usize,
    (end, next): (usize, usize),
    mut part: Part,
    batch: &mut Batch,
) -> Parsed {
    let before = batch.len();
    let mut place = session.at;
    while let Some(key) = next_word(input, at, end) {
        if key.len as usize > MAX_KEY {
            batch.truncate(before);
            return session.say(batch, next, BAD_LINE);
        }
        let command =
            Command { bits: part.bits, key, lifetime: part.lifetime, ..Command::new(part.verb, place) };
        batch.push(command);
        at = key.end();
        place = at;
        part.bits = part.bits & !bits::FIRST | bits::CONTINUES;
    }
    match batch.commands[before..].last_mut() {
        None if part.verb == Verb::McGat => return session.say(batch, next, b"END\r\n"),
        None => return session.say(batch, next, ERROR),
        Some(last) => last.bits |= bits::LAST,
    }
    session.at = next;
    session.within = Within::default();
    Parsed::Some
}

/// Any other command.
fn command(session: &mut Session, line: &Line<'_>, end: usize, batch: &mut Batch) -> Parsed {
    let (input, words, next) = (line.input, &line.words, line.next);
    let quiet = if words.are_quiet(input) { bits::QUIET } else { 0 };
    match words.get(input, 0) {
        b"set" => storage(session, line, Verb::McSet, batch),
        b"add" => storage(session, line, Verb::McAdd, batch),
        b"replace" => storage(session, line, Verb::McReplace, batch),
        b"append" => storage(session, line, Verb::McAppend, batch),
        b"prepend" => storage(session, line, Verb::McPrepend, batch),
        b"cas" => storage(session, line, Verb::McCas, batch),
        b"delete" => delete(session, line, batch),
        b"incr" => arithmetic(session, line, Verb::McIncr, batch),
        b"decr" => arithmetic(session, line, Verb::McDecr, batch),
        b"touch" => touch(session, line, batch),
        b"gat" => get_and_touch(session, line, end, 0, batch),
        b"gats" => get_and_touch(session, line, end, bits::CAS, batch),
        b"ms" | b"md" | b"ma" | b"me" => meta::parse(session, line, batch),
        b"mg" => session.say(batch, next, ERROR),
        b"mn" => session.say(batch, next, b"MN\r\n"),
        b"version" => {
            // The version whose commands are implemented comes first: clients read it.
            let version = concat!("VERSION 1.6.18-warpkeep-", env!("CARGO_PKG_VERSION"), "\r\n");
            session.say(batch, next, version.as_bytes())
        }
        b"verbosity" if !(2..=3).contains(&words.len()) => session.say(batch, next, ERROR),
        b"verbosity" => {
            let level = unsigned(words.get(input, 1)).and_then(|level| u32::try_from(level).ok());
            complain(session, line, next, batch, if level.is_some() { b"OK\r\n" } else { BAD_LINE })
        }
        b"quit" => session.say_and_close(batch, next, b""),
        b"flush_all" => flush(session, line, quiet, batch),
        b"stats" => ServerCommand::Stats.ask(session, batch, next, [words.span(1), None], 0),
        b"lru_crawler" => crawler(session, line, batch),
        b"shutdown" => session.say(batch, next, b"ERROR: shutdown not enabled\r\n"),
        _ if is_http(&input[session.at..end]) => session.hang_up_on_http(batch, next),
        _ => session.say(batch, next, ERROR),
    }
}

/// `lru_crawler`: only listing all items is supported, since memcached's item lists do not exist here.
fn crawler(session: &mut Session, line: &Line<'_>, batch: &mut Batch) -> Parsed {
    let word = |index| line.words.get(line.input, index);
    let answer: &[u8] = match (word(1), line.words.len()) {
        (b"metadump", 3) if matches!(word(2), b"all" | b"hash" | b"1") => {
            return ServerCommand::Dump.ask_and_halt(session, batch, line.next);
        }
        (b"metadump", 3) => b"BADCLASS invalid class id\r\n",
        (b"enable" | b"disable", 2) | (b"crawl" | b"sleep" | b"tocrawl", 3) => b"OK\r\n",
        _ => ERROR,
    };
    session.say(batch, line.next, answer)
}

/// Answers with an error, unless the command suppresses answers.
fn complain(session: &mut Session, line: &Line<'_>, next: usize, batch: &mut Batch, what: &[u8]) -> Parsed {
    let what = if line.words.are_quiet(line.input) { b"" } else { what };
    session.say(batch, next, what)
}

/// A command whose key is its second word, if that is a valid key.
fn keyed(session: &Session, line: &Line<'_>, verb: Verb) -> Option<Command> {
    let key = line.words.span(1).filter(|key| key.len as usize <= MAX_KEY)?;
    let bits = if line.words.are_quiet(line.input) { bits::QUIET } else { 0 };
    Some(Command { key, bits, ..Command::new(verb, session.at) })
}

/// Adds a command that ends with its line.
fn add(session: &mut Session, line: &Line<'_>, command: Command, batch: &mut Batch) -> Parsed {
    batch.push(command);
    session.at = line.next;
    Parsed::Some
}

/// `set` and its kin: a line, and then a value.
fn storage(session: &mut Session, line: &Line<'_>, verb: Verb, batch: &mut Batch) -> Parsed {
    let (input, words) = (line.input, &line.words);
    let fixed = if verb == Verb::McCas { 6 } else { 5 };
    if !(fixed..=fixed + 1).contains(&words.len()) {
        return session.say(batch, line.next, ERROR);
    }
    let number = |index| words.get(input, index);
    let numbers = || {
        let flags = u32::try_from(unsigned(number(2))?).ok()?;
        let expires = signed(number(3))?;
        let bytes = u32::try_from(signed(number(4))?).ok().filter(|&bytes| bytes <= i32::MAX as u32 - 2)?;
        let cas = if verb == Verb::McCas { unsigned(number(5))? } else { 0 };
        Some((flags, expires, bytes as usize, cas))
    };
    let (Some(command), Some((flags, expires, bytes, cas))) = (keyed(session, line, verb), numbers()) else {
        return complain(session, line, line.next, batch, BAD_LINE);
    };
    if bytes > MAX_VALUE {
        session.skip = bytes as u64 + 2;
        return complain(session, line, line.next, batch, TOO_LARGE);
    }
    let command = Command { flags, lifetime: Lifetime::memcached(expires), number: cas, ..command };
    value(session, line, command, bytes, batch)
}

/// Adds a command with the value that follows its line.
pub(super) fn value(
    session: &mut Session,
    line: &Line<'_>,
    mut command: Command,
    bytes: usize,
    batch: &mut Batch,
) -> Parsed {
    let value_end = line.next + bytes;
    match line.input.get(value_end..value_end + 2) {
        None => Parsed::NeedsMore(value_end + 2 - session.at),
        Some(b"\r\n") => {
            command.value = Span::between(line.next, value_end);
            batch.push(command);
            session.at = value_end + 2;
            Parsed::Some
        }
        Some(_) => complain(session, line, value_end + 2, batch, BAD_CHUNK),
    }
}

fn delete(session: &mut Session, line: &Line<'_>, batch: &mut Batch) -> Parsed {
    const USAGE: &[u8] = b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
    let word = |index| line.words.get(line.input, index);
    match line.words.len() {
        2 => {}
        3 if matches!(word(2), b"0" | b"noreply") => {}
        4 if word(2) == b"0" && word(3) == b"noreply" => {}
        3 | 4 => return complain(session, line, line.next, batch, USAGE),
        _ => return session.say(batch, line.next, ERROR),
    }
    match keyed(session, line, Verb::McDelete) {
        Some(command) => add(session, line, command, batch),
        None => complain(session, line, line.next, batch, BAD_LINE),
    }
}

fn arithmetic(session: &mut Session, line: &Line<'_>, verb: Verb, batch: &mut Batch) -> Parsed {
    if !(3..=4).contains(&line.words.len()) {
        return session.say(batch, line.next, ERROR);
    }
    let Some(command) = keyed(session, line, verb) else {
        return complain(session, line, line.next, batch, BAD_LINE);
    };
    match unsigned(line.words.get(line.input, 2)) {
        Some(number) => add(session, line, Command { number, ..command }, batch),
        None => complain(session, line, line.next, batch, b"CLIENT_ERROR invalid numeric delta argument\r\n"),
    }
}

fn touch(session: &mut Session, line: &Line<'_>, batch: &mut Batch) -> Parsed {
    if !(3..=4).contains(&line.words.len()) {
        return session.say(batch, line.next, ERROR);
    }
    let Some(command) = keyed(session, line, Verb::McTouch) else {
        return complain(session, line, line.next, batch, BAD_LINE);
    };
    match signed(line.words.get(line.input, 2)) {
        Some(expires) => {
            let lifetime = Lifetime::memcached(expires);
            add(session, line, Command { lifetime, ..command }, batch)
        }
        None => complain(session, line, line.next, batch, BAD_EXPTIME),
    }
}

fn get_and_touch(session: &mut Session, line: &Line<'_>, end: usize, bits: u16, batch: &mut Batch) -> Parsed {
    let Some(exptime) = line.words.span(1) else { return session.say(batch, line.next, ERROR) };
    let Some(expires) = signed(exptime.of(line.input)) else {
        return session.say(batch, line.next, BAD_EXPTIME);
    };
    let lifetime = Lifetime::memcached(expires);
    let part = Part { verb: Verb::McGat, bits: bits | bits::FIRST, lifetime };
    keys(session, line.input, exptime.end(), (end, line.next), part, batch)
}

fn flush(session: &mut Session, line: &Line<'_>, quiet: u16, batch: &mut Batch) -> Parsed {
    let words = &line.words;
    let delay = match (words.len(), quiet) {
        (1, _) | (2, bits::QUIET) => Some(0),
        (2, _) | (3, bits::QUIET) => signed(words.get(line.input, 1)),
        _ => return session.say(batch, line.next, ERROR),
    };
    match delay {
        Some(delay) => ServerCommand::FlushAll { delay: delay.max(0) as u64 }.ask(
            session,
            batch,
            line.next,
            [None, None],
            quiet,
        ),
        None => session.say(batch, line.next, BAD_EXPTIME),
    }
}

/// A client that must authenticate first sends a `set` of any key with `user password`.
fn authenticate(session: &mut Session, line: &Line<'_>, access: &Access, batch: &mut Batch) -> Parsed {
    const UNAUTHENTICATED: &[u8] = b"CLIENT_ERROR unauthenticated\r\n";
    const LONGEST: usize = 1024;
    let words = &line.words;
    let bytes = signed(words.get(line.input, 4)).and_then(|bytes| usize::try_from(bytes).ok());
    let (b"set", Some(bytes)) = (words.get(line.input, 0), bytes) else {
        return match is_http(&line.input[session.at..line.next - 1]) {
            true => session.hang_up_on_http(batch, line.next),
            false => session.say(batch, line.next, UNAUTHENTICATED),
        };
    };
    if bytes > LONGEST {
        return session.say_and_close(batch, line.next, UNAUTHENTICATED);
    }
    let end = line.next + bytes;
    let Some(ending) = line.input.get(end..end + 2) else {
        return Parsed::NeedsMore(end + 2 - session.at);
    };
    let given = &line.input[line.next..end];
    let password = memchr(b' ', given).map_or(given, |space| &given[space + 1..]);
    let is_right = ending == b"\r\n" && access.admits(password);
    session.admit(is_right);
    let answer: &[u8] = if is_right { b"STORED\r\n" } else { b"CLIENT_ERROR authentication failure\r\n" };
    session.say(batch, end + 2, answer)
}
