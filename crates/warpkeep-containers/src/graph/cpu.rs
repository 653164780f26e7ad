//! The graph on the CPU: the same operations on sorted lists.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::GraphOptions;
use super::columns::HostBatch;
use super::csr::GraphCsr;
use super::edge::{Edge, EdgeOpKind, EdgeStatus};
use super::whole::Listed;
use crate::ContainerError;

#[derive(Debug)]
pub(super) struct CpuGraph {
    lists: Mutex<CpuLists>,
    options: GraphOptions,
}

/// Edges by source, those of one source in ascending order of their targets. Vertices without edges have no list.
#[derive(Debug, Default)]
pub(super) struct CpuLists {
    lists: BTreeMap<u32, Vec<Edge>>,
    pub(super) vertices: u64,
    pub(super) entries: u64,
    pub(super) loops: u64,
}

impl CpuGraph {
    pub(super) fn new(options: &GraphOptions) -> CpuGraph {
        CpuGraph { lists: Mutex::default(), options: options.clone() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, CpuLists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sorts the operations by edge, those on one edge in batch order, and merges them into the list of each source once.
    pub(super) fn run(&self, batch: &HostBatch<'_>) -> Vec<EdgeStatus> {
        let mut statuses = vec![EdgeStatus::Loop; batch.len()];
        let mut entries: Vec<(u32, u32, usize)> = Vec::with_capacity(batch.len());
        let mut vertices = 0;
        for (number, op) in batch.ops().enumerate() {
            let Edge { source, target, .. } = op.edge;
            if source == target && !self.options.keeps_loops {
                continue;
            }
            if op.kind == EdgeOpKind::Insert {
                vertices = vertices.max(u64::from(source.max(target)) + 1);
            }
            entries.push((source, target, number));
            if self.options.undirected && source != target {
                entries.push((target, source, number));
            }
        }
        entries.sort_unstable();
        let mut lists = self.lock();
        lists.vertices = lists.vertices.max(vertices);
        for segment in entries.chunk_by(|one, two| one.0 == two.0) {
            lists.merge(segment, batch, &self.options, &mut statuses);
        }
        statuses
    }

    pub(super) fn exists(&self, edges: &[(u32, u32)]) -> Vec<bool> {
        let lists = self.lock();
        edges.iter().map(|(source, target)| lists.find(*source, *target).is_ok()).collect()
    }

    pub(super) fn degrees(&self, vertices: &[u32]) -> Vec<u32> {
        let lists = self.lock();
        vertices.iter().map(|vertex| lists.list(*vertex).len() as u32).collect()
    }

    pub(super) fn lists(&self, listed: Listed<'_>) -> Result<GraphCsr, ContainerError> {
        let lists = self.lock();
        let mut csr = GraphCsr { offsets: vec![0], ..GraphCsr::default() };
        let mut add = |vertex: u32| {
            for edge in lists.list(vertex) {
                csr.targets.push(edge.target);
                if self.options.weights {
                    csr.weights.push(edge.weight);
                }
                if self.options.ids {
                    csr.ids.push(edge.id);
                }
                if self.options.times {
                    csr.times.push(edge.time);
                }
            }
            csr.offsets.push(csr.targets.len() as u64);
        };
        match listed {
            Listed::All => (0..lists.vertices).for_each(|vertex| add(vertex as u32)),
            Listed::Some(vertices) => vertices.iter().for_each(|vertex| add(*vertex)),
        }
        Ok(csr)
    }

    pub(super) fn delete_vertices(&self, vertices: &[u32]) -> (u64, u64) {
        let mut lists = self.lock();
        let doomed: std::collections::BTreeSet<u32> = vertices.iter().copied().collect();
        let (mut removed, mut loops) = (0, 0);
        lists.lists.retain(|source, list| {
            list.retain(|edge| {
                let goes = doomed.contains(source) || doomed.contains(&edge.target);
                removed += u64::from(goes);
                loops += u64::from(goes && edge.is_loop());
                !goes
            });
            !list.is_empty()
        });
        lists.entries -= removed;
        lists.loops -= loops;
        (removed, loops)
    }
}

impl CpuLists {
    pub(super) fn list(&self, vertex: u32) -> &[Edge] {
        self.lists.get(&vertex).map_or(&[], Vec::as_slice)
    }

    /// All edges, in ascending order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Edge> {
        self.lists.values().flatten()
    }

    fn find(&self, source: u32, target: u32) -> Result<usize, usize> {
        self.list(source).binary_search_by_key(&target, |edge| edge.target)
    }

    /// Merges sorted operations on edges of one source into its list.
    fn merge(
        &mut self,
        segment: &[(u32, u32, usize)],
        batch: &HostBatch<'_>,
        options: &GraphOptions,
        statuses: &mut [EdgeStatus],
    ) {
        let source = segment[0].0;
        let old = self.lists.remove(&source).unwrap_or_default();
        let mut merged = Vec::with_capacity(old.len() + segment.len());
        let mut rest = old.as_slice();
        for run in segment.chunk_by(|one, two| one.1 == two.1) {
            let target = run[0].1;
            let (before, from) = rest.split_at(rest.partition_point(|edge| edge.target < target));
            merged.extend_from_slice(before);
            let was = from.first().copied().filter(|edge| edge.target == target);
            rest = if was.is_some() { &from[1..] } else { from };
            let mut edge = was;
            for &(_, _, number) in run {
                let op = batch.op(number);
                statuses[number] = match (op.kind, edge.is_some()) {
                    (EdgeOpKind::Insert, false) => EdgeStatus::Inserted,
                    (EdgeOpKind::Insert, true) => EdgeStatus::Updated,
                    (EdgeOpKind::Delete, true) => EdgeStatus::Deleted,
                    (EdgeOpKind::Delete, false) => EdgeStatus::Absent,
                };
                edge = (op.kind == EdgeOpKind::Insert).then(|| stored(op.edge, source, target, options));
            }
            let (had, has) = (u64::from(was.is_some()), u64::from(edge.is_some()));
            self.entries = self.entries + has - had;
            if source == target {
                self.loops = self.loops + has - had;
            }
            merged.extend(edge);
        }
        merged.extend_from_slice(rest);
        if !merged.is_empty() {
            self.lists.insert(source, merged);
        }
    }
}

/// An edge with the data that a graph keeps of it.
fn stored(edge: Edge, source: u32, target: u32, options: &GraphOptions) -> Edge {
    let nothing = Edge::new(source, target);
    Edge {
        weight: if options.weights { edge.weight } else { nothing.weight },
        id: if options.ids { edge.id } else { nothing.id },
        time: if options.times { edge.time } else { nothing.time },
        ..nothing
    }
}
