//! One size of batches of one operation, in one variant: measured and checked.

use std::time::Duration;

use warpkeep_core::Op;

use super::Operation;
use super::answers::Expected;
use super::library::Library;
use super::pool::Pool;
use super::rig::{Rig, UNDER_WAY};
use super::steps::Steps;
use super::strategy::Variant;
use crate::measure::Latencies;
use crate::report::{Report, Unit};
use crate::{BenchError, Progress};

/// Batches of writes in a round, at the most: each is read back.
const MOST_WRITES: u64 = 8;
/// Batches of writes of a round that do not count. The first allocates memory for batches of its size, a segment of the log, and copies of the
/// table's levels, because other variants have changed the table since; later ones find that ready.
const COLD: usize = 1;

/// The worker.
pub(crate) enum Worker<'w> {
    /// A table of its own, keys and answers of gets in device memory.
    Rig(&'w mut Rig),
    /// A store.
    Library(&'w mut Library),
}

/// The result of batches of one size.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    operations: u64,
    busy: Duration,
    /// The part of it that kernels took, where that is known apart.
    kernels: Duration,
    latencies: Latencies,
    /// Operations a second with several batches under way.
    together: Option<f64>,
    /// Where the time went, if requested.
    steps: Steps,
}

impl Outcome {
    fn note(&mut self, operations: usize, took: Duration, kernels: Duration) {
        self.operations += operations as u64;
        self.busy += took;
        self.kernels += kernels;
        self.latencies.record(took);
    }

    /// Operations a second.
    pub(crate) fn rate(&self) -> f64 {
        self.operations as f64 / self.busy.as_secs_f64().max(1e-9)
    }

    /// Puts it into a report.
    pub(crate) fn report(&self, report: &mut Report, case: &str, variant: &str, round: u32) {
        let mut add = |metric: &str, unit, value| report.add(case, variant, round, metric, unit, value);
        add("rate", Unit::PerSecond, self.rate());
        if let Some(rate) = self.together {
            add(&format!("rate, {UNDER_WAY} batches under way"), Unit::PerSecond, rate);
        }
        if !self.kernels.is_zero() {
            let rate = self.operations as f64 / self.kernels.as_secs_f64();
            add("rate of the kernels", Unit::PerSecond, rate);
        }
        for (metric, percent) in
            [("p50 of a batch", 50.0), ("p99 of a batch", 99.0), ("max of a batch", 100.0)]
        {
            add(metric, Unit::Micros, self.latencies.micros(percent));
        }
        self.steps.report(report, case, variant, round);
    }
}

/// The measured work, and its duration.
#[derive(Clone, Copy)]
pub(crate) struct Cell<'c> {
    pub(crate) operation: Operation,
    pub(crate) batch: usize,
    pub(crate) time: Duration,
    /// The round, so that batches differ each time.
    pub(crate) round: u32,
    /// Batches that are written one after the other before they are read back, where they lie in device memory.
    pub(crate) row: usize,
    pub(crate) progress: &'c dyn Progress,
}

