//! The bytes of a file with a hash that follows them sector by sector.

use std::sync::Arc;

use crate::hash;
use crate::model::SECTOR;

/// Bytes that are shared until they are changed.
#[derive(Clone, Default)]
pub(crate) struct Content {
    bytes: Arc<Vec<u8>>,
    /// Each sector's contribution to the hash.
    sectors: Vec<u64>,
    /// XOR of the above.
    sum: u64,
}

/// The contribution of sector `index` with these bytes to the hash of a file.
pub(crate) fn sector_hash(index: u64, bytes: &[u8]) -> u64 {
    hash::of((index, bytes))
}

/// The hash of a file, from the XOR over its sectors.
pub(crate) fn file_hash(len: u64, sum: u64) -> u64 {
    hash::of((len, sum))
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(crate) fn shared(&self) -> Arc<Vec<u8>> {
        Arc::clone(&self.bytes)
    }

    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }

    pub(crate) fn hash(&self) -> u64 {
        file_hash(self.len(), self.sum)
    }

    /// A sector's contribution to the hash; none beyond the end.
    pub(crate) fn sector_hash(&self, index: u64) -> u64 {
        self.sectors.get(index as usize).copied().unwrap_or(0)
    }

    /// A sector's bytes, zeros where the file has none.
    pub(crate) fn sector(&self, index: u64) -> [u8; SECTOR as usize] {
        let mut sector = [0; SECTOR as usize];
        let start = ((index * SECTOR) as usize).min(self.bytes.len());
        let end = (start + SECTOR as usize).min(self.bytes.len());
        sector[..end - start].copy_from_slice(&self.bytes[start..end]);
        sector
    }

    /// Cuts, or extends with zeros.
    pub(crate) fn resize(&mut self, len: u64) {
        let old = self.len();
        if old == len {
            return;
        }
        Arc::make_mut(&mut self.bytes).resize(len as usize, 0);
        let count = len.div_ceil(SECTOR) as usize;
        while self.sectors.len() > count {
            self.sum ^= self.sectors.pop().unwrap_or(0);
        }
        self.sectors.resize(count, 0);
        self.rehash(old.min(len) / SECTOR, len.div_ceil(SECTOR));
    }

    /// Overwrites, extending as needed.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        if self.len() < end {
            self.resize(end);
        }
        Arc::make_mut(&mut self.bytes)[offset as usize..end as usize].copy_from_slice(bytes);
        self.rehash(offset / SECTOR, end.div_ceil(SECTOR));
    }

    fn rehash(&mut self, first: u64, end: u64) {
        for index in first..end {
            let start = (index * SECTOR) as usize;
            let stop = (start + SECTOR as usize).min(self.bytes.len());
            let new = sector_hash(index, &self.bytes[start..stop]);
            self.sum ^= self.sectors[index as usize] ^ new;
            self.sectors[index as usize] = new;
        }
    }
}
