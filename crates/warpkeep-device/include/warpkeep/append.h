// Aggregated append: positions in lists that many threads append to. Atomic operations on one word are carried out one after the other, a few
// hundred million a second, so one thread asks for the positions of many.
#pragma once
#include "warpkeep/simt.h"

namespace wk {

// The next position of a list for each lane that wants one, in the order of the lanes. All lanes of the warp take part.
WK_DEVICE u64 append_by_warp(u64* next, bool wants) {
    Warp warp;
    u32 wanting = warp.ballot(wants);
    u64 first = 0;
    if (lane() == 0 && wanting) first = fetch_add(next, (u64)popc(wanting));
    return warp.shfl(first, 0) + popc(wanting & ((1u << lane()) - 1));
}

// How many positions the threads of a block want, of up to four lists.
template <u32 Lists> struct BlockCounts {
    static_assert(Lists <= 4, "a word holds the counts of four lists");

    // The lanes of this thread's warp that want a position, for each list.
    u32 wanting[Lists];
    // Counts of the warps before it, and of the whole block, 16 bits for each list.
    u64 before;
    u64 all;

    WK_DEVICE static u32 of(u64 counts, u32 list) { return (u32)(counts >> 16 * list) & 0xffff; }

    // All threads of a block construct it, once in a kernel; bit i of `wants` is list i.
    WK_DEVICE explicit BlockCounts(u32 wants) : before(0), all(0) {
        WK_SHARED(u64, counts, kWarp);
        u64 own = 0;
        for (u32 i = 0; i < Lists; i++) {
            wanting[i] = Warp().ballot(wants >> i & 1);
            own |= (u64)popc(wanting[i]) << 16 * i;
        }
        if (lane() == 0) counts.store(warp_in_block(), own);
        sync_block();
        for (u32 i = 0; i < warps_per_block(); i++) {
            u64 its = counts.load(i);
            all += its;
            if (i < warp_in_block()) before += its;
        }
    }

    // The rank of this thread among those of the block that want a position of the list.
    WK_DEVICE u32 rank(u32 list) const { return of(before, list) + popc(wanting[list] & ((1u << lane()) - 1)); }
};

// The positions at which a block's part of each list begins. All threads of a block construct it, once in a kernel; `next` has the next position of
// each list.
template <u32 Lists, class Word> struct BlockPositions {
    Word begin[Lists];

    WK_DEVICE BlockPositions(const BlockCounts<Lists>& counts, Word* next) {
        WK_SHARED(Word, begins, Lists);
        u32 list = thread_index(), count = list < Lists ? counts.of(counts.all, list) : 0;
        if (count) begins.store(list, fetch_add(next + list, (Word)count));
        sync_block();
        for (u32 i = 0; i < Lists; i++) begin[i] = counts.of(counts.all, i) ? begins.load(i) : 0;
    }
};

}  // namespace wk
