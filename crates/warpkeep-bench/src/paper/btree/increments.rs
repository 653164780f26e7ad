//! Table 3.3 and figure 3.3: insertions by the size of a batch, alone and beside building everything anew.

use super::bench::Bench;
use super::link_tree::LinkTree;
use crate::BenchError;
use crate::gpu::ordered::{Batch, Operation};
use crate::report::{Report, Unit};

/// Operations of a batch, and the mean rates of the B-tree, the LSM and the sorted array by the text, in millions a second.
const PUBLISHED: [(usize, [f64; 3]); 7] = [
    (1 << 16, [168.0, 61.5, 44.9]),
    (1 << 17, [139.7, 121.3, 87.6]),
    (1 << 18, [171.7, 218.6, 160.6]),
    (1 << 19, [190.3, 402.5, 292.6]),
    (1 << 20, [205.1, 685.9, 543.0]),
    (1 << 21, [211.9, 1103.8, 907.5]),
    (1 << 22, [223.0, 1603.1, 1472.7]),
];
const NAMES: [&str; 3] =
    ["B-tree, published (Titan V)", "LSM, published (Titan V)", "sorted array, published (Titan V)"];
/// Keys that are looked up after all batches.
const LOOKED_UP: u64 = 1 << 20;
/// Insertions with latch coupling: 2^16 take nearly half a second at the published rate.
const MOST_COUPLED: usize = 1 << 16;
/// Building a tree at once, by the text.
const PUBLISHED_BUILD: f64 = 3124.32;

pub(super) fn run(bench: &Bench<'_>, report: &mut Report) -> Result<(), BenchError> {
    for &batch in &bench.options.batches {
        let steps = (bench.options.items / batch) as u64;
        let pairs = steps * batch as u64;
        let items = bench.items(pairs as usize);
        let case = format!("table 3.3: insertions until there are {pairs} pairs, batches of {batch}");
        for round in 0..bench.options.rounds {
            for mut dictionary in bench.all(pairs as usize)? {
                let mut seconds = 0.0;
                for step in 0..steps {
                    bench.progress.check()?;
                    let numbers = step * batch as u64..(step + 1) * batch as u64;
                    seconds += dictionary.run(&bench.pairs(&items, numbers))?;
                }
                // The harmonic mean of the rates of all batches.
                bench.add_rate(report, &case, dictionary.name(), round, pairs as f64 / seconds);
                // Of all batches.
                let apart = pairs.div_ceil(LOOKED_UP) as usize;
                let ranks: Vec<u64> =
                    (0..pairs).step_by(apart).map(|number| items.shuffled(number)).collect();
                dictionary.run(&Batch::find(&items, &ranks, Operation::Find))?;
            }
        }
        let published = PUBLISHED.iter().find(|(its, _)| *its == batch);
        let rates: Vec<(&str, f64)> =
            published.iter().flat_map(|(_, rates)| NAMES.into_iter().zip(*rates)).collect();
        bench.published(report, &case, &rates);
    }
    Ok(())
}

/// Section 3.5.1: batches of insertions into the tree, and into one with latches from the root on, which has only a few of them.
pub(super) fn latches(bench: &Bench<'_>, report: &mut Report) -> Result<(), BenchError> {
    let batch = bench.options.batches[0].min(MOST_COUPLED);
    let items = bench.items(bench.options.items);
    let pairs = bench.pairs(&items, 0..batch as u64);
    let case = format!("section 3.5.1: {batch} insertions into an empty tree");
    for round in 0..bench.options.rounds {
        let coupled = LinkTree::with_latches(bench.device, bench.clock, batch, true)?;
        let mut trees = bench.trees(batch)?;
        trees.push(Box::new(coupled));
        for mut tree in trees {
            bench.add(report, &case, round, tree.as_mut(), &pairs)?;
        }
    }
    let published =
        [("B-tree, published (Titan V), mean", 182.9), ("latch coupling, published (Titan V)", 0.166)];
    bench.published(report, &case, &published);
    Ok(())
}

pub(super) fn beside_rebuilds(bench: &Bench<'_>, report: &mut Report) -> Result<(), BenchError> {
    for &size in &bench.options.sizes {
        let items = bench.items(size);
        let all = bench.pairs(&items, 0..size as u64);
        let built = format!("figure 3.3: {size} pairs, built at once");
        for round in 0..bench.options.rounds {
            for mut dictionary in bench.trees(2 * size)? {
                bench.progress.check()?;
                let seconds = dictionary.build(&all)?;
                bench.add_rate(report, &built, dictionary.name(), round, size as f64 / seconds);
                report.add(&built, dictionary.name(), round, "time", Unit::Micros, 1e6 * seconds);
                for &batch in bench.options.batches.iter().filter(|&&batch| 2 * batch <= size) {
                    let before = (size - batch) as u64;
                    dictionary.build(&bench.pairs(&items, 0..before))?;
                    let seconds = dictionary.run(&bench.pairs(&items, before..size as u64))?;
                    let case = format!("figure 3.3: {size} pairs, {batch} of them inserted");
                    bench.add_rate(report, &case, dictionary.name(), round, batch as f64 / seconds);
                    report.add(&case, dictionary.name(), round, "time", Unit::Micros, 1e6 * seconds);
                }
            }
        }
        bench.published(report, &built, &[("B-tree, published (Titan V), mean", PUBLISHED_BUILD)]);
    }
    Ok(())
}
