//! Edges, the operations of a batch on them, and their answers.

use bytemuck::CheckedBitPattern;

/// An edge with its data. A graph keeps of the data what its [options](super::GraphOptions) name; the rest is as [`Edge::new`] has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Edge {
    /// The vertex that it leaves.
    pub source: u32,
    /// The vertex that it comes to.
    pub target: u32,
    /// Its weight, 1 by default.
    pub weight: f32,
    /// A number of the caller, 0 by default.
    pub id: u64,
    /// A time in any unit, 0 by default.
    pub time: i64,
}

impl Edge {
    /// An edge without data.
    pub fn new(source: u32, target: u32) -> Self {
        Self { source, target, weight: 1.0, id: 0, time: 0 }
    }

    /// The same edge with a weight.
    #[must_use]
    pub fn weight(self, weight: f32) -> Self {
        Self { weight, ..self }
    }

    /// The same edge with a number of the caller.
    #[must_use]
    pub fn id(self, id: u64) -> Self {
        Self { id, ..self }
    }

    /// The same edge with a time.
    #[must_use]
    pub fn time(self, time: i64) -> Self {
        Self { time, ..self }
    }

    /// The same edge in the other direction.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self { source: self.target, target: self.source, ..self }
    }

    pub(super) fn is_loop(&self) -> bool {
        self.source == self.target
    }
}

/// What an operation does with its edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, bytemuck::NoUninit, CheckedBitPattern)]
#[repr(u8)]
pub enum EdgeOpKind {
    /// Adds the edge, or replaces its data.
    Insert = 0,
    /// Removes the edge.
    Delete = 1,
}

/// One operation of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EdgeOp {
    /// What it does.
    pub kind: EdgeOpKind,
    /// The edge; its data matters to [`EdgeOpKind::Insert`] alone.
    pub edge: Edge,
}

impl EdgeOp {
    /// Adds an edge, or replaces its data.
    pub fn insert(edge: Edge) -> Self {
        Self { kind: EdgeOpKind::Insert, edge }
    }

    /// Removes an edge.
    pub fn delete(source: u32, target: u32) -> Self {
        Self { kind: EdgeOpKind::Delete, edge: Edge::new(source, target) }
    }
}

/// What came of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, bytemuck::NoUninit, CheckedBitPattern)]
#[repr(u8)]
pub enum EdgeStatus {
    /// The edge is new.
    Inserted = 1,
    /// The edge was there, and has the new data.
    Updated = 2,
    /// The edge was there, and is gone.
    Deleted = 3,
    /// The edge was not there.
    Absent = 4,
    /// The edge leads to its own source, and the graph has no such edges.
    Loop = 5,
}
