// Order by counting: a batch is put in the order of the regions that its addresses lie in. What has an address counts itself in its region, and so
// learns its place among those of the same one; then it is found out where each region begins; then everything goes where it belongs.
#pragma once
#include "hash.h"

namespace gphash {

// Regions that a block lines up.
constexpr u32 kLinedUp = 8192;
constexpr u32 kScanThreads = 1024;
// Between two looks at what another block is about to tell.
constexpr u32 kLookNanoseconds = 100;
// Words of the head. The first ones nobody needs here, but whoever wants two more counts that are zero at first has them there.
constexpr u32 kHead = 8;

struct Regions {
    // For each region how many there are, and when they are lined up, where it begins. Before them lies a head: see `all`; behind them what
    // blocks tell each other: see `told`.
    u32* counts;
    // The last region: there are a multiple of kLinedUp where they are lined up here, and no more than kScanThreads times that.
    u32 last;
    // A region has 2^shift of what addresses are counted in.
    u32 shift;

    WK_DEVICE u32 number(u64 address) const {
        u64 region = address >> shift;
        return region < last ? (u32)region : last;
    }
    WK_DEVICE u32* at(u64 address) const { return counts + number(address); }
    // How many there are in all.
    WK_DEVICE u32* all() const { return counts - kHead / 2; }
    // How many a block of gphash_line_up has found, and one more; 0 until it is known.
    WK_DEVICE u32* told(u32 block) const { return counts + last + 1 + block; }
    // One more; its place among those of the same region.
    WK_DEVICE u32 take(u64 address) const { return fetch_add(at(address), 1u); }
    // The same for all lanes of a warp: of one region one asks for all. Where everybody wants the same, thousands ask at one word, and one after the other.
    WK_DEVICE u32 take_together(u64 address, bool wants) const {
        Warp warp;
        // Who wants nothing is alone.
        u32 same = warp.match_any(wants ? number(address) : ~lane());
        u32 first = ffs(same) - 1, begin = 0;
        if (wants && first == lane()) begin = fetch_add(at(address), popc(same));
        return warp.shfl(begin, first) + popc(same & ((1u << lane()) - 1));
    }
    // Where what has such a place belongs, once they are lined up.
    WK_DEVICE u64 place(u64 address, u64 rank) const { return load(at(address)) + rank; }
};

// What the numbers of the lanes of a warp add up to, from the first one's to this one's.
WK_DEVICE u32 sum_to_here(u32 own) {
    for (u32 reach = 1; reach < kWarp; reach *= 2) {
        u32 other = Warp().shfl(own, lane() - reach);
        if (lane() >= reach) own += other;
    }
    return own;
}

// What the threads of a block have in all, and what those before this one have: all of them ask, with memory for a number a warp.
struct BlockSum {
    u32 before;
    u32 all;

    WK_DEVICE BlockSum(u32 own, const Shared<u32>& sums) : before(0), all(0) {
        u32 reached = sum_to_here(own);
        if (lane() == kWarp - 1) sums.store(warp_in_block(), reached);
        sync_block();
        for (u32 i = 0; i < warps_per_block(); i++) {
            u32 its = sums.load(i);
            all += its;
            if (i < warp_in_block()) before += its;
        }
        before += reached - own;
    }
};

}  // namespace gphash
