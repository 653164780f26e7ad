//! Encodes results of meta commands.

use super::super::encode::refused;
use super::encoded;
use super::flags::tokens;
use crate::batch::{Batch, Inputs};
use crate::command::{Command, Verb, bits};
use crate::item::Head;
use crate::outcome::{Current, Outcome, Version};
use crate::text::number;

/// Adds the answer to a command to `out`.
pub(in super::super) fn encode(
    batch: &Batch,
    command: &Command,
    outcome: Outcome,
    inputs: &impl Inputs,
    out: &mut Vec<u8>,
) {
    let input = inputs.input(command.connection);
    let (key, text) = (inputs.command_key(command), command.text.of(input));
    let quiet =
        command.is(bits::QUIET) || command.verb == Verb::MetaSet && tokens(text).any(|flag| flag == b"q");
    let code: &[u8] = match outcome {
        Outcome::MetaHit { current, wins, was_won } => {
            if quiet && command.verb == Verb::MetaArithmetic {
                return;
            }
            return hit(batch, command, (current, wins, was_won), (key, text), inputs, out);
        }
        Outcome::Hit(current) => return debug(batch, command, current, key, out),
        Outcome::Stored(_) | Outcome::Deleted if quiet => return,
        Outcome::Stored(_) | Outcome::Deleted => b"HD",
        Outcome::NotStored => b"NS",
        Outcome::Exists => b"EX",
        Outcome::Miss => match command.verb {
            Verb::MetaGet | Verb::MetaGetAndChange if quiet => return,
            Verb::MetaGet | Verb::MetaGetAndChange | Verb::MetaDebug => b"EN",
            _ => b"NF",
        },
        Outcome::Wrong(what) => return out.extend_from_slice(what.as_bytes()),
        Outcome::Refused(refusal) => return out.extend_from_slice(refused(refusal)),
        other => {
            debug_assert!(false, "{:?} came to {other:?}", command.verb);
            b"SERVER_ERROR internal error"
        }
    };
    out.extend_from_slice(code);
    if command.verb != Verb::MetaDebug {
        for flag in tokens(text) {
            match (flag[0], outcome) {
                (b'O', _) => word(out, b'O', &flag[1..]),
                (b'k', _) => key_word(out, command, key),
                (b'c', Outcome::Stored(change)) => {
                    word(out, b'c', b"");
                    number(out, batch.cas(command.entry, Version::Coming(change)));
                }
                (b'c', _) if command.verb == Verb::MetaSet => word(out, b'c', b"0"),
                _ => {}
            }
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// An item, with the requested fields.
fn hit(
    batch: &Batch,
    command: &Command,
    (current, wins, was_won): (Current, bool, bool),
    (key, text): (&[u8], &[u8]),
    inputs: &impl Inputs,
    out: &mut Vec<u8>,
) {
    let value = batch.bytes(current.value, inputs);
    let shows = command.is(bits::GIVE);
    match shows {
        true => {
            out.extend_from_slice(b"VA ");
            number(out, value.len());
        }
        false => out.extend_from_slice(b"HD"),
    }
    for flag in tokens(text) {
        match flag[0] {
            b'O' => word(out, b'O', &flag[1..]),
            b'k' => key_word(out, command, key),
            b's' => counted(out, b's', value.len() as u64),
            b'f' => counted(out, b'f', u64::from(current.head.flags)),
            b'c' => counted(out, b'c', batch.cas(command.entry, current.version)),
            b't' if current.head.expires == 0 => word(out, b't', b"-1"),
            b't' => counted(out, b't', seconds_left(batch, current)),
            b'h' => counted(out, b'h', u64::from(batch.trace.fetched)),
            b'l' => counted(out, b'l', batch.trace.idle),
            _ => {}
        }
    }
    let stale = current.head.marks & Head::STALE != 0 && command.verb != Verb::MetaArithmetic;
    for (letter, said) in [(b'Z', was_won), (b'X', stale), (b'W', wins)] {
        if said {
            word(out, letter, b"");
        }
    }
    out.extend_from_slice(b"\r\n");
    if shows {
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
}

/// The answer to `me`.
fn debug(batch: &Batch, command: &Command, current: Current, key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"ME ");
    encoded::answer(out, command, key);
    out.extend_from_slice(b" exp=");
    match current.head.expires {
        0 => out.extend_from_slice(b"-1"),
        _ => number(out, seconds_left(batch, current)),
    }
    out.extend_from_slice(b" la=");
    number(out, batch.trace.idle);
    out.extend_from_slice(b" cas=");
    number(out, batch.cas(command.entry, current.version));
    let fetched: &[u8] = if batch.trace.fetched { b" fetch=yes" } else { b" fetch=no" };
    out.extend_from_slice(fetched);
    out.extend_from_slice(b" cls=1 size=");
    number(out, crate::item::HEAD + key.len() + current.value.len());
    out.extend_from_slice(b"\r\n");
}

/// Rounded, as a clock of whole seconds would have it.
fn seconds_left(batch: &Batch, current: Current) -> u64 {
    (current.head.expires.saturating_sub(batch.now()) + 500) / 1000
}

fn key_word(out: &mut Vec<u8>, command: &Command, key: &[u8]) {
    word(out, b'k', b"");
    encoded::answer(out, command, key);
    if command.is(bits::DECODED) {
        word(out, b'b', b"");
    }
}

fn word(out: &mut Vec<u8>, letter: u8, rest: &[u8]) {
    out.extend_from_slice(&[b' ', letter]);
    out.extend_from_slice(rest);
}

fn counted(out: &mut Vec<u8>, letter: u8, value: u64) {
    word(out, letter, b"");
    number(out, value);
}
