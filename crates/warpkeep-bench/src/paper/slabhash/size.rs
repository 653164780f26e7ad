//! Figure 5: building and searching by size, at a utilisation of 60 percent.

use super::bench::{Bench, harmonic_mean, rates, slab_names};
use super::cuckoo_table::CUCKOO;
use crate::BenchError;
use crate::chart::Scale;
use crate::gpu::slab::Batch;
use crate::report::{Report, Unit};

const OPERATIONS: [&str; 3] = ["building", "searches, all found", "searches, none found"];
/// Slabs of a bucket on average, which makes 60 percent.
const SLABS_A_BUCKET: f64 = 0.7;
const LOAD: f64 = 0.6;
const MEAN: &str = "harmonic mean of the rate";
/// Of searches, by the text.
const PUBLISHED: [Option<f64>; 3] = [None, Some(861e6), Some(793e6)];

fn case_of(operation: &str, pairs: usize) -> String {
    format!("figure 5: {operation}, about {pairs} pairs")
}

pub(super) fn run(bench: &Bench<'_>, report: &mut Report) -> Result<(), BenchError> {
    let items = bench.items();
    let mut sizes = bench.options.sizes.clone();
    sizes.sort_unstable();
    sizes.dedup();
    for &size in &sizes {
        let limits = bench.limits(size, report)?;
        let mut contestants = bench.slab_tables(size, SLABS_A_BUCKET, 1.0)?;
        contestants.extend(bench.static_table(size, LOAD)?);
        for round in 0..bench.options.rounds {
            for contestant in &mut contestants {
                let pairs = contestant.pairs;
                let table = contestant.table.as_mut();
                table.clear()?;
                let batches = [
                    Batch::build(items, 0..pairs),
                    Batch::hits(items, 0..pairs),
                    Batch::misses(items, pairs),
                ];
                for (operation, batch) in OPERATIONS.into_iter().zip(&batches) {
                    bench.add(report, &case_of(operation, size), round, table, batch)?;
                }
                bench.add_utilisation(report, &case_of(OPERATIONS[0], size), round, table)?;
            }
        }
        for operation in OPERATIONS {
            bench.relate(report, &case_of(operation, size), &limits, operation == OPERATIONS[0]);
        }
    }
    let names: Vec<String> = slab_names().into_iter().chain([CUCKOO.to_owned()]).collect();
    for (operation, published) in OPERATIONS.into_iter().zip(PUBLISHED) {
        let title = format!("figure 5: {operation}, all sizes");
        let cases: Vec<String> = sizes.iter().map(|&size| case_of(operation, size)).collect();
        for name in &names {
            let mean = harmonic_mean(&rates(report, &cases, name));
            report.add(&title, name, 0, MEAN, Unit::PerSecond, mean);
        }
        if let Some(mean) = published {
            report.add(&title, "slab hash, published (K40c)", 0, MEAN, Unit::PerSecond, mean);
        }
        let cases: Vec<(String, Option<f64>)> =
            sizes.iter().map(|&size| (case_of(operation, size), Some(size as f64))).collect();
        let title = format!("figure 5: {operation}");
        bench.chart(report, &title, "pairs", &names, &cases, Scale::Logarithmic);
    }
    Ok(())
}
