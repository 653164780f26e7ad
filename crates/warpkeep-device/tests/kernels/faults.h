// Kernels that each do one thing they must not do. The tests look for `here` at the place that is to be reported.
#pragma once
#include "warpkeep/simt.h"

namespace faults {

using namespace wk;

struct Params {
    u64* data;
    u64 count;
};

}  // namespace faults

// Half of the warp votes, the other half shuffles.
WK_KERNEL(fault_diverged, faults::Params) {
    wk::Warp warp;
    wk::u64 x;
    if (wk::lane() < 16) {
        x = warp.ballot(true);
    } else {
        x = warp.shfl(wk::lane(), 0);  // here: diverged
    }
    wk::store(p.data + wk::thread_index(), x);
}

// The same collective, but at two places.
WK_KERNEL(fault_two_places, faults::Params) {
    wk::Warp warp;
    wk::u32 x = wk::lane() < 16 ? warp.ballot(true)
                                : warp.ballot(false);  // here: two places
    wk::store(p.data + wk::thread_index(), x);
}

// Lane 3 returns early.
WK_KERNEL(fault_lane_gone, faults::Params) {
    if (wk::lane() == 3) return;
    wk::Tile<8> tile;
    wk::u32 x = tile.ballot(true);  // here: lane gone
    wk::store(p.data + wk::thread_index(), x);
}

// Lanes that wait for each other: 0 with 1, 1 with 2, 2 with 0.
WK_KERNEL(fault_deadlock, faults::Params) {
    wk::u32 lane = wk::lane();
    if (lane < 3) {
        wk::u32 next = (lane + 1) % 3;
        wk::machine::sync(1u << lane | 1u << next, wk::Site::here());  // here: deadlock
    }
    wk::store(p.data + wk::thread_index(), lane);
}

// Thread 0 goes to the barrier at once; the rest of its warp waits for it before.
WK_KERNEL(fault_barrier, faults::Params) {
    if (wk::thread_index() != 0) wk::sync_warp();  // here: barrier
    wk::sync_block();
}

// Two barriers that look the same to a GPU.
WK_KERNEL(fault_two_barriers, faults::Params) {
    if (wk::thread_index() < 32) {
        wk::sync_block();
    } else {
        wk::sync_block();  // here: two barriers
    }
}

// Waits for a store that never happens.
WK_KERNEL(fault_runaway, faults::Params) {
    while (wk::load<wk::Scope::Device, wk::Order::Acquire>(p.data) == 0) {  // here: runaway
    }
}

// Collectives alone can run away as well.
WK_KERNEL(fault_runaway_collective, faults::Params) {
    wk::Warp warp;
    while (warp.any(true)) {  // here: runaway collective
    }
}

WK_KERNEL(fault_assertion, faults::Params) {
    WK_ASSERT(wk::thread_index() != 37, 4242);  // here: assertion
}

WK_KERNEL(fault_out_of_bounds, faults::Params) {
    wk::store(p.data + wk::thread_index(), 1);  // here: out of bounds
}

WK_KERNEL(fault_uninitialised, faults::Params) {
    if (wk::thread_index() == 5) wk::store(p.data + 5, 1);
    wk::fence();
    wk::u64 x = wk::load(p.data + wk::thread_index());  // here: uninitialised
    wk::store(p.data + wk::thread_index(), x);
}

WK_KERNEL(fault_misaligned, faults::Params) {
    wk::u64* odd = (wk::u64*)((wk::u8*)p.data + 4);
    wk::store(odd, 1);  // here: misaligned
}

WK_KERNEL(fault_read_only, faults::Params) {
    wk::u64 x = wk::load_once(p.data);
    if (wk::thread_index() == 7) wk::store(p.data, x + 1);  // here: read only
}

WK_KERNEL(fault_shared_index, faults::Params) {
    WK_SHARED(wk::u32, counts, 8);
    counts.store(wk::thread_index(), 1);  // here: shared index
}

// Shared memory as words that begin in the middle of others.
WK_KERNEL(fault_shared_misaligned, faults::Params) {
    WK_SHARED(wk::u64, words, 33);
    wk::Shared<wk::u64> odd{(wk::u64*)((wk::u8*)words.first + 4), 32};
    odd.store(wk::thread_index(), 1);  // here: shared misaligned
}

WK_KERNEL(fault_shared_uninitialised, faults::Params) {
    WK_SHARED(wk::u32, counts, 32);
    if (wk::thread_index() != 9) counts.store(wk::thread_index(), 1);
    wk::sync_block();
    wk::u32 x = counts.load(wk::thread_index());  // here: shared uninitialised
    wk::store(p.data + wk::thread_index(), x);
}

// A shuffle that asks a lane outside the mask.
WK_KERNEL(fault_outside_mask, faults::Params) {
    if (wk::lane() < 4) {
        wk::u64 x = wk::machine::shfl(15u, wk::u64{1}, 9, 32, wk::Site::here());  // here: outside mask
        wk::store(p.data + wk::thread_index(), x);
    }
}
