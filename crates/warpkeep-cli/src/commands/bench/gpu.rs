//! `warpkeep bench gpu`.

use clap::{Args, Subcommand};
use warpkeep::DeviceChoice;
use warpkeep_bench::BatchSizes;
use warpkeep_bench::gpu::{alloc, cuckoo, graph, map, ordered, slab, sort};

use super::{Files, command_line};
use crate::EXIT_CODES;
use crate::failure::Failure;

/// Which container.
#[derive(Debug, Args)]
pub(super) struct Gpu {
    #[command(subcommand)]
    which: Which,
}

#[derive(Debug, Subcommand)]
enum Which {
    /// Radix sort: items a second of keys alone and of keys with values.
    ///
    /// Random keys in device memory are sorted, and compared with what the sort of the standard library makes of them, which is measured
    /// beside it. The bytes that a sort moves are compared with copies within device memory, measured in the same run.
    #[command(after_help = EXIT_CODES)]
    Sort(Sort),
    /// Hash map: operations a second by how full it is, and the time of doubling.
    ///
    /// All keys are inserted at once, found, not found, used in mixed batches and erased, also in smaller batches, with operations and answers in device memory; then
    /// maps are filled until they double. The same batches go to the CPU form of the map. Every answer is checked, and rates are
    /// compared with random reads of device memory, measured in the same run.
    #[command(after_help = EXIT_CODES)]
    Map(Map),
    /// Slab allocator: units a second that threads claim, exchange and give back.
    ///
    /// Each thread of a launch claims one unit in an empty pool and in one that is nearly full, exchanges it again and again, and gives it back; then
    /// runs of units, and units of all sizes. Every handle is checked, and rates are compared with 64-bit compare-and-swap, measured in
    /// the same run.
    #[command(after_help = EXIT_CODES)]
    Alloc(Alloc),
    /// Slab hash of 32-bit keys and values: requests a second by how full its slabs are, for slabs of 64 and 128 bytes.
    ///
    /// Tables are built, searched for keys that are there and that are not, and get mixed batches of inserts, deletions and searches, with requests and
    /// answers in device memory. Every answer is checked, and rates are compared with random reads and with 64-bit compare-and-swap,
    /// measured in the same run.
    #[command(after_help = EXIT_CODES)]
    Slab(Slab),
    /// Cuckoo index of hashes and locations: operations a second by the size of a batch.
    ///
    /// An index is brought to its load; then entries are searched for, deleted and inserted again in batches of several sizes, with operations and answers in
    /// device memory. Sorting a batch by bucket is part of its time. Every answer is checked, and rates are compared with random reads and with
    /// 64-bit compare-and-swap, measured in the same run.
    #[command(after_help = EXIT_CODES)]
    Cuckoo(Cuckoo),
    /// Ordered map: operations a second by the size of a batch, with and without a snapshot, and the time to build it.
    ///
    /// A map is built of keys in random order; then batches look up keys in random and in ascending order, ask for ranges of eight pairs and for successors, insert and erase
    /// keys, look up keys at a snapshot, and mix inserts with ranges, with operations and answers in device memory. Sorting a batch that changes the map is part of its
    /// time. Every answer is checked, and rates are compared with random reads of 128 bytes, measured in the same run.
    #[command(after_help = EXIT_CODES)]
    Ordered(Ordered),
    /// Graph: edges and vertices a second by the size of a batch, and the time to build, export and count triangles.
    ///
    /// Undirected graphs are generated, built at once, exported as rows and searched for triangles; then batches of edges are deleted and inserted again, with operations and
    /// answers in device memory. Whether edges exist, degrees, samples of ten neighbours and deletions of vertices are asked for from host memory, with the link in their
    /// times. Every answer is checked, and changes of edges are compared with random reads of 64 bytes, exports with copies, measured in the same run.
    #[command(after_help = EXIT_CODES)]
    Graph(Graph),
}

