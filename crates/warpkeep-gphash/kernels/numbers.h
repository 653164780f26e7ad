// Places in lists that many threads add to. What is added to one word goes one after the other, a few hundred million times a second: so one
// thread asks for many.
#pragma once
#include "hash.h"

namespace gphash {

// The next of a list for each lane that wants one, in the order of the lanes. All lanes ask.
WK_DEVICE u64 take_number(u64* next, bool wants) {
    Warp warp;
    u32 wanting = warp.ballot(wants);
    u64 first = 0;
    if (lane() == 0 && wanting) first = fetch_add(next, (u64)popc(wanting));
    return warp.shfl(first, 0) + popc(wanting & ((1u << lane()) - 1));
}

// What the threads of a block want of some lists, of each so many bits of a word as a block has threads at the most.
template <u32 Lists> struct BlockWants {
    static_assert(Lists <= 4, "a word has the counts of four");

    // Of this thread's warp, who wants of each list.
    u32 wanting[Lists];
    // The warps before it, and the whole block.
    u64 before;
    u64 all;

    WK_DEVICE static u32 of(u64 counts, u32 list) { return (u32)(counts >> 16 * list) & 0xffff; }

    // All threads of a block ask, once in a kernel; bit i of `wants` is list i.
    WK_DEVICE explicit BlockWants(u32 wants) : before(0), all(0) {
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

    // The place of this thread in a list among those of the block, in the order of the threads.
    WK_DEVICE u32 rank(u32 list) const { return of(before, list) + popc(wanting[list] & ((1u << lane()) - 1)); }
};

// Where a block's places in some lists begin. All threads of a block, once in a kernel; `next` has where each list goes on.
template <u32 Lists, class Word> struct BlockPlaces {
    Word begin[Lists];

    WK_DEVICE BlockPlaces(const BlockWants<Lists>& wants, Word* next) {
        WK_SHARED(Word, begins, Lists);
        u32 list = thread_index(), count = list < Lists ? wants.of(wants.all, list) : 0;
        if (count) begins.store(list, fetch_add(next + list, (Word)count));
        sync_block();
        for (u32 i = 0; i < Lists; i++) begin[i] = wants.of(wants.all, i) ? begins.load(i) : 0;
    }
};

}  // namespace gphash
