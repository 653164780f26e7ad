//! The interface of contestants.

use super::Promise;
use crate::BenchError;
use crate::workload::{Action, Task, Work, Workload};

/// A way of using a contestant: one by one, in batches, in transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Its name in reports; empty if there is only one.
    pub name: &'static str,
    /// Operations handed over at once; `None` if it takes batches of any size.
    pub block: Option<usize>,
    /// Whether a block of one is worth timing: where an operation can be done by itself.
    pub has_latency: bool,
}

/// Numbers passed at once to contestants that take them one by one: enough to make the clock cheap.
const ONE_BY_ONE: usize = 256;

impl Way {
    /// One operation after the other.
    pub fn one_by_one(name: &'static str) -> Way {
        Way { name, block: Some(ONE_BY_ONE), has_latency: true }
    }

    /// Many operations at once, never one by itself.
    pub fn batches(name: &'static str) -> Way {
        Way { name, block: None, has_latency: false }
    }

    /// Transactions, of many operations or of one.
    pub fn transactions(name: &'static str) -> Way {
        Way { name, block: None, has_latency: true }
    }
}

/// Answers, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Keys that were there.
    pub hits: u64,
    /// Keys that were not.
    pub misses: u64,
    /// Keys that came with another key's value, and keys of a mix that were not found.
    pub wrong: u64,
    /// Keys removed by a contestant that does not report whether they existed.
    pub untold: u64,
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

    /// Counts the answer to a get in a mix, of which every key is there.
    #[inline]
    pub fn see_there(&mut self, workload: &Workload, number: u64, value: Option<&[u8]>) {
        self.see(workload, number, value);
        self.wrong += u64::from(value.is_none());
    }

    /// Counts whether a key was there.
    #[inline]
    pub fn note(&mut self, was_there: bool) {
        *(if was_there { &mut self.hits } else { &mut self.misses }) += 1;
    }

    /// Adds the counts of another thread.
    pub fn add(&mut self, other: &Tally) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.wrong += other.wrong;
        self.untold += other.untold;
    }

    /// Answers that are wrong for the work.
    pub fn wrong_for(&self, work: Work) -> u64 {
        self.wrong
            + match work {
                Work::Task(Task::Hit | Task::Delete) | Work::Dlrm => self.misses,
                Work::Task(Task::Miss) => self.hits,
                Work::Mix(mix) if mix.only_reads() => self.misses,
                // Keys that a mix misses are counted as wrong already.
                Work::Task(Task::Update | Task::Insert) | Work::Mix(_) | Work::Load | Work::PageRank => 0,
            }
    }
}

/// A contestant holds the items of a workload.
pub trait Contestant: Sync {
    /// Its name in reports.
    fn name(&self) -> &str;

    /// Its configuration: for the report, so that readers can judge and repeat it.
    fn settings(&self) -> String;

    /// How it can be used.
    fn ways(&self) -> Vec<Way>;

    /// Whether it can be given such work in one of its ways.
    fn does(&self, work: Work, way: usize) -> bool {
        let _ = (work, way);
        true
    }

    /// The durability of its writes on the disk of the logs.
    fn on_disk(&self) -> Promise {
        Promise::NoLog
    }

    /// Whether it has items at all, which are to be loaded and checked.
    fn holds_items(&self) -> bool {
        true
    }

    /// All items are in; from here on durability is as requested.
    fn loaded(&self) {}

    /// The state of one thread, made in that thread. `way` is the position in [`Contestant::ways`].
    fn session<'a>(&'a self, way: usize) -> Result<Box<dyn Session + 'a>, BenchError>;

    /// Ends it. Its files go with the directory they lie in.
    fn close(self: Box<Self>) -> Result<(), BenchError>;
}

/// A contestant as used by one thread. A get ends with the value in memory of the caller's own: a contestant that
/// only lends it copies it.
pub trait Session {
    /// Looks keys up.
    fn get(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError>;

    /// Puts values of a generation.
    fn put(&mut self, numbers: &[u64], generation: u64) -> Result<(), BenchError>;

    /// Removes keys.
    fn delete(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError>;

    /// Does different things to keys that all exist, or are inserted here and not read before the next block.
    /// Modifications read and write, not atomically: of two in a block on one key, one may be lost.
    fn mix(
        &mut self,
        numbers: &[u64],
        actions: &[Action],
        generation: u64,
        tally: &mut Tally,
    ) -> Result<(), BenchError>;

    /// The value of one key, whole, for a check.
    fn value(&mut self, number: u64) -> Result<Option<Vec<u8>>, BenchError>;

    /// Completes work in progress, after the clock was stopped.
    fn finish(&mut self) -> Result<(), BenchError> {
        Ok(())
    }
}
