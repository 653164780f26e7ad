//! What a device keeps of a table in its own memory, and what that brings.

use serde::Serialize;

/// What a device keeps of a table in its own memory, and what that brings: [`Table::device_stats`](crate::Table::device_stats).
///
/// ```
/// use warpkeep::DeviceStats;
///
/// let stats = DeviceStats { mirror_bytes: 64 << 20, values: 1000, value_bytes: 144_000, ..DeviceStats::default() };
/// assert_eq!(stats.bytes(), (64 << 20) + 144_000);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceStats {
    /// The device.
    pub device: String,
    /// Bytes of the mirror: where the record of every key lies, and keys that are longer than their hashes.
    pub mirror_bytes: u64,
    /// Bytes of the bucket cache.
    pub bucket_bytes: u64,
    /// Buckets in the bucket cache.
    pub buckets: u64,
    /// The share of buckets asked for that were in it, from 0 to 1.
    pub bucket_hits: f64,
    /// Bytes of the value cache.
    pub value_bytes: u64,
    /// Values in the value cache, when it was last loaded.
    pub values: u64,
    /// The share of gets that it answered since, of keys that are there, from 0 to 1.
    pub value_hits: f64,
    /// Batches of gets in device memory whose values [the host](crate::StoreOptions::values_by) has gathered.
    pub gathered_batches: u64,
}

impl DeviceStats {
    /// All bytes that it keeps.
    pub fn bytes(&self) -> u64 {
        self.mirror_bytes + self.bucket_bytes + self.value_bytes
    }
}
