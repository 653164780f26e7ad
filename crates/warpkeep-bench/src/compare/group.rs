//! Contestants that are loaded at the same time, and their work.

use std::ops::Range;

use super::bout::{Bout, Outcome};
use super::contestant::{Contestant, Way};
use super::contestants::{Entrant, Setup};
use super::{Options, Promise, case_name, load, variant_name};
use crate::machine::Others;
use crate::report::{Report, Unit};
use crate::scratch::Scratch;
use crate::workload::{Mix, Task, Work};
use crate::{Amount, BenchError, Progress, memory};

/// At most one item in this many is inserted in a round: few enough that our table, made for the items, does not
/// grow, and later cases meet the same table as earlier ones.
const INSERT_SHARE: u64 = 40;
/// But at least this many if there are few items, or nothing could be measured.
const MIN_INSERTS: u64 = 1 << 16;

/// Contestants that are loaded at the same time.
pub(super) struct Group<'a> {
    pub(super) options: &'a Options,
    pub(super) progress: &'a dyn Progress,
    pub(super) first_round: u32,
}

/// A contestant in one of its ways.
struct Variant<'a> {
    name: String,
    contestant: &'a dyn Contestant,
    way: usize,
    of: Way,
}

/// Work that all contestants do in turns.
struct Case {
    /// One after the other; work that undoes another is not always reported.
    works: Vec<(Work, bool)>,
    threads: usize,
    batch: usize,
    /// Whether it is about batches of this size: then all contestants get as many at once, and these are timed.
    of_batches: bool,
    number: u64,
}

impl Case {
    fn name(&self, work: Work) -> String {
        let name = case_name(work, self.threads);
        if self.of_batches { format!("{name}, batches of {}", self.batch) } else { name }
    }

    fn block(&self, way: Way) -> usize {
        if self.of_batches { self.batch } else { way.block.unwrap_or(self.batch) }
    }
}

/// A contestant and its work, for the relations added afterwards.
pub(super) struct Entry {
    pub(super) case: String,
    pub(super) variant: String,
    pub(super) contestant: String,
    pub(super) work: Work,
    pub(super) threads: usize,
    /// Operations in one call.
    pub(super) call: usize,
    pub(super) on_disk: Promise,
}

