//! Who works a table: the CPU, or a device.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use warpkeep_device::DeviceChoice;
use warpkeep_gphash::gpu::{CacheError, CachePolicy, CacheStats, DeviceEngine, DeviceImage, Moving, Turn};
use warpkeep_gphash::{Table, TableError};
use warpkeep_image::Persist;
use warpkeep_record::Progress;

use crate::device_values::OnDevice;
use crate::value_watch::ValueWatch;
use crate::ways::Ways;
use crate::{DeviceIndex, DeviceStats, GetWay, ValuesBy};

/// Batches smaller than this are done before a kernel of a GPU would have begun.
const WORTH_A_LAUNCH: usize = 512;

/// Who works one table.
pub(crate) struct Engine<P: Persist> {
    device: OnceLock<DeviceEngine<P>>,
    lost: AtomicBool,
    /// The device reads the table, and only the CPU writes to it: values have any length, or keys have and lie in no cells.
    only_reads: AtomicBool,
    /// The share of the buckets that is to be cached.
    cached: OnceLock<f64>,
    /// Looks after the values that are to be kept in device memory.
    values: OnceLock<ValueWatch>,
    /// Gets so far, and when the cache is loaded next.
    gets: AtomicU64,
    due: AtomicU64,
    /// The way of all batches of gets from host memory; `None` if it is to be chosen.
    get_way: Mutex<Option<GetWay>>,
    /// What is known of the ways.
    pub(crate) ways: Ways,
}

/// Gets after which the cache is loaded again, for each bucket of the table: which ones are hot changes slowly, and copies are of no use
/// while they are made.
const FROZEN: u64 = 16;

