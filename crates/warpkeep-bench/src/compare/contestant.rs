//! What takes part in a comparison.

use crate::BenchError;
use crate::workload::{Task, Workload};

/// A way of using a contestant: one by one, in batches, in transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// What it is called in reports; empty if there is only one.
    pub name: &'static str,
    /// Operations handed over at once.
    pub block: usize,
    /// Whether a block of one is worth timing: where an operation can be done by itself.
    pub has_latency: bool,
}

/// Numbers handed over at once to contestants that take them one by one: enough to make the clock cheap.
const ONE_BY_ONE: usize = 256;

impl Way {
    /// One operation after the other.
    pub fn one_by_one(name: &'static str) -> Way {
        Way { name, block: ONE_BY_ONE, has_latency: true }
    }

    /// Many operations at once.
    pub fn batches(name: &'static str, block: usize) -> Way {
        Way { name, block, has_latency: false }
    }
}

/// Answers, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Keys that were there.
    pub hits: u64,
    /// Keys that were not.
    pub misses: u64,
    /// Keys that came with somebody else's value.
    pub wrong: u64,
}

impl Tally {
    /// Counts the answer to a get.
    #[inline]
    pub fn see(&mut self, workload: &Workload, number: u64, value: Option<&[u8]>) {
        match value {
            None => self.misses += 1,
            Some(value) => {
                self.hits += 1;
                self.wrong += u64::from(!workload.is_of(number, value));
            }
        }
    }

    /// Counts whether a key was there.
    #[inline]
    pub fn note(&mut self, was_there: bool) {
        *(if was_there { &mut self.hits } else { &mut self.misses }) += 1;
    }

    /// Adds those of another thread.
    pub fn add(&mut self, other: &Tally) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.wrong += other.wrong;
    }

    /// Answers that are not what the task must give.
    pub fn wrong_for(&self, task: Task) -> u64 {
        self.wrong
            + match task {
                Task::Hit | Task::Delete => self.misses,
                Task::Miss => self.hits,
                Task::Update | Task::Insert => 0,
            }
    }
}

/// Somebody who holds the items of a workload.
pub trait Contestant: Sync {
    /// Its name in reports.
    fn name(&self) -> &str;

    /// How it is set up: for the report, so that others can judge and repeat it.
    fn settings(&self) -> String;

    /// How it can be used.
    fn ways(&self) -> Vec<Way>;

    /// Whether it can be given such work.
    fn does(&self, task: Task) -> bool {
        let _ = task;
        true
    }

    /// Whether it has items at all, which are to be loaded and checked.
    fn holds_items(&self) -> bool {
        true
    }

    /// All items are in; from here on durability is as asked for.
    fn loaded(&self) {}

    /// What one thread works with, made in that thread. `way` is the place in [`Contestant::ways`].
    fn session<'a>(&'a self, way: usize) -> Result<Box<dyn Session + 'a>, BenchError>;

    /// Ends it. Its files go with the directory they lie in.
    fn close(self: Box<Self>) -> Result<(), BenchError>;
}

/// A contestant in the hands of one thread. A get ends with the value in memory of the caller's own: whoever only lends
/// it copies it.
pub trait Session {
    /// Looks keys up.
    fn get(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError>;

    /// Puts values of a generation.
    fn put(&mut self, numbers: &[u64], generation: u64) -> Result<(), BenchError>;

    /// Removes keys.
    fn delete(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError>;

    /// The value of one key, whole, for a check.
    fn value(&mut self, number: u64) -> Result<Option<Vec<u8>>, BenchError>;

    /// Ends what is under way, after the clock was stopped.
    fn finish(&mut self) -> Result<(), BenchError> {
        Ok(())
    }
}
