//! What binds: the limits of the machine, measured in the same run, and for each figure the one that is nearest.

use std::time::Duration;

use super::contestants::limit::{record_lines, way_for};
use super::contestants::{ALONE, MEMORY};
use super::group::Entry;
use super::{Options, Promise, variant_name};
use crate::limits::bare::BareFile;
use crate::limits::{disk, memory};
use crate::measure::Spread;
use crate::report::{Relation, Report, Unit};
use crate::scratch::Scratch;
use crate::workload::Work;
use crate::{Amount, BenchError, Progress};

const DISK: &str = "limits of the disk";
const RATE: &str = "rate";
/// What a change has besides key and value in a log.
const CHANGE_HEAD: u64 = 32;
/// Bytes written in a round, for each second of it, at least and at most.
const PER_SECOND: f64 = (512 << 20) as f64;
const MIN_BYTES: u64 = 4 << 20;
const MAX_BYTES: u64 = 256 << 20;

/// The machine's limits, in the median of the rounds.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    /// Bytes a second to the disk.
    disk_write: f64,
    /// Times a second that a page can be made durable.
    syncs: f64,
    /// Bytes a second to memory, by number of threads.
    memory_write: Vec<(usize, f64)>,
}

impl Limits {
    pub(super) fn measure(
        options: &Options,
        threads: &[usize],
        progress: &dyn Progress,
        report: &mut Report,
    ) -> Result<Limits, BenchError> {
        let time = options.round_time / 4;
        let total = u64::from(options.rounds) * (1 + threads.len() as u64);
        progress.begin("limits of the machine", Amount::Count(total));
        // Where nothing is logged, nobody touches the disk.
        let (disk_write, syncs) = match options.promise {
            Promise::NoLog => (0.0, 0.0),
            Promise::Process | Promise::Power => measure_disk(options, time, progress, report)?,
        };
        let mut memory_write = Vec::new();
        for &threads in threads {
            let case = memory_case(threads);
            let mut arrays = memory::Arrays::of(threads);
            let mut writes = Vec::new();
            for round in 0..options.rounds {
                progress.check()?;
                let rate = arrays.read_rate(time);
                report.add(&case, "sequential read", round, RATE, Unit::BytesPerSecond, rate);
                let rate = arrays.write_rate(time);
                writes.push(rate);
                report.add(&case, "sequential write", round, RATE, Unit::BytesPerSecond, rate);
                progress.advance(1);
            }
            memory_write.push((threads, median(&writes)));
        }
        progress.finish();
        Ok(Limits { disk_write, syncs, memory_write })
    }

    /// What bounds an entry besides random lines of memory: names, and operations a second.
    fn of(&self, options: &Options, entry: &Entry) -> Vec<(&'static str, f64)> {
        let workload = &options.workload;
        let writes = entry.work.write_share();
        let mut bounds = Vec::new();
        // Lines of memory bind whatever else there is; what is loaded goes to new records, one after the other at best.
        let of_threads = self.memory_write.iter().find(|(threads, _)| *threads == entry.threads);
        if let (Work::Load, Some((_, write))) = (entry.work, of_threads) {
            bounds.push(("memory, sequential write", write / (64 * record_lines(workload)) as f64));
        }
        if writes == 0.0 || entry.on_disk == Promise::NoLog {
            return bounds;
        }
        let change = CHANGE_HEAD + (workload.key_bytes + workload.value_bytes) as u64;
        bounds.push(("the disk, sequential write", self.disk_write / (change as f64 * writes)));
        if entry.on_disk == Promise::Power {
            // At best a sync is shared by all threads, each with a call that waits for it.
            let operations = (entry.call as f64).max(1.0 / writes) * entry.threads as f64;
            bounds.push(("fdatasync, one for a call of each thread", self.syncs * operations));
        }
        bounds
    }
}

/// Bytes a second to the disk, and times a second that a page can be made durable.
fn measure_disk(
    options: &Options,
    time: Duration,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(f64, f64), BenchError> {
    let scratch = Scratch::new(&options.dir, &options.image_dir)?;
    let path = scratch.disk().join("sequential");
    let bytes = ((time.as_secs_f64() * PER_SECOND) as u64).clamp(MIN_BYTES, MAX_BYTES);
    let bare = BareFile::filled(&scratch.disk().join("bare"), time)?;
    let (mut writes, mut syncs) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        progress.check()?;
        let mut add = |variant, metric, unit, value| report.add(DISK, variant, round, metric, unit, value);
        let rate = disk::write_rate(&path, bytes)?;
        writes.push(rate);
        add("sequential write", RATE, Unit::BytesPerSecond, rate);
        disk::forget_file(&path)?;
        add("sequential read", RATE, Unit::BytesPerSecond, disk::read_rate(&path)?);
        let measured = bare.round(4096.0, time, progress)?;
        let per_second = measured.syncs as f64 / measured.seconds;
        syncs.push(per_second);
        add("a page and fdatasync", "syncs", Unit::PerSecond, per_second);
        for (metric, percent) in [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9), ("max", 100.0)] {
            add("a page and fdatasync", metric, Unit::Micros, measured.latencies.micros(percent));
        }
        progress.advance(1);
    }
    Ok((median(&writes), median(&syncs)))
}

