//! One bout: threads, each on a core of its own, give one contestant one kind of work for a while.

use std::ops::Range;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use super::contestant::{Contestant, Session, Tally};
use crate::measure::Latencies;
use crate::workload::{Draws, Task, Workload};
use crate::{BenchError, pinned};

/// Numbers a thread remembers, to look at afterwards.
const SAMPLE: usize = 64;

/// What is done by whom.
#[derive(Clone, Copy)]
pub(crate) struct Bout<'a> {
    pub(crate) contestant: &'a dyn Contestant,
    pub(crate) way: usize,
    pub(crate) workload: &'a Workload,
    pub(crate) threads: usize,
    pub(crate) time: Duration,
    /// Another one, other keys.
    pub(crate) stream: u64,
    /// Of the values that are put.
    pub(crate) generation: u64,
}

/// How fast, or how each by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// As fast as possible; the clock is looked at once a block.
    Throughput,
    /// Each operation by itself, timed.
    Latency,
}

/// What came of a bout.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    pub(crate) tally: Tally,
    pub(crate) latencies: Latencies,
    /// Of each thread that was given a range: how much of it was done.
    pub(crate) done: Vec<Range<u64>>,
    /// Some of the numbers that were worked on.
    pub(crate) sample: Vec<u64>,
}

impl Outcome {
    pub(crate) fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }
}

/// Where a thread's numbers come from.
enum Numbers {
    There(Draws),
    Absent(Draws),
    Range(Range<u64>),
}

impl Numbers {
    /// Fills a block, as far as there are numbers.
    fn next(&mut self, block: &mut Vec<u64>, len: usize) {
        block.clear();
        match self {
            Numbers::There(draws) => block.extend(draws.take(len)),
            Numbers::Absent(draws) => block.extend(draws.take(len).map(Workload::absent)),
            Numbers::Range(range) => block.extend(range.take(len)),
        }
    }
}

