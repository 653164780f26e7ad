//! Which graphs are measured, and how often.

use warpkeep_device::DeviceChoice;

use super::shape::Shape;
use crate::BenchError;
use crate::gpu::{check, invalid};

/// Vertices of a graph.
const VERTICES: std::ops::RangeInclusive<usize> = 16..=1 << 28;
/// Edges of a graph up to which the native CPU implementation is measured, too.
const CPU_EDGES: usize = 1 << 20;

/// Which graphs are measured, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which device.
    pub device: DeviceChoice,
    /// How edges are generated, one case each.
    pub shapes: Vec<Shape>,
    /// Vertices, one case each; those of R-MAT graphs are rounded up to a power of two.
    pub vertices: Vec<usize>,
    /// Edges or vertices of a batch, one case each; those that are larger than the graph are left out.
    pub batches: Vec<usize>,
    /// How often everything is measured.
    pub rounds: u32,
    /// Of everything random.
    pub seed: u64,
    /// How the benchmark was started, for the report.
    pub command: String,
}

impl Options {
    /// The defaults for this device; on the simulator a small graph.
    pub fn on(device: DeviceChoice) -> Options {
        let (vertices, batches) = match device {
            DeviceChoice::Sim => (vec![64], vec![32]),
            _ => (vec![1 << 16, 1 << 20], vec![1 << 12, 1 << 16, 1 << 20]),
        };
        let shapes = Shape::USUAL.to_vec();
        let command = "warpkeep bench gpu graph".to_owned();
        Options { device, shapes, vertices, batches, rounds: 3, seed: 1, command }
    }

    pub(super) fn check(&self) -> Result<(), BenchError> {
        check(self.device, self.rounds, &[1])?;
        if self.vertices.is_empty() || self.vertices.iter().any(|count| !VERTICES.contains(count)) {
            return invalid("a graph has 16 to 2^28 vertices here; give --vertices 2^20");
        }
        if self.shapes.is_empty() {
            return invalid("at least one kind of graph is needed; give --graphs rmat,road");
        }
        if self.batches.is_empty() || self.batches.contains(&0) {
            return invalid("a batch has one edge at least; give --batch 2^20");
        }
        Ok(())
    }

    /// Shapes and vertices of the graphs: of each shape the fewest vertices first, and each once.
    pub(super) fn graphs(&self) -> Vec<(Shape, usize)> {
        let mut graphs = Vec::new();
        for shape in Shape::ALL.into_iter().filter(|shape| self.shapes.contains(shape)) {
            let vertices: Vec<usize> = self.vertices.iter().map(|&count| shape.rounded(count)).collect();
            graphs.extend(sorted(&vertices).into_iter().map(|vertices| (shape, vertices)));
        }
        graphs
    }

    /// The batches of a graph with this number of edges, the smallest first, each once.
    pub(super) fn batches_of(&self, edges: usize) -> Vec<usize> {
        let mut batches = sorted(&self.batches);
        batches.retain(|&batch| batch <= edges);
        batches
    }

    /// Whether the CPU takes part.
    pub(super) fn has_cpu(edges: usize) -> bool {
        edges <= CPU_EDGES
    }
}

fn sorted(numbers: &[usize]) -> Vec<usize> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
