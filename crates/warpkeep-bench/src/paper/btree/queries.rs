//! Figures 3.2 and 4.2: lookups, ranges and successors of all keys.

use super::bench::{Bench, shuffled};
use crate::BenchError;
use crate::gpu::ordered::{Batch, Operation};
use crate::report::Report;

/// Batches that a structure is filled with: an LSM then has four levels.
const BATCHES: u64 = 15;

/// Mean rates by the text, in millions a second.
const FINDS: [(&str, f64); 3] = [
    ("B-tree, published (Titan V), mean", 1020.27),
    ("LSM, published (Titan V), mean", 158.44),
    ("sorted array, published (Titan V), mean", 335.17),
];
const RANGES: [(&str, f64); 2] =
    [("B-tree, published (Titan V), mean", 502.28), ("LSM, published (Titan V), mean", 166.02)];
const SUCCESSORS: [(&str, f64); 1] = [("B-tree, published (Titan V), mean", 783.13)];
const BUILT: [(&str, f64); 3] = [
    ("B-tree, published (V100), mean", 240.065),
    ("versioned in place, published (V100), mean", 216.512),
    ("versioned out of place, published (V100), mean", 94.605),
];
const FOUND: [(&str, f64); 3] = [
    ("B-tree, published (V100), mean", 1513.0),
    ("versioned in place, published (V100), mean", 1454.0),
    ("versioned out of place, published (V100), mean", 1550.0),
];

pub(super) fn run(bench: &Bench<'_>, report: &mut Report) -> Result<(), BenchError> {
    for &size in &bench.options.sizes {
        let (items, count) = (bench.items(size), size as u64);
        let ranks = shuffled(&items, 0..count);
        let cases = [
            (format!("figure 3.2a: lookups of all of {size} keys"), Operation::Find),
            (format!("figure 3.2b: ranges of 8 from all of {size} keys on"), Operation::Range),
            (format!("section 3.5.5: successors of all of {size} keys"), Operation::Successor),
        ];
        for mut dictionary in bench.all(2 * size)? {
            for step in 0..BATCHES {
                bench.progress.check()?;
                dictionary.run(&bench.pairs(&items, count * step / BATCHES..count * (step + 1) / BATCHES))?;
            }
            for (case, operation) in &cases {
                let batch = match operation {
                    Operation::Range => Batch::range(&items, &ranks),
                    Operation::Successor => Batch::successor(&items, &ranks),
                    _ => Batch::find(&items, &ranks, Operation::Find),
                };
                for round in 0..bench.options.rounds {
                    bench.add(report, case, round, dictionary.as_mut(), &batch)?;
                }
            }
        }
        for ((case, _), rates) in cases.iter().zip([&FINDS[..], &RANGES, &SUCCESSORS]) {
            bench.published(report, case, rates);
        }
    }
    Ok(())
}

/// Figure 4.2: all pairs inserted in one batch, then looked up.
pub(super) fn of_inserted(bench: &Bench<'_>, report: &mut Report) -> Result<(), BenchError> {
    for &size in &bench.options.sizes {
        let (items, count) = (bench.items(size), size as u64);
        let inserted = format!("figure 4.2: {size} pairs inserted into an empty tree");
        let found = format!("figure 4.2: lookups of all of {size} keys");
        let (insert, ranks) = (bench.pairs(&items, 0..count), shuffled(&items, 0..count));
        let find = Batch::find(&items, &ranks, Operation::Find);
        for round in 0..bench.options.rounds {
            for mut dictionary in bench.versions(2 * size)? {
                bench.add(report, &inserted, round, dictionary.as_mut(), &insert)?;
                bench.add(report, &found, round, dictionary.as_mut(), &find)?;
            }
        }
        bench.published(report, &inserted, &BUILT);
        bench.published(report, &found, &FOUND);
    }
    Ok(())
}
