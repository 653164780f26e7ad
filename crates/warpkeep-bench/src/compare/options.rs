//! What to compare, and how thoroughly.

use std::path::PathBuf;
use std::time::Duration;

use warpkeep::{DeviceChoice, Geometry};

use super::Promise;
use super::contestants::{Entrant, entrants, maps_left_out};
use crate::workload::{Distribution, Task, Work, Workload};
use crate::{BenchError, pinned};

/// The most operations in a batch.
pub const MAX_BATCH: usize = 1 << 24;

/// What to compare, and how thoroughly.
#[derive(Clone, Debug)]
pub struct Options {
    /// A directory on a disk, for logs; a directory of its own is made in it, and removed.
    pub dir: PathBuf,
    /// A directory for images and the files of peers, best on tmpfs; used the same way.
    pub image_dir: PathBuf,
    /// Items, keys, values, seed.
    pub workload: Workload,
    /// The work, case by case.
    pub works: Vec<Work>,
    /// How items are drawn; each workload has a default.
    pub distribution: Option<Distribution>,
    /// Threads at work, case by case; 0 stands for all cores.
    pub threads: Vec<usize>,
    /// Operations in a batch or transaction, for those that have them. If there are several, all are compared at the first,
    /// and rate and latency are drawn over all.
    pub batches: Vec<usize>,
    /// The failure a put must survive, for contestants that promise something.
    pub promise: Promise,
    /// The layout of our table.
    pub geometry: Geometry,
    /// The device of our table.
    pub device: DeviceChoice,
    /// Rounds of each contestant.
    pub rounds: u32,
    /// How long a contestant works in a round.
    pub round_time: Duration,
    /// How many operations it does in a round instead, by all threads together.
    pub operations: Option<u64>,
    /// The share of memory that may be loaded at a time; if all together need more, they take turns in groups.
    pub memory_share: f64,
    /// Only contestants with such names; all if empty. Warpkeep always takes part.
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
            works: Task::ALL.map(Work::Task).to_vec(),
            distribution: None,
            threads: vec![1, 0],
            batches: vec![1024],
            promise: Promise::Process,
            geometry: Geometry::default(),
            device: DeviceChoice::Cpu,
            rounds: 7,
            round_time: Duration::from_millis(500),
            operations: None,
            memory_share: 0.6,
            only: Vec::new(),
            command: "warpkeep bench compare".to_owned(),
        }
    }
}

impl Options {
    pub(super) fn check(&self) -> Result<(), BenchError> {
        self.workload.check()?;
        let wrong = |what: &str| Err(BenchError::Invalid(what.to_owned()));
        if self.rounds == 0 || self.threads.is_empty() || self.works.is_empty() {
            return wrong("at least one round, one number of threads and one workload are needed");
        }
        if self.threads.iter().any(|&threads| threads > 512) {
            return wrong("more than 512 threads are not possible; give 0 for as many as there are cores");
        }
        if self.batches.is_empty() || self.batches.iter().any(|batch| !(1..=MAX_BATCH).contains(batch)) {
            return wrong("at least one size of batches is needed, each of 1 to 2^24 operations");
        }
        if self.operations == Some(0) {
            return wrong("at least one operation is needed; leave the number out to go by time");
        }
        if matches!(self.distribution, Some(Distribution::Latest(_))) {
            return wrong(
                "only YCSB D asks for the latest items, and does so anyway; take uniform or zipfian",
            );
        }
        // An impossible distribution is refused before anything is loaded.
        for &work in &self.works {
            self.workload.picks(self.distribution_of(work), 0)?;
            if work == Work::Dlrm {
                crate::workload::Dlrm::new(&self.workload, 0.0)?;
            }
        }
        Ok(())
    }

    pub(super) fn distribution_of(&self, work: Work) -> Distribution {
        work.distribution(self.distribution)
    }

    /// The numbers of threads, each once.
    pub(super) fn thread_counts(&self) -> Vec<usize> {
        let mut counts = Vec::new();
        for &threads in &self.threads {
            let threads = if threads == 0 { pinned::core_count() } else { threads };
            if !counts.contains(&threads) {
                counts.push(threads);
            }
        }
        counts
    }

    /// The contestants, ourselves first.
    pub(super) fn entrants(&self) -> Result<Vec<Entrant>, BenchError> {
        let mut all = entrants(&self.workload, self.promise);
        let known: Vec<&str> = all.iter().map(|entrant| entrant.name).collect();
        if let Some(unknown) = self.only.iter().find(|name| !known.contains(&name.as_str())) {
            let why = maps_left_out(&self.workload).map_or_else(String::new, |why| format!("; {why}"));
            return Err(BenchError::Invalid(format!(
                "there is no contestant '{unknown}'; there are: {}{why}",
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
