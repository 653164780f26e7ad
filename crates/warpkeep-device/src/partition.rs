//! Partition by address: the host's side of `warpkeep/partition.h`.

use bytemuck::NoUninit;

use crate::device::Device;
use crate::error::Result;
use crate::kernel_set::TypedKernel;
use crate::pointer::DevicePtr;
use crate::sim::Grid;
use crate::staged::StagedBuffer;
use crate::stream::Stream;

/// How a batch's addresses are divided into buckets of neighbouring addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionPlan {
    buckets: u32,
    shift: u32,
}

impl PartitionPlan {
    /// Buckets that one block scans: there are a multiple of them where [`Partition::scan`] is used.
    pub const SCANNED_BUCKETS: u32 = 1 << 13;
    /// Threads of a block that scans.
    pub const SCAN_THREADS: u32 = 1024;
    /// Words before the counts. The first two are free for counters of the caller; all are zero at first.
    pub const HEAD_WORDS: usize = 8;
    /// Buckets at most: 16 MiB of counts.
    pub const MOST_BUCKETS: u32 = 1 << 22;
    /// Items that a bucket has on average, where there can be enough buckets: those of one address are then so near each other that one warp
    /// has them all.
    const ITEMS_EACH: u64 = 2;

    /// For `items` items with addresses below `end`: the fewer items, the fewer buckets.
    pub fn for_items(end: u64, items: u64) -> Self {
        let (least, most) = (u64::from(Self::SCANNED_BUCKETS), u64::from(Self::MOST_BUCKETS));
        let wanted = (items / Self::ITEMS_EACH).clamp(least, most);
        Self::with_buckets(end, wanted.next_power_of_two() as u32)
    }

    /// For addresses below `end`, with this power of two of buckets.
    pub fn with_buckets(end: u64, buckets: u32) -> Self {
        let bits = u64::BITS - end.saturating_sub(1).leading_zeros();
        Self { buckets, shift: bits.saturating_sub(buckets.ilog2()) }
    }

    /// How many buckets there are.
    pub fn buckets(self) -> usize {
        self.buckets as usize
    }

    /// A bucket has the items of 2^shift addresses.
    pub fn shift(self) -> u32 {
        self.shift
    }

    /// Blocks that scan the buckets.
    pub fn scan_blocks(self) -> u32 {
        self.buckets.div_ceil(Self::SCANNED_BUCKETS)
    }

    /// Bytes of the head, the counts, and the words of the blocks that scan.
    pub fn bytes(self) -> usize {
        4 * (Self::HEAD_WORDS + self.buckets() + self.scan_blocks() as usize)
    }

    /// The partition whose head is at this address.
    pub fn at(self, head: DevicePtr) -> Partition {
        Partition {
            counts: head.offset(4 * Self::HEAD_WORDS as u64),
            last: self.buckets - 1,
            shift: self.shift,
        }
    }

    /// An empty partition in a column, after what is in the stream.
    pub fn zeroed(self, device: &Device, column: &mut StagedBuffer, stream: &Stream) -> Result<Partition> {
        Ok(self.at(column.zeros(device, self.bytes(), stream)?))
    }
}

/// `wk::Partition`, for the parameters of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, NoUninit)]
#[repr(C)]
pub struct Partition {
    counts: DevicePtr,
    last: u32,
    shift: u32,
}

impl Partition {
    /// A partition that kernels do not use.
    pub const NONE: Self = Self { counts: DevicePtr::NULL, last: 0, shift: 0 };

    /// Enqueues the kernel that stores where each bucket begins in place of its count. The kernel's body is `wk::scan_buckets(p)`.
    ///
    /// # Safety
    /// The partition has the buckets of a [plan](PartitionPlan::for_items), and its memory stays until the stream is synchronised.
    pub unsafe fn scan(&self, kernel: &TypedKernel<Partition>, stream: &Stream) -> Result<()> {
        let blocks = self.last / PartitionPlan::SCANNED_BUCKETS + 1;
        let grid = Grid { blocks, threads: PartitionPlan::SCAN_THREADS, shared_bytes: 0 };
        // SAFETY: the caller's promise.
        unsafe { kernel.launch(grid, self, stream) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_in_a_bucket() {
        for end in [1, 32_767, 32_768, 32_769, 1 << 30, (1 << 30) + 1, 67 << 30, 1 << 44] {
            for items in [1, 1 << 16, 1 << 24, 1 << 31] {
                let PartitionPlan { buckets, shift } = PartitionPlan::for_items(end, items);
                let last = (end - 1_u64) >> shift;
                assert!(last < u64::from(buckets), "{end}");
                assert!(shift == 0 || last >= u64::from(buckets / 2), "{end}");
                assert!(buckets.is_multiple_of(PartitionPlan::SCANNED_BUCKETS));
                assert!(buckets <= PartitionPlan::MOST_BUCKETS);
            }
        }
    }

    #[test]
    fn many_items_have_many_buckets() {
        let of = |gigabytes: u64, items| PartitionPlan::for_items(gigabytes << 30, items);
        assert_eq!(of(3, 100), PartitionPlan { buckets: 1 << 13, shift: 19 });
        assert_eq!(of(3, 1 << 20), PartitionPlan { buckets: 1 << 19, shift: 13 });
        assert_eq!(of(3, (1 << 20) + 2), PartitionPlan { buckets: 1 << 20, shift: 12 });
        assert_eq!(of(67, 1 << 22), PartitionPlan { buckets: 1 << 21, shift: 16 });
        assert_eq!(of(1 << 10, 1 << 31), PartitionPlan { buckets: 1 << 22, shift: 18 });
    }
}
