//! An ordered map: keys in order, ranges, neighbours, snapshots.

mod batch;
mod columns;
mod cpu;
mod device_calls;
mod file;
mod fill;
mod finish;
mod kernels;
mod key;
mod near;
mod op;
mod plan;
mod pool;
mod ranges;
mod reads;
mod removals;
mod retired;
mod run;
mod snapshot;
mod stats;
mod tree;
mod verify;
mod version;
mod writer;

use std::sync::Arc;

use warpkeep_device::{Device, Program, Result};

use columns::HostBatch;
use cpu::CpuMap;
pub use device_calls::{
    DeviceFound, DeviceOrderedAnswers, DeviceOrderedOps, DevicePairs, OrderedOpKinds, PairLayout,
};
use kernels::Kernels;
pub use kernels::{OrderedMapRef, OrderedWriterRef};
pub use key::{OrderedKey, OrderedWord};
pub use near::Near;
pub use op::{OrderedAnswer, OrderedChange, OrderedOp, OrderedOpKind, OrderedStatus};
pub use ranges::OrderedRanges;
pub use snapshot::OrderedSnapshot;
use snapshot::View;
pub use stats::{OrderedMapStats, OrderedPin};
use tree::Tree;
pub use writer::OrderedWriter;

use crate::{ContainerError, Upsert};

/// How an [`OrderedMap`] is made.
#[derive(Debug, Clone, Default)]
pub struct OrderedMapOptions {
    most_bytes: Option<u64>,
    first_version: u64,
}

impl OrderedMapOptions {
    /// Device memory that the leaves may take. By default the memory of the device, or the budget of its handle.
    #[must_use]
    pub fn most_bytes(self, bytes: u64) -> Self {
        Self { most_bytes: Some(bytes), ..self }
    }

    /// The number of the first state, for tests of numbers with many bits.
    #[doc(hidden)]
    #[must_use]
    pub fn first_version(self, number: u64) -> Self {
        Self { first_version: number, ..self }
    }
}

/// A map whose keys are in order, in device memory or on the CPU: ranges, counts, neighbours, ranks and snapshots beside the operations of a hash
/// map.
///
/// Every key can be used. The operations of a batch act in the batch's order, ranges included: an answer is that of a map to which they
/// were applied one after the other. A batch is seen as a whole, and is done as a whole or, with an error, not at all. Calls may come from
/// several threads; those that change the map run one after the other, and those that read a map in device memory wait for none.
///
/// ```
/// use warpkeep_containers::{Near, OrderedMap, OrderedMapOptions, OrderedOp, Upsert};
/// use warpkeep_device::{Device, DeviceChoice};
///
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// let device = Device::open(DeviceChoice::Sim)?;
/// let map = OrderedMap::<u64, u64>::new(&device, &OrderedMapOptions::default())?;
/// map.insert(&[30, 10, 20, u64::MAX], &[3, 1, 2, 4])?;
/// map.upsert(Upsert::Add, &[10], &[5])?;
/// assert_eq!(map.find(&[10, 11])?, [Some(6), None]);
/// assert_eq!(map.range(&[15], &[30], None)?.keys, [20, 30]);
/// assert_eq!(map.predecessor(&[25], Near::strict())?, [Some((20, 2))]);
///
/// // In the batch's order: the range does not have the key that is erased before it.
/// let answers = map.apply(&[OrderedOp::erase(20), OrderedOp::range(0, 100), OrderedOp::put(20, 7)])?;
/// assert_eq!(answers[1].pairs, [(10, 6), (30, 3)]);
/// assert_eq!((map.len(), map.max()?), (4, Some((u64::MAX, 4))));
/// # Ok::<(), warpkeep_containers::ContainerError>(())
/// ```
#[derive(Debug)]
pub struct OrderedMap<K, V>(Kind<K, V>);

#[derive(Debug)]
enum Kind<K, V> {
    Device(Arc<Tree>),
    Cpu(CpuMap<K, V>),
}

impl<K: OrderedKey<V>, V: OrderedWord> OrderedMap<K, V> {
    /// The program that its kernels are in.
    pub fn program() -> Program {
        Kernels::program(K::SHAPE)
    }