impl Bout<'_> {
    /// Runs it. Inserts and deletes go through `ranges`, one a thread: inserts until the time is up, deletes to the end.
    pub(crate) fn run(&self, task: Task, ranges: &[Range<u64>], clock: Clock) -> Result<Outcome, BenchError> {
        let barrier = Barrier::new(self.threads);
        let threads: Vec<Result<Outcome, BenchError>> = std::thread::scope(|scope| {
            let work = |thread: usize| {
                let (barrier, range) = (&barrier, ranges.get(thread).cloned());
                scope.spawn(move || {
                    pinned::to_core(thread);
                    let session = self.contestant.session(self.way);
                    // Also without a session: the others wait.
                    barrier.wait();
                    self.work(&mut *session?, task, self.numbers(task, thread, range), clock)
                })
            };
            let threads: Vec<_> = (0..self.threads).map(work).collect();
            let joined = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| Err(BenchError::Wrong("a thread panicked".to_owned())))
            });
            joined.collect()
        });
        let mut all = Outcome::default();
        for outcome in threads {
            let outcome = outcome?;
            all.operations += outcome.operations;
            all.seconds = all.seconds.max(outcome.seconds);
            all.tally.add(&outcome.tally);
            all.latencies.add(&outcome.latencies);
            all.done.extend(outcome.done);
            all.sample.extend(outcome.sample);
        }
        match all.tally.wrong_for(task) {
            0 => Ok(all),
            wrong => Err(BenchError::WrongAnswers {
                contestant: self.contestant.name().to_owned(),
                task: task.name(),
                wrong,
                asked: all.operations,
            }),
        }
    }

    fn numbers(&self, task: Task, thread: usize, range: Option<Range<u64>>) -> Numbers {
        let draws = self.workload.draws((self.stream << 10) + thread as u64);
        match task {
            Task::Hit | Task::Update => Numbers::There(draws),
            Task::Miss => Numbers::Absent(draws),
            Task::Insert | Task::Delete => Numbers::Range(range.unwrap_or(0..0)),
        }
    }

    fn work(
        &self,
        session: &mut dyn Session,
        task: Task,
        mut numbers: Numbers,
        clock: Clock,
    ) -> Result<Outcome, BenchError> {
        let len = match clock {
            Clock::Throughput => self.contestant.ways()[self.way].block,
            Clock::Latency => 1,
        };
        let start = if let Numbers::Range(range) = &numbers { Some(range.start) } else { None };
        let mut outcome = Outcome::default();
        let (mut block, mut tally) = (Vec::with_capacity(len), Tally::default());
        let begun = Instant::now();
        loop {
            numbers.next(&mut block, len);
            if block.is_empty() {
                break;
            }
            let before = (clock == Clock::Latency).then(Instant::now);
            match task {
                Task::Hit | Task::Miss => session.get(&block, &mut tally)?,
                Task::Update | Task::Insert => session.put(&block, self.generation)?,
                Task::Delete => session.delete(&block, &mut tally)?,
            }
            outcome.operations += block.len() as u64;
            if let Some(before) = before {
                outcome.latencies.record(before.elapsed());
            }
            // What is deleted was inserted by this very bout, and none of it may stay.
            if task != Task::Delete && begun.elapsed() >= self.time {
                break;
            }
        }
        outcome.seconds = begun.elapsed().as_secs_f64();
        session.finish()?;
        outcome.tally = tally;
        outcome.sample = match start {
            // Of a range, from all over it.
            Some(start) => {
                let step = (outcome.operations / SAMPLE as u64).max(1);
                (start..start + outcome.operations).step_by(step as usize).collect()
            }
            None => block.iter().copied().take(SAMPLE).collect(),
        };
        outcome.done = start.map(|start| start..start + outcome.operations).into_iter().collect();
        Ok(outcome)
    }

    /// Looks at what a bout left, byte by byte: the values of its generation, or nothing.
    pub(crate) fn check(&self, task: Task, sample: &[u64]) -> Result<(), BenchError> {
        if !self.contestant.holds_items() {
            return Ok(());
        }
        let mut session = self.contestant.session(self.way)?;
        let mut wrong = 0;
        for &number in sample {
            let value = session.value(number)?;
            let right = match task {
                Task::Update | Task::Insert => {
                    value.is_some_and(|value| self.workload.is_exactly(number, self.generation, &value))
                }
                Task::Delete | Task::Miss => value.is_none(),
                Task::Hit => value.is_some_and(|value| self.workload.is_of(number, &value)),
            };
            wrong += u64::from(!right);
        }
        session.finish()?;
        match wrong {
            0 => Ok(()),
            wrong => Err(BenchError::WrongAnswers {
                contestant: self.contestant.name().to_owned(),
                task: task.name(),
                wrong,
                asked: sample.len() as u64,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::contestant::Way;

    const WORKLOAD: Workload = Workload { items: 100, key_bytes: 8, value_bytes: 16, seed: 1 };

    /// Gives everybody the same value, and forgets what it is told.
    struct Liar;

    impl Contestant for Liar {
        fn name(&self) -> &str {
            "liar"
        }

        fn settings(&self) -> String {
            String::new()
        }

        fn ways(&self) -> Vec<Way> {
            vec![Way::one_by_one("")]
        }

        fn session<'a>(&'a self, _way: usize) -> Result<Box<dyn Session + 'a>, BenchError> {
            Ok(Box::new(Liar))
        }

        fn close(self: Box<Self>) -> Result<(), BenchError> {
            Ok(())
        }
    }

    impl Session for Liar {
        fn get(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError> {
            let mut value = [0; 16];
            WORKLOAD.write_value(7, 0, &mut value);
            numbers.iter().for_each(|&number| tally.see(&WORKLOAD, number, Some(&value)));
            Ok(())
        }

        fn put(&mut self, _numbers: &[u64], _generation: u64) -> Result<(), BenchError> {
            Ok(())
        }

        fn delete(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError> {
            numbers.iter().for_each(|number| tally.note(number.is_multiple_of(2)));
            Ok(())
        }

        fn value(&mut self, number: u64) -> Result<Option<Vec<u8>>, BenchError> {
            let mut value = vec![0; 16];
            WORKLOAD.write_value(number, 0, &mut value);
            Ok(number.is_multiple_of(2).then_some(value))
        }
    }

    fn wrong<T>(result: Result<T, BenchError>) -> u64 {
        match result {
            Err(BenchError::WrongAnswers { wrong, .. }) => wrong,
            Err(other) => panic!("{other}"),
            Ok(_) => 0,
        }
    }

    #[test]
    fn every_wrong_answer_is_noticed() {
        let bout = Bout {
            contestant: &Liar,
            way: 0,
            workload: &WORKLOAD,
            threads: 2,
            time: Duration::ZERO,
            stream: 1,
            generation: 0,
        };
        let ranges = [100..110, 110..120];
        // A block a thread; the right value for the one item it is of.
        let sevens =
            |thread: u64| WORKLOAD.draws((1 << 10) + thread).take(256).filter(|&number| number == 7).count();
        let expected = 512 - (sevens(0) + sevens(1)) as u64;
        assert_eq!(wrong(bout.run(Task::Hit, &ranges, Clock::Throughput)), expected);
        // Found, and with somebody else's value.
        assert_eq!(wrong(bout.run(Task::Miss, &ranges, Clock::Throughput)), 1024);
        assert_eq!(wrong(bout.run(Task::Delete, &ranges, Clock::Latency)), 10);
        let inserted = bout.run(Task::Insert, &ranges, Clock::Throughput).expect("it says so");
        assert_eq!(inserted.done, ranges);
        assert_eq!(inserted.sample, (100..120).collect::<Vec<_>>());
        assert_eq!(wrong(bout.check(Task::Insert, &inserted.sample)), 10);
        assert_eq!(wrong(bout.check(Task::Delete, &inserted.sample)), 10);
        assert_eq!(wrong(bout.check(Task::Hit, &[2, 4])), 0);
    }
}