impl Group<'_> {
    pub(super) fn run(
        &self,
        entrants: &[&Entrant],
        threads: &[usize],
        report: &mut Report,
    ) -> Result<Vec<Entry>, BenchError> {
        let options = self.options;
        let scratch = Scratch::new(&options.dir, &options.image_dir)?;
        let setup = setup(options, &scratch);
        let mut contestants = Vec::new();
        for entrant in entrants {
            self.progress.check()?;
            let contestant = (entrant.open)(&setup)?;
            if let Some(rate) = load::load(&*contestant, &options.workload, self.progress)? {
                let name = contestant.name();
                report.add("load, all cores", name, self.first_round, "rate", Unit::PerSecond, rate);
            }
            let settings = format!("{}: {}", contestant.name(), contestant.settings());
            if !report.notes.contains(&settings) {
                report.notes.push(settings);
            }
            contestants.push(contestant);
        }
        let variants: Vec<Variant<'_>> =
            contestants.iter().flat_map(|contestant| variants_of(&**contestant)).collect();
        let mut entries = Vec::new();
        for case in self.cases(threads, report) {
            self.case(&case, &variants, report, &mut entries)?;
        }
        drop(variants);
        contestants.into_iter().try_for_each(Contestant::close)?;
        drop(scratch);
        memory::give_back();
        Ok(entries)
    }

    /// Everything that is to be done, in order.
    fn cases(&self, threads: &[usize], report: &mut Report) -> Vec<Case> {
        let Options { works, batches, .. } = self.options;
        let mut cases = Vec::new();
        let mut left_out = Vec::new();
        for &threads in threads {
            for works in turns(works) {
                let number = cases.len() as u64;
                let first =
                    Case { works: works.clone(), threads, batch: batches[0], of_batches: false, number };
                cases.push(first);
                for &batch in batches.iter().filter(|_| batches.len() > 1) {
                    let inserts =
                        matches!(works[0].0, Work::Task(Task::Insert | Task::Delete) | Work::Mix(Mix::D));
                    if inserts && batch as u64 > self.inserts_each(threads) {
                        left_out.push(batch);
                        continue;
                    }
                    let number = cases.len() as u64;
                    cases.push(Case { works: works.clone(), threads, batch, of_batches: true, number });
                }
            }
        }
        left_out.sort_unstable();
        left_out.dedup();
        let note = format!(
            "batches of {left_out:?} were left out where items are inserted: fewer are inserted in a round, so that tables do not \
             grow"
        );
        if !left_out.is_empty() && !report.notes.contains(&note) {
            report.notes.push(note);
        }
        cases
    }

    /// A kind of work for all contestants that support it, in turns. Deletes follow the inserts they undo.
    fn case(
        &self,
        case: &Case,
        variants: &[Variant<'_>],
        report: &mut Report,
        entries: &mut Vec<Entry>,
    ) -> Result<(), BenchError> {
        let options = self.options;
        let Case { works, threads, number, .. } = case;
        let first = works[0].0;
        let does = |variant: &&Variant<'_>| variant.contestant.does(first, variant.way);
        let variants: Vec<&Variant<'_>> = variants.iter().filter(does).collect();
        let total = Amount::Count(u64::from(options.rounds + 1) * variants.len() as u64);
        self.progress.begin(&case.name(first), total);
        let others = Others::watch();
        // Round 0 is for warming up, and is shorter.
        for round in 0..=options.rounds {
            for place in 0..variants.len() {
                self.progress.check()?;
                // A different one begins each round, so that none always follows the same.
                let variant = variants[(place + round.saturating_sub(1) as usize) % variants.len()];
                let time = if round == 0 { options.round_time / 4 } else { options.round_time };
                let bout = Bout {
                    contestant: variant.contestant,
                    way: variant.way,
                    workload: &options.workload,
                    distribution: options.distribution_of(first),
                    threads: *threads,
                    block: case.block(variant.of),
                    time,
                    operations: options.operations,
                    stream: number * u64::from(options.rounds + 1) + u64::from(self.first_round + round),
                    generation: u64::from(self.first_round + round + 1) << 8 | *threads as u64 & 0xff,
                };
                let counted = round.checked_sub(1).map(|round| self.first_round + round);
                self.turn(case, variant, &bout, counted, report)?;
                self.progress.advance(1);
            }
        }
        let share = others.share();
        for &(work, _) in works.iter().filter(|(_, reported)| *reported) {
            let name = case.name(work);
            report.others(&name, share);
            entries.extend(variants.iter().map(|variant| Entry {
                case: name.clone(),
                variant: variant.name.clone(),
                contestant: variant.contestant.name().to_owned(),
                work,
                threads: *threads,
                call: if variant.of.block.is_some() { 1 } else { case.batch },
                on_disk: variant.contestant.on_disk(),
            }));
        }
        self.progress.finish();
        Ok(())
    }

    /// One contestant's part of a round: its rate, then, where that makes sense, the latency of single operations.
    fn turn(
        &self,
        case: &Case,
        variant: &Variant<'_>,
        bout: &Bout<'_>,
        round: Option<u32>,
        report: &mut Report,
    ) -> Result<(), BenchError> {
        let one_by_one = variant.of.has_latency && !case.of_batches;
        for singly in [false, true].into_iter().take(1 + usize::from(one_by_one)) {
            let mut ranges = self.fresh_ranges(bout, u64::from(singly));
            for &(work, reported) in &case.works {
                let bout = match singly {
                    // Short, and by time: many of them would take too long one by one.
                    true => Bout { block: 1, time: bout.time / 4, operations: None, ..*bout },
                    false => *bout,
                };
                let outcome = bout.run(work, &ranges)?;
                if !work.only_reads() {
                    bout.check(work, &outcome.sample)?;
                }
                if let Some(round) = round.filter(|_| reported) {
                    let mut add = |metric: &str, unit, value| {
                        report.add(&case.name(work), &variant.name, round, metric, unit, value);
                    };
                    if !singly {
                        add("rate", Unit::PerSecond, outcome.rate());
                    }
                    if singly {
                        add_latencies(add, "", &outcome);
                    } else if case.of_batches || variant.of.block.is_none() {
                        add_latencies(add, " of a batch", &outcome);
                    }
                }
                ranges = outcome.done;
            }
        }
        Ok(())
    }

    fn inserts_each(&self, threads: usize) -> u64 {
        (self.options.workload.items / INSERT_SHARE).max(MIN_INSERTS) / threads as u64
    }

    /// Numbers of items that do not exist yet, a range a thread; others in every round, so that no contestant meets
    /// traces of earlier deletes.
    fn fresh_ranges(&self, bout: &Bout<'_>, pass: u64) -> Vec<Range<u64>> {
        let each = self.inserts_each(bout.threads);
        let turn = (bout.stream * 2 + pass) * bout.threads as u64;
        (0..bout.threads as u64)
            .map(|thread| self.options.workload.items + (turn + thread) * each)
            .map(|start| start..start + each)
            .collect()
    }
}

