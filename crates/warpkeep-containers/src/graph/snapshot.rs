//! A state of a graph that stays while the graph changes, and all that can be read of it.

use std::path::Path;
use std::sync::Arc;

use warpkeep_device::{Buffer, Stream};

use super::algorithms::PageRanks;
use super::cpu::CpuLists;
use super::csr::GraphCsr;
use super::device::DeviceGraph;
use super::edge::Edge;
use super::kernels::GraphRef;
use super::pins::Pin;
use super::reading::{Reading, State};
use super::sample::{GraphSample, SampleOptions};
use super::sample_columns::{DeviceNeighbours, DeviceSample, DeviceSeeds};
use super::whole::Listed;
use super::{DeviceCsr, Graph, GraphOptions, Kind};
use crate::ContainerError;

/// The state of a [`Graph`] at one time. Calls that change the graph later do not change it, and neither waits for the other. It may live longer than the graph. What only
/// it needs is free again when it is dropped, in any order with others.
///
/// While a snapshot lives, lists that change are copied to new blocks, and blocks that there were at its time are not compacted:
/// see [`Graph::pins`].
///
/// ```
/// use warpkeep_containers::{Edge, Graph, GraphOptions};
///
/// let graph = Graph::on_cpu(&GraphOptions::default());
/// graph.insert_edges(&[Edge::new(0, 1), Edge::new(0, 2)])?;
/// let before = graph.snapshot()?;
/// graph.delete_vertices(&[1])?;
/// graph.insert_edges(&[Edge::new(2, 7)])?;
/// assert_eq!((before.edge_count(), before.vertex_count()), (2, 3));
/// assert_eq!(before.neighbours(&[0])?.targets, [1, 2]);
/// # Ok::<(), warpkeep_containers::ContainerError>(())
/// ```
#[derive(Debug, Clone)]
pub struct GraphSnapshot {
    options: GraphOptions,
    kind: Pinned,
}

#[derive(Debug, Clone)]
enum Pinned {
    Device(Arc<DeviceGraph>, Arc<Pin>),
    Cpu(Arc<CpuLists>),
}

impl Graph {
    /// Keeps the present state. It takes a copy of the vertex records, 16 bytes each; snapshots between which nothing changes share it.
    ///
    /// # Errors
    /// If there is no memory for the copy.
    pub fn snapshot(&self) -> Result<GraphSnapshot, ContainerError> {
        let kind = match &self.kind {
            Kind::Device(graph) => Pinned::Device(Arc::clone(graph), graph.pin()?),
            Kind::Cpu(graph) => Pinned::Cpu(graph.current()),
        };
        Ok(GraphSnapshot { options: self.options.clone(), kind })
    }
}

