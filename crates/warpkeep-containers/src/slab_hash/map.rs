//! A map: a slab hash with unique keys.

use std::path::Path;

use warpkeep_device::{Buffer, Device, Event, Program, Stream};

use super::batch::{DeviceSlabAnswers, DeviceSlabOps};
use super::body::SlabHash;
use super::cell::{SlabKey, SlabValue};
use super::request::SlabOpKind;
use crate::file::FileKind;
use crate::{ContainerError, SlabAnswer, SlabHashOptions, SlabHashStats, SlabRequest, SlabTableRef};

/// A map from u32 to u32, or from u64 to u64, in device memory or on the CPU: the slab hash. Every key and every value can be stored.
///
/// A batch is any mix of requests, which run at the same time: those for one key take effect in some order, each at one moment. On the CPU
/// they run in the order of the batch. The map gets more buckets after a batch that left 0.9 slabs of pairs a bucket, and is flushed if those
/// are mostly tombstones.
///
/// ```
/// use warpkeep_containers::{SlabAnswer, SlabHashOptions, SlabMap, SlabRequest};
/// use warpkeep_device::{Device, DeviceChoice};
///
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// let device = Device::open(DeviceChoice::Sim)?;
/// let mut map: SlabMap = SlabMap::new(&device, SlabHashOptions::default())?;
/// map.apply(&[SlabRequest::Insert(7, 70), SlabRequest::Replace(8, 80)])?;
/// let answers = map.apply(&[SlabRequest::Delete(7), SlabRequest::Insert(8, 81)])?;
/// assert_eq!(answers, [SlabAnswer::Removed(70), SlabAnswer::Present(80)]);
/// assert_eq!(map.search(&[7, 8])?, [None, Some(80)]);
/// assert_eq!(map.len()?, 1);
///
/// let mut wide = SlabMap::<u64, u64>::new(&device, SlabHashOptions::default())?;
/// wide.build(&[1 << 40, u64::MAX], &[1, 2])?;
/// assert_eq!(wide.search(&[u64::MAX])?, [Some(2)]);
/// # Ok::<(), warpkeep_containers::ContainerError>(())
/// ```
#[derive(Debug)]
pub struct SlabMap<K = u32, V = u32> {
    body: SlabHash<K, V>,
}

impl<K: SlabKey<V>, V: SlabValue> SlabMap<K, V> {
    /// The programs that its kernels are in.
    pub fn programs() -> Vec<Program> {
        SlabHash::<K, V>::programs(true)
    }

    /// An empty map in the memory of this device.
    ///
    /// # Errors
    /// If slabs of another size than 64 or 128 bytes are asked for, or there is no memory for this many pairs.
    pub fn new(device: &Device, options: SlabHashOptions) -> Result<Self, ContainerError> {
        Ok(Self { body: SlabHash::new(device, options, true)? })
    }

    /// An empty map in the memory of the host, worked by the thread that calls. All calls that take slices work alike.
    ///
    /// ```
    /// use warpkeep_containers::{SlabHashOptions, SlabMap, SlabRequest};
    ///
    /// let mut map: SlabMap = SlabMap::on_cpu(SlabHashOptions::default());
    /// map.apply(&[SlabRequest::Insert(7, 70)])?;
    /// assert_eq!(map.search(&[7, 8])?, [Some(70), None]);
    /// # Ok::<(), warpkeep_containers::ContainerError>(())
    /// ```
    pub fn on_cpu(options: SlabHashOptions) -> Self {
        Self { body: SlabHash::on_cpu(options, true) }
    }

    /// How many pairs there are.
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

    /// The table for the parameters of a kernel of one's own, which uses it as `wk::SlabTable<wk::SlabPair32, 64, true>`, or `128` for
    /// slabs of 128 bytes; 64-bit pairs are `wk::SlabPair64`. Kernels that store pairs can be answered [`Full`](SlabAnswer::Full): [`reserve`](Self::reserve) more before.
    ///
    /// # Errors
    /// If it is on the CPU.
    pub fn reference(&self) -> Result<SlabTableRef, ContainerError> {
        self.body.reference()
    }

