//! The limits of the machine, measured in the same run, and for each figure the one that binds it.

use warpkeep_device::{Device, DeviceChoice};

use super::contestants::limit::{record_lines, way_for};
use super::contestants::warpkeep::image_bytes;
use super::contestants::{ALONE, MEMORY, WARPKEEP, WARPKEEP_WITHOUT_LOG};
use super::group::Entry;
use super::{Options, Promise, variant_name};
use crate::limits::device::{Access, DeviceLimits, Extent};
use crate::limits::{Rounds, disk, median, memory};
use crate::report::{Relation, Report};
use crate::scratch::Scratch;
use crate::workload::Work;
use crate::{Amount, BenchError, Progress};

const RATE: &str = "rate";
/// Bytes of a logged change besides key and value.
const CHANGE_HEAD: u64 = 32;
/// The machine's limits, in the median of the rounds.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    /// Bytes a second to the disk.
    disk_write: f64,
    /// Times a second that a page can be made durable.
    syncs: f64,
    /// Bytes a second to memory, by number of threads.
    memory_write: Vec<(usize, f64)>,
    /// Of the device that works our table, if one does.
    device: Option<DeviceLimits>,
}

impl Limits {
    pub(super) fn measure(
        options: &Options,
        threads: &[usize],
        progress: &dyn Progress,
        report: &mut Report,
    ) -> Result<Limits, BenchError> {
        let rounds = Rounds { count: options.rounds, time: options.round_time / 4 };
        let total = u64::from(options.rounds) * (1 + threads.len() as u64);
        progress.begin("limits of the machine", Amount::Count(total));
        // Without a log, the disk is not used.
        let (disk_write, syncs) = match options.promise {
            Promise::NoLog => (0.0, 0.0),
            Promise::Process | Promise::Power => {
                let scratch = Scratch::new(&options.dir, &options.image_dir)?;
                disk::measure(scratch.disk(), rounds, progress, report)?
            }
        };
        let mut memory_write = Vec::new();
        for &threads in threads {
            let write = memory::measure(threads, rounds, progress, report)?;
            memory_write.push((threads, write));
        }
        progress.finish();
        let device = match options.device {
            DeviceChoice::Cpu => None,
            choice => Some(measure_device(options, choice, progress, report)?),
        };
        Ok(Limits { disk_write, syncs, memory_write, device })
    }

    /// The limits of an entry besides random lines of memory: names, and operations a second.
    fn of(&self, options: &Options, entry: &Entry) -> Vec<(&'static str, f64)> {
        let workload = &options.workload;
        let writes = entry.work.write_share();
        let mut bounds = Vec::new();
        // Lines of memory bind in any case; loaded items go to new records, at best one after the other.
        let of_threads = self.memory_write.iter().find(|(threads, _)| *threads == entry.threads);
        if let (Work::Load, Some((_, write))) = (entry.work, of_threads) {
            bounds.push(("memory, sequential write", write / (64 * record_lines(workload)) as f64));
        }
        if let Some(device) = &self.device
            && [WARPKEEP, WARPKEEP_WITHOUT_LOG].contains(&entry.contestant.as_str())
        {
            // A record read or written for every operation, wherever its slot was found.
            let access = if writes < 0.5 { Access::RandomRead(128) } else { Access::RandomWrite };
            let name = if writes < 0.5 { "the link, random reads" } else { "the link, random writes" };
            let rows = workload.value_bytes.div_ceil(128);
            bounds.push((name, device.link(access) / rows as f64));
            // Keys go to the device, and values one way or the other.
            let (key, value) = (workload.key_bytes as f64, workload.value_bytes as f64);
            bounds.push(("copies to the device", device.copy_in / (key + writes * value)));
            bounds.push(("copies from the device", device.copy_out / ((1.0 - writes) * value + 1.0)));
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

/// The limits of the device, and of its link to as much memory as our image takes.
fn measure_device(
    options: &Options,
    choice: DeviceChoice,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<DeviceLimits, BenchError> {
    let scratch = Scratch::new(&options.dir, &options.image_dir)?;
    let host_bytes = image_bytes(&options.workload);
    let extent = Extent::of(choice, host_bytes, &[host_bytes]);
    DeviceLimits::measure(&Device::open(choice)?, scratch.images(), &extent, options.rounds, progress, report)
}

/// Records for each figure which limit binds it and how near it comes, and how it compares with ours.
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
    use crate::report::Unit;
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
        let limits =
            Limits { disk_write: 1.28e9, syncs: 1000.0, device: None, memory_write: vec![(2, 1.28e10)] };
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
