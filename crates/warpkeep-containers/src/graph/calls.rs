//! Algorithms on a graph as it is now, and the count of triangles that follows its batches.

use warpkeep_device::{Buffer, Stream};

use super::algorithms::PageRanks;
use super::columns::HostBatch;
use super::edge::{EdgeOp, EdgeStatus};
use super::{DeviceEdgeOps, Graph, Kind, staged};
use crate::ContainerError;

/// By how many triangles a batch changed their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TriangleChange {
    /// Triangles that there are now and were not before.
    pub gained: u64,
    /// Triangles that there were before and are not now.
    pub lost: u64,
}

impl TriangleChange {
    /// The number of triangles after the batch, given the number before it.
    ///
    /// ```
    /// use warpkeep_containers::{Edge, EdgeOp, Graph, GraphOptions};
    ///
    /// let graph = Graph::on_cpu(&GraphOptions::default().undirected());
    /// graph.insert_edges(&[Edge::new(0, 1), Edge::new(1, 2)])?;
    /// let mut triangles = graph.triangles()?;
    /// let (_, change) = graph.apply_counting_triangles(&[EdgeOp::insert(Edge::new(2, 0))])?;
    /// triangles = change.after(triangles);
    /// assert_eq!((triangles, change.gained), (1, 1));
    /// # Ok::<(), warpkeep_containers::ContainerError>(())
    /// ```
    pub fn after(&self, before: u64) -> u64 {
        before.wrapping_add(self.gained).wrapping_sub(self.lost)
    }
}

impl Graph {
    /// As [`apply`](Self::apply), and by how many triangles the batch changes their number. Only the lists of changed edges are looked at.
    ///
    /// # Errors
    /// [`ContainerError::Directed`] if the graph is directed, and those of `apply`; nothing is changed then.
    pub fn apply_counting_triangles(
        &self,
        ops: &[EdgeOp],
    ) -> Result<(Vec<EdgeStatus>, TriangleChange), ContainerError> {
        self.check_undirected("apply_counting_triangles")?;
        let (batch, mut change) = (HostBatch::Each(ops), TriangleChange::default());
        match &self.kind {
            Kind::Device(graph) => Ok((graph.run(&batch, Some(&mut change))?, change)),
            Kind::Cpu(graph) => {
                self.check_vertices(&batch)?;
                Ok(graph.run_counting(&batch))
            }
        }
    }

    /// As [`apply_on`](Self::apply_on), and by how many triangles the batch changes their number.
    ///
    /// # Errors
    /// [`ContainerError::Directed`] if the graph is directed, and those of `apply_on`; nothing is changed then.
    pub fn apply_counting_triangles_on(
        &self,
        ops: DeviceEdgeOps<'_>,
        statuses: &mut Buffer,
        stream: &Stream,
    ) -> Result<TriangleChange, ContainerError> {
        let graph = self.on_device("apply_counting_triangles_on")?;
        self.check_undirected("apply_counting_triangles_on")?;
        let (staged, mut change) = (staged(&ops, statuses, &graph.device)?, TriangleChange::default());
        // SAFETY: as in `apply_on`.
        unsafe { graph.run_staged(&staged, Some(&mut change), stream)? };
        Ok(change)
    }

    fn check_undirected(&self, call: &'static str) -> Result<(), ContainerError> {
        if self.options.undirected { Ok(()) } else { Err(ContainerError::Directed { call }) }
    }

    /// How many edges lead from the nearest of these vertices to each vertex of the graph, at least; `u32::MAX` where no path leads. Breadth-first search, one launch a level.
    ///
    /// ```
    /// use warpkeep_containers::{Edge, Graph, GraphOptions};
    ///
    /// let graph = Graph::on_cpu(&GraphOptions::default());
    /// graph.insert_edges(&[Edge::new(0, 1), Edge::new(1, 3), Edge::new(3, 0), Edge::new(2, 3)])?;
    /// assert_eq!(graph.bfs(&[0])?, [0, 1, u32::MAX, 2]);
    /// # Ok::<(), warpkeep_containers::ContainerError>(())
    /// ```
    pub fn bfs(&self, sources: &[u32]) -> Result<Vec<u32>, ContainerError> {
        self.reading().bfs(sources)
    }

