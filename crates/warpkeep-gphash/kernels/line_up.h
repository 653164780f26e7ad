// The kernel behind a counting sort by region, for the programs that sort.
#pragma once
#include "regions.h"

// Where each region begins in the order, in place of how many it has. A block for each kLinedUp of them; each needs to know what those before it
// have, which they tell as soon as they have counted. Blocks begin in order, so nobody waits for one that waits for room.
WK_KERNEL_OF(gphash_line_up, gphash::Regions, gphash::kScanThreads) {
    using namespace gphash;
    if (load(p.all()) == 0) return;
    WK_SHARED(u32, sums, kScanThreads / kWarp);
    WK_SHARED(u32, others, kScanThreads / kWarp);
    // Two counts in a word, four in an access.
    constexpr u32 kEach = kLinedUp / kScanThreads / 4;
    u32 me = thread_index(), block = block_index(), sum = 0;
    U128* mine = (U128*)(p.counts + block * kLinedUp) + me * kEach;
    U128 counts[kEach];
    for (u32 i = 0; i < kEach; i++) counts[i] = load(mine + i);
    for (u32 i = 0; i < kEach; i++) {
        sum += (u32)counts[i].lo + (u32)(counts[i].lo >> 32) + (u32)counts[i].hi + (u32)(counts[i].hi >> 32);
    }
    BlockSum own(sum, sums);
    if (me == 0) store<Scope::Device, Order::Relaxed>(p.told(block), own.all + 1);
    u32 its = 0;
    // One thread for each block before this one.
    while (me < block && (its = load<Scope::Device, Order::Relaxed>(p.told(me))) == 0) backoff(kLookNanoseconds);
    BlockSum before(me < block ? its - 1 : 0, others);
    u32 begin = before.all + own.before;
    for (u32 i = 0; i < kEach; i++) {
        u64 one = begin, two = begin += (u32)counts[i].lo;
        u64 three = begin += (u32)(counts[i].lo >> 32), four = begin += (u32)counts[i].hi;
        begin += (u32)(counts[i].hi >> 32);
        store(mine + i, U128{one | two << 32, three | four << 32});
    }
}
