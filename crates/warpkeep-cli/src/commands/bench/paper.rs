//! `warpkeep bench paper`.

mod graph;
mod megakv;

use std::time::Duration;

use clap::{Args, Subcommand};
use warpkeep::DeviceChoice;
use warpkeep_bench::paper::{btree, gphash, slabhash, turbohash};
use warpkeep_bench::{BatchSizes, one_number};

use self::graph::Graph;
use self::megakv::Megakv;
use super::{Files, Places, command_line};
use crate::EXIT_CODES;
use crate::failure::Failure;

/// Which paper.
#[derive(Debug, Args)]
pub(super) struct Paper {
    #[command(subcommand)]
    which: Which,
}

#[derive(Debug, Subcommand)]
enum Which {
    /// GPHash: figures 7, 12, 13 and 14 by the CPU engine; 5, 6, 9, 11 and 15 by a device.
    ///
    /// For figures that cannot be measured it reports their requirements.
    #[command(after_help = EXIT_CODES)]
    Gphash(Gphash),
    /// The dynamic graph (chapter 5 of the thesis on GPU data structures): tables 5.2 to 5.9 and figures 5.2 and 5.3, by a device.
    ///
    /// Our graph beside the paper's own layout, a slab hash for each vertex by kernels of our own, in the same run, and the published numbers. Every answer is checked.
    #[command(after_help = EXIT_CODES)]
    Graph(Graph),
    /// Mega-KV: figures 6, 7, 8 and 10, the index on a device; 11, 13, 14, 15 and 16, the server with requests from memory.
    #[command(after_help = EXIT_CODES)]
    Megakv(Megakv),
    /// TurboHash: figures 1, 6, 10, 11 and 12, and how long coming back takes.
    #[command(after_help = EXIT_CODES)]
    Turbohash(Turbohash),
    /// The slab hash: section V and figures 4a, 4b, 5, 6, 7a and 7b, by a device.
    ///
    /// Our slab hash with slabs of 64 and 128 bytes, the paper's own layout by kernels of our own, a cuckoo index in the place of CUDPP's cuckoo hashing, and
    /// lists with one node a key for figure 7b, in the same run. Every answer is checked.
    #[command(after_help = EXIT_CODES)]
    Slabhash(Slabhash),
    /// GPU data structures, chapters 3 and 4: section 3.5.1, tables 3.3, 4.1 and 4.2, figures 3.2 to 3.5 and 4.2 to 4.6, by a device.
    ///
    /// Our ordered map, the B-tree and the multiversion B-tree of the thesis by kernels of our own, a sorted array and a log-structured merge tree, in the same run.
    /// Every answer is checked.
    #[command(after_help = EXIT_CODES)]
    Btree(Btree),
}

/// How to run it.
#[derive(Debug, Args)]
struct Gphash {
    #[command(flatten)]
    places: Places,
    /// Only these figures, by number; by default 7,12,13,14, or with a device 5,6,9,11,15.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    figure: Vec<gphash::Figure>,
    /// The device for figures that need one: cuda:0 and so on, or sim, whose times mean nothing.
    #[arg(long, default_value_t, value_name = "DEVICE")]
    device: DeviceChoice,
    /// Items of a table.
    #[arg(long, default_value_t = 16_000_000)]
    items: u64,
    /// Threads at work; 0 stands for all cores.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// How often everything is loaded and measured anew; by default three times, and once with a device.
    #[arg(long)]
    repeats: Option<u32>,
    /// Rounds of each repeat; by default three, and one with a device.
    #[arg(long)]
    rounds: Option<u32>,
    /// How long a round takes; by default 500ms, and 20ms with a device.
    #[arg(long, value_parser = humantime::parse_duration, value_name = "TIME")]
    round_time: Option<Duration>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    files: Files,
}

/// How to run it.
#[derive(Debug, Args)]
struct Turbohash {
    #[command(flatten)]
    places: Places,
    /// Only these, by number, or restart; by default all.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    figure: Vec<turbohash::Figure>,
    /// Items of a table.
    #[arg(long, default_value_t = 16_000_000)]
    items: u64,
    /// Threads at work in figure 6; 0 stands for all cores.
    #[arg(long, value_delimiter = ',', default_value = "1,0", value_name = "N,...")]
    threads: Vec<usize>,
    /// How often tables are filled anew.
    #[arg(long, default_value_t = 3)]
    repeats: u32,
    /// Rounds of figure 6.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// How long a round takes.
    #[arg(long, default_value = "500ms", value_parser = humantime::parse_duration, value_name = "TIME")]
    round_time: Duration,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    files: Files,
}

/// How to run it.
#[derive(Debug, Args)]
struct Slabhash {
    /// The device: cuda:0 and so on, or sim, whose times mean nothing.
    #[arg(long, default_value = "cuda:0", value_name = "DEVICE")]
    device: DeviceChoice,
    /// Only these figures: V, 4a, 4b, 5, 6, 7a, 7b; by default all.
    #[arg(long, value_delimiter = ',', value_name = "FIGURE,...")]
    figure: Vec<slabhash::Figure>,
    /// Pairs of a table; by default 2^22, as in the paper, and 512 on sim. Figure 6 has half of them; section V and figure 7b have a million at the most.
    #[arg(long, value_name = "N", value_parser = one_number)]
    items: Option<usize>,
    /// Pairs of the tables of figure 5, one case each: numbers, 2^22, or 2^16..2^26:2 for every second power of two, which is the default; 256 and 512 on sim.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    sizes: Vec<BatchSizes>,
    /// How often everything is measured; by default three times.
    #[arg(long)]
    rounds: Option<u32>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    files: Files,
}

