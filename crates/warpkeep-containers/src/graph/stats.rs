//! Numbers about a graph.

use std::sync::Arc;

use super::pins::Pin;
use super::{Graph, Kind};
use crate::ContainerError;

/// Numbers about a [`Graph`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphStats {
    /// The largest vertex that an edge was inserted for, or that was made, plus 1.
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
    /// Bytes of device memory that the graph holds, with the vertex records of snapshots and without the columns of batches.
    pub bytes: u64,
    /// States that snapshots keep. [`Graph::pins`] lists them.
    pub pins: u64,
}

/// A state of a graph that snapshots keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphPin {
    /// Its number: how many calls had changed the graph.
    pub version: u64,
    /// Its vertices.
    pub vertices: u64,
    /// Its edges in lists.
    pub entries: u64,
    /// Slots of blocks that it needs and the graph does not have any more. Other states may need the same blocks.
    pub slots: u64,
    /// Bytes of its vertex records and of those slots.
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
            pins: 0,
        };
        match &self.kind {
            Kind::Device(graph) => {
                let (storage, pins) = (graph.read(), graph.pins.live());
                GraphStats {
                    slots: storage.pool_end - storage.dead,
                    dead_slots: storage.dead,
                    compactions: storage.compactions,
                    bytes: storage.bytes() + pins.iter().map(|pin| pin.record_bytes()).sum::<u64>(),
                    pins: pins.len() as u64,
                    ..count(storage.vertices, storage.entries, storage.loops)
                }
            }
            Kind::Cpu(graph) => {
                let lists = graph.current();
                count(lists.vertices, lists.entries, lists.loops)
            }
        }
    }

    /// The states that snapshots keep, the oldest first, and what each holds. None on the CPU, where lists are shared.
    pub fn pins(&self) -> Result<Vec<GraphPin>, ContainerError> {
        let Kind::Device(graph) = &self.kind else { return Ok(Vec::new()) };
        let held = graph.held_by_pins()?;
        let slot_bytes = graph.read().slot_bytes();
        let pin = |(pin, slots): (Arc<Pin>, u64)| GraphPin {
            version: pin.version,
            vertices: pin.view.vertices(),
            entries: pin.view.entries,
            slots,
            bytes: pin.record_bytes() + slots * slot_bytes,
        };
        Ok(held.into_iter().map(pin).collect())
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
