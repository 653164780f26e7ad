//! Where the batches of a table run: on the CPU, or on a device.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use warpkeep_device::DeviceChoice;
use warpkeep_image::Persist;
use warpkeep_record::{Budget, Progress};

use super::host_gets::{self, HostGetCounts};
use super::value_cache::ValueCacheControl;
use super::{DeviceIndex, DeviceOptions, DeviceStats, HostGetStrategy};
use crate::index::{DeviceImage, DeviceProfile, DeviceTable, Planned, ValueCache as _, WriteLock};
use crate::{Error, Result};

/// No launch pays for fewer keys or operations, whatever the device profile says.
const LEAST_KEYS: usize = 16;

/// Where the batches of one table run.
pub(crate) struct Execution<P: Persist, T: Planned<P>> {
    device: OnceLock<T::Device>,
    lost: AtomicBool,
    /// The device reads the table, and only the CPU writes to it.
    only_reads: AtomicBool,
    /// Maintains the value cache, if there is to be one.
    value_cache: OnceLock<ValueCacheControl>,
    /// The strategy of all batches of gets from host memory; `None` if the device profile decides.
    host_gets: Mutex<Option<HostGetStrategy>>,
    /// The batches that each strategy did.
    pub(crate) host_get_counts: HostGetCounts,
}

impl<P: Persist, T: Planned<P>> Execution<P, T> {
    /// On the CPU.
    pub(crate) fn cpu() -> Execution<P, T> {
        Execution {
            device: OnceLock::new(),
            lost: AtomicBool::new(false),
            only_reads: AtomicBool::new(false),
            value_cache: OnceLock::new(),
            host_gets: Mutex::new(None),
            host_get_counts: HostGetCounts::default(),
        }
    }

    /// Moves a table that is not in use yet to a device, if devices support such a table.
    pub(crate) fn move_to_device(
        &self,
        image: &Arc<DeviceImage<P>>,
        table: &T,
        options: DeviceOptions,
    ) -> Result<()> {
        let Some(device) = T::Device::open(image, table)? else { return Ok(()) };
        self.set_host_gets(options.host_gets);
        let writes = device.can_write(table);
        if options.index == DeviceIndex::Cuckoo && !writes {
            device.load_cuckoo_index(table)?;
        }
        if options.index != DeviceIndex::InImage && writes && device.load_index(table)? {
            let cache = options.values.budget().map(ValueCacheControl::new);
            let _ = cache.map(|cache| self.value_cache.set(cache));
        }
        self.only_reads.store(!writes, Ordering::Release);
        // Simulated batches are slower than any growth, and tests count blocks.
        if writes && device.device().choice() != DeviceChoice::Sim {
            device.allocate_ahead();
        }
        let _ = self.device.set(device);
        Ok(())
    }

    /// What the device keeps of the table; `None` if it runs on the CPU.
    pub(crate) fn device_stats(&self) -> Result<Option<DeviceStats>> {
        let Some(device) = self.device() else { return Ok(None) };
        let name = device.device().choice().to_string();
        if self.only_reads() {
            let index_bytes = device.index_bytes();
            return Ok(Some(DeviceStats { device: name, index_bytes, ..DeviceStats::default() }));
        }
        let values = device.value_cache_stats()?;
        Ok(Some(DeviceStats {
            device: name,
            index_bytes: device.index_bytes(),
            value_bytes: values.bytes,
            values: values.cached,
            value_hits: values.hit_rate(),
        }))
    }

    /// The device it runs on; `None` if there is none, or it is lost.
    pub(crate) fn device(&self) -> Option<&T::Device> {
        self.device.get().filter(|_| !self.lost.load(Ordering::Acquire))
    }

    /// The device, if the device profile or a [set strategy](Execution::set_host_gets) gives it gets of this many keys
    /// from host memory. The simulator runs all kernels, whatever they cost.
    pub(crate) fn reader_for(&self, keys: usize) -> Option<&T::Device> {
        let device = self.device()?;
        let is_worth_it = || {
            let set = *self.host_gets.lock().unwrap_or_else(PoisonError::into_inner);
            keys >= LEAST_KEYS && (set.is_some() || keys >= device.profile().gathered_from)
        };
        (device.device().choice() == DeviceChoice::Sim || is_worth_it()).then_some(device)
    }

    /// The device, if it can write: such a device also takes batches in device memory.
    pub(crate) fn writer(&self) -> Option<&T::Device> {
        self.device().filter(|_| !self.only_reads())
    }

    /// The device, if it can write, and the device profile gives it this many operations from host memory. The simulator
    /// does whatever its profile says.
    pub(crate) fn writer_for(&self, operations: usize) -> Option<&T::Device> {
        self.writer().filter(|device| writes(device.device().choice(), &device.profile(), operations))
    }

    fn only_reads(&self) -> bool {
        self.only_reads.load(Ordering::Acquire)
    }

