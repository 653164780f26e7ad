// SM affinity: ranges of addresses that the same multiprocessor reads in every launch.
//
// A GPU caches translations of host addresses for groups of multiprocessors. If all multiprocessors read everywhere, each group needs the
// translations of the whole range and evicts most of them; if each multiprocessor reads its own ranges, the groups together hold those of a far larger
// one. An H200 reads random rows of 2.5 GiB seven times as fast that way.
#pragma once
#include "warpkeep/partition.h"

namespace wk {

// Shared words that the threads of a block need to agree on their slot.
constexpr u32 kSmSlotWords = 2;

// A slot for each block of a launch, on the multiprocessor that runs it if one is free there. Each multiprocessor has the same number of slots.
// Every slot is claimed by exactly one block, wherever blocks run, so work that is divided by slots is always completed. `claimed` has a count for
// each multiprocessor, zero before the launch; all threads of a block construct it.
struct SmSlot {
    u32 sm;
    u32 number;

    WK_DEVICE SmSlot(u32* claimed, u32 sms, u32 slots, const Shared<u32>& agreed) {
        if (thread_index() == 0) {
            u32 at = multiprocessor() % sms, slot;
            while ((slot = fetch_add(claimed + at, 1u)) >= slots) at = at + 1 == sms ? 0 : at + 1;
            agreed.store(0, at);
            agreed.store(1, slot);
        }
        sync_block();
        sm = agreed.load(0);
        number = agreed.load(1);
    }
};

// Counts of each multiprocessor.
constexpr u32 kSmWords = 3;

// How the items of a partition are divided among multiprocessors. Ranges of buckets belong to the multiprocessors in turn.
struct SmAffinity {
    // Counts, zero before the launch, kSmWords for each multiprocessor: slots claimed; groups of 32 items taken beyond the first of each warp; groups
    // that there are, once that is known.
    u32* counts;
    // Multiprocessors, and slots of each: in all as many as the launch has blocks.
    u32 sms;
    u32 slots;
    // Ranges, at most kWarp for each multiprocessor, and buckets of one as a power of two.
    u32 ranges;
    u32 shift;
    // Capacity of a range in the list of items, where items are scattered to fixed places and not sorted: a range is a bucket then, and the counts of
    // buckets are not scanned. 0 if items are sorted.
    u64 capacity;
    // Sorted batches of this many items and more are read without affinity.
    u64 below;

    WK_DEVICE u32* taken(u32 sm) const { return counts + sms + sm; }
    WK_DEVICE u32* groups(u32 sm) const { return counts + 2 * sms + sm; }
};

// The items of a multiprocessor: each lane has one of its ranges, in groups of up to 32 items.
struct SmQueue {
    u32 sm;
    u32 begin;
    u32 end;
    u32 groups;
    // Groups of this lane and the lanes before it, and of all lanes.
    u32 reached;
    u32 all;

    WK_DEVICE SmQueue(const SmAffinity& affinity, const Partition& partition, u32 which) : sm(which), begin(0), end(0) {
        u32 range = sm + lane() * affinity.sms;
        auto count_of = [&](u32 its) { return load(partition.counts + ((u64)its << affinity.shift)); };
        if (range < affinity.ranges && affinity.capacity) {
            u32 count = count_of(range);
            begin = range * (u32)affinity.capacity;
            end = begin + (count < affinity.capacity ? count : (u32)affinity.capacity);
        } else if (range < affinity.ranges) {
            begin = count_of(range);
            end = range + 1 < affinity.ranges ? count_of(range + 1) : load(partition.total());
        }
        groups = (end - begin + kWarp - 1) / kWarp;
        reached = warp_inclusive_sum(groups);
        all = Warp().shfl(reached, kWarp - 1);
    }
    // The next group beyond the first ones, which each warp has without asking; at least `all` if there is none.
    WK_DEVICE u32 take(const SmAffinity& affinity, u32 warps) const {
        if (all <= warps) return all;
        u32 group = lane() == 0 ? warps + fetch_add(affinity.taken(sm), 1u) : 0;
        return Warp().shfl(group, 0);
    }
};

// The multiprocessor with the most groups left, if its own warps would need at least one more round for them; the number of multiprocessors if
// there is none.
WK_DEVICE u32 busiest_sm(const SmAffinity& affinity, u32 warps) {
    u64 most = 0;
    for (u32 sm = lane(); sm < affinity.sms; sm += kWarp) {
        u32 groups = load<Scope::Device, Order::Relaxed>(affinity.groups(sm));
        u32 taken = load<Scope::Device, Order::Relaxed>(affinity.taken(sm)) + warps;
        u64 left = groups > taken ? groups - taken : 0;
        if (left >= warps && (left << 32 | sm) > most) most = left << 32 | sm;
    }
    for (u32 bits = 1; bits < kWarp; bits *= 2) {
        u64 other = Warp().shfl_xor(most, bits);
        if (other > most) most = other;
    }
    return most ? (u32)most : affinity.sms;
}

// Visits the items of the slot's multiprocessor, 32 of one range at a time, together with the other warps of that multiprocessor; then steals from the
// multiprocessor with the most left, typically one that owns a hot key. `each` gets the position of the lane's item, and whether there is one.
template <class Each>
WK_DEVICE void for_each_affine(const SmAffinity& affinity, const Partition& partition, const SmSlot& slot, Each each) {
    Warp warp;
    u32 warps = affinity.slots * warps_per_block();
    SmQueue queue(affinity, partition, slot.sm);
    if (slot.number == 0 && thread_index() == 0) store<Scope::Device, Order::Relaxed>(affinity.groups(slot.sm), queue.all);
    u32 group = slot.number * warps_per_block() + warp_in_block();
    for (;;) {
        while (group >= queue.all) {
            u32 sm = busiest_sm(affinity, warps);
            if (sm == affinity.sms) return;
            queue = SmQueue(affinity, partition, sm);
            group = queue.take(affinity, warps);
        }
        u32 whose = popc(warp.ballot(queue.reached <= group));
        u32 before = warp.shfl(queue.reached - queue.groups, whose);
        u32 position = warp.shfl(queue.begin, whose) + (group - before) * kWarp + lane();
        each(position, position < warp.shfl(queue.end, whose));
        group = queue.take(affinity, warps);
    }
}

}  // namespace wk
