//! A batch: the commands of many connections, executed together.
//!
//! 1. The keys that commands change become *entries* and are locked, so that no other worker changes them
//!    meanwhile.
//! 2. One batched lookup reads the requested keys and the values that entries need.
//! 3. Commands are executed one by one, in order, on the entries: a read after a write sees it.
//! 4. The final state of the entries is written, as one batch of the store.
//!
//! Answers are given after that, when the batch has the requested durability.

mod isolated;
#[cfg(test)]
mod tests;

use parking_lot::MutexGuard;
use warpkeep::Table;
use warpkeep_core::Op;

use crate::command::{Command, NONE, Verb, bits};
use crate::entries::Entries;
use crate::keyspace::Keyspace;
use crate::outcome::{Current, Outcome, Place, Refusal, Version};
use crate::reads::Reads;
use crate::server_commands::ServerCommand;
use crate::session::Session;
use crate::span::Span;
use crate::traces::Trace;
use crate::writes::Writes;
use crate::{memcached, resp};

pub(crate) use isolated::{Aborted, MOST};

/// Approximate limit on the bytes of values that a batch reads, on those that it makes and returns, and on those of answers
/// that are known when commands are parsed. Commands beyond it wait for the next batch.
pub(crate) const BUDGET: usize = 8 << 20;

/// The bytes that connections have sent, which commands refer to.
pub(crate) trait Inputs {
    /// The input of one connection.
    fn input(&self, connection: u32) -> &[u8];

    /// The keys of one connection that were not sent as they are.
    fn decoded(&self, connection: u32) -> &[u8];

    /// The key of a command with these bits.
    #[inline]
    fn key(&self, connection: u32, key: Span, bits: u16) -> &[u8] {
        match bits & bits::DECODED {
            0 => key.of(self.input(connection)),
            _ => key.of(self.decoded(connection)),
        }
    }

    /// The key of a command.
    #[inline]
    fn command_key(&self, command: &Command) -> &[u8] {
        self.key(command.connection, command.key, command.bits)
    }
}

/// The connections that a batch is of.
pub(crate) trait Clients: Inputs {
    /// The session of a connection.
    fn session(&mut self, connection: u32) -> &mut Session;
}

/// Commands, and everything needed to do them; its memory is used again.
pub(crate) struct Batch {
    pub(crate) commands: Vec<Command>,
    pub(crate) outcomes: Vec<Outcome>,
    /// Answers that were known when the command was parsed.
    pub(crate) texts: Vec<u8>,
    /// Requests to the server as a whole.
    pub(crate) server_commands: Vec<ServerCommand>,
    /// Memory for parsers.
    pub(crate) arguments: Vec<Span>,
    /// Keys whose items were found to have expired.
    pub(crate) expired: Vec<Vec<u8>>,
    /// The trace of the key of the command being answered, if the command requests it.
    pub(crate) trace: Trace,
    /// Another batch, in which transactions are done.
    pub(crate) inner: Option<Box<Batch>>,
    /// Commands that can change a key.
    changing: usize,
    work: Work,
    writes: Writes,
    numbers: Vec<u32>,
}

/// The state that commands work on.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) now: u64,
    pub(crate) entries: Entries,
    pub(crate) reads: Reads,
    /// Values that commands have made.
    pub(crate) made: Vec<u8>,
    /// Bytes that were given out of entries.
    given: usize,
    /// The most that is given out.
    budget: usize,
    /// Intermediate results of the parts of a command on several keys.
    pub(crate) carried: Carried,
    /// Changes so far.
    changes: u32,
    /// The first CAS value for changes that are replaced before they are stored.
    tokens: u64,
}

/// Intermediate results of the parts of a command on several keys.
#[derive(Default)]
pub(crate) struct Carried {
    /// A key was there that was looked at.
    pub(crate) any: bool,
    /// The item that was taken.
    pub(crate) item: Option<Current>,
}

