//! The memory of a graph on a device: vertex records, and the pool that blocks of edges lie in.
//!
//! New blocks are at the end of the pool. Blocks that were left are dead until the pool is compacted.

use warpkeep_device::{Buffer, Device, DeviceError, DevicePtr, GrowingBuffer, Result, Stream};

use super::GraphOptions;
use super::compaction::Window;
use super::kernels::GraphRef;
use super::reading::View;
use crate::ContainerError;

/// Bytes of a vertex record.
pub(super) const RECORD: usize = 16;
/// Slots of the pool: positions have 32 bits.
const MOST_SLOTS: u64 = u32::MAX as u64;
/// Dead slots below which compaction is not worth its launches.
const LEAST_DEAD: u64 = 4096;

#[derive(Debug)]
pub(super) struct Storage {
    device: Device,
    pub(super) records: GrowingBuffer,
    targets: GrowingBuffer,
    weights: Option<GrowingBuffer>,
    ids: Option<GrowingBuffer>,
    times: Option<GrowingBuffer>,
    pub(super) vertices: u64,
    /// Slots that belong or belonged to blocks.
    pub(super) pool_end: u64,
    /// Slots of blocks that were left.
    pub(super) dead: u64,
    /// Blocks before this position belong to snapshots: they are neither changed nor moved.
    pub(super) frozen: u64,
    /// Those of `dead` that are before it.
    pub(super) frozen_dead: u64,
    /// How many calls have changed the graph.
    pub(super) version: u64,
    /// Edges in lists: those of an undirected graph count twice, loops once.
    pub(super) entries: u64,
    pub(super) loops: u64,
    pub(super) compactions: u64,
    /// What compaction needs when there is no memory for more.
    pub(super) spare: Option<Window>,
}

impl Storage {
    pub(super) fn new(device: &Device, options: &GraphOptions) -> Result<Storage> {
        let all = device.memory()?.1.checked_next_power_of_two().unwrap_or(u64::MAX);
        let array = |element: u64| device.reserve(all.min(element * (MOST_SLOTS + 1)) as usize);
        let array_if = |has: bool, element| has.then(|| array(element)).transpose();
        Ok(Storage {
            device: device.clone(),
            records: array(RECORD as u64)?,
            targets: array(4)?,
            weights: array_if(options.weights, 4)?,
            ids: array_if(options.ids, 8)?,
            times: array_if(options.times, 8)?,
            vertices: 0,
            pool_end: 0,
            dead: 0,
            frozen: 0,
            frozen_dead: 0,
            version: 0,
            entries: 0,
            loops: 0,
            compactions: 0,
            spare: None,
        })
    }

    /// With another number of vertices, which the table has room for.
    pub(super) fn reference_with(&self, vertices: u64) -> GraphRef {
        let at = |array: &Option<GrowingBuffer>| array.as_ref().map_or(DevicePtr::NULL, |array| array.ptr());
        GraphRef {
            records: self.records.ptr(),
            targets: self.targets.ptr(),
            weights: at(&self.weights),
            ids: at(&self.ids),
            times: at(&self.times),
            vertices,
        }
    }

    pub(super) fn reference(&self) -> GraphRef {
        self.reference_with(self.vertices)
    }

    pub(super) fn view(&self) -> View {
        View { graph: self.reference(), entries: self.entries, loops: self.loops, slots: self.pool_end }
    }

    /// All arrays of edges, with the bytes of their elements.
    pub(super) fn arrays(&self) -> impl Iterator<Item = (usize, &GrowingBuffer)> {
        let optional = [(4, &self.weights), (8, &self.ids), (8, &self.times)];
        let there = optional.into_iter().filter_map(|(bytes, array)| Some((bytes, array.as_ref()?)));
        [(4, &self.targets)].into_iter().chain(there)
    }

    /// Bytes of device memory that it holds.
    pub(super) fn bytes(&self) -> u64 {
        let spare = self.spare.as_ref().map_or(0, Window::bytes);
        self.records.backed() as u64
            + self.arrays().map(|(_, array)| array.backed() as u64).sum::<u64>()
            + spare
    }

    /// Bytes of a slot of the pool.
    pub(super) fn slot_bytes(&self) -> u64 {
        self.arrays().map(|(bytes, _)| bytes as u64).sum()
    }

    /// Room for the records of this many vertices, and for as many slots of the pool, and for what compaction needs
    /// then. If there is too little memory for all of it, none is taken. Arrays of the pool may have grown if only their
    /// rounding up, to what the device maps at once, made it too little; the next batches use that.
    pub(super) fn grow(&mut self, vertices: u64, slots: u64) -> Result<()> {
        self.check_memory(vertices, slots)?;
        let spare = self.new_spare(vertices, slots)?;
        // The window is there now and counts, and it is given back if the rest does not fit beside it.
        if spare.is_some() {
            self.check_memory(vertices, slots)?;
        }
        // Records of vertices that no batch made would never be used, so they come last.
        self.grow_pool(slots)?;
        let bytes = RECORD * vertices as usize;
        if bytes > self.records.len() {
            self.records.grow_zeroed(bytes)?;
        }
        self.spare = spare.or(self.spare.take());
        Ok(())
    }