    /// An empty map in the memory of this device.
    pub fn new(device: &Device, options: &OrderedMapOptions) -> Result<Self, ContainerError> {
        Ok(Self(Kind::Device(Arc::new(Tree::new(device, K::SHAPE, options)?))))
    }

    /// An empty map in the memory of the host, worked by the thread that calls. All calls that take slices work alike, but reads and
    /// [`snapshot`](Self::snapshot) wait for a batch that runs, and a batch that changes the map copies all pairs if a snapshot is held.
    ///
    /// ```
    /// use warpkeep_containers::{OrderedMap, OrderedMapOptions};
    ///
    /// let map = OrderedMap::<u32, u32>::on_cpu(&OrderedMapOptions::default());
    /// map.insert(&[2, 1], &[20, 10])?;
    /// assert_eq!(map.retrieve_all()?, [(1, 10), (2, 20)]);
    /// # Ok::<(), warpkeep_containers::ContainerError>(())
    /// ```
    pub fn on_cpu(_options: &OrderedMapOptions) -> Self {
        Self(Kind::Cpu(CpuMap::new()))
    }

    /// A map in device memory with these pairs, in any order. Of equal keys the last one counts.
    pub fn build(
        device: &Device,
        options: &OrderedMapOptions,
        keys: &[K],
        values: &[V],
    ) -> Result<Self, ContainerError> {
        let map = Self::new(device, options)?;
        map.upsert(Upsert::Replace, keys, values)?;
        Ok(map)
    }

    /// As [`build`](Self::build), of keys in ascending order, which are not sorted again.
    ///
    /// # Errors
    /// [`ContainerError::NotSorted`] if a key is less than the one before it.
    pub fn build_sorted(
        device: &Device,
        options: &OrderedMapOptions,
        keys: &[K],
        values: &[V],
    ) -> Result<Self, ContainerError> {
        let map = Self::new(device, options)?;
        map.fill_sorted(keys, values)?;
        Ok(map)
    }

    /// Puts pairs whose keys are in ascending order.
    fn fill_sorted(&self, keys: &[K], values: &[V]) -> Result<(), ContainerError> {
        check_values(keys, values)?;
        let batch = HostBatch::All(OrderedOpKind::Put, keys, Some(values));
        let disorder = match &self.0 {
            Kind::Device(tree) => tree.run_sorted(&batch)?,
            Kind::Cpu(_) => keys.windows(2).position(|two| two[0] > two[1]).map(|at| at + 1),
        };
        if let Some(at) = disorder {
            return Err(ContainerError::NotSorted { at });
        }
        if let Kind::Cpu(map) = &self.0 {
            map.run(&batch.ops().collect::<Vec<OrderedOp<K, V>>>());
        }
        Ok(())
    }

    /// Adds keys. A key that is there keeps its value, and the answer is [`OrderedStatus::Found`].
    pub fn insert(&self, keys: &[K], values: &[V]) -> Result<Vec<OrderedChange<V>>, ContainerError> {
        check_values(keys, values)?;
        self.run_changes(&HostBatch::All(OrderedOpKind::Insert, keys, Some(values)))
    }

    /// Adds keys, or changes the values of those that are there.
    pub fn upsert(
        &self,
        how: Upsert,
        keys: &[K],
        values: &[V],
    ) -> Result<Vec<OrderedChange<V>>, ContainerError> {
        check_values(keys, values)?;
        let kind = match how {
            Upsert::Replace => OrderedOpKind::Put,
            Upsert::Add => OrderedOpKind::Add,
            Upsert::Min => OrderedOpKind::Min,
            Upsert::Max => OrderedOpKind::Max,
        };
        self.run_changes(&HostBatch::All(kind, keys, Some(values)))
    }

    /// Removes keys.
    pub fn erase(&self, keys: &[K]) -> Result<Vec<OrderedChange<V>>, ContainerError> {
        self.run_changes(&HostBatch::All(OrderedOpKind::Erase, keys, None))
    }

