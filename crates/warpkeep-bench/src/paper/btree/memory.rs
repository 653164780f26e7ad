//! Figure 4.6: what older copies take of memory while insertions and ranges run, and how much of it is given back.

use super::bench::{Bench, shuffled};
use super::dictionary::Dictionary as _;
use super::version_tree::{Form, IN_PLACE, NODE_BYTES, OUT_OF_PLACE, VersionTree};
use crate::BenchError;
use crate::chart::{Chart, Curve, Drawing};
use crate::gpu::ordered::Batch;
use crate::report::{Report, Unit};

/// Batches, half insertions and half ranges of this many pairs.
const BATCHES: u64 = 8;
const LENGTH: u64 = 16;
/// Operations of one, at most.
const MOST_OPERATIONS: u64 = 1 << 20;
/// Megabytes of both trees with 67.5 million keys, by the text.
const PUBLISHED: [(&str, f64); 2] =
    [("versioned out of place, published (V100)", 981.0), ("versioned in place, published (V100)", 950.0)];
const MEMORY: &str = "memory";

pub(super) fn run(bench: &Bench<'_>, report: &mut Report) -> Result<(), BenchError> {
    for &size in &bench.options.sizes {
        let (items, count) = (bench.items(size), size as u64);
        let each = (count / BATCHES).clamp(2, MOST_OPERATIONS);
        let all = bench.pairs(&items, 0..count);
        let case = format!(
            "figure 4.6: {} insertions and ranges of {LENGTH} in batches of {each}, {size} pairs before",
            BATCHES * each
        );
        for round in 0..bench.options.rounds {
            let tree = |form| VersionTree::new(bench.device, bench.clock, form, 2 * size);
            let (mut beside, mut alone) = (tree(Form::OutOfPlace)?, tree(Form::InPlace)?);
            beside.build(&all)?;
            alone.build(&all)?;
            for batch in 0..BATCHES {
                bench.progress.check()?;
                let ranks = shuffled(&items, batch * each..(batch + 1) * each);
                let (batch, inserted) = Batch::mixed_of(&items, &ranks, 50, LENGTH);
                beside.run(&batch)?;
                alone.run(&Batch::insert(&items, &inserted))?;
            }
            add(report, &case, round, [&beside, &alone])?;
        }
    }
    let published = "figure 4.6: 45 million insertions and ranges, 45 million pairs before";
    for (name, megabytes) in PUBLISHED {
        report.add(published, name, 0, MEMORY, Unit::Bytes, 1e6 * megabytes);
    }
    Ok(())
}

/// Adds the memory of both trees, which have the same keys.
fn add(
    report: &mut Report,
    case: &str,
    round: u32,
    [beside, alone]: [&VersionTree<'_>; 2],
) -> Result<(), BenchError> {
    let [all, least] = [beside.nodes()?, alone.nodes()?].map(|nodes| (NODE_BYTES * nodes) as f64);
    report.add(case, OUT_OF_PLACE, round, MEMORY, Unit::Bytes, all);
    report.add(case, IN_PLACE, round, MEMORY, Unit::Bytes, least);
    report.add(case, OUT_OF_PLACE, round, "of the memory in place", Unit::Percent, 100.0 * all / least);
    let retired = beside.epochs().retired()?;
    let bytes = |nodes: u64| (NODE_BYTES * nodes) as f64;
    report.add(case, OUT_OF_PLACE, round, "copied aside", Unit::Bytes, bytes(retired.all));
    report.add(case, OUT_OF_PLACE, round, "given back", Unit::Bytes, bytes(retired.free));
    if round > 0 {
        return Ok(());
    }
    let by_epoch = beside.epochs().by_epoch()?;
    let curve = |name: &str, nodes: &dyn Fn(usize) -> u64| {
        let points = (0..by_epoch.len()).map(|epoch| (epoch as f64, 1e-6 * bytes(nodes(epoch))));
        Curve { name: name.to_owned(), points: points.collect() }
    };
    let drawing = Drawing::Curves(vec![
        curve("copied aside", &|epoch| by_epoch[epoch].all),
        curve("given back", &|epoch| by_epoch[epoch].free),
    ]);
    report.charts.push(Chart::new(case, "epoch", "MB", drawing));
    Ok(())
}