/// The share of its buckets that is cached of a table that has no mirror: what the paper finds enough.
const INSTEAD_OF_A_MIRROR: f64 = 0.2;

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
            cached: OnceLock::new(),
            values: OnceLock::new(),
            gets: AtomicU64::new(0),
            due: AtomicU64::new(u64::MAX),
            get_way: Mutex::new(None),
            ways: Ways::default(),
        }
    }

    /// Gives a table to a device, if such a table can be given to one, with what is to be kept of its index. Nobody uses the table yet.
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
        engine.fetch_values_by(keeps.values_by);
        engine.gather_with(keeps.threads);
        let writes = engine.writes(table);
        let index = match keeps.index {
            DeviceIndex::Mirrored if writes && engine.load_mirror(table)?.bytes == 0 => {
                DeviceIndex::Cached(INSTEAD_OF_A_MIRROR)
            }
            other => other,
        };
        if let (DeviceIndex::Mirrored, Some(room)) = (index, keeps.values.room().filter(|_| writes)) {
            let _ = self.values.set(ValueWatch::new(room));
        }
        match index {
            DeviceIndex::Cached(share) if writes && share > 0.0 => {
                // Nothing is cached yet; but from now on it is counted what is asked for.
                match engine.load_cache(table, 0.0, CachePolicy::Lfu) {
                    Err(CacheError::Table(error)) => return Err(error),
                    counting => {
                        let buckets = counting.map_or(0, |report| report.buckets);
                        self.due.store(buckets.max(1), Ordering::Relaxed);
                    }
                }
                let _ = self.cached.set(share.min(1.0));
            }
            _ => {}
        }
        self.only_reads.store(!writes, Ordering::Release);
        // Simulated batches are slower than any growth, and tests count blocks.
        if writes && engine.device().choice() != DeviceChoice::Sim {
            engine.provide_ahead();
        }
        let _ = self.device.set(engine);
        Ok(())
    }

    /// Counts gets that the device did.
    pub(crate) fn count_gets(&self, gets: usize) {
        self.gets.fetch_add(gets as u64, Ordering::Relaxed);
    }

    /// Loads the cache, if it is time. What cannot be loaded now is tried again later: kernels read the image meanwhile.
    pub(crate) fn renew_cache(&self, table: &Table<P>) {
        let (Some(&share), Some(engine)) = (self.cached.get(), self.writer()) else { return };
        let gets = self.gets.load(Ordering::Relaxed);
        if gets < self.due.load(Ordering::Relaxed) {
            return;
        }
        let loaded = engine.load_cache(table, share, CachePolicy::Lfu);
        let frozen = loaded.map_or(table.len(), |report| FROZEN * report.buckets);
        self.due.store(gets + frozen.max(1), Ordering::Relaxed);
    }

    /// How the cache does, if the table has one.
    pub(crate) fn cache_stats(&self) -> Result<Option<CacheStats>, CacheError> {
        match (self.cached.get(), self.writer()) {
            (Some(_), Some(engine)) => engine.cache_stats().map(Some),
            _ => Ok(None),
        }
    }

    /// What the device keeps of the table; `None` if no device works it.
    pub(crate) fn device_stats(&self) -> Result<Option<DeviceStats>, TableError> {
        let Some(engine) = self.device() else { return Ok(None) };
        let device = engine.device().choice().to_string();
        if self.only_reads() {
            return Ok(Some(DeviceStats { device, ..DeviceStats::default() }));
        }
        let buckets = engine.cache_stats().unwrap_or_default();
        let values = engine.values_stats()?;
        Ok(Some(DeviceStats {
            device,
            mirror_bytes: engine.mirror_bytes(),
            bucket_bytes: engine.cache_bytes(),
            buckets: buckets.cached_buckets,
            bucket_hits: buckets.hit_rate(),
            value_bytes: values.bytes,
            values: values.cached,
            value_hits: values.hit_rate(),
            gathered_batches: engine.fetched_by_host(),
        }))
    }

    /// The device that works it, if there is one.
    pub(crate) fn device(&self) -> Option<&DeviceEngine<P>> {
        self.device.get().filter(|_| !self.lost.load(Ordering::Acquire))
    }

    /// The device, if it is worth its while for so many operations. The simulator is there for its kernels, not for speed.
    pub(crate) fn device_for(&self, operations: usize) -> Option<&DeviceEngine<P>> {
        self.device()
            .filter(|engine| operations >= WORTH_A_LAUNCH || engine.device().choice() == DeviceChoice::Sim)
    }

    /// Has all batches of gets from host memory go this way, or the fastest.
    pub(crate) fn set_get_way(&self, way: Option<GetWay>) {
        *self.get_way.lock().unwrap_or_else(PoisonError::into_inner) = way;
    }

    /// Has the values of gets in device memory fetched by these, if a device works the table.
    pub(crate) fn set_values_by(&self, by: ValuesBy) {
        if let Some(device) = self.device() {
            device.fetch_values_by(by);
        }
    }

    /// From how many keys on batches of gets are put in the order of their addresses, if a device works the table.
    pub(crate) fn ordered_from(&self) -> Option<usize> {
        self.writer().map(DeviceEngine::ordered_from)
    }

    /// The way for a batch of gets of so many keys from host memory, of those that are open to it; or the one that was asked for.
    pub(crate) fn way_for(
        &self,
        engine: &DeviceEngine<P>,
        keys: usize,
        is_open: impl Fn(GetWay) -> bool,
    ) -> GetWay {
        let set = *self.get_way.lock().unwrap_or_else(PoisonError::into_inner);
        // The simulator is there for its kernels, not for speed.
        let is_simulated = engine.device().choice() == DeviceChoice::Sim;
        if let Some(way) = set.or(is_simulated.then_some(GetWay::Fetch)) {
            return way;
        }
        self.ways.choose(keys, is_open)
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

    /// Waits for the right to write with the CPU. Also after a device was lost: others may still be waiting. Where a device only reads,
    /// those who write need not wait for each other.
    pub(crate) fn turn(&self) -> Option<Turn<'_, P>> {
        self.device.get().filter(|_| !self.only_reads()).map(DeviceEngine::turn)
    }

    /// Keeps everybody else away who would miss items that move.
    pub(crate) fn alone(&self) -> Alone<'_, P> {
        let turn = self.turn();
        Alone { _moving: self.moving(), _turn: turn }
    }

    /// The same, for whoever has the turn already.
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

    /// A slice of growth, by whoever works the table.
    pub(crate) fn maintain(&self, table: &Table<P>, buckets: u64) -> Result<Progress, TableError> {
        if !table.wants_maintenance() {
            self.renew_cache(table);
            if let (Some(values), Some(engine)) = (self.values.get(), self.writer()) {
                values.look(engine, table);
            }
            return Ok(Progress::Idle);
        }
        match self.writer() {
            None => {
                // Kernels that only read must not miss items either.
                let _alone = self.alone();
                table.maintain(buckets)
            }
            Some(device) => {
                let mut turn = device.turn();
                match turn.maintain(table, buckets) {
                    Err(TableError::Device(error)) if error.is_out_of_memory() => {
                        // The device is as good as before; and whoever has the turn may move items, if kernels keep away.
                        let _moving = device.moving();
                        table.maintain(buckets)
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
