//! A hash set: a map whose slots have no values.

use std::path::Path;

use bytemuck::NoUninit;
use warpkeep_device::{Buffer, Device, DevicePtr, Event, Program, Result, Stream};

use super::columns::HostBatch;
use super::{
    DeviceAnswers, DeviceOps, HashMap, HashMapOptions, HashMapRef, HashMapStats, MapAnswer, MapKey, MapOp,
    MapOpKind, MapOpKinds, MapStatus,
};
use crate::ContainerError;

/// What kernels need to use a set: the struct `HashRef<K>` of `warpkeep/hash_map.h`. See [`HashMapRef`] for how long it is good.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct HashSetRef<K = u64>(HashMapRef<K, ()>);

// SAFETY: transparent over a struct that is `NoUninit`.
unsafe impl<K: Copy + 'static> NoUninit for HashSetRef<K> {}

/// A set of keys that grows by itself, in device memory or on the CPU: a [`HashMap`] without values. Keys are `u32` or `u64`, and a slot
/// takes no more.
///
/// The operations of a batch on one key act in the batch's order, so the first of several equal keys is the one that is new: that is how a
/// stream is deduplicated.
///
/// ```
/// use warpkeep_containers::{HashMapOptions, HashSet};
/// use warpkeep_device::{Device, DeviceChoice};
///
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// let seen: HashSet = HashSet::new(&Device::open(DeviceChoice::Sim)?, &HashMapOptions::default())?;
/// assert_eq!(seen.insert_new(&[7, 8, 7])?, [true, true, false]);
/// assert_eq!(seen.insert_new(&[9, 8])?, [true, false]);
/// assert_eq!(seen.contains(&[7, 10])?, [true, false]);
/// assert_eq!(seen.len()?, 3);
/// # Ok::<(), warpkeep_containers::ContainerError>(())
/// ```
#[derive(Debug)]
pub struct HashSet<K: MapKey = u64>(HashMap<K, ()>);

impl<K: MapKey> HashSet<K> {
    /// The program that its kernels are in.
    pub fn program() -> Program {
        HashMap::<K, ()>::program()
    }

    /// An empty set in the memory of this device.
    pub fn new(device: &Device, options: &HashMapOptions) -> Result<Self, ContainerError> {
        HashMap::new(device, options).map(HashSet)
    }

    /// An empty set in the memory of the host, worked by the thread that calls.
    pub fn on_cpu(options: &HashMapOptions) -> Self {
        HashSet(HashMap::on_cpu(options))
    }

    /// Adds keys: [`MapStatus::Inserted`], [`MapStatus::Found`] or [`MapStatus::Full`].
    pub fn insert(&self, keys: &[K]) -> Result<Vec<MapStatus>, ContainerError> {
        self.run(&HostBatch::All(MapOpKind::Insert, keys, None))
    }

    /// Adds keys, and says which were not there.
    ///
    /// # Errors
    /// As for memory that is short, if the set is full and cannot grow. Some of the keys were added then: [`insert`](Self::insert) says
    /// which.
    pub fn insert_new(&self, keys: &[K]) -> Result<Vec<bool>, ContainerError> {
        let statuses = self.insert(keys)?;
        if statuses.contains(&MapStatus::Full) {
            let HashMapStats { bytes, most_bytes, .. } = self.stats()?;
            let left = most_bytes.saturating_sub(bytes);
            return Err(warpkeep_device::DeviceError::OutOfBudget { asked: bytes, left }.into());
        }
        Ok(statuses.into_iter().map(|status| status == MapStatus::Inserted).collect())
    }

    /// Removes keys: [`MapStatus::Erased`] or [`MapStatus::Absent`].
    pub fn erase(&self, keys: &[K]) -> Result<Vec<MapStatus>, ContainerError> {
        self.run(&HostBatch::All(MapOpKind::Erase, keys, None))
    }

    /// Which keys are there.
    pub fn contains(&self, keys: &[K]) -> Result<Vec<bool>, ContainerError> {
        self.0.contains(keys)
    }

