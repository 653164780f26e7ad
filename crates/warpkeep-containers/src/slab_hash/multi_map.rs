//! A multimap: a slab hash whose keys may have several values.

use warpkeep_device::{Buffer, Stream};

use super::batch::DeviceSlabAnswers;
use super::body::SlabHash;
use super::calls::common_calls;
use super::cell::{SlabKey, SlabValue};
use super::request::SlabOpKind;
use crate::file::FileKind;
use crate::{ContainerError, SlabAnswer, SlabHashOptions, SlabMultiRequest};

/// A multimap from u32 to u32, or from u64 to u64, in device memory or on the CPU: a slab hash whose keys may have several values, equal ones too.
/// The values of a key are in the order in which they were inserted. Those inserted by one [`apply`](Self::apply) are in any order, those of one
/// [`build`](Self::build) in the order of the batch. Files keep that order.
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

common_calls! {
    [K: SlabKey<V>, V: SlabValue] SlabMultiMap<K, V>, SlabHash<K, V>, unique: false, file: FileKind::SLAB_MULTI_MAP,
    table: "multimap", holds: "pairs", in_kernels: "wk::SlabTable<wk::SlabPair32, 64, false>", wide: "64-bit pairs are `wk::SlabPair64`"
}

impl<K: SlabKey<V>, V: SlabValue> SlabMultiMap<K, V> {
    /// An empty multimap in the memory of the host, worked by the thread that calls. All calls that take slices work alike.
    pub fn on_cpu(options: SlabHashOptions) -> Self {
        Self { body: SlabHash::on_cpu(options, false) }
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
}
