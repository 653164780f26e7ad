//! A hash map, and a hash set of keys.

mod columns;
mod cpu;
mod device;
mod enqueue;
mod file;
mod insertion;
mod kernels;
pub(crate) mod mix;
mod op;
mod outstanding;
mod set;
mod stats;
mod table;
mod whole;
mod width;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use warpkeep_device::{Buffer, Device, DevicePtr, Event, Program, Result, Stream};

use columns::{HostBatch, Staged};
use cpu::CpuMap;
use device::DeviceMap;
use kernels::Kernels;
pub use op::{MapAnswer, MapOp, MapOpKind, MapStatus};
pub use set::{HashSet, HashSetRef};
pub use stats::HashMapStats;
pub use table::HashMapRef;
use width::Shape;
pub use width::{MapKey, MapValue};

use crate::ContainerError;
use crate::batch_columns::{check_operations, own_column};

/// How a [`HashMap`] or a [`HashSet`] is made.
#[derive(Debug, Clone)]
pub struct HashMapOptions {
    items: u64,
    seed: Option<u64>,
    most_bytes: Option<u64>,
    staged: usize,
}

impl Default for HashMapOptions {
    fn default() -> Self {
        Self { items: 0, seed: None, most_bytes: None, staged: 1 << 24 }
    }
}

impl HashMapOptions {
    /// Room for this many keys from the beginning. It grows beyond that by itself.
    #[must_use]
    pub fn items(self, items: u64) -> Self {
        Self { items, ..self }
    }

    /// The seed of the hash. By default it is a random number, so that keys that collide cannot be chosen.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Device memory that slots and values may take. By default the memory of the device, or the budget of its handle. A map for whose
    /// [`items`](Self::items) that is too little is refused, and so is one for which it has no 64 buckets: there are no smaller maps.
    #[must_use]
    pub fn most_bytes(self, bytes: u64) -> Self {
        Self { most_bytes: Some(bytes), ..self }
    }

    /// Operations of a batch of slices that are in device memory at once, 2^24 by default and less than 2^32. Longer batches are run, and seen, in such parts.
    #[must_use]
    pub fn staged(self, operations: usize) -> Self {
        Self { staged: operations, ..self }
    }

    fn seed_or_random(&self) -> u64 {
        self.seed.unwrap_or_else(|| RandomState::new().build_hasher().finish())
    }
}

/// What [`HashMap::upsert`] does with a key that is there. Values of 16 bytes are no numbers, and can be replaced only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Upsert {
    /// It has the new value.
    Replace,
    /// It has the sum, modulo 2^32 or 2^64.
    Add,
    /// It has the smaller of both.
    Min,
    /// It has the larger of both.
    Max,
}

impl Upsert {
    /// The operation of mixed batches that does the same.
    pub fn kind(self) -> MapOpKind {
        match self {
            Self::Replace => MapOpKind::Put,
            Self::Add => MapOpKind::Add,
            Self::Min => MapOpKind::Min,
            Self::Max => MapOpKind::Max,
        }
    }
}

/// The kinds of the operations of a batch in device memory.
#[derive(Debug, Clone, Copy)]
pub enum MapOpKinds<'a> {
    /// All are the same. Batches of [`MapOpKind::Find`] and [`MapOpKind::Contains`] alone need no order and are fastest.
    All(MapOpKind),
    /// A byte for each operation: a [`MapOpKind`]. Other bytes are answered as [`MapOpKind::Find`], and so are sums and comparisons of
    /// values that are no numbers.
    Each(&'a Buffer),
}

/// A batch in device memory.
#[derive(Debug, Clone, Copy)]
pub struct DeviceOps<'a> {
    /// What the operations do.
    pub kinds: MapOpKinds<'a>,
    /// Their keys, as long as a key of the map.
    pub keys: &'a Buffer,
    /// Their values, as long as a value of the map; zero if there are none.
    pub values: Option<&'a Buffer>,
    /// How many there are.
    pub count: usize,
}

/// Where the answers to a batch in device memory go.
#[derive(Debug)]
pub struct DeviceAnswers<'a> {
    /// A byte for each operation: a [`MapStatus`].
    pub statuses: &'a mut Buffer,
    /// The value that each key had before, as long as a value of the map.
    pub before: Option<&'a mut Buffer>,
}

