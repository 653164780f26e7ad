//! Where a table runs: on the CPU, or on a device.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use warpkeep_device::DeviceChoice;
use warpkeep_gphash::gpu::{DeviceEngine, DeviceImage, DeviceProfile, Moving, Turn};
use warpkeep_gphash::{Table, TableError};
use warpkeep_image::Persist;
use warpkeep_record::{Budget, Progress, Upkeep};

use crate::device_values::OnDevice;
use crate::value_watch::ValueWatch;
use crate::ways::{self, Ways};
use crate::{DeviceIndex, DeviceStats, GetWay};

/// Batches smaller than this are done before a kernel of a GPU would have begun.
const WORTH_A_LAUNCH: usize = 512;

/// Where one table runs.
pub(crate) struct Engine<P: Persist> {
    device: OnceLock<DeviceEngine<P>>,
    lost: AtomicBool,
    /// The device reads the table, and only the CPU writes to it: values have any length, or keys have and lie in no cells.
    only_reads: AtomicBool,
    /// Looks after the values that are to be kept in device memory.
    values: OnceLock<ValueWatch>,
    /// The way of all batches of gets from host memory; `None` if it is to be chosen.
    get_way: Mutex<Option<GetWay>>,
    /// What is known of the ways.
    pub(crate) ways: Ways,
}

/// Keeps a device's kernels, and other writers, away from a table while its items are moved.
pub(crate) struct Alone<'e, P: Persist> {
    _moving: Option<Moving<'e>>,
    _turn: Option<Turn<'e, P>>,
}

impl<P: Persist> Engine<P> {
    /// The CPU.
    pub(crate) fn cpu() -> Engine<P> {
        Engine {
            device: OnceLock::new(),
            lost: AtomicBool::new(false),
            only_reads: AtomicBool::new(false),
            values: OnceLock::new(),
            get_way: Mutex::new(None),
            ways: Ways::default(),
        }
    }

