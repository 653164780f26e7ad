// Dealing a small batch: what is found goes to the home that reads it, in the same launch that finds it. Each piece of the image has a hand of places; what
// finds its hand full is for everybody. There is no order within a hand, and a small batch wants none: wherever a home reads in its own pieces is near.
#pragma once
#include "lookup.h"

// A thread a key.
WK_KERNEL(gphash_deal, gphash::LookupParams) {
    using namespace gphash;
    u64 index = global_index();
    if (index / kWarp * kWarp >= p.get.count) return;
    Warp warp;
    u64 said = locate_key(p, index);
    tally_rows(p.get.table.mirror.values, said);
    bool near = in_row(said);
    u32 rank = p.regions.take_together(said, said && !near);
    bool fits = said && !near && rank < p.homes.hand;
    if (fits) store((U128*)(p.fetchings + p.regions.number(said) * p.homes.hand + rank), U128{said, index});
    for (u32 find = kInImage; find < kFinds; find++) {
        u32 which = warp.ballot(said && !fits && near == (find == kInRows));
        if (!which) continue;
        u32 first = lane() == 0 ? fetch_add(p.regions.all() + find, popc(which)) : 0;
        u32 place = warp.shfl(first, 0) + popc(which & ((1u << lane()) - 1));
        if (which >> lane() & 1) store((U128*)found_at(p, find, place), U128{said, index});
    }
}
