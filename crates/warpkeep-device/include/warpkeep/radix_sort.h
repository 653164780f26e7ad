// Stable radix sort of keys with payloads, eight bits a pass, least significant digit first.
//
// Sorting in address order is what makes memory fast, so every large batch begins here. A pass has three parts, each of them launches of its
// own, so that no block waits for another one:
//
//   1. count_digits: each tile of items counts its digits.
//   2. scan_digits: a block for each digit scans the counts of its tiles, and leaves how many items have the digit.
//   3. scatter_items: each tile adds the items of smaller digits to the scanned counts, which gives where its items of
//      each digit go, ranks its items, brings them into order in shared memory and writes runs of equal digits.
//
// Items that fit into one tile are sorted by one block in shared memory, in one launch: sort_tile.
//
// Equal keys keep their order: the rank of an item counts the items of its digit in earlier tiles, in earlier warps of the tile, in earlier rounds of
// its warp, and in lower lanes. Each thread reads all its items before it ranks the first, so that all reads are in flight at once.
#pragma once
#include "warpkeep/device_scan.h"

namespace wk {

constexpr u32 kDigitBits = 8;
constexpr u32 kDigits = 1u << kDigitBits;
// Threads of a block that sorts: one for each digit.
constexpr u32 kSortThreads = kDigits;
constexpr u32 kSortWarps = kSortThreads / kWarp;

// A payload of no bytes.
struct NoValue {};

// Items of a tile for each thread. Keys of a tile, and after them its payloads, lie in shared memory, of which a kernel has 48 KiB without asking for more.
template <class Key, class Value> constexpr u32 kSortItems = sizeof(Key) + sizeof(Value) > 12 ? 12 : 16;

// A word that holds a key or a payload.
template <class Key, class Value> struct TileWord { using Type = Key; };
template <> struct TileWord<u32, u64> { using Type = u64; };

struct RadixPass {
    const void* keys;
    // Null if the payload of an item is its number.
    const void* values;
    void* sorted_keys;
    void* sorted_values;
    // For each digit and, within it, each tile: how many items; after the scan, how many in the tiles before.
    u32* counts;
    // For each digit: how many items.
    u32* totals;
    // Fewer than 2^32.
    u64 count;
    u32 tiles;
    // The digit of a key: the bits from `shift` on that are set in `mask`.
    u32 shift;
    u32 mask;
    // Of sort_tile: the end of the bits by which it sorts.
    u32 end;

