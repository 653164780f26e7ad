//! Algorithms on a state of a graph: searches, components, triangles, core numbers and ranks.

use super::reading::{Reading, State};
use crate::ContainerError;

/// Units of ranks.
pub(super) const RANKS: u64 = 1 << 60;

/// Ranks of vertices, and how they were reached.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PageRanks {
    /// The rank of each vertex. They sum up to 1, but for rounding.
    pub ranks: Vec<f64>,
    /// The rounds that were done.
    pub rounds: u32,
    /// The sum over all vertices of how much their ranks changed in the last round. 2 if there was no round.
    pub change: f64,
}

/// When ranks are good enough.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ranking {
    /// In units of 2^-64.
    pub(super) damping: u64,
    pub(super) most_rounds: u32,
    /// No rounds follow one that changes no more than this; `None` if all are done.
    pub(super) least_change: Option<u64>,
}

impl Reading<'_> {
    pub(super) fn bfs(&self, sources: &[u32]) -> Result<Vec<u32>, ContainerError> {
        match &self.state {
            State::Device(graph, view) => Ok(graph.bfs(sources, view)?),
            State::Cpu(lists) => Ok(lists.bfs(sources)),
        }
    }

    pub(super) fn components(&self) -> Result<Vec<u32>, ContainerError> {
        match &self.state {
            State::Device(graph, view) => Ok(graph.components(view)?),
            State::Cpu(lists) => Ok(lists.components()),
        }
    }

    pub(super) fn triangles(&self) -> Result<u64, ContainerError> {
        self.undirected("triangles")?;
        match &self.state {
            State::Device(graph, view) => Ok(graph.triangles(view)?),
            State::Cpu(lists) => Ok(lists.triangles()),
        }
    }

    pub(super) fn core_numbers(&self) -> Result<Vec<u32>, ContainerError> {
        self.undirected("core_numbers")?;
        match &self.state {
            State::Device(graph, view) => Ok(graph.core_numbers(view)?),
            State::Cpu(lists) => Ok(lists.core_numbers()),
        }
    }

    /// Ranks after some rounds. Without `tolerance` all of them are done.
    pub(super) fn pagerank(
        &self,
        from: &[f64],
        damping: f64,
        tolerance: Option<f64>,
        most_rounds: u32,
    ) -> Result<PageRanks, ContainerError> {
        let ranking = Ranking {
            // Not a number is 0.
            damping: (damping.clamp(0.0, 1.0) * 2_f64.powi(64)) as u64,
            most_rounds,
            least_change: tolerance.map(|tolerance| (tolerance.clamp(0.0, 2.0) * RANKS as f64) as u64),
        };
        let first = first_ranks(from, self.vertices())?;
        let (ranks, rounds, change) = match &self.state {
            State::Device(graph, view) => graph.pagerank(first, &ranking, view)?,
            State::Cpu(lists) => lists.pagerank(first, &ranking),
        };
        let share = |rank: u64| rank as f64 / RANKS as f64;
        Ok(PageRanks { ranks: ranks.into_iter().map(share).collect(), rounds, change: share(change) })
    }

    fn undirected(&self, call: &'static str) -> Result<(), ContainerError> {
        if self.options.undirected { Ok(()) } else { Err(ContainerError::Directed { call }) }
    }
}

/// The ranks that a graph with this number of vertices begins with. Vertices without one have that of equal ranks.
fn first_ranks(from: &[f64], vertices: u64) -> Result<Vec<u64>, ContainerError> {
    let equal = RANKS / vertices.max(1);
    if from.is_empty() {
        return Ok(vec![equal; vertices as usize]);
    }
    if from.len() as u64 > vertices {
        let what = format!("{} ranks were given, and the graph has {vertices} vertices", from.len());
        return Err(ContainerError::BadRanks { what });
    }
    if let Some(at) = from.iter().position(|rank| !rank.is_finite() || *rank < 0.0) {
        return Err(ContainerError::BadRanks { what: format!("the rank of vertex {at} is {}", from[at]) });
    }
    let missing = (vertices - from.len() as u64) as f64 / vertices as f64;
    let sum: f64 = from.iter().sum::<f64>() + missing;
    if sum == 0.0 || !sum.is_finite() {
        return Err(ContainerError::BadRanks { what: format!("the sum of all ranks is {sum}") });
    }
    let rank = |at: usize| from.get(at).copied().unwrap_or(1.0 / vertices as f64);
    Ok((0..vertices as usize).map(|at| (rank(at) / sum * RANKS as f64) as u64).collect())
}

/// The least rank of a vertex in a graph with this number of vertices.
pub(super) fn base_rank(damping: u64, vertices: u64) -> u64 {
    (RANKS - damped(damping, RANKS)) / vertices.max(1)
}

pub(super) fn damped(damping: u64, rank: u64) -> u64 {
    ((u128::from(damping) * u128::from(rank)) >> 64) as u64
}
