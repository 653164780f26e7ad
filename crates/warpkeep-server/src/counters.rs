//! What the server has done, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::batch::Batch;
use crate::command::Verb;
use crate::outcome::Outcome;

/// What was done since the server started.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) batches: AtomicU64,
    pub(crate) commands: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) evicted: AtomicU64,
}

impl Counters {
    /// Counts a batch that is done.
    pub(crate) fn count(&self, batch: &Batch) {
        let (mut hits, mut misses, mut writes, mut refused) = (0, 0, 0, 0);
        for (command, outcome) in batch.commands.iter().zip(&batch.outcomes) {
            match outcome {
                Outcome::Refused(_) => refused += 1,
                Outcome::Cut | Outcome::Said => {}
                _ if command.verb.writes() => writes += 1,
                Outcome::Hit(_) | Outcome::MetaHit { .. } => hits += 1,
                Outcome::Miss if matches!(command.verb, Verb::Get | Verb::McGet | Verb::MetaGet) => {
                    misses += 1
                }
                _ => {}
            }
        }
        let add = |counter: &AtomicU64, more: u64| {
            if more > 0 {
                counter.fetch_add(more, Ordering::Relaxed);
            }
        };
        add(&self.batches, 1);
        add(&self.commands, batch.commands.len() as u64);
        add(&self.hits, hits);
        add(&self.misses, misses);
        add(&self.writes, writes);
        add(&self.refused, refused);
    }
}

/// What a counter has come to.
pub(crate) fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
