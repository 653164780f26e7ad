// The slab hash of the paper, and its allocator.
#include "warp_slab.h"

namespace bench {

struct WarpSlabParams {
    WarpSlabRef table;
    Requests requests;
};

struct WarpAllocParams {
    WarpPoolRef pool;
    u32* handles;
    u64 count;
    // Sums of the handles that were refused.
    u64* mistakes;
};

}  // namespace bench

// One request a thread, as in the paper's concurrent benchmark.
WK_KERNEL(bench_warp_slab_apply, bench::WarpSlabParams) {
    using namespace bench;
    WarpSlabTable table(p.table);
    u64 i = global_index();
    OwnRequest own(p.requests, i);
    u64 answer = table.serve(own.is_there, own.what, own.key, own.value);
    if (own.is_there) store(p.requests.answers + i, answer);
}

// One unit a thread: a warp claims them one after the other.
WK_KERNEL(bench_warp_slab_claim, bench::WarpAllocParams) {
    using namespace bench;
    WarpAllocator units(p.pool);
    Warp warp;
    u64 i = global_index();
    u32 handle = kNoSlab;
    for (u32 queue = warp.ballot(i < p.count); queue; queue &= queue - 1) {
        u32 claimed = units.allocate();
        if (lane() == ffs(queue) - 1) handle = claimed;
    }
    if (i < p.count) store(p.handles + i, handle);
}

WK_KERNEL(bench_warp_slab_release, bench::WarpAllocParams) {
    using namespace bench;
    u64 i = global_index();
    bool freed = i < p.count && WarpAllocator::release(p.pool, load(p.handles + i));
    add_up(p.mistakes, i < p.count && !freed ? 1 : 0);
}

WK_AGREE(bench_warp_slab_words, bench::kWarpSlabWords)
WK_AGREE(bench_warp_slab_reserved, bench::kReservedKeys)
