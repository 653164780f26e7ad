//! Group commit against the bare disk.

use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use warpkeep::Durability;
use warpkeep::engine::{Cells, Change, ChangeKind, ImageFile, Keeper, LogPlace, open};
use warpkeep_image::Coherent;
use warpkeep_log::{ChangeBatch, Log, LogOptions, OsDisk};

use super::Options;
use super::watch::{Watch, WatchedDisk};
use crate::limits::bare::{BareFile, Round};
use crate::machine::Others;
use crate::measure::{Goal, Latencies};
use crate::report::{Report, Unit};
use crate::scratch::Scratch;
use crate::{Amount, BenchError, Progress, Values};

/// A single commit of this many bytes leaves room in its page: one page is compared with one page.
const SMALL: usize = 100;
const LARGE: usize = 1024;
/// Cells that share a lock: a writer that stays on its own number never waits for another writer's commit.
const STRIPES: u64 = 256;
const CELLS_PER_WRITER: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    /// To a preallocated file.
    Bare,
    /// To a file that was written before: the most the disk gives.
    BareFilled,
    /// The log alone.
    Log,
    /// A store: image and log.
    Store,
}

impl Variant {
    const ALL: [Variant; 4] = [Variant::Bare, Variant::Log, Variant::BareFilled, Variant::Store];

    fn name(self) -> &'static str {
        match self {
            Variant::Bare => "bare, preallocated",
            Variant::BareFilled => "bare, filled before",
            Variant::Log => "log",
            Variant::Store => "store",
        }
    }
}

pub(crate) fn run(options: &Options, progress: &dyn Progress, report: &mut Report) -> Result<(), BenchError> {
    if options.writers.is_empty() {
        return Ok(());
    }
    let scratch = Scratch::new(&options.dir, &options.image_dir)?;
    let filled = BareFile::filled(&scratch.disk().join("filled"), options.round_time)?;
    for &writers in &options.writers {
        let case = Case {
            writers,
            value_bytes: if writers == 1 { SMALL } else { LARGE },
            time: options.round_time,
            seed: options.seed,
            scratch: &scratch,
            filled: &filled,
            progress,
        };
        case.run(options.rounds, report)?;
    }
    Ok(())
}

struct Case<'a> {
    writers: usize,
    value_bytes: usize,
    time: Duration,
    seed: u64,
    scratch: &'a Scratch,
    filled: &'a BareFile,
    progress: &'a dyn Progress,
}

