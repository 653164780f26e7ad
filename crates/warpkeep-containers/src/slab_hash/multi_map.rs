//! A multimap: a slab hash whose keys may have several values.

use std::path::Path;

use warpkeep_device::{Buffer, Device, Event, Program, Stream};

use super::batch::{DeviceSlabAnswers, DeviceSlabOps};
use super::body::SlabHash;
use super::cell::{SlabKey, SlabValue};
use super::request::SlabOpKind;
use crate::file::FileKind;
use crate::{ContainerError, SlabAnswer, SlabHashOptions, SlabHashStats, SlabMultiRequest, SlabTableRef};

/// A multimap from u32 to u32, or from u64 to u64, in device memory or on the CPU: a slab hash whose keys may have several values, equal ones too.
/// The values of a key are in the order in which they were inserted. Those inserted by one [`apply`](Self::apply) are in any order, those of one
/// [`build`](Self::build) in the order of the batch.
///
/// ```
/// use warpkeep_containers::{SlabAnswer, SlabHashOptions, SlabMultiMap, SlabMultiRequest};
/// use warpkeep_device::{Device, DeviceChoice};
///
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// let device = Device::open(DeviceChoice::Sim)?;
/// let mut map: SlabMultiMap = SlabMultiMap::new(&device, SlabHashOptions::default())?;
/// map.apply(&[SlabMultiRequest::Insert(7, 70)])?;
/// map.apply(&[SlabMultiRequest::Insert(7, 71), SlabMultiRequest::Insert(8, 80)])?;
/// assert_eq!(map.search_all(&[7, 8, 9])?, [vec![70, 71], vec![80], vec![]]);
/// let answers = map.apply(&[SlabMultiRequest::Delete(7), SlabMultiRequest::DeleteAll(8)])?;
/// assert_eq!(answers, [SlabAnswer::Removed(70), SlabAnswer::Counted(1)]);
/// # Ok::<(), warpkeep_containers::ContainerError>(())
/// ```
#[derive(Debug)]
pub struct SlabMultiMap<K = u32, V = u32> {
    body: SlabHash<K, V>,
}

impl<K: SlabKey<V>, V: SlabValue> SlabMultiMap<K, V> {
    /// The programs that its kernels are in.
    pub fn programs() -> Vec<Program> {
        SlabHash::<K, V>::programs(false)
    }

    /// An empty multimap in the memory of this device.
    ///
    /// # Errors
    /// If slabs of another size than 64 or 128 bytes are asked for, or there is no memory for this many pairs.
    pub fn new(device: &Device, options: SlabHashOptions) -> Result<Self, ContainerError> {
        Ok(Self { body: SlabHash::new(device, options, false)? })
    }

    /// An empty multimap in the memory of the host, worked by the thread that calls. All calls that take slices work alike.
    pub fn on_cpu(options: SlabHashOptions) -> Self {
        Self { body: SlabHash::on_cpu(options, false) }
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

    /// The table for the parameters of a kernel of one's own, which uses it as `wk::SlabTable<wk::SlabPair32, 64, false>`, or `128` for
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
    /// If a buffer is too short or the multimap is on the CPU, before anything is changed.
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
    /// Until the event is reached, no other code uses the buffers, except to read the keys, and the multimap is neither changed nor dropped.
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
    pub fn apply(
        &mut self,
        requests: &[SlabMultiRequest<K, V>],
    ) -> Result<Vec<SlabAnswer<V>>, ContainerError> {
        self.body.apply(requests.iter().map(|request| request.raw()))
    }

    /// The first value of each key.
    pub fn search(&self, keys: &[K]) -> Result<Vec<Option<V>>, ContainerError> {
        Ok(self.body.read(SlabOpKind::Search, keys)?.into_iter().map(SlabAnswer::value).collect())
    }

    /// All values of each key, in the order in which they were inserted.
    ///
    /// # Errors
    /// Among others if there are more values of 32 bits than 2^32 - 1 in all: ask for fewer keys then.
    pub fn search_all(&self, keys: &[K]) -> Result<Vec<Vec<V>>, ContainerError> {
        self.body.search_all(keys)
    }

    /// Writes all values of each key to a column in device memory, from the position on that `begins` has for the key, after what is in the
    /// stream; waits for it. Positions are as wide as values. What does not fit into the column is left out.
    ///
    /// How many values the keys have is what [`apply_on`](Self::apply_on) answers to [`SlabOpKind::Count`]; the positions are the sums of those
    /// before, which [`Sorter::exclusive_scan`](crate::Sorter::exclusive_scan) makes of 32-bit counts.
    pub fn gather_on(
        &self,
        keys: &Buffer,
        begins: &Buffer,
        count: usize,
        values: &mut Buffer,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        self.body.gather_on(keys, begins, count, values, stream)
    }

    /// Inserts pairs into an empty multimap: sorts them by bucket, and fills each bucket by one tile. The values of a key are in the order of the
    /// batch.
    ///
    /// # Errors
    /// [`ContainerError::NotEmpty`] if it is not empty. If there is no memory to sort in, it stays empty.
    pub fn build(&mut self, keys: &[K], values: &[V]) -> Result<Vec<SlabAnswer<V>>, ContainerError> {
        self.body.build(keys, values)
    }

    /// As [`build`](Self::build), of columns in device memory, after what is in the stream; waits for it.
    ///
    /// # Errors
    /// As [`build`](Self::build), if a buffer is too short or the multimap is on the CPU, before anything is changed.
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

    /// All pairs. The values of a key are in their order.
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
    /// If there is no memory for it; the multimap is then as it was.
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

    /// Writes all pairs to a file, with checksums; the values of a key in their order. The file is written under another name beside it, made durable and renamed, so after
    /// a crash there is the old file or the new one.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ContainerError> {
        self.body.save(path.as_ref(), FileKind::SLAB_MULTI_MAP)
    }

    /// A multimap in device memory with the pairs of a file.
    ///
    /// # Errors
    /// [`ContainerError::Damaged`] if a byte differs from what was saved, or [`ContainerError::WrongKind`] if another container or other
    /// widths were saved; there is no multimap then.
    pub fn load(
        device: &Device,
        path: impl AsRef<Path>,
        options: SlabHashOptions,
    ) -> Result<Self, ContainerError> {
        let body = SlabHash::load(Some(device), path.as_ref(), FileKind::SLAB_MULTI_MAP, options, false)?;
        Ok(Self { body })
    }

    /// A multimap on the CPU with the pairs of a file.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_on_cpu(path: impl AsRef<Path>, options: SlabHashOptions) -> Result<Self, ContainerError> {
        Ok(Self { body: SlabHash::load(None, path.as_ref(), FileKind::SLAB_MULTI_MAP, options, false)? })
    }
}
