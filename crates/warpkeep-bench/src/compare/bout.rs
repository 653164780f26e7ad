//! One bout: threads, each on a core of its own, run one kind of work on one contestant for a while.

use std::ops::Range;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use super::contestant::{Contestant, Session, Tally};
use super::feed::Feed;
use crate::measure::Latencies;
use crate::workload::{Distribution, Part, Script, Task, Work, Workload};
use crate::{BenchError, pinned};

/// Numbers a thread remembers, to look at afterwards.
const SAMPLE: usize = 64;
/// Operations drawn ahead for each second, and the fewest and the most: enough that they are not in a cache when
/// they are repeated.
const AHEAD: f64 = 1e7;
const MIN_AHEAD: usize = 1 << 12;
const MAX_AHEAD: usize = 1 << 21;
/// The most of all threads together.
const MAX_AHEAD_OF_ALL: usize = 1 << 27;

/// The work, and its contestant.
#[derive(Clone, Copy)]
pub(crate) struct Bout<'a> {
    pub(crate) contestant: &'a dyn Contestant,
    pub(crate) way: usize,
    pub(crate) workload: &'a Workload,
    pub(crate) distribution: Distribution,
    pub(crate) threads: usize,
    /// Operations handed over at once.
    pub(crate) block: usize,
    pub(crate) time: Duration,
    /// How many operations are done instead, by all threads together.
    pub(crate) operations: Option<u64>,
    /// Another one, other keys.
    pub(crate) stream: u64,
    /// Of the values that are put.
    pub(crate) generation: u64,
}

/// The result of a bout.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    pub(crate) tally: Tally,
    /// Of the blocks.
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

impl Bout<'_> {
    /// Runs it. Inserts and deletes go through `ranges`, one a thread: inserts until the time is up, deletes to the end.
    pub(crate) fn run(&self, work: Work, ranges: &[Range<u64>]) -> Result<Outcome, BenchError> {
        let barrier = Barrier::new(self.threads);
        let threads: Vec<Result<Outcome, BenchError>> = std::thread::scope(|scope| {
            let start = |thread: usize| {
                let (barrier, range) = (&barrier, ranges.get(thread).cloned());
                scope.spawn(move || {
                    pinned::to_core(thread);
                    let feed = self.feed(work, thread, range.unwrap_or(0..0));
                    let ready = feed.and_then(|feed| Ok((feed, self.contestant.session(self.way)?)));
                    // Also if something failed: the other threads wait.
                    barrier.wait();
                    let (mut feed, mut session) = ready?;
                    self.work(&mut *session, work, &mut feed)
                })
            };
            let threads: Vec<_> = (0..self.threads).map(start).collect();
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
        match all.tally.wrong_for(work) {
            0 => Ok(all),
            wrong => Err(self.wrong(work, wrong, all.operations)),
        }
    }

    fn wrong(&self, work: Work, wrong: u64, asked: u64) -> BenchError {
        let contestant = self.contestant.name().to_owned();
        BenchError::WrongAnswers { contestant, task: work.name(), wrong, asked }
    }

    /// The operations of a thread. Uniform numbers are drawn on the spot; more expensive ones are drawn here,
    /// before the clock starts.
    fn feed(&self, work: Work, thread: usize, range: Range<u64>) -> Result<Feed, BenchError> {
        let part = Part { stream: self.stream, thread, threads: self.threads };
        let script = || Script::draw(work, self.workload, self.distribution, part, self.ahead());
        Ok(match work {
            Work::Task(Task::Insert | Task::Delete) | Work::Load => Feed::range(range),
            Work::Task(task) if self.distribution == Distribution::Uniform => {
                Feed::draws(self.workload.draws((self.stream << 10) + thread as u64), task == Task::Miss)
            }
            Work::Mix(mix) if mix.asks_latest() => Feed::latest(script()?, self.workload.items, range),
            _ => Feed::script(script()?),
        })
    }

    /// How many operations are drawn ahead: whole blocks.
    fn ahead(&self) -> usize {
        let wanted = match self.operations {
            Some(operations) => usize::try_from(operations).unwrap_or(MAX_AHEAD) / self.threads,
            None => (self.time.as_secs_f64() * AHEAD) as usize,
        };
        let most = MAX_AHEAD.min(MAX_AHEAD_OF_ALL / self.threads);
        wanted.clamp(MIN_AHEAD, most).next_multiple_of(self.block.max(1))
    }

    fn work(&self, session: &mut dyn Session, work: Work, feed: &mut Feed) -> Result<Outcome, BenchError> {
        let (mut outcome, mut tally) = (Outcome::default(), Tally::default());
        let share = self.operations.map_or(u64::MAX, |operations| operations.div_ceil(self.threads as u64));
        // Deletes remove what this very bout inserted, and none of it may stay.
        let to_the_end = work == Work::Task(Task::Delete);
        let begun = Instant::now();
        loop {
            let left = if to_the_end { u64::MAX } else { share - outcome.operations };
            let block = feed.next(self.block.min(usize::try_from(left).unwrap_or(usize::MAX)));
            if block.numbers.is_empty() {
                break;
            }
            let before = Instant::now();
            match work {
                Work::Task(Task::Update | Task::Insert) | Work::Load => {
                    session.put(block.numbers, self.generation)?;
                }
                Work::Task(Task::Delete) => session.delete(block.numbers, &mut tally)?,
                _ if block.actions.is_empty() => session.get(block.numbers, &mut tally)?,
                _ => session.mix(block.numbers, block.actions, self.generation, &mut tally)?,
            }
            let after = Instant::now();
            outcome.latencies.record(after - before);
            outcome.operations += block.numbers.len() as u64;
            if self.operations.is_none() && !to_the_end && after - begun >= self.time {
                outcome.sample = block.numbers.iter().copied().take(SAMPLE).collect();
                break;
            }
            if outcome.sample.is_empty() {
                outcome.sample = block.numbers.iter().copied().take(SAMPLE).collect();
            }
        }
        outcome.seconds = begun.elapsed().as_secs_f64();
        session.finish()?;
        outcome.tally = tally;
        if let Some(used) = feed.used() {
            // Of a range, from all over it.
            let step = ((used.end - used.start) / SAMPLE as u64).max(1);
            outcome.sample = used.clone().step_by(step as usize).collect();
            outcome.done = vec![used];
        }
        Ok(outcome)
    }

    /// Checks the state after a bout, byte by byte: the values of its generation, or of any, or nothing.
    pub(crate) fn check(&self, work: Work, sample: &[u64]) -> Result<(), BenchError> {
        if !self.contestant.holds_items() {
            return Ok(());
        }
        let workload = self.workload;
        let mut session = self.contestant.session(self.way)?;
        let mut wrong = 0;
        for &number in sample {
            let value = session.value(number)?;
            let right = match work {
                Work::Task(Task::Update | Task::Insert) | Work::Load => {
                    value.is_some_and(|value| workload.is_exactly(number, self.generation, &value))
                }
                Work::Task(Task::Delete | Task::Miss) => value.is_none(),
                _ => value.is_some_and(|value| workload.is_whole(number, &value)),
            };
            wrong += u64::from(!right);
        }
        session.finish()?;
        if wrong == 0 { Ok(()) } else { Err(self.wrong(work, wrong, sample.len() as u64)) }
    }
}

#[cfg(test)]
mod tests;
