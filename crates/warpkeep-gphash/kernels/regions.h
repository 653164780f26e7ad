// Order by counting: a batch is put in the order of the regions that its addresses lie in. What has an address counts itself in its region, and so
// learns its place among those of the same one; then it is found out where each region begins; then everything goes where it belongs.
#pragma once
#include "hash.h"

namespace gphash {

// Regions that are lined up at once.
constexpr u32 kLinedUp = 32768;
constexpr u32 kScanThreads = 1024;
// Words of the head. The first ones nobody needs here, but whoever wants two more counts that are zero at first has them there.
constexpr u32 kHead = 8;

struct Regions {
    // For each region how many there are, and when they are lined up, where it begins. Before them lies a head: see `all`.
    u32* counts;
    // The last region: there are a multiple of kLinedUp where they are lined up here.
    u32 last;
    // A region has 2^shift of what addresses are counted in.
    u32 shift;

    WK_DEVICE u32* at(u64 address) const {
        u64 region = address >> shift;
        return counts + (region < last ? (u32)region : last);
    }
    // How many there are in all.
    WK_DEVICE u32* all() const { return counts - kHead / 2; }
    // One more; its place among those of the same region.
    WK_DEVICE u32 take(u64 address) const { return fetch_add(at(address), 1u); }
    // Where what has such a place belongs, once they are lined up.
    WK_DEVICE u64 place(u64 address, u64 rank) const { return load(at(address)) + rank; }
};

}  // namespace gphash

// Where each region begins in the order, in place of how many it has. One block.
WK_KERNEL(gphash_line_up, gphash::Regions) {
    using namespace gphash;
    if (load(p.all()) == 0) return;
    WK_SHARED(u32, sums, kScanThreads);
    // Two counts in a word, four in an access.
    constexpr u32 kEach = kLinedUp / kScanThreads / 4;
    u32 me = thread_index(), before = 0;
    for (u32 first = 0; first <= p.last; first += kLinedUp) {
        u32 sum = 0;
        U128* mine = (U128*)(p.counts + first) + me * kEach;
        U128 counts[kEach];
        for (u32 i = 0; i < kEach; i++) counts[i] = load(mine + i);
        for (u32 i = 0; i < kEach; i++) {
            sum += (u32)counts[i].lo + (u32)(counts[i].lo >> 32) + (u32)counts[i].hi + (u32)(counts[i].hi >> 32);
        }
        sums.store(me, sum);
        sync_block();
        for (u32 reach = 1; reach < kScanThreads; reach *= 2) {
            u32 other = me >= reach ? sums.load(me - reach) : 0;
            sync_block();
            sums.store(me, sums.load(me) + other);
            sync_block();
        }
        u32 begin = before + sums.load(me) - sum;
        before += sums.load(kScanThreads - 1);
        for (u32 i = 0; i < kEach; i++) {
            u64 one = begin, two = begin += (u32)counts[i].lo;
            u64 three = begin += (u32)(counts[i].lo >> 32), four = begin += (u32)counts[i].hi;
            begin += (u32)(counts[i].hi >> 32);
            store(mine + i, U128{one | two << 32, three | four << 32});
        }
        // The sums are read before they are those of the next.
        sync_block();
    }
}
