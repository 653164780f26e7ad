//! What memory gives at most: reads of random lines, in a mapping with the pages that an image gets.

use warpkeep_core::{Seed, mix64, reduce};

use super::Setup;
use super::warpkeep::record_bytes;
use crate::BenchError;
use crate::compare::contestant::{Contestant, Session, Tally, Way};
use crate::lines::Lines;
use crate::workload::{Task, Workload};

/// Keys that are worked on at once.
const GROUP: usize = 32;
/// Lines of the index that a get touches, in tenths: an item in the top level is found after one line or two.
const INDEX_TENTHS: u64 = 13;

/// Lines of a record.
fn record_lines(workload: &Workload) -> u64 {
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

impl Contestant for Limit {
    fn name(&self) -> &str {
        super::MEMORY
    }

    fn settings(&self) -> String {
        format!(
            "reads of random 64-byte lines in a file mapped as the image is, {}; a get of warpkeep is taken to touch {:.1} \
             lines of the index and {} in a row of the record; groups of {GROUP}, the next one prefetched",
            self.lines.pages().unwrap_or_default(),
            INDEX_TENTHS as f64 / 10.0,
            record_lines(&self.workload)
        )
    }

    fn ways(&self) -> Vec<Way> {
        let way = |name| Way { name, block: 1024, has_latency: false };
        vec![way(ONE_AFTER_THE_OTHER), way(ONE_LINE), way(AS_A_GET)]
    }

    fn does(&self, task: Task) -> bool {
        task == Task::Hit
    }

    fn holds_items(&self) -> bool {
        false
    }

    fn session<'a>(&'a self, way: usize) -> Result<Box<dyn Session + 'a>, BenchError> {
        let seed = Seed(self.workload.seed);
        Ok(Box::new(Reader { of: self, way, seed, last: 0, record: record_lines(&self.workload) }))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        Ok(())
    }
}

/// The names of its ways.
pub(crate) const ONE_AFTER_THE_OTHER: &str = "a line after the other";
pub(crate) const ONE_LINE: &str = "a line, prefetched";
pub(crate) const AS_A_GET: &str = "lines of a get, prefetched";

struct Reader<'a> {
    of: &'a Limit,
    way: usize,
    seed: Seed,
    last: u64,
    record: u64,
}

impl Reader<'_> {
    #[inline]
    fn line(&self, number: u64, part: u64) -> u64 {
        reduce(mix64(self.seed, number ^ (part << 61)), self.of.lines.count() - self.record)
    }

    /// The lines of one get.
    #[inline]
    fn each_line(&self, number: u64, mut each: impl FnMut(u64)) {
        each(self.line(number, 1));
        if self.way == 2 {
            if number % 10 < INDEX_TENTHS - 10 {
                each(self.line(number, 2));
            }
            let record = self.line(number, 3);
            (0..self.record).for_each(|line| each(record + line));
        }
    }
}

impl Session for Reader<'_> {
    fn get(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError> {
        let lines = &self.of.lines;
        let mut last = self.last;
        if self.way == 0 {
            for &number in numbers {
                // What was read is 0, but the processor must wait to know it.
                last = lines.read(self.line(number ^ last, 1));
            }
        } else {
            let mut groups = numbers.chunks(GROUP).peekable();
            if let Some(first) = groups.peek() {
                first.iter().for_each(|&number| self.each_line(number, |line| lines.prefetch(line)));
            }
            while let Some(group) = groups.next() {
                if let Some(next) = groups.peek() {
                    next.iter().for_each(|&number| self.each_line(number, |line| lines.prefetch(line)));
                }
                group.iter().for_each(|&number| self.each_line(number, |line| last ^= lines.read(line)));
            }
        }
        self.last = std::hint::black_box(last);
        tally.hits += numbers.len() as u64;
        Ok(())
    }

    fn put(&mut self, _numbers: &[u64], _generation: u64) -> Result<(), BenchError> {
        Ok(())
    }

    fn delete(&mut self, _numbers: &[u64], _tally: &mut Tally) -> Result<(), BenchError> {
        Ok(())
    }

    fn value(&mut self, _number: u64) -> Result<Option<Vec<u8>>, BenchError> {
        Ok(None)
    }
}
