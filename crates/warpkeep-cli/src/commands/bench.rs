//! `warpkeep bench`.

mod compare;
mod device;
mod gpu;
mod growth;
mod limits;
mod load_factor;
mod page;
mod paper;
mod profile;
mod scale;
mod server;
mod storage;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use warpkeep_bench::Progress;
use warpkeep_bench::report::Report;

use crate::EXIT_CODES;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
use crate::progress::Bars;

/// The benchmark to run.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: Benchmark,
}

/// One a benchmark.
#[derive(Debug, Subcommand)]
enum Benchmark {
    /// The cost of durability, and the time of recovery.
    ///
    /// Commits with Power by one writer and by many, against bare loops of write and fdatasync on the same disk in
    /// the same rounds; then stores of some sizes are recovered after a crash of the process and after the loss of
    /// their image.
    #[command(after_help = EXIT_CODES)]
    Storage(storage::Storage),
    /// Speed compared with peers and with the limits of the memory.
    ///
    /// Gets that hit and that miss, updates, inserts and deletes, the workloads of YCSB, and traces like those of DLRM and
    /// PageRank, by one thread and by all, in rounds that alternate between the contestants. Every answer is
    /// checked, and every rate is compared with the limit of the machine that binds it. Peers take part if the
    /// program was built with --features peers.
    #[command(after_help = EXIT_CODES)]
    Compare(compare::Compare),
    /// Speed of tables on a device, compared with the limits of its link.
    ///
    /// Batches of gets with keys and answers in device memory, batches of writes, and the library from host memory to host
    /// memory, by batch size, skew and share of the buckets that have copies; every answer is checked, and every
    /// rate is compared with the limit that binds it, measured in the same run.
    #[command(after_help = EXIT_CODES)]
    Device(device::Device),
    /// Speed of the containers in device memory, compared with the CPU and the limits of that memory.
    #[command(after_help = EXIT_CODES)]
    Gpu(gpu::Gpu),
    /// Speed of a device with many items and with few, and the time of reopening.
    ///
    /// Tables of some sizes are loaded from device memory, read and written in large batches, closed and opened
    /// again: the image is marked and registered with the device, and the device index is built.
    #[command(after_help = EXIT_CODES)]
    Scale(scale::ScaleArgs),
    /// Measures the thresholds that decide how a device runs a batch.
    ///
    /// The usual thresholds are those of an H200. This command times both settings that each threshold divides, at batch
    /// sizes around it, and shows the profile that loses the least time; with --save, stores opened later use it. `warpkeep info` shows
    /// the profile of each device. Writes are measured in a store with a log in --dir, with the durability Process; the log and two checkpoints need
    /// as many bytes there as the items take, several times.
    #[command(after_help = EXIT_CODES)]
    Profile(profile::Profile),
    /// The load factor at the first key without a slot, by geometry.
    #[command(after_help = EXIT_CODES)]
    LoadFactor(load_factor::LoadFactor),
    /// How long growing and coming back take, against the number of items.
    #[command(after_help = EXIT_CODES)]
    Growth(growth::Growth),
    /// The limits of the machine: its disk, its memory, and a device with the link to it.
    ///
    /// Sequential and random access by the CPU; with --device also random gathers from device memory, random and ordered
    /// rows over the link, copies and empty kernels. All data read and written is checked.
    #[command(after_help = EXIT_CODES)]
    Limits(limits::Limits),
    /// The figures of a paper, measured here, beside the published ones.
    #[command(after_help = EXIT_CODES)]
    Paper(paper::Paper),
    /// Load for any memcached or Redis server, with every answer checked.
    ///
    /// Stores keys, then gets and sets them over many connections with many requests in flight, in rounds that
    /// alternate between the servers. A wrong, old or missing value ends the run. Servers to compare with can be
    /// started for the run: --spawn memcached,redis.
    #[command(after_help = EXIT_CODES)]
    Server(server::Server),
    /// Makes a page of results, with plots.
    ///
    /// One HTML file that needs no network, and its plots as SVG, from the files that benchmarks write with --json or
    /// --csv, or from folders of them.
    #[command(after_help = EXIT_CODES)]
    Page(page::Page),
}

