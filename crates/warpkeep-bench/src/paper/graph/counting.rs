//! Tables 5.7 to 5.9: triangles, what sorted lists cost, and triangles of a graph that changes.

use std::collections::BTreeSet;

use warpkeep_containers::{EdgeOpKind, Sorter};

use super::Part;
use super::bench::{Bench, Subject, TIME};
use super::contestant::{Contestant, Edges, OURS, Ours};
use super::slab_graph::PAPER;
use crate::BenchError;
use crate::gpu::RATE;
use crate::gpu::graph::Reference;
use crate::report::{Report, Unit};
use crate::workload::Dice;

/// Insertions of table 5.9, each followed by a count.
const INSERTIONS: usize = 5;
const INCREMENTAL: &str = "ours, from the changed edges";
const SORTED: &str = "sorting all edges by source and target";

/// Table 5.7: triangles of an undirected graph without weights.
pub(super) fn triangles(bench: &Bench<'_>, subject: &Subject, report: &mut Report) -> Result<(), BenchError> {
    let case = subject.case(Part::Triangles, "triangles");
    let edges = &subject.reference.edges;
    let all = bench.edges(edges.clone())?;
    let right = subject.reference.triangles();
    let (mut ours, mut paper) = bench.contestants(subject, false, true, 0)?;
    for contestant in [&mut ours as &mut dyn Contestant, &mut paper] {
        bench.change(contestant, EdgeOpKind::Insert, &all, edges.len() as u64)?;
        for round in 0..bench.options.rounds {
            bench.progress.check()?;
            let (seconds, found) = contestant.triangles(&all)?;
            check(contestant.name(), found, right)?;
            bench.add(report, &case, contestant.name(), round, edges.len(), seconds);
        }
    }
    report.add(&case, OURS, 0, "triangles", Unit::Count, right as f64);
    bench.add_published_time(report, Part::Triangles, &case, subject.shape);
    report.compare(&case, RATE, OURS, PAPER, None);
    Ok(())
}

/// Table 5.8: the time of sorting all edges, which others need before they count triangles. Our lists are always sorted.
pub(super) fn sorting(bench: &Bench<'_>, subject: &Subject, report: &mut Report) -> Result<(), BenchError> {
    let case = subject.case(Part::Sorting, "sorting");
    let entries = subject.entries(bench.options.seed);
    let keys: Vec<u64> = entries.iter().map(|edge| u64::from(edge.0) << 32 | u64::from(edge.1)).collect();
    let mut right = keys.clone();
    right.sort_unstable();
    let sorter = Sorter::new(bench.device)?;
    for round in 0..bench.options.rounds {
        bench.progress.check()?;
        let mut column = bench.device.upload(&keys)?;
        let seconds = bench.clock.time(|stream| sorter.sort::<u64>(&mut column, keys.len(), stream))?;
        if column.to_vec::<u64>()? != right {
            return Err(BenchError::Wrong("edges are not sorted".to_owned()));
        }
        bench.add(report, &case, SORTED, round, keys.len(), seconds);
    }
    bench.add_published_time(report, Part::Sorting, &case, subject.shape);
    Ok(())
}

/// Table 5.9: an insertion of random edges and a count, five times; the times of all are added up.
pub(super) fn dynamic(bench: &Bench<'_>, subject: &Subject, report: &mut Report) -> Result<(), BenchError> {
    let edges = &subject.reference.edges;
    for &batch in &bench.options.batches {
        let case = subject.case(Part::Dynamic, &format!("{INSERTIONS} batches of {batch}"));
        let mut dice = Dice::new(bench.options.seed, 50);
        let mut now: BTreeSet<(u32, u32)> = edges.iter().copied().collect();
        let mut steps = Vec::new();
        for _ in 0..INSERTIONS {
            let mut vertex = || dice.below(subject.vertices as u64) as u32;
            let pairs: Vec<(u32, u32)> = (0..batch).map(|_| (vertex(), vertex())).collect();
            now.extend(
                pairs
                    .iter()
                    .filter(|pair| pair.0 != pair.1)
                    .map(|pair| (pair.0.min(pair.1), pair.0.max(pair.1))),
            );
            let after: Vec<(u32, u32)> = now.iter().copied().collect();
            let triangles = Reference::new(after.clone()).triangles();
            steps.push((bench.edges(pairs)?, bench.edges(after)?, triangles));
        }
        let all = bench.edges(edges.clone())?;
        let first = subject.reference.triangles();
        for round in 0..bench.options.rounds {
            // Both directions of each batch.
            let (mut ours, mut paper) = bench.contestants(subject, false, true, 2 * INSERTIONS * batch)?;
            for contestant in [&mut ours as &mut dyn Contestant, &mut paper] {
                bench.change(contestant, EdgeOpKind::Insert, &all, edges.len() as u64)?;
                let (mut inserting, mut counting) = (0.0, 0.0);
                for (pairs, after, triangles) in &steps {
                    inserting += bench.insert_some(contestant, pairs, after)?;
                    let (seconds, found) = contestant.triangles(after)?;
                    check(contestant.name(), found, *triangles)?;
                    counting += seconds;
                }
                let name = contestant.name();
                report.add(&case, name, round, TIME, Unit::Micros, 1e6 * (inserting + counting));
                report.add(&case, name, round, "time of insertions", Unit::Micros, 1e6 * inserting);
            }
            let mut counter = Ours::new(bench.device, bench.clock, false, true)?;
            bench.change(&mut counter, EdgeOpKind::Insert, &all, edges.len() as u64)?;
            let (mut known, mut total) = (first, 0.0);
            for (pairs, _, triangles) in &steps {
                bench.progress.check()?;
                let (seconds, change) = counter.insert_counting(pairs)?;
                known = change.after(known);
                check(INCREMENTAL, known, *triangles)?;
                total += seconds;
            }
            report.add(&case, INCREMENTAL, round, TIME, Unit::Micros, 1e6 * total);
        }
        bench.add_published_time(report, Part::Dynamic, &case, subject.shape);
    }
    Ok(())
}

impl Bench<'_> {
    /// The seconds of a batch with repetitions, after which the graph has these edges. Answers of equal operations are not compared: in the paper's graph the two directions of an edge can be
    /// inserted by different ones.
    fn insert_some(
        &self,
        contestant: &mut dyn Contestant,
        edges: &Edges,
        after: &Edges,
    ) -> Result<f64, BenchError> {
        self.progress.check()?;
        let (seconds, _) = contestant.apply(EdgeOpKind::Insert, edges)?;
        let (listed, right) = (contestant.entry_count()?, 2 * after.pairs.len() as u64);
        match listed == right {
            true => Ok(seconds),
            false => Err(BenchError::Wrong(format!(
                "{}: {listed} edges are in lists, and not {right}",
                contestant.name()
            ))),
        }
    }
}

fn check(name: &str, found: u64, right: u64) -> Result<(), BenchError> {
    match found == right {
        true => Ok(()),
        false => Err(BenchError::Wrong(format!("{name}: there are {right} triangles, and not {found}"))),
    }
}
