//! Transactions: `MULTI`, the queue after it, `EXEC`, `DISCARD`, `WATCH` and `UNWATCH`.

use super::commands::{self, Asked, To};
use super::{about, table};
use crate::batch::Batch;
use crate::command::Verb;
use crate::databases::{set_key, stored};
use crate::item::MAX_KEY;
use crate::server_commands::ServerCommand;
use crate::session::{Halt, Parsed, Session};
use crate::settings::Access;
use crate::transaction::encode;

const OK: &[u8] = b"+OK\r\n";

/// Adds a command of a client that is not authenticated yet, has selected a database, or has begun a transaction.
#[cold]
pub(super) fn command(
    session: &mut Session,
    asked: &Asked<'_>,
    access: &Access,
    batch: &mut Batch,
) -> Parsed {
    let mut name = [0; 16];
    let name = asked.name(&mut name);
    if !session.authenticated && !matches!(name, b"AUTH" | b"HELLO" | b"QUIT" | b"RESET") {
        return session.say(batch, asked.next, b"-NOAUTH Authentication required.\r\n");
    }
    let is_open = session.transaction.as_ref().is_some_and(|transaction| transaction.open);
    match is_open && !matches!(name, b"EXEC" | b"DISCARD" | b"MULTI" | b"WATCH" | b"QUIT" | b"RESET") {
        true => queue(&mut To { session, asked, batch, access }),
        false => {
            let before = batch.len();
            let start = session.at;
            let parsed = commands::command(session, asked, access, batch);
            if session.database == 0 || set_database(session, asked.input, before, batch) {
                return parsed;
            }
            batch.truncate(before);
            session.at = start;
            session.say(
                batch,
                asked.next,
                b"-ERR key is too long, it can have 65527 bytes in databases 1 to 15\r\n",
            )
        }
    }
}

/// Adds the selected database to the keys just added. `false` if one is too long for that.
pub(super) fn set_database(session: &mut Session, input: &[u8], before: usize, batch: &mut Batch) -> bool {
    let database = session.database;
    // Atomic commands already have theirs, which may differ.
    let is_open = |verb: Verb| verb.has_key() && !verb.is_part_of_one();
    let mut added = batch.commands[before..].iter_mut().filter(|command| is_open(command.verb));
    added.all(|command| set_key(session, input, command, database))
}

/// Queues a command, if its name and number of arguments are valid.
fn queue(to: &mut To<'_>) -> Parsed {
    let known = table::find(to.asked.get(0));
    let wrong = match known {
        None => Some(about::unknown(to)),
        Some(spec) if !spec.takes(to.asked.len()) => Some(to.wrong_number()),
        Some(spec) if !spec.can_be_queued() => {
            Some(to.say(b"-ERR Command not allowed inside a transaction\r\n"))
        }
        Some(_) => None,
    };
    if let Some(parsed) = wrong {
        to.session.refuse_transaction();
        return parsed;
    }
    let arguments = to.asked.all();
    let queued = to.session.transaction.as_mut().is_some_and(|transaction| transaction.queue(arguments));
    match queued {
        true => to.say(b"+QUEUED\r\n"),
        false => {
            to.session.refuse_transaction();
            to.say(b"-ERR a transaction can have 64 MiB of commands\r\n")
        }
    }
}

pub(super) fn begin(to: &mut To<'_>) -> Parsed {
    if to.asked.len() != 1 {
        return to.refuse_wrong_number();
    }
    if to.session.transaction.as_ref().is_some_and(|transaction| transaction.open) {
        return to.say(b"-ERR MULTI calls can not be nested\r\n");
    }
    if to.session.must_wait() {
        return Parsed::Waits;
    }
    to.session.transaction.get_or_insert_default().open = true;
    to.session.note();
    to.say(OK)
}

/// `EXEC`: executes the queued commands, as one batch.
pub(super) fn execute(to: &mut To<'_>) -> Parsed {
    let open = to.session.transaction.as_ref().filter(|transaction| transaction.open);
    let refused = match open {
        _ if to.asked.len() != 1 => Some(
            &b"-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n"
                [..],
        ),
        None => return to.say(b"-ERR EXEC without MULTI\r\n"),
        Some(transaction) if transaction.refused => {
            Some(&b"-EXECABORT Transaction discarded because of previous errors.\r\n"[..])
        }
        Some(_) => None,
    };
    match refused {
        Some(what) => {
            forget(to.session);
            to.say(what)
        }
        None => to.server_command_that_halts(ServerCommand::Execute),
    }
}

pub(super) fn discard(to: &mut To<'_>) -> Parsed {
    let is_open = to.session.transaction.as_ref().is_some_and(|transaction| transaction.open);
    match (to.asked.len(), is_open) {
        (1, true) => {
            forget(to.session);
            to.say(OK)
        }
        (1, false) => to.say(b"-ERR DISCARD without MULTI\r\n"),
        _ => to.refuse_wrong_number(),
    }
}

/// `WATCH`: the versions of the keys are stored when the commands before it are done.
pub(super) fn watch(to: &mut To<'_>) -> Parsed {
    if to.asked.len() < 2 {
        return to.refuse_wrong_number();
    }
    if to.session.transaction.as_ref().is_some_and(|transaction| transaction.open) {
        return to.say(b"-ERR WATCH inside MULTI is not allowed\r\n");
    }
    // It is parsed again when the commands before it are done.
    if to.session.in_batch {
        return Parsed::Waits;
    }
    let database = to.session.database;
    let keys: Vec<Vec<u8>> = to.asked.all().skip(1).map(|key| stored(database, key)).collect();
    if keys.iter().any(|key| key.len() > MAX_KEY) {
        return to.say(b"-ERR key is too long, it can have 65535 bytes\r\n");
    }
    to.session.transaction.get_or_insert_default().to_watch.extend(keys);
    to.session.note();
    to.server_command_that_halts(ServerCommand::Watch)
}

pub(super) fn unwatch(to: &mut To<'_>) -> Parsed {
    if to.asked.len() != 1 {
        return to.wrong_number();
    }
    // Within a transaction its keys are not watched any more, either.
    forget(to.session);
    to.say(OK)
}

fn forget(session: &mut Session) {
    session.transaction = None;
    session.note();
}

impl To<'_> {
    /// Has the command done by itself, as one.
    pub(super) fn alone(&mut self) -> Parsed {
        if self.session.in_batch {
            return Parsed::Waits;
        }
        self.session.alone.clear();
        encode(&mut self.session.alone, self.asked.all());
        self.server_command_that_halts(ServerCommand::Alone)
    }

    /// Makes a request to the server as a whole that can change the meaning of the next command.
    pub(super) fn server_command_that_halts(&mut self, command: ServerCommand) -> Parsed {
        let parsed = self.server_command(1..=usize::MAX, command);
        if parsed == Parsed::Some {
            self.session.halt = Halt::UntilDone;
        }
        parsed
    }

    /// Answers that the number of arguments is wrong; within a transaction that refuses all of it.
    fn refuse_wrong_number(&mut self) -> Parsed {
        self.session.refuse_transaction();
        self.wrong_number()
    }
}
