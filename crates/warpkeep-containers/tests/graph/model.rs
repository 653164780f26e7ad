//! What operations on a graph answer and leave, on a plain map.

use std::collections::BTreeMap;

use warpkeep_containers::{
    ContainerError, Edge, EdgeOp, EdgeOpKind, EdgeStatus, Graph, GraphCsr, GraphOptions,
};
use warpkeep_suites::device::Dice;

/// All options that matter to the contents. `Default` is what the suites start with.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Shape {
    pub(crate) undirected: bool,
    pub(crate) keeps_loops: bool,
    pub(crate) weights: bool,
    pub(crate) ids: bool,
    pub(crate) times: bool,
}

impl Shape {
    pub(crate) fn options(self) -> GraphOptions {
        let mut options = GraphOptions::default();
        if self.undirected {
            options = options.undirected();
        }
        if self.keeps_loops {
            options = options.keep_loops();
        }
        if self.weights {
            options = options.weights();
        }
        if self.ids {
            options = options.ids();
        }
        if self.times {
            options = options.times();
        }
        options
    }
}

/// A map from (source, target) to the edge; undirected edges are there in both directions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) shape: Shape,
    pub(crate) edges: BTreeMap<(u32, u32), Edge>,
    pub(crate) vertices: u64,
}

impl Model {
    pub(crate) fn new(shape: Shape) -> Self {
        Self { shape, ..Self::default() }
    }

    /// What the operation answers; the model is as it leaves it.
    pub(crate) fn apply(&mut self, op: EdgeOp) -> EdgeStatus {
        let (edge, shape) = (op.edge, self.shape);
        if edge.source == edge.target && !shape.keeps_loops {
            return EdgeStatus::Loop;
        }
        let mut stored = Edge::new(edge.source, edge.target);
        stored.weight = if shape.weights { edge.weight } else { stored.weight };
        stored.id = if shape.ids { edge.id } else { stored.id };
        stored.time = if shape.times { edge.time } else { stored.time };
        let was = self.edges.contains_key(&(edge.source, edge.target));
        let directions = if shape.undirected { vec![stored, stored.reversed()] } else { vec![stored] };
        for stored in directions {
            let key = (stored.source, stored.target);
            match op.kind {
                EdgeOpKind::Insert => self.edges.insert(key, stored),
                EdgeOpKind::Delete => self.edges.remove(&key),
            };
        }
        match (op.kind, was) {
            (EdgeOpKind::Insert, was) => {
                self.vertices = self.vertices.max(u64::from(edge.source.max(edge.target)) + 1);
                if was { EdgeStatus::Updated } else { EdgeStatus::Inserted }
            }
            (EdgeOpKind::Delete, true) => EdgeStatus::Deleted,
            (EdgeOpKind::Delete, false) => EdgeStatus::Absent,
        }
    }

    pub(crate) fn edge_count(&self) -> u64 {
        let once = |(source, target): &&(u32, u32)| !self.shape.undirected || source <= target;
        self.edges.keys().filter(once).count() as u64
    }

    /// Compressed rows of all vertices, made from scratch.
    pub(crate) fn csr(&self) -> GraphCsr {
        let mut csr = GraphCsr { offsets: vec![0], ..GraphCsr::default() };
        for vertex in 0..self.vertices as u32 {
            for edge in self.edges.range((vertex, 0)..=(vertex, u32::MAX)).map(|(_, edge)| edge) {
                csr.targets.push(edge.target);
                if self.shape.weights {
                    csr.weights.push(edge.weight);
                }
                if self.shape.ids {
                    csr.ids.push(edge.id);
                }
                if self.shape.times {
                    csr.times.push(edge.time);
                }
            }
            csr.offsets.push(csr.targets.len() as u64);
        }
        csr
    }
}

/// An error unless the graph has these edges and is consistent.
pub(crate) fn check_contents(graph: &Graph, model: &Model) -> Result<(), ContainerError> {
    let wrong = |what: String| Err(ContainerError::Inconsistent { what });
    graph.verify()?;
    let (found, right) = (graph.csr()?, model.csr());
    if found != right {
        return wrong(format!("there is {found:?}, and not {right:?}"));
    }
    if (graph.edge_count(), graph.vertex_count()) != (model.edge_count(), model.vertices) {
        let (edges, vertices) = (graph.edge_count(), graph.vertex_count());
        return wrong(format!("{edges} edges of {vertices} vertices, and not {}", model.edge_count()));
    }
    let mut asked: Vec<(u32, u32)> = model.edges.keys().copied().collect();
    asked.extend(model.edges.keys().map(|(source, target)| (*source, target ^ 1)));
    asked.extend([(0, u32::MAX), (u32::MAX, 0), (1 << 30, 5)]);
    let there: Vec<bool> = asked.iter().map(|edge| model.edges.contains_key(edge)).collect();
    if graph.edges_exist(&asked)? != there {
        return wrong("lookups of edges do not agree with the lists".to_owned());
    }
    Ok(())
}

pub(crate) fn random_op(dice: &mut Dice, vertices: u64) -> EdgeOp {
    // Some vertices are in many edges.
    let mut vertex = || match dice.below(3) {
        0 => dice.below(3) as u32,
        _ => dice.below(vertices) as u32,
    };
    let (source, target) = (vertex(), vertex());
    if dice.below(3) == 0 {
        return EdgeOp::delete(source, target);
    }
    let edge = Edge::new(source, target).weight(dice.below(50) as f32 / 8.0);
    EdgeOp::insert(edge.id(dice.below(1 << 20)).time(dice.below(100) as i64 - 50))
}

pub(crate) fn check_answers(
    model: &mut Model,
    batch: &[EdgeOp],
    answers: &[EdgeStatus],
) -> Result<(), String> {
    for (at, (op, answer)) in batch.iter().zip(answers).enumerate() {
        let right = model.apply(*op);
        if *answer != right {
            return Err(format!("operation {at}, {op:?}, was answered {answer:?} and not {right:?}"));
        }
    }
    Ok(())
}
