//! What calls read: the present state of a graph, or that of a snapshot.

use std::sync::{Arc, RwLockReadGuard};

use super::cpu::CpuLists;
use super::csr::GraphCsr;
use super::device::DeviceGraph;
use super::edge::Edge;
use super::kernels::GraphRef;
use super::storage::Storage;
use super::whole::Listed;
use super::{DeviceCsr, GraphOptions};
use crate::ContainerError;
use warpkeep_device::Stream;

/// A state of a graph in device memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    pub(super) graph: GraphRef,
    /// Edges in lists.
    pub(super) entries: u64,
    pub(super) loops: u64,
    /// Slots of the pool, up to the last block.
    pub(super) slots: u64,
}

impl View {
    pub(super) fn vertices(&self) -> u64 {
        self.graph.vertices
    }
}

/// A state that stays as it is as long as this lives.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    pub(super) options: &'a GraphOptions,
    pub(super) state: State<'a>,
    /// The present state of a graph on a device stays as long as this is held; that of a snapshot is pinned.
    pub(super) _guard: Option<RwLockReadGuard<'a, Storage>>,
}

#[derive(Debug)]
pub(super) enum State<'a> {
    Device(&'a DeviceGraph, View),
    Cpu(Arc<CpuLists>),
}

impl Reading<'_> {
    /// The graph and its state if they are on a device.
    pub(super) fn on_device(&self, what: &'static str) -> Result<(&DeviceGraph, &View), ContainerError> {
        match &self.state {
            State::Device(graph, view) => Ok((graph, view)),
            State::Cpu(_) => Err(ContainerError::OnCpu { what }),
        }
    }

    pub(super) fn exists(&self, edges: &[(u32, u32)]) -> Result<Vec<bool>, ContainerError> {
        match &self.state {
            State::Device(graph, view) => Ok(graph.exists(edges, view)?),
            State::Cpu(lists) => Ok(lists.exists(edges)),
        }
    }

    pub(super) fn find(&self, edges: &[(u32, u32)]) -> Result<Vec<Option<Edge>>, ContainerError> {
        match &self.state {
            State::Device(graph, view) => Ok(graph.find(edges, view)?),
            State::Cpu(lists) => Ok(lists.find_edges(edges)),
        }
    }

    pub(super) fn degrees(&self, vertices: &[u32]) -> Result<Vec<u32>, ContainerError> {
        match &self.state {
            State::Device(graph, view) => graph.degrees(vertices, view),
            State::Cpu(lists) => Ok(lists.degrees(vertices)),
        }
    }

    pub(super) fn lists(&self, listed: Listed<'_>) -> Result<GraphCsr, ContainerError> {
        match &self.state {
            State::Device(graph, view) => graph.lists(listed, view),
            State::Cpu(lists) => lists.rows(listed, self.options),
        }
    }

    pub(super) fn csr_on(&self, rows: DeviceCsr<'_>, stream: &Stream) -> Result<(u64, u64), ContainerError> {
        let (graph, view) = self.on_device("csr_on")?;
        graph.csr_on(rows, view, stream)
    }

    pub(super) fn reference(&self) -> Result<GraphRef, ContainerError> {
        Ok(self.on_device("reference")?.1.graph)
    }

    pub(super) fn vertices(&self) -> u64 {
        match &self.state {
            State::Device(_, view) => view.vertices(),
            State::Cpu(lists) => lists.vertices,
        }
    }

    /// Edges in lists, and loops.
    pub(super) fn counts(&self) -> (u64, u64) {
        match &self.state {
            State::Device(_, view) => (view.entries, view.loops),
            State::Cpu(lists) => (lists.entries, lists.loops),
        }
    }

    pub(super) fn edge_count(&self) -> u64 {
        let (entries, loops) = self.counts();
        if self.options.undirected { (entries + loops) / 2 } else { entries }
    }

    pub(super) fn edges(&self) -> Result<Vec<Edge>, ContainerError> {
        Ok(each_once(self.options, &self.lists(Listed::All)?).collect())
    }
}

/// The edges of all lists, those of undirected graphs once.
pub(super) fn each_once<'a>(
    options: &GraphOptions,
    csr: &'a GraphCsr,
) -> impl Iterator<Item = Edge> + use<'a> {
    let undirected = options.undirected;
    csr.edges().filter(move |edge| !undirected || edge.source <= edge.target)
}
