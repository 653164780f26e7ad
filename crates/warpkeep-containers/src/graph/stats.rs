//! Numbers about a graph.

use super::{Graph, Kind};
use crate::ContainerError;

/// Numbers about a [`Graph`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphStats {
    /// The largest vertex that an edge was inserted for, plus 1.
    pub vertices: u64,
    /// Edges. One of an undirected graph counts once.
    pub edges: u64,
    /// Edges that lead to their own source.
    pub loops: u64,
    /// Edges in lists: those of undirected graphs are in two, loops in one.
    pub entries: u64,
    /// Slots of blocks; 0 on the CPU, as all that follows.
    pub slots: u64,
    /// Slots of blocks that were left and wait for compaction.
    pub dead_slots: u64,
    /// How often blocks were compacted.
    pub compactions: u64,
    /// Bytes of device memory that the graph holds, without the columns of batches.
    pub bytes: u64,
}

impl Graph {
    /// Numbers about it. They are kept up to date by every call, and cost nothing.
    pub fn stats(&self) -> GraphStats {
        let count = |vertices, entries, loops| GraphStats {
            vertices,
            edges: if self.options.undirected { (entries + loops) / 2 } else { entries },
            loops,
            entries,
            slots: 0,
            dead_slots: 0,
            compactions: 0,
            bytes: 0,
        };
        match &self.kind {
            Kind::Device(graph) => {
                let storage = graph.read();
                GraphStats {
                    slots: storage.pool_end - storage.dead,
                    dead_slots: storage.dead,
                    compactions: storage.compactions,
                    bytes: storage.bytes(),
                    ..count(storage.vertices, storage.entries, storage.loops)
                }
            }
            Kind::Cpu(graph) => {
                let lists = graph.lock();
                count(lists.vertices, lists.entries, lists.loops)
            }
        }
    }

    /// Looks at every edge: lists are sorted, lie in blocks of their own and lead to vertices, edges of undirected graphs lead back with the same data, and all
    /// counts are exact.
    pub fn verify(&self) -> Result<(), ContainerError> {
        match &self.kind {
            Kind::Device(graph) => graph.verify(),
            Kind::Cpu(_) => Ok(()),
        }
    }
}
