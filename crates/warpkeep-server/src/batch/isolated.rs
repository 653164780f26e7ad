//! A batch that is executed atomically: other clients see all of it or nothing, and nothing is done if a part of it
//! cannot be.

use parking_lot::MutexGuard;
use warpkeep::Table;

use super::{BUDGET, Batch, Inputs};
use crate::command::NONE;
use crate::databases;
use crate::keyspace::Keyspace;
use crate::outcome::{Outcome, Refusal};
use crate::transaction::Watch;

/// Bytes of values that a transaction may make and give out, and of answers that are known when its commands are parsed.
pub(crate) const MOST: usize = 256 << 20;

/// Why a batch was not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aborted {
    /// A key that was watched has changed.
    Watched,
    /// Its answers and new values would have too many bytes.
    TooLarge,
    /// A change was not made.
    Refused(Refusal),
}

impl Batch {
    /// Does all of it as one, if the watched keys have not changed.
    pub(crate) fn run_isolated(
        &mut self,
        keyspace: &Keyspace<'_>,
        inputs: &impl Inputs,
        now: u64,
        watched: &[Watch],
    ) -> Result<(), Aborted> {
        let table = keyspace.table();
        self.work.begin(now, MOST);
        self.work.tokens = keyspace.tokens(self.commands.len() as u64);
        if let Some(evictor) = &keyspace.evictor {
            evictor.count(self.commands.len());
        }
        self.enter_all(keyspace, inputs);
        let mut held = Vec::new();
        let entries = self.work.entries.list.iter().map(|entry| entry.hash);
        let hashes = entries.chain(watched.iter().map(|watch| keyspace.hash(&watch.key)));
        keyspace.stripes.hold(hashes, &mut self.numbers, &mut held);
        if watched.iter().any(|watch| !watch.holds(&mut self.work.reads, (keyspace, &table), now)) {
            return Err(Aborted::Watched);
        }
        if let Err(error) = self.work.reads.run(&table, MOST) {
            tracing::error!(%error, "a transaction could not be read");
            return Err(Aborted::Refused(Refusal::Failed));
        }
        self.work.entries.take_reads(&self.work.reads);
        self.execute(inputs);
        if self.outcomes.contains(&Outcome::Cut) {
            return Err(Aborted::TooLarge);
        }
        let done = self.commit_as_one(keyspace, &table, inputs);
        self.note_touches(keyspace);
        done
    }

    /// Makes an entry for every key, so that all are locked and read, whether they are changed or not.
    fn enter_all(&mut self, keyspace: &Keyspace<'_>, inputs: &impl Inputs) {
        let entries = &mut self.work.entries;
        for command in self.commands.iter_mut().filter(|command| command.verb.has_key()) {
            let key = inputs.command_key(command);
            command.hash = keyspace.hash(key);
            command.entry = entries.enter(command, key, inputs);
            entries.need(command.entry, key, &mut self.work.reads);
            if let Some(evictor) = &keyspace.evictor {
                evictor.note(command.hash);
            }
        }
    }

    fn commit_as_one(
        &mut self,
        keyspace: &Keyspace<'_>,
        table: &Table,
        inputs: &impl Inputs,
    ) -> Result<(), Aborted> {
        self.note_writes(inputs);
        self.note_databases(keyspace, inputs)?;
        let _commit = keyspace.commits.begin();
        match self.writes.run_as_one(keyspace, table) {
            None => Ok(()),
            Some(refusal) => Err(Aborted::Refused(self.writes.explain(keyspace, refusal))),
        }
    }

    /// Stores which databases are written: `COPY` and `MOVE` reach one that was never selected.
    fn note_databases(&self, keyspace: &Keyspace<'_>, inputs: &impl Inputs) -> Result<(), Aborted> {
        for entry in self.work.entries.list.iter().filter(|entry| entry.changed) {
            let key = inputs.key(entry.connection, entry.key, entry.bits);
            if let Err(error) = keyspace.use_database(databases::of(key).0) {
                tracing::error!(%error, "a transaction could not be written");
                return Err(Aborted::Refused(Refusal::Failed));
            }
        }
        Ok(())
    }

    /// Whether one client reads several keys, so that it could see part of a transaction that commits between the
    /// reads.
    pub(super) fn reads_together(&self) -> bool {
        self.commands.windows(2).any(|pair| pair[0].connection == pair[1].connection)
    }

    /// Repeats the reads that transactions may have changed meanwhile, with all keys locked.
    #[cold]
    pub(super) fn read_held<'k>(
        &mut self,
        keyspace: &'k Keyspace<'_>,
        table: &Table,
        inputs: &impl Inputs,
        held: &mut Vec<MutexGuard<'k, ()>>,
    ) -> Result<(), warpkeep::Error> {
        // Locks are taken in one order, so the ones already held must be released first.
        held.clear();
        let keyed = self.commands.iter().filter(|command| command.verb.has_key());
        let hashes = keyed.map(|command| match command.entry {
            NONE => keyspace.hash(inputs.command_key(command)),
            entry => self.work.entries.list[entry as usize].hash,
        });
        keyspace.stripes.hold(hashes, &mut self.numbers, held);
        self.work.reads.forget_found();
        self.work.reads.run(table, BUDGET)
    }
}
