//! The comparison: how fast the store is beside what a user would take instead, and beside what memory gives at most.
//!
//! Everybody does the same work on the same keys in turns, round by round; every answer is checked, and one wrong answer
//! ends the run. Contestants are behind the trait [`Contestant`], workloads in [`crate::workload`]: neither knows the other.

mod bout;
mod contestant;
mod contestants;
mod goals;
mod groups;
mod load;

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use warpkeep::Durability;

use self::bout::{Bout, Clock, Outcome};
pub use self::contestant::{Contestant, Session, Tally, Way};
pub(crate) use self::contestants::warpkeep::image_bytes as warpkeep_image_bytes;
use self::contestants::{Entrant, Setup, entrants, missing_peers};
use self::groups::{Room, groups};
use crate::chart::Chart;
use crate::machine::{Others, placement_in};
use crate::report::{Report, Unit};
use crate::scratch::Scratch;
use crate::size::Size;
use crate::workload::{Task, Workload};
use crate::{Amount, BenchError, Progress, memory, pinned};

/// At most one item in so many is inserted in a round: few enough that our table, made for the items, does not grow, and the
/// cases after it meet the same table as those before.
const INSERT_SHARE: u64 = 40;
/// But so many if there are few items, or nothing could be measured.
const MIN_INSERTS: u64 = 1 << 16;

/// What to compare, and how thoroughly.
#[derive(Clone, Debug)]
pub struct Options {
    /// A directory on a disk, for logs; a directory of its own is made in it, and removed.
    pub dir: PathBuf,
    /// A directory for images and the files of peers, best on tmpfs; used the same way.
    pub image_dir: PathBuf,
    /// Items, keys, values, seed.
    pub workload: Workload,
    /// Threads at work, case by case; 0 stands for all cores.
    pub threads: Vec<usize>,
    /// Operations in a batch or transaction, for those that have them.
    pub batch: usize,
    /// What a put must survive, for those that promise something.
    pub durability: Durability,
    /// Rounds of each contestant.
    pub rounds: u32,
    /// How long a contestant works in a round.
    pub round_time: Duration,
    /// The share of memory that may be loaded at a time; if all together need more, they take turns in groups.
    pub memory_share: f64,
    /// Only those with such names; all if there are none. Warpkeep always takes part.
    pub only: Vec<String>,
    /// How the benchmark was started, for the report.
    pub command: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            dir: PathBuf::from("."),
            image_dir: PathBuf::from("/dev/shm"),
            workload: Workload { items: 16_000_000, key_bytes: 8, value_bytes: 128, seed: 1 },
            threads: vec![1, 0],
            batch: 1024,
            durability: Durability::Process,
            rounds: 7,
            round_time: Duration::from_millis(500),
            memory_share: 0.6,
            only: Vec::new(),
            command: "warpkeep bench compare".to_owned(),
        }
    }
}

impl Options {
    fn check(&self) -> Result<(), BenchError> {
        self.workload.check()?;
        let wrong = |what: &str| Err(BenchError::Invalid(what.to_owned()));
        if self.rounds == 0 || self.threads.is_empty() {
            return wrong("at least one round and one number of threads are needed");
        }
        if self.threads.iter().any(|&threads| threads > 512) {
            return wrong("more than 512 threads are not possible; give 0 for as many as there are cores");
        }
        if !(1..=1 << 20).contains(&self.batch) {
            return wrong("a batch has 1 to 2^20 operations");
        }
        Ok(())
    }

    /// The numbers of threads, each once.
    fn thread_counts(&self) -> Vec<usize> {
        let mut counts = Vec::new();
        for &threads in &self.threads {
            let threads = if threads == 0 { pinned::core_count() } else { threads };
            if !counts.contains(&threads) {
                counts.push(threads);
            }
        }
        counts
    }

    /// Those who take part, ourselves first.
    fn entrants(&self) -> Result<Vec<Entrant>, BenchError> {
        let mut all = entrants(&self.workload);
        let known: Vec<&str> = all.iter().map(|entrant| entrant.name).collect();
        if let Some(unknown) = self.only.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(BenchError::Invalid(format!(
                "there is no contestant '{unknown}'; there are: {}",
                known.join(", ")
            )));
        }
        if !self.only.is_empty() {
            let first = all[0].name;
            all.retain(|entrant| entrant.name == first || self.only.iter().any(|name| name == entrant.name));
        }
        Ok(all)
    }
}

