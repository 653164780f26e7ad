//! How hot the entries of a mirror are.

use std::sync::atomic::{AtomicU64, Ordering};

use warpkeep_device::{Buffer, Device, DevicePtr};

/// A byte for each entry, counted up as its key is asked for.
pub(crate) struct Heat {
    counts: Buffer,
    learnt: AtomicU64,
}

impl Heat {
    /// All cold, for so many entries; `None` if the device has no memory for it.
    pub(super) fn new(device: &Device, entries: u64) -> Option<Heat> {
        let counts = device.allocate_zeroed(entries as usize).ok()?;
        Some(Heat { counts, learnt: AtomicU64::new(0) })
    }

    /// The same for a mirror of another size, all cold.
    pub(crate) fn for_entries(&self, device: &Device, entries: u64) -> Option<Heat> {
        let heat = Heat::new(device, entries)?;
        heat.count(self.learnt());
        Some(heat)
    }

    pub(crate) fn ptr(&self) -> DevicePtr {
        self.counts.ptr()
    }

    /// So many gets more are counted.
    pub(crate) fn count(&self, gets: u64) {
        self.learnt.fetch_add(gets, Ordering::Relaxed);
    }

    /// Gets that were counted.
    pub(super) fn learnt(&self) -> u64 {
        self.learnt.load(Ordering::Relaxed)
    }
}
