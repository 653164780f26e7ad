// Bucketed scatter, for gets of medium batches: locating and assigning records to multiprocessors in one launch,
// without a sort.
//
// Each address range of the image has a bucket of fixed capacity. A located record is appended to the bucket of its
// range, and the multiprocessor that owns the range fetches it (gphash_fetch). Records that do not fit go to a shared
// list that all multiprocessors process. A bucket is unordered, which is enough: all its records lie in one range.
#pragma once
#include "read/index_get.h"

// One thread per key.
WK_KERNEL(gphash_scatter, gphash::LookupParams) {
    using namespace gphash;
    u64 index = global_index();
    if (index / kWarp * kWarp >= p.get.count) return;
    Warp warp;
    u64 target = locate_key(p, index);
    count_hits(p.get.table.index.value_cache, target);
    bool cached = in_row(target);
    u32 rank = p.partition.rank_of_warp(target, target && !cached);
    bool fits = target && !cached && rank < p.affinity.capacity;
    if (fits) store((U128*)(p.fetches + p.partition.bucket(target) * p.affinity.capacity + rank), U128{target, index});
    for (u32 source = kInImage; source < kSources; source++) {
        u32 lanes = warp.ballot(target && !fits && cached == (source == kInRows));
        if (!lanes) continue;
        u32 first = lane() == 0 ? fetch_add(p.partition.total() + source, popc(lanes)) : 0;
        u32 position = warp.shfl(first, 0) + popc(lanes & ((1u << lane()) - 1));
        if (lanes >> lane() & 1) store((U128*)fetch_slot(p, source, position), U128{target, index});
    }
}
