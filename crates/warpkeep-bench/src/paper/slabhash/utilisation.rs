//! Figures 4a and 4b: building and searching by how full slabs are.

use super::bench::{Bench, Contestant, geometric_mean, rates, slab_names};
use super::cuckoo_table::CUCKOO;
use super::warp_table::SHAPE;
use crate::BenchError;
use crate::chart::Scale;
use crate::gpu::RATE;
use crate::gpu::slab::{Batch, run_batch};
use crate::report::{Report, Unit};

/// Slabs of a bucket on average, as in the paper.
const SLABS_A_BUCKET: [f64; 8] = [0.1, 0.2, 0.4, 0.7, 0.9, 1.1, 2.0, 5.0];
const PUBLISHED: &str = "slab hash, published (K40c)";
const FASTER: &str = "cuckoo hashing in proportion to the slab hash";

/// What a figure measures.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Build,
    All,
    None,
}

impl Operation {
    fn title(self) -> &'static str {
        match self {
            Operation::Build => "figure 4a: building",
            Operation::All => "figure 4b: searches, all found",
            Operation::None => "figure 4b: searches, none found",
        }
    }

    /// The peak of the slab hash, and how much faster cuckoo hashing was, by the text.
    fn published(self) -> (f64, f64) {
        match self {
            Operation::Build => (512e6, 1.33),
            Operation::All => (937e6, 2.08),
            Operation::None => (937e6, 2.04),
        }
    }
}

pub(super) fn build(bench: &Bench<'_>, report: &mut Report) -> Result<(), BenchError> {
    sweep(bench, &[Operation::Build], report)
}

pub(super) fn search(bench: &Bench<'_>, report: &mut Report) -> Result<(), BenchError> {
    sweep(bench, &[Operation::All, Operation::None], report)
}

fn case_of(operation: Operation, slabs_a_bucket: f64, pairs: usize) -> String {
    format!("{}, {slabs_a_bucket} slabs a bucket, about {pairs} pairs", operation.title())
}

fn sweep(bench: &Bench<'_>, operations: &[Operation], report: &mut Report) -> Result<(), BenchError> {
    let pairs = bench.options.items;
    let limits = bench.limits(pairs, report)?;
    for slabs_a_bucket in SLABS_A_BUCKET {
        let mut contestants = bench.slab_tables(pairs, slabs_a_bucket, 1.0)?;
        // As full as the paper's slabs are.
        let load = SHAPE.utilisation(slabs_a_bucket * f64::from(SHAPE.pairs));
        contestants.extend(bench.static_table(pairs, load)?);
        for round in 0..bench.options.rounds {
            for contestant in &mut contestants {
                measure(bench, contestant, operations, slabs_a_bucket, round, report)?;
            }
        }
        for &operation in operations {
            let case = case_of(operation, slabs_a_bucket, pairs);
            bench.relate(report, &case, &limits, operation == Operation::Build);
        }
    }
    for &operation in operations {
        conclude(bench, operation, report);
    }
    Ok(())
}

fn measure(
    bench: &Bench<'_>,
    contestant: &mut Contestant,
    operations: &[Operation],
    slabs_a_bucket: f64,
    round: u32,
    report: &mut Report,
) -> Result<(), BenchError> {
    let (items, pairs) = (bench.items(), contestant.pairs);
    let table = contestant.table.as_mut();
    table.clear()?;
    let build = Batch::build(items, 0..pairs);
    if !operations.contains(&Operation::Build) {
        run_batch(table, &build, bench.clock)?;
    }
    for &operation in operations {
        let case = case_of(operation, slabs_a_bucket, bench.options.items);
        match operation {
            Operation::Build => bench.add(report, &case, round, table, &build)?,
            Operation::All => bench.add(report, &case, round, table, &Batch::hits(items, 0..pairs))?,
            Operation::None => bench.add(report, &case, round, table, &Batch::misses(items, pairs))?,
        };
        bench.add_utilisation(report, &case, round, table)?;
    }
    Ok(())
}

/// Adds the peaks and the means, beside the published ones, and the curves.
fn conclude(bench: &Bench<'_>, operation: Operation, report: &mut Report) {
    let pairs = bench.options.items;
    let cases = SLABS_A_BUCKET.map(|slabs| case_of(operation, slabs, pairs));
    let (peak, faster) = operation.published();
    let title = format!("{}, peak", operation.title());
    for name in slab_names().into_iter().chain([CUCKOO.to_owned()]) {
        let highest = rates(report, &cases, &name).into_iter().fold(0.0, f64::max);
        report.add(&title, &name, 0, RATE, Unit::PerSecond, highest);
    }
    report.add(&title, PUBLISHED, 0, RATE, Unit::PerSecond, peak);
    // In the cases that both took part in.
    let both: Vec<String> =
        cases.iter().filter(|case| !report.series(case, CUCKOO, RATE).is_empty()).cloned().collect();
    let cuckoo = geometric_mean(&rates(report, &both, CUCKOO));
    let title = format!("{}, geometric mean", operation.title());
    for name in slab_names() {
        let slab = geometric_mean(&rates(report, &both, &name));
        if slab > 0.0 && cuckoo > 0.0 {
            report.add(&title, &name, 0, FASTER, Unit::Percent, 100.0 * cuckoo / slab);
        }
    }
    report.add(&title, PUBLISHED, 0, FASTER, Unit::Percent, 100.0 * faster);
    let names: Vec<String> = slab_names().into_iter().chain([CUCKOO.to_owned()]).collect();
    let cases: Vec<(String, Option<f64>)> = cases.into_iter().map(|case| (case, None)).collect();
    bench.chart(report, operation.title(), "% utilisation", &names, &cases, Scale::Linear);
}
