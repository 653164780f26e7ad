//! A map: a slab hash with unique keys.

use warpkeep_device::{Buffer, Stream};

use super::batch::DeviceSlabAnswers;
use super::body::SlabHash;
use super::calls::common_calls;
use super::cell::{SlabKey, SlabValue};
use super::request::SlabOpKind;
use crate::file::FileKind;
use crate::{ContainerError, SlabAnswer, SlabHashOptions, SlabRequest};

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

common_calls! {
    [K: SlabKey<V>, V: SlabValue] SlabMap<K, V>, SlabHash<K, V>, unique: true, file: FileKind::SLAB_MAP,
    table: "map", holds: "pairs", in_kernels: "wk::SlabTable<wk::SlabPair32, 64, true>", wide: "64-bit pairs are `wk::SlabPair64`"
}

impl<K: SlabKey<V>, V: SlabValue> SlabMap<K, V> {
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
}
