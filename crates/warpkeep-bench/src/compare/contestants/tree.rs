//! Embedded stores that a user could take instead: trees on files with transactions or batches, all driven alike.

use super::Setup;
use crate::BenchError;
use crate::compare::Promise;
use crate::compare::contestant::{Contestant, Session, Tally, Way};
use crate::workload::{Action, Workload};

/// The most operations of one write transaction: some of them keep every page it touched in memory, and have a limit.
const TRANSACTION: usize = 1 << 14;

/// A tree that many threads use at once.
pub(crate) trait Tree: Sync + Sized {
    /// A thread's read handle for a while: a transaction, where there is one.
    type Reader<'a>
    where
        Self: 'a;

    fn reader(&self) -> Result<Self::Reader<'_>, BenchError>;

    /// Copies the value of a key; `false` if there is none.
    fn get(&self, reader: &Self::Reader<'_>, key: &[u8], value: &mut Vec<u8>) -> Result<bool, BenchError>;

    /// Copies the values of many keys of one length, and reports each in turn: in the store's best way.
    fn get_many(
        &self,
        reader: &Self::Reader<'_>,
        keys: std::slice::ChunksExact<'_, u8>,
        value: &mut Vec<u8>,
        each: &mut dyn FnMut(Option<&[u8]>),
    ) -> Result<(), BenchError> {
        for key in keys {
            let found = self.get(reader, key, value)?;
            each(found.then_some(value));
        }
        Ok(())
    }

    /// Does some writes at once; they last as promised when this returns.
    fn write(&self, work: &mut Writes<'_>) -> Result<(), BenchError>;

    /// Ends it.
    fn close(self) -> Result<(), BenchError> {
        Ok(())
    }
}

/// The writes of a transaction.
pub(crate) type Writes<'a> = dyn FnMut(&mut dyn Writer) -> Result<(), BenchError> + 'a;

/// A write transaction.
pub(crate) trait Writer {
    /// Puts a value, whether the key is there or not.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), BenchError>;
    /// Removes a key, and returns whether it existed, if the store reports that.
    fn remove(&mut self, key: &[u8]) -> Result<Option<bool>, BenchError>;
}

/// A tree that takes part.
pub(crate) struct TreeContestant<T> {
    name: &'static str,
    settings: String,
    workload: Workload,
    promise: Promise,
    tree: T,
}

impl<T: Tree + 'static> TreeContestant<T> {
    pub(crate) fn boxed(
        name: &'static str,
        settings: &str,
        setup: &Setup<'_>,
        tree: T,
    ) -> Box<dyn Contestant> {
        let place = match setup.promise {
            Promise::NoLog | Promise::Process => "files where the image lies",
            Promise::Power => "files on the disk",
        };
        let settings = format!(
            "{settings}, one reader for a round's gets, a batch's writes in one go (at most {TRANSACTION}; one where latencies are \
             taken), {place}"
        );
        let Setup { workload, promise, .. } = *setup;
        Box::new(TreeContestant { name, settings, workload, promise, tree })
    }
}

impl<T: Tree> Contestant for TreeContestant<T> {
    fn name(&self) -> &str {
        self.name
    }

    fn settings(&self) -> String {
        self.settings.clone()
    }

    fn ways(&self) -> Vec<Way> {
        vec![Way::transactions("")]
    }

    fn on_disk(&self) -> Promise {
        match self.promise {
            Promise::Power => Promise::Power,
            Promise::NoLog | Promise::Process => Promise::NoLog,
        }
    }

    fn session<'a>(&'a self, _way: usize) -> Result<Box<dyn Session + 'a>, BenchError> {
        let (keys, value, changed) = (Vec::new(), vec![0; self.workload.value_bytes], Vec::new());
        Ok(Box::new(TreeSession { of: self, reading: None, keys, value, changed }))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        self.tree.close()
    }
}

struct TreeSession<'a, T: Tree> {
    of: &'a TreeContestant<T>,
    reading: Option<T::Reader<'a>>,
    keys: Vec<u8>,
    value: Vec<u8>,
    /// Values that were modified and are to be written.
    changed: Vec<u8>,
}