    /// Runs a batch in device memory after what is in the stream, and waits for it.
    ///
    /// # Errors
    /// If a buffer is too short or the map is on the CPU, before anything is changed.
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
    /// Until the event is reached, no other code uses the buffers, except to read the keys, and the map is neither changed nor dropped.
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

    /// Runs requests at the same time; gives the answer to each.
    pub fn apply(&mut self, requests: &[SlabRequest<K, V>]) -> Result<Vec<SlabAnswer<V>>, ContainerError> {
        self.body.apply(requests.iter().map(|request| request.raw()))
    }

    /// The values of keys.
    pub fn search(&self, keys: &[K]) -> Result<Vec<Option<V>>, ContainerError> {
        Ok(self.body.read(SlabOpKind::Search, keys)?.into_iter().map(SlabAnswer::value).collect())
    }

    /// Inserts pairs into an empty map: sorts them by bucket, and fills each bucket by one tile. Of pairs with equal keys the first is stored,
    /// and the others are answered with [`Present`](SlabAnswer::Present) and its value.
    ///
    /// # Errors
    /// [`ContainerError::NotEmpty`] if it is not empty. If there is no memory to sort in, it stays empty.
    pub fn build(&mut self, keys: &[K], values: &[V]) -> Result<Vec<SlabAnswer<V>>, ContainerError> {
        self.body.build(keys, values)
    }

    /// As [`build`](Self::build), of columns in device memory, after what is in the stream; waits for it.
    ///
    /// # Errors
    /// As [`build`](Self::build), if a buffer is too short or the map is on the CPU, before anything is changed.
    pub fn build_on(
        &mut self,
        keys: &Buffer,
        values: &Buffer,
        count: usize,
        answers: DeviceSlabAnswers<'_>,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        self.body.build_on(keys, Some(values), count, answers, stream)
    }

    /// All pairs, in no order.
    pub fn pairs(&self) -> Result<Vec<(K, V)>, ContainerError> {
        self.body.pairs()
    }

    /// Lists all pairs in device memory, in no order, after what is in the stream; gives their number. Both buffers need room for
    /// [`len`](Self::len) elements.
    pub fn pairs_on(
        &self,
        keys: &mut Buffer,
        values: &mut Buffer,
        stream: &Stream,
    ) -> Result<u64, ContainerError> {
        self.body.pairs_on(keys, Some(values), stream)
    }

    /// Makes room for this many pairs in all, so that no batch has to until then.
    ///
    /// # Errors
    /// If there is no memory for it; the map is then as it was.
    pub fn reserve(&mut self, pairs: u64) -> Result<(), ContainerError> {
        self.body.reserve(pairs)
    }

    /// Packs the pairs of all chains, without tombstones, and gives slabs back. Needs no memory.
    pub fn flush(&mut self) -> Result<(), ContainerError> {
        self.body.flush()
    }

    /// Removes all pairs. Buckets stay.
    pub fn clear(&mut self) -> Result<(), ContainerError> {
        self.body.clear()
    }

    /// Writes all pairs to a file, with checksums. The file is written under another name beside it, made durable and renamed, so after
    /// a crash there is the old file or the new one.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ContainerError> {
        self.body.save(path.as_ref(), FileKind::SLAB_MAP)
    }

    /// A map in device memory with the pairs of a file.
    ///
    /// # Errors
    /// [`ContainerError::Damaged`] if a byte differs from what was saved, or [`ContainerError::WrongKind`] if another container or other
    /// widths were saved; there is no map then.
    pub fn load(
        device: &Device,
        path: impl AsRef<Path>,
        options: SlabHashOptions,
    ) -> Result<Self, ContainerError> {
        let body = SlabHash::load(Some(device), path.as_ref(), FileKind::SLAB_MAP, options, true)?;
        Ok(Self { body })
    }

    /// A map on the CPU with the pairs of a file.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_on_cpu(path: impl AsRef<Path>, options: SlabHashOptions) -> Result<Self, ContainerError> {
        Ok(Self { body: SlabHash::load(None, path.as_ref(), FileKind::SLAB_MAP, options, true)? })
    }
}