/// What a case is called.
pub(crate) fn case_name(task: Task, threads: usize) -> String {
    format!("{}, {threads} thread{}", task.name(), if threads == 1 { "" } else { "s" })
}

/// What a contestant in one of its ways is called.
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
    let Workload { items, key_bytes, value_bytes, .. } = options.workload;
    report.notes.push(format!(
        "{items} items, keys of {key_bytes} bytes, values of {value_bytes}, uniform; threads are pinned; rates are of rounds of \
         {:?}, latencies of a quarter as long, each operation by itself",
        options.round_time
    ));
    let missing = missing_peers();
    if !missing.is_empty() {
        report.notes.push(format!(
            "this program was built without {}; build it with --features peers to compare with them",
            missing.join(", ")
        ));
    }

    let entrants = options.entrants()?;
    let room = Room {
        memory: (options.memory_share * report.machine.memory_bytes as f64) as u64,
        image: placement_in(&options.image_dir)?.free_bytes / 10 * 9,
    };
    let groups = groups(&entrants, room);
    if groups.len() > 1 {
        let names = |group: &Vec<usize>| {
            group.iter().map(|&place| entrants[place].name).collect::<Vec<_>>().join(", ")
        };
        report.notes.push(format!(
            "all together need about {}, and {} may be used: so they took turns in groups, with warpkeep in each, and are \
             compared with it round by round within their group: {}",
            Size(entrants.iter().map(|entrant| entrant.memory).sum()),
            Size(room.memory.min(room.image)),
            groups.iter().map(names).collect::<Vec<_>>().join(" | ")
        ));
    }
    for (number, group) in groups.iter().enumerate() {
        let entrants: Vec<&Entrant> = group.iter().map(|&place| &entrants[place]).collect();
        let group = Group { options, progress, first_round: number as u32 * options.rounds };
        group.run(&entrants, &thread_counts, &mut report)?;
    }
    goals::judge(&mut report, &thread_counts);
    report.finish();
    let one_line = variant_name(contestants::MEMORY, contestants::limit::ONE_LINE);
    let except = [contestants::ALONE, &one_line];
    report.charts = thread_counts
        .iter()
        .flat_map(|&threads| Task::ALL.map(|task| case_name(task, threads)))
        .filter_map(|case| Chart::bars_of(&report, &case, "rate", ("M/s", 1e-6), &except))
        .collect();
    Ok(report)
}

/// Contestants that are loaded at the same time.
struct Group<'a> {
    options: &'a Options,
    progress: &'a dyn Progress,
    first_round: u32,
}

/// A contestant in one of its ways.
struct Variant<'a> {
    name: String,
    contestant: &'a dyn Contestant,
    way: usize,
    has_latency: bool,
}

