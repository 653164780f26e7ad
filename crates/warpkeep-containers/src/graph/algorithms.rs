//! Algorithms on a graph as it is now: searches, components, triangles and ranks.

use std::collections::VecDeque;

use super::cpu::CpuLists;
use super::{Graph, Kind};
use crate::ContainerError;

/// Units of ranks.
pub(super) const RANKS: u64 = 1 << 60;

impl Graph {
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
        match &self.kind {
            Kind::Device(graph) => Ok(graph.bfs(sources)?),
            Kind::Cpu(graph) => Ok(bfs(&graph.lock(), sources)),
        }
    }

    /// The smallest vertex of the component of each vertex. Directions of edges do not matter: components of directed graphs are the weakly connected ones.
    pub fn components(&self) -> Result<Vec<u32>, ContainerError> {
        match &self.kind {
            Kind::Device(graph) => Ok(graph.components()?),
            Kind::Cpu(graph) => Ok(components(&graph.lock())),
        }
    }

    /// How many triangles an undirected graph has, by intersections of its sorted lists.
    ///
    /// # Errors
    /// [`ContainerError::Directed`] if the graph is directed.
    pub fn triangles(&self) -> Result<u64, ContainerError> {
        if !self.options.undirected {
            return Err(ContainerError::Directed { call: "triangles" });
        }
        match &self.kind {
            Kind::Device(graph) => Ok(graph.triangles()?),
            Kind::Cpu(graph) => Ok(triangles(&graph.lock())),
        }
    }

    /// PageRank after `rounds` rounds from equal ranks, which sum up to 1. Vertices without edges share their rank among all. The arithmetic is of whole numbers in units of
    /// 2^-60, so that every device and the CPU give the same ranks. `damping` is taken between 0 and 1; 0.85 is usual.
    pub fn pagerank(&self, damping: f64, rounds: u32) -> Result<Vec<f64>, ContainerError> {
        // Not a number is 0.
        let damping = (damping.clamp(0.0, 1.0) * 2_f64.powi(64)) as u64;
        let ranks = match &self.kind {
            Kind::Device(graph) => graph.pagerank(damping, rounds)?,
            Kind::Cpu(graph) => pagerank(&graph.lock(), damping, rounds),
        };
        Ok(ranks.into_iter().map(|rank| rank as f64 / RANKS as f64).collect())
    }
}

/// The least rank of a vertex in a graph with this number of vertices.
pub(super) fn base_rank(damping: u64, vertices: u64) -> u64 {
    (RANKS - damped(damping, RANKS)) / vertices.max(1)
}

fn damped(damping: u64, rank: u64) -> u64 {
    ((u128::from(damping) * u128::from(rank)) >> 64) as u64
}

fn bfs(lists: &CpuLists, sources: &[u32]) -> Vec<u32> {
    let mut levels = vec![u32::MAX; lists.vertices as usize];
    let mut waiting = VecDeque::new();
    for source in sources {
        if let Some(level) = levels.get_mut(*source as usize).filter(|level| **level != 0) {
            *level = 0;
            waiting.push_back(*source);
        }
    }
    while let Some(vertex) = waiting.pop_front() {
        let next = levels[vertex as usize] + 1;
        for edge in lists.list(vertex) {
            let level = &mut levels[edge.target as usize];
            if *level == u32::MAX {
                *level = next;
                waiting.push_back(edge.target);
            }
        }
    }
    levels
}

fn components(lists: &CpuLists) -> Vec<u32> {
    let mut parents: Vec<u32> = (0..lists.vertices as u32).collect();
    fn root(parents: &mut [u32], mut vertex: u32) -> u32 {
        while parents[vertex as usize] != vertex {
            // Each vertex on the way skips its parent.
            let parent = parents[vertex as usize];
            parents[vertex as usize] = parents[parent as usize];
            vertex = parent;
        }
        vertex
    }
    for edge in lists.all() {
        let (one, two) = (root(&mut parents, edge.source), root(&mut parents, edge.target));
        parents[one.max(two) as usize] = one.min(two);
    }
    (0..lists.vertices as u32).map(|vertex| root(&mut parents, vertex)).collect()
}

fn triangles(lists: &CpuLists) -> u64 {
    let above = |vertex: u32, limit: u32| {
        let list = lists.list(vertex);
        &list[list.partition_point(|edge| edge.target <= limit)..]
    };
    let common = |source: u32, target: u32| {
        let (mut one, mut two) = (above(source, target), above(target, target));
        let mut count = 0;
        while let (Some(a), Some(b)) = (one.first(), two.first()) {
            count += u64::from(a.target == b.target);
            if a.target <= b.target {
                one = &one[1..];
            }
            if b.target <= a.target {
                two = &two[1..];
            }
        }
        count
    };
    let upwards = lists.all().filter(|edge| edge.source < edge.target);
    upwards.map(|edge| common(edge.source, edge.target)).sum()
}

fn pagerank(lists: &CpuLists, damping: u64, rounds: u32) -> Vec<u64> {
    let vertices = lists.vertices;
    let base = base_rank(damping, vertices);
    let mut ranks = vec![RANKS / vertices.max(1); vertices as usize];
    for _ in 0..rounds {
        let (mut sums, mut dangling) = (vec![0_u64; vertices as usize], 0);
        for (vertex, rank) in ranks.iter().enumerate() {
            let list = lists.list(vertex as u32);
            if list.is_empty() {
                dangling += rank;
            }
            list.iter().for_each(|edge| sums[edge.target as usize] += rank / list.len() as u64);
        }
        for (rank, sum) in ranks.iter_mut().zip(sums) {
            *rank = base + damped(damping, sum + dangling / vertices);
        }
    }
    ranks
}
