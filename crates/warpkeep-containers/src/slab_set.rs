//! A set: a slab hash of keys.

use warpkeep_device::{Device, Program, Result};

use crate::{SlabAnswer, SlabHashOptions, SlabHashStats, SlabMap, SlabRequest};

/// A set of u32 in device memory: a [`SlabMap`] whose values are all 0. A key takes as much memory as a pair.
///
/// ```
/// use warpkeep_containers::{SlabAnswer, SlabHashOptions, SlabSet};
/// use warpkeep_device::{Device, DeviceChoice};
///
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// let device = Device::open(DeviceChoice::Sim)?;
/// let mut set = SlabSet::new(&device, SlabHashOptions::default())?;
/// assert_eq!(set.insert(&[7, u32::MAX])?, [SlabAnswer::Inserted, SlabAnswer::Inserted]);
/// assert_eq!(set.remove(&[7, 8])?, [true, false]);
/// assert_eq!(set.contains(&[7, u32::MAX])?, [false, true]);
/// # Ok::<(), warpkeep_device::DeviceError>(())
/// ```
#[derive(Debug)]
pub struct SlabSet {
    map: SlabMap,
}

impl SlabSet {
    /// The programs that its kernels are in.
    pub fn programs() -> Vec<Program> {
        SlabMap::programs()
    }

    /// An empty set.
    ///
    /// # Errors
    /// As [`SlabMap::new`].
    pub fn new(device: &Device, options: SlabHashOptions) -> Result<Self> {
        Ok(Self { map: SlabMap::new(device, options)? })
    }

    /// How many keys there are.
    pub fn len(&self) -> Result<u64> {
        self.map.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> Result<bool> {
        self.map.is_empty()
    }

    /// What is in it.
    pub fn stats(&self) -> Result<SlabHashStats> {
        self.map.stats()
    }

    /// Inserts keys; the answers are [`Inserted`](SlabAnswer::Inserted), [`Present`](SlabAnswer::Present) or [`Full`](SlabAnswer::Full). Of
    /// equal keys in a batch one is inserted: so the others are its duplicates.
    pub fn insert(&mut self, keys: &[u32]) -> Result<Vec<SlabAnswer>> {
        self.map.apply(&keys.iter().map(|key| SlabRequest::Insert(*key, 0)).collect::<Vec<_>>())
    }

    /// Removes keys; gives whether each was there.
    pub fn remove(&mut self, keys: &[u32]) -> Result<Vec<bool>> {
        let requests: Vec<SlabRequest> = keys.iter().map(|key| SlabRequest::Delete(*key)).collect();
        let answers = self.map.apply(&requests)?;
        Ok(answers.into_iter().map(|answer| answer.value().is_some()).collect())
    }

    /// Whether the keys are there.
    pub fn contains(&self, keys: &[u32]) -> Result<Vec<bool>> {
        Ok(self.map.search(keys)?.into_iter().map(|value| value.is_some()).collect())
    }

    /// All keys, in no order.
    pub fn keys(&self) -> Result<Vec<u32>> {
        Ok(self.map.pairs()?.into_iter().map(|(key, _)| key).collect())
    }

    /// The set as a map whose values are 0, for any mix of requests in one launch.
    pub fn as_map(&mut self) -> &mut SlabMap {
        &mut self.map
    }
}