impl Bench {
    pub(crate) fn wants_json(&self) -> bool {
        match &self.what {
            Benchmark::Storage(storage) => storage.files.on_stdout(),
            Benchmark::Compare(compare) => compare.files.on_stdout(),
            Benchmark::LoadFactor(load_factor) => load_factor.files.on_stdout(),
            Benchmark::Growth(growth) => growth.files.on_stdout(),
            Benchmark::Device(device) => device.files.on_stdout(),
            Benchmark::Gpu(gpu) => gpu.on_stdout(),
            Benchmark::Scale(scale) => scale.files.on_stdout(),
            Benchmark::Profile(profile) => profile.files.on_stdout(),
            Benchmark::Limits(limits) => limits.files.on_stdout(),
            Benchmark::Paper(paper) => paper.on_stdout(),
            Benchmark::Server(server) => server.files.on_stdout(),
            Benchmark::Page(_) => false,
        }
    }

    pub(crate) fn run(&self) -> Result<(), Failure> {
        match &self.what {
            Benchmark::Storage(storage) => storage.run(),
            Benchmark::Compare(compare) => compare.run(),
            Benchmark::LoadFactor(load_factor) => load_factor.run(),
            Benchmark::Growth(growth) => growth.run(),
            Benchmark::Device(device) => device.run(),
            Benchmark::Gpu(gpu) => gpu.run(),
            Benchmark::Scale(scale) => scale.run(),
            Benchmark::Profile(profile) => profile.run(),
            Benchmark::Limits(limits) => limits.run(),
            Benchmark::Paper(paper) => paper.run(),
            Benchmark::Server(server) => server.run(),
            Benchmark::Page(page) => page.run(),
        }
    }
}

/// Where results go.
#[derive(Debug, Args)]
struct Files {
    /// Write every figure of every round to this file, and charts beside it, as CSV and as SVG.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write everything, the machine included, to this file; without a file, print it instead of tables.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    json: Option<Option<PathBuf>>,
}

impl Files {
    fn on_stdout(&self) -> bool {
        matches!(self.json, Some(None))
    }

    /// Runs a benchmark with bars meanwhile, and gives its report out.
    fn run<E: Into<Failure>>(
        &self,
        benchmark: impl FnOnce(&dyn Progress) -> Result<Report, E>,
    ) -> Result<(), Failure> {
        let bars = Bars::new(!self.on_stdout(), &Interrupt::listen()?);
        let report = benchmark(&bars).map_err(Into::into)?;
        drop(bars);
        self.write(&report)
    }

    fn write(&self, report: &Report) -> Result<(), Failure> {
        if let Some(path) = &self.csv {
            report.write_csv(path)?;
        }
        if let Some(Some(path)) = &self.json {
            report.write_json(path)?;
        }
        match self.on_stdout() {
            true => output::print(&(report.to_json()? + "\n")),
            false => output::print(&report.to_text()),
        }
    }
}

/// Where a benchmark writes.
#[derive(Debug, Args)]
struct Places {
    /// A directory on the disk to measure; made if it is missing. The benchmark removes its files.
    #[arg(long, default_value = ".", value_name = "DIR")]
    dir: PathBuf,
    /// A directory for images, on tmpfs; --dir if it is missing.
    #[arg(long, default_value = "/dev/shm", value_name = "DIR")]
    image_dir: PathBuf,
}

impl Places {
    /// Makes the directory for files, and gives it and that for images.
    fn prepare(&self) -> Result<(&Path, &Path), Failure> {
        let doing = format!("make the directory {}", self.dir.display());
        std::fs::create_dir_all(&self.dir).map_err(Failure::io(doing))?;
        Ok((&self.dir, if self.image_dir.is_dir() { &self.image_dir } else { &self.dir }))
    }
}

/// How the program was started, without where it lies.
fn command_line() -> String {
    let quoted = |argument: String| match argument.contains(char::is_whitespace) || argument.is_empty() {
        true => format!("'{argument}'"),
        false => argument,
    };
    let arguments =
        std::env::args_os().skip(1).map(|argument| quoted(argument.to_string_lossy().into_owned()));
    std::iter::once("warpkeep".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}