/// A map that grows by itself, in device memory or on the CPU. Keys are `u32` or `u64`, values `u32`, `u64` or 16 bytes: see [`MapValue`].
///
/// Every key will do. Operations of a batch on one key act in the batch's order, whatever the others do; each has an answer.
/// Calls may come from several threads; those that change the map run one after the other, so a batch is seen as a whole.
///
/// ```
/// use warpkeep_containers::{HashMap, HashMapOptions, MapOp, MapStatus, Upsert};
/// use warpkeep_device::{Device, DeviceChoice};
///
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// let device = Device::open(DeviceChoice::Sim)?;
/// // `HashMap` alone, as a type, is `HashMap<u64, u64>`.
/// let map: HashMap = HashMap::new(&device, &HashMapOptions::default())?;
/// map.insert(&[0, 7, u64::MAX], &[10, 11, 12])?;
/// map.upsert(Upsert::Add, &[7, 8, 7], &[1, 1, 1])?;
/// assert_eq!(map.find(&[7, 8, 9])?, [Some(13), Some(1), None]);
///
/// let answers = map.apply(&[MapOp::erase(7), MapOp::contains(7), MapOp::put(7, 1)])?;
/// assert_eq!((answers[0].status, answers[0].before), (MapStatus::Erased, 13));
/// assert_eq!((answers[1].status, answers[2].status), (MapStatus::Absent, MapStatus::Inserted));
/// assert_eq!(map.len()?, 4);
///
/// // Half the memory a pair; and values of 16 bytes.
/// let small = HashMap::<u32, u32>::new(&device, &HashMapOptions::default())?;
/// small.insert(&[7, u32::MAX], &[70, 80])?;
/// let spans = HashMap::<u64, [u64; 2]>::new(&device, &HashMapOptions::default())?;
/// spans.upsert(Upsert::Replace, &[7], &[[4096, 128]])?;
/// assert_eq!(spans.find(&[7])?, [Some([4096, 128])]);
/// # Ok::<(), warpkeep_containers::ContainerError>(())
/// ```
#[derive(Debug)]
pub struct HashMap<K: MapKey = u64, V: MapValue = u64> {
    seed: u64,
    kind: Kind<K, V>,
}

#[derive(Debug)]
enum Kind<K: MapKey, V: MapValue> {
    Device(Box<DeviceMap<K, V>>),
    Cpu(CpuMap<K, V>),
}

impl<K: MapKey, V: MapValue> HashMap<K, V> {
    /// The program that its kernels are in. Maps of other widths have others.
    pub fn program() -> Program {
        Kernels::program(Shape::of::<K, V>())
    }

    /// An empty map in the memory of this device.
    ///
    /// # Errors
    /// As for memory that is short, also if [`most_bytes`](HashMapOptions::most_bytes) is too little for the map.
    pub fn new(device: &Device, options: &HashMapOptions) -> Result<Self, ContainerError> {
        let seed = options.seed_or_random();
        let map = DeviceMap::new(device, options, seed)?;
        Ok(HashMap { seed, kind: Kind::Device(Box::new(map)) })
    }

    /// An empty map in the memory of the host, worked by the thread that calls. All calls that take slices work alike.
    ///
    /// ```
    /// use warpkeep_containers::{HashMap, HashMapOptions};
    ///
    /// let map = HashMap::<u64, u64>::on_cpu(&HashMapOptions::default());
    /// map.insert(&[1, 2], &[10, 20])?;
    /// assert_eq!(map.find(&[2, 3])?, [Some(20), None]);
    /// # Ok::<(), warpkeep_containers::ContainerError>(())
    /// ```
    pub fn on_cpu(options: &HashMapOptions) -> Self {
        // No more than that, because a hint must not take all memory.
        let items = options.items.min(1 << 20) as usize;
        let kind = Kind::Cpu(CpuMap::with_capacity(items));
        // It hashes nothing here. A file of this map has it for the maps in device memory that are loaded from it.
        HashMap { seed: options.seed_or_random(), kind }
    }