/// The setup of contestants.
pub(super) fn setup<'a>(options: &Options, scratch: &'a Scratch) -> Setup<'a> {
    let Options { workload, geometry, device, promise, .. } = *options;
    Setup { workload, scratch, geometry, device, promise }
}

/// Workloads in sequence: inserted items are removed again, and removed items were inserted for that.
fn turns(works: &[Work]) -> Vec<Vec<(Work, bool)>> {
    let (insert, delete) = (Work::Task(Task::Insert), Work::Task(Task::Delete));
    let (inserts, deletes) = (works.contains(&insert), works.contains(&delete));
    let mut turns = Vec::new();
    for &work in works {
        match work {
            Work::Load => {}
            Work::Task(Task::Insert) => turns.push(vec![(insert, true), (delete, deletes)]),
            Work::Task(Task::Delete) if inserts => {}
            Work::Task(Task::Delete) => turns.push(vec![(insert, false), (delete, true)]),
            Work::Mix(mix) if mix.inserts() => turns.push(vec![(work, true), (delete, false)]),
            _ => turns.push(vec![(work, true)]),
        }
    }
    turns
}

fn variants_of(contestant: &dyn Contestant) -> Vec<Variant<'_>> {
    let variant = |(way, of): (usize, Way)| Variant {
        name: variant_name(contestant.name(), of.name),
        contestant,
        way,
        of,
    };
    contestant.ways().into_iter().enumerate().map(variant).collect()
}

fn add_latencies(mut add: impl FnMut(&str, Unit, f64), of: &str, outcome: &Outcome) {
    for (metric, percent) in [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9), ("max", 100.0)] {
        add(&format!("{metric}{of}"), Unit::Micros, outcome.latencies.micros(percent));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inserted_is_removed_and_only_reported_if_asked_for() {
        let task = Work::Task;
        let (insert, delete, hit, d) =
            (task(Task::Insert), task(Task::Delete), task(Task::Hit), Work::Mix(Mix::D));
        assert_eq!(turns(&[hit, insert, delete]), [vec![(hit, true)], vec![(insert, true), (delete, true)]]);
        assert_eq!(turns(&[insert]), [vec![(insert, true), (delete, false)]]);
        assert_eq!(turns(&[delete]), [vec![(insert, false), (delete, true)]]);
        assert_eq!(turns(&[Work::Load, d]), [vec![(d, true), (delete, false)]]);
    }
}
