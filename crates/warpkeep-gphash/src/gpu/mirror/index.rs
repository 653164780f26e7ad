//! A mirror's memory, and what kernels are told of it.

use std::sync::atomic::{AtomicU64, Ordering};

use warpkeep_device::{Buffer, Device, DevicePtr};

use crate::TableError;
use crate::gpu::params::{MIRROR_ENTRIES, MirrorParams, UNWRITTEN, ValuesParams};

const ENTRY_BYTES: u64 = 16;
/// A mirror is made with twice the entries that its items need, so that most keys stand where they are looked for first; and with four times as
/// many where that is a small share of the memory. Of keys that are not there each fiftieth then meets a full bucket and has to be looked
/// for further on, instead of each seventh; and a warp waits for all of its keys.
const SPARE: u64 = 2;
const AMPLE: u64 = 4;
/// That share.
const SMALL: u64 = 8;
/// Even a small one has room for a batch or two.
const LEAST_BUCKETS: u64 = 1 << 10;

/// The entries, for one size.
pub(super) struct Index {
    entries: Buffer,
    /// The key of each, where keys can share a hash and there is memory for them.
    keys: Option<Buffer>,
    buckets: u64,
    pub(super) unplaced: Buffer,
    /// Entries that are not vacant, at the most.
    pub(super) used: AtomicU64,
}

impl Index {
    /// Room for so many items, all vacant; `None` if the device has no memory for it. With keys of so many words beside the entries, unless
    /// there is no memory for those.
    pub(super) fn with_room_for(
        device: &Device,
        items: u64,
        key_words: Option<u64>,
    ) -> Result<Option<Index>, TableError> {
        let free = device.budget_left().min(device.memory()?.0);
        let is_small = AMPLE * items * (ENTRY_BYTES + 8 * key_words.unwrap_or_default()) <= free / SMALL;
        let spare = if is_small { AMPLE } else { SPARE };
        let buckets = (spare * items).div_ceil(MIRROR_ENTRIES).max(LEAST_BUCKETS);
        let count = buckets * MIRROR_ENTRIES;
        let bytes = count * ENTRY_BYTES;
        // Batches need their columns; and kernels number buckets with 32 bits.
        if bytes > free - free / 8 || buckets > u64::from(u32::MAX) {
            return Ok(None);
        }
        let made = device.allocate_zeroed(bytes as usize).and_then(|entries| {
            let unplaced = device.allocate_zeroed(8)?;
            let key_bytes = count * 8 * key_words.unwrap_or_default();
            // A mirror does without them, so others come first.
            let keys = match key_bytes > 0 && key_bytes <= (free - free / 4).saturating_sub(bytes) {
                // They are written before they are read; but readers do not wait to see it.
                true => device.allocate_unwritten(key_bytes as usize, UNWRITTEN).map(Some),
                false => Ok(None),
            };
            let keys = keys.or_else(|error| if error.is_out_of_memory() { Ok(None) } else { Err(error) })?;
            Ok(Index { entries, keys, buckets, unplaced, used: AtomicU64::new(0) })
        });
        match made {
            Err(error) if error.is_out_of_memory() => Ok(None),
            made => Ok(Some(made?)),
        }
    }

    /// Device memory that it takes, with its keys.
    pub(super) fn bytes(&self) -> u64 {
        self.entries.len() as u64 + self.key_bytes()
    }

    /// Device memory that its keys take.
    pub(super) fn key_bytes(&self) -> u64 {
        self.keys.as_ref().map_or(0, |keys| keys.len() as u64)
    }

    pub(super) fn entry_count(&self) -> u64 {
        self.buckets * MIRROR_ENTRIES
    }

    /// Whether so many keys more leave enough entries vacant.
    pub(super) fn has_room_for(&self, more: u64) -> bool {
        self.used.load(Ordering::Relaxed) + more <= self.entry_count() / 4 * 3
    }

    pub(super) fn params(&self) -> MirrorParams {
        MirrorParams {
            entries: self.entries.ptr(),
            buckets: self.buckets,
            unplaced: self.unplaced.ptr(),
            keys: self.keys.as_ref().map_or(DevicePtr::NULL, Buffer::ptr),
            values: ValuesParams::NONE,
        }
    }
}

#[cfg(test)]
#[cfg(not(no_simulator))]
mod tests {
    use super::*;
    use warpkeep_device::Mode;

    #[test]
    fn a_mirror_is_sparse_where_memory_is_plenty_and_denser_where_it_is_not() {
        const ITEMS: u64 = 1 << 16;
        let device = Device::simulated(Mode::fast()).unwrap();
        let entries = |budget: u64, key_words| {
            let index = Index::with_room_for(&device.with_budget(budget), ITEMS, key_words).unwrap();
            index.map(|index| index.entry_count())
        };
        let sparse = AMPLE * ITEMS * ENTRY_BYTES;
        assert_eq!(entries(SMALL * sparse, None), Some(AMPLE * ITEMS));
        assert_eq!(entries(SMALL * sparse - 1, None), Some(SPARE * ITEMS));
        // Keys beside the entries count as much as these.
        assert_eq!(entries(SMALL * sparse, Some(4)), Some(SPARE * ITEMS));
        assert_eq!(entries(sparse / 4, None), None);
    }
}
