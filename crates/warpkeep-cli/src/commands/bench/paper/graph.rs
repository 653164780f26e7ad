//! `warpkeep bench paper graph`.

use clap::Args;
use warpkeep::DeviceChoice;
use warpkeep_bench::gpu::graph::Shape;
use warpkeep_bench::paper::graph::{self, Part};
use warpkeep_bench::{BatchSizes, one_number};

use super::super::{Files, command_line};
use crate::failure::Failure;

/// How to run it.
#[derive(Debug, Args)]
pub(super) struct Graph {
    /// The device: cuda:0 and so on, or sim, whose times mean nothing.
    #[arg(long, default_value = "cuda:0", value_name = "DEVICE")]
    device: DeviceChoice,
    /// Only these tables: 5.2 to 5.9; by default all tables and figures.
    #[arg(long, value_delimiter = ',', value_name = "N,...", value_parser = Part::table)]
    table: Vec<Part>,
    /// Only these figures: 5.2, 5.3.
    #[arg(long, value_delimiter = ',', value_name = "N,...", value_parser = Part::figure)]
    figure: Vec<Part>,
    /// How edges are generated, one case each: rmat, live-journal, orkut, road, geometric, delaunay; by default all but rmat, and rmat and road on sim. Figures have R-MAT graphs.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    graphs: Vec<Shape>,
    /// Vertices of a graph, those of social networks rounded up to a power of two; by default 2^20, and 64 on sim.
    #[arg(long, value_name = "N", value_parser = one_number)]
    vertices: Option<usize>,
    /// Edges or vertices of a batch, one case each: numbers, 2^22, or 2^16..2^22 for every power of two, which is the default, as in the paper; 32 on sim.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    batch: Vec<BatchSizes>,
    /// How often everything is measured; by default three times.
    #[arg(long)]
    rounds: Option<u32>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    pub(super) files: Files,
}

impl Graph {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let usual = graph::Options::on(self.device);
        let batches = BatchSizes::all(&self.batch);
        let options = graph::Options {
            device: self.device,
            parts: self.table.iter().chain(&self.figure).copied().collect(),
            shapes: if self.graphs.is_empty() { usual.shapes } else { self.graphs.clone() },
            vertices: self.vertices.unwrap_or(usual.vertices),
            batches: if batches.is_empty() { usual.batches } else { batches },
            rounds: self.rounds.unwrap_or(usual.rounds),
            seed: self.seed,
            command: command_line(),
        };
        self.files.run(|progress| graph::run(&options, progress))
    }
}
