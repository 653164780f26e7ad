//! An example of a container on `warpkeep-device`: a map from keys to counters, in the memory of a GPU or of the simulator.
//!
//! The kernels are in `kernels/counter_map.cu`. `tests/simulator.rs` has all tests of a container on the simulator, `tests/cuda.rs` the same
//! batches on a GPU, `tests/gate.rs` the proof that the one fault point is noticed.

use std::num::NonZeroU64;

use bytemuck::NoUninit;
use warpkeep_device::{
    Buffer, Device, DevicePtr, KernelSet as _, Program, Result, StagedBuffer, TypedKernel, Workspace,
    WorkspacePool,
};

/// Threads of a block.
const THREADS: u32 = 128;
/// What the kernels answer if there is no slot left.
const FULL: u64 = u64::MAX;

#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct Params {
    slots: DevicePtr,
    capacity: u64,
    keys: DevicePtr,
    amounts: DevicePtr,
    counts: DevicePtr,
    items: u64,
}

warpkeep_device::kernel_set! {
    struct CounterKernels in "counter_map.cu", prefix "counter_map_" {
        add: Params,
        get: Params,
    }
    agree {
        full = FULL,
    }
}

/// Columns of a batch.
#[derive(Debug, Default)]
struct Columns {
    keys: StagedBuffer,
    amounts: StagedBuffer,
    counts: StagedBuffer,
}

/// A counter for each of up to `capacity` keys. Batches may run at the same time, from any thread.
///
/// ```
/// use warpkeep_device::{Device, DeviceChoice};
/// use warpkeep_example_counter_map::CounterMap;
///
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// let map = CounterMap::new(&Device::open(DeviceChoice::Sim)?, 1000)?;
/// let [seven, eight] = [7, 8].map(|key| key.try_into().unwrap());
/// assert_eq!(map.add(&[(seven, 2), (eight, 5)])?, [Some(2), Some(5)]);
/// assert_eq!(map.add(&[(seven, 1)])?, [Some(3)]);
/// assert_eq!(map.get(&[seven, eight])?, [3, 5]);
/// # Ok::<(), warpkeep_device::DeviceError>(())
/// ```
#[derive(Debug)]
pub struct CounterMap {
    device: Device,
    kernels: CounterKernels,
    slots: Buffer,
    workspaces: WorkspacePool<Columns>,
}

impl CounterMap {
    /// The program that its kernels are in.
    pub fn program() -> Program {
        CounterKernels::program()
    }

    /// An empty map.
    pub fn new(device: &Device, capacity: usize) -> Result<CounterMap> {
        Ok(CounterMap {
            device: device.clone(),
            kernels: CounterKernels::load(device)?,
            slots: device.allocate_zeroed(16 * capacity)?,
            workspaces: WorkspacePool::default(),
        })
    }

    /// Adds to counters; gives each counter after its addition, or `None` if the map is full and has none for the key. Additions to one
    /// key are done in any order.
    pub fn add(&self, items: &[(NonZeroU64, u64)]) -> Result<Vec<Option<u64>>> {
        let (keys, amounts) = (items.iter().map(|item| item.0.get()), items.iter().map(|item| item.1));
        let counts = self.run(&self.kernels.add, keys, amounts)?;
        Ok(counts.into_iter().map(|count| (count != FULL).then_some(count)).collect())
    }

    /// The counters of keys; 0 for a key that nothing was added to.
    pub fn get(&self, keys: &[NonZeroU64]) -> Result<Vec<u64>> {
        self.run(&self.kernels.get, keys.iter().map(|key| key.get()), std::iter::empty())
    }

    /// All keys and counters, in no order.
    pub fn items(&self) -> Result<Vec<(NonZeroU64, u64)>> {
        let slots = self.slots.to_vec::<[u64; 2]>()?;
        Ok(slots.into_iter().filter_map(|[key, count]| Some((NonZeroU64::new(key)?, count))).collect())
    }

    fn run(
        &self,
        kernel: &TypedKernel<Params>,
        keys: impl ExactSizeIterator<Item = u64>,
        amounts: impl Iterator<Item = u64>,
    ) -> Result<Vec<u64>> {
        let count = keys.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        let device = &self.device;
        let mut workspace = self.workspaces.take(device)?;
        let Workspace { columns, stream, .. } = &mut workspace;
        columns.keys.host(device, count)?.iter_mut().zip(keys).for_each(|(to, key)| *to = key);
        columns.amounts.host(device, count)?.iter_mut().zip(amounts).for_each(|(to, amount)| *to = amount);
        // SAFETY: the stream is synchronised before the columns are used again, and before the workspace is put back.
        unsafe {
            let params = Params {
                slots: self.slots.ptr(),
                capacity: (self.slots.len() / 16) as u64,
                keys: columns.keys.send::<u64>(device, count, stream)?,
                amounts: columns.amounts.send::<u64>(device, count, stream)?,
                counts: columns.counts.reserve(device, 8 * count)?,
                items: count as u64,
            };
            workspace.launch(kernel, count as u64, THREADS, &params)?;
            workspace.columns.counts.fetch::<u64>(device, count, &workspace.stream)?;
        }
        workspace.stream.synchronize()?;
        let counts = workspace.columns.counts.fetched(count).to_vec();
        self.workspaces.put_back(workspace);
        Ok(counts)
    }
}