    /// The smallest vertex of the component of each vertex. Directions of edges do not matter: components of directed graphs are the weakly connected ones.
    pub fn components(&self) -> Result<Vec<u32>, ContainerError> {
        self.reading().components()
    }

    /// How many triangles an undirected graph has, by intersections of lists. Loops belong to none.
    ///
    /// # Errors
    /// [`ContainerError::Directed`] if the graph is directed.
    pub fn triangles(&self) -> Result<u64, ContainerError> {
        self.reading().triangles()
    }

    /// The core number of each vertex of an undirected graph: the largest k for which it belongs to a part of the graph in which all vertices have k neighbours or
    /// more. Loops do not count.
    ///
    /// ```
    /// use warpkeep_containers::{Edge, Graph, GraphOptions};
    ///
    /// let graph = Graph::on_cpu(&GraphOptions::default().undirected());
    /// graph.insert_edges(&[Edge::new(0, 1), Edge::new(1, 2), Edge::new(2, 0), Edge::new(2, 4)])?;
    /// assert_eq!(graph.core_numbers()?, [2, 2, 2, 0, 1]);
    /// # Ok::<(), warpkeep_containers::ContainerError>(())
    /// ```
    ///
    /// # Errors
    /// [`ContainerError::Directed`] if the graph is directed.
    pub fn core_numbers(&self) -> Result<Vec<u32>, ContainerError> {
        self.reading().core_numbers()
    }

    /// PageRank after `rounds` rounds from equal ranks, which sum up to 1. Vertices without edges share their rank among all. The arithmetic is of whole numbers in units of
    /// 2^-60, so that every device and the CPU give the same ranks. `damping` is taken between 0 and 1; 0.85 is usual.
    pub fn pagerank(&self, damping: f64, rounds: u32) -> Result<Vec<f64>, ContainerError> {
        self.pagerank_from(&[], damping, rounds)
    }

    /// As [`pagerank`](Self::pagerank), from other ranks than equal ones: those of an earlier call, before some batches, are nearer to the result. They are scaled to sum up to 1;
    /// vertices without one, which were added since, begin with that of equal ranks.
    ///
    /// # Errors
    /// [`ContainerError::BadRanks`] if one is negative or no number, if all are 0, or if there are more than vertices.
    pub fn pagerank_from(
        &self,
        ranks: &[f64],
        damping: f64,
        rounds: u32,
    ) -> Result<Vec<f64>, ContainerError> {
        Ok(self.reading().pagerank(ranks, damping, None, rounds)?.ranks)
    }

    /// As [`pagerank_from`](Self::pagerank_from), until a round changes all ranks together by no more than `tolerance`, or `most_rounds` are done. No ranks stand for equal ones.
    ///
    /// ```
    /// use warpkeep_containers::{Edge, Graph, GraphOptions};
    ///
    /// let graph = Graph::on_cpu(&GraphOptions::default());
    /// graph.insert_edges(&[Edge::new(0, 1), Edge::new(1, 2), Edge::new(2, 0), Edge::new(2, 1)])?;
    /// let before = graph.pagerank_until(&[], 0.85, 1e-9, 200)?;
    /// let again = graph.pagerank_until(&before.ranks, 0.85, 1e-9, 200)?;
    /// assert!(before.rounds > 10 && again.rounds <= 2);
    /// # Ok::<(), warpkeep_containers::ContainerError>(())
    /// ```
    ///
    /// # Errors
    /// As `pagerank_from`.
    pub fn pagerank_until(
        &self,
        ranks: &[f64],
        damping: f64,
        tolerance: f64,
        most_rounds: u32,
    ) -> Result<PageRanks, ContainerError> {
        self.reading().pagerank(ranks, damping, Some(tolerance), most_rounds)
    }
}
