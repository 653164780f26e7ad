//! A set: a slab hash of keys.

use warpkeep_device::{Buffer, Stream};

use super::batch::DeviceSlabAnswers;
use super::body::SlabHash;
use super::calls::common_calls;
use super::cell::SlabKey;
use super::request::{RawRequest, SlabOpKind};
use crate::file::FileKind;
use crate::{ContainerError, SlabAnswer, SlabHashOptions, SlabRequest};

/// A set of u32 or of u64 in device memory or on the CPU. A key takes four or eight bytes of a slab: slabs of 64 bytes have 15 keys of 32 bits,
/// those of 128 bytes have 31. See [`SlabMap`](crate::SlabMap) for what holds of batches.
///
/// ```
/// use warpkeep_containers::{SlabAnswer, SlabHashOptions, SlabSet};
/// use warpkeep_device::{Device, DeviceChoice};
///
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// let device = Device::open(DeviceChoice::Sim)?;
/// let mut set: SlabSet = SlabSet::new(&device, SlabHashOptions::default())?;
/// assert_eq!(set.insert(&[7, u32::MAX])?, [SlabAnswer::Inserted, SlabAnswer::Inserted]);
/// assert_eq!(set.remove(&[7, 8])?, [true, false]);
/// assert_eq!(set.contains(&[7, u32::MAX])?, [false, true]);
/// # Ok::<(), warpkeep_containers::ContainerError>(())
/// ```
#[derive(Debug)]
pub struct SlabSet<K = u32> {
    body: SlabHash<K, ()>,
}

common_calls! {
    [K: SlabKey<()>] SlabSet<K>, SlabHash<K, ()>, unique: true, file: FileKind::SLAB_SET,
    table: "set", holds: "keys", in_kernels: "wk::SlabTable<wk::SlabKey32, 64, true>", wide: "64-bit keys are `wk::SlabKey64`"
}

impl<K: SlabKey<()>> SlabSet<K> {
    /// An empty set in the memory of the host, worked by the thread that calls. All calls that take slices work alike.
    pub fn on_cpu(options: SlabHashOptions) -> Self {
        Self { body: SlabHash::on_cpu(options, true) }
    }

    /// Runs requests at the same time, whose values are `()`; gives the answer to each.
    pub fn apply(&mut self, requests: &[SlabRequest<K, ()>]) -> Result<Vec<SlabAnswer<()>>, ContainerError> {
        self.body.apply(requests.iter().map(|request| request.raw()))
    }

    /// Inserts keys; the answers are [`Inserted`](SlabAnswer::Inserted), [`Present`](SlabAnswer::Present) or [`Full`](SlabAnswer::Full). Of
    /// equal keys in a batch one is inserted: so the others are its duplicates.
    pub fn insert(&mut self, keys: &[K]) -> Result<Vec<SlabAnswer<()>>, ContainerError> {
        self.body.apply(keys.iter().map(|key| RawRequest::of(SlabOpKind::Insert, *key)))
    }

    /// Removes keys; gives whether each was there.
    pub fn remove(&mut self, keys: &[K]) -> Result<Vec<bool>, ContainerError> {
        let answers = self.body.apply(keys.iter().map(|key| RawRequest::of(SlabOpKind::Delete, *key)))?;
        Ok(answers.into_iter().map(|answer| answer.value().is_some()).collect())
    }

    /// Whether the keys are there.
    pub fn contains(&self, keys: &[K]) -> Result<Vec<bool>, ContainerError> {
        let answers = self.body.read(SlabOpKind::Search, keys)?;
        Ok(answers.into_iter().map(|answer| answer.value().is_some()).collect())
    }

    /// Inserts keys into an empty set: sorts them by bucket, and fills each bucket by one tile. Of equal keys the first is
    /// [`Inserted`](SlabAnswer::Inserted) and the others are [`Present`](SlabAnswer::Present).
    ///
    /// # Errors
    /// [`ContainerError::NotEmpty`] if it is not empty. If there is no memory to sort in, it stays empty.
    pub fn build(&mut self, keys: &[K]) -> Result<Vec<SlabAnswer<()>>, ContainerError> {
        self.body.build(keys, &vec![(); keys.len()])
    }

    /// As [`build`](Self::build), of a column in device memory, after what is in the stream; waits for it.
    ///
    /// # Errors
    /// As [`build`](Self::build), if a buffer is too short or the set is on the CPU, before anything is changed.
    pub fn build_on(
        &mut self,
        keys: &Buffer,
        count: usize,
        answers: DeviceSlabAnswers<'_>,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        self.body.build_on(keys, None, count, answers, stream)
    }

    /// All keys, in no order.
    pub fn keys(&self) -> Result<Vec<K>, ContainerError> {
        Ok(self.body.pairs()?.into_iter().map(|(key, ())| key).collect())
    }

    /// Lists all keys in device memory, in no order, after what is in the stream; gives their number. The buffer needs room for
    /// [`len`](Self::len) keys.
    pub fn keys_on(&self, keys: &mut Buffer, stream: &Stream) -> Result<u64, ContainerError> {
        self.body.pairs_on(keys, None, stream)
    }
}
