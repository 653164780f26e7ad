//! Ranges of addresses that the same multiprocessor reads in every launch: the host's side of `warpkeep/sm_affinity.h`.

use bytemuck::NoUninit;

use crate::partition::PartitionPlan;
use crate::pointer::DevicePtr;
use crate::sim::Grid;

/// Bytes of a range, at least, where items are sorted.
const LEAST_RANGE: u64 = 2 << 20;
/// Ranges of a multiprocessor, at most: a warp looks at all of them at once.
const MOST_RANGES: u32 = 32;
/// Ranges where items are scattered, at least, unless a multiprocessor would have too many: enough for each multiprocessor to have some, and so
/// few that each range has items. Larger batches have more, so that equal keys are in one group.
const SCATTERED_RANGES: u64 = 1 << 10;
const SCATTERED_EACH: u64 = 16;
/// Places of a range beyond four times the average.
const SPARE: u64 = 8;

/// `wk::SmAffinity`, for the parameters of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, NoUninit)]
#[repr(C)]
pub struct SmAffinity {
    counts: DevicePtr,
    sms: u32,
    slots: u32,
    ranges: u32,
    shift: u32,
    capacity: u64,
    below: u64,
}

/// A batch whose items are divided among multiprocessors.
#[derive(Clone, Copy, Debug)]
pub struct AffineBatch {
    /// Multiprocessors of the device.
    pub sms: u32,
    /// The addresses of items are below this.
    pub end: u64,
    /// Items of the batch, at most.
    pub items: u64,
    /// Threads of a block of the kernel that visits the items, and blocks of it that the device runs at once.
    pub threads: u32,
    /// Blocks of that kernel that the device runs at once.
    pub resident_blocks: u32,
}

impl SmAffinity {
    /// 32-bit counters of each multiprocessor.
    pub const SM_WORDS: usize = 3;

    /// No affinity.
    pub const NONE: Self =
        Self { counts: DevicePtr::NULL, sms: 0, slots: 0, ranges: 0, shift: 0, capacity: 0, below: 0 };

    /// For items that a partition of this plan has sorted.
    pub fn sorted(batch: &AffineBatch, plan: PartitionPlan) -> Self {
        let AffineBatch { sms, end, items, threads, resident_blocks } = *batch;
        let wanted = end.div_ceil(u64::from(sms * MOST_RANGES)).max(LEAST_RANGE).next_power_of_two();
        let shift = wanted.ilog2().saturating_sub(plan.shift());
        let ranges = end.div_ceil(1 << (shift + plan.shift())) as u32;
        // A warp for each group of items, if the device can run them all at once.
        let slots = items.div_ceil(u64::from(sms) * u64::from(threads)).clamp(1, u64::from(u32::MAX)) as u32;
        Self { sms, slots: slots.min(resident_blocks / sms).max(1), ranges, shift, ..Self::NONE }
    }

    /// For items that are scattered to fixed places of their range, and the plan of the buckets that they are counted in. A range that is full
    /// refuses items; the caller has another list for those.
    pub fn scattered(batch: &AffineBatch) -> (Self, PartitionPlan) {
        let AffineBatch { sms, end, items, .. } = *batch;
        let ranges = (items / SCATTERED_EACH).max(SCATTERED_RANGES).min(u64::from(sms * MOST_RANGES));
        let plan = PartitionPlan::with_buckets(end, 1 << ranges.ilog2());
        let used = end.div_ceil(1 << plan.shift());
        let capacity = (4 * items / used + SPARE).next_power_of_two();
        // All buckets, because addresses may have grown by the time the batch runs.
        let affinity =
            Self { ranges: plan.buckets() as u32, shift: 0, capacity, ..Self::sorted(batch, plan) };
        (affinity, plan)
    }

    /// Sorted batches of `below` items and more are read without affinity.
    #[must_use]
    pub fn below(self, below: u64) -> Self {
        Self { below, ..self }
    }

    /// Bytes of the counters, which are zero before a launch.
    pub fn bytes(sms: u32) -> usize {
        4 * Self::SM_WORDS * sms as usize
    }

    /// With its counters at this address.
    #[must_use]
    pub fn at(self, counts: DevicePtr) -> Self {
        Self { counts, ..self }
    }

    /// Places of all ranges together, where items are scattered.
    pub fn places(&self) -> usize {
        self.ranges as usize * self.capacity as usize
    }

    /// With one slot for each multiprocessor.
    #[must_use]
    pub fn with_one_slot(self) -> Self {
        Self { slots: 1, ..self }
    }

    /// A block of `threads` threads for each slot.
    pub fn grid(&self, threads: u32) -> Grid {
        Grid { blocks: self.sms * self.slots, threads, shared_bytes: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREADS: u32 = 256;

    fn batch(sms: u32, end: u64, items: u64, resident_blocks: u32) -> AffineBatch {
        AffineBatch { sms, end, items, threads: THREADS, resident_blocks }
    }

    #[test]
    fn ranges_cover_all_addresses_and_belong_to_multiprocessors() {
        for end in [1_u64, 1 << 20, 5 << 20, 2_700_000_001, 67 << 30, 1 << 40] {
            for (items, resident) in [(1_u64, 1), (4096, 528), (1 << 18, 528), (1 << 24, 1056)] {
                for sms in [1_u32, 2, 132] {
                    let (batch, plan) =
                        (batch(sms, end, items, resident), PartitionPlan::for_items(end, items));
                    let scattered = SmAffinity::scattered(&batch);
                    for (affinity, plan) in [(SmAffinity::sorted(&batch, plan), plan), scattered] {
                        let (ranges, range) =
                            (u64::from(affinity.ranges), 1_u64 << (affinity.shift + plan.shift()));
                        assert!(ranges * range >= end, "{affinity:?}");
                        // They begin where buckets begin.
                        assert!((ranges - 1) << affinity.shift < plan.buckets() as u64, "{affinity:?}");
                        assert!(affinity.ranges <= sms * MOST_RANGES);
                        assert!((1..=resident).contains(&affinity.slots));
                    }
                    assert!(scattered.0.places() as u64 >= items && scattered.0.shift == 0);
                }
            }
        }
    }

    #[test]
    fn larger_batches_have_more_slots_and_larger_ranges() {
        let slots = |items| {
            let plan = PartitionPlan::for_items(2_700_000_000, items);
            SmAffinity::sorted(&batch(132, 2_700_000_000, items, 528), plan).slots
        };
        assert_eq!([slots(4096), slots(1 << 16), slots(1 << 17), slots(1 << 18)], [1, 2, 4, 4]);
        let capacity = |items| SmAffinity::scattered(&batch(132, 2_700_000_000, items, 528)).0.capacity;
        assert_eq!([capacity(1), capacity(4096), capacity(1 << 14), capacity(1 << 16)], [8, 64, 128, 128]);
    }
}
