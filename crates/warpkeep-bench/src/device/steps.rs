//! Where the time of fused writes and of gets in device memory goes: a table of steps.

use std::time::Duration;

use warpkeep_gphash::gpu::StepTime;

use crate::limits::median;
use crate::report::{Report, Unit};

/// The steps of batches of one size.
#[derive(Debug, Default)]
pub(super) struct Steps(Vec<Vec<StepTime>>);

impl Steps {
    pub(super) fn add(&mut self, batches: Vec<Vec<StepTime>>) {
        self.0.extend(batches);
    }

    /// A table of its own: a line a step, in the order in which they are done, with the median of the batches.
    pub(super) fn report(&self, report: &mut Report, case: &str, variant: &str, round: u32) {
        let case = format!("{case}, {variant}: steps");
        let mut names: Vec<&str> = Vec::new();
        for time in self.0.iter().flatten() {
            if !names.contains(&time.step) {
                names.push(time.step);
            }
        }
        let micros = |took: Duration| 1e6 * took.as_secs_f64();
        for name in names {
            let of_batch = |batch: &Vec<StepTime>| {
                batch.iter().filter(|time| time.step == name).map(|time| micros(time.took)).sum::<f64>()
            };
            let times: Vec<f64> = self.0.iter().map(of_batch).collect();
            report.add(&case, name, round, "time in a batch", Unit::Micros, median(&times));
        }
    }
}