impl Batch {
    pub(crate) fn new(table: &Table) -> Batch {
        Batch {
            commands: Vec::new(),
            outcomes: Vec::new(),
            texts: Vec::new(),
            server_commands: Vec::new(),
            arguments: Vec::new(),
            expired: Vec::new(),
            trace: Trace::default(),
            inner: None,
            changing: 0,
            work: Work { reads: Reads::new(table), ..Work::default() },
            writes: Writes::new(table),
            numbers: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.commands.len()
    }

    /// Forgets everything and keeps the memory, unless it is very much.
    pub(crate) fn clear(&mut self) {
        self.commands.clear();
        self.outcomes.clear();
        self.texts.clear();
        self.server_commands.clear();
        self.expired.clear();
        self.changing = 0;
        self.work.entries.clear();
        self.work.reads.clear();
        self.work.made.clear();
        self.writes.clear();
        if self.commands.capacity() > 1 << 16 {
            self.commands = Vec::new();
            self.outcomes = Vec::new();
        }
        for buffer in [&mut self.texts, &mut self.work.made] {
            if buffer.capacity() > BUDGET {
                *buffer = Vec::new();
            }
        }
    }

    /// Adds a command.
    #[inline]
    pub(crate) fn push(&mut self, command: Command) {
        self.changing += usize::from(command.verb.writes());
        self.commands.push(command);
    }

    /// Adds an answer that is known.
    pub(crate) fn say(&mut self, mut command: Command, answer: &[u8]) {
        command.text = Span::append(&mut self.texts, answer);
        self.push(command);
    }

    /// Whether no more commands are to be added, of which there may be `limit`.
    pub(crate) fn is_full(&self, limit: usize) -> bool {
        self.commands.len() >= limit || self.texts.len() > BUDGET
    }

    /// Whether one of the commands added since there were `len` can change a key.
    pub(crate) fn writes_from(&self, len: usize) -> bool {
        self.commands[len..].iter().any(|command| command.verb.writes())
    }

    /// Removes the commands added since there were `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        let gone = self.commands[len..].iter().filter(|command| command.verb.writes()).count();
        self.changing -= gone;
        self.commands.truncate(len);
    }

    /// Does all of it.
    pub(crate) fn run(&mut self, keyspace: &Keyspace<'_>, inputs: &impl Inputs, now: u64) {
        let table = keyspace.table();
        self.work.begin(now, BUDGET);
        let mut held = Vec::new();
        let commits = keyspace.commits.look();
        self.prepare(keyspace, inputs, &mut held);
        let mut read = self.work.reads.run(&table, BUDGET);
        if read.is_ok() && !keyspace.commits.none_since(commits) && self.reads_together() {
            read = self.read_held(keyspace, &table, inputs, &mut held);
        }
        if let Err(error) = read {
            tracing::error!(%error, "a batch could not be read");
            self.fail();
            return;
        }
        self.insist_on_first(&table, inputs);
        self.work.entries.take_reads(&self.work.reads);
        self.execute(inputs);
        if self.changing > 0 {
            self.commit(keyspace, &table, inputs);
            self.note_touches(keyspace);
        }
        drop(held);
        self.note_expired(inputs);
    }

    /// Answers that the store has failed.
    fn fail(&mut self) {
        let failed = |command: &Command| match command.verb.has_key() {
            true => Outcome::Refused(Refusal::Failed),
            false => Outcome::Reply,
        };
        self.outcomes.clear();
        self.outcomes.extend(self.commands.iter().map(failed));
    }

