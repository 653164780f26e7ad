//! Requests to the server as a whole: each is executed by itself, when all commands before it on its connection are
//! done.

use std::collections::HashSet;
use std::ops::ControlFlow;

use warpkeep::ScanPosition;

use crate::batch::{Batch, Clients};
use crate::command::{Command, Verb, bits};
use crate::databases;
use crate::item::Head;
use crate::lifetime::now;
use crate::pattern::matches;
use crate::server::Shared;
use crate::session::{Halt, Parsed, Protocol, Session};
use crate::span::Span;
use crate::text::number;
use crate::{memcached, resp};

/// The request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerCommand {
    /// `stats`.
    Stats,
    /// `flush_all` and `FLUSHALL`, after `delay` seconds.
    FlushAll { delay: u64 },
    /// `FLUSHDB`.
    FlushDatabase,
    /// `DBSIZE`.
    Count,
    /// `SCAN`; the first argument is a pattern, if there is to be one. Without `any` no key is of the requested type.
    Scan { cursor: u64, count: u64, has_pattern: bool, any: bool },
    /// `KEYS`; the first argument is a pattern.
    Keys,
    /// `RANDOMKEY`.
    RandomKey,
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
    /// `WATCH`.
    Watch,
    /// `EXEC`.
    Execute,
    /// A command that is done as one.
    Alone,
    /// `SELECT`.
    Select { database: u8 },
    /// `WARPKEEP.BACKUP`; the first argument is a name, if one is to be made.
    Backup,
    /// `lru_crawler metadump`, as much of it as is sent at once.
    Dump,
}

impl ServerCommand {
    /// Adds it to a batch that holds no earlier command of its connection.
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
        batch.server_commands.push(self);
        batch.push(Command {
            key: first.unwrap_or_default(),
            value: second.unwrap_or_default(),
            number: batch.server_commands.len() as u64 - 1,
            flags: session.database.into(),
            bits: more,
            ..Command::new(Verb::Server, session.at)
        });
        session.at = next;
        Parsed::Some
    }

    /// The same, and parsing stops until it is done.
    pub(crate) fn ask_and_halt(self, session: &mut Session, batch: &mut Batch, next: usize) -> Parsed {
        let parsed = self.ask(session, batch, next, [None, None], 0);
        if parsed == Parsed::Some {
            session.halt = Halt::UntilDone;
        }
        parsed
    }

    /// Does it; the answer is added to `out`.
    fn run(self, shared: &Shared<'_>, command: &Command, [first, second]: [&[u8]; 2], out: &mut Vec<u8>) {
        let resp3 = command.is(bits::RESP3);
        let database = command.flags as u8;
        match self {
            ServerCommand::Stats => shared.stats_text(first, out),
            ServerCommand::FlushAll { delay } => match shared.flush(delay) {
                Ok(()) if command.is(bits::QUIET) => {}
                Ok(()) => out.extend_from_slice(b"OK\r\n"),
                Err(error) => {
                    tracing::error!(%error, "the items were not thrown away");
                    out.extend_from_slice(b"ERROR the store failed, see the server's log\r\n");
                }
            },
            ServerCommand::FlushDatabase => match shared.flush_database(database) {
                Ok(()) => out.extend_from_slice(b"+OK\r\n"),
                Err(error) => {
                    tracing::error!(%error, "the items of a database were not thrown away");
                    out.extend_from_slice(b"-ERR the store failed, see the server's log\r\n");
                }
            },
            ServerCommand::Count => match shared.keyspace.count(database) {
                Ok(count) => integer(out, count),
                Err(error) => resp::error(out, &error.to_string()),
            },
            ServerCommand::Scan { cursor, count, has_pattern, any } => {
                let pattern = if has_pattern { first } else { b"*" };
                scan(shared, (cursor, count), (database, pattern), any, out);
            }
            ServerCommand::Keys => keys(shared, database, first, out),
            ServerCommand::RandomKey => match random_key(shared, database) {
                Some(key) => resp::bulk(out, &key),
                None => resp::null(out, resp3),
            },
            ServerCommand::Info => resp::bulk(out, shared.info_text().as_bytes()),
            ServerCommand::Config => shared.config(first, second, resp3, out),
            ServerCommand::Save => match shared.save() {
                Ok(()) => out.extend_from_slice(b"+OK\r\n"),
                Err(error) => resp::error(out, &error.to_string()),
            },
            ServerCommand::SaveBehind => {
                shared.save_behind();
                out.extend_from_slice(b"+Background saving started\r\n");
            }
            ServerCommand::LastSave => integer(out, shared.last_save()),
            ServerCommand::Shutdown => shared.stop(),
            ServerCommand::Backup => shared.backups.answer(first, out),
            ServerCommand::Time => {
                let now = now();
                out.extend_from_slice(b"*2\r\n");
                resp::bulk(out, (now / 1000).to_string().as_bytes());
                resp::bulk(out, (now % 1000 * 1000).to_string().as_bytes());
            }
            // These need the connection.
            ServerCommand::Watch
            | ServerCommand::Execute
            | ServerCommand::Alone
            | ServerCommand::Select { .. }
            | ServerCommand::Dump => {}
        }
    }

    /// The same for requests that also concern the connection.
    fn run_of(
        self,
        batch: &mut Batch,
        shared: &Shared<'_>,
        command: &Command,
        session: &mut Session,
        out: &mut Vec<u8>,
    ) {
        match self {
            ServerCommand::Dump => {
                session.goes_on = memcached::dump(shared, &mut session.dump, out);
                if session.goes_on {
                    session.at = command.at as usize;
                }
            }
            ServerCommand::Watch => {
                if let Some(transaction) = &mut session.transaction {
                    transaction.watch(&shared.keyspace, now());
                }
                out.extend_from_slice(b"+OK\r\n");
            }
            ServerCommand::Execute => resp::run_transaction(batch, shared, session, out),
            ServerCommand::Alone => resp::run_alone(batch, shared, session, out),
            ServerCommand::Select { database } => match shared.keyspace.use_database(database) {
                Ok(()) => {
                    session.database = database;
                    session.note();
                    out.extend_from_slice(b"+OK\r\n");
                }
                Err(error) => resp::error(out, &error.to_string()),
            },
            _ => {}
        }
    }

    /// Whether it is about the connection as well.
    fn is_of_connection(self) -> bool {
        matches!(
            self,
            ServerCommand::Watch
                | ServerCommand::Execute
                | ServerCommand::Alone
                | ServerCommand::Select { .. }
                | ServerCommand::Dump
        )
    }
}