    /// Sets the strategy of all batches of gets from host memory; with `None` the device profile decides.
    pub(crate) fn set_host_gets(&self, strategy: Option<HostGetStrategy>) {
        *self.host_gets.lock().unwrap_or_else(PoisonError::into_inner) = strategy;
    }

    /// The requested strategy for a batch of gets of this many keys from host memory; or one of those that are
    /// possible.
    pub(crate) fn host_get_strategy(
        &self,
        device: &T::Device,
        keys: usize,
        is_possible: impl Fn(HostGetStrategy) -> bool,
    ) -> HostGetStrategy {
        let set = *self.host_gets.lock().unwrap_or_else(PoisonError::into_inner);
        set.unwrap_or_else(|| host_gets::strategy(&device.profile(), keys, is_possible))
    }

    /// The thresholds by which the device does batches; `None` without a device.
    pub(crate) fn profile(&self) -> Option<DeviceProfile> {
        self.device().map(DeviceTable::profile)
    }

    /// Replaces them, for batches that begin from now on.
    pub(crate) fn set_profile(&self, profile: DeviceProfile) {
        if let Some(device) = self.device() {
            device.set_profile(profile);
        }
    }

    /// Waits for the right to write with the CPU; `None` if writers need not wait for each other, because no device
    /// writes. There is one also after the device was lost: other writers may still be waiting for it.
    #[must_use = "other threads write as soon as it is dropped"]
    pub(crate) fn write_lock(&self) -> Option<impl WriteLock<T>> {
        self.device.get().filter(|_| !self.only_reads()).map(DeviceTable::write_lock)
    }

    /// Excludes kernels that look for items. The caller has the write lock.
    #[must_use = "kernels look for items as soon as it is dropped"]
    pub(crate) fn relocation_lock(&self) -> Option<impl Sized> {
        self.device.get().map(DeviceTable::relocation_lock)
    }

    /// Takes both locks, for a thread that moves items.
    #[must_use = "other threads write as soon as it is dropped"]
    pub(crate) fn exclusive(&self) -> impl Sized {
        let write = self.write_lock();
        (self.relocation_lock(), write)
    }

    /// Takes the table over from its lost device. The caller has the write lock.
    pub(crate) fn take_over(&self, table: &T) {
        // A device that only reads has left nothing unfinished, and CPU writers, which have claims, hold no lock then.
        if !self.lost.swap(true, Ordering::AcqRel) && !self.only_reads() {
            T::Device::take_over(table);
        }
        // Threads keep items at their slots while they hold enqueued gets, this one perhaps, too: then the next
        // maintenance releases the table.
        if let Some(device) = self.device.get()
            && let Some(_relocation) = device.try_relocation_lock()
        {
            T::Device::release(table);
        }
    }

    /// Maintains the value cache, if there is one.
    pub(crate) fn maintain_value_cache(&self, table: &T) {
        if let (Some(cache), Some(device)) = (self.value_cache.get(), self.writer()) {
            cache.maintain(device, table);
        }
    }

    /// A slice of the table's growth, by the device or the CPU.
    pub(crate) fn maintain(&self, table: &T, budget: Budget) -> Result<Progress> {
        let by_cpu = || table.maintain(budget).map_err(Into::<Error>::into);
        let Some(device) = self.writer() else {
            // Kernels that only read must not miss items either.
            let _exclusive = self.exclusive();
            if self.lost.load(Ordering::Acquire) {
                T::Device::release(table);
            }
            return by_cpu();
        };
        let mut lock = device.write_lock();
        match lock.maintain(table, budget) {
            Err(Error::Device(error)) if error.is_out_of_memory() => {
                // The device can still be used; and the CPU may move items, if kernels are excluded.
                let _relocation = device.relocation_lock();
                by_cpu()
            }
            Err(Error::Device(_)) => {
                self.take_over(table);
                Ok(Progress::Working)
            }
            done => done,
        }
    }
}

/// Whether a device with this profile executes a batch of this many writes from host memory.
fn writes(device: DeviceChoice, profile: &DeviceProfile, operations: usize) -> bool {
    let least = if device == DeviceChoice::Sim { 0 } else { LEAST_KEYS };
    operations >= profile.written_from.max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_writes_are_done_by_the_cpu_whatever_the_profile_says() {
        let of = |written_from| {
            let mut profile = DeviceProfile::default();
            profile.written_from = written_from;
            profile
        };
        let gpu = DeviceChoice::Cuda(0);
        assert!(!writes(gpu, &of(0), 1) && !writes(gpu, &of(1), LEAST_KEYS - 1));
        assert!(writes(gpu, &of(0), LEAST_KEYS) && writes(gpu, &of(512), 512) && !writes(gpu, &of(512), 511));
        assert!(writes(DeviceChoice::Sim, &of(0), 1) && !writes(DeviceChoice::Sim, &of(2), 1));
    }
}
