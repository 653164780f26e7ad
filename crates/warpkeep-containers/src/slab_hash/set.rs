//! A set: a slab hash of keys.

use std::path::Path;

use warpkeep_device::{Buffer, Device, Event, Program, Stream};

use super::batch::{DeviceSlabAnswers, DeviceSlabOps};
use super::body::SlabHash;
use super::cell::SlabKey;
use super::request::{RawRequest, SlabOpKind};
use crate::file::FileKind;
use crate::{ContainerError, SlabAnswer, SlabHashOptions, SlabHashStats, SlabRequest, SlabTableRef};

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

impl<K: SlabKey<()>> SlabSet<K> {
    /// The programs that its kernels are in.
    pub fn programs() -> Vec<Program> {
        SlabHash::<K, ()>::programs(true)
    }

    /// An empty set in the memory of this device.
    ///
    /// # Errors
    /// As [`SlabMap::new`](crate::SlabMap::new).
    pub fn new(device: &Device, options: SlabHashOptions) -> Result<Self, ContainerError> {
        Ok(Self { body: SlabHash::new(device, options, true)? })
    }

    /// An empty set in the memory of the host, worked by the thread that calls. All calls that take slices work alike.
    pub fn on_cpu(options: SlabHashOptions) -> Self {
        Self { body: SlabHash::on_cpu(options, true) }
    }

    /// How many keys there are.
    pub fn len(&self) -> Result<u64, ContainerError> {
        self.body.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> Result<bool, ContainerError> {
        Ok(self.len()? == 0)
    }

    /// What is in it.
    pub fn stats(&self) -> Result<SlabHashStats, ContainerError> {
        self.body.stats()
    }

    /// The table for the parameters of a kernel of one's own, which uses it as `wk::SlabTable<wk::SlabKey32, 64, true>`, or `128` for
    /// slabs of 128 bytes; 64-bit keys are `wk::SlabKey64`. Kernels that store keys can be answered [`Full`](SlabAnswer::Full): [`reserve`](Self::reserve) more before.
    ///
    /// # Errors
    /// If it is on the CPU.
    pub fn reference(&self) -> Result<SlabTableRef, ContainerError> {
        self.body.reference()
    }

    /// Runs a batch in device memory after what is in the stream, and waits for it.
    ///
    /// # Errors
    /// If a buffer is too short or the set is on the CPU, before anything is changed.
    pub fn apply_on(
        &mut self,
        ops: DeviceSlabOps<'_>,
        answers: DeviceSlabAnswers<'_>,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        self.body.apply_on(&ops, answers, stream)
    }

    /// Starts a search for keys in device memory after what is in the stream, and gives the event of its end without waiting.
    ///
    /// # Errors
    /// As [`apply_on`](Self::apply_on).
    ///
    /// # Safety
    /// Until the event is reached, no other code uses the buffers, except to read the keys, and the set is neither changed nor dropped.
    pub unsafe fn enqueue_search(
        &self,
        keys: &Buffer,
        count: usize,
        answers: DeviceSlabAnswers<'_>,
        stream: &Stream,
    ) -> Result<Event, ContainerError> {
        // SAFETY: this function's contract.
        unsafe { self.body.enqueue_search(keys, count, answers, stream) }
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

    /// Makes room for this many keys in all, so that no batch has to until then.
    ///
    /// # Errors
    /// If there is no memory for it; the set is then as it was.
    pub fn reserve(&mut self, keys: u64) -> Result<(), ContainerError> {
        self.body.reserve(keys)
    }

    /// Packs the keys of all chains, without tombstones, and gives slabs back. Needs no memory.
    pub fn flush(&mut self) -> Result<(), ContainerError> {
        self.body.flush()
    }

    /// Removes all keys. Buckets stay.
    pub fn clear(&mut self) -> Result<(), ContainerError> {
        self.body.clear()
    }

    /// Writes all keys to a file, with checksums. The file is written under another name beside it, made durable and renamed, so after
    /// a crash there is the old file or the new one.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ContainerError> {
        self.body.save(path.as_ref(), FileKind::SLAB_SET)
    }

    /// A set in device memory with the keys of a file.
    ///
    /// # Errors
    /// [`ContainerError::Damaged`] if a byte differs from what was saved, or [`ContainerError::WrongKind`] if another container or other
    /// widths were saved; there is no set then.
    pub fn load(
        device: &Device,
        path: impl AsRef<Path>,
        options: SlabHashOptions,
    ) -> Result<Self, ContainerError> {
        let body = SlabHash::load(Some(device), path.as_ref(), FileKind::SLAB_SET, options, true)?;
        Ok(Self { body })
    }

    /// A set on the CPU with the keys of a file.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_on_cpu(path: impl AsRef<Path>, options: SlabHashOptions) -> Result<Self, ContainerError> {
        Ok(Self { body: SlabHash::load(None, path.as_ref(), FileKind::SLAB_SET, options, true)? })
    }
}
