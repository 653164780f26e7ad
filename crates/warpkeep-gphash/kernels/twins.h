// Equal keys of a block of a batch of gets: one of them is looked up, for all. Where a few keys are asked for by everybody, thousands of blocks
// come to the same slots instead of a million keys; accesses to one line over the link wait for each other.
#pragma once
#include "find.h"

namespace gphash {

// Threads of a block that looks for twins, at the most.
constexpr u32 kTwinThreads = 256;
constexpr u32 kTwinPlaces = 2 * kTwinThreads;
constexpr u32 kNobody = ~0u;

// What the key of a thread has in common with those of its block.
struct Twin {
    // The thread whose key is looked up for this one; how many it is looked up for, if that is counted.
    u32 first;
    u32 uses;
    // Whether any key of the block is there more than once.
    bool repeats;

    WK_DEVICE bool is_first() const { return first == thread_index(); }
};

WK_DEVICE bool same_rows(const Table& t, const u64* one, const u64* other) {
    u64 differ = 0;
    for (u32 i = 0; i < t.key_words(); i++) differ |= load(one + i) ^ load(other + i);
    return differ == 0;
}

// All threads of the block ask; `row` is a thread's own key and those of the others lie around it. Threads that are not `inside` have none.
template <bool Counts> WK_DEVICE Twin find_twin(const Table& t, const u64* row, u64 hash, bool inside) {
    WK_SHARED(u64, hashes, kTwinThreads);
    WK_SHARED(u32, threads, kTwinPlaces);
    WK_SHARED(u32, uses, Counts ? kTwinThreads : 1);
    WK_SHARED(u32, repeats, 1);
    u32 me = thread_index();
    for (u32 i = me; i < kTwinPlaces; i += block_size()) threads.store(i, kNobody);
    hashes.store(me, hash);
    if (Counts) uses.store(me, 1);
    if (me == 0) repeats.store(0, 0);
    sync_block();
    Twin twin{me, 1, false};
    // A place for each key and as many more, so there is always a free one.
    for (u32 at = (u32)(hash >> 32) % kTwinPlaces; inside; at = (at + 1) % kTwinPlaces) {
        u32 there = threads.cas(at, kNobody, me);
        if (there == kNobody) break;
        if (hashes.load(there) != hash) continue;
        // Different keys with one hash are looked up each on its own.
        const u64* other = row + ((i64)there - (i64)me) * (i64)t.key_words();
        if (same_rows(t, row, other)) {
            twin.first = there;
            if (Counts) uses.fetch_add(there, 1u);
            repeats.store_relaxed(0, 1u);
        }
        break;
    }
    sync_block();
    if (Counts) twin.uses = uses.load(me);
    twin.repeats = repeats.load(0) != 0;
    return twin;
}

}  // namespace gphash
