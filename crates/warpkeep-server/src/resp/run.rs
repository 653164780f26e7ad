//! Executes transactions, and commands that need several keys at one moment.

use super::encode::{Tally, encode, null};
use crate::batch::{Aborted, Batch, Clients, Inputs, MOST};
use crate::command::{Verb, bits};
use crate::lifetime::now;
use crate::server::Shared;
use crate::server_commands;
use crate::session::{Parsed, Session};
use crate::text::number;
use crate::transaction::Watch;

/// Commands of a client that do not lie in its input.
struct Kept<'a> {
    bytes: &'a [u8],
    session: &'a mut Session,
}

impl Inputs for Kept<'_> {
    fn input(&self, _: u32) -> &[u8] {
        self.bytes
    }

    fn decoded(&self, _: u32) -> &[u8] {
        &self.session.decoded
    }
}

impl Clients for Kept<'_> {
    fn session(&mut self, _: u32) -> &mut Session {
        self.session
    }
}

/// `EXEC`: the answers to the queued commands, in an array.
pub(crate) fn run_transaction(
    batch: &mut Batch,
    shared: &Shared<'_>,
    session: &mut Session,
    out: &mut Vec<u8>,
) {
    let Some(transaction) = session.transaction.take() else { return };
    session.note();
    let begin = out.len();
    out.push(b'*');
    number(out, transaction.count);
    out.extend_from_slice(b"\r\n");
    let mut answered = 0;
    let done = run(batch, shared, session, &transaction.queued, &transaction.watched, out, &mut answered);
    let Err(aborted) = done else { return };
    if answered > 0 {
        // A part of it is done, because a request to the server as a whole cannot be undone.
        return (answered..transaction.count).for_each(|_| out.extend_from_slice(because(aborted)));
    }
    out.truncate(begin);
    match aborted {
        Aborted::Watched if session.resp3 => null(out, true),
        Aborted::Watched => out.extend_from_slice(b"*-1\r\n"),
        _ => {
            let what = because(aborted);
            let what = what.strip_prefix(b"-ERR ").or(what.strip_prefix(b"-")).unwrap_or(what);
            out.extend_from_slice(b"-EXECABORT Transaction discarded because of: ");
            out.extend_from_slice(what);
        }
    }
}

/// The answer to a command that is done as one.
pub(crate) fn run_alone(batch: &mut Batch, shared: &Shared<'_>, session: &mut Session, out: &mut Vec<u8>) {
    let bytes = std::mem::take(&mut session.alone);
    if let Err(aborted) = run(batch, shared, session, &bytes, &[], out, &mut 0) {
        out.extend_from_slice(because(aborted));
    }
    session.alone = bytes;
    if session.alone.capacity() > 64 << 10 {
        session.alone = Vec::new();
    }
}

/// The answer to commands that were not executed.
fn because(aborted: Aborted) -> &'static [u8] {
    match aborted {
        Aborted::Watched => b"-ERR a key that was watched has changed\r\n",
        Aborted::TooLarge => b"-ERR the answers and new values would take more than 256 MiB\r\n",
        Aborted::Refused(refusal) => super::encode::refused(refusal),
    }
}

/// Executes commands atomically, or, around requests to the server as a whole, in parts. `answered` counts the
/// commands whose answers were added to `out`.
fn run(
    batch: &mut Batch,
    shared: &Shared<'_>,
    session: &mut Session,
    bytes: &[u8],
    watched: &[Watch],
    out: &mut Vec<u8>,
    answered: &mut usize,
) -> Result<(), Aborted> {
    let mut inner = batch.inner.take().unwrap_or_else(|| Box::new(Batch::new(&shared.keyspace.table())));
    let at = std::mem::take(&mut session.at);
    let (in_batch, halt) = (session.in_batch, session.halt);
    session.isolated = true;
    let mut kept = Kept { bytes, session };
    let done = parts(&mut inner, shared, &mut kept, watched, out, answered);
    session.isolated = false;
    session.at = at;
    (session.in_batch, session.halt) = (in_batch, halt);
    session.decoded.clear();
    inner.clear();
    batch.inner = Some(inner);
    done
}

fn parts(
    inner: &mut Batch,
    shared: &Shared<'_>,
    kept: &mut Kept<'_>,
    watched: &[Watch],
    out: &mut Vec<u8>,
    answered: &mut usize,
) -> Result<(), Aborted> {
    let live = shared.live.get();
    let mut watched = watched;
    if kept.bytes.is_empty() {
        return inner.run_isolated(&shared.keyspace, kept, now(), watched);
    }
    loop {
        inner.clear();
        kept.session.in_batch = false;
        kept.session.halt = crate::session::Halt::No;
        kept.session.decoded.clear();
        while kept.session.parse(kept.bytes, 0, &live.access, inner) == Parsed::Some {
            if inner.texts.len() > MOST {
                return Err(Aborted::TooLarge);
            }
        }
        if inner.commands.is_empty() {
            return Ok(());
        }
        if !inner.server_commands.is_empty() {
            // Before anything of it is done. In its own statement, so that the table is released before the batch takes it
            // again: a second hold would wait for a flush, which waits for the first.
            let mut check = Batch::new(&shared.keyspace.table());
            check.run_isolated(&shared.keyspace, kept, now(), watched)?;
            watched = &[];
        }
        server_commands::run_all(inner, shared, kept);
        let run = inner.run_isolated(&shared.keyspace, kept, now(), watched);
        if let (Err(aborted), false) = (run, inner.server_commands.is_empty()) {
            // The first is done.
            out.extend_from_slice(inner.commands[0].text.of(&inner.texts));
            *answered += 1;
            return Err(aborted);
        }
        run?;
        watched = &[];
        let mut tally = Tally::default();
        for (command, &outcome) in inner.commands.iter().zip(&inner.outcomes) {
            match command.verb {
                Verb::Reply | Verb::Server | Verb::Farewell => {
                    out.extend_from_slice(command.text.of(&inner.texts));
                }
                _ => encode(inner, command, outcome, kept, &mut tally, out),
            }
            *answered += usize::from(!command.verb.has_key() || command.is(bits::LAST));
        }
        shared.counters.count(inner, (0, 0));
    }
}
