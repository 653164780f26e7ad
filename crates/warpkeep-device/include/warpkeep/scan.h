// Prefix sums over the lanes of a warp and the threads of a block.
#pragma once
#include "warpkeep/simt.h"

namespace wk {

// The sum of the numbers of this lane and of the lanes before it. All lanes of the warp take part.
WK_DEVICE u32 warp_inclusive_sum(u32 own) {
    for (u32 reach = 1; reach < kWarp; reach *= 2) {
        u32 other = Warp().shfl(own, lane() - reach);
        if (lane() >= reach) own += other;
    }
    return own;
}

// The sum over the threads before this one, and over the whole block. All threads of the block construct it, with shared memory of one
// number a warp, which nothing else uses until the next sync_block.
struct BlockScan {
    u32 before;
    u32 all;

    WK_DEVICE BlockScan(u32 own, const Shared<u32>& sums) : before(0), all(0) {
        u32 reached = warp_inclusive_sum(own);
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

}  // namespace wk
