//! The comparison: the speed of the store beside its alternatives, and beside the limits of memory.
//!
//! All contestants do the same work on the same keys in turns, round by round; every answer is checked, and one
//! wrong answer ends the run. Contestants are behind the trait [`Contestant`], workloads in [`crate::workload`]:
//! neither knows the other. The limits of the machine are measured in the same run, and every rate is compared with
//! the one that binds it.

mod bounds;
mod bout;
mod contestant;
mod contestants;
mod curve;
mod drawing;
mod feed;
mod goals;
mod group;
mod groups;
mod load;
mod loading;
mod options;
mod promise;

use self::bounds::Limits;
pub use self::contestant::{Contestant, Session, Tally, Way};
pub(crate) use self::contestants::TURBOHASH;
pub(crate) use self::contestants::warpkeep::{image_bytes as warpkeep_image_bytes, image_bytes_of};
use self::contestants::{Entrant, maps_left_out, missing_peers};
use self::group::Group;
use self::groups::{Room, groups};
pub use self::options::{MAX_BATCH, Options};
pub use self::promise::Promise;
use crate::chart::Chart;
use crate::machine::placement_in;
use crate::report::Report;
use crate::size::Size;
use crate::workload::{Work, Workload};
use crate::{BenchError, Progress};

/// How our batches are called.
const BATCHES: &str = "batches";

/// The name of a case.
pub(crate) fn case_name(work: Work, threads: usize) -> String {
    format!("{}, {threads} thread{}", work.name(), if threads == 1 { "" } else { "s" })
}

/// The name of a contestant in one of its ways.
pub(crate) fn variant_name(contestant: &str, way: &str) -> String {
    if way.is_empty() { contestant.to_owned() } else { format!("{contestant}, {way}") }
}

/// Runs the comparison. Files are made in directories of their own and removed, also after an error.
///
/// ```no_run
/// use warpkeep_bench::{Quiet, compare};
///
/// let report = compare::run(&compare::Options::default(), &Quiet)?;
/// print!("{}", report.to_text());
/// # Ok::<(), warpkeep_bench::BenchError>(())
/// ```
pub fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    options.check()?;
    let thread_counts = options.thread_counts();
    let mut report = Report::new("compare", &options.command, options.workload.seed);
    report.machine.add_place("log", &options.dir)?;
    report.machine.add_place("image", &options.image_dir)?;
    report.notes.extend(notes(options));

    let entrants = options.entrants()?;
    let room = Room {
        memory: (options.memory_share * report.machine.memory_bytes as f64) as u64,
        image: placement_in(&options.image_dir)?.free_bytes / 10 * 9,
    };
    let groups = groups(&entrants, room);
    if groups.len() > 1 {
        report.notes.push(groups_note(&entrants, &groups, room));
    }
    drawing::measure(options, &mut report)?;
    let limits = Limits::measure(options, &thread_counts, progress, &mut report)?;
    let mut entries = Vec::new();
    if options.works.contains(&Work::Load) {
        entries.extend(loading::run(options, &entrants, &thread_counts, progress, &mut report)?);
    }
    if options.works.iter().any(|&work| work != Work::Load) {
        for (number, group) in groups.iter().enumerate() {
            let entrants: Vec<&Entrant> = group.iter().map(|&place| &entrants[place]).collect();
            let group = Group { options, progress, first_round: number as u32 * options.rounds };
            entries.extend(group.run(&entrants, &thread_counts, &mut report)?);
        }
    }
    let ours = entrants[0].name;
    goals::judge(&mut report, &thread_counts, ours);
    bounds::relate(options, &limits, &entries, &variant_name(ours, BATCHES), &mut report);
    report.finish();
    let one_line = variant_name(contestants::MEMORY, contestants::limit::ONE_LINE);
    let except = [contestants::ALONE, &one_line];
    let bars = |work: Work, threads| {
        let limit = variant_name(contestants::MEMORY, contestants::limit::way_for(work));
        let chart = Chart::bars_of(&report, &case_name(work, threads), "rate", ("M/s", 1e-6), &except)?;
        Some(chart.with_limit(&limit))
    };
    let cases =
        thread_counts.iter().flat_map(|&threads| options.works.iter().map(move |&work| (work, threads)));
    report.charts = cases.filter_map(|(work, threads)| bars(work, threads)).collect();
    report.charts.extend(curve::charts(options, &thread_counts, &entries, &report));
    Ok(report)
}

/// A description of the run, for the report.
fn notes(options: &Options) -> Vec<String> {
    let Workload { items, key_bytes, value_bytes, .. } = options.workload;
    let drawn: Vec<String> = options
        .works
        .iter()
        .map(|&work| match work {
            Work::Load => format!("{}: each item once", work.name()),
            Work::PageRank => format!("{}: an R-MAT graph", work.name()),
            _ => format!("{}: {}", work.name(), options.distribution_of(work)),
        })
        .collect();
    let rounds = match options.operations {
        Some(operations) => format!("{operations} operations"),
        None => format!("{:?}", options.round_time),
    };
    let mut notes = vec![format!(
        "{items} items, keys of {key_bytes} bytes, values of {value_bytes}, writes that survive: {}, batches of {:?}; threads are pinned; \
         rates are of rounds of {rounds}, latencies of {:?}, each operation by itself, or of the batches of a round; items are drawn: {}",
        options.promise,
        options.batches,
        options.round_time / 4,
        drawn.join(", ")
    )];
    notes.extend(maps_left_out(&options.workload));
    let missing = missing_peers();
    if !missing.is_empty() {
        notes.push(format!(
            "this program was built without {}; build it with --features peers (and peer-rocksdb) to compare with them",
            missing.join(", ")
        ));
    }
    notes
}

fn groups_note(entrants: &[Entrant], groups: &[Vec<usize>], room: Room) -> String {
    let names =
        |group: &Vec<usize>| group.iter().map(|&place| entrants[place].name).collect::<Vec<_>>().join(", ");
    format!(
        "all together need about {}, and {} may be used: so they took turns in groups, with warpkeep in each, and are compared \
         with it round by round within their group: {}",
        Size(entrants.iter().map(|entrant| entrant.memory).sum()),
        Size(room.memory.min(room.image)),
        groups.iter().map(names).collect::<Vec<_>>().join(" | ")
    )
}
