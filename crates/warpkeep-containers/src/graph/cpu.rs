//! The graph on the CPU: the same operations on sorted lists.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::GraphOptions;
use super::calls::TriangleChange;
use super::columns::HostBatch;
use super::csr::GraphCsr;
use super::edge::{Edge, EdgeOpKind, EdgeStatus};
use super::whole::{Listed, check_listed};
use crate::ContainerError;

/// A state that is read stays as it is: what changes the graph then works on a copy, which shares the lists that do not change.
#[derive(Debug)]
pub(super) struct CpuGraph {
    lists: Mutex<Arc<CpuLists>>,
    options: GraphOptions,
}

/// Edges by source, those of one source in ascending order of their targets. Vertices without edges have no list.
#[derive(Debug, Clone, Default)]
pub(super) struct CpuLists {
    lists: BTreeMap<u32, Arc<Vec<Edge>>>,
    pub(super) vertices: u64,
    pub(super) entries: u64,
    pub(super) loops: u64,
}

impl CpuGraph {
    pub(super) fn new(options: &GraphOptions) -> CpuGraph {
        CpuGraph { lists: Mutex::default(), options: options.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, Arc<CpuLists>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present state.
    pub(super) fn current(&self) -> Arc<CpuLists> {
        Arc::clone(&self.lock())
    }

    /// Grows the graph to the number of vertices that `wanted` returns for the present number; gives the numbers before
    /// and after. An error changes nothing.
    pub(super) fn grow_vertices(
        &self,
        wanted: impl FnOnce(u64) -> Result<u64, ContainerError>,
    ) -> Result<(u64, u64), ContainerError> {
        let mut lists = self.lock();
        let before = lists.vertices;
        let vertices = before.max(wanted(before)?);
        if vertices > before {
            Arc::make_mut(&mut lists).vertices = vertices;
        }
        Ok((before, vertices))
    }

    /// Sorts the operations by edge, those on one edge in batch order, and merges them into the list of each source once.
    pub(super) fn run(&self, batch: &HostBatch<'_>) -> Vec<EdgeStatus> {
        self.run_with(batch, |_, _| ()).0
    }

    /// As [`run`](Self::run), and by how many triangles the batch changed their number.
    pub(super) fn run_counting(&self, batch: &HostBatch<'_>) -> (Vec<EdgeStatus>, TriangleChange) {
        let mut removed = Vec::new();
        let mut added = Vec::new();
        let mut lost = 0;
        let (statuses, lists) = self.run_with(batch, |lists, edges| {
            for (edge, will_be) in edges {
                match (lists.find(edge.0, edge.1).is_ok(), will_be) {
                    (true, false) => removed.push(*edge),
                    (false, true) => added.push(*edge),
                    _ => {}
                }
            }
            lost = lists.triangles_of(&removed);
        });
        (statuses, TriangleChange { gained: lists.triangles_of(&added), lost })
    }

    /// `before` sees the lists before the batch changes them, and the edges of the batch towards larger vertices, with whether they will be there.
    fn run_with(
        &self,
        batch: &HostBatch<'_>,
        before: impl FnOnce(&CpuLists, &[((u32, u32), bool)]),
    ) -> (Vec<EdgeStatus>, Arc<CpuLists>) {
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
        let ends = entries.chunk_by(|one, two| (one.0, one.1) == (two.0, two.1)).filter_map(|run| {
            let (source, target, number) = run[run.len() - 1];
            (source < target).then(|| ((source, target), batch.op(number).kind == EdgeOpKind::Insert))
        });
        let ends: Vec<_> = ends.collect();
        let mut current = self.lock();
        before(&current, &ends);
        let lists = Arc::make_mut(&mut current);
        lists.vertices = lists.vertices.max(vertices);
        for segment in entries.chunk_by(|one, two| one.0 == two.0) {
            lists.merge(segment, batch, &self.options, &mut statuses);
        }
        (statuses, Arc::clone(&current))
    }

    pub(super) fn delete_vertices(&self, vertices: &[u32]) -> (u64, u64) {
        let mut current = self.lock();
        let lists = Arc::make_mut(&mut current);
        let doomed: std::collections::BTreeSet<u32> = vertices.iter().copied().collect();
        let (mut removed, mut loops) = (0, 0);
        lists.lists.retain(|source, list| {
            let goes = |edge: &Edge| doomed.contains(source) || doomed.contains(&edge.target);
            if !list.iter().any(goes) {
                return true;
            }
            Arc::make_mut(list).retain(|edge| {
                let goes = goes(edge);
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
        self.lists.get(&vertex).map_or(&[], |list| list.as_slice())
    }

    pub(super) fn exists(&self, edges: &[(u32, u32)]) -> Vec<bool> {
        edges.iter().map(|(source, target)| self.find(*source, *target).is_ok()).collect()
    }

    pub(super) fn find_edges(&self, edges: &[(u32, u32)]) -> Vec<Option<Edge>> {
        let edge = |(source, target)| Some(self.list(source)[self.find(source, target).ok()?]);
        edges.iter().copied().map(edge).collect()
    }

    pub(super) fn degrees(&self, vertices: &[u32]) -> Vec<u32> {
        vertices.iter().map(|vertex| self.list(*vertex).len() as u32).collect()
    }

    /// Lists that are asked for may have as many edges as on a device. Those of all vertices take no more memory than the graph does.
    pub(super) fn rows(
        &self,
        listed: Listed<'_>,
        options: &GraphOptions,
    ) -> Result<GraphCsr, ContainerError> {
        if let Listed::Some(vertices) = listed {
            check_listed("vertices of one call", vertices.len() as u64)?;
            let degrees = vertices.iter().map(|vertex| self.list(*vertex).len() as u64);
            check_listed("edges of one call", degrees.sum())?;
        }
        let mut csr = GraphCsr { offsets: vec![0], ..GraphCsr::default() };
        let mut add = |vertex: u32| {
            for edge in self.list(vertex) {
                csr.targets.push(edge.target);
                if options.weights {
                    csr.weights.push(edge.weight);
                }
                if options.ids {
                    csr.ids.push(edge.id);
                }
                if options.times {
                    csr.times.push(edge.time);
                }
            }
            csr.offsets.push(csr.targets.len() as u64);
        };
        match listed {
            Listed::All => (0..self.vertices).for_each(|vertex| add(vertex as u32)),
            Listed::Some(vertices) => vertices.iter().for_each(|vertex| add(*vertex)),
        }
        Ok(csr)
    }

    /// All edges, in ascending order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Edge> {
        self.lists.values().flat_map(|list| list.iter())
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
        let mut rest: &[Edge] = &old;
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
            self.lists.insert(source, Arc::new(merged));
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
