//! Tables 5.7 to 5.9: triangles, what sorted lists cost, and triangles of a graph that changes.

use std::collections::BTreeSet;

use warpkeep_containers::{EdgeOpKind, Sorter};

use super::answers::{Answers, Lists};
use super::bench::{Bench, Subject, TIME};
use super::contestant::{Contestant, Edges, OURS, Ours};
use super::slab_graph::PAPER;
use super::{Part, published};
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
        bench.insert_new(contestant, &all)?;
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
    let key = |edge: (u32, u32)| u64::from(edge.0) << 32 | u64::from(edge.1);
    let keys: Vec<u64> = subject.entries().iter().copied().map(key).collect();
    let right: Vec<u64> = subject.sorted_entries().map(key).collect();
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
        let steps = steps_of(bench, subject, batch)?;
        let all = bench.edges(edges.clone())?;
        let first = subject.reference.triangles();
        for round in 0..bench.options.rounds {
            // Both directions of each batch.
            let (mut ours, mut paper) = bench.contestants(subject, false, true, 2 * INSERTIONS * batch)?;
            for contestant in [&mut ours as &mut dyn Contestant, &mut paper] {
                bench.insert_new(contestant, &all)?;
                let (mut inserting, mut counting) = (0.0, 0.0);
                for step in &steps {
                    inserting += bench.change(contestant, EdgeOpKind::Insert, &step.pairs, &step.answers)?;
                    let (seconds, found) = contestant.triangles(&step.after)?;
                    check(contestant.name(), found, step.triangles)?;
                    counting += seconds;
                    bench.compare(contestant, &step.lists)?;
                }
                let name = contestant.name();
                report.add(&case, name, round, TIME, Unit::Micros, 1e6 * (inserting + counting));
                report.add(&case, name, round, "time of insertions", Unit::Micros, 1e6 * inserting);
            }
            let mut counter = Ours::new(bench.device, bench.clock, false, true)?;
            bench.insert_new(&mut counter, &all)?;
            let (mut known, mut total) = (first, 0.0);
            for step in &steps {
                bench.progress.check()?;
                let (seconds, change, statuses) = counter.insert_counting(&step.pairs)?;
                if let Some(wrong) = step.answers.wrong_in(&step.pairs.pairs, &statuses, true) {
                    return Err(BenchError::Wrong(format!("{INCREMENTAL}: {wrong}")));
                }
                known = change.after(known);
                check(INCREMENTAL, known, step.triangles)?;
                total += seconds;
            }
            report.add(&case, INCREMENTAL, round, TIME, Unit::Micros, 1e6 * total);
        }
        if batch == published::DYNAMIC_BATCH {
            bench.add_published_time(report, Part::Dynamic, &case, subject.shape);
        }
    }
    Ok(())
}

/// An insertion of table 5.9, and the graph after it.
struct Step {
    pairs: Edges,
    answers: Answers,
    /// All edges, each once.
    after: Edges,
    lists: Lists,
    triangles: u64,
}

fn steps_of(bench: &Bench<'_>, subject: &Subject, batch: usize) -> Result<Vec<Step>, BenchError> {
    let mut dice = Dice::new(bench.options.seed, 50);
    let mut now: BTreeSet<(u32, u32)> = subject.reference.edges.iter().copied().collect();
    let mut steps = Vec::new();
    for number in 1..=INSERTIONS {
        bench.progress.check()?;
        let mut vertex = || dice.below(subject.vertices as u64) as u32;
        let pairs: Vec<(u32, u32)> = (0..batch).map(|_| (vertex(), vertex())).collect();
        let answers = Answers::of(EdgeOpKind::Insert, &pairs, true, |edge| now.contains(&edge));
        let ends = |pair: &(u32, u32)| (pair.0.min(pair.1), pair.0.max(pair.1));
        now.extend(pairs.iter().filter(|pair| pair.0 != pair.1).map(ends));
        let after: Vec<(u32, u32)> = now.iter().copied().collect();
        let triangles = Reference::new(after.clone()).triangles();
        let entries = 2 * after.len();
        let both = || {
            let mut both: Vec<(u32, u32)> = after.iter().flat_map(|edge| [*edge, (edge.1, edge.0)]).collect();
            both.sort_unstable();
            both
        };
        // Reading all lists takes long: once is enough.
        let lists = match number == INSERTIONS {
            true => Lists::new(entries, both),
            false => Lists { entries: entries as u64, edges: None },
        };
        steps.push(Step {
            pairs: bench.edges(pairs)?,
            answers,
            after: bench.edges(after)?,
            lists,
            triangles,
        });
    }
    Ok(steps)
}

fn check(name: &str, found: u64, right: u64) -> Result<(), BenchError> {
    match found == right {
        true => Ok(()),
        false => Err(BenchError::Wrong(format!("{name}: there are {right} triangles, and not {found}"))),
    }
}