    template <class Key> WK_DEVICE u32 digit(Key key) const { return digit_at(key, shift, mask); }
    template <class Key> WK_DEVICE static u32 digit_at(Key key, u32 shift, u32 mask) { return (u32)(key >> shift) & mask; }
};

// The items of a tile that a thread reads, neighbouring lanes neighbouring items: item i is number `first + i * kWarp` of the tile.
template <class T, u32 kEach> struct TileItems {
    T items[kEach];

    WK_DEVICE TileItems(const T* tile, u32 first, u32 inside) {
        for (u32 i = 0; i < kEach; i++) items[i] = first + i * kWarp < inside ? load(tile + first + i * kWarp) : T{};
    }

    // Those of the tile that begins at item `base` of the array; without an array they are numbers.
    WK_DEVICE TileItems(const T* array, u64 base, u32 first, u32 inside) {
        for (u32 i = 0; i < kEach; i++) {
            u64 at = base + first + i * kWarp;
            items[i] = !array ? (T)at : first + i * kWarp < inside ? load(array + at) : T{};
        }
    }
};

// No payloads.
template <u32 kEach> struct TileItems<NoValue, kEach> {
    WK_DEVICE TileItems(const NoValue*, u64, u32, u32) {}
};

// Ranks the items of a tile by one digit.
template <u32 kEach> struct TileRanks {
    const Shared<u32>& counts;
    const Shared<u32>& sums;
    const Shared<u32>& begins;
    u32 rank[kEach];

    // How many items of its digit are before each item in its warp. `counts` has a number for each warp and digit; the block is synchronised before.
    template <class Key> WK_DEVICE void within_warp(const Key (&keys)[kEach], u32 first, u32 inside, u32 shift, u32 mask) {
        Warp warp;
        u32 own = warp_in_block() * kDigits, below = (1u << lane()) - 1;
        for (u32 i = 0; i < kEach; i++) {
            bool is_item = first + i * kWarp < inside;
            // Lanes without an item match only each other.
            u32 digit = is_item ? RadixPass::digit_at(keys[i], shift, mask) : kDigits;
            u32 same = warp.match_bits<kDigitBits + 1>(digit), before = popc(same & below);
            u32 earlier = is_item ? counts.load(own + digit) : 0;
            rank[i] = earlier + before;
            warp.sync();
            if (is_item && before == 0) counts.store(own + digit, earlier + popc(same));
            warp.sync();
        }
    }

    // Turns the counts into how many items of a digit are in the warps before, and `begins` into where the digit begins in the tile. A thread a digit:
    // gives where its own begins.
    WK_DEVICE u32 begin_digits() const {
        u32 me = thread_index(), total = 0;
        for (u32 w = 0; w < kSortWarps; w++) {
            u32 of_warp = counts.load(w * kDigits + me);
            counts.store(w * kDigits + me, total);
            total += of_warp;
        }
        BlockScan scan(total, sums);
        begins.store(me, scan.before);
        return scan.before;
    }

    // Where an item goes in the tile, when the digits begin somewhere and the block is synchronised.
    WK_DEVICE u32 position(u32 i, u32 digit) const {
        return rank[i] + begins.load(digit) + counts.load(warp_in_block() * kDigits + digit);
    }

    WK_DEVICE static void clear(const Shared<u32>& counts) {
        for (u32 i = thread_index(); i < kSortWarps * kDigits; i += kSortThreads) counts.store(i, 0);
    }
};

// Part 1. A block of kSortThreads for each tile.
template <class Key, u32 kEach> WK_DEVICE void count_digits(const RadixPass& p) {
    WK_SHARED(u32, digits, kDigits);
    constexpr u32 kItems = kEach * kSortThreads;
    u32 me = thread_index(), tile = block_index();
    u64 base = (u64)tile * kItems, left = p.count - base;
    u32 first = warp_in_block() * kEach * kWarp + lane(), inside = left < kItems ? (u32)left : kItems;
    TileItems<Key, kEach> keys((const Key*)p.keys + base, first, inside);
    digits.store(me, 0);
    sync_block();
    for (u32 i = 0; i < kEach; i++) {
        if (first + i * kWarp < inside) digits.fetch_add(p.digit(keys.items[i]), 1u);
    }
    sync_block();
    store(p.counts + (u64)me * p.tiles + tile, digits.load(me));
}

// Part 2. A block for each digit.
WK_DEVICE void scan_digits(const RadixPass& p) { scan_alone(p.counts + block_index() * (u64)p.tiles, p.tiles, p.totals + block_index()); }

// Part 3. A block of kSortThreads for each tile; `p.counts` has been scanned.
template <class Key, class Value> WK_DEVICE void scatter_items(const RadixPass& p) {
    constexpr u32 kEach = kSortItems<Key, Value>;
    constexpr u32 kItems = kEach * kSortThreads;
    constexpr bool kHasValues = sizeof(Value) > 1;
    WK_SHARED(u32, counts, kSortWarps * kDigits);
    WK_SHARED(u32, sums, kSortWarps);
    WK_SHARED(u32, digit_sums, kSortWarps);
    WK_SHARED(u32, begins, kDigits);
    WK_SHARED(u32, targets, kDigits);
    // Keys, and when these are written payloads.
    using Staged = typename TileWord<Key, Value>::Type;
    WK_SHARED(Staged, staged, kItems);
    u32 me = thread_index(), tile = block_index();
    u64 base = (u64)tile * kItems, left = p.count - base;
    // Each warp has neighbouring items, 32 a round.
    u32 first = warp_in_block() * kEach * kWarp + lane(), inside = left < kItems ? (u32)left : kItems;
    TileItems<Key, kEach> keys((const Key*)p.keys + base, first, inside);
    TileItems<Value, kEach> values((const Value*)p.values, base, first, inside);
    u32 target = load(p.counts + (u64)me * p.tiles + tile), total = load(p.totals + me);
    TileRanks<kEach> ranks{counts, sums, begins, {}};
    ranks.clear(counts);
    // The items of smaller digits in all tiles. It also synchronises the block.
    target += BlockScan(total, digit_sums).before;
    ranks.within_warp(keys.items, first, inside, p.shift, p.mask);
    sync_block();
    targets.store(me, target - ranks.begin_digits());
    sync_block();
    for (u32 i = 0; i < kEach; i++) {
        if (first + i * kWarp >= inside) continue;
        ranks.rank[i] = ranks.position(i, p.digit(keys.items[i]));
        staged.store(ranks.rank[i], keys.items[i]);
    }
    sync_block();
    // Neighbouring threads write neighbouring items of one digit. The subtraction above may have wrapped; this addition wraps back.
    u32 to[kEach];
    for (u32 i = 0; i < kEach; i++) {
        u32 at = me + i * kSortThreads;
        if (at >= inside) continue;
        Key key = (Key)staged.load(at);
        to[i] = targets.load(p.digit(key)) + at;
        store((Key*)p.sorted_keys + to[i], key);
    }
    if constexpr (kHasValues) {
        sync_block();
        for (u32 i = 0; i < kEach; i++) {
            if (first + i * kWarp < inside) staged.store(ranks.rank[i], values.items[i]);
        }
        sync_block();
        for (u32 i = 0; i < kEach; i++) {
            u32 at = me + i * kSortThreads;
            if (at < inside) store((Value*)p.sorted_values + to[i], (Value)staged.load(at));
        }
    }
}

// All passes over items that fit into one tile, by one block of kSortThreads. They may be sorted where they are.
template <class Key, class Value> WK_DEVICE void sort_tile(const RadixPass& p) {
    constexpr u32 kEach = kSortItems<Key, Value>;
    constexpr u32 kItems = kEach * kSortThreads;
    constexpr bool kHasValues = sizeof(Value) > 1;
    WK_SHARED(u32, counts, kSortWarps * kDigits);
    WK_SHARED(u32, sums, kSortWarps);
    WK_SHARED(u32, begins, kDigits);
    using Staged = typename TileWord<Key, Value>::Type;
    WK_SHARED(Staged, staged, kItems);
    u32 first = warp_in_block() * kEach * kWarp + lane(), inside = p.count < kItems ? (u32)p.count : kItems;
    TileItems<Key, kEach> keys((const Key*)p.keys, first, inside);
    TileItems<Value, kEach> values((const Value*)p.values, 0, first, inside);
    for (u32 shift = p.shift; shift < p.end; shift += kDigitBits) {
        u32 bits = p.end - shift, mask = bits < kDigitBits ? (1u << bits) - 1 : kDigits - 1;
        TileRanks<kEach> ranks{counts, sums, begins, {}};
        ranks.clear(counts);
        sync_block();
        ranks.within_warp(keys.items, first, inside, shift, mask);
        sync_block();
        ranks.begin_digits();
        sync_block();
        for (u32 i = 0; i < kEach; i++) {
            if (first + i * kWarp >= inside) continue;
            ranks.rank[i] = ranks.position(i, RadixPass::digit_at(keys.items[i], shift, mask));
            staged.store(ranks.rank[i], keys.items[i]);
        }
        sync_block();
        for (u32 i = 0; i < kEach; i++) {
            if (first + i * kWarp < inside) keys.items[i] = (Key)staged.load(first + i * kWarp);
        }
        sync_block();
        if constexpr (kHasValues) {
            for (u32 i = 0; i < kEach; i++) {
                if (first + i * kWarp < inside) staged.store(ranks.rank[i], values.items[i]);
            }
            sync_block();
            for (u32 i = 0; i < kEach; i++) {
                if (first + i * kWarp < inside) values.items[i] = (Value)staged.load(first + i * kWarp);
            }
            sync_block();
        }
    }
    for (u32 i = 0; i < kEach; i++) {
        u32 at = first + i * kWarp;
        if (at >= inside) continue;
        store((Key*)p.sorted_keys + at, keys.items[i]);
        if constexpr (kHasValues) store((Value*)p.sorted_values + at, values.items[i]);
    }
}

}  // namespace wk