    /// Adds keys. A key that is there keeps its value, and the answer is [`MapStatus::Found`].
    pub fn insert(&self, keys: &[K], values: &[V]) -> Result<Vec<MapAnswer<V>>, ContainerError> {
        self.run_all(MapOpKind::Insert, keys, values)
    }

    /// Adds keys, or changes the values of those that are there.
    ///
    /// # Errors
    /// [`ContainerError::NoNumbers`], before anything is changed, if values of 16 bytes are to be added or compared.
    pub fn upsert(&self, how: Upsert, keys: &[K], values: &[V]) -> Result<Vec<MapAnswer<V>>, ContainerError> {
        self.run_all(how.kind(), keys, values)
    }

    /// Removes keys.
    pub fn erase(&self, keys: &[K]) -> Result<Vec<MapAnswer<V>>, ContainerError> {
        self.run(&HostBatch::All(MapOpKind::Erase, keys, None))
    }

    /// The values of keys.
    pub fn find(&self, keys: &[K]) -> Result<Vec<Option<V>>, ContainerError> {
        let answers = self.run(&HostBatch::All(MapOpKind::Find, keys, None))?;
        let value = |answer: MapAnswer<V>| (answer.status == MapStatus::Found).then_some(answer.before);
        Ok(answers.into_iter().map(value).collect())
    }

    /// Which keys are there.
    pub fn contains(&self, keys: &[K]) -> Result<Vec<bool>, ContainerError> {
        let answers = self.run(&HostBatch::All(MapOpKind::Contains, keys, None))?;
        Ok(answers.into_iter().map(|answer| answer.status == MapStatus::Found).collect())
    }

    /// Runs operations of all kinds, those on one key in their order.
    ///
    /// # Errors
    /// As [`upsert`](Self::upsert).
    pub fn apply(&self, ops: &[MapOp<K, V>]) -> Result<Vec<MapAnswer<V>>, ContainerError> {
        self.run(&HostBatch::Each(ops))
    }

    /// Makes room for this many keys in all, so that batches of new keys find it. Without it the map grows when it must.
    ///
    /// # Errors
    /// As for memory that is short. The map has grown as far as it could, and is as good as before.
    pub fn reserve(&self, items: u64) -> Result<(), ContainerError> {
        match &self.kind {
            Kind::Device(map) => map.reserve(items)?,
            Kind::Cpu(map) => {
                let mut map = map.lock();
                let more = usize::try_from(items).unwrap_or(usize::MAX).saturating_sub(map.len());
                let most = map.capacity() as u64;
                map.try_reserve(more).map_err(|_| ContainerError::TooLarge {
                    what: "keys",
                    given: items,
                    most,
                })?;
            }
        }
        Ok(())
    }

    /// Runs a batch in device memory after what is in the stream, and waits for it. Values that are found are those before.
    ///
    /// # Errors
    /// If a buffer is too short or of another device, if there are 2^32 operations or more and not all of them are lookups, or if the map is on the CPU,
    /// before anything is changed.
    pub fn apply_on(
        &self,
        ops: DeviceOps<'_>,
        answers: DeviceAnswers<'_>,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let map = self.on_device("apply_on")?;
        let staged = staged::<K, V>(ops, answers, &map.device)?;
        // SAFETY: the lengths were checked; all buffers are borrowed, those that are written exclusively.
        unsafe { map.run_staged(&staged, stream)? };
        Ok(())
    }