fn memory_case(threads: usize) -> String {
    format!("limits of memory, {threads} thread{}", if threads == 1 { "" } else { "s" })
}

fn median(figures: &[f64]) -> f64 {
    Spread::of(figures).map_or(0.0, |spread| spread.median)
}

/// Says for each figure which limit binds it and how near it comes, and how it compares with ours.
pub(super) fn relate(options: &Options, limits: &Limits, entries: &[Entry], ours: &str, report: &mut Report) {
    for entry in entries.iter().filter(|entry| ![MEMORY, ALONE].contains(&entry.contestant.as_str())) {
        let Entry { case, variant, work, .. } = entry;
        let rate = median(&report.series(case, variant, RATE));
        let lines = variant_name(MEMORY, way_for(*work));
        let by_lines = median(&report.series(case, &lines, RATE));
        let others = limits.of(options, entry);
        let nearest = others.into_iter().filter(|(_, bound)| *bound > 0.0).min_by(|a, b| a.1.total_cmp(&b.1));
        let relation = match nearest {
            Some((name, bound)) if by_lines <= 0.0 || bound < by_lines => {
                Some(Relation { to: name.to_owned(), ratio: rate / bound, too_close_to_tell: false })
            }
            _ => report.ratio(case, RATE, variant, &lines, None).map(|ratio| Relation::of(&lines, &ratio)),
        };
        if let Some(relation) = relation {
            report.set_limit(case, variant, RATE, relation);
        }
        if variant != ours
            && let Some(ratio) = report.ratio(case, RATE, variant, ours, None)
        {
            report.set_beside(case, variant, RATE, Relation::of(ours, &ratio));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Mix, Task, Workload};

    fn entry(work: Work, variant: &str, on_disk: Promise, call: usize) -> Entry {
        let case = "the case".to_owned();
        Entry {
            case,
            variant: variant.to_owned(),
            contestant: variant.to_owned(),
            work,
            threads: 2,
            call,
            on_disk,
        }
    }

    #[test]
    fn the_nearest_limit_binds() {
        let workload = Workload { items: 10, key_bytes: 8, value_bytes: 88, seed: 1 };
        let options = Options { workload, ..Options::default() };
        let limits = Limits { disk_write: 1.28e9, syncs: 1000.0, memory_write: vec![(2, 1.28e10)] };
        let update = Work::Task(Task::Update);
        let bound = |work, promise, call| {
            let bounds = limits.of(&options, &entry(work, "x", promise, call));
            bounds.into_iter().map(|(_, bound)| bound).collect::<Vec<_>>()
        };
        // Two lines a record.
        assert_eq!(bound(Work::Load, Promise::Process, 1), [1e8, 1e7]);
        // 128 bytes a change.
        assert_eq!(bound(update, Promise::NoLog, 1), [0.0; 0]);
        assert_eq!(bound(update, Promise::Process, 1), [1e7]);
        assert_eq!(bound(update, Promise::Power, 1), [1e7, 2000.0]);
        assert_eq!(bound(update, Promise::Power, 100), [1e7, 200_000.0]);
        assert_eq!(bound(Work::Mix(Mix::B), Promise::Power, 1), [2e8, 40_000.0]);
        assert_eq!(bound(Work::Mix(Mix::C), Promise::Power, 1), [0.0; 0]);

        let mut report = Report::new("compare", "test", 1);
        let lines = variant_name(MEMORY, way_for(update));
        for (variant, rate) in [("ours", 1e6), ("theirs", 2e6), ("synced", 1500.0), (&lines, 4e6)] {
            (0..3).for_each(|round| report.add("the case", variant, round, RATE, Unit::PerSecond, rate));
        }
        let entries = [
            entry(update, "ours", Promise::Process, 1),
            entry(update, "theirs", Promise::NoLog, 1),
            entry(update, "synced", Promise::Power, 1),
        ];
        relate(&options, &limits, &entries, "ours", &mut report);
        report.finish();
        let of = |variant: &str| {
            report.summaries.iter().find(|summary| summary.variant == variant).expect("it took part").clone()
        };
        let limit = |variant: &str| of(variant).limit.map(|limit| (limit.to, limit.ratio));
        assert_eq!(limit("ours"), Some((lines.clone(), 0.25)));
        assert_eq!(limit("theirs"), Some((lines.clone(), 0.5)));
        assert_eq!(limit("synced"), Some(("fdatasync, one for a call of each thread".to_owned(), 0.75)));
        assert_eq!(limit(&lines), None);
        assert_eq!(
            of("theirs").beside.map(|beside| (beside.ratio, beside.too_close_to_tell)),
            Some((2.0, false))
        );
        assert_eq!(of("ours").beside, None);
    }
}