    /// Finds the keys to lock and to read, and locks them.
    fn prepare<'k>(
        &mut self,
        keyspace: &'k Keyspace<'_>,
        inputs: &impl Inputs,
        held: &mut Vec<MutexGuard<'k, ()>>,
    ) {
        let Work { entries, reads, tokens, .. } = &mut self.work;
        if let Some(evictor) = &keyspace.evictor {
            evictor.count(self.commands.len());
        }
        if self.changing > 0 {
            *tokens = keyspace.tokens(self.commands.len() as u64);
            for command in self.commands.iter_mut().filter(|command| command.verb.writes()) {
                let key = inputs.command_key(command);
                command.hash = keyspace.hash(key);
                command.entry = entries.enter(command, key, inputs);
                if let Some(evictor) = &keyspace.evictor {
                    evictor.note(command.hash);
                }
            }
            let hashes = entries.list.iter().map(|entry| entry.hash);
            keyspace.stripes.hold(hashes, &mut self.numbers, held);
        }
        for command in &mut self.commands {
            if !command.verb.has_key() {
                continue;
            }
            let key = inputs.command_key(command);
            if let (Some(evictor), true) = (&keyspace.evictor, command.entry == NONE) {
                command.hash = keyspace.hash(key);
                evictor.note(command.hash);
            }
            if self.changing > 0 {
                if command.entry == NONE {
                    if keyspace.evictor.is_none() {
                        command.hash = keyspace.hash(key);
                    }
                    command.entry = entries.find(command.hash, key, inputs);
                }
                if command.entry != NONE {
                    if !command.verb.overwrites() {
                        entries.need(command.entry, key, reads);
                    }
                    continue;
                }
            }
            command.read = reads.ask(key);
        }
    }

    /// The first command is never put off, so that every batch makes progress. Lookups may finish in any order, so
    /// its read may be one that found no room.
    fn insist_on_first(&mut self, table: &Table, inputs: &impl Inputs) {
        let Some(command) = self.commands.first() else { return };
        let read = self.work.read_of(command);
        if read != NONE {
            let key = inputs.command_key(command);
            self.work.reads.insist(read, table, key);
        }
    }

    fn execute(&mut self, inputs: &impl Inputs) {
        let mut cut: Vec<u32> = Vec::new();
        for at in 0..self.commands.len() {
            let command = &self.commands[at];
            let outcome = match command.verb.has_key() {
                false if cut.contains(&command.connection) => Outcome::Cut,
                false => Outcome::Reply,
                true => {
                    let waits = at > 0 && self.work.must_wait(command) || cut.contains(&command.connection);
                    match waits {
                        true => {
                            cut.push(command.connection);
                            Outcome::Cut
                        }
                        false => match self.work.execute(command, inputs) {
                            Outcome::Cut => {
                                cut.push(command.connection);
                                Outcome::Cut
                            }
                            outcome => outcome,
                        },
                    }
                }
            };
            self.outcomes.push(outcome);
        }
    }

    /// Collects the changes to write.
    fn note_writes(&mut self, inputs: &impl Inputs) {
        for (number, entry) in self.work.entries.list.iter().enumerate() {
            if !entry.changed {
                continue;
            }
            let key = inputs.key(entry.connection, entry.key, entry.bits);
            match entry.current {
                Some(Current { value, head, .. }) => {
                    let value = self.work.bytes(value, inputs);
                    self.writes.has_expiring |= head.expires != 0;
                    self.writes.push(Op::Put, number as u32, key, &[&head.to_bytes(), value]);
                }
                None if entry.known && entry.base.is_none() => {}
                None => self.writes.push(Op::Delete, number as u32, key, &[]),
            }
        }
    }

    fn commit(&mut self, keyspace: &Keyspace<'_>, table: &Table, inputs: &impl Inputs) {
        self.note_writes(inputs);
        let entries = &mut self.work.entries;
        let mut refused = false;
        self.writes.run(keyspace, table, |number, status, version| {
            let entry = &mut entries.list[number as usize];
            entry.version = version;
            entry.refused = Refusal::of(status);
            refused |= entry.refused.is_some();
        });
        if refused {
            for entry in &mut entries.list {
                entry.refused = entry.refused.map(|refusal| self.writes.explain(keyspace, refusal));
            }
            self.execute_refused(table, inputs);
        }
    }

    /// Counts the changes that were made, if a key is watched.
    fn note_touches(&self, keyspace: &Keyspace<'_>) {
        if keyspace.touches.are_counted() {
            let changed = self.work.entries.list.iter().filter(|entry| entry.changed);
            changed.for_each(|entry| keyspace.touches.note(entry.hash));
        }
    }

    /// Answers the commands on keys that could not be changed anew: their changes did not happen.
    #[cold]
    fn execute_refused(&mut self, table: &Table, inputs: &impl Inputs) {
        let Work { entries, reads, .. } = &mut self.work;
        for entry in entries.list.iter_mut().filter(|entry| entry.refused.is_some()) {
            if !entry.known {
                let key = inputs.key(entry.connection, entry.key, entry.bits);
                entry.base = reads.one(table, key);
                entry.known = true;
            }
            entry.current = entry.base;
            entry.changed = false;
        }
        for (command, outcome) in self.commands.iter().zip(&mut self.outcomes) {
            let refused = command.entry != NONE
                && self.work.entries.list[command.entry as usize].refused.is_some()
                && *outcome != Outcome::Cut;
            if refused {
                let made = self.work.made.len();
                *outcome = self.work.execute(command, inputs);
                if matches!(outcome, Outcome::Refused(_)) {
                    // Nothing refers to what it made, and each of many commands may have made a large value.
                    self.work.made.truncate(made);
                }
            }
        }
    }

    /// Notes keys that were read and had expired, to be removed.
    fn note_expired(&mut self, inputs: &impl Inputs) {
        const AT_ONCE: usize = 64;
        let reads = &self.work.reads;
        if !reads.has_expired(self.work.now) {
            return;
        }
        for command in self.commands.iter().filter(|command| command.read != NONE) {
            if reads.is_expired(command.read, self.work.now) && self.expired.len() < AT_ONCE {
                self.expired.push(inputs.command_key(command).to_vec());
            }
        }
    }

    /// The bytes of a value.
    #[inline]
    pub(crate) fn bytes<'a>(&'a self, place: Place, inputs: &'a impl Inputs) -> &'a [u8] {
        self.work.bytes(place, inputs)
    }

    /// The CAS value of a key's current item; valid when the batch is done.
    pub(crate) fn cas(&self, entry: u32, version: Version) -> u64 {
        match version {
            Version::Stored(version) => version,
            Version::Coming(number) => {
                let entry = &self.work.entries.list[entry as usize];
                match entry.current {
                    Some(Current { version: Version::Coming(last), .. }) if last == number => entry.version,
                    _ => self.work.tokens + u64::from(number),
                }
            }
        }
    }

    /// The time that the batch uses.
    pub(crate) fn now(&self) -> u64 {
        self.work.now
    }
}

