//! The cost of drawing the operations.

use std::time::Instant;

use super::Options;
use crate::BenchError;
use crate::report::{Report, Unit};
use crate::workload::{Distribution, Part, Script, Work};

const CASE: &str = "drawing operations, 1 thread";
const DRAWS: usize = 1 << 16;

/// Draws from everything that the comparison draws from, and notes the rates.
pub(super) fn measure(options: &Options, report: &mut Report) -> Result<(), BenchError> {
    let mut seen: Vec<String> = Vec::new();
    let mut inside = false;
    for &work in &options.works {
        let distribution = options.distribution_of(work);
        inside |= distribution == Distribution::Uniform && matches!(work, Work::Task(_));
        let name = match work {
            // Its items are not drawn but taken in order.
            Work::Load => continue,
            Work::Task(_) => distribution.to_string(),
            Work::Mix(_) => format!("{}, {distribution}", work.name()),
            Work::Dlrm => format!("{}, 26 x {distribution}", work.name()),
            Work::PageRank => format!("{}, R-MAT", work.name()),
        };
        if seen.contains(&name) {
            continue;
        }
        for round in 0..options.rounds {
            let part = Part::alone(u64::from(round));
            let begun = Instant::now();
            let script = Script::draw(work, &options.workload, distribution, part, DRAWS)?;
            let seconds = begun.elapsed().as_secs_f64();
            std::hint::black_box(&script);
            report.add(CASE, &name, round, "rate", Unit::PerSecond, DRAWS as f64 / seconds);
        }
        seen.push(name);
    }
    if inside {
        report.notes.push(
            "single operations on uniform items are drawn on the spot, which is part of every figure; 'the workload alone' shows how \
             much that is"
                .to_owned(),
        );
    }
    if seen.iter().any(|name| name != "uniform") {
        report.notes.push(
            "everything else is drawn ahead, outside the clock: ten million operations for each second of a round, at most 2^21 a \
             thread, then again from the start"
                .to_owned(),
        );
    }
    Ok(())
}