    /// As [`apply_on`](Self::apply_on), but returns as soon as the kernels are in the stream, with an event behind them. The host decides
    /// nothing on the way, so the map does not grow: a key that finds no slot is answered [`MapStatus::Full`], and a map to which
    /// [`reserve`](Self::reserve) gave room has slots. Batches of [`MapOpKind::Find`] or [`MapOpKind::Contains`] alone need no room.
    ///
    /// Work that is enqueued later, in any stream, sees the batch as a whole, and calls of the host that need the map wait for it. Kernels
    /// of others that use a [`reference`](Self::reference) come after the event.
    ///
    /// ```
    /// use warpkeep_containers::{DeviceAnswers, DeviceOps, HashMap, HashMapOptions, MapOpKind, MapOpKinds, MapStatus};
    /// use warpkeep_device::{Device, DeviceChoice};
    ///
    /// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
    /// let device = Device::open(DeviceChoice::Sim)?;
    /// let map = HashMap::<u64, u64>::new(&device, &HashMapOptions::default())?;
    /// map.reserve(1000)?;
    /// let (keys, values) = (device.upload(&[7_u64, 8])?, device.upload(&[70_u64, 80])?);
    /// let (mut added, mut found, mut rows) = (device.allocate(2)?, device.allocate(2)?, device.allocate(16)?);
    /// let stream = device.stream()?;
    /// let ops = |kind, values| DeviceOps { kinds: MapOpKinds::All(kind), keys: &keys, values, count: 2 };
    /// // SAFETY: the buffers live, and are used for nothing else, until the second event has been waited for.
    /// unsafe {
    ///     let to = DeviceAnswers { statuses: &mut added, before: None };
    ///     map.enqueue_on(ops(MapOpKind::Insert, Some(&values)), to, &stream)?;
    ///     let to = DeviceAnswers { statuses: &mut found, before: Some(&mut rows) };
    ///     map.enqueue_on(ops(MapOpKind::Find, None), to, &stream)?.synchronize()?;
    /// }
    /// assert_eq!(found.to_vec::<u8>()?, [MapStatus::Found as u8; 2]);
    /// assert_eq!(rows.to_vec::<u64>()?, [70, 80]);
    /// # Ok::<(), warpkeep_containers::ContainerError>(())
    /// ```
    ///
    /// # Errors
    /// As [`apply_on`](Self::apply_on). If the device fails while kernels are enqueued, the batch may have been done in part.
    ///
    /// # Safety
    /// The buffers stay valid, and no other code on the host or outside the stream's order uses them, until the device has come to the
    /// event.
    pub unsafe fn enqueue_on(
        &self,
        ops: DeviceOps<'_>,
        answers: DeviceAnswers<'_>,
        stream: &Stream,
    ) -> Result<Event, ContainerError> {
        let map = self.on_device("enqueue_on")?;
        let staged = staged::<K, V>(ops, answers, &map.device)?;
        // SAFETY: the lengths were checked; the rest is this function's contract.
        Ok(unsafe { map.enqueue(&staged, stream)? })
    }