impl Work {
    fn begin(&mut self, now: u64, budget: usize) {
        self.now = now;
        self.given = 0;
        self.budget = budget;
        self.changes = 0;
    }

    #[inline]
    fn execute(&mut self, command: &Command, inputs: &impl Inputs) -> Outcome {
        let outcome = match command.verb {
            Verb::McGet | Verb::Get => match self.current(command) {
                Some(current) => Outcome::Hit(current),
                None => Outcome::Miss,
            },
            verb if verb.is_memcached() => memcached::execute(self, command, inputs),
            _ => resp::execute(self, command, inputs),
        };
        // Values that were read are limited when they are read.
        if command.entry != NONE {
            self.given += match outcome {
                Outcome::Hit(current) | Outcome::MetaHit { current, .. } => current.value.len(),
                Outcome::Bytes(place) => place.len(),
                _ => 0,
            };
        }
        outcome
    }

    /// Whether it is for the next batch, because this one gives out or has made enough already.
    fn must_wait(&self, command: &Command) -> bool {
        if command.verb.overwrites() {
            return false;
        }
        let read = self.read_of(command);
        self.given + self.made.len() > self.budget || read != NONE && self.reads.was_put_off(read)
    }

    /// The read that a command depends on, if it does.
    fn read_of(&self, command: &Command) -> u32 {
        match command.entry {
            NONE => command.read,
            entry => self.entries.list[entry as usize].read,
        }
    }

    /// The current item under the key of a command.
    #[inline]
    pub(crate) fn current(&self, command: &Command) -> Option<Current> {
        let current = match command.entry {
            NONE => self.reads.found(command.read),
            entry => self.entries.list[entry as usize].current,
        };
        current.filter(|current| !current.head.is_expired(self.now))
    }

    /// The item just stored under the key of a command.
    pub(crate) fn stored(&self, command: &Command) -> Option<Current> {
        self.entries.list.get(command.entry as usize)?.current
    }

    /// Gives the key of a command another item.
    pub(crate) fn put(&mut self, command: &Command, value: Place, head: crate::item::Head) -> Outcome {
        let number = self.changes;
        let entry = &mut self.entries.list[command.entry as usize];
        if let Some(refusal) = entry.refused {
            return Outcome::Refused(refusal);
        }
        self.changes += 1;
        entry.current = Some(Current { value, head, version: Version::Coming(number) });
        entry.changed = true;
        Outcome::Stored(number)
    }

    /// Removes the item of the key of a command. `Some` if that was refused.
    pub(crate) fn delete(&mut self, command: &Command) -> Option<Outcome> {
        let entry = &mut self.entries.list[command.entry as usize];
        if let Some(refusal) = entry.refused {
            return Some(Outcome::Refused(refusal));
        }
        entry.current = None;
        entry.changed = true;
        None
    }

    /// The bytes of a value.
    #[inline]
    pub(crate) fn bytes<'a>(&'a self, place: Place, inputs: &'a impl Inputs) -> &'a [u8] {
        match place {
            Place::Read(span) => span.of(self.reads.bytes()),
            Place::Input(connection, span) => span.of(inputs.input(connection)),
            Place::Made(span) => span.of(&self.made),
        }
    }

    /// Keeps bytes that a command has made.
    pub(crate) fn make(&mut self, parts: &[&[u8]]) -> Place {
        let start = self.made.len();
        parts.iter().for_each(|part| self.made.extend_from_slice(part));
        Place::Made(Span::between(start, self.made.len()))
    }

    /// Keeps two values, one after the other.
    pub(crate) fn join(&mut self, first: Place, second: Place, inputs: &impl Inputs) -> Place {
        let start = self.made.len();
        for place in [first, second] {
            match place {
                Place::Made(span) => self.made.extend_from_within(span.start as usize..span.end()),
                Place::Read(span) => self.made.extend_from_slice(span.of(self.reads.bytes())),
                Place::Input(connection, span) => {
                    self.made.extend_from_slice(span.of(inputs.input(connection)));
                }
            }
        }
        Place::Made(Span::between(start, self.made.len()))
    }
}