/// How to run it.
#[derive(Debug, Args)]
struct Sort {
    /// The device: cuda:0 and so on, or sim, whose times mean nothing.
    #[arg(long, default_value = "cuda:0", value_name = "DEVICE")]
    device: DeviceChoice,
    /// Items of a sort, one case each, up to 2^30: numbers, 2^20, or 2^16..2^24 for all powers of two and 2^16..2^24:4 for every fourth.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    items: Vec<BatchSizes>,
    /// Bytes of a key and of its value, one case each: 4 or 8 for keys alone, 4+4, 4+8, 8+4, 8+8.
    #[arg(long, value_delimiter = ',', value_name = "BYTES,...")]
    shapes: Vec<sort::Shape>,
    /// How often everything is measured.
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
struct Map {
    /// The device: cuda:0 and so on, or sim, whose times mean nothing.
    #[arg(long, default_value = "cuda:0", value_name = "DEVICE")]
    device: DeviceChoice,
    /// Bytes of keys and values, one case each: 8/8 by default, 8/4, 8/16, 4/4, 4/8, 4/16.
    #[arg(long, value_delimiter = ',', value_name = "KEY/VALUE,...")]
    pairs: Vec<map::Pairs>,
    /// Slots of the map, one case each, 256 to 2^30, rounded up to a power of two: numbers, 2^20, or 2^20..2^28:4 for every fourth power
    /// of two.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    items: Vec<BatchSizes>,
    /// Keys as a share of the slots, one case each, 0.05 to 0.95.
    #[arg(long, value_delimiter = ',', value_name = "SHARE,...")]
    load: Vec<f64>,
    /// Operations of smaller batches, one case each, on a map that stays as full as it is; batches too large for a map are left out.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    batch: Vec<BatchSizes>,
    /// How often everything is measured.
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
struct Alloc {
    /// The device: cuda:0 and so on, or sim, whose times mean nothing.
    #[arg(long, default_value = "cuda:0", value_name = "DEVICE")]
    device: DeviceChoice,
    /// Units that are claimed at once, one for each thread; by default a million.
    #[arg(long, value_name = "N")]
    units: Option<usize>,
    /// Bytes of a unit: 32, 64, 128, 256 or 512.
    #[arg(long, default_value_t = 128, value_name = "BYTES")]
    unit_bytes: u32,
    /// Share of the pool that is taken before, one case each, 0 to 0.99. The pool is so large that half of what is free stays free: with 0.95, it has
    /// 40 times the units.
    #[arg(long, value_delimiter = ',', value_name = "SHARE,...")]
    full: Vec<f64>,
    /// How often each thread exchanges its unit in one launch.
    #[arg(long, value_name = "N")]
    exchanges: Option<u32>,
    /// How often everything is measured.
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
struct Slab {
    /// The device: cuda:0 and so on, or sim, whose times mean nothing.
    #[arg(long, default_value = "cuda:0", value_name = "DEVICE")]
    device: DeviceChoice,
    /// Bytes of keys and values, one case each: 4/4 and 8/8, by default both.
    #[arg(long, value_delimiter = ',', value_name = "KEY/VALUE,...")]
    pairs: Vec<slab::Pairs>,
    /// Pairs of a table, one case each, 100 to 2^29: numbers, 2^22, or 2^20..2^28:4 for every fourth power of two. A number near it that fits a power of
    /// two of buckets is taken.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    items: Vec<BatchSizes>,
    /// Bytes of pairs in proportion to the bytes of slabs, one case each, 0.05 to 0.8.
    #[arg(long, value_delimiter = ',', value_name = "SHARE,...")]
    utilisation: Vec<f64>,
    /// Bytes of a slab, 64 or 128, one variant each.
    #[arg(long, value_delimiter = ',', value_name = "BYTES,...")]
    slab_bytes: Vec<u32>,
    /// How often everything is measured.
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
struct Cuckoo {
    /// The device: cuda:0 and so on, or sim, whose times mean nothing.
    #[arg(long, default_value = "cuda:0", value_name = "DEVICE")]
    device: DeviceChoice,
    /// Buckets of eight cells, one case each, 16 to 2^28, rounded up to a power of two. 2^25 buckets take 2 GiB.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    buckets: Vec<BatchSizes>,
    /// Entries as a share of the cells, one case each, 0.1 to 0.95.
    #[arg(long, value_delimiter = ',', value_name = "SHARE,...")]
    load: Vec<f64>,
    /// Operations of a batch, one case each; batches too large for an index are left out.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    batch: Vec<BatchSizes>,
    /// How often everything is measured.
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
struct Ordered {
    /// The device: cuda:0 and so on, or sim, whose times mean nothing.
    #[arg(long, default_value = "cuda:0", value_name = "DEVICE")]
    device: DeviceChoice,
    /// Bytes of keys and values, one case each: 4/4 and 8/8, by default both.
    #[arg(long, value_delimiter = ',', value_name = "KEY/VALUE,...")]
    pairs: Vec<ordered::Pairs>,
    /// Pairs of the map, one case each, 16 to 2^30; by default 2^20 and 45000000. The CPU takes part up to 2^20.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    items: Vec<BatchSizes>,
    /// Operations of a batch, one case each; by default 2^12, 2^16, 2^20 and 2^22. Batches larger than the map are left out.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    batch: Vec<BatchSizes>,
    /// How often everything is measured.
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
struct Graph {
    /// The device: cuda:0 and so on, or sim, whose times mean nothing.
    #[arg(long, default_value = "cuda:0", value_name = "DEVICE")]
    device: DeviceChoice,
    /// How edges are generated, one case each, by default rmat and road: rmat has few vertices with very many edges, 16 edges a vertex; live-journal and orkut
    /// have the edges and the tail of these social networks; road is a grid with 1.2 edges a vertex; geometric and delaunay connect near points.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    graphs: Vec<graph::Shape>,
    /// Vertices, one case each, 16 to 2^28, those of social networks rounded up to a power of two; by default 2^16 and 2^20. The CPU takes part up to 2^20 edges.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    vertices: Vec<BatchSizes>,
    /// Edges or vertices of a batch, one case each; by default 2^12, 2^16 and 2^20. Batches with more edges than the graph are left out; a batch has no more
    /// vertices than the graph, and deletes at most half of them.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    batch: Vec<BatchSizes>,
    /// How often everything is measured.
    #[arg(long)]
    rounds: Option<u32>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    files: Files,
}

impl Gpu {
    pub(super) fn on_stdout(&self) -> bool {
        match &self.which {
            Which::Sort(sort) => sort.files.on_stdout(),
            Which::Map(map) => map.files.on_stdout(),
            Which::Alloc(alloc) => alloc.files.on_stdout(),
            Which::Slab(slab) => slab.files.on_stdout(),
            Which::Cuckoo(cuckoo) => cuckoo.files.on_stdout(),
            Which::Ordered(ordered) => ordered.files.on_stdout(),
            Which::Graph(graph) => graph.files.on_stdout(),
        }
    }

