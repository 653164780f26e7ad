//! A hash map from 64-bit keys to 64-bit values, and a hash set of keys.

mod columns;
mod cpu;
mod device;
mod file;
mod kernels;
mod mix;
mod op;
mod set;
mod stats;
mod table;
mod whole;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use warpkeep_device::{Buffer, Device, Program, Result, Stream};

use columns::{HostBatch, Staged};
use cpu::CpuMap;
use device::DeviceMap;
use kernels::Shape;
pub use op::{MapAnswer, MapOp, MapOpKind, MapStatus};
pub use set::{HashSet, HashSetRef};
pub use stats::HashMapStats;
pub use table::HashMapRef;

use crate::ContainerError;
use crate::batch_columns::given_column;

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

    /// Device memory that the slots may take. By default the memory of the device, or the budget of its handle.
    #[must_use]
    pub fn most_bytes(self, bytes: u64) -> Self {
        Self { most_bytes: Some(bytes), ..self }
    }

    /// Operations of a batch of slices that are in device memory at once, 2^24 by default. Longer batches are run, and seen, in such parts.
    #[must_use]
    pub fn staged(self, operations: usize) -> Self {
        Self { staged: operations, ..self }
    }
}

/// What [`HashMap::upsert`] does with a key that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Upsert {
    /// It has the new value.
    Replace,
    /// It has the sum, modulo 2^64.
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
    /// A byte for each operation: a [`MapOpKind`]. Other bytes are answered as [`MapOpKind::Find`].
    Each(&'a Buffer),
}

/// A batch in device memory.
#[derive(Debug, Clone, Copy)]
pub struct DeviceOps<'a> {
    /// What the operations do.
    pub kinds: MapOpKinds<'a>,
    /// Their keys, eight bytes each.
    pub keys: &'a Buffer,
    /// Their values, eight bytes each; 0 if there are none.
    pub values: Option<&'a Buffer>,
    /// How many there are.
    pub count: usize,
}

/// Where the answers to a batch in device memory go.
#[derive(Debug)]
pub struct DeviceAnswers<'a> {
    /// A byte for each operation: a [`MapStatus`].
    pub statuses: &'a mut Buffer,
    /// The value that each key had before, eight bytes each.
    pub before: Option<&'a mut Buffer>,
}

/// A map from 64-bit keys to 64-bit values that grows by itself, in device memory or on the CPU.
///
/// Every key will do. Operations of a batch on one key act in the batch's order, whatever the others do; each has an answer.
/// Calls may come from several threads; those that change the map run one after the other, so a batch is seen as a whole.
///
/// ```
/// use warpkeep_containers::{HashMap, HashMapOptions, MapOp, MapStatus, Upsert};
/// use warpkeep_device::{Device, DeviceChoice};
///
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// let map = HashMap::new(&Device::open(DeviceChoice::Sim)?, &HashMapOptions::default())?;
/// map.insert(&[0, 7, u64::MAX], &[10, 11, 12])?;
/// map.upsert(Upsert::Add, &[7, 8, 7], &[1, 1, 1])?;
/// assert_eq!(map.find(&[7, 8, 9])?, [Some(13), Some(1), None]);
///
/// let answers = map.apply(&[MapOp::erase(7), MapOp::contains(7), MapOp::put(7, 1)])?;
/// assert_eq!((answers[0].status, answers[0].before), (MapStatus::Erased, 13));
/// assert_eq!((answers[1].status, answers[2].status), (MapStatus::Absent, MapStatus::Inserted));
/// assert_eq!(map.len()?, 4);
/// # Ok::<(), warpkeep_containers::ContainerError>(())
/// ```
#[derive(Debug)]
pub struct HashMap {
    seed: u64,
    shape: Shape,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Device(Box<DeviceMap>),
    Cpu(CpuMap),
}

impl HashMap {
    /// The program that its kernels are in.
    pub fn program() -> Program {
        Shape::Map.program()
    }

