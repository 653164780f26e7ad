//! Parts of the model that only the tests on the simulator use.

use crate::model::{Model, Shape};

impl Shape {
    pub(crate) fn of(number: u32) -> Self {
        let bit = |at: u32| number >> at & 1 == 1;
        Self { undirected: bit(0), keeps_loops: bit(1), weights: bit(2), ids: bit(3), times: bit(4) }
    }
}

impl Model {
    pub(crate) fn delete_vertices(&mut self, vertices: &[u32]) -> u64 {
        let before = self.edge_count();
        self.edges.retain(|(source, target), _| !vertices.contains(source) && !vertices.contains(target));
        before - self.edge_count()
    }
}
