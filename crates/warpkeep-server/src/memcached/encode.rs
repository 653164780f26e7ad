//! Encodes results for memcached clients.

use super::meta;
use crate::batch::{Batch, Inputs};
use crate::command::{Command, Verb, bits};
use crate::outcome::{Outcome, Refusal};
use crate::text::number;

/// Adds the answer to a command to `out`. Whether the connection can go on.
pub(crate) fn encode(
    batch: &Batch,
    command: &Command,
    outcome: Outcome,
    inputs: &impl Inputs,
    out: &mut Vec<u8>,
) -> bool {
    if command.verb.is_meta() {
        meta::encode(batch, command, outcome, inputs, out);
        return true;
    }
    if matches!(command.verb, Verb::McGet | Verb::McGat) {
        return values(batch, command, outcome, inputs, out);
    }
    if command.is(bits::QUIET) {
        return true;
    }
    let answer: &[u8] = match outcome {
        Outcome::Stored(_) => b"STORED\r\n",
        Outcome::NotStored => b"NOT_STORED\r\n",
        Outcome::Exists => b"EXISTS\r\n",
        Outcome::Miss => b"NOT_FOUND\r\n",
        Outcome::Deleted => b"DELETED\r\n",
        Outcome::Touched => b"TOUCHED\r\n",
        Outcome::Wrong(what) => what.as_bytes(),
        Outcome::Refused(refusal) => refused(refusal),
        Outcome::Number(value) => {
            number(out, value);
            b"\r\n"
        }
        other => {
            debug_assert!(false, "{:?} came to {other:?}", command.verb);
            b"SERVER_ERROR internal error\r\n"
        }
    };
    out.extend_from_slice(answer);
    true
}

/// Of a get: the value if there is one, and the end after the last.
#[inline]
fn values(
    batch: &Batch,
    command: &Command,
    outcome: Outcome,
    inputs: &impl Inputs,
    out: &mut Vec<u8>,
) -> bool {
    match outcome {
        Outcome::Hit(current) => {
            let key = inputs.command_key(command);
            let value = batch.bytes(current.value, inputs);
            out.reserve(key.len() + value.len() + 64);
            out.extend_from_slice(b"VALUE ");
            out.extend_from_slice(key);
            out.push(b' ');
            number(out, current.head.flags);
            out.push(b' ');
            number(out, value.len());
            if command.is(bits::CAS) {
                out.push(b' ');
                number(out, batch.cas(command.entry, current.version));
            }
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
        Outcome::Refused(refusal) => {
            // An answer that is half given cannot be taken back, and a client would wait for its end.
            out.extend_from_slice(refused(refusal));
            return false;
        }
        _ => {}
    }
    if command.is(bits::LAST) {
        out.extend_from_slice(b"END\r\n");
    }
    true
}

/// The answer to a refused change.
pub(super) fn refused(refusal: Refusal) -> &'static [u8] {
    match refusal {
        Refusal::NoRoom => b"SERVER_ERROR out of memory storing object\r\n",
        Refusal::DiskFull => b"SERVER_ERROR disk full, writes are refused; see the server's log\r\n",
        Refusal::Failed => b"SERVER_ERROR the store failed, see the server's log\r\n",
    }
}
