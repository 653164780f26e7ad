//! Figures 3.4, 3.5 and 4.4, tables 4.1 and 4.2: deletions, and operations of several kinds in one batch.

use super::bench::{Bench, shuffled};
use super::dictionary::{Dictionary, Pairs};
use crate::BenchError;
use crate::gpu::ordered::{Batch, Items};
use crate::report::Report;

/// Percentages of the pairs that are deleted, and the rates by the text in millions a second: of all but the first it gives the lowest.
const DELETED: [(u64, f64); 5] = [(10, 570.64), (20, 581.78), (30, 581.78), (40, 581.78), (50, 581.78)];
/// Percentages of updates, and mean rates of the B-tree by the text.
const MIXED: [(u64, f64); 3] = [(20, 247.67), (60, 257.25), (100, 237.79)];
/// The same of deletions beside lookups, of the B-tree and of the versioned one.
const LOOKED_UP: [(u64, [f64; 2]); 3] =
    [(5, [433.462, 369.835]), (50, [424.131, 367.432]), (90, [399.863, 346.188])];
/// And of insertions beside ranges: the length of these, the percentage of insertions, and rates from a tree of one million pairs and of 40 million.
type Ranged = (u64, [(usize, [f64; 2], [f64; 2]); 3]);
const RANGED: [Ranged; 2] = [
    (
        8,
        [
            (5, [212.932, 233.537], [228.694, 248.86]),
            (50, [211.936, 128.211], [220.186, 127.256]),
            (90, [219.688, 95.073], [222.729, 95.391]),
        ],
    ),
    (
        32,
        [
            (5, [221.691, 227.793], [240.13, 214.679]),
            (50, [210.405, 120.956], [213.199, 117.642]),
            (90, [213.406, 93.199], [220.329, 92.154]),
        ],
    ),
];
/// Pairs of the ranges of figure 4.4.
const LENGTHS: [u64; 6] = [4, 8, 16, 32, 64, 128];
/// The structures of a part, with room for a number of pairs.
type Trees<'b> = fn(&Bench<'b>, usize) -> Result<Vec<Box<dyn Dictionary + 'b>>, BenchError>;

const VERSIONS: [&str; 2] = ["B-tree, published (V100)", "versioned out of place, published (V100)"];

pub(super) fn deletions(bench: &Bench<'_>, report: &mut Report) -> Result<(), BenchError> {
    for &size in &bench.options.sizes {
        let items = bench.items(size);
        let all = bench.pairs(&items, 0..size as u64);
        for (percent, published) in DELETED {
            let case = format!("figure 3.4: {percent} % of {size} pairs deleted");
            let ranks = shuffled(&items, 0..size as u64 * percent / 100);
            let batch = Batch::erase_pairs(&items, &ranks);
            measure(bench, report, &case, &all, &batch)?;
            let name = match percent {
                10 => "B-tree, published (Titan V)",
                _ => "B-tree, published (Titan V), at least",
            };
            bench.published(report, &case, &[(name, published)]);
        }
    }
    Ok(())
}

/// Figure 3.5: as many operations as there are pairs, of which a share are updates, half of them insertions and half deletions.
pub(super) fn mixes(bench: &Bench<'_>, report: &mut Report) -> Result<(), BenchError> {
    for &size in &bench.options.sizes {
        let (items, count) = (bench.items(size), size as u64);
        let all = bench.pairs(&items, 0..count);
        for (percent, published) in MIXED {
            let case =
                format!("figure 3.5: {percent} % insertions and deletions, the rest lookups, {size} pairs");
            let half = count * percent / 200;
            let [erased, inserted] = [shuffled(&items, 0..half), shuffled(&items, half..2 * half)];
            let found = shuffled(&items, half..half + (count - 2 * half).min(count - half));
            let batch = Batch::points(&items, &erased, &inserted, &found);
            measure(bench, report, &case, &all, &batch)?;
            bench.published(report, &case, &[("B-tree, published (Titan V), mean", published)]);
        }
    }
    Ok(())
}