    pub(super) fn run(&self) -> Result<(), Failure> {
        match &self.which {
            Which::Sort(sort) => sort.run(),
            Which::Map(map) => map.run(),
            Which::Alloc(alloc) => alloc.run(),
            Which::Slab(slab) => slab.run(),
            Which::Cuckoo(cuckoo) => cuckoo.run(),
            Which::Ordered(ordered) => ordered.run(),
            Which::Graph(graph) => graph.run(),
        }
    }
}

impl Sort {
    fn run(&self) -> Result<(), Failure> {
        let usual = sort::Options::on(self.device);
        let options = sort::Options {
            device: self.device,
            items: given(BatchSizes::all(&self.items), usual.items),
            shapes: given(self.shapes.clone(), usual.shapes),
            rounds: self.rounds.unwrap_or(usual.rounds),
            seed: self.seed,
            command: command_line(),
        };
        self.files.run(|progress| sort::run(&options, progress))
    }
}

impl Map {
    fn run(&self) -> Result<(), Failure> {
        let usual = map::Options::on(self.device);
        let options = map::Options {
            device: self.device,
            pairs: given(self.pairs.clone(), usual.pairs),
            items: given(BatchSizes::all(&self.items), usual.items),
            loads: given(self.load.clone(), usual.loads),
            batches: given(BatchSizes::all(&self.batch), usual.batches),
            rounds: self.rounds.unwrap_or(usual.rounds),
            seed: self.seed,
            command: command_line(),
        };
        self.files.run(|progress| map::run(&options, progress))
    }
}

impl Alloc {
    fn run(&self) -> Result<(), Failure> {
        let usual = alloc::Options::on(self.device);
        let options = alloc::Options {
            device: self.device,
            units: self.units.unwrap_or(usual.units),
            unit_bytes: self.unit_bytes,
            full: given(self.full.clone(), usual.full),
            exchanges: self.exchanges.unwrap_or(usual.exchanges),
            rounds: self.rounds.unwrap_or(usual.rounds),
            seed: self.seed,
            command: command_line(),
        };
        self.files.run(|progress| alloc::run(&options, progress))
    }
}

impl Slab {
    fn run(&self) -> Result<(), Failure> {
        let usual = slab::Options::on(self.device);
        let options = slab::Options {
            device: self.device,
            pairs: given(self.pairs.clone(), usual.pairs),
            items: given(BatchSizes::all(&self.items), usual.items),
            utilisations: given(self.utilisation.clone(), usual.utilisations),
            slab_bytes: given(self.slab_bytes.clone(), usual.slab_bytes),
            rounds: self.rounds.unwrap_or(usual.rounds),
            seed: self.seed,
            command: command_line(),
        };
        self.files.run(|progress| slab::run(&options, progress))
    }
}

impl Cuckoo {
    fn run(&self) -> Result<(), Failure> {
        let usual = cuckoo::Options::on(self.device);
        let options = cuckoo::Options {
            device: self.device,
            buckets: given(BatchSizes::all(&self.buckets), usual.buckets),
            loads: given(self.load.clone(), usual.loads),
            batches: given(BatchSizes::all(&self.batch), usual.batches),
            rounds: self.rounds.unwrap_or(usual.rounds),
            seed: self.seed,
            command: command_line(),
        };
        self.files.run(|progress| cuckoo::run(&options, progress))
    }
}

impl Ordered {
    fn run(&self) -> Result<(), Failure> {
        let usual = ordered::Options::on(self.device);
        let options = ordered::Options {
            device: self.device,
            pairs: given(self.pairs.clone(), usual.pairs),
            items: given(BatchSizes::all(&self.items), usual.items),
            batches: given(BatchSizes::all(&self.batch), usual.batches),
            rounds: self.rounds.unwrap_or(usual.rounds),
            seed: self.seed,
            command: command_line(),
        };
        self.files.run(|progress| ordered::run(&options, progress))
    }
}

impl Graph {
    fn run(&self) -> Result<(), Failure> {
        let usual = graph::Options::on(self.device);
        let options = graph::Options {
            device: self.device,
            shapes: given(self.graphs.clone(), usual.shapes),
            vertices: given(BatchSizes::all(&self.vertices), usual.vertices),
            batches: given(BatchSizes::all(&self.batch), usual.batches),
            rounds: self.rounds.unwrap_or(usual.rounds),
            seed: self.seed,
            command: command_line(),
        };
        self.files.run(|progress| graph::run(&options, progress))
    }
}

/// The given values, or the default ones.
fn given<T>(given: Vec<T>, usual: Vec<T>) -> Vec<T> {
    if given.is_empty() { usual } else { given }
}
