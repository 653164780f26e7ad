//! "Efficient Data Structures on the GPU", chapter 5: the dynamic graph, by our graph and by the paper's own layout, both on one device in one run.

mod answers;
mod bench;
mod chains;
mod contestant;
mod counting;
mod part;
mod published;
mod slab_graph;
mod updates;

#[cfg(test)]
mod tests;

use warpkeep_device::{Device, DeviceChoice};

use self::bench::{Bench, Subject};
pub use self::part::Part;
use crate::gpu::graph::Shape;
use crate::gpu::{Clock, check, invalid};
use crate::limits::device::note_of;
use crate::paper::each_once;
use crate::report::Report;
use crate::{Amount, BenchError, Progress};

/// Vertices of a graph, at least and at most.
const VERTICES: std::ops::RangeInclusive<usize> = 16..=1 << 27;

/// Which tables and figures, and how thoroughly.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which device.
    pub device: DeviceChoice,
    /// The tables and figures; all if empty.
    pub parts: Vec<Part>,
    /// How edges are generated, one case each.
    pub shapes: Vec<Shape>,
    /// Vertices of a graph.
    pub vertices: usize,
    /// Edges or vertices of a batch, one case each; those that are too large for a graph are left out.
    pub batches: Vec<usize>,
    /// How often everything is measured.
    pub rounds: u32,
    /// Of everything random.
    pub seed: u64,
    /// How the benchmark was started, for the report.
    pub command: String,
}

impl Options {
    /// The defaults for this device: graphs of a million vertices and the paper's batches; on the simulator small ones.
    pub fn on(device: DeviceChoice) -> Options {
        let (shapes, vertices, batches) = match device {
            DeviceChoice::Sim => (vec![Shape::Rmat, Shape::Road], 64, vec![32]),
            _ => {
                let shapes = Shape::ALL.into_iter().filter(|shape| *shape != Shape::Rmat);
                (shapes.collect(), 1 << 20, (16..=22).map(|bits| 1 << bits).collect())
            }
        };
        let command = "warpkeep bench paper graph".to_owned();
        Options { device, parts: Vec::new(), shapes, vertices, batches, rounds: 3, seed: 1, command }
    }

    fn check(&self) -> Result<(), BenchError> {
        check(self.device, self.rounds, &self.batches)?;
        if !VERTICES.contains(&self.vertices) {
            return invalid("a graph has 16 to 2^27 vertices here; give --vertices 2^20");
        }
        if self.shapes.is_empty() {
            return invalid("at least one kind of graph is needed; give --graphs road,orkut");
        }
        if self.batches.contains(&0) {
            return invalid("a batch has one edge at least; give --batch 2^16..2^22");
        }
        Ok(())
    }
}

/// Measures tables and figures.
///
/// ```no_run
/// use warpkeep_bench::{Quiet, paper::graph};
///
/// let options = graph::Options { parts: vec![graph::Part::table("5.7")?], ..graph::Options::on("cuda:0".parse()?) };
/// print!("{}", graph::run(&options, &Quiet)?.to_text());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    options.check()?;
    let mut report = Report::new("paper graph", &options.command, options.seed);
    let device = Device::open(options.device)?;
    report.notes.push(note_of(&device));
    report.notes.push(
        "the paper measured on a TITAN V, with graphs that generated ones stand for: what is marked as published is from its tables; the paper's layout is by our own kernels: a slab hash for each \
         vertex, slabs of 128 bytes with 15 pairs or 30 targets, as many buckets as its edges take of 0.7 of the items, one of an incremental build, tombstones that are not used again, and our slab \
         allocator; its memory is allocated, emptied and cut into lists before the clock runs; batches and answers lie in device memory, in any order; vertices to delete are in host memory, so these times \
         contain the link, as counts of triangles contain reading the count, but not the bits of all vertices by which the paper's layout knows the deleted ones; every answer was checked, and all lists of graphs \
         with up to 2^22 entries; of larger graphs the number of entries"
            .to_owned(),
    );
    let clock = Clock::new(&device)?;
    let bench = Bench { options, device: &device, clock: &clock, progress };
    let parts = if options.parts.is_empty() { Part::ALL.to_vec() } else { each_once(&options.parts) };
    let (figures, tables): (Vec<Part>, Vec<Part>) =
        parts.into_iter().partition(|part| matches!(part, Part::ChainsInserting | Part::ChainsCounting));
    let shapes = if tables.is_empty() { Vec::new() } else { each_once(&options.shapes) };
    let total = shapes.len() * tables.len() + chains::DEGREES.len() * figures.len();
    progress.begin(&format!("chapter 5 on {}", options.device), Amount::Count(total as u64));
    // Graphs of millions of vertices take longer to generate than to measure: each is generated once.
    for shape in shapes {
        progress.check()?;
        let subject = Subject::new(shape, options.vertices, options.seed);
        if subject.reference.edges.is_empty() {
            return invalid(format!(
                "the {shape} graph of {} vertices has no edges; give more --vertices, or another --seed",
                subject.vertices
            ));
        }
        for &part in &tables {
            of_graph(&bench, part, &subject, &mut report)?;
            progress.advance(1);
        }
    }
    chains::run(&bench, &figures, &mut report)?;
    progress.finish();
    report.finish();
    Ok(report)
}

fn of_graph(bench: &Bench<'_>, part: Part, subject: &Subject, report: &mut Report) -> Result<(), BenchError> {
    match part {
        Part::Insertion | Part::Deletion => updates::edges(bench, part, subject, report),
        Part::VertexDeletion => updates::vertices(bench, subject, report),
        Part::BulkBuild => updates::bulk(bench, subject, report),
        Part::IncrementalBuild => updates::incremental(bench, subject, report),
        Part::Triangles => counting::triangles(bench, subject, report),
        Part::Sorting => counting::sorting(bench, subject, report),
        Part::Dynamic => counting::dynamic(bench, subject, report),
        // They have graphs of their own.
        Part::ChainsInserting | Part::ChainsCounting => Ok(()),
    }
}