    /// An error if the memory that records and pool take is more than there is. How much the device maps at once is not
    /// counted.
    fn check_memory(&self, vertices: u64, slots: u64) -> Result<()> {
        let more = |bytes: u64, array: &GrowingBuffer| bytes.saturating_sub(array.backed() as u64);
        let pool: u64 = self.arrays().map(|(bytes, array)| more(bytes as u64 * slots, array)).sum();
        let asked = pool + more(RECORD as u64 * vertices, &self.records);
        let left = self.device.budget_left();
        if asked > left {
            return Err(DeviceError::OutOfBudget { asked, left });
        }
        // To ask the device takes time.
        if asked > 0 {
            let (free, total) = self.device.memory()?;
            if asked > free {
                return Err(DeviceError::OutOfMemory { asked, free, total });
            }
        }
        Ok(())
    }

    /// A window with which compaction of a pool of this size needs no more memory, unless there is one.
    fn new_spare(&self, vertices: u64, slots: u64) -> Result<Option<Window>> {
        let slots = Window::spare_slots(slots);
        if slots == 0 || self.spare.as_ref().is_some_and(|spare| spare.covers(vertices, slots)) {
            return Ok(None);
        }
        Window::spare(&self.device, vertices, slots).map(Some)
    }

    fn grow_pool(&mut self, slots: u64) -> Result<()> {
        let slots = slots as usize;
        self.targets.grow(4 * slots)?;
        let optional = [(4, &mut self.weights), (8, &mut self.ids), (8, &mut self.times)];
        for (bytes, array) in optional {
            if let Some(array) = array {
                array.grow(bytes * slots)?;
            }
        }
        Ok(())
    }

    /// Makes room for `needed` more slots at the end of the pool and for the records of this many vertices, or says
    /// that the pool has to be compacted for that; `compacted` if it was. An error leaves everything as it is.
    pub(super) fn reserve(
        &mut self,
        needed: u64,
        vertices: u64,
        compacted: bool,
    ) -> Result<Room, ContainerError> {
        let loose = self.dead - self.frozen_dead;
        let can_compact = loose > 0 && !compacted;
        let is_worth = loose >= LEAST_DEAD && loose > self.pool_end - self.frozen - loose + needed;
        let slots = self.pool_end + needed;
        if can_compact && (is_worth || slots > MOST_SLOTS) {
            return Ok(Room::AfterCompaction);
        }
        if slots > MOST_SLOTS {
            return Err(ContainerError::TooLarge { what: "slots of edges", given: slots, most: MOST_SLOTS });
        }
        match self.grow(vertices, slots) {
            Err(error) if can_compact && is_short(&error) => Ok(Room::AfterCompaction),
            grown => Ok(grown.map(|()| Room::There)?),
        }
    }
}

/// Whether there is room for new blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    There,
    AfterCompaction,
}

/// Whether the device has too little memory for it.
pub(super) fn is_short(error: &DeviceError) -> bool {
    error.is_out_of_memory() || matches!(error, DeviceError::OutOfAddresses { .. })
}

pub(super) fn read_word(buffer: &Buffer, stream: &Stream) -> Result<u64> {
    let mut word = [0];
    buffer.read_on(0, &mut word, stream)?;
    Ok(word[0])
}

#[cfg(all(test, not(no_simulator)))]
mod tests {
    use warpkeep_device::Mode;

    use super::*;

    #[test]
    fn refused_growth_takes_no_memory_for_records() {
        let device = Device::simulated(Mode::fast()).unwrap();
        let options = GraphOptions::default().weights().ids().times();
        let (mut refused, mut grown) = (0, 0);
        for step in 0..160 {
            let small = device.with_budget(step << 12);
            let mut storage = Storage::new(&small, &options).unwrap();
            // More records than a granule of the simulator holds.
            match storage.grow(4097, 4) {
                Ok(()) => grown += 1,
                Err(error) => {
                    assert!(is_short(&error), "{error}");
                    assert_eq!((storage.records.len(), storage.records.backed()), (0, 0), "{step}");
                    assert!(storage.spare.is_none(), "{step}");
                    let pool: u64 = storage.arrays().map(|(_, array)| array.backed() as u64).sum();
                    assert_eq!(small.allocated(), pool, "{step}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 20 && grown > 20, "{refused} refused, {grown} grown");
    }
}
