//! Lists of neighbours, one after the other.

use super::Edge;

/// Adjacency lists of some vertices or of all: compressed sparse rows. The edges of list `i` are those from `offsets[i]` to
/// `offsets[i + 1]`, in ascending order of their targets.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GraphCsr {
    /// Where each list begins, and where the last one ends.
    pub offsets: Vec<u64>,
    /// The vertices that edges lead to.
    pub targets: Vec<u32>,
    /// Their weights; empty if the graph has none.
    pub weights: Vec<f32>,
    /// Their ids; empty if the graph has none.
    pub ids: Vec<u64>,
    /// Their times; empty if the graph has none.
    pub times: Vec<i64>,
}

impl GraphCsr {
    /// How many lists there are.
    pub fn lists(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// The targets of the edges of list `i`.
    ///
    /// # Panics
    /// If there is no such list.
    pub fn list(&self, i: usize) -> &[u32] {
        &self.targets[self.offsets[i] as usize..self.offsets[i + 1] as usize]
    }

    /// The edge at a position of `targets`, which belongs to this source.
    pub(super) fn edge(&self, source: u32, at: usize) -> Edge {
        let mut edge = Edge::new(source, self.targets[at]);
        edge.weight = self.weights.get(at).copied().unwrap_or(edge.weight);
        edge.id = self.ids.get(at).copied().unwrap_or(edge.id);
        edge.time = self.times.get(at).copied().unwrap_or(edge.time);
        edge
    }

    /// All edges, list by list, if list `i` is that of vertex `i`: coordinates (COO) in ascending order.
    pub fn edges(&self) -> impl Iterator<Item = Edge> + '_ {
        (0..self.lists()).flat_map(move |i| {
            (self.offsets[i]..self.offsets[i + 1]).map(move |at| self.edge(i as u32, at as usize))
        })
    }
}
