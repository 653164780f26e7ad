//! The static table beside the slab hash, in the place of the paper's CUDPP: our cuckoo index, with a signature that is the whole key.

use bytemuck::checked;
use warpkeep_containers::{
    CuckooIndex, DeviceIndexAnswers, DeviceIndexOps, IndexOpKind, IndexOpKinds, IndexStatus,
};
use warpkeep_core::{Seed, mix64};
use warpkeep_device::Device;

use crate::BenchError;
use crate::gpu::Clock;
use crate::gpu::cuckoo::room_for;
use crate::gpu::slab::{
    ABSENT_KEY, Batch, FOUND, FULL, INSERTED, REMOVED, REPLACE, SEARCH, Table, answer, mix32,
};

/// It, as a variant of a case.
pub(super) const CUCKOO: &str = "cuckoo index";
/// Cells of a bucket.
const CELLS: u64 = 8;

/// A cuckoo table of 32-bit keys and values.
pub(super) struct CuckooTable {
    device: Device,
    index: CuckooIndex,
    seed: u64,
    cells: u64,
}

impl CuckooTable {
    /// An empty table with at least this many cells, a power of two.
    pub(super) fn new(device: &Device, cells: u64, seed: u64) -> Result<CuckooTable, BenchError> {
        let buckets = (cells / CELLS).max(2).next_power_of_two();
        let index = CuckooIndex::new(device, &room_for(buckets))?;
        Ok(CuckooTable { device: device.clone(), index, seed, cells: buckets * CELLS })
    }

    /// The upper half is the signature: a bijection of the key, so that entries with the same signature have the same key.
    fn hash(&self, key: u32) -> u64 {
        let low = mix64(Seed(self.seed), u64::from(key)) as u32;
        (u64::from(mix32(self.seed as u32, key)) << 32) | u64::from(low)
    }
}

impl Table for CuckooTable {
    fn name(&self) -> &str {
        CUCKOO
    }

    fn clear(&mut self) -> Result<(), BenchError> {
        Ok(self.index.clear()?)
    }

    /// All requests are of one kind: batches of this table have an order, which the others' have not.
    fn answer(&mut self, batch: &Batch, clock: &Clock) -> Result<(f64, Vec<u64>), BenchError> {
        let count = batch.len();
        let kind = match batch.one_op() {
            Some(SEARCH) => IndexOpKind::Search,
            Some(REPLACE) => IndexOpKind::Insert,
            _ => return Err(BenchError::Invalid("a static table has no mixed batches".to_owned())),
        };
        let hashes =
            self.device.upload(&batch.keys.iter().map(|&key| self.hash(key)).collect::<Vec<u64>>())?;
        let values = self.device.upload(&batch.values)?;
        let (mut statuses, mut found) =
            (self.device.allocate_zeroed(count)?, self.device.allocate_zeroed(8 * count)?);
        let kinds = IndexOpKinds::All(kind);
        let ops = DeviceIndexOps { kinds, hashes: &hashes, locations: Some(&values), olds: None, count };
        let answers =
            DeviceIndexAnswers { statuses: &mut statuses, matches: None, locations: Some(&mut found) };
        let seconds = clock.time(|stream| self.index.apply_on(ops, answers, stream))?;
        let statuses = statuses.to_vec::<u8>()?;
        let statuses: &[IndexStatus] = checked::try_cast_slice(&statuses)
            .map_err(|_| BenchError::Wrong(format!("{CUCKOO}: a request was not answered at all")))?;
        let found = found.to_vec::<[u32; 2]>()?;
        let answers = statuses.iter().zip(found).map(|(&status, found)| match status {
            IndexStatus::Inserted | IndexStatus::Displaced => answer(INSERTED, 0),
            IndexStatus::Found => answer(FOUND, found[0]),
            IndexStatus::Deleted => answer(REMOVED, found[0]),
            IndexStatus::Absent => answer(ABSENT_KEY, 0),
            _ => answer(FULL, 0),
        });
        Ok((seconds, answers.collect()))
    }

    fn utilisation(&self) -> Result<Option<f64>, BenchError> {
        Ok(Some(self.index.len()? as f64 / self.cells as f64))
    }
}
