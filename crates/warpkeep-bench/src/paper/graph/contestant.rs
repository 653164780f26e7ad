//! Graphs that take part in a table, and our graph among them.

use warpkeep_containers::{DeviceEdgeOps, EdgeOpKind, EdgeOpKinds, Graph, GraphOptions, TriangleChange};
use warpkeep_device::{Buffer, Device};

use crate::BenchError;
use crate::gpu::Clock;
use crate::gpu::graph::timed;

/// Our graph, as a variant of a case.
pub(super) const OURS: &str = "ours";

/// Edges in host memory and in device memory.
pub(super) struct Edges {
    pub(super) pairs: Vec<(u32, u32)>,
    pub(super) sources: Buffer,
    pub(super) targets: Buffer,
    pub(super) weights: Buffer,
}

impl Edges {
    pub(super) fn new(device: &Device, pairs: Vec<(u32, u32)>) -> Result<Edges, BenchError> {
        let column = |of: fn(&(u32, u32)) -> u32| device.upload(&pairs.iter().map(of).collect::<Vec<u32>>());
        let (sources, targets) = (column(|pair| pair.0)?, column(|pair| pair.1)?);
        let weights: Vec<f32> = (0..pairs.len()).map(|at| (at % 1000) as f32).collect();
        Ok(Edges { sources, targets, weights: device.upload(&weights)?, pairs })
    }
}

/// A graph that takes part.
pub(super) trait Contestant {
    fn name(&self) -> &'static str;

    /// Whether operations of a batch on one edge act in its order.
    fn keeps_order(&self) -> bool;

    /// The seconds that a batch takes, and an [`EdgeStatus`](warpkeep_containers::EdgeStatus) for each operation.
    fn apply(&mut self, kind: EdgeOpKind, edges: &Edges) -> Result<(f64, Vec<u8>), BenchError>;

    /// The seconds that different vertices of an undirected graph take, and how many edges went.
    fn delete_vertices(&mut self, vertices: &[u32]) -> Result<(f64, u64), BenchError>;

    /// The seconds that counting takes, and the triangles. `edges` are all of the graph, each once.
    fn triangles(&mut self, edges: &Edges) -> Result<(f64, u64), BenchError>;

    /// All edges in lists, in ascending order.
    fn edges(&self) -> Result<Vec<(u32, u32)>, BenchError>;

    /// Edges in lists.
    fn entry_count(&self) -> Result<u64, BenchError>;

    /// Bytes of device memory.
    fn bytes(&self) -> Result<u64, BenchError>;
}

/// Our graph.
pub(super) struct Ours<'d> {
    clock: &'d Clock,
    device: &'d Device,
    pub(super) graph: Graph,
    has_weights: bool,
}

impl<'d> Ours<'d> {
    pub(super) fn new(
        device: &'d Device,
        clock: &'d Clock,
        has_weights: bool,
        undirected: bool,
    ) -> Result<Self, BenchError> {
        let mut options = GraphOptions::default();
        if has_weights {
            options = options.weights();
        }
        if undirected {
            options = options.undirected();
        }
        Ok(Ours { clock, device, graph: Graph::new(device, &options)?, has_weights })
    }

    fn ops<'e>(&self, kind: EdgeOpKind, edges: &'e Edges) -> DeviceEdgeOps<'e> {
        DeviceEdgeOps {
            kinds: EdgeOpKinds::All(kind),
            sources: &edges.sources,
            targets: &edges.targets,
            weights: self.has_weights.then_some(&edges.weights),
            ids: None,
            times: None,
            count: edges.pairs.len(),
        }
    }

    /// The seconds that an insertion takes which says by how many triangles it changes their number, and the answers.
    pub(super) fn insert_counting(
        &self,
        edges: &Edges,
    ) -> Result<(f64, TriangleChange, Vec<u8>), BenchError> {
        let mut statuses = self.device.allocate_zeroed(edges.pairs.len())?;
        let (ops, stream) = (self.ops(EdgeOpKind::Insert, edges), self.clock.stream());
        let (seconds, change) = timed(|| self.graph.apply_counting_triangles_on(ops, &mut statuses, stream))?;
        Ok((seconds, change, statuses.to_vec()?))
    }
}

impl Contestant for Ours<'_> {
    fn name(&self) -> &'static str {
        OURS
    }

    fn keeps_order(&self) -> bool {
        true
    }

    fn apply(&mut self, kind: EdgeOpKind, edges: &Edges) -> Result<(f64, Vec<u8>), BenchError> {
        let mut statuses = self.device.allocate_zeroed(edges.pairs.len())?;
        let ops = self.ops(kind, edges);
        let seconds = self.clock.time(|stream| self.graph.apply_on(ops, &mut statuses, stream))?;
        Ok((seconds, statuses.to_vec()?))
    }

    fn delete_vertices(&mut self, vertices: &[u32]) -> Result<(f64, u64), BenchError> {
        timed(|| self.graph.delete_vertices(vertices))
    }

    fn triangles(&mut self, _edges: &Edges) -> Result<(f64, u64), BenchError> {
        timed(|| self.graph.triangles())
    }

    fn edges(&self) -> Result<Vec<(u32, u32)>, BenchError> {
        Ok(self.graph.csr()?.edges().map(|edge| (edge.source, edge.target)).collect())
    }

    fn entry_count(&self) -> Result<u64, BenchError> {
        Ok(self.graph.stats().entries)
    }

    fn bytes(&self) -> Result<u64, BenchError> {
        Ok(self.graph.stats().bytes)
    }
}