impl<T: Tree> TreeSession<'_, T> {
    fn set_keys(&mut self, numbers: &[u64]) {
        self.keys.clear();
        numbers.iter().for_each(|&number| self.of.workload.append_key(number, &mut self.keys));
    }

    /// Reads some keys and gives number and value of each in turn.
    fn read(
        &mut self,
        numbers: &[u64],
        mut each: impl FnMut(&Workload, u64, Option<&[u8]>),
    ) -> Result<(), BenchError> {
        self.set_keys(numbers);
        let TreeContestant { tree, workload, .. } = self.of;
        let reading = match &mut self.reading {
            Some(reading) => reading,
            none => none.insert(tree.reader()?),
        };
        let mut numbers = numbers.iter();
        let keys = self.keys.chunks_exact(workload.key_bytes);
        tree.get_many(reading, keys, &mut self.value, &mut |value| {
            if let Some(&number) = numbers.next() {
                each(workload, number, value);
            }
        })
    }

    /// Writes the values of a generation, or modified ones, in one transaction.
    fn write(
        &mut self,
        numbers: &(impl Iterator<Item = (u64, Action)> + Clone),
        generation: u64,
    ) -> Result<(), BenchError> {
        let TreeContestant { tree, workload, .. } = self.of;
        let (keys, value, changed) = (&mut self.keys, &mut self.value, &self.changed);
        value.resize(workload.value_bytes, 0);
        keys.resize(workload.key_bytes, 0);
        tree.write(&mut |writer| {
            let mut changed = changed.chunks_exact(workload.value_bytes);
            for (number, action) in numbers.clone() {
                workload.write_key(number, keys);
                if action == Action::Modify {
                    writer.put(keys, changed.next().expect("one was made of each value that was read"))?;
                } else {
                    workload.write_value(number, generation, value);
                    writer.put(keys, value)?;
                }
            }
            Ok(())
        })
    }
}

impl<T: Tree> Session for TreeSession<'_, T> {
    fn get(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError> {
        self.read(numbers, |workload, number, value| tally.see(workload, number, value))
    }

    fn put(&mut self, numbers: &[u64], generation: u64) -> Result<(), BenchError> {
        numbers.chunks(TRANSACTION).try_for_each(|numbers| {
            self.write(&numbers.iter().map(|&number| (number, Action::Put)), generation)
        })
    }

    fn delete(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError> {
        for numbers in numbers.chunks(TRANSACTION) {
            self.set_keys(numbers);
            self.of.tree.write(&mut |writer| {
                for key in self.keys.chunks_exact(self.of.workload.key_bytes) {
                    match writer.remove(key)? {
                        Some(was_there) => tally.note(was_there),
                        None => tally.untold += 1,
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn mix(
        &mut self,
        numbers: &[u64],
        actions: &[Action],
        generation: u64,
        tally: &mut Tally,
    ) -> Result<(), BenchError> {
        for (numbers, actions) in numbers.chunks(TRANSACTION).zip(actions.chunks(TRANSACTION)) {
            // Reads must see everything written since.
            self.reading = None;
            let steps = || numbers.iter().copied().zip(actions.iter().copied());
            // All reads come first, then all writes at once, as in a program with many requests.
            let reads: Vec<(u64, Action)> = steps().filter(|&(_, action)| action != Action::Put).collect();
            let read_numbers: Vec<u64> = reads.iter().map(|&(number, _)| number).collect();
            let mut changed = std::mem::take(&mut self.changed);
            changed.clear();
            let mut kinds = reads.iter().map(|&(_, action)| action);
            self.read(&read_numbers, |workload, number, value| {
                tally.see_there(workload, number, value);
                if kinds.next() == Some(Action::Modify) {
                    let at = changed.len();
                    // One that is missing was counted as wrong, and ends the run.
                    changed.extend_from_slice(value.unwrap_or(&[]));
                    changed.resize(at + workload.value_bytes, 0);
                    workload.modify(number, &mut changed[at..]);
                }
            })?;
            self.changed = changed;
            if reads.len() < numbers.len() || !self.changed.is_empty() {
                self.write(&steps().filter(|&(_, action)| action != Action::Get), generation)?;
            }
        }
        Ok(())
    }

    fn value(&mut self, number: u64) -> Result<Option<Vec<u8>>, BenchError> {
        self.reading = None;
        let mut found = None;
        self.read(&[number], |_, _, value| found = value.map(<[u8]>::to_vec))?;
        Ok(found)
    }

    fn finish(&mut self) -> Result<(), BenchError> {
        self.reading = None;
        Ok(())
    }
}
