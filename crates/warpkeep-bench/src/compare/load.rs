//! Filling a contestant with all items, and seeing that they are there.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::bout::Bout;
use super::contestant::{Contestant, Tally};
use crate::workload::{Action, Distribution, Task, Work, Workload};
use crate::{Amount, BenchError, Progress, pinned};

/// Items handed over at once.
pub(crate) const BLOCK: u64 = 8192;
/// How many items are checked afterwards, of the existing and of the absent ones.
const SAMPLE: usize = 1000;

/// Loads all items with some threads, in batches, and returns the seconds.
pub(crate) fn fill(
    contestant: &dyn Contestant,
    workload: &Workload,
    threads: usize,
    block: u64,
    progress: &dyn Progress,
) -> Result<f64, BenchError> {
    let next = AtomicU64::new(0);
    let begun = Instant::now();
    let work = |thread: usize| -> Result<(), BenchError> {
        pinned::to_core(thread);
        let mut session = contestant.session(0)?;
        let mut numbers = Vec::new();
        loop {
            let from = next.fetch_add(block, Ordering::Relaxed);
            if from >= workload.items {
                return session.finish();
            }
            progress.check()?;
            numbers.clear();
            numbers.extend(from..(from + block).min(workload.items));
            session.put(&numbers, 0)?;
            progress.advance(numbers.len() as u64);
        }
    };
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| BenchError::Wrong("a thread panicked while loading".to_owned()))?
        })
    })?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Loads all items with all cores, checks a sample, and returns the rate; `None` if it holds none.
pub(crate) fn load(
    contestant: &dyn Contestant,
    workload: &Workload,
    progress: &dyn Progress,
) -> Result<Option<f64>, BenchError> {
    if !contestant.holds_items() {
        return Ok(None);
    }
    progress.begin(&format!("loading {}", contestant.name()), Amount::Count(workload.items));
    let seconds = fill(contestant, workload, pinned::core_count(), BLOCK, progress)?;
    progress.finish();
    contestant.loaded();
    check(contestant, workload)?;
    Ok(Some(workload.items as f64 / seconds))
}

/// Checks that exactly the loaded items are there, and that modifying an item works.
pub(crate) fn check(contestant: &dyn Contestant, workload: &Workload) -> Result<(), BenchError> {
    let bout = Bout {
        contestant,
        way: 0,
        workload,
        distribution: Distribution::Uniform,
        threads: 1,
        block: 1,
        time: Duration::ZERO,
        operations: None,
        stream: u64::MAX >> 20,
        generation: 0,
    };
    let sample: Vec<u64> = workload.draws(bout.stream).take(SAMPLE).collect();
    bout.check(Work::Load, &sample)?;
    for way in 0..contestant.ways().len() {
        let mut session = contestant.session(way)?;
        let mut tally = Tally::default();
        for generation in [1, 2] {
            session.mix(&[0], &[Action::Modify], 0, &mut tally)?;
            Bout { generation, way, ..bout }.check(Work::Load, &[0])?;
        }
        session.put(&[0], 0)?;
        session.finish()?;
    }
    let absent: Vec<u64> = sample.into_iter().map(Workload::absent).collect();
    bout.check(Work::Task(Task::Miss), &absent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::contestant::{Session, Way};

    const WORKLOAD: Workload = Workload { items: 50, key_bytes: 8, value_bytes: 32, seed: 1 };

    /// Stores items, but modifies nothing.
    struct Stubborn;

    impl Contestant for Stubborn {
        fn name(&self) -> &str {
            "stubborn"
        }

        fn settings(&self) -> String {
            String::new()
        }

        fn ways(&self) -> Vec<Way> {
            vec![Way::batches("")]
        }

        fn session<'a>(&'a self, _way: usize) -> Result<Box<dyn Session + 'a>, BenchError> {
            Ok(Box::new(Stubborn))
        }

        fn close(self: Box<Self>) -> Result<(), BenchError> {
            Ok(())
        }
    }

    impl Session for Stubborn {
        fn get(&mut self, _numbers: &[u64], _tally: &mut Tally) -> Result<(), BenchError> {
            Ok(())
        }

        fn put(&mut self, _numbers: &[u64], _generation: u64) -> Result<(), BenchError> {
            Ok(())
        }

        fn delete(&mut self, _numbers: &[u64], _tally: &mut Tally) -> Result<(), BenchError> {
            Ok(())
        }

        fn mix(
            &mut self,
            _numbers: &[u64],
            _actions: &[Action],
            _generation: u64,
            _tally: &mut Tally,
        ) -> Result<(), BenchError> {
            Ok(())
        }

        fn value(&mut self, number: u64) -> Result<Option<Vec<u8>>, BenchError> {
            let mut value = vec![0; 32];
            WORKLOAD.write_value(number, 0, &mut value);
            Ok((number < 50).then_some(value))
        }
    }

    #[test]
    fn one_that_modifies_nothing_is_noticed() {
        let refused = check(&Stubborn, &WORKLOAD);
        assert!(matches!(refused, Err(BenchError::WrongAnswers { wrong: 1, asked: 1, .. })), "{refused:?}");
    }
}
