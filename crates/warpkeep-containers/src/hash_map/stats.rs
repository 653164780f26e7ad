//! Numbers about a map.

use super::{HashMap, Kind, MapKey, MapValue};
use crate::ContainerError;

/// Numbers about a [`HashMap`].
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct HashMapStats {
    /// Keys.
    pub items: u64,
    /// Buckets; 0 on the CPU.
    pub buckets: u64,
    /// Keys that there are slots for.
    pub slots: u64,
    /// The share of the slots that have a key.
    pub load: f64,
    /// Bytes of device memory that the map holds, without the columns of batches.
    pub bytes: u64,
    /// Bytes up to which slots and values can grow without moving.
    pub most_bytes: u64,
}

impl<K: MapKey, V: MapValue> HashMap<K, V> {
    /// Numbers about it; costs one read of a word.
    pub fn stats(&self) -> Result<HashMapStats, ContainerError> {
        let (items, buckets, slots, bytes, most_bytes) = match &self.kind {
            Kind::Device(map) => {
                let table = map.read()?;
                let (bytes, most) = (table.backed() as u64, table.most_bytes());
                (table.len()?, table.buckets(), table.capacity(), bytes, most)
            }
            Kind::Cpu(map) => {
                let map = map.lock();
                (map.len() as u64, 0, map.capacity() as u64, 0, 0)
            }
        };
        let load = if slots == 0 { 0.0 } else { items as f64 / slots as f64 };
        Ok(HashMapStats { items, buckets, slots, load, bytes, most_bytes })
    }

    /// Looks at every slot: each key can be found, none is there twice, and the length is exact. Gives the number of keys that are in
    /// their second bucket, whose lookups take two accesses.
    pub fn verify(&self) -> Result<u64, ContainerError> {
        match &self.kind {
            Kind::Device(map) => map.verify(),
            Kind::Cpu(_) => Ok(0),
        }
    }
}
