//! A map: a slab hash with unique keys.

use warpkeep_device::{Device, Program, Result};

use crate::slab_table::SlabTable;
use crate::{SlabAnswer, SlabHashOptions, SlabHashStats, SlabRequest, SlabTableRef};

/// A map from u32 to u32 in device memory: the slab hash. Every key and every value can be stored.
///
/// A batch is any mix of requests, which run at the same time: those for one key take effect in some order, each at one moment. The map
/// gets more buckets after a batch that left 0.9 slabs of pairs a bucket, and is flushed if those are mostly tombstones.
///
/// ```
/// use warpkeep_containers::{SlabAnswer, SlabHashOptions, SlabMap, SlabRequest};
/// use warpkeep_device::{Device, DeviceChoice};
///
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// let device = Device::open(DeviceChoice::Sim)?;
/// let mut map = SlabMap::new(&device, SlabHashOptions::default())?;
/// map.apply(&[SlabRequest::Insert(7, 70), SlabRequest::Replace(8, 80)])?;
/// let answers = map.apply(&[SlabRequest::Delete(7), SlabRequest::Insert(8, 81)])?;
/// assert_eq!(answers, [SlabAnswer::Removed(70), SlabAnswer::Present(80)]);
/// assert_eq!(map.search(&[7, 8])?, [None, Some(80)]);
/// assert_eq!(map.len()?, 1);
/// # Ok::<(), warpkeep_device::DeviceError>(())
/// ```
#[derive(Debug)]
pub struct SlabMap {
    table: SlabTable,
}

impl SlabMap {
    /// The programs that its kernels are in.
    pub fn programs() -> Vec<Program> {
        SlabTable::programs()
    }

    /// An empty map.
    ///
    /// # Errors
    /// If slabs of another size than 64 or 128 bytes are asked for, or there is no memory for this many pairs.
    pub fn new(device: &Device, options: SlabHashOptions) -> Result<Self> {
        Ok(Self { table: SlabTable::new(device, options, true)? })
    }

    /// How many pairs there are.
    pub fn len(&self) -> Result<u64> {
        self.table.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// What is in it.
    pub fn stats(&self) -> Result<SlabHashStats> {
        self.table.stats()
    }

    /// The table for the parameters of a kernel of one's own, which uses it as `wk::SlabTable<8, true>`, or `<16, true>` for slabs of 128
    /// bytes. Kernels that store pairs can be answered [`Full`](SlabAnswer::Full): [`reserve`](Self::reserve) more before.
    pub fn reference(&self) -> SlabTableRef {
        self.table.reference()
    }

    /// Runs requests at the same time; gives the answer to each.
    pub fn apply(&mut self, requests: &[SlabRequest]) -> Result<Vec<SlabAnswer>> {
        self.table.apply(requests.iter().map(|request| request.raw()))
    }

    /// The values of keys.
    pub fn search(&self, keys: &[u32]) -> Result<Vec<Option<u32>>> {
        let answers = self.table.read(keys.iter().map(|key| SlabRequest::Search(*key).raw()), None)?;
        Ok(answers.into_iter().map(SlabAnswer::value).collect())
    }

    /// All pairs, in no order.
    pub fn pairs(&self) -> Result<Vec<(u32, u32)>> {
        self.table.pairs()
    }

    /// Makes room for this many pairs in all, so that no batch has to until then.
    ///
    /// # Errors
    /// If there is no memory for it; the map is then as it was.
    pub fn reserve(&mut self, pairs: u64) -> Result<()> {
        self.table.reserve(pairs)
    }

    /// Packs the pairs of all chains, without tombstones, and gives slabs back. Needs no memory.
    pub fn flush(&mut self) -> Result<()> {
        self.table.flush()
    }

    /// Removes all pairs. Buckets stay.
    pub fn clear(&mut self) -> Result<()> {
        self.table.clear()
    }
}
