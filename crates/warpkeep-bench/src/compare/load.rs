//! Filling a contestant with all items, and seeing that they are there.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::bout::Bout;
use super::contestant::Contestant;
use crate::report::{Report, Unit};
use crate::workload::{Task, Workload};
use crate::{Amount, BenchError, Progress, pinned};

/// Items handed over at once.
const BLOCK: u64 = 8192;
/// How many are looked at afterwards, of those that are there and of those that are not.
const SAMPLE: usize = 1000;

/// Loads all items with all cores, and checks a sample.
pub(crate) fn load(
    contestant: &dyn Contestant,
    workload: &Workload,
    round: u32,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    if !contestant.holds_items() {
        return Ok(());
    }
    progress.begin(&format!("loading {}", contestant.name()), Amount::Count(workload.items));
    let next = AtomicU64::new(0);
    let begun = Instant::now();
    let work = |thread: usize| -> Result<(), BenchError> {
        pinned::to_core(thread);
        let mut session = contestant.session(0)?;
        let mut block = Vec::new();
        loop {
            let from = next.fetch_add(BLOCK, Ordering::Relaxed);
            if from >= workload.items {
                return session.finish();
            }
            progress.check()?;
            block.clear();
            block.extend(from..(from + BLOCK).min(workload.items));
            session.put(&block, 0)?;
            progress.advance(block.len() as u64);
        }
    };
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> =
            (0..pinned::core_count()).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| BenchError::Wrong("a thread panicked while loading".to_owned()))?
        })
    })?;
    let rate = workload.items as f64 / begun.elapsed().as_secs_f64();
    progress.finish();
    contestant.loaded();
    report.add("load, all cores", contestant.name(), round, "rate", Unit::PerSecond, rate);

    let bout = Bout {
        contestant,
        way: 0,
        workload,
        threads: 1,
        time: Duration::ZERO,
        stream: u64::MAX >> 20,
        generation: 0,
    };
    let sample: Vec<u64> = workload.draws(bout.stream).take(SAMPLE).collect();
    bout.check(Task::Insert, &sample)?;
    let absent: Vec<u64> = sample.into_iter().map(Workload::absent).collect();
    bout.check(Task::Miss, &absent)
}
