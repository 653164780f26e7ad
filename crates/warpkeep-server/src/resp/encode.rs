//! Encodes results as RESP.

use crate::batch::{Batch, Inputs};
use crate::command::{Command, Verb, bits};
use crate::outcome::{Outcome, Refusal};
use crate::text::number;

/// Adds the answer to a command to `out`. `tally` adds up over the parts of a command with many keys.
pub(crate) fn encode(
    batch: &Batch,
    command: &Command,
    outcome: Outcome,
    inputs: &impl Inputs,
    tally: &mut Tally,
    out: &mut Vec<u8>,
) {
    if command.is(bits::FIRST) {
        *tally = Tally::default();
        if command.is(bits::MANY) {
            out.push(b'*');
            number(out, command.number);
            out.extend_from_slice(b"\r\n");
        }
    }
    match outcome {
        Outcome::Hit(current) => return bulk(out, batch.bytes(current.value, inputs)),
        Outcome::Bytes(place) => return bulk(out, batch.bytes(place, inputs)),
        Outcome::Miss if command.verb == Verb::Type => return out.extend_from_slice(b"+none\r\n"),
        Outcome::Stored(_) if command.verb == Verb::Type => return out.extend_from_slice(b"+string\r\n"),
        Outcome::Miss | Outcome::NotStored => return null(out, command.is(bits::RESP3)),
        Outcome::Wrong(what) => return out.extend_from_slice(what.as_bytes()),
        Outcome::Refused(refusal) if command.is(bits::MANY) => {
            return out.extend_from_slice(refused(refusal));
        }
        Outcome::Refused(refusal) => tally.refused = Some(refusal),
        Outcome::Integer(more) => tally.count += more,
        Outcome::Stored(_) => {}
        other => debug_assert!(false, "{:?} came to {other:?}", command.verb),
    }
    if command.is(bits::LAST) {
        match (tally.refused, outcome) {
            (Some(refusal), _) => out.extend_from_slice(refused(refusal)),
            (None, Outcome::Integer(_)) => {
                out.push(b':');
                number(out, tally.count);
                out.extend_from_slice(b"\r\n");
            }
            _ => out.extend_from_slice(b"+OK\r\n"),
        }
    }
}

/// The running totals of the parts of a command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    count: i64,
    refused: Option<Refusal>,
}

/// The answer to a refused change.
pub(super) fn refused(refusal: Refusal) -> &'static [u8] {
    match refusal {
        Refusal::NoRoom => b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        Refusal::DiskFull => b"-MISCONF disk full, writes are refused; see the server's log\r\n",
        Refusal::Failed => b"-ERR the store failed, see the server's log\r\n",
    }
}

/// Adds a string of bytes.
#[inline]
pub(crate) fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len() + 32);
    out.push(b'$');
    number(out, bytes.len());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Adds a null value.
pub(crate) fn null(out: &mut Vec<u8>, resp3: bool) {
    out.extend_from_slice(if resp3 { b"_\r\n" } else { b"$-1\r\n" });
}

/// Adds an error.
pub(crate) fn error(out: &mut Vec<u8>, what: &str) {
    out.extend_from_slice(b"-ERR ");
    out.extend_from_slice(one_line(what).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Without line ends, which would end an error early.
pub(super) fn one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}
