//! Figure 10: the time of a batch as a line over its size, T = kx + b.

use super::Bench;
use super::streams::{LATENCY, OPERATIONS, filled, measure, name_of};
use crate::BenchError;
use crate::gpu::cuckoo::Operation;
use crate::limits::median;
use crate::report::{Report, Unit};

const SLOPE: &str = "k, the time of one more job";
const OFFSET: &str = "b, the time of an empty batch";
const OURS: &str = "fitted line";
const PUBLISHED: &str = "Mega-KV, published (GTX 780)";

/// The slope and the offset of the equation 2, in microseconds.
fn published(operation: Operation) -> (f64, f64) {
    if operation == Operation::Hit { (3.0e-3, 37.4) } else { (5.6e-3, 136.9) }
}

pub(super) fn run(bench: &Bench<'_>, report: &mut Report) -> Result<(), BenchError> {
    let (contestant, hashes) = filled(bench)?;
    let mut points: [Vec<(f64, f64)>; OPERATIONS.len()] = Default::default();
    for len in bench.batches() {
        let rounds = measure(bench, &contestant.index, hashes, len, 1)?;
        for (at, (operation, _)) in OPERATIONS.into_iter().enumerate() {
            let case = format!("figure 10: {}, batches of {len}", name_of(operation));
            let times: Vec<f64> = rounds.iter().map(|times| 1e6 * times[at]).collect();
            for (round, &time) in (0..).zip(&times) {
                report.add(&case, "1 stream", round, LATENCY, Unit::Micros, time);
            }
            points[at].push((len as f64, median(&times)));
        }
    }
    for ((operation, _), points) in OPERATIONS.into_iter().zip(&points) {
        let case = format!("figure 10: {}", name_of(operation));
        let (slope, offset) = line_through(points);
        let (their_slope, their_offset) = published(operation);
        for (variant, slope, offset) in [(OURS, slope, offset), (PUBLISHED, their_slope, their_offset)] {
            report.add(&case, variant, 0, SLOPE, Unit::Micros, slope);
            report.add(&case, variant, 0, OFFSET, Unit::Micros, offset);
        }
    }
    report.notes.push(
        "figure 10: lines are fitted by least squares of relative errors, so that small batches count as much as large ones; the published line is that of insertions and deletions together"
            .to_owned(),
    );
    Ok(())
}

/// The slope and the offset of the line whose relative errors have the least squares.
fn line_through(points: &[(f64, f64)]) -> (f64, f64) {
    let mut sums = [0.0; 5];
    for &(x, y) in points.iter().filter(|point| point.1 > 0.0) {
        let weight = 1.0 / (y * y);
        for (sum, term) in sums.iter_mut().zip([1.0, x, y, x * x, x * y]) {
            *sum += weight * term;
        }
    }
    let [one, x, y, xx, xy] = sums;
    let determinant = one * xx - x * x;
    if determinant <= 0.0 {
        return (0.0, if one > 0.0 { y / one } else { 0.0 });
    }
    let slope = (one * xy - x * y) / determinant;
    (slope, (y - slope * x) / one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let points: Vec<(f64, f64)> = [10.0, 100.0, 5000.0].map(|x| (x, 0.003 * x + 37.4)).to_vec();
        let (slope, offset) = line_through(&points);
        assert!((slope - 0.003).abs() < 1e-9 && (offset - 37.4).abs() < 1e-6, "{slope} {offset}");
        assert_eq!(line_through(&[(5.0, 7.0)]), (0.0, 7.0));
        assert_eq!(line_through(&[]), (0.0, 0.0));
    }
}
