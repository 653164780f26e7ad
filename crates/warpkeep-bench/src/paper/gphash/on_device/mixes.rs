//! YCSB by a device: batches of gets, of gets and updates, and of new items.

use std::time::Duration;

use warpkeep_core::Op;

use super::Site;
use crate::BenchError;
use crate::device::{Expected, Rig, Variant, Written};

/// The workloads whose operations a device takes in batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mix {
    /// YCSB C: gets.
    C,
    /// YCSB B: one update in twenty.
    B,
    /// YCSB A: one update in two.
    A,
    /// YCSB LOAD: new items.
    Load,
    /// Updates alone, which YCSB does not have.
    Updates,
}

impl Mix {
    pub(super) fn name(self) -> &'static str {
        match self {
            Mix::A => "YCSB A",
            Mix::B => "YCSB B",
            Mix::C => "YCSB C",
            Mix::Load => "YCSB LOAD",
            Mix::Updates => "updates",
        }
    }

    /// Updates in a batch of `batch` operations.
    fn updates(self, batch: usize) -> usize {
        match self {
            Mix::A => batch / 2,
            Mix::B => batch / 20,
            Mix::Updates => batch,
            Mix::C | Mix::Load => 0,
        }
    }
}

/// How many operations were done, and how long the device took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    pub(super) operations: u64,
    pub(super) took: Duration,
}

impl Done {
    pub(super) fn rate(self) -> f64 {
        self.operations as f64 / self.took.as_secs_f64().max(1e-9)
    }

    fn add(&mut self, operations: usize, took: Duration) {
        self.operations += operations as u64;
        self.took += took;
    }
}

/// A table under such a workload.
pub(super) struct Load<'l> {
    pub(super) site: &'l Site<'l>,
    pub(super) rig: &'l mut Rig,
    pub(super) batch: usize,
    generation: u64,
    fresh: u64,
}

impl<'l> Load<'l> {
    pub(super) fn new(site: &'l Site<'l>, rig: &'l mut Rig, batch: usize) -> Load<'l> {
        Load { site, rig, batch, generation: 0, fresh: site.workload.items }
    }

    /// Batches for as long as a round takes, each checked; what kernels did counts, and not how the host got it ready, nor the first ones that write. Of updates each
    /// item counts once a batch, and new items go again.
    pub(super) fn round(&mut self, mix: Mix, variant: Variant) -> Result<Done, BenchError> {
        let (mut done, mut unheeded) = (Done::default(), Done::default());
        let cold = match mix {
            Mix::C => 0,
            _ => 1,
        };
        let mut turn = 0;
        while done.operations == 0 || done.took < self.site.options.round_time {
            self.site.progress.check()?;
            let done = if turn < cold { &mut unheeded } else { &mut done };
            match mix {
                Mix::Load => self.insert(variant, done)?,
                _ => self.mixed(mix, variant, turn, done)?,
            }
            turn += 1;
        }
        Ok(done)
    }

    fn mixed(&mut self, mix: Mix, variant: Variant, turn: usize, done: &mut Done) -> Result<(), BenchError> {
        let pool = &self.site.pool;
        let part = pool.batch(turn, self.batch);
        let gets = part.start..part.end - mix.updates(part.len());
        if !gets.is_empty() {
            let took = self.rig.get(variant, pool, &gets)?;
            self.rig.check(pool, std::slice::from_ref(&gets), Expected::Whole)?;
            done.add(gets.len(), took);
        }
        let mut numbers = pool.numbers[gets.end..part.end].to_vec();
        if numbers.is_empty() {
            return Ok(());
        }
        numbers.sort_unstable();
        numbers.dedup();
        self.generation += 1;
        let written = self.write(variant, Op::Update, &numbers)?;
        done.add(numbers.len(), written.kernels);
        self.rig.check_written(numbers, Expected::Generation(self.generation))
    }

    fn write(&mut self, variant: Variant, op: Op, numbers: &[u64]) -> Result<Written, BenchError> {
        let generation = if op == Op::Update { self.generation } else { 0 };
        match self.rig.writes_fused(variant) {
            true => Ok(self.rig.write_fused(op, &[numbers], generation)?[0]),
            false => self.rig.write(op, numbers, generation),
        }
    }

    fn insert(&mut self, variant: Variant, done: &mut Done) -> Result<(), BenchError> {
        let numbers: Vec<u64> = (self.fresh..self.fresh + self.batch as u64).collect();
        self.fresh += self.batch as u64;
        let written = self.write(variant, Op::Insert, &numbers)?;
        done.add(numbers.len(), written.kernels);
        self.rig.check_written(numbers.clone(), Expected::Generation(0))?;
        self.write(variant, Op::Delete, &numbers)?;
        Ok(())
    }
}
