//! Figures 7a and 7b: batches of insertions, deletions and searches, by utilisation and beside lists with one node a key.

use super::bench::{Bench, Contestant, OURS, geometric_mean, rates, slab_names};
use super::node_list::{NODES, NodeList};
use super::warp_table::{SHAPE, WarpTable};
use crate::BenchError;
use crate::chart::Scale;
use crate::gpu::slab::{Batch, Mix, OurTable, run_batch};
use crate::gpu::{RATE, relate_variant};
use crate::report::{Report, Unit};
use crate::workload::Dice;

/// Slabs of a bucket on average before the batches.
const SLABS_A_BUCKET: [f64; 7] = [0.1, 0.2, 0.4, 0.7, 0.9, 1.1, 5.0];
/// Batches on a table, and the pairs of the table for each request of one.
const BATCHES: usize = 3;
const PAIRS_A_REQUEST: usize = 8;
/// Requests beside lists, as in the paper, and pairs of a bucket before them.
const REQUESTS: usize = 1_000_000;
const PAIRS_A_BUCKET: [f64; 4] = [1.0, 4.0, 16.0, 64.0];
const FASTER: &str = "of the lists' rate";
const PUBLISHED: &str = "slab hash, published (K40c)";
/// In proportion to Misra's lists, by the text.
const PUBLISHED_FASTER: [f64; 3] = [5.1, 4.3, 3.1];

pub(super) fn by_utilisation(bench: &Bench<'_>, report: &mut Report) -> Result<(), BenchError> {
    let pairs = bench.options.items;
    let limits = bench.limits(pairs, report)?;
    let case_of = |mix: Mix, slabs: f64| {
        format!("figure 7a: {}, {slabs} slabs a bucket, about {pairs} pairs", mix.name)
    };
    for slabs_a_bucket in SLABS_A_BUCKET {
        let mut contestants = bench.slab_tables(pairs, slabs_a_bucket, 1.5)?;
        for round in 0..bench.options.rounds {
            for contestant in &mut contestants {
                for mix in Mix::ALL {
                    let count = (contestant.pairs as usize / PAIRS_A_REQUEST).max(1);
                    measure(
                        bench,
                        contestant,
                        mix,
                        &case_of(mix, slabs_a_bucket),
                        (BATCHES, count),
                        round,
                        report,
                    )?;
                }
            }
        }
        for mix in Mix::ALL {
            bench.relate(report, &case_of(mix, slabs_a_bucket), &limits, false);
        }
    }
    for mix in Mix::ALL {
        let cases: Vec<(String, Option<f64>)> =
            SLABS_A_BUCKET.map(|slabs| (case_of(mix, slabs), None)).into_iter().collect();
        let title = format!("figure 7a: {}", mix.name);
        bench.chart(report, &title, "% utilisation before", &slab_names(), &cases, Scale::Linear);
    }
    let fullest = case_of(Mix::ALL[0], 5.0);
    report.add(&fullest, "slab hash, published (K40c), about, at 90%", 0, RATE, Unit::PerSecond, 100e6);
    Ok(())
}

/// Builds a table, and runs mixed batches, each with this many requests; their mean rate.
fn measure(
    bench: &Bench<'_>,
    contestant: &mut Contestant,
    mix: Mix,
    case: &str,
    (batches, count): (usize, usize),
    round: u32,
    report: &mut Report,
) -> Result<(), BenchError> {
    let items = bench.items();
    let mut dice = Dice::new(bench.options.seed, u64::from(round));
    let table = contestant.table.as_mut();
    table.clear()?;
    run_batch(table, &Batch::build(items, 0..contestant.pairs), bench.clock)?;
    bench.add_utilisation(report, case, round, table)?;
    let (mut present, mut seconds, mut done) = (0..contestant.pairs, 0.0, 0);
    for _ in 0..batches {
        bench.progress.check()?;
        let (batch, left) = mix.batch(items, present, count, &mut dice);
        seconds += run_batch(table, &batch, bench.clock)?;
        present = left;
        done += batch.len();
    }
    report.add(case, table.name(), round, RATE, Unit::PerSecond, done as f64 / seconds);
    run_batch(table, &Batch::hits(items, present), bench.clock)?;
    Ok(())
}

pub(super) fn beside_lists(bench: &Bench<'_>, report: &mut Report) -> Result<(), BenchError> {
    let requests = bench.options.items.min(REQUESTS);
    let case_of = |mix: Mix, pairs: f64| {
        format!("figure 7b: {}, {requests} requests, {pairs} keys a bucket before", mix.name)
    };
    for pairs_a_bucket in PAIRS_A_BUCKET {
        let mut contestants = list_contestants(bench, requests, pairs_a_bucket)?;
        for round in 0..bench.options.rounds {
            for contestant in &mut contestants {
                for mix in Mix::ALL {
                    measure(
                        bench,
                        contestant,
                        mix,
                        &case_of(mix, pairs_a_bucket),
                        (1, requests),
                        round,
                        report,
                    )?;
                }
            }
        }
        for mix in Mix::ALL {
            let case = case_of(mix, pairs_a_bucket);
            for name in slab_names() {
                relate_variant(report, &case, &name, ("", 0.0), Some(NODES));
            }
        }
    }
    let names: Vec<String> = slab_names().into_iter().chain([NODES.to_owned()]).collect();
    for (mix, published) in Mix::ALL.into_iter().zip(PUBLISHED_FASTER) {
        let cases = PAIRS_A_BUCKET.map(|pairs| case_of(mix, pairs));
        let title = format!("figure 7b: {}, geometric mean", mix.name);
        let lists = geometric_mean(&rates(report, &cases, NODES));
        for name in slab_names() {
            let slabs = geometric_mean(&rates(report, &cases, &name));
            if lists > 0.0 {
                report.add(&title, &name, 0, FASTER, Unit::Percent, 100.0 * slabs / lists);
            }
        }
        report.add(&title, PUBLISHED, 0, FASTER, Unit::Percent, 100.0 * published);
        let cases: Vec<(String, Option<f64>)> =
            PAIRS_A_BUCKET.map(|pairs| (case_of(mix, pairs), Some(pairs))).into_iter().collect();
        let title = format!("figure 7b: {}", mix.name);
        bench.chart(report, &title, "keys a bucket before", &names, &cases, Scale::Logarithmic);
    }
    Ok(())
}

/// Tables with as many keys as there will be requests, all with about the same number of buckets.
fn list_contestants(
    bench: &Bench<'_>,
    requests: usize,
    pairs_a_bucket: f64,
) -> Result<Vec<Contestant>, BenchError> {
    let (device, seed) = (bench.device, bench.options.seed);
    let mut contestants = Vec::new();
    for shape in OURS {
        let (buckets, pairs) = shape.fit_pairs(requests, pairs_a_bucket);
        let table = OurTable::new(device, shape, (buckets, pairs + requests as u32), seed)?;
        contestants.push(Contestant { table: Box::new(table), pairs });
    }
    let (buckets, pairs) = SHAPE.fit_pairs(requests, pairs_a_bucket);
    let table = WarpTable::new(device, u64::from(buckets), u64::from(pairs) + requests as u64, seed)?;
    contestants.push(Contestant { table: Box::new(table), pairs });
    // A node for each key before, for each request, and for each search afterwards.
    let nodes = 2 * u64::from(pairs) + 2 * requests as u64;
    let table = NodeList::new(device, u64::from(buckets), nodes, seed)?;
    contestants.push(Contestant { table: Box::new(table), pairs });
    Ok(contestants)
}
