//! A multimap: a slab hash whose keys may have several values.

use warpkeep_device::{Device, Program, Result};

use crate::slab_request::GATHER;
use crate::slab_table::SlabTable;
use crate::{SlabAnswer, SlabHashOptions, SlabHashStats, SlabMultiRequest, SlabTableRef};

/// A multimap from u32 to u32 in device memory: a slab hash whose keys may have several values, equal ones too. The values of a key are in the
/// order in which they were inserted; those inserted by one batch are in any order.
///
/// ```
/// use warpkeep_containers::{SlabAnswer, SlabHashOptions, SlabMultiMap, SlabMultiRequest};
/// use warpkeep_device::{Device, DeviceChoice};
///
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// let device = Device::open(DeviceChoice::Sim)?;
/// let mut map = SlabMultiMap::new(&device, SlabHashOptions::default())?;
/// map.apply(&[SlabMultiRequest::Insert(7, 70)])?;
/// map.apply(&[SlabMultiRequest::Insert(7, 71), SlabMultiRequest::Insert(8, 80)])?;
/// assert_eq!(map.search_all(&[7, 8, 9])?, [vec![70, 71], vec![80], vec![]]);
/// let answers = map.apply(&[SlabMultiRequest::Delete(7), SlabMultiRequest::DeleteAll(8)])?;
/// assert_eq!(answers, [SlabAnswer::Removed(70), SlabAnswer::Counted(1)]);
/// # Ok::<(), warpkeep_device::DeviceError>(())
/// ```
#[derive(Debug)]
pub struct SlabMultiMap {
    device: Device,
    table: SlabTable,
}

impl SlabMultiMap {
    /// The programs that its kernels are in.
    pub fn programs() -> Vec<Program> {
        SlabTable::programs()
    }

    /// An empty multimap.
    ///
    /// # Errors
    /// If slabs of another size than 64 or 128 bytes are asked for, or there is no memory for this many pairs.
    pub fn new(device: &Device, options: SlabHashOptions) -> Result<Self> {
        Ok(Self { device: device.clone(), table: SlabTable::new(device, options, false)? })
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

    /// The table for the parameters of a kernel of one's own, which uses it as `wk::SlabTable<8, false>`, or `<16, false>` for slabs of
    /// 128 bytes.
    pub fn reference(&self) -> SlabTableRef {
        self.table.reference()
    }

    /// Runs requests at the same time; gives the answer to each.
    pub fn apply(&mut self, requests: &[SlabMultiRequest]) -> Result<Vec<SlabAnswer>> {
        self.table.apply(requests.iter().map(|request| request.raw()))
    }

    /// The first value of each key.
    pub fn search(&self, keys: &[u32]) -> Result<Vec<Option<u32>>> {
        let answers = self.table.read(keys.iter().map(|key| SlabMultiRequest::Search(*key).raw()), None)?;
        Ok(answers.into_iter().map(SlabAnswer::value).collect())
    }

    /// All values of each key, in the order in which they were inserted.
    ///
    /// # Errors
    /// Among others if the values are more than 2^32 - 1 in all: ask for fewer keys then.
    pub fn search_all(&self, keys: &[u32]) -> Result<Vec<Vec<u32>>> {
        let counts: Vec<u32> = self
            .table
            .read(keys.iter().map(|key| SlabMultiRequest::Count(*key).raw()), None)?
            .into_iter()
            .map(SlabAnswer::count)
            .collect();
        let total = counts.iter().map(|count| u64::from(*count)).sum::<u64>();
        if total > u64::from(u32::MAX) {
            return Err(too_many(total));
        }
        // Where the values of each key begin.
        let begins = counts.iter().scan(0_u32, |next, count| {
            let begin = *next;
            *next = begin.wrapping_add(*count);
            Some(begin)
        });
        let begins: Vec<u32> = begins.collect();
        let column = self.device.allocate(4 * total as usize)?;
        self.table
            .read(keys.iter().zip(&begins).map(|(key, begin)| [GATHER, *key, *begin]), Some(&column))?;
        let values = column.to_vec::<u32>()?;
        let of_key = |(begin, count): (u32, u32)| values[begin as usize..][..count as usize].to_vec();
        Ok(begins.into_iter().zip(counts).map(of_key).collect())
    }

    /// All pairs, in no order.
    pub fn pairs(&self) -> Result<Vec<(u32, u32)>> {
        self.table.pairs()
    }

    /// Makes room for this many pairs in all, so that no batch has to until then.
    ///
    /// # Errors
    /// If there is no memory for it; the multimap is then as it was.
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

fn too_many(values: u64) -> warpkeep_device::DeviceError {
    warpkeep_device::DeviceError::Call {
        call: "SlabMultiMap::search_all",
        code: "too many values".to_owned(),
        text: format!("the keys have {values} values"),
        advice: "ask for fewer keys at once",
    }
}
