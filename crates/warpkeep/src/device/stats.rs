//! What a device keeps of a table in its own memory, and its hit rates.

use serde::Serialize;

/// What a device keeps of a table in its own memory, and its hit rates:
/// [`Table::device_stats`](crate::Table::device_stats).
///
/// ```
/// use warpkeep::DeviceStats;
///
/// let stats = DeviceStats { index_bytes: 64 << 20, values: 1000, value_bytes: 144_000, ..DeviceStats::default() };
/// assert_eq!(stats.bytes(), (64 << 20) + 144_000);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceStats {
    /// The device.
    pub device: String,
    /// Bytes of the index: where the record of every key lies, and keys that are longer than their hashes.
    pub index_bytes: u64,
    /// Bytes of the value cache.
    pub value_bytes: u64,
    /// Values in the value cache, when it was last loaded.
    pub values: u64,
    /// The share of gets of existing keys that the cache has answered since, from 0 to 1.
    pub value_hits: f64,
}

impl DeviceStats {
    /// All bytes that it keeps.
    pub fn bytes(&self) -> u64 {
        self.index_bytes + self.value_bytes
    }
}