    /// An empty map in the memory of this device.
    pub fn new(device: &Device, options: &HashMapOptions) -> Result<HashMap, ContainerError> {
        Self::shaped(device, options, Shape::Map)
    }

    /// An empty map in the memory of the host, worked by the thread that calls. All calls that take slices work alike.
    ///
    /// ```
    /// use warpkeep_containers::{HashMap, HashMapOptions};
    ///
    /// let map = HashMap::on_cpu(&HashMapOptions::default());
    /// map.insert(&[1, 2], &[10, 20])?;
    /// assert_eq!(map.find(&[2, 3])?, [Some(20), None]);
    /// # Ok::<(), warpkeep_containers::ContainerError>(())
    /// ```
    pub fn on_cpu(options: &HashMapOptions) -> HashMap {
        Self::shaped_on_cpu(options, Shape::Map)
    }

    /// Adds keys. A key that is there keeps its value, and the answer is [`MapStatus::Found`].
    pub fn insert(&self, keys: &[u64], values: &[u64]) -> Result<Vec<MapAnswer>, ContainerError> {
        self.run_all(MapOpKind::Insert, keys, values)
    }

    /// Adds keys, or changes the values of those that are there.
    pub fn upsert(
        &self,
        how: Upsert,
        keys: &[u64],
        values: &[u64],
    ) -> Result<Vec<MapAnswer>, ContainerError> {
        self.run_all(how.kind(), keys, values)
    }

    /// Removes keys.
    pub fn erase(&self, keys: &[u64]) -> Result<Vec<MapAnswer>, ContainerError> {
        self.run(&HostBatch::All(MapOpKind::Erase, keys, None))
    }

    /// The values of keys.
    pub fn find(&self, keys: &[u64]) -> Result<Vec<Option<u64>>, ContainerError> {
        let answers = self.run(&HostBatch::All(MapOpKind::Find, keys, None))?;
        let value = |answer: MapAnswer| (answer.status == MapStatus::Found).then_some(answer.before);
        Ok(answers.into_iter().map(value).collect())
    }

    /// Which keys are there.
    pub fn contains(&self, keys: &[u64]) -> Result<Vec<bool>, ContainerError> {
        let answers = self.run(&HostBatch::All(MapOpKind::Contains, keys, None))?;
        Ok(answers.into_iter().map(|answer| answer.status == MapStatus::Found).collect())
    }

    /// Runs operations of all kinds, those on one key in their order.
    pub fn apply(&self, ops: &[MapOp]) -> Result<Vec<MapAnswer>, ContainerError> {
        self.run(&HostBatch::Each(ops))
    }

    /// Runs a batch in device memory after what is in the stream, and waits for it. Values that are found are those before.
    ///
    /// # Errors
    /// If a buffer is too short or the map is on the CPU, before anything is changed.
    pub fn apply_on(
        &self,
        ops: DeviceOps<'_>,
        answers: DeviceAnswers<'_>,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let map = self.on_device("apply_on")?;
        let (count, DeviceAnswers { statuses, before }) = (ops.count, answers);
        let column = |buffer: Option<&Buffer>, element, what| given_column(buffer, element, count, what);
        let (codes, code) = match ops.kinds {
            MapOpKinds::All(kind) => (None, kind as u32),
            MapOpKinds::Each(codes) => (Some(codes), 0),
        };
        let staged = Staged {
            keys: column(Some(ops.keys), 8, "keys")?,
            codes: column(codes, 1, "kinds of operations")?,
            code,
            operands: column(ops.values, 8, "values")?,
            statuses: column(Some(statuses), 1, "statuses")?,
            before: column(before.as_deref(), 8, "values before")?,
            count,
        };
        // SAFETY: the lengths were checked; all buffers are borrowed, those that are written exclusively.
        unsafe { map.run_staged(&staged, stream)? };
        Ok(())
    }

    /// The number of keys: exact, counted by the kernels that change it.
    pub fn len(&self) -> Result<u64, ContainerError> {
        match &self.kind {
            Kind::Device(map) => Ok(map.read().len()?),
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
            Kind::Device(map) => map.write().clear()?,
            Kind::Cpu(map) => map.lock().clear(),
        }
        Ok(())
    }

