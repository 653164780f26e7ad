// Batches of requests on a slab hash, with columns in device memory: the host's SlabMap takes slices.
#include "warpkeep/slab_hash.h"

namespace bench {

using namespace wk;

struct SlabParams {
    SlabTableRef table;
    const u32* ops;
    const u32* keys;
    const u32* values;
    u64* answers;
    u64 count;
};

template <u32 Words> WK_DEVICE void apply(const SlabParams& p) {
    SlabTable<Words, true> table(p.table);
    u64 i = global_index();
    bool wants = i < p.count;
    u32 op = wants ? load(p.ops + i) : 0, key = wants ? load(p.keys + i) : 0, value = wants ? load(p.values + i) : 0;
    u64 answer = table.serve(wants, (SlabOp)op, key, value);
    if (wants) store(p.answers + i, answer);
    table.count();
}

template <u32 Words> WK_DEVICE void search(const SlabParams& p) {
    SlabTable<Words, true> table(p.table);
    u64 i = global_index();
    bool wants = i < p.count;
    u64 answer = table.template serve<true>(wants, SlabOp::Search, wants ? load(p.keys + i) : 0, 0);
    if (wants) store(p.answers + i, answer);
}

}  // namespace bench

WK_KERNEL(bench_slab_apply_8, bench::SlabParams) { bench::apply<8>(p); }
WK_KERNEL(bench_slab_apply_16, bench::SlabParams) { bench::apply<16>(p); }
WK_KERNEL(bench_slab_search_8, bench::SlabParams) { bench::search<8>(p); }
WK_KERNEL(bench_slab_search_16, bench::SlabParams) { bench::search<16>(p); }