impl GraphSnapshot {
    fn reading(&self) -> Reading<'_> {
        let state = match &self.kind {
            Pinned::Device(graph, pin) => State::Device(graph, pin.view),
            Pinned::Cpu(lists) => State::Cpu(Arc::clone(lists)),
        };
        Reading { options: &self.options, state, _guard: None }
    }

    /// How the graph was made.
    pub fn options(&self) -> &GraphOptions {
        &self.options
    }

    /// As [`Graph::vertex_count`].
    pub fn vertex_count(&self) -> u64 {
        self.reading().vertices()
    }

    /// As [`Graph::edge_count`].
    pub fn edge_count(&self) -> u64 {
        self.reading().edge_count()
    }

    /// Edges in lists: those of undirected graphs are in two, loops in one. [`csr_on`](Self::csr_on) needs room for that many.
    pub fn entry_count(&self) -> u64 {
        self.reading().counts().0
    }

    /// As [`Graph::edges_exist`].
    pub fn edges_exist(&self, edges: &[(u32, u32)]) -> Result<Vec<bool>, ContainerError> {
        self.reading().exists(edges)
    }

    /// As [`Graph::edges_exist_on`].
    pub fn edges_exist_on(
        &self,
        sources: &Buffer,
        targets: &Buffer,
        count: usize,
        found: &mut Buffer,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        self.reading().edges_exist_on(sources, targets, count, found, stream)
    }

    /// As [`Graph::find_edges`].
    pub fn find_edges(&self, edges: &[(u32, u32)]) -> Result<Vec<Option<Edge>>, ContainerError> {
        self.reading().find(edges)
    }

    /// As [`Graph::degrees`].
    pub fn degrees(&self, vertices: &[u32]) -> Result<Vec<u32>, ContainerError> {
        self.reading().degrees(vertices)
    }

    /// As [`Graph::degrees_on`].
    pub fn degrees_on(
        &self,
        vertices: &Buffer,
        count: usize,
        degrees: &mut Buffer,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        self.reading().degrees_on(vertices, count, degrees, stream)
    }

    /// As [`Graph::neighbours`].
    pub fn neighbours(&self, vertices: &[u32]) -> Result<GraphCsr, ContainerError> {
        self.reading().lists(Listed::Some(vertices))
    }

    /// As [`Graph::csr`].
    pub fn csr(&self) -> Result<GraphCsr, ContainerError> {
        self.reading().lists(Listed::All)
    }

    /// As [`Graph::csr_on`].
    pub fn csr_on(&self, rows: DeviceCsr<'_>, stream: &Stream) -> Result<(u64, u64), ContainerError> {
        self.reading().csr_on(rows, stream)
    }

    /// As [`Graph::edges`].
    pub fn edges(&self) -> Result<Vec<Edge>, ContainerError> {
        self.reading().edges()
    }

    /// As [`Graph::sample`].
    pub fn sample(&self, seeds: &[u32], options: &SampleOptions) -> Result<GraphSample, ContainerError> {
        self.reading().sample(seeds, options)
    }

    /// As [`Graph::sample_at`].
    pub fn sample_at(
        &self,
        seeds: &[u32],
        times: &[i64],
        options: &SampleOptions,
    ) -> Result<GraphSample, ContainerError> {
        self.reading().sample_at(seeds, times, options)
    }

    /// As [`Graph::sample_on`].
    pub fn sample_on(
        &self,
        seeds: DeviceSeeds<'_>,
        options: &SampleOptions,
        sample: &mut DeviceSample,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        self.reading().sample_on(seeds, options, sample, stream)
    }

    /// As [`Graph::sample_neighbours_on`].
    pub fn sample_neighbours_on(
        &self,
        seeds: DeviceSeeds<'_>,
        options: &SampleOptions,
        neighbours: DeviceNeighbours<'_>,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        self.reading().sample_neighbours_on(seeds, options, neighbours, stream)
    }

    /// As [`Graph::bfs`].
    pub fn bfs(&self, sources: &[u32]) -> Result<Vec<u32>, ContainerError> {
        self.reading().bfs(sources)
    }

    /// As [`Graph::components`].
    pub fn components(&self) -> Result<Vec<u32>, ContainerError> {
        self.reading().components()
    }

    /// As [`Graph::triangles`].
    pub fn triangles(&self) -> Result<u64, ContainerError> {
        self.reading().triangles()
    }

    /// As [`Graph::core_numbers`].
    pub fn core_numbers(&self) -> Result<Vec<u32>, ContainerError> {
        self.reading().core_numbers()
    }

    /// As [`Graph::pagerank`].
    pub fn pagerank(&self, damping: f64, rounds: u32) -> Result<Vec<f64>, ContainerError> {
        self.pagerank_from(&[], damping, rounds)
    }

    /// As [`Graph::pagerank_from`].
    pub fn pagerank_from(
        &self,
        ranks: &[f64],
        damping: f64,
        rounds: u32,
    ) -> Result<Vec<f64>, ContainerError> {
        Ok(self.reading().pagerank(ranks, damping, None, rounds)?.ranks)
    }

    /// As [`Graph::pagerank_until`].
    pub fn pagerank_until(
        &self,
        ranks: &[f64],
        damping: f64,
        tolerance: f64,
        most_rounds: u32,
    ) -> Result<PageRanks, ContainerError> {
        self.reading().pagerank(ranks, damping, Some(tolerance), most_rounds)
    }

    /// As [`Graph::save`]: the graph may change meanwhile.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ContainerError> {
        self.reading().save(path.as_ref())
    }

    /// What kernels of others need to read it. Unlike that of the graph it stays good as long as the snapshot lives.
    ///
    /// # Errors
    /// If the graph is on the CPU.
    pub fn reference(&self) -> Result<GraphRef, ContainerError> {
        self.reading().reference()
    }
}
