// Putting a small batch in order: one block does in one launch what takes four for a large one. It locates all keys, counts their records by region
// in its own memory, and lists them in order; then values are fetched as those of a large batch are, by all multiprocessors.
#pragma once
#include "lookup.h"

namespace gphash {

// Keys of such a batch, at the most; threads of the block, and regions: one a thread.
constexpr u32 kOrderFew = 4096;
constexpr u32 kOrderFewThreads = 1024;

}  // namespace gphash

WK_KERNEL_OF(gphash_order_few, gphash::LookupParams, gphash::kOrderFewThreads) {
    using namespace gphash;
    WK_SHARED(u64, found, kOrderFew);
    // Places among those of the same region, or among those in rows.
    WK_SHARED(u16, ranks, kOrderFew);
    WK_SHARED(u32, counts, kOrderFewThreads);
    WK_SHARED(u32, sums, kWarp);
    WK_SHARED(u32, in_rows, 1);
    u32 me = thread_index();
    u64 count = p.get.count;
    counts.store(me, 0);
    if (me == 0) {
        in_rows.store(0, 0);
        store(p.asked, (u64)0);
    }
    sync_block();
    for (u32 index = me; index - lane() < count; index += kOrderFewThreads) {
        u64 said = locate_key(p, index);
        tally_rows(p.get.table.mirror.values, said);
        found.store(index, said);
        if (!said) continue;
        u32 rank = in_row(said) ? in_rows.fetch_add(0, 1u) : counts.fetch_add(p.regions.number(said), 1u);
        ranks.store(index, (u16)rank);
    }
    sync_block();
    BlockSum before(counts.load(me), sums);
    counts.store(me, before.before);
    sync_block();
    for (u32 index = me; index < count; index += kOrderFewThreads) {
        u64 said = found.load(index);
        if (!said) continue;
        u32 rank = ranks.load(index);
        Fetching* to = in_row(said) ? found_at(p, kInRows, rank) : p.fetchings + counts.load(p.regions.number(said)) + rank;
        store((U128*)to, U128{said, index});
    }
    if (me != 0) return;
    store(p.regions.all() + kInImage, before.all);
    store(p.regions.all() + kInRows, in_rows.load(0));
}
