// Every collective, over masks and tiles that the host chose, so that the host can say what must come out.
#pragma once
#include "warpkeep/simt.h"

namespace collectives {

using namespace wk;

constexpr u32 kResults = 13;

struct Params {
    // Each lane's own: the mask it belongs to, the value it gives, the lane it asks, and where its results go.
    const u32* masks;
    const u64* values;
    const u32* from;
    u64* results;
};

template <u32 N> WK_DEVICE void with_tile(const Params& p) {
    u64 t = global_index();
    u64 v = load(p.values + t);
    u32 from = load(p.from + t);
    Tile<N> tile;
    u64* out = p.results + t * kResults;
    store(out + 0, tile.ballot(v & 1));
    store(out + 1, tile.any(v & 2));
    store(out + 2, tile.all(v & 4));
    store(out + 3, tile.shfl(v, from));
    store(out + 4, tile.shfl((u32)v, from));
    store(out + 5, tile.shfl_xor(v, from % N));
    store(out + 6, tile.shfl_xor((u32)v, from % N));
    store(out + 7, tile.match_any(v));
    store(out + 8, tile.match_any((u32)v % 3));
    store(out + 9, tile.elect(v & 8));
    tile.sync();
    store(out + 10, tile.rank() | tile.index() << 8 | tile.base() << 16);
    store(out + 11, tile.mask());
    store(out + 12, tile.template shfl_among<4>(v, from));
}

}  // namespace collectives

WK_KERNEL(collectives_tile4, collectives::Params) { collectives::with_tile<4>(p); }
WK_KERNEL(collectives_tile8, collectives::Params) { collectives::with_tile<8>(p); }
WK_KERNEL(collectives_tile16, collectives::Params) { collectives::with_tile<16>(p); }
WK_KERNEL(collectives_tile32, collectives::Params) { collectives::with_tile<32>(p); }

#if !WK_ON_GPU
// Masks of any shape: a warp's lanes are divided among several, and each group goes its own way.
WK_KERNEL(collectives_masks, collectives::Params) {
    using namespace wk;
    const Site at = Site::here();
    u64 t = global_index();
    u32 mask = load(p.masks + t);
    u64 v = load(p.values + t);
    u32 from = load(p.from + t);
    u64* out = p.results + t * collectives::kResults;
    store(out + 0, machine::ballot(mask, v & 1, at));
    store(out + 1, machine::any(mask, v & 2, at));
    store(out + 2, machine::all(mask, v & 4, at));
    store(out + 3, machine::shfl(mask, v, from, 32, at));
    store(out + 4, machine::match_any(mask, v, at));
    machine::sync(mask, at);
    sync_warp();
    store(out + 5, machine::ballot(~0u, v & 1, at));
}
#endif

// The block's barrier and shared memory: the sum of all threads before each, by way of every other thread's element.
WK_KERNEL(collectives_block, collectives::Params) {
    using namespace wk;
    WK_SHARED(u64, values, 1024);
    Shared<u32> order = dynamic_shared<u32>();
    u32 t = thread_index();
    values.store(t, load(p.values + global_index()));
    if (t == 0) order.store(0, 0);
    sync_block();
    u64 sum = 0;
    for (u32 i = 0; i < t; i++) sum += values.load(i);
    u32 turn = order.fetch_add(0, 1);
    sync_block();
    values.store(t, sum);
    sync_block();
    store(p.results + global_index() * collectives::kResults, values.load(block_size() - 1 - t));
    store(p.results + global_index() * collectives::kResults + 1, order.load(0) == block_size() && turn < block_size());
}
