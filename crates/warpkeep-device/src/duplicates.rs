//! The operations of a batch by the hash of their key: the host's side of `warpkeep/duplicates.h`.

use bytemuck::NoUninit;

use crate::pointer::DevicePtr;

/// `wk::DuplicateTable`, for the parameters of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, NoUninit)]
#[repr(C)]
pub struct DuplicateTable {
    entries: DevicePtr,
    capacity: u64,
    count: u64,
}

impl DuplicateTable {
    /// Bytes of an entry.
    pub const ENTRY_BYTES: usize = 16;
    /// A table that kernels do not use.
    pub const NONE: Self = Self { entries: DevicePtr::NULL, capacity: 0, count: 0 };

    /// A table for a batch of `count` operations, whose [bytes](Self::bytes) are at this address and zero.
    pub fn at(entries: DevicePtr, count: u64) -> Self {
        Self { entries, capacity: Self::capacity(count), count }
    }

    /// Bytes of the table of a batch.
    pub fn bytes(count: u64) -> usize {
        // The key whose hash is 0 has the last entry.
        (Self::capacity(count) as usize + 1) * Self::ENTRY_BYTES
    }

    fn capacity(count: u64) -> u64 {
        (2 * count).max(32).next_power_of_two()
    }
}