impl Cell<'_> {
    /// Whether there is time for another batch.
    fn goes_on(&self, outcome: &Outcome) -> bool {
        outcome.latencies.count() == 0 || outcome.busy < self.time
    }

    /// Gets of a pool's keys.
    pub(crate) fn gets(
        &self,
        worker: &mut Worker<'_>,
        variant: Variant,
        pool: &Pool,
    ) -> Result<Outcome, BenchError> {
        let expected = match self.operation {
            Operation::AbsentGet => Expected::Absent,
            Operation::Locate => Expected::There,
            _ => Expected::Whole,
        };
        let mut outcome = Outcome::default();
        let mut turn = self.round as usize * 7;
        // The first batch of the first round prepares state that later ones reuse.
        let mut is_warm = self.round > 0;
        let mut is_sampled = false;
        while self.goes_on(&outcome) {
            self.progress.check()?;
            let parts = [pool.batch(turn, self.batch)];
            let part = &parts[0];
            let took = match worker {
                Worker::Rig(rig) => {
                    rig.engine.take_step_times();
                    let took = rig.look_up(variant, pool, &parts, expected != Expected::There)?;
                    let steps = rig.engine.take_step_times();
                    if is_warm {
                        outcome.steps.add(steps);
                    }
                    rig.check(pool, &parts, expected)?;
                    if !is_sampled && expected == Expected::Whole {
                        rig.check_sample(pool, part)?;
                        is_sampled = true;
                    }
                    took
                }
                Worker::Library(library) => {
                    let took = library.get(pool.keys(), part)?;
                    let steps = library.take_step_times()?;
                    if is_warm && !steps.is_empty() {
                        outcome.steps.add(vec![steps]);
                    }
                    library.check(&pool.numbers[part.clone()], expected)?;
                    took
                }
            };
            if is_warm {
                outcome.note(part.len(), took, Duration::ZERO);
            }
            is_warm = true;
            turn += 1;
        }
        if let Worker::Rig(rig) = worker {
            self.together(rig, variant, pool, expected, &mut outcome)?;
        }
        Ok(outcome)
    }

    /// The same with several batches in flight: launches and waits are hidden behind other batches.
    fn together(
        &self,
        rig: &Rig,
        variant: Variant,
        pool: &Pool,
        expected: Expected,
        outcome: &mut Outcome,
    ) -> Result<(), BenchError> {
        let (mut turn, mut busy, mut operations) = (self.round as usize * 7, Duration::ZERO, 0);
        let mut is_warm = false;
        while operations == 0 || busy < self.time {
            self.progress.check()?;
            let parts: Vec<_> = (turn..turn + UNDER_WAY).map(|turn| pool.batch(turn, self.batch)).collect();
            let took = rig.look_up(variant, pool, &parts, expected != Expected::There)?;
            rig.check(pool, &parts, expected)?;
            // The first time, memory is allocated for the batches beside the first.
            if is_warm {
                busy += took;
                operations += parts.iter().map(ExactSizeIterator::len).sum::<usize>();
            }
            is_warm = true;
            turn += UNDER_WAY;
        }
        outcome.together = Some(operations as f64 / busy.as_secs_f64().max(1e-9));
        Ok(())
    }

    /// Updates of a pool's items in a part, to a generation and later ones. As they were drawn if equal keys of a
    /// batch are combined; otherwise duplicates would be left to the CPU, so each key occurs once.
    pub(crate) fn updates(
        &self,
        worker: &mut Worker<'_>,
        variant: Variant,
        pool: &Pool,
        generation: &mut u64,
    ) -> Result<Outcome, BenchError> {
        let (mut outcome, mut cold, mut unheeded) = (Outcome::default(), COLD, Outcome::default());
        let mut turn = self.round as usize * 7;
        let combines = match &*worker {
            Worker::Rig(rig) => rig.writes_fused(variant),
            Worker::Library(_) => true,
        };
        while self.goes_on(&outcome) && outcome.latencies.count() < MOST_WRITES {
            self.progress.check()?;
            let (row, outcome) =
                if cold > 0 { (1, &mut unheeded) } else { (self.row_of(worker, variant), &mut outcome) };
            let draw = |turn| {
                let mut numbers = pool.numbers[pool.batch(turn, self.batch)].to_vec();
                if !combines {
                    numbers.sort_unstable();
                    numbers.dedup();
                }
                numbers
            };
            let batches = (turn..turn + row).map(draw).collect();
            *generation += 1;
            self.write(worker, variant, Op::Update, batches, *generation, outcome)?;
            cold = cold.saturating_sub(1);
            turn += row;
        }
        Ok(outcome)
    }

    /// Inserts new items, numbered from `fresh` on, and deletes them again.
    pub(crate) fn inserts_and_deletes(
        &self,
        worker: &mut Worker<'_>,
        variant: Variant,
        fresh: &mut u64,
    ) -> Result<(Outcome, Outcome), BenchError> {
        let (mut inserts, mut deletes) = (Outcome::default(), Outcome::default());
        let (mut cold, mut unheeded) = (COLD, [Outcome::default(), Outcome::default()]);
        while self.goes_on(&inserts) && inserts.latencies.count() < MOST_WRITES {
            self.progress.check()?;
            let (row, [inserted, deleted]) = match cold {
                0 => (self.row_of(worker, variant), [&mut inserts, &mut deletes]),
                _ => (1, unheeded.each_mut()),
            };
            let mut draw = |_| {
                let first = *fresh;
                *fresh += self.batch as u64;
                (first..*fresh).collect()
            };
            let batches: Vec<Vec<u64>> = (0..row).map(&mut draw).collect();
            self.write(worker, variant, Op::Insert, batches.clone(), 0, inserted)?;
            self.write(worker, variant, Op::Delete, batches, 0, deleted)?;
            cold = cold.saturating_sub(1);
        }
        Ok((inserts, deletes))
    }

    /// How many batches are written one after the other.
    fn row_of(&self, worker: &Worker<'_>, variant: Variant) -> usize {
        match worker {
            Worker::Rig(rig) if rig.writes_fused(variant) => self.row,
            _ => 1,
        }
    }

    /// Writes batches, one after the other, and reads back every byte of them.
    fn write(
        &self,
        worker: &mut Worker<'_>,
        variant: Variant,
        op: Op,
        batches: Vec<Vec<u64>>,
        generation: u64,
        outcome: &mut Outcome,
    ) -> Result<(), BenchError> {
        let expected = if op == Op::Delete { Expected::Absent } else { Expected::Generation(generation) };
        match worker {
            Worker::Rig(rig) => {
                // The steps of batches that were read back.
                rig.engine.take_step_times();
                let written = match rig.writes_fused(variant) {
                    true => rig.write_fused(op, &batches, generation)?,
                    false => batches
                        .iter()
                        .map(|batch| rig.write(op, batch, generation))
                        .collect::<Result<_, _>>()?,
                };
                for (batch, written) in batches.iter().zip(written) {
                    outcome.note(batch.len(), written.whole, written.kernels);
                }
                outcome.steps.add(rig.engine.take_step_times());
                batches.into_iter().try_for_each(|batch| rig.check_written(batch, expected))
            }
            Worker::Library(library) => batches.into_iter().try_for_each(|batch| {
                let took = library.write(op, &batch, generation)?;
                outcome.note(batch.len(), took, Duration::ZERO);
                let steps = library.take_step_times()?;
                if !steps.is_empty() {
                    outcome.steps.add(vec![steps]);
                }
                library.check_written(&batch, expected)
            }),
        }
    }
}