/// `SCAN`: continues from a cursor until there are enough keys.
fn scan(
    shared: &Shared<'_>,
    (cursor, count): (u64, u64),
    (database, pattern): (u8, &[u8]),
    any: bool,
    out: &mut Vec<u8>,
) {
    const SLICES: usize = 1024;
    let table = shared.keyspace.table();
    let mut position = shared.scans.lock().take(cursor, &table);
    let now = now();
    let mut found: Vec<Vec<u8>> = Vec::new();
    let mut more = true;
    for _ in 0..SLICES {
        let scanned = table.scan_some(&mut position, |item| {
            let lives = Head::from_bytes(item.value).is_some_and(|head| !head.is_expired(now));
            let (of, key) = databases::of(item.key);
            if any && lives && of == database && matches(pattern, key) {
                found.push(key.to_vec());
            }
        });
        match scanned {
            Ok(more_to_come) => more = more_to_come,
            Err(error) => return resp::error(out, &error.to_string()),
        }
        if !more || found.len() as u64 >= count {
            break;
        }
    }
    let next = if more { shared.scans.lock().keep(position) } else { 0 };
    out.extend_from_slice(b"*2\r\n");
    resp::bulk(out, next.to_string().as_bytes());
    array(out, &found);
}

/// `KEYS`: all keys of a pattern.
fn keys(shared: &Shared<'_>, database: u8, pattern: &[u8], out: &mut Vec<u8>) {
    let now = now();
    // While the table grows, a key may be given out twice.
    let mut found = HashSet::new();
    let scanned = shared.keyspace.table().scan(|item| {
        let lives = Head::from_bytes(item.value).is_some_and(|head| !head.is_expired(now));
        let (of, key) = databases::of(item.key);
        if lives && of == database && matches(pattern, key) {
            found.insert(key.to_vec());
        }
        ControlFlow::Continue(())
    });
    match scanned {
        Ok(()) => array(out, &found.into_iter().collect::<Vec<_>>()),
        Err(error) => resp::error(out, &error.to_string()),
    }
}

/// A key from a slice of the table, another at each call.
fn random_key(shared: &Shared<'_>, database: u8) -> Option<Vec<u8>> {
    const SLICES: usize = 4096;
    let table = shared.keyspace.table();
    let now = now();
    let mut position = shared.scans.lock().random;
    let mut found: Vec<Vec<u8>> = Vec::new();
    // Twice to the end, for the first way may begin behind the last key.
    for _ in 0..SLICES {
        let more = table.scan_some(&mut position, |item| {
            let (of, key) = databases::of(item.key);
            if of == database && Head::from_bytes(item.value).is_some_and(|head| !head.is_expired(now)) {
                found.push(key.to_vec());
            }
        });
        match more {
            Ok(true) => {}
            Ok(false) => position = ScanPosition::default(),
            Err(_) => return None,
        }
        if !found.is_empty() {
            break;
        }
    }
    let mut scans = shared.scans.lock();
    scans.random = position;
    let which = scans.draw() as usize;
    match found.len() {
        0 => None,
        len => Some(found.swap_remove(which % len)),
    }
}

fn array(out: &mut Vec<u8>, keys: &[Vec<u8>]) {
    out.push(b'*');
    number(out, keys.len());
    out.extend_from_slice(b"\r\n");
    keys.iter().for_each(|key| resp::bulk(out, key));
}

fn integer(out: &mut Vec<u8>, value: u64) {
    out.push(b':');
    number(out, value);
    out.extend_from_slice(b"\r\n");
}

/// Executes a batch's requests to the server as a whole.
pub(crate) fn run_all(batch: &mut Batch, shared: &Shared<'_>, clients: &mut impl Clients) {
    if batch.server_commands.is_empty() {
        return;
    }
    for index in 0..batch.commands.len() {
        let command = batch.commands[index];
        if command.verb != Verb::Server {
            continue;
        }
        let mut answer = Vec::new();
        let request = batch.server_commands[command.number as usize];
        if request.is_of_connection() {
            request.run_of(batch, shared, &command, clients.session(command.connection), &mut answer);
        } else {
            let input = clients.input(command.connection);
            request.run(shared, &command, [command.key.of(input), command.value.of(input)], &mut answer);
        }
        let is_resp = clients.session(command.connection).protocol == Some(Protocol::Resp);
        if matches!(request, ServerCommand::FlushAll { .. }) && is_resp {
            let sign = if answer.starts_with(b"OK") { &b"+"[..] } else { b"-" };
            answer.splice(0..0, sign.iter().copied());
        }
        batch.commands[index].text = Span::append(&mut batch.texts, &answer);
    }
}