    /// Runs operations of all kinds, those on one key in their order. Their values mean nothing; [`MapOpKind::Put`], `Add`, `Min` and `Max`
    /// insert as [`MapOpKind::Insert`] does, and say [`MapStatus::Updated`] if the key was there.
    pub fn apply(&self, ops: &[MapOp<K>]) -> Result<Vec<MapStatus>, ContainerError> {
        let ops: Vec<MapOp<K, ()>> = ops.iter().map(|op| MapOp::new(op.kind, op.key, ())).collect();
        self.run(&HostBatch::Each(&ops))
    }

    /// Runs a batch in device memory after what is in the stream, and waits for it: keys, and a [`MapStatus`] in a byte for each. The
    /// operations are those of [`apply`](Self::apply).
    pub fn apply_on(
        &self,
        kinds: MapOpKinds<'_>,
        keys: &Buffer,
        count: usize,
        statuses: &mut Buffer,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let ops = DeviceOps { kinds, keys, values: None, count };
        self.0.apply_on(ops, DeviceAnswers { statuses, before: None }, stream)
    }

    /// As [`apply_on`](Self::apply_on), but returns as soon as the kernels are in the stream, with an event behind them. See
    /// [`HashMap::enqueue_on`].
    ///
    /// # Safety
    /// As [`HashMap::enqueue_on`].
    pub unsafe fn enqueue_on(
        &self,
        kinds: MapOpKinds<'_>,
        keys: &Buffer,
        count: usize,
        statuses: &mut Buffer,
        stream: &Stream,
    ) -> Result<Event, ContainerError> {
        let ops = DeviceOps { kinds, keys, values: None, count };
        // SAFETY: this function's contract.
        unsafe { self.0.enqueue_on(ops, DeviceAnswers { statuses, before: None }, stream) }
    }

    /// As [`HashMap::reserve`].
    pub fn reserve(&self, items: u64) -> Result<(), ContainerError> {
        self.0.reserve(items)
    }

    /// The number of keys: exact, counted by the kernels that change it.
    pub fn len(&self) -> Result<u64, ContainerError> {
        self.0.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> Result<bool, ContainerError> {
        self.0.is_empty()
    }

    /// Removes all keys, and keeps the memory.
    pub fn clear(&self) -> Result<(), ContainerError> {
        self.0.clear()
    }

    /// All keys, in no order.
    pub fn retrieve_all(&self) -> Result<Vec<K>, ContainerError> {
        let mut all = Vec::new();
        self.0.for_each_part(|pairs| all.extend(pairs.iter().map(|(key, _)| *key)))?;
        Ok(all)
    }

    /// All keys in device memory, in no order, after what is in the stream; gives their number.
    pub fn retrieve_all_on(&self, keys: &mut Buffer, stream: &Stream) -> Result<u64, ContainerError> {
        let map = self.0.on_device("retrieve_all_on")?;
        keys.check_device(&map.device, "keys")?;
        let room = keys.len() / size_of::<K>();
        // SAFETY: the buffer has that room, and is borrowed exclusively.
        Ok(unsafe { map.retrieve(keys.ptr(), DevicePtr::NULL, room as u64, stream)? })
    }

    /// What kernels of others need to use the set.
    pub fn reference(&self) -> Result<HashSetRef<K>, ContainerError> {
        self.0.reference().map(HashSetRef)
    }

    /// Numbers about it.
    pub fn stats(&self) -> Result<HashMapStats, ContainerError> {
        self.0.stats()
    }

    /// As [`HashMap::verify`].
    pub fn verify(&self) -> Result<u64, ContainerError> {
        self.0.verify()
    }

    /// As [`HashMap::save`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ContainerError> {
        self.0.save(path)
    }

    /// A set in device memory with the keys of a file. See [`HashMap::load`].
    pub fn load(
        device: &Device,
        path: impl AsRef<Path>,
        options: &HashMapOptions,
    ) -> Result<Self, ContainerError> {
        HashMap::load_from(Some(device), path.as_ref(), options).map(HashSet)
    }

    /// A set on the CPU with the keys of a file.
    pub fn load_on_cpu(path: impl AsRef<Path>, options: &HashMapOptions) -> Result<Self, ContainerError> {
        HashMap::load_from(None, path.as_ref(), options).map(HashSet)
    }

    fn run(&self, batch: &HostBatch<'_, K, ()>) -> Result<Vec<MapStatus>, ContainerError> {
        let status = |answer: MapAnswer<()>| answer.status;
        Ok(self.0.run(batch)?.into_iter().map(status).collect())
    }
}
