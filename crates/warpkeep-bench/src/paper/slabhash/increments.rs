//! Figure 6: batches of insertions, beside a static table that is built anew for each batch.

use std::time::Instant;

use super::bench::{Bench, Contestant, slab_names};
use super::cuckoo_table::CUCKOO;
use super::warp_table::SHAPE;
use crate::BenchError;
use crate::gpu::slab::{Batch, run_batch};
use crate::limits::median;
use crate::report::{Report, Unit};

/// Batches until the table has all pairs, and how much faster the slab hash was then, by the text.
const BATCHES: [(usize, f64); 3] = [(64, 17.3), (32, 10.4), (16, 6.4)];
const UTILISATION: f64 = 0.65;
const TIME: &str = "time until all pairs are in the table";
const FASTER: &str = "of the time of rebuilding";
const PUBLISHED: &str = "slab hash, published (K40c)";

pub(super) fn run(bench: &Bench<'_>, report: &mut Report) -> Result<(), BenchError> {
    // The paper has half as many pairs here as elsewhere.
    let pairs = bench.options.items / 2;
    for (batches, published) in BATCHES {
        let case = format!("figure 6: batches of {}, about {pairs} pairs in all", pairs / batches);
        let slabs_a_bucket = SHAPE.pairs_for(UTILISATION) / f64::from(SHAPE.pairs);
        let mut slabs = bench.slab_tables(pairs, slabs_a_bucket, 1.0)?;
        let mut rebuilt = bench.static_table(pairs, UTILISATION)?;
        for round in 0..bench.options.rounds {
            for contestant in &mut slabs {
                let seconds = grow(bench, contestant, batches)?;
                let name = contestant.table.name();
                // Contestants have slightly different numbers of pairs.
                let seconds = seconds * pairs as f64 / f64::from(contestant.pairs);
                report.add(&case, name, round, TIME, Unit::Micros, 1e6 * seconds);
                bench.add_utilisation(report, &case, round, contestant.table.as_ref())?;
            }
            if let Some(contestant) = &mut rebuilt {
                let seconds = rebuild(bench, contestant, batches)?;
                let seconds = seconds * pairs as f64 / f64::from(contestant.pairs);
                report.add(&case, CUCKOO, round, TIME, Unit::Micros, 1e6 * seconds);
                bench.add_utilisation(report, &case, round, contestant.table.as_ref())?;
            }
        }
        let rebuilding = median(&report.series(&case, CUCKOO, TIME));
        for name in slab_names() {
            let growing = median(&report.series(&case, &name, TIME));
            if rebuilding > 0.0 && growing > 0.0 {
                report.add(&case, &name, 0, FASTER, Unit::Percent, 100.0 * growing / rebuilding);
            }
        }
        report.add(&case, PUBLISHED, 0, FASTER, Unit::Percent, 100.0 / published);
    }
    Ok(())
}

/// The numbers of each batch.
fn parts(pairs: u32, batches: usize) -> impl Iterator<Item = std::ops::Range<u32>> {
    let bound = move |part: usize| (u64::from(pairs) * part as u64 / batches as u64) as u32;
    (0..batches).map(move |part| bound(part)..bound(part + 1)).filter(|part| !part.is_empty())
}

/// The seconds of all batches, each of which adds its pairs.
fn grow(bench: &Bench<'_>, contestant: &mut Contestant, batches: usize) -> Result<f64, BenchError> {
    contestant.table.clear()?;
    let mut seconds = 0.0;
    for numbers in parts(contestant.pairs, batches) {
        bench.progress.check()?;
        let batch = Batch::build(bench.items(), numbers);
        seconds += run_batch(contestant.table.as_mut(), &batch, bench.clock)?;
    }
    Ok(seconds)
}

/// The seconds of all batches, for each of which everything so far is built anew.
fn rebuild(bench: &Bench<'_>, contestant: &mut Contestant, batches: usize) -> Result<f64, BenchError> {
    let mut seconds = 0.0;
    for numbers in parts(contestant.pairs, batches) {
        bench.progress.check()?;
        let begun = Instant::now();
        contestant.table.clear()?;
        seconds += begun.elapsed().as_secs_f64();
        let batch = Batch::build(bench.items(), 0..numbers.end);
        seconds += run_batch(contestant.table.as_mut(), &batch, bench.clock)?;
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other() {
        let ends: Vec<_> = parts(10, 4).collect();
        assert_eq!(ends, [0..2, 2..5, 5..7, 7..10]);
        assert_eq!(parts(3, 64).map(|part| part.len()).sum::<usize>(), 3);
    }
}