impl Case<'_> {
    fn run(&self, rounds: u32, report: &mut Report) -> Result<(), BenchError> {
        let plural = if self.writers == 1 { "" } else { "s" };
        let name = format!("commit, {} writer{plural}, {} bytes each", self.writers, self.value_bytes);
        let total = Amount::Count(u64::from(rounds + 1) * Variant::ALL.len() as u64);
        self.progress.begin(&name, total);
        // How large the groups turn out, which the bare loops then write; and a warm-up for all.
        let mut group = 4096.0;
        for variant in [Variant::Store, Variant::Log, Variant::Bare, Variant::BareFilled] {
            let warm = self.round(variant, group, self.time / 4)?;
            if variant == Variant::Store {
                group = warm.bytes_per_sync();
            }
            self.progress.advance(1);
        }
        let others = Others::watch();
        for round in 0..rounds {
            for place in 0..Variant::ALL.len() {
                // A different one begins each round, so that none always follows the same.
                let variant = Variant::ALL[(place + round as usize) % Variant::ALL.len()];
                let measured = self.round(variant, group, self.time)?;
                if variant == Variant::Store {
                    group = measured.bytes_per_sync();
                }
                add(report, &name, variant.name(), round, &measured);
                self.progress.advance(1);
            }
        }
        self.progress.finish();
        report.others(&name, others.share());
        for ours in [Variant::Store, Variant::Log] {
            for bare in [Variant::Bare, Variant::BareFilled] {
                // Only the store has goals, against either: which bare loop is the slower one depends on the file
                // system.
                let asked = ours == Variant::Store;
                let (metric, goal) = match self.writers {
                    1 => ("p50", Goal::AtMost(1.2)),
                    _ => ("rate", Goal::AtLeast(0.8)),
                };
                report.compare(&name, metric, ours.name(), bare.name(), asked.then_some(goal));
            }
        }
        Ok(())
    }

    fn round(&self, variant: Variant, group: f64, time: Duration) -> Result<Round, BenchError> {
        let directory = self.scratch.fresh_disk()?;
        match variant {
            Variant::Bare => {
                let file = BareFile::preallocated(&directory.path().join("bare"), time)?;
                file.round(group, time, self.progress)
            }
            Variant::BareFilled => self.filled.round(group, time, self.progress),
            Variant::Log => {
                let watch = Arc::new(Watch::default());
                let disk = WatchedDisk::new(OsDisk::open(directory.path())?, &watch);
                let log = Log::create(Arc::new(disk), [1; 16], 1, LogOptions::default())?;
                let round = self.commit(&LogAlone { log: &log }, &watch, time)?;
                log.close()?;
                Ok(round)
            }
            Variant::Store => {
                let image = self.scratch.fresh_image()?;
                let watch = Arc::new(Watch::default());
                let store = self.store(image.path(), directory.path(), &watch)?;
                let round =
                    self.commit(&WholeStore { spacing: self.spacing(), store: &store }, &watch, time)?;
                store.close()?;
                Ok(round)
            }
        }
    }

    fn spacing(&self) -> u64 {
        (self.writers as u64).next_multiple_of(STRIPES)
    }

    fn store(
        &self,
        image: &Path,
        log: &Path,
        watch: &Arc<Watch>,
    ) -> Result<Keeper<Coherent, Cells<Coherent>>, BenchError> {
        let place = ImageFile::new(image.join("image"), Coherent);
        let disk = WatchedDisk::new(OsDisk::open(log)?, watch);
        let cells = self.spacing() * CELLS_PER_WRITER;
        let log = LogPlace::new(disk, LogOptions::default());
        let (store, _) = open::<_, Cells<_>>(&place, Some(log), Default::default(), &cells)?;
        Ok(store)
    }

    fn commit(&self, to: &dyn Commits, watch: &Watch, time: Duration) -> Result<Round, BenchError> {
        let values = Values::new(self.seed, self.value_bytes);
        let start = Barrier::new(self.writers);
        let (frames, bytes) = watch.frames();
        let begun = Instant::now();
        let write = |writer: usize| -> Result<(Latencies, Instant), BenchError> {
            let mut latencies = Latencies::new();
            let mut value = Vec::new();
            values.write(writer as u64, 0, &mut value);
            start.wait();
            let begun = Instant::now();
            let mut turn = 0;
            while begun.elapsed() < time && !self.progress.is_cancelled() {
                let before = Instant::now();
                to.commit(writer as u64, turn, &value)?;
                latencies.record(before.elapsed());
                turn += 1;
            }
            Ok((latencies, Instant::now()))
        };
        let mut latencies = Latencies::new();
        let mut end = begun;
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..self.writers).map(|writer| scope.spawn(move || write(writer))).collect();
            for thread in threads {
                let panicked = || BenchError::Wrong("a writer panicked".to_owned());
                let (of_thread, ended) = thread.join().map_err(|_| panicked())??;
                latencies.add(&of_thread);
                end = end.max(ended);
            }
            Ok::<(), BenchError>(())
        })?;
        self.progress.check()?;
        let after = watch.frames();
        let seconds = (end - begun).as_secs_f64();
        Ok(Round { latencies, seconds, syncs: after.0 - frames, bytes: after.1 - bytes })
    }
}

/// A target of commits.
trait Commits: Sync {
    fn commit(&self, writer: u64, turn: u64, value: &[u8]) -> Result<(), BenchError>;
}

struct LogAlone<'a> {
    log: &'a Log,
}

impl Commits for LogAlone<'_> {
    fn commit(&self, writer: u64, turn: u64, value: &[u8]) -> Result<(), BenchError> {
        let key = writer.to_le_bytes();
        let mut batch = ChangeBatch::new();
        batch.push(&Change { table: 1, kind: ChangeKind::Put, version: turn + 1, key: &key, value })?;
        let lsn = self.log.append(&batch, Durability::Power, |_| ())?;
        Ok(self.log.wait_durable(lsn)?)
    }
}

struct WholeStore<'a> {
    /// Between two cells of a writer.
    spacing: u64,
    store: &'a Keeper<Coherent, Cells<Coherent>>,
}

impl Commits for WholeStore<'_> {
    fn commit(&self, writer: u64, turn: u64, value: &[u8]) -> Result<(), BenchError> {
        let cell = writer + self.spacing * (turn % CELLS_PER_WRITER);
        Ok(self.store.put(cell, value, Durability::Power)?)
    }
}

fn add(report: &mut Report, case: &str, variant: &str, round: u32, measured: &Round) {
    let Round { latencies, seconds, syncs, bytes } = measured;
    let mut add = |metric, unit, value| report.add(case, variant, round, metric, unit, value);
    add("rate", Unit::BytesPerSecond, *bytes as f64 / seconds);
    add("commits", Unit::PerSecond, latencies.count() as f64 / seconds);
    add("syncs", Unit::PerSecond, *syncs as f64 / seconds);
    add("a sync", Unit::Bytes, *bytes as f64 / (*syncs).max(1) as f64);
    add("p50", Unit::Micros, latencies.micros(50.0));
    add("p99", Unit::Micros, latencies.micros(99.0));
    add("p99.9", Unit::Micros, latencies.micros(99.9));
    add("max", Unit::Micros, latencies.micros(100.0));
}
