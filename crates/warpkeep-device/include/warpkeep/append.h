// Aggregated append: positions in lists that many threads append to, and numbers that many threads change. Atomic operations on one word are carried out
// one after the other, a few hundred million a second, so one thread asks for the positions of many, and a number is spread over many words.
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

// A number is spread over this many words, each of which has 32 bytes to itself: the least that a cache loads.
constexpr u32 kCountParts = 128;
constexpr u32 kCountStride = 4;
constexpr u32 kCountWords = kCountParts * kCountStride;

// A number that many threads change: the sum of its words. All of them are zero at first; those between the parts stay so.
struct SpreadCount {
    u64* words;

    // For a thread alone. Neighbouring threads change different words.
    WK_DEVICE void add(u64 change) const { add_to(global_index(), change); }

    // Adds one for each lane that has one more, and takes one off for each that has one fewer. All lanes of the warp take part.
    WK_DEVICE void add_by_warp(bool more, bool fewer) const {
        Warp warp;
        u64 change = (u64)popc(warp.ballot(more)) - popc(warp.ballot(fewer));
        if (lane() == 0 && change) add_to(global_warp(), change);
    }

    // The same with the changes of all lanes.
    WK_DEVICE void add_sum_by_warp(u64 change) const {
        Warp warp;
        for (u32 bits = 1; bits < kWarp; bits <<= 1) change += warp.shfl_xor(change, bits);
        if (lane() == 0 && change) add_to(global_warp(), change);
    }

    WK_DEVICE void add_to(u64 part, u64 change) const { fetch_add(words + part % kCountParts * kCountStride, change); }
};

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

// The same for one list, to which a block appends its part of each of several: these parts follow each other. All threads of a block construct it, once in a
// kernel.
template <u32 Lists> struct BlockParts {
    const BlockCounts<Lists>& counts;
    u64 begin;

    WK_DEVICE BlockParts(const BlockCounts<Lists>& of, u64* next) : counts(of), begin(0) {
        WK_SHARED(u64, first, 1);
        u32 all = before_part(Lists);
        if (thread_index() == 0 && all) first.store(0, fetch_add(next, (u64)all));
        sync_block();
        if (all) begin = first.load(0);
    }

    // The position of this thread in a part, if it wants one there.
    WK_DEVICE u64 position(u32 part) const { return begin + before_part(part) + counts.rank(part); }

    WK_DEVICE u32 before_part(u32 part) const {
        u32 before = 0;
        for (u32 i = 0; i < part; i++) before += BlockCounts<Lists>::of(counts.all, i);
        return before;
    }
};

}  // namespace wk
