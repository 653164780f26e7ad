//! Tables 5.2 to 5.6: insertion and deletion of edges, deletion of vertices, and building.

use std::collections::HashSet;

use warpkeep_containers::EdgeOpKind;

use super::Part;
use super::answers::{Answers, Lists};
use super::bench::{Bench, Subject};
use super::contestant::{Contestant, OURS, Ours};
use super::slab_graph::{LOAD, PAPER, Plan, SlabGraph};
use crate::BenchError;
use crate::gpu::RATE;
use crate::gpu::graph::shuffled;
use crate::report::{Report, Unit};
use crate::workload::Dice;

/// Tables 5.2 and 5.3: batches of random edges into a directed graph with weights, and of random edges of it out of it, with repetitions.
pub(super) fn edges(
    bench: &Bench<'_>,
    part: Part,
    subject: &Subject,
    report: &mut Report,
) -> Result<(), BenchError> {
    let inserts = part == Part::Insertion;
    let kind = if inserts { EdgeOpKind::Insert } else { EdgeOpKind::Delete };
    let entries = subject.entries();
    let all = bench.edges(entries.to_vec())?;
    for &batch in &bench.options.batches {
        let case = subject.case(part, &format!("batches of {batch}"));
        for round in 0..bench.options.rounds {
            let mut dice = Dice::new(bench.options.seed, 30 + u64::from(round));
            let mut vertex = || dice.below(subject.vertices as u64) as u32;
            let pairs: Vec<(u32, u32)> = match inserts {
                true => (0..batch).map(|_| (vertex(), vertex())).collect(),
                false => (0..batch).map(|_| entries[dice.below(entries.len() as u64) as usize]).collect(),
            };
            let answers =
                Answers::of(kind, &pairs, false, |pair| !inserts || subject.reference.has(pair.0, pair.1));
            let lists = lists_after(subject, kind, &pairs, &answers);
            let pairs = bench.edges(pairs)?;
            let (mut ours, mut paper) = bench.contestants(subject, true, false, batch)?;
            for contestant in [&mut ours as &mut dyn Contestant, &mut paper] {
                bench.insert_new(contestant, &all)?;
                let seconds = bench.change(contestant, kind, &pairs, &answers)?;
                bench.compare(contestant, &lists)?;
                bench.add(report, &case, contestant.name(), round, batch, seconds);
            }
        }
        bench.add_published_rate(report, part, &case, batch);
        report.compare(&case, RATE, OURS, PAPER, None);
    }
    Ok(())
}

/// The lists of a graph of both directions after a batch with these answers.
fn lists_after(subject: &Subject, kind: EdgeOpKind, pairs: &[(u32, u32)], answers: &Answers) -> Lists {
    let entries = subject.reference.targets.len();
    let changed = || (0..pairs.len()).filter(move |&at| answers.is_change_at(at)).map(move |at| pairs[at]);
    match kind {
        EdgeOpKind::Insert => Lists::new(entries + answers.count(), || {
            let mut right: Vec<(u32, u32)> = subject.sorted_entries().chain(changed()).collect();
            right.sort_unstable();
            right
        }),
        EdgeOpKind::Delete => Lists::new(entries - answers.count(), || {
            let gone: HashSet<(u32, u32)> = changed().collect();
            subject.sorted_entries().filter(|pair| !gone.contains(pair)).collect()
        }),
    }
}

