//! The fuzz target, also run by tests over known findings: any bytes, as if a client had sent them.

use std::sync::Arc;

use warpkeep::Store;

use crate::batch::{Batch, Clients, Inputs};
use crate::command::Verb;
use crate::counters::Counters;
use crate::keyspace::Keyspace;
use crate::live::Current;
use crate::outcome::Outcome;
use crate::resp::Tally;
use crate::server::Shared;
use crate::server_commands::{self, ServerCommand};
use crate::session::{Halt, Parsed, Session};
use crate::{Access, ServerError, Settings, memcached, resp};

/// A server without sockets.
pub struct Fuzzed<'s> {
    batch: Batch,
    shared: Shared<'s>,
}

/// One client, whose input is complete.
struct Sent<'a> {
    input: &'a [u8],
    session: &'a mut Session,
}

impl Inputs for Sent<'_> {
    fn input(&self, _: u32) -> &[u8] {
        self.input
    }

    fn decoded(&self, _: u32) -> &[u8] {
        &self.session.decoded
    }
}

impl Clients for Sent<'_> {
    fn session(&mut self, _: u32) -> &mut Session {
        self.session
    }
}

impl<'s> Fuzzed<'s> {
    /// A server of this store.
    pub fn new(store: &'s Store) -> Result<Fuzzed<'s>, ServerError> {
        let settings = Settings::default();
        let keyspace = Keyspace::open(store, &settings)?;
        let live = Arc::new(Current::new(&settings)?);
        let batch = Batch::new(&keyspace.table());
        let shared = Shared::new(keyspace, Arc::new(settings), live, Arc::new(Counters::default()))?;
        Ok(Fuzzed { batch, shared })
    }

    /// Takes bytes as if a client had sent them: parses them whole, in pieces, and for a client that must
    /// authenticate; and executes them. Panics if an invariant does not hold, which is what a fuzzer looks for.
    pub fn take(&mut self, bytes: &[u8]) {
        let open = Access::default();
        let whole = self.parse(bytes, &[bytes.len()], &open);
        let split = place_of(bytes);
        let in_parts = self.parse(bytes, &[split, bytes.len()], &open);
        // A protocol error is reported as early as possible, so only the commands before it may differ.
        if !whole.contains("Protocol error") && !whole.contains("line too long") {
            assert_eq!(in_parts, whole, "{:?} split at {split}", bytes.escape_ascii().to_string());
        }
        self.parse(bytes, &[split, bytes.len()], &Access { password: Some("sesame".to_owned()) });
        self.answer(bytes);
    }

    /// Parses bytes that arrive in pieces with the given ends.
    pub(crate) fn parse(&mut self, bytes: &[u8], ends: &[usize], access: &Access) -> String {
        let batch = &mut self.batch;
        batch.clear();
        let mut session = Session::new(1, access);
        let mut needed = 1;
        for &end in ends {
            let input = &bytes[..end];
            while input.len() - session.at >= needed || session.skip > 0 && input.len() > session.at {
                let before = (session.at, session.skip, session.skip_bulks, batch.len());
                match session.parse(input, 0, access, batch) {
                    Parsed::Some => {
                        let after = (session.at, session.skip, session.skip_bulks, batch.len());
                        assert_ne!(before, after, "a parser does not move");
                        needed = 1;
                    }
                    // As if the commands before it were done.
                    Parsed::Waits => {
                        assert!(session.in_batch, "a parser waits for nothing");
                        session.batch_is_done();
                    }
                    Parsed::NeedsMore(more) => {
                        let there = input.len() - session.at;
                        assert!(
                            more > there || session.halt == Halt::ForEver,
                            "{more} are needed and {there} are there"
                        );
                        needed = more;
                        break;
                    }
                }
            }
        }
        let at = session.at;
        let sent = Sent { input: bytes, session: &mut session };
        for command in batch.commands.iter().filter(|command| command.verb.has_key()) {
            // The bytes they refer to exist.
            assert!(sent.command_key(command).len() <= crate::item::MAX_KEY);
            assert!(command.value.of(bytes).len() <= crate::item::MAX_VALUE);
        }
        format!("{:?} {:?} {}", batch.commands, String::from_utf8_lossy(&batch.texts), at)
    }

    /// How many commands the last bytes were.
    #[cfg(test)]
    pub(crate) fn commands(&self) -> usize {
        self.batch.len()
    }

    /// Executes commands, a batch at a time, and returns the answers.
    fn answer(&mut self, input: &[u8]) -> Vec<u8> {
        let access = Access::default();
        let mut session = Session::new(1, &access);
        let mut out = Vec::new();
        let mut tally = Tally::default();
        loop {
            self.batch.clear();
            session.batch_is_done();
            let parsed = loop {
                match session.parse(input, 0, &access, &mut self.batch) {
                    Parsed::Some if self.batch.len() < 64 => {}
                    parsed => break parsed,
                }
            };
            if self.batch.commands.is_empty() {
                return out;
            }
            // Requests that stop a server or write files are excluded.
            let left_out = |command: &ServerCommand| {
                matches!(command, ServerCommand::Shutdown | ServerCommand::Save | ServerCommand::SaveBehind)
            };
            if self.batch.server_commands.iter().any(left_out) {
                return out;
            }
            let mut sent = Sent { input, session: &mut session };
            server_commands::run_all(&mut self.batch, &self.shared, &mut sent);
            self.batch.run(&self.shared.keyspace, &sent, crate::lifetime::now());
            assert_eq!(self.batch.outcomes.len(), self.batch.commands.len());
            for (command, &outcome) in self.batch.commands.iter().zip(&self.batch.outcomes) {
                match command.verb {
                    _ if outcome == Outcome::Cut => {}
                    Verb::Reply | Verb::Server | Verb::Farewell => {
                        out.extend_from_slice(command.text.of(&self.batch.texts));
                    }
                    verb if verb.is_memcached() => {
                        memcached::encode(&self.batch, command, outcome, &sent, &mut out);
                    }
                    _ => resp::encode(&self.batch, command, outcome, &sent, &mut tally, &mut out),
                }
            }
            if matches!(parsed, Parsed::NeedsMore(_)) {
                return out;
            }
        }
    }
}

impl std::fmt::Debug for Fuzzed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fuzzed").finish_non_exhaustive()
    }
}

/// A place to split bytes at, always the same for the same bytes.
fn place_of(bytes: &[u8]) -> usize {
    let mixed = bytes.iter().fold(7_usize, |mixed, &byte| mixed.wrapping_mul(31).wrapping_add(byte.into()));
    mixed % (bytes.len() + 1)
}