/// Table 4.1: insertions and ranges. The ranges of the paper's B-tree see some of the insertions, in no order. Those of the multiversion trees see the insertions
/// before their snapshot: in place the host takes it before the batch, out of place each range does.
pub(super) fn ranges(bench: &Bench<'_>, report: &mut Report) -> Result<(), BenchError> {
    for &size in &bench.options.sizes {
        let (items, all) = all_pairs(bench, size);
        for (length, rows) in RANGED {
            for (percent, small, large) in rows {
                let case = format!(
                    "table 4.1: {percent} % insertions, the rest ranges of {length}, {size} pairs before"
                );
                let ranks = shuffled(&items, 0..operations(size));
                let (batch, _) = Batch::mixed_of(&items, &ranks, percent, length);
                measure_versions(bench, report, &case, &all, &batch)?;
                // The text has trees of one and of 40 million pairs.
                let (pairs, rates) = if size <= 1 << 23 { ("1 M", small) } else { ("40 M", large) };
                let names = VERSIONS.map(|name| format!("{name}, {pairs} pairs"));
                let published: Vec<(&str, f64)> = names.iter().map(String::as_str).zip(rates).collect();
                bench.published(report, &case, &published);
            }
        }
    }
    Ok(())
}

/// Figure 4.4: half insertions, half ranges of different lengths. The text gives the rates of the shortest and of the longest, and not how long they are.
pub(super) fn lengths(bench: &Bench<'_>, report: &mut Report) -> Result<(), BenchError> {
    for &size in &bench.options.sizes {
        let (items, all) = all_pairs(bench, size);
        for length in LENGTHS {
            let case = format!("figure 4.4: half insertions, half ranges of {length}, {size} pairs before");
            let ranks = shuffled(&items, 0..operations(size));
            measure_versions(bench, report, &case, &all, &Batch::mixed_of(&items, &ranks, 50, length).0)?;
            bench.published(report, &case, &[]);
        }
    }
    Ok(())
}

/// Operations of a batch with ranges: few enough for the pairs of all.
fn operations(size: usize) -> u64 {
    (size as u64 / 8).clamp(2, 1 << 20)
}

fn all_pairs(bench: &Bench<'_>, size: usize) -> (Items<u32, u32>, Pairs) {
    let items = bench.items(size);
    (items, bench.pairs(&items, 0..size as u64))
}

/// Table 4.2: deletions and lookups.
pub(super) fn lookups(bench: &Bench<'_>, report: &mut Report) -> Result<(), BenchError> {
    for &size in &bench.options.sizes {
        let (items, count) = (bench.items(size), size as u64);
        let all = bench.pairs(&items, 0..count);
        for (percent, published) in LOOKED_UP {
            let case = format!("table 4.2: {percent} % deletions, the rest lookups, {size} pairs");
            let deleted = count * percent / 100;
            let [erased, found] = [shuffled(&items, 0..deleted), shuffled(&items, deleted..count)];
            measure_versions(bench, report, &case, &all, &Batch::points(&items, &erased, &[], &found))?;
            let published: Vec<(&str, f64)> = VERSIONS.into_iter().zip(published).collect();
            bench.published(report, &case, &published);
        }
    }
    Ok(())
}

/// Runs a batch on trees with these pairs, in every round.
fn measure(
    bench: &Bench<'_>,
    report: &mut Report,
    case: &str,
    all: &Pairs,
    batch: &Pairs,
) -> Result<(), BenchError> {
    measure_among(bench, report, case, all, batch, Bench::trees)
}

/// The same, with the multiversion trees.
fn measure_versions(
    bench: &Bench<'_>,
    report: &mut Report,
    case: &str,
    all: &Pairs,
    batch: &Pairs,
) -> Result<(), BenchError> {
    measure_among(bench, report, case, all, batch, Bench::versions)
}

fn measure_among<'b>(
    bench: &Bench<'b>,
    report: &mut Report,
    case: &str,
    all: &Pairs,
    batch: &Pairs,
    trees: Trees<'b>,
) -> Result<(), BenchError> {
    for round in 0..bench.options.rounds {
        for mut dictionary in trees(bench, 2 * all.len())? {
            dictionary.build(all)?;
            bench.add(report, case, round, dictionary.as_mut(), batch)?;
        }
    }
    Ok(())
}
