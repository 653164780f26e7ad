//! One sorted array, and a log-structured merge tree.
#![allow(unsafe_code, reason = "kernels are launched")]

use warpkeep_containers::{Sorted, Sorter};
use warpkeep_device::{Buffer, Device, DevicePtr, Grid, KernelSet as _, Stream};

use super::dictionary::{Calls, Dictionary, Pairs};
use crate::BenchError;
use crate::gpu::Clock;
use crate::gpu::ordered::Operation;
use crate::kernels::{MOST_RUNS, SortedRunsKernels, SortedRunsParams};

/// Both, as variants of a case.
pub(super) const ARRAY: &str = "sorted array";
pub(super) const LSM: &str = "LSM";

const THREADS: u32 = 128;

/// Sorted pairs.
struct Run {
    pairs: [Buffer; 2],
    count: usize,
}

impl Run {
    fn sorted(&self) -> Sorted<'_> {
        Sorted { keys: &self.pairs[0], values: Some(&self.pairs[1]), count: self.count }
    }
}

/// Sorted arrays: one, into which every batch is merged, or one for each level, of which a batch fills the lowest ones that are full.
pub(super) struct SortedRuns<'d> {
    device: &'d Device,
    clock: &'d Clock,
    kernels: SortedRunsKernels,
    sorter: Sorter,
    /// The lowest level first, which is the newest.
    levels: Vec<Option<Run>>,
    has_levels: bool,
}

impl<'d> SortedRuns<'d> {
    pub(super) fn new(device: &'d Device, clock: &'d Clock, has_levels: bool) -> Result<Self, BenchError> {
        let (kernels, sorter) = (SortedRunsKernels::load(device)?, Sorter::new(device)?);
        Ok(Self { device, clock, kernels, sorter, levels: Vec::new(), has_levels })
    }

    /// Sorts a batch and merges it with the arrays that it meets.
    fn add(&mut self, mut run: Run, stream: &Stream) -> Result<(), BenchError> {
        let [keys, values] = &mut run.pairs;
        self.sorter.sort_pairs::<u32, u32>(keys, values, run.count, stream)?;
        for level in 0.. {
            if level == self.levels.len() {
                self.levels.push(None);
            }
            let Some(there) = self.levels[level].take() else {
                self.levels[level] = Some(run);
                return Ok(());
            };
            let count = run.count + there.count;
            let [mut keys, mut values] = [self.device.allocate(4 * count)?, self.device.allocate(4 * count)?];
            let both = (run.sorted(), there.sorted());
            self.sorter.merge::<u32, u32>(both.0, both.1, &mut keys, Some(&mut values), stream)?;
            run = Run { pairs: [keys, values], count };
            if !self.has_levels {
                self.levels[level] = Some(run);
                return Ok(());
            }
        }
        Ok(())
    }
}

impl Dictionary for SortedRuns<'_> {
    fn name(&self) -> &'static str {
        if self.has_levels { LSM } else { ARRAY }
    }

    fn build(&mut self, pairs: &Pairs) -> Result<f64, BenchError> {
        self.levels.clear();
        self.run(pairs)
    }

    fn run(&mut self, batch: &Pairs) -> Result<f64, BenchError> {
        let (clock, calls) = (self.clock, Calls::new(self.device, batch)?);
        if batch.operation == Operation::Insert {
            // It does not look for the keys, so that there is nothing to answer.
            let run = Run { pairs: calls.into_pairs()?, count: batch.len() };
            return clock.time(|stream| self.add(run, stream));
        }
        let mut params = SortedRunsParams {
            keys: [DevicePtr::NULL; MOST_RUNS],
            values: [DevicePtr::NULL; MOST_RUNS],
            counts: [0; MOST_RUNS],
            runs: 0,
            calls: calls.columns(batch),
        };
        for run in self.levels.iter().flatten() {
            let number = params.runs as usize;
            (params.keys[number], params.values[number]) = (run.pairs[0].ptr(), run.pairs[1].ptr());
            params.counts[number] = run.count as u64;
            params.runs += 1;
        }
        let grid = Grid::covering(batch.len() as u64, THREADS);
        // SAFETY: the columns have an element for each operation; they and the arrays stay until the clock has waited.
        let seconds = clock.time(|stream| unsafe { self.kernels.read.launch(grid, &params, stream) })?;
        calls.check(self.name(), batch)?;
        Ok(seconds)
    }
}
