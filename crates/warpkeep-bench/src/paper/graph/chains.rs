//! Figures 5.2 and 5.3: the paper's graph by the length of its chains, with ours beside it.

use warpkeep_containers::generate::{Rmat, rmat};

use super::Part;
use super::bench::{Bench, Subject};
use super::contestant::{Contestant, Ours};
use super::slab_graph::{PAPER, Plan, SlabGraph};
use crate::BenchError;
use crate::gpu::graph::Shape;
use crate::report::{Report, Unit};

/// Slabs of a bucket on average: edges of a list for each item of its first slabs.
const LENGTHS: [f64; 7] = [0.3, 0.5, 0.7, 1.0, 2.0, 3.0, 5.0];
/// Edges of a vertex, both directions counted.
pub(super) const DEGREES: [f64; 3] = [16.0, 32.0, 64.0];

/// R-MAT graphs of several mean degrees: building a directed one with weights, or triangles of an undirected one.
pub(super) fn run(bench: &Bench<'_>, parts: &[Part], report: &mut Report) -> Result<(), BenchError> {
    if parts.is_empty() {
        return Ok(());
    }
    let (vertices, seed) = (Shape::Rmat.rounded(bench.options.vertices), bench.options.seed);
    for degree in DEGREES {
        let edges = rmat(vertices.ilog2(), &Rmat::SKEWED.with_edges(degree / 2.0), seed);
        let subject = Subject::of(Shape::Rmat, vertices, edges, seed);
        for &part in parts {
            of_graph(bench, part, &subject, degree, report)?;
            bench.progress.advance(1);
        }
    }
    Ok(())
}

fn of_graph(
    bench: &Bench<'_>,
    part: Part,
    subject: &Subject,
    degree: f64,
    report: &mut Report,
) -> Result<(), BenchError> {
    let counts = part == Part::ChainsCounting;
    let pairs = if counts { &subject.reference.edges } else { subject.entries() };
    let triangles = if counts { subject.reference.triangles() } else { 0 };
    let all = bench.edges(pairs.to_vec())?;
    let degrees = subject.degrees();
    let mean = format!("mean degree {degree}");
    for round in 0..bench.options.rounds {
        let mut ours = Ours::new(bench.device, bench.clock, !counts, counts)?;
        let measure = |contestant: &mut dyn Contestant, case: &str, report: &mut Report| {
            let count = all.pairs.len();
            let mut seconds = bench.insert_new(contestant, &all)?;
            if counts {
                let (counted, found) = contestant.triangles(&all)?;
                if found != triangles {
                    let name = contestant.name();
                    return Err(BenchError::Wrong(format!("{name}: {found} triangles, and not {triangles}")));
                }
                seconds = counted;
            }
            bench.add(report, case, contestant.name(), round, count, seconds);
            let each = contestant.bytes()? as f64 / count.max(1) as f64;
            report.add(case, contestant.name(), round, "memory an edge", Unit::Bytes, each);
            Ok(())
        };
        measure(&mut ours, &subject.case(part, &mean), report)?;
        for length in LENGTHS {
            let plan = Plan {
                has_weights: !counts,
                mirrored: counts,
                degrees: &degrees,
                load: length,
                entries: subject.reference.targets.len() as u64,
                seed: bench.options.seed,
            };
            let mut paper = SlabGraph::new(bench.device, bench.clock, &plan)?;
            let case = subject.case(part, &format!("{mean}, chains of {length}"));
            measure(&mut paper, &case, report)?;
            let share = paper.utilisation()?;
            report.add(&case, PAPER, round, "utilisation", Unit::Percent, 100.0 * share);
        }
    }
    Ok(())
}