/// How to run it.
#[derive(Debug, Args)]
struct Btree {
    /// The device: cuda:0 and so on, or sim, whose times mean nothing.
    #[arg(long, default_value = "cuda:0", value_name = "DEVICE")]
    device: DeviceChoice,
    /// Only these tables: 3.3, 4.1, 4.2; by default all tables and figures.
    #[arg(long, value_delimiter = ',', value_name = "TABLE,...", value_parser = table)]
    table: Vec<btree::Part>,
    /// Only these figures: 3.2, 3.3, 3.4, 3.5, 4.2, 4.3, 4.4, 4.5, 4.6.
    #[arg(long, value_delimiter = ',', value_name = "FIGURE,...", value_parser = figure)]
    figure: Vec<btree::Part>,
    /// Only these sections: 3.5.1.
    #[arg(long, value_delimiter = ',', value_name = "SECTION,...", value_parser = section)]
    section: Vec<btree::Part>,
    /// Pairs at the end of table 3.3; by default 2^25, and 512 on sim.
    #[arg(long, value_name = "N", value_parser = one_number)]
    items: Option<usize>,
    /// Pairs of the trees of the figures and other tables, one case each; by default 2^20, 2^22 and 45000000, and 300 on sim.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    sizes: Vec<BatchSizes>,
    /// Operations of the batches of table 3.3 and figure 3.3, one case each; by default 2^16..2^22, and 64 and 128 on sim.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    batch: Vec<BatchSizes>,
    /// How often everything is measured; by default three times.
    #[arg(long)]
    rounds: Option<u32>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    files: Files,
}

fn table(number: &str) -> Result<btree::Part, String> {
    format!("table {}", number.trim()).parse()
}

fn section(number: &str) -> Result<btree::Part, String> {
    format!("section {}", number.trim()).parse()
}

fn figure(number: &str) -> Result<btree::Part, String> {
    format!("figure {}", number.trim()).parse()
}

impl Paper {
    pub(super) fn on_stdout(&self) -> bool {
        match &self.which {
            Which::Gphash(gphash) => gphash.files.on_stdout(),
            Which::Megakv(megakv) => megakv.files.on_stdout(),
            Which::Turbohash(turbohash) => turbohash.files.on_stdout(),
            Which::Graph(graph) => graph.files.on_stdout(),
            Which::Slabhash(slabhash) => slabhash.files.on_stdout(),
            Which::Btree(btree) => btree.files.on_stdout(),
        }
    }

    pub(super) fn run(&self) -> Result<(), Failure> {
        match &self.which {
            Which::Gphash(gphash) => gphash.run(),
            Which::Megakv(megakv) => megakv.run(),
            Which::Turbohash(turbohash) => turbohash.run(),
            Which::Graph(graph) => graph.run(),
            Which::Slabhash(slabhash) => slabhash.run(),
            Which::Btree(btree) => btree.run(),
        }
    }
}

impl Turbohash {
    fn run(&self) -> Result<(), Failure> {
        let (dir, image_dir) = self.places.prepare()?;
        let options = turbohash::Options {
            dir: dir.to_path_buf(),
            image_dir: image_dir.to_path_buf(),
            figures: self.figure.clone(),
            items: self.items,
            threads: self.threads.clone(),
            repeats: self.repeats,
            rounds: self.rounds,
            round_time: self.round_time,
            seed: self.seed,
            command: command_line(),
        };
        self.files.run(|progress| turbohash::run(&options, progress))
    }
}

impl Gphash {
    fn run(&self) -> Result<(), Failure> {
        let (dir, image_dir) = self.places.prepare()?;
        let usual = gphash::Options::on(self.device);
        let options = gphash::Options {
            dir: dir.to_path_buf(),
            image_dir: image_dir.to_path_buf(),
            figures: self.figure.clone(),
            device: self.device,
            items: self.items,
            threads: self.threads,
            repeats: self.repeats.unwrap_or(usual.repeats),
            rounds: self.rounds.unwrap_or(usual.rounds),
            round_time: self.round_time.unwrap_or(usual.round_time),
            seed: self.seed,
            command: command_line(),
        };
        self.files.run(|progress| gphash::run(&options, progress))
    }
}

impl Slabhash {
    fn run(&self) -> Result<(), Failure> {
        let usual = slabhash::Options::on(self.device);
        let sizes = BatchSizes::all(&self.sizes);
        let options = slabhash::Options {
            device: self.device,
            figures: self.figure.clone(),
            items: self.items.unwrap_or(usual.items),
            sizes: if sizes.is_empty() { usual.sizes } else { sizes },
            rounds: self.rounds.unwrap_or(usual.rounds),
            seed: self.seed,
            command: command_line(),
        };
        self.files.run(|progress| slabhash::run(&options, progress))
    }
}

impl Btree {
    fn run(&self) -> Result<(), Failure> {
        let usual = btree::Options::on(self.device);
        let (sizes, batches) = (BatchSizes::all(&self.sizes), BatchSizes::all(&self.batch));
        let options = btree::Options {
            device: self.device,
            parts: self.table.iter().chain(&self.figure).chain(&self.section).copied().collect(),
            items: self.items.unwrap_or(usual.items),
            sizes: if sizes.is_empty() { usual.sizes } else { sizes },
            batches: if batches.is_empty() { usual.batches } else { batches },
            rounds: self.rounds.unwrap_or(usual.rounds),
            seed: self.seed,
            command: command_line(),
        };
        self.files.run(|progress| btree::run(&options, progress))
    }
}