    /// Gives a table to a device, if devices support such a table, with the part of its index to keep there. The
    /// table is not in use yet.
    pub(crate) fn give(
        &self,
        image: &Arc<DeviceImage<P>>,
        table: &Table<P>,
        keeps: OnDevice,
    ) -> Result<(), TableError> {
        let engine = match DeviceEngine::new(image, table) {
            Ok(engine) => engine,
            Err(TableError::NotForDevices { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        self.set_get_way(keeps.get_way);
        let writes = engine.writes(table);
        if keeps.index == DeviceIndex::Mirrored && writes && engine.load_mirror(table)?.bytes > 0 {
            let _ = keeps.values.room().map(|room| self.values.set(ValueWatch::new(room)));
        }
        self.only_reads.store(!writes, Ordering::Release);
        // Simulated batches are slower than any growth, and tests count blocks.
        if writes && engine.device().choice() != DeviceChoice::Sim {
            engine.provide_ahead();
        }
        let _ = self.device.set(engine);
        Ok(())
    }

    /// The device's copy of the table; `None` if it runs on the CPU.
    pub(crate) fn device_stats(&self) -> Result<Option<DeviceStats>, TableError> {
        let Some(engine) = self.device() else { return Ok(None) };
        let device = engine.device().choice().to_string();
        if self.only_reads() {
            return Ok(Some(DeviceStats { device, ..DeviceStats::default() }));
        }
        let values = engine.values_stats()?;
        Ok(Some(DeviceStats {
            device,
            mirror_bytes: engine.mirror_bytes(),
            value_bytes: values.bytes,
            values: values.cached,
            value_hits: values.hit_rate(),
        }))
    }

    /// The device it runs on, if there is one.
    pub(crate) fn device(&self) -> Option<&DeviceEngine<P>> {
        self.device.get().filter(|_| !self.lost.load(Ordering::Acquire))
    }

    /// The device, if this many operations are worth it. The simulator serves to run the kernels, not for speed.
    pub(crate) fn device_for(&self, operations: usize) -> Option<&DeviceEngine<P>> {
        self.device()
            .filter(|engine| operations >= WORTH_A_LAUNCH || engine.device().choice() == DeviceChoice::Sim)
    }

    /// Has all batches of gets from host memory go this way, or the fastest.
    pub(crate) fn set_get_way(&self, way: Option<GetWay>) {
        *self.get_way.lock().unwrap_or_else(PoisonError::into_inner) = way;
    }

    /// The thresholds by which the device does batches; `None` without a device.
    pub(crate) fn profile(&self) -> Option<DeviceProfile> {
        self.device().map(DeviceEngine::profile)
    }

    /// Replaces them, for batches that begin from now on.
    pub(crate) fn set_profile(&self, profile: DeviceProfile) {
        if let Some(device) = self.device() {
            device.adjust(|current| *current = profile);
        }
    }

    /// The strategy for a batch of gets of this many keys from host memory, of those available; or the requested
    /// one.
    pub(crate) fn way_for(
        &self,
        engine: &DeviceEngine<P>,
        keys: usize,
        is_open: impl Fn(GetWay) -> bool,
    ) -> GetWay {
        let set = *self.get_way.lock().unwrap_or_else(PoisonError::into_inner);
        set.unwrap_or_else(|| ways::strategy(&engine.profile(), keys, is_open))
    }

    /// As [`Engine::device_for`], for operations that write: some tables a device can only read.
    pub(crate) fn writer_for(&self, operations: usize) -> Option<&DeviceEngine<P>> {
        self.device_for(operations).filter(|_| !self.only_reads())
    }

    /// The device, if it works on rows: values have one length, and keys have, or lie in cells.
    pub(crate) fn writer(&self) -> Option<&DeviceEngine<P>> {
        self.device().filter(|_| !self.only_reads())
    }

    fn only_reads(&self) -> bool {
        self.only_reads.load(Ordering::Acquire)
    }

    /// Waits for the right to write with the CPU. Also after a device was lost: other writers may still be waiting.
    /// If a device only reads, writers need not wait for each other.
    pub(crate) fn turn(&self) -> Option<Turn<'_, P>> {
        self.device.get().filter(|_| !self.only_reads()).map(DeviceEngine::turn)
    }

    /// Excludes all threads that would miss moving items.
    pub(crate) fn alone(&self) -> Alone<'_, P> {
        let turn = self.turn();
        Alone { _moving: self.moving(), _turn: turn }
    }

    /// The same, for a caller that already holds the write lock.
    pub(crate) fn moving(&self) -> Option<Moving<'_>> {
        self.device.get().map(DeviceEngine::moving)
    }

    /// Takes the table over from its device. The caller has the turn.
    pub(crate) fn take_over(&self, table: &Table<P>) {
        let _moving = self.moving();
        if !self.lost.swap(true, Ordering::AcqRel) {
            table.take_over();
        }
    }

    /// A slice of growth, by the device or the CPU.
    pub(crate) fn maintain(&self, table: &Table<P>, budget: Budget) -> Result<Progress, TableError> {
        if !table.wants_maintenance() {
            if let (Some(values), Some(engine)) = (self.values.get(), self.writer()) {
                values.look(engine, table);
            }
            return Ok(Progress::Idle);
        }
        match self.writer() {
            None => {
                // Kernels that only read must not miss items either.
                let _alone = self.alone();
                Upkeep::maintain(table, budget)
            }
            Some(device) => {
                let mut turn = device.turn();
                match turn.maintain(table, budget.pieces_of(table.bucket_items())) {
                    Err(TableError::Device(error)) if error.is_out_of_memory() => {
                        // The device still works; and the holder of the write lock may move items, if kernels are
                        // excluded.
                        let _moving = device.moving();
                        Upkeep::maintain(table, budget)
                    }
                    Err(TableError::Device(_)) => {
                        self.take_over(table);
                        Ok(Progress::Working)
                    }
                    done => done,
                }
            }
        }
    }
}