    /// Gives all pairs to `take`, in parts and in no order. Calls that change the map wait until it is done, so `take` must not make one.
    pub fn for_each_part(&self, mut take: impl FnMut(&[(u64, u64)])) -> Result<(), ContainerError> {
        self.try_for_each_part(|pairs| {
            take(pairs);
            Ok(())
        })
    }

    /// All pairs, in no order.
    pub fn retrieve_all(&self) -> Result<Vec<(u64, u64)>, ContainerError> {
        let mut all = Vec::new();
        self.for_each_part(|pairs| all.extend_from_slice(pairs))?;
        Ok(all)
    }

    /// All pairs in device memory, in no order, after what is in the stream; gives their number. Both buffers need room for
    /// [`len`](Self::len) elements of eight bytes.
    pub fn retrieve_all_on(
        &self,
        keys: &mut Buffer,
        values: &mut Buffer,
        stream: &Stream,
    ) -> Result<u64, ContainerError> {
        let map = self.on_device("retrieve_all_on")?;
        let room = keys.len().min(values.len()) as u64 / 8;
        // SAFETY: both buffers have that room, and are borrowed exclusively.
        Ok(unsafe { map.retrieve(keys.ptr(), values.ptr(), room, stream)? })
    }

    /// What kernels of others need to use the map. See [`HashMapRef`] for how long it is good.
    pub fn reference(&self) -> Result<HashMapRef, ContainerError> {
        Ok(self.on_device("reference")?.read().reference())
    }

    fn shaped(device: &Device, options: &HashMapOptions, shape: Shape) -> Result<HashMap, ContainerError> {
        let seed = options.seed.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        let map = DeviceMap::new(device, options, shape, seed)?;
        Ok(HashMap { seed, shape, kind: Kind::Device(Box::new(map)) })
    }

    fn shaped_on_cpu(options: &HashMapOptions, shape: Shape) -> HashMap {
        // No more than that, because a hint must not take all memory.
        let items = options.items.min(1 << 20) as usize;
        let kind = Kind::Cpu(CpuMap::with_capacity(items));
        HashMap { seed: options.seed.unwrap_or(0), shape, kind }
    }

    fn on_device(&self, what: &'static str) -> Result<&DeviceMap, ContainerError> {
        match &self.kind {
            Kind::Device(map) => Ok(map),
            Kind::Cpu(_) => Err(ContainerError::OnCpu { what }),
        }
    }

    fn run_all(
        &self,
        kind: MapOpKind,
        keys: &[u64],
        values: &[u64],
    ) -> Result<Vec<MapAnswer>, ContainerError> {
        if keys.len() != values.len() {
            let (given, expected) = (values.len(), keys.len());
            return Err(ContainerError::WrongLength { what: "values", given, expected });
        }
        self.run(&HostBatch::All(kind, keys, Some(values)))
    }

    fn run(&self, batch: &HostBatch<'_>) -> Result<Vec<MapAnswer>, ContainerError> {
        let mut answers = Vec::with_capacity(batch.len());
        let with_before = !matches!(batch, HostBatch::All(MapOpKind::Contains, ..));
        match &self.kind {
            Kind::Device(map) => map.run(batch, with_before, |answer| answers.push(answer))?,
            Kind::Cpu(map) => map.run(batch, |answer| answers.push(answer)),
        }
        Ok(answers)
    }

    fn try_for_each_part(
        &self,
        mut take: impl FnMut(&[(u64, u64)]) -> Result<(), ContainerError>,
    ) -> Result<(), ContainerError> {
        match &self.kind {
            Kind::Device(map) => map.for_each_part(take),
            Kind::Cpu(map) => {
                let pairs: Vec<(u64, u64)> = map.lock().iter().map(|(key, value)| (*key, *value)).collect();
                take(&pairs)
            }
        }
    }
}
