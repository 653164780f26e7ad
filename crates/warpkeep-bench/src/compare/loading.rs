//! YCSB LOAD: all items into an empty contestant, anew in every round.

use super::contestants::Entrant;
use super::group::{Entry, setup};
use super::{Options, case_name, load, variant_name};
use crate::machine::Others;
use crate::report::{Report, Unit};
use crate::scratch::Scratch;
use crate::workload::Work;
use crate::{Amount, BenchError, Progress, memory};

/// Loads all contestants in turns, one at a time: each has the machine and its memory to itself.
pub(super) fn run(
    options: &Options,
    entrants: &[Entrant],
    threads: &[usize],
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<Vec<Entry>, BenchError> {
    let mut entries = Vec::new();
    for &threads in threads {
        let case = case_name(Work::Load, threads);
        let others = Others::watch();
        for round in 0..options.rounds {
            for place in 0..entrants.len() {
                let entrant = &entrants[(place + round as usize) % entrants.len()];
                let scratch = Scratch::new(&options.dir, &options.image_dir)?;
                let contestant = (entrant.open)(&setup(options, &scratch))?;
                let way = contestant.ways()[0];
                let variant = variant_name(contestant.name(), way.name);
                if contestant.holds_items() {
                    progress.begin(&format!("{case}: {variant}"), Amount::Count(options.workload.items));
                    // With the promised durability from the start: this is measured.
                    contestant.loaded();
                    let block = way.block.unwrap_or(options.batches[0]);
                    let seconds =
                        load::fill(&*contestant, &options.workload, threads, block as u64, progress)?;
                    progress.finish();
                    load::check(&*contestant, &options.workload)?;
                    let rate = options.workload.items as f64 / seconds;
                    report.add(&case, &variant, round, "rate", Unit::PerSecond, rate);
                    if round == 0 {
                        entries.push(Entry {
                            case: case.clone(),
                            variant,
                            contestant: contestant.name().to_owned(),
                            work: Work::Load,
                            threads,
                            call: if way.block.is_some() { 1 } else { block },
                            on_disk: contestant.on_disk(),
                        });
                    }
                }
                contestant.close()?;
                memory::give_back();
            }
        }
        report.others(&case, others.share());
    }
    Ok(entries)
}
