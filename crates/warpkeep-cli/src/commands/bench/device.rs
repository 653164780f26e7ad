//! `warpkeep bench device`.

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use warpkeep::{DeviceChoice, Geometry, Layout};
use warpkeep_bench::BatchSizes;
use warpkeep_bench::device::{self, CachePolicy, Operation, Strategy};
use warpkeep_bench::workload::{Distribution, Workload};

use super::{Files, Places, command_line};
use crate::failure::Failure;

/// How to run it.
#[derive(Debug, Args)]
pub(super) struct Device {
    #[command(flatten)]
    places: Places,
    /// The device of the table: cuda:0 and so on, or sim, whose times mean nothing.
    #[arg(long, default_value = "cuda:0", value_name = "DEVICE")]
    device: DeviceChoice,
    /// Strategies to compare: image (over the link), cache (copies of buckets in device memory, gets only), index (the device index
    /// locates records), ordered (and values are fetched in address order), fused (writes from device memory), fused-link (with slot
    /// words stored by the device, not by the host), values (with a value cache), library (from host to host; includes library-pinned,
    /// library-split, library-gather and library-cpu), library-process and library-power (writes with a log, which needs disk space),
    /// alone (a thread a key, gets only).
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    strategies: Vec<Strategy>,
    /// Operations: get, absent, locate (gets without values), insert, update, delete.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    operations: Vec<Operation>,
    /// How items are drawn, one case each: uniform, zipfian, or zipfian:THETA.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    distribution: Vec<Distribution>,
    /// Operations in a batch, up to 2^24: numbers, 2^10, or 2^10..2^24 for all powers of two and 2^10..2^24:2 for every second.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    batch: Vec<BatchSizes>,
    /// Shares of the buckets that have copies, in per cent.
    #[arg(long, default_value = "20,100", value_delimiter = ',', value_name = "%,...")]
    cache: Vec<f64>,
    /// Shares of the values that are in device memory, in per cent; several show how large a value cache is large enough.
    #[arg(long, default_value = "20", value_delimiter = ',', value_name = "%,...")]
    value_cache: Vec<f64>,
    /// Which buckets have copies.
    #[arg(long, default_value = "lfu", value_name = "NAME")]
    policy: Policy,
    /// Items in the table; by default 16 million, and a few thousand on the simulator.
    #[arg(long)]
    items: Option<u64>,
    /// Bytes in a key, 8 to 128; or var:8 to var:63 for keys of any length from 8 bytes to that.
    #[arg(long, default_value = "8", value_name = "BYTES")]
    key_bytes: KeyBytes,
    /// Bytes in a value.
    #[arg(long, default_value_t = 128, value_name = "BYTES")]
    value_bytes: usize,
    /// The contents of a slot: packed, or in-place as in the paper.
    #[arg(long, default_value_t = Layout::Packed)]
    layout: Layout,
    /// The table's geometry.
    #[arg(long, default_value_t = Geometry::default())]
    geometry: Geometry,
    /// Items as a share of the table's slots, 0.01 to 0.95.
    #[arg(long, value_name = "SHARE")]
    load_factor: Option<f64>,
    /// Host threads that publish fused writes: they store slot words and the tails of records. If not given, the device profile decides.
    #[arg(long, value_name = "N")]
    word_threads: Option<usize>,
    /// Times the steps of fused writes, of gets in device memory, of gets that the host gathers and of logging, kernel by
    /// kernel, with the host's share.
    #[arg(long)]
    steps: bool,
    /// How often everything is measured.
    #[arg(long)]
    rounds: Option<u32>,
    /// How long batches of one size go on in a round.
    #[arg(long, value_parser = humantime::parse_duration, value_name = "TIME")]
    round_time: Option<Duration>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    pub(super) files: Files,
}

/// How long keys are.
#[derive(Clone, Copy, Debug)]
struct KeyBytes {
    /// All of them, or the longest.
    most: usize,
    variable: bool,
}

impl FromStr for KeyBytes {
    type Err = String;

    fn from_str(text: &str) -> Result<KeyBytes, String> {
        let (number, variable) = match text.strip_prefix("var:") {
            Some(most) => (most, true),
            None => (text, false),
        };
        let most = number.parse().map_err(|_| format!("{text:?} is no length; give 32, or var:24"))?;
        Ok(KeyBytes { most, variable })
    }
}

/// The words for policies.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Policy {
    /// The most frequently used ones.
    Lfu,
    /// The most recently used ones.
    Lru,
    /// Any.
    Random,
}

impl Device {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let (dir, image_dir) = self.places.prepare()?;
        let usual = device::Options::on(self.device);
        let options = device::Options {
            dir: dir.to_path_buf(),
            image_dir: image_dir.to_path_buf(),
            device: self.device,
            workload: Workload {
                items: self.items.unwrap_or(usual.workload.items),
                key_bytes: self.key_bytes.most,
                value_bytes: self.value_bytes,
                seed: self.seed,
            },
            variable_keys: self.key_bytes.variable,
            layout: self.layout,
            geometry: self.geometry,
            load_factor: self.load_factor,
            strategies: given(&self.strategies, usual.strategies),
            operations: given(&self.operations, usual.operations),
            distributions: given(&self.distribution, usual.distributions),
            batches: given(&BatchSizes::all(&self.batch), usual.batches),
            cache_shares: self.cache.iter().map(|percent| percent / 100.0).collect(),
            value_shares: self.value_cache.iter().map(|percent| percent / 100.0).collect(),
            policy: match self.policy {
                Policy::Lfu => CachePolicy::Lfu,
                Policy::Lru => CachePolicy::Lru,
                Policy::Random => CachePolicy::Random,
            },
            word_threads: self.word_threads,
            steps: self.steps,
            rounds: self.rounds.unwrap_or(usual.rounds),
            round_time: self.round_time.unwrap_or(usual.round_time),
            command: command_line(),
        };
        self.files.run(|progress| device::run(&options, progress))
    }
}

/// The given values, or the default ones.
fn given<T: Clone>(given: &[T], usual: Vec<T>) -> Vec<T> {
    if given.is_empty() { usual } else { given.to_vec() }
}
