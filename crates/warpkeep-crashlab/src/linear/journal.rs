//! Writing histories down while they happen.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::history::{Answer, Call, History, Operation};
use super::register::Register;
use super::violation::{Checked, NotLinearizable};

/// A clock shared by all threads: each reading is later than every earlier one.
#[derive(Debug, Default)]
pub struct Clock(AtomicU64);

impl Clock {
    fn now(&self) -> u64 {
        // A thread that reads a later time also sees everything done before the earlier one.
        self.0.fetch_add(1, Ordering::AcqRel)
    }
}

/// The operations of one thread.
#[derive(Debug)]
pub struct Journal<'c> {
    clock: &'c Clock,
    thread: u32,
    batches: u64,
    entries: Vec<(Vec<u8>, Operation)>,
}

/// Calls without an answer yet.
#[derive(Debug)]
#[must_use = "what is not answered may have happened or not"]
pub struct Called(Range<usize>);

impl<'c> Journal<'c> {
    /// An empty journal of this thread; no two threads have the same number.
    pub fn new(clock: &'c Clock, thread: u32) -> Journal<'c> {
        Journal { clock, thread, batches: 0, entries: Vec::new() }
    }

    /// Notes that an operation is about to be called.
    pub fn call(&mut self, key: &[u8], call: Call) -> Called {
        self.call_batch([(key.to_vec(), call)])
    }

    /// Notes that a batch is about to be called.
    pub fn call_batch(&mut self, calls: impl IntoIterator<Item = (Vec<u8>, Call)>) -> Called {
        let (thread, batch, first) = (self.thread, self.batches, self.entries.len());
        self.batches += 1;
        for (key, call) in calls {
            self.entries.push((key, Operation { thread, batch, called: 0, call, answer: None }));
        }
        let called = self.clock.now();
        self.entries[first..].iter_mut().for_each(|(_, operation)| operation.called = called);
        Called(first..self.entries.len())
    }

    /// Notes the answer to an operation.
    pub fn answered(&mut self, called: Called, answer: Answer) {
        self.answered_batch(called, [answer]);
    }

    /// Notes the answers to a batch, in its order.
    pub fn answered_batch(&mut self, called: Called, answers: impl IntoIterator<Item = Answer>) {
        let now = self.clock.now();
        let operations = &mut self.entries[called.0];
        for ((_, operation), answer) in operations.iter_mut().zip(answers) {
            operation.answer = Some((now, answer));
        }
    }
}

/// The operations of all threads, by key.
#[derive(Clone, Debug, Default)]
pub struct Histories {
    by_key: BTreeMap<Vec<u8>, History>,
}

impl Histories {
    /// Brings journals together.
    pub fn of<'c>(journals: impl IntoIterator<Item = Journal<'c>>) -> Histories {
        let mut histories = Histories::default();
        for (key, operation) in journals.into_iter().flat_map(|journal| journal.entries) {
            histories.by_key.entry(key).or_default().push(operation);
        }
        histories
    }

    /// The history of each key.
    pub fn by_key(&self) -> &BTreeMap<Vec<u8>, History> {
        &self.by_key
    }

    /// Checks every key.
    pub fn check(&self, register: &Register) -> Result<Checked, NotLinearizable> {
        let mut all = Checked::default();
        for (key, history) in &self.by_key {
            let one = history
                .check(register)
                .map_err(|violation| NotLinearizable { key: Some(key.clone()), ..violation })?;
            all.keys += one.keys;
            all.operations += one.operations;
            all.places += one.places;
        }
        Ok(all)
    }
}