    /// Runs operations of all kinds in their order.
    pub fn apply(&self, ops: &[OrderedOp<K, V>]) -> Result<Vec<OrderedAnswer<K, V>>, ContainerError> {
        match &self.0 {
            Kind::Device(tree) => tree.run_ops(&HostBatch::Each(ops)),
            Kind::Cpu(map) => Ok(map.run(ops)),
        }
    }

    /// The state of the map now, which stays as it is while the map changes. Takes no copy, and waits for no batch in device memory.
    pub fn snapshot(&self) -> OrderedSnapshot<K, V> {
        OrderedSnapshot(match &self.0 {
            Kind::Device(tree) => View::Device(tree.clone(), tree.current()),
            Kind::Cpu(map) => View::Cpu(map.current()),
        })
    }

    /// The number of keys: exact.
    pub fn len(&self) -> u64 {
        self.snapshot().len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values of keys.
    pub fn find(&self, keys: &[K]) -> Result<Vec<Option<V>>, ContainerError> {
        self.snapshot().find(keys)
    }

    /// Which keys are there.
    pub fn contains(&self, keys: &[K]) -> Result<Vec<bool>, ContainerError> {
        self.snapshot().contains(keys)
    }

    /// As [`OrderedSnapshot::successor`], of the state now.
    pub fn successor(&self, keys: &[K], near: Near<K>) -> Result<Vec<Option<(K, V)>>, ContainerError> {
        self.snapshot().successor(keys, near)
    }

    /// As [`OrderedSnapshot::predecessor`], of the state now.
    pub fn predecessor(&self, keys: &[K], near: Near<K>) -> Result<Vec<Option<(K, V)>>, ContainerError> {
        self.snapshot().predecessor(keys, near)
    }

    /// The pair with the smallest key.
    pub fn min(&self) -> Result<Option<(K, V)>, ContainerError> {
        self.snapshot().min()
    }

    /// The pair with the largest key.
    pub fn max(&self) -> Result<Option<(K, V)>, ContainerError> {
        self.snapshot().max()
    }

    /// As [`OrderedSnapshot::rank`], of the state now.
    pub fn rank(&self, keys: &[K]) -> Result<Vec<u64>, ContainerError> {
        self.snapshot().rank(keys)
    }

    /// As [`OrderedSnapshot::nth`], of the state now.
    pub fn nth(&self, ranks: &[u64]) -> Result<Vec<Option<(K, V)>>, ContainerError> {
        self.snapshot().nth(ranks)
    }

    /// As [`OrderedSnapshot::count`], of the state now.
    pub fn count(&self, lows: &[K], highs: &[K]) -> Result<Vec<u64>, ContainerError> {
        self.snapshot().count(lows, highs)
    }

    /// As [`OrderedSnapshot::range`], of the state now.
    pub fn range(
        &self,
        lows: &[K],
        highs: &[K],
        limit: Option<usize>,
    ) -> Result<OrderedRanges<K, V>, ContainerError> {
        self.snapshot().range(lows, highs, limit)
    }

    /// Gives all pairs to `take`, in parts and in the order of their keys. The map may change meanwhile: they are those of its state now.
    pub fn for_each_part(&self, take: impl FnMut(&[(K, V)])) -> Result<(), ContainerError> {
        self.snapshot().for_each_part(take)
    }

    /// All pairs, in the order of their keys.
    pub fn retrieve_all(&self) -> Result<Vec<(K, V)>, ContainerError> {
        self.snapshot().retrieve_all()
    }

    fn run_changes(&self, batch: &HostBatch<'_, K, V>) -> Result<Vec<OrderedChange<V>>, ContainerError> {
        match &self.0 {
            Kind::Device(tree) => tree.run_changes(batch),
            Kind::Cpu(map) => {
                let ops: Vec<OrderedOp<K, V>> = batch.ops().collect();
                let change = |answer: OrderedAnswer<K, V>| OrderedChange {
                    status: answer.status,
                    before: answer.value,
                };
                Ok(map.run(&ops).into_iter().map(change).collect())
            }
        }
    }
}

fn check_values<K, V>(keys: &[K], values: &[V]) -> Result<(), ContainerError> {
    match keys.len() == values.len() {
        true => Ok(()),
        false => {
            Err(ContainerError::WrongLength { what: "values", given: values.len(), expected: keys.len() })
        }
    }
}
