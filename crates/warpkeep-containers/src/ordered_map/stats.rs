//! Numbers about a map.

use warpkeep_device::{Result, Stream};

use super::kernels::LEAF_PAIRS;
use super::key::{OrderedKey, OrderedWord};
use super::retired::SweepColumns;
use super::tree::{Tree, Writer};
use super::{Kind, OrderedMap};
use crate::ContainerError;

/// Numbers about an [`OrderedMap`]. On the CPU there are only items.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct OrderedMapStats {
    /// Keys.
    pub items: u64,
    /// Leaves of the newest state.
    pub leaves: u64,
    /// The share of their places that have a pair.
    pub load: f64,
    /// Leaves that are kept for snapshots alone.
    pub retired_leaves: u64,
    /// Leaves that are free for the next batches.
    pub free_leaves: u64,
    /// Bytes of device memory that leaves, directories and snapshots take, without the columns of batches.
    pub bytes: u64,
    /// Bytes up to which the leaves can grow.
    pub most_bytes: u64,
    /// The states before the newest one that snapshots or running reads keep, the oldest first.
    pub pins: Vec<OrderedPin>,
}

/// A state that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OrderedPin {
    /// Its number: how many batches had changed the map.
    pub version: u64,
    /// Its keys.
    pub items: u64,
    /// Bytes of its directory, and of leaves that it needs and the newest state does not. Other states may need the same leaves.
    pub bytes: u64,
}

impl<K: OrderedKey<V>, V: OrderedWord> OrderedMap<K, V> {
    /// Numbers about it. Frees what dropped snapshots have kept, so waits for the batch that changes the map.
    pub fn stats(&self) -> Result<OrderedMapStats, ContainerError> {
        match &self.0 {
            Kind::Device(tree) => Ok(tree.stats()?),
            Kind::Cpu(map) => {
                Ok(OrderedMapStats { items: map.current().len() as u64, ..OrderedMapStats::default() })
            }
        }
    }
}

impl Tree {
    fn stats(&self) -> Result<OrderedMapStats> {
        let mut workspace = self.workspaces.take(&self.device)?;
        let (sweep, stream) = (&mut workspace.columns.sweep, &workspace.stream);
        let stats = self.writing(stream, |writer| self.stats_of(writer, sweep, stream))?;
        self.workspaces.put_back(workspace);
        Ok(stats)
    }

    fn stats_of(
        &self,
        writer: &mut Writer,
        sweep: &mut SweepColumns,
        stream: &Stream,
    ) -> Result<OrderedMapStats> {
        self.collect(writer, sweep, stream)?;
        let mut versions = writer.versions();
        let newest = self.current();
        versions.retain(|version| version.number < newest.number);
        let numbers: Vec<u64> = versions.iter().map(|version| version.number).collect();
        let (pool, kernels) = (&writer.pool, &self.kernels);
        let held = pool.retired.held_by(&numbers, pool.sweep_to(), kernels, sweep, &self.device, stream)?;
        let leaf_bytes = self.shape.leaf_bytes() as u64;
        let pins = versions.iter().zip(held).map(|(version, held)| OrderedPin {
            version: version.number,
            items: version.length,
            bytes: version.bytes() + held * leaf_bytes,
        });
        let leaves = newest.layout.leaf_count;
        let directories: u64 = versions.iter().map(|version| version.bytes()).sum();
        Ok(OrderedMapStats {
            items: newest.length,
            leaves,
            load: newest.length as f64 / (leaves.max(1) * u64::from(LEAF_PAIRS)) as f64,
            retired_leaves: writer.pool.retired.count(),
            free_leaves: writer.pool.state.free,
            bytes: writer.pool.bytes() + self.directories.bytes() + newest.bytes() + directories,
            most_bytes: writer.pool.most_bytes(),
            pins: pins.collect(),
        })
    }
}