/// Table 5.4: batches of different vertices of an undirected graph.
pub(super) fn vertices(bench: &Bench<'_>, subject: &Subject, report: &mut Report) -> Result<(), BenchError> {
    let part = Part::VertexDeletion;
    let edges = &subject.reference.edges;
    let all = bench.edges(edges.clone())?;
    for &batch in bench.options.batches.iter().filter(|batch| **batch <= subject.vertices / 2) {
        let case = subject.case(part, &format!("batches of {batch}"));
        for round in 0..bench.options.rounds {
            let mut doomed =
                shuffled(subject.vertices, &mut Dice::new(bench.options.seed, 40 + u64::from(round)));
            doomed.truncate(batch);
            let gone: HashSet<u32> = doomed.iter().copied().collect();
            let stays = |pair: &(u32, u32)| !gone.contains(&pair.0) && !gone.contains(&pair.1);
            let expected = edges.iter().filter(|pair| !stays(pair)).count();
            let lists =
                Lists::new(2 * (edges.len() - expected), || subject.sorted_entries().filter(stays).collect());
            let (mut ours, mut paper) = bench.contestants(subject, false, true, 0)?;
            for contestant in [&mut ours as &mut dyn Contestant, &mut paper] {
                bench.insert_new(contestant, &all)?;
                let (seconds, removed) = contestant.delete_vertices(&doomed)?;
                if removed != expected as u64 {
                    let name = contestant.name();
                    return Err(BenchError::Wrong(format!(
                        "{name}: {removed} edges went, and not {expected}"
                    )));
                }
                bench.compare(contestant, &lists)?;
                bench.add(report, &case, contestant.name(), round, batch, seconds);
            }
        }
        bench.add_published_rate(report, part, &case, batch);
        report.compare(&case, RATE, OURS, PAPER, None);
    }
    Ok(())
}

/// Table 5.5: all edges of a directed graph with weights in one batch; the paper's graph knows how many edges each vertex will have.
pub(super) fn bulk(bench: &Bench<'_>, subject: &Subject, report: &mut Report) -> Result<(), BenchError> {
    build(bench, Part::BulkBuild, subject, usize::MAX, report)
}

/// Table 5.6: the same in batches; the paper's graph has one bucket a vertex.
pub(super) fn incremental(
    bench: &Bench<'_>,
    subject: &Subject,
    report: &mut Report,
) -> Result<(), BenchError> {
    let entries = subject.reference.targets.len();
    for &batch in bench.options.batches.iter().filter(|batch| **batch <= entries) {
        build(bench, Part::IncrementalBuild, subject, batch, report)?;
    }
    Ok(())
}

fn build(
    bench: &Bench<'_>,
    part: Part,
    subject: &Subject,
    batch: usize,
    report: &mut Report,
) -> Result<(), BenchError> {
    let knows = part == Part::BulkBuild;
    let what = if knows { "all edges".to_owned() } else { format!("batches of {batch}") };
    let case = subject.case(part, &what);
    let entries = subject.entries();
    let parts: Vec<_> = entries
        .chunks(batch.min(entries.len()).max(1))
        .map(|part| bench.edges(part.to_vec()))
        .collect::<Result<_, _>>()?;
    let lists = Lists::new(entries.len(), || subject.sorted_entries().collect());
    let degrees = if knows { subject.degrees() } else { vec![0; subject.vertices] };
    for round in 0..bench.options.rounds {
        let mut ours = Ours::new(bench.device, bench.clock, true, false)?;
        let plan = Plan {
            has_weights: true,
            mirrored: false,
            degrees: &degrees,
            load: LOAD,
            entries: entries.len() as u64,
            seed: bench.options.seed,
        };
        let mut paper = SlabGraph::new(bench.device, bench.clock, &plan)?;
        for contestant in [&mut ours as &mut dyn Contestant, &mut paper] {
            let mut seconds = 0.0;
            for part in &parts {
                seconds += bench.insert_new(contestant, part)?;
            }
            bench.compare(contestant, &lists)?;
            bench.add(report, &case, contestant.name(), round, entries.len(), seconds);
            let each = contestant.bytes()? as f64 / entries.len().max(1) as f64;
            report.add(&case, contestant.name(), round, "memory an edge", Unit::Bytes, each);
        }
    }
    match knows {
        true => bench.add_published_time(report, part, &case, subject.shape),
        false => bench.add_published_rate(report, part, &case, batch),
    }
    report.compare(&case, RATE, OURS, PAPER, None);
    Ok(())
}