impl Group<'_> {
    fn run(&self, entrants: &[&Entrant], threads: &[usize], report: &mut Report) -> Result<(), BenchError> {
        let options = self.options;
        let scratch = Scratch::new(&options.dir, &options.image_dir)?;
        let setup = Setup {
            workload: options.workload,
            scratch: &scratch,
            batch: options.batch,
            durability: options.durability,
        };
        let mut contestants = Vec::new();
        for entrant in entrants {
            self.progress.check()?;
            let contestant = (entrant.open)(&setup)?;
            load::load(&*contestant, &options.workload, self.first_round, self.progress, report)?;
            let settings = format!("{}: {}", contestant.name(), contestant.settings());
            if !report.notes.contains(&settings) {
                report.notes.push(settings);
            }
            contestants.push(contestant);
        }
        let variants: Vec<Variant<'_>> =
            contestants.iter().flat_map(|contestant| variants_of(&**contestant)).collect();
        for &threads in threads {
            for tasks in [&[Task::Hit][..], &[Task::Miss], &[Task::Update], &[Task::Insert, Task::Delete]] {
                self.case(tasks, threads, &variants, report)?;
            }
        }
        drop(variants);
        contestants.into_iter().try_for_each(Contestant::close)?;
        drop(scratch);
        memory::give_back();
        Ok(())
    }

    /// A kind of work for everybody who does it, in turns. Deletes follow the inserts they undo.
    fn case(
        &self,
        tasks: &[Task],
        threads: usize,
        variants: &[Variant<'_>],
        report: &mut Report,
    ) -> Result<(), BenchError> {
        let rounds = self.options.rounds;
        let variants: Vec<&Variant<'_>> =
            variants.iter().filter(|variant| variant.contestant.does(tasks[0])).collect();
        let total = Amount::Count(u64::from(rounds + 1) * variants.len() as u64);
        self.progress.begin(&case_name(tasks[0], threads), total);
        let others = Others::watch();
        // Round 0 is for warming up, and is shorter.
        for round in 0..=rounds {
            for place in 0..variants.len() {
                self.progress.check()?;
                // Another one begins each round, so that none always comes after the same.
                let variant = variants[(place + round.saturating_sub(1) as usize) % variants.len()];
                let time = if round == 0 { self.options.round_time / 4 } else { self.options.round_time };
                let bout = Bout {
                    contestant: variant.contestant,
                    way: variant.way,
                    workload: &self.options.workload,
                    threads,
                    time,
                    stream: u64::from(self.first_round + round),
                    generation: u64::from(self.first_round + round + 1) << 8 | threads as u64 & 0xff,
                };
                let counted = round.checked_sub(1).map(|round| self.first_round + round);
                self.turn(tasks, variant, &bout, counted, report)?;
                self.progress.advance(1);
            }
        }
        let share = others.share();
        tasks.iter().for_each(|&task| report.others(&case_name(task, threads), share));
        self.progress.finish();
        Ok(())
    }

    /// One contestant's part of a round: its rate, then, where that makes sense, what single operations take.
    fn turn(
        &self,
        tasks: &[Task],
        variant: &Variant<'_>,
        bout: &Bout<'_>,
        round: Option<u32>,
        report: &mut Report,
    ) -> Result<(), BenchError> {
        let clocks = [Clock::Throughput, Clock::Latency];
        for (pass, clock) in clocks.into_iter().enumerate().take(1 + usize::from(variant.has_latency)) {
            let mut ranges = self.fresh_ranges(bout, pass as u64);
            for &task in tasks {
                let time = if clock == Clock::Latency { bout.time / 4 } else { bout.time };
                let bout = Bout { time, ..*bout };
                let outcome = bout.run(task, &ranges, clock)?;
                if task != Task::Hit && task != Task::Miss {
                    bout.check(task, &outcome.sample)?;
                }
                if let Some(round) = round {
                    add(report, &case_name(task, bout.threads), &variant.name, round, clock, &outcome);
                }
                ranges = outcome.done;
            }
        }
        Ok(())
    }

    /// Numbers of items that are not there yet, a range a thread; others in every round, so that nobody meets the
    /// traces of what was deleted before.
    fn fresh_ranges(&self, bout: &Bout<'_>, pass: u64) -> Vec<Range<u64>> {
        let items = self.options.workload.items;
        let each = (items / INSERT_SHARE).max(MIN_INSERTS) / bout.threads as u64;
        let turn = (bout.stream * 2 + pass) * bout.threads as u64;
        (0..bout.threads as u64)
            .map(|thread| items + (turn + thread) * each)
            .map(|start| start..start + each)
            .collect()
    }
}

fn variants_of(contestant: &dyn Contestant) -> Vec<Variant<'_>> {
    let variant = |(way, Way { name, has_latency, .. })| Variant {
        name: variant_name(contestant.name(), name),
        contestant,
        way,
        has_latency,
    };
    contestant.ways().into_iter().enumerate().map(variant).collect()
}

fn add(report: &mut Report, case: &str, variant: &str, round: u32, clock: Clock, outcome: &Outcome) {
    match clock {
        Clock::Throughput => report.add(case, variant, round, "rate", Unit::PerSecond, outcome.rate()),
        Clock::Latency => {
            for (metric, percent) in [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9), ("max", 100.0)] {
                report.add(case, variant, round, metric, Unit::Micros, outcome.latencies.micros(percent));
            }
        }
    }
}
