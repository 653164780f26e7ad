//! The limit of memory: as many random lines as the work touches, in a mapping with the pages that an image gets.

use warpkeep_core::{Seed, mix64, reduce};

use super::Setup;
use super::warpkeep::record_bytes;
use crate::BenchError;
use crate::compare::contestant::{Contestant, Session, Tally, Way};
use crate::lines::Lines;
use crate::workload::{Action, Task, Work, Workload};

/// Keys that are worked on at once.
const GROUP: usize = 32;
/// Lines of the index that a get touches, in tenths: an item in the top level is found after one line or two.
pub(crate) const INDEX_TENTHS: u64 = 13;
/// Buckets of a key in the default geometry: a miss has read all of them.
const BUCKETS: u64 = 4;

/// Lines of a record.
pub(crate) fn record_lines(workload: &Workload) -> u64 {
    record_bytes(workload).div_ceil(64)
}

/// Random lines of an array as large as the data set.
pub(crate) struct Limit {
    lines: Lines,
    workload: Workload,
}

pub(crate) fn array_bytes(workload: &Workload) -> u64 {
    workload.items * (record_bytes(workload) + 10)
}

pub(crate) fn open(setup: &Setup<'_>) -> Result<Box<dyn Contestant>, BenchError> {
    let lines = Lines::create(&setup.scratch.images().join("lines"), array_bytes(&setup.workload))?;
    Ok(Box::new(Limit { lines, workload: setup.workload }))
}

/// The names of its ways.
pub(crate) const ONE_AFTER_THE_OTHER: &str = "a line after the other";
pub(crate) const ONE_LINE: &str = "a line, prefetched";
pub(crate) const AS_A_GET: &str = "lines of a get, prefetched";
pub(crate) const AS_THE_WORK: &str = "lines of the work, prefetched";
const WAYS: [&str; 4] = [ONE_AFTER_THE_OTHER, ONE_LINE, AS_A_GET, AS_THE_WORK];

/// The way that bounds a kind of work.
pub(crate) fn way_for(work: Work) -> &'static str {
    if work == Work::Task(Task::Hit) { AS_A_GET } else { AS_THE_WORK }
}

impl Contestant for Limit {
    fn name(&self) -> &str {
        super::MEMORY
    }

    fn settings(&self) -> String {
        format!(
            "random 64-byte lines in a file mapped as the image is, {}; a get of warpkeep is taken to touch {:.1} lines of the \
             index and {} in a row of the record, one that misses {BUCKETS} of the index; a put reads those of the index and \
             writes those of the record, a delete writes one; groups of {GROUP}, the next one prefetched",
            self.lines.pages().unwrap_or_default(),
            INDEX_TENTHS as f64 / 10.0,
            record_lines(&self.workload)
        )
    }

    fn ways(&self) -> Vec<Way> {
        WAYS.map(|name| Way { name, block: Some(1024), has_latency: false }).to_vec()
    }

    fn does(&self, work: Work, way: usize) -> bool {
        // Single lines are shown once, for they are the same whatever the work.
        match work {
            Work::Task(Task::Hit) => WAYS[way] != AS_THE_WORK,
            Work::Load => false,
            _ => WAYS[way] == AS_THE_WORK,
        }
    }

    fn holds_items(&self) -> bool {
        false
    }

    fn session<'a>(&'a self, way: usize) -> Result<Box<dyn Session + 'a>, BenchError> {
        let seed = Seed(self.workload.seed);
        Ok(Box::new(Toucher {
            of: self,
            way: WAYS[way],
            seed,
            last: 0,
            record: record_lines(&self.workload),
        }))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        Ok(())
    }
}

/// The access to the lines of an item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Touch {
    /// A line of the index, as of anything.
    One,
    Get,
    Put,
    Delete,
}

impl From<Action> for Touch {
    fn from(action: Action) -> Touch {
        match action {
            Action::Get => Touch::Get,
            // A modified item has been read before it is written, and is in the cache.
            Action::Put | Action::Modify => Touch::Put,
        }
    }
}

struct Toucher<'a> {
    of: &'a Limit,
    way: &'static str,
    seed: Seed,
    last: u64,
    record: u64,
}

impl Toucher<'_> {
    #[inline]
    fn line(&self, number: u64, part: u64) -> u64 {
        reduce(mix64(self.seed, number ^ (part << 61)), self.of.lines.count() - self.record)
    }

    /// The lines of one operation, and whether each is written.
    #[inline]
    fn each_line(&self, number: u64, touch: Touch, mut each: impl FnMut(u64, bool)) {
        each(self.line(number, 1), touch == Touch::Delete);
        if touch == Touch::One {
            return;
        }
        if Workload::is_absent(number) {
            (0..BUCKETS - 1).for_each(|bucket| each(self.line(number ^ (bucket << 48), 2), false));
            return;
        }
        if number % 10 < INDEX_TENTHS - 10 {
            each(self.line(number, 2), false);
        }
        if touch != Touch::Delete {
            let record = self.line(number, 3);
            (0..self.record).for_each(|line| each(record + line, touch == Touch::Put));
        }
    }

    /// Touches the lines of all numbers, with those of the next group prefetched while one group is touched.
    fn touch(&mut self, numbers: &[u64], touch: impl Fn(usize) -> Touch) {
        let lines = &self.of.lines;
        let group = |from: usize| from..(from + GROUP).min(numbers.len());
        let prefetch = |from: usize| {
            group(from).for_each(|at| self.each_line(numbers[at], touch(at), |line, _| lines.prefetch(line)));
        };
        let mut last = self.last;
        prefetch(0);
        for from in (0..numbers.len()).step_by(GROUP) {
            if from + GROUP < numbers.len() {
                prefetch(from + GROUP);
            }
            for at in group(from) {
                self.each_line(numbers[at], touch(at), |line, written| match written {
                    // The written value equals the stored one: other threads read it.
                    true => lines.write(line, 0),
                    false => last ^= lines.read(line),
                });
            }
        }
        self.last = std::hint::black_box(last);
    }
}

impl Session for Toucher<'_> {
    fn get(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError> {
        match self.way {
            ONE_AFTER_THE_OTHER => {
                let mut last = self.last;
                for &number in numbers {
                    // The value read is 0, but the processor must wait to know it.
                    last = self.of.lines.read(self.line(number ^ last, 1));
                }
                self.last = std::hint::black_box(last);
            }
            ONE_LINE => self.touch(numbers, |_| Touch::One),
            _ => self.touch(numbers, |_| Touch::Get),
        }
        numbers.iter().for_each(|&number| tally.note(!Workload::is_absent(number)));
        Ok(())
    }

    fn put(&mut self, numbers: &[u64], _generation: u64) -> Result<(), BenchError> {
        self.touch(numbers, |_| Touch::Put);
        Ok(())
    }

    fn delete(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError> {
        self.touch(numbers, |_| Touch::Delete);
        tally.hits += numbers.len() as u64;
        Ok(())
    }

    fn mix(
        &mut self,
        numbers: &[u64],
        actions: &[Action],
        _generation: u64,
        tally: &mut Tally,
    ) -> Result<(), BenchError> {
        self.touch(numbers, |at| actions[at].into());
        tally.hits += numbers.len() as u64;
        Ok(())
    }

    fn value(&mut self, _number: u64) -> Result<Option<Vec<u8>>, BenchError> {
        Ok(None)
    }
}
