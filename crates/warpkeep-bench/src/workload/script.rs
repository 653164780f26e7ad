//! Operations drawn ahead, so that drawing is not timed.

use super::pagerank::PageRank;
use super::{Action, Dice, Distribution, Dlrm, Task, Work, Workload};
use crate::BenchError;

/// The thread whose operations are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Another one, other draws.
    pub stream: u64,
    /// Which thread.
    pub thread: usize,
    /// Of how many.
    pub threads: usize,
}

impl Part {
    /// The one of a single thread.
    pub fn alone(stream: u64) -> Part {
        Part { stream, thread: 0, threads: 1 }
    }

    fn draws(&self) -> u64 {
        (self.stream << 10) + self.thread as u64
    }
}

/// Operations for one thread.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Numbers of items; ages, if the newest are requested.
    pub numbers: Vec<u64>,
    /// The action for each; empty if it is the same for all.
    pub actions: Vec<Action>,
}

impl Script {
    /// Draws `len` operations.
    ///
    /// ```
    /// use warpkeep_bench::workload::{Distribution, Mix, Part, Script, Work, Workload};
    ///
    /// let workload = Workload { items: 1000, key_bytes: 8, value_bytes: 8, seed: 1 };
    /// let script = Script::draw(Work::Mix(Mix::A), &workload, Distribution::Uniform, Part::alone(0), 10)?;
    /// assert_eq!((script.numbers.len(), script.actions.len()), (10, 10));
    /// # Ok::<(), warpkeep_bench::BenchError>(())
    /// ```
    pub fn draw(
        work: Work,
        workload: &Workload,
        distribution: Distribution,
        part: Part,
        len: usize,
    ) -> Result<Script, BenchError> {
        let picks = || workload.picks(distribution, part.draws());
        Ok(match work {
            Work::Task(Task::Miss) => Script::uniform(picks()?.map(Workload::absent), len),
            Work::Task(_) | Work::Load => Script::uniform(picks()?, len),
            Work::Mix(mix) if mix.only_reads() => Script::uniform(picks()?, len),
            Work::Mix(mix) => {
                // Actions have random numbers of their own; otherwise they would correlate with the items.
                let mut dice = Dice::new(!workload.seed, part.draws());
                Script::mixed(picks()?.map(|number| (number, mix.draw(&mut dice))), len)
            }
            Work::Dlrm => {
                Script::uniform(Dlrm::new(workload, distribution.theta())?.numbers(part.draws()), len)
            }
            Work::PageRank => {
                Script::mixed(PageRank::new(workload, part.stream, part.thread, part.threads), len)
            }
        })
    }

    fn uniform(numbers: impl Iterator<Item = u64>, len: usize) -> Script {
        Script { numbers: numbers.take(len).collect(), actions: Vec::new() }
    }

    fn mixed(steps: impl Iterator<Item = (u64, Action)>, len: usize) -> Script {
        let (numbers, actions) = steps.take(len).unzip();
        Script { numbers, actions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::WorkSet;

    #[test]
    fn every_workload_stays_within_the_items_and_can_be_drawn_again() {
        let workload = Workload { items: 3000, key_bytes: 8, value_bytes: 8, seed: 9 };
        for work in "all".parse::<WorkSet>().expect("a word").0 {
            for asked in [None, Some(Distribution::Uniform), Some(Distribution::Zipfian(0.5))] {
                let draw = |thread| {
                    let part = Part { stream: 5, thread, threads: 2 };
                    Script::draw(work, &workload, work.distribution(asked), part, 1000).expect("a script")
                };
                let script = draw(0);
                let name = work.name();
                let absent = work == Work::Task(Task::Miss);
                assert!(
                    script.numbers.iter().all(|&number| match absent {
                        true => Workload::is_absent(number),
                        false => number < 3000,
                    }),
                    "{name}"
                );
                assert_eq!(script.numbers.len(), 1000);
                let mixed = matches!(work, Work::PageRank | Work::Mix(_)) && !work.only_reads();
                assert_eq!(script.actions.len(), if mixed { 1000 } else { 0 }, "{name}");
                assert_eq!(script.numbers, draw(0).numbers, "{name}");
                assert_ne!(script.numbers, draw(1).numbers, "{name}");
            }
        }
    }
}
