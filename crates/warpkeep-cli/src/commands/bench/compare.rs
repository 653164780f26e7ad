//! `warpkeep bench compare`.

use std::time::Duration;

use clap::Args;
use warpkeep::{DeviceChoice, Geometry};
use warpkeep_bench::BatchSizes;
use warpkeep_bench::compare::{self, Promise};
use warpkeep_bench::workload::{Distribution, WorkSet, Workload};

use super::{Files, Places, command_line};
use crate::failure::Failure;

/// How to run it.
#[derive(Debug, Args)]
pub(super) struct Compare {
    #[command(flatten)]
    places: Places,
    /// Workloads: micro (or get, miss, update, insert, delete), ycsb (or load, a, b, c, d, f), dlrm, pagerank, all.
    #[arg(long, default_value = "micro", value_delimiter = ',', value_name = "NAME,...")]
    workloads: Vec<WorkSet>,
    /// How items are drawn: uniform, zipfian, or zipfian:THETA. The default is uniform for single operations and
    /// zipfian:0.99 for all others; YCSB D always requests the newest.
    #[arg(long, value_name = "NAME")]
    distribution: Option<Distribution>,
    /// Items that each contestant holds.
    #[arg(long, default_value_t = 16_000_000)]
    items: u64,
    /// Bytes in a key, 8 to 128; maps are built for 8, 16, 32, 64 and 128.
    #[arg(long, default_value_t = 8, value_name = "BYTES")]
    key_bytes: usize,
    /// Bytes in a value, 8 to 1 MiB; maps are built for 128, with keys of 8 also for 8, 64 and 1024.
    #[arg(long, default_value_t = 128, value_name = "BYTES")]
    value_bytes: usize,
    /// Threads at work, one case each; 0 stands for all cores.
    #[arg(long, default_value = "1,0", value_delimiter = ',', value_name = "N,...")]
    threads: Vec<usize>,
    /// Operations in a batch, or in a transaction, up to 2^24. Several give curves of rate against latency: 2^0..2^24:4 is every
    /// fourth power of two.
    #[arg(long, default_value = "1024", value_delimiter = ',', value_name = "N,...")]
    batch: Vec<BatchSizes>,
    /// The failure a put must survive: process, power, or none for stores without a log.
    #[arg(long, default_value = "process")]
    durability: Promise,
    /// The layout of our table.
    #[arg(long, default_value_t = Geometry::default())]
    geometry: Geometry,
    /// The device of our table: cpu, cuda:0 and so on, or sim. A GPU needs large batches.
    #[arg(long, default_value_t, value_name = "DEVICE")]
    device: DeviceChoice,
    /// Rounds of each contestant.
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// How long a contestant works in a round.
    #[arg(long, default_value = "500ms", value_parser = humantime::parse_duration, value_name = "TIME")]
    round_time: Duration,
    /// How many operations it does in a round instead, all threads together.
    #[arg(long, value_name = "N")]
    operations: Option<u64>,
    /// Only these contestants, and warpkeep.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    only: Vec<String>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    pub(super) files: Files,
}

impl Compare {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let (dir, image_dir) = self.places.prepare()?;
        let mut works = Vec::new();
        for &work in self.workloads.iter().flat_map(|set| &set.0) {
            if !works.contains(&work) {
                works.push(work);
            }
        }
        let options = compare::Options {
            dir: dir.to_path_buf(),
            image_dir: image_dir.to_path_buf(),
            workload: Workload {
                items: self.items,
                key_bytes: self.key_bytes,
                value_bytes: self.value_bytes,
                seed: self.seed,
            },
            works,
            distribution: self.distribution,
            threads: self.threads.clone(),
            batches: BatchSizes::all(&self.batch),
            promise: self.durability,
            geometry: self.geometry,
            device: self.device,
            rounds: self.rounds,
            round_time: self.round_time,
            operations: self.operations,
            only: self.only.clone(),
            command: command_line(),
            ..compare::Options::default()
        };
        self.files.run(|progress| compare::run(&options, progress))
    }
}