    /// The number of keys: exact, counted by the kernels that change it.
    pub fn len(&self) -> Result<u64, ContainerError> {
        match &self.kind {
            Kind::Device(map) => Ok(map.read()?.len()?),
            Kind::Cpu(map) => Ok(map.lock().len() as u64),
        }
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> Result<bool, ContainerError> {
        Ok(self.len()? == 0)
    }

    /// Removes all keys, and keeps the memory.
    pub fn clear(&self) -> Result<(), ContainerError> {
        match &self.kind {
            Kind::Device(map) => map.write()?.clear()?,
            Kind::Cpu(map) => map.lock().clear(),
        }
        Ok(())
    }

    /// Gives all pairs to `take`, in parts and in no order. Calls that change the map wait until it is done. So `take` must not call the map at
    /// all, also not to read: a call waits behind changes of other threads that wait for `take`, and neither ends.
    pub fn for_each_part(&self, mut take: impl FnMut(&[(K, V)])) -> Result<(), ContainerError> {
        self.try_for_each_part(|pairs| {
            take(pairs);
            Ok(())
        })
    }

    /// All pairs, in no order.
    pub fn retrieve_all(&self) -> Result<Vec<(K, V)>, ContainerError> {
        let mut all = Vec::new();
        self.for_each_part(|pairs| all.extend_from_slice(pairs))?;
        Ok(all)
    }

    /// All pairs in device memory, in no order, after what is in the stream; gives their number. Both buffers need room for
    /// [`len`](Self::len) keys, and as many values.
    pub fn retrieve_all_on(
        &self,
        keys: &mut Buffer,
        values: &mut Buffer,
        stream: &Stream,
    ) -> Result<u64, ContainerError> {
        let map = self.on_device("retrieve_all_on")?;
        let room =
            (keys.len() / size_of::<K>()).min(values.len().checked_div(size_of::<V>()).unwrap_or(usize::MAX));
        keys.check_device(&map.device, "keys")?;
        // Values without bytes need no room.
        let values = match size_of::<V>() {
            0 => DevicePtr::NULL,
            _ => values.check_device(&map.device, "values").map(|()| values.ptr())?,
        };
        // SAFETY: both buffers have that room, and are borrowed exclusively.
        Ok(unsafe { map.retrieve(keys.ptr(), values, room as u64, stream)? })
    }

    /// What kernels of others need to use the map. See [`HashMapRef`] for how long it is good.
    pub fn reference(&self) -> Result<HashMapRef<K, V>, ContainerError> {
        Ok(self.on_device("reference")?.read()?.typed_reference())
    }

    fn on_device(&self, what: &'static str) -> Result<&DeviceMap<K, V>, ContainerError> {
        match &self.kind {
            Kind::Device(map) => Ok(map),
            Kind::Cpu(_) => Err(ContainerError::OnCpu { what }),
        }
    }

    fn run_all(
        &self,
        kind: MapOpKind,
        keys: &[K],
        values: &[V],
    ) -> Result<Vec<MapAnswer<V>>, ContainerError> {
        if keys.len() != values.len() {
            let (given, expected) = (values.len(), keys.len());
            return Err(ContainerError::WrongLength { what: "values", given, expected });
        }
        self.run(&HostBatch::All(kind, keys, Some(values)))
    }

    fn run(&self, batch: &HostBatch<'_, K, V>) -> Result<Vec<MapAnswer<V>>, ContainerError> {
        if !V::IS_NUMBER && batch.computes() {
            return Err(ContainerError::NoNumbers { bytes: size_of::<V>() });
        }
        let mut answers = Vec::with_capacity(batch.len());
        let with_before = size_of::<V>() > 0 && !matches!(batch, HostBatch::All(MapOpKind::Contains, ..));
        match &self.kind {
            Kind::Device(map) => map.run(batch, with_before, |answer| answers.push(answer))?,
            Kind::Cpu(map) => map.run(batch, |answer| answers.push(answer)),
        }
        Ok(answers)
    }

    fn try_for_each_part(
        &self,
        mut take: impl FnMut(&[(K, V)]) -> Result<(), ContainerError>,
    ) -> Result<(), ContainerError> {
        match &self.kind {
            Kind::Device(map) => map.for_each_part(take),
            Kind::Cpu(map) => {
                let pairs: Vec<(K, V)> = map.lock().iter().map(|(key, value)| (*key, *value)).collect();
                take(&pairs)
            }
        }
    }
}

/// The columns of a batch in device memory; an error if one is too short or of another device, if there are too many operations, or if values that are no
/// numbers are to be computed with.
fn staged<K: MapKey, V: MapValue>(
    ops: DeviceOps<'_>,
    answers: DeviceAnswers<'_>,
    device: &Device,
) -> Result<Staged, ContainerError> {
    let DeviceAnswers { statuses, before } = answers;
    let column =
        |buffer: Option<&Buffer>, element, what| own_column(buffer, element, ops.count, what, device);
    // Values without bytes need no columns.
    let values =
        |buffer: Option<&Buffer>, what| column(buffer.filter(|_| size_of::<V>() > 0), size_of::<V>(), what);
    if !matches!(ops.kinds, MapOpKinds::All(MapOpKind::Find | MapOpKind::Contains)) {
        check_operations(ops.count)?;
    }
    let (codes, code) = match ops.kinds {
        MapOpKinds::All(kind) if kind.computes() && !V::IS_NUMBER => {
            return Err(ContainerError::NoNumbers { bytes: size_of::<V>() });
        }
        MapOpKinds::All(kind) => (None, kind as u32),
        MapOpKinds::Each(codes) => (Some(codes), 0),
    };
    Ok(Staged {
        keys: column(Some(ops.keys), size_of::<K>(), "keys")?,
        codes: column(codes, 1, "kinds of operations")?,
        code,
        operands: values(ops.values, "values")?,
        statuses: column(Some(statuses), 1, "statuses")?,
        before: values(before.as_deref(), "values before")?,
        count: ops.count,
    })
}
