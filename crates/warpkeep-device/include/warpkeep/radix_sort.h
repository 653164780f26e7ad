// Stable radix sort of keys with payloads, eight bits a pass, least significant digit first.
//
// Sorting in address order is what makes memory fast, so every large batch begins here. A pass has three parts, each of them launches of its
// own, so that no block waits for another one:
//
//   1. count_digits: each tile of items counts its digits.
//   2. An exclusive scan of the counts, digit by digit and within a digit tile by tile, gives the position at which each tile puts the items of
//      each digit.
//   3. scatter_items: each tile ranks its items, brings them into order in shared memory and writes runs of equal digits.
//
// Equal keys keep their order: the rank of an item counts the items of its digit in earlier tiles, in earlier warps of the tile, in earlier rounds of
// its warp, and in lower lanes.
#pragma once
#include "warpkeep/scan.h"

namespace wk {

constexpr u32 kDigitBits = 8;
constexpr u32 kDigits = 1u << kDigitBits;
// Threads of a block that sorts: one for each digit.
constexpr u32 kSortThreads = kDigits;
constexpr u32 kSortWarps = kSortThreads / kWarp;

// A payload of no bytes.
struct NoValue {};

// Items of a tile for each thread. Keys and payloads of a tile lie in shared memory, of which a kernel has 48 KiB without asking for more.
template <class Key, class Value> constexpr u32 kSortItems = sizeof(Key) + sizeof(Value) > 9 ? 8 : 16;

struct RadixPass {
    const void* keys;
    const void* values;
    void* sorted_keys;
    void* sorted_values;
    // For each digit and, within it, each tile: how many items; after the scan, the position of the first of them.
    u32* counts;
    // Fewer than 2^32.
    u64 count;
    u32 tiles;
    // The digit of a key: the bits from `shift` on that are set in `mask`.
    u32 shift;
    u32 mask;
    u32 reserved;

    template <class Key> WK_DEVICE u32 digit(Key key) const { return (u32)(key >> shift) & mask; }
};

// Part 1. A block of kSortThreads for each tile.
template <class Key, u32 kEach> WK_DEVICE void count_digits(const RadixPass& p) {
    WK_SHARED(u32, digits, kDigits);
    u32 me = thread_index(), tile = block_index();
    digits.store(me, 0);
    sync_block();
    const Key* keys = (const Key*)p.keys;
    u64 first = (u64)tile * kEach * kSortThreads;
    for (u32 i = 0; i < kEach; i++) {
        u64 at = first + i * kSortThreads + me;
        if (at < p.count) digits.fetch_add(p.digit(load(keys + at)), 1u);
    }
    sync_block();
    store(p.counts + (u64)me * p.tiles + tile, digits.load(me));
}

// Part 3. A block of kSortThreads for each tile; `p.counts` has been scanned.
template <class Key, class Value> WK_DEVICE void scatter_items(const RadixPass& p) {
    constexpr u32 kEach = kSortItems<Key, Value>;
    constexpr u32 kItems = kEach * kSortThreads;
    constexpr bool kHasValues = sizeof(Value) > 1;
    WK_SHARED(u32, ranks, kSortWarps * kDigits);
    WK_SHARED(u32, sums, kSortWarps);
    WK_SHARED(u32, begins, kDigits);
    WK_SHARED(u32, targets, kDigits);
    WK_SHARED(Key, keys_shared, kItems);
    Warp warp;
    u32 me = thread_index(), tile = block_index(), own = warp_in_block() * kDigits;
    for (u32 i = me; i < kSortWarps * kDigits; i += kSortThreads) ranks.store(i, 0);
    sync_block();
    // Each warp has neighbouring items, 32 a round.
    u64 base = (u64)tile * kItems;
    u32 first = warp_in_block() * kEach * kWarp + lane();
    Key keys[kEach];
    u32 rank[kEach];
    for (u32 i = 0; i < kEach; i++) {
        u64 at = base + first + i * kWarp;
        bool inside = at < p.count;
        keys[i] = inside ? load((const Key*)p.keys + at) : 0;
        // Lanes without an item match only each other.
        u32 digit = inside ? p.digit(keys[i]) : kDigits;
        u32 same = warp.match_any(digit), before = popc(same & ((1u << lane()) - 1));
        u32 earlier = inside ? ranks.load(own + digit) : 0;
        rank[i] = earlier + before;
        warp.sync();
        if (inside && before == 0) ranks.store(own + digit, earlier + popc(same));
        warp.sync();
    }
    sync_block();
    // A thread a digit: its items in the warps before, in the whole tile, and in the digits before.
    u32 total = 0;
    for (u32 w = 0; w < kSortWarps; w++) {
        u32 of_warp = ranks.load(w * kDigits + me);
        ranks.store(w * kDigits + me, total);
        total += of_warp;
    }
    BlockScan scan(total, sums);
    begins.store(me, scan.before);
    targets.store(me, load(p.counts + (u64)me * p.tiles + tile) - scan.before);
    sync_block();
    for (u32 i = 0; i < kEach; i++) {
        if (base + first + i * kWarp >= p.count) continue;
        u32 digit = p.digit(keys[i]);
        rank[i] += begins.load(digit) + ranks.load(own + digit);
        keys_shared.store(rank[i], keys[i]);
    }
    sync_block();
    u64 left = p.count - base;
    u32 count = left < kItems ? (u32)left : kItems;
    // Neighbouring threads write neighbouring items of one digit. The subtraction above may have wrapped; this addition wraps back.
    for (u32 i = me; i < count; i += kSortThreads) {
        Key key = keys_shared.load(i);
        store((Key*)p.sorted_keys + (u32)(targets.load(p.digit(key)) + i), key);
    }
    if constexpr (kHasValues) {
        WK_SHARED(Value, values_shared, kItems);
        for (u32 i = 0; i < kEach; i++) {
            u64 at = base + first + i * kWarp;
            if (at < p.count) values_shared.store(rank[i], load((const Value*)p.values + at));
        }
        sync_block();
        for (u32 i = me; i < count; i += kSortThreads) {
            u32 digit = p.digit(keys_shared.load(i));
            store((Value*)p.sorted_values + (u32)(targets.load(digit) + i), values_shared.load(i));
        }
    }
}

}  // namespace wk
