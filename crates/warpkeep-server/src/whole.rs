//! What is asked of the server as a whole: done by itself, when all before it on its connection is done.

use crate::batch::{Batch, Inputs};
use crate::command::{Command, Verb, bits};
use crate::lifetime::now;
use crate::resp;
use crate::server::Shared;
use crate::session::{Parsed, Session};
use crate::span::Span;
use crate::text::number;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    /// `stats`.
    Stats,
    /// `flush_all` and `FLUSHALL`, after so many seconds.
    FlushAll { delay: u64 },
    /// `DBSIZE`.
    Count,
    /// `INFO`.
    Info,
    /// `CONFIG`.
    Config,
    /// `SAVE`.
    Save,
    /// `BGSAVE`.
    SaveBehind,
    /// `LASTSAVE`.
    LastSave,
    /// `SHUTDOWN`.
    Shutdown,
    /// `TIME`.
    Time,
}

impl Whole {
    /// Adds it to a batch that has nothing else of its connection before it.
    pub(crate) fn ask(
        self,
        session: &mut Session,
        batch: &mut Batch,
        next: usize,
        [first, second]: [Option<Span>; 2],
        more: u16,
    ) -> Parsed {
        if session.in_batch {
            return Parsed::Waits;
        }
        batch.wholes.push(self);
        batch.push(Command {
            key: first.unwrap_or_default(),
            value: second.unwrap_or_default(),
            number: batch.wholes.len() as u64 - 1,
            bits: more,
            ..Command::new(Verb::Whole, session.at, session.within)
        });
        session.at = next;
        Parsed::Some
    }

    /// Does it; the answer is added to `out`.
    fn run(self, shared: &Shared<'_>, command: &Command, [first, second]: [&[u8]; 2], out: &mut Vec<u8>) {
        let resp3 = command.is(bits::RESP3);
        match self {
            Whole::Stats => shared.stats_text(first, out),
            Whole::FlushAll { delay } => match shared.flush(delay) {
                Ok(()) if command.is(bits::QUIET) => {}
                Ok(()) => out.extend_from_slice(b"OK\r\n"),
                Err(error) => {
                    tracing::error!(%error, "the items were not thrown away");
                    out.extend_from_slice(b"ERROR the store failed, see the server's log\r\n");
                }
            },
            Whole::Count => integer(out, shared.keyspace.table().len()),
            Whole::Info => resp::bulk(out, shared.info_text().as_bytes()),
            Whole::Config => shared.config(first, second, resp3, out),
            Whole::Save => match shared.save() {
                Ok(()) => out.extend_from_slice(b"+OK\r\n"),
                Err(error) => resp::error(out, &error.to_string()),
            },
            Whole::SaveBehind => {
                shared.save_behind();
                out.extend_from_slice(b"+Background saving started\r\n");
            }
            Whole::LastSave => integer(out, shared.last_save()),
            Whole::Shutdown => shared.stop(),
            Whole::Time => {
                let now = now();
                out.extend_from_slice(b"*2\r\n");
                resp::bulk(out, (now / 1000).to_string().as_bytes());
                resp::bulk(out, (now % 1000 * 1000).to_string().as_bytes());
            }
        }
    }
}

fn integer(out: &mut Vec<u8>, value: u64) {
    out.push(b':');
    number(out, value);
    out.extend_from_slice(b"\r\n");
}

/// Does what a batch asks of the server as a whole. `is_resp` says what a connection speaks.
pub(crate) fn run_all(
    batch: &mut Batch,
    shared: &Shared<'_>,
    inputs: &impl Inputs,
    is_resp: impl Fn(u32) -> bool,
) {
    if batch.wholes.is_empty() {
        return;
    }
    for index in 0..batch.commands.len() {
        let command = batch.commands[index];
        if command.verb != Verb::Whole {
            continue;
        }
        let input = inputs.input(command.connection);
        let mut answer = Vec::new();
        let whole = batch.wholes[command.number as usize];
        whole.run(shared, &command, [command.key.of(input), command.value.of(input)], &mut answer);
        if matches!(whole, Whole::FlushAll { .. }) && is_resp(command.connection) {
            let sign = if answer.starts_with(b"OK") { &b"+"[..] } else { b"-" };
            answer.splice(0..0, sign.iter().copied());
        }
        batch.commands[index].text = Span::append(&mut batch.texts, &answer);
    }
}
