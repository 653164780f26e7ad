//! Numbers about an index.

use super::{CuckooIndex, Kind};
use crate::ContainerError;

/// Numbers about a [`CuckooIndex`].
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct CuckooIndexStats {
    /// Entries.
    pub items: u64,
    /// Buckets of eight cells.
    pub buckets: u64,
    /// Entries that there are cells for.
    pub cells: u64,
    /// The share of the cells that have an entry.
    pub load: f64,
    /// Bytes of device memory that the index holds, without the columns of batches; 0 on the CPU.
    pub bytes: u64,
}

impl CuckooIndex {
    /// Numbers about it; costs one read of a word.
    pub fn stats(&self) -> Result<CuckooIndexStats, ContainerError> {
        let bytes = match &self.kind {
            Kind::Device(index) => {
                let table = index.read();
                (table.cells.len() + table.control.len()) as u64
            }
            Kind::Cpu(_) => 0,
        };
        let (items, layout) = (self.len()?, self.layout());
        let cells = layout.cells();
        let load = items as f64 / cells as f64;
        Ok(CuckooIndexStats { items, buckets: layout.buckets(), cells, load, bytes })
    }
}
