// Sorted columns: where runs of equal keys begin, and two sorted columns merged into one.
#pragma once
#include "warpkeep/scan.h"

namespace wk {

// Threads of a block that looks for runs, and keys of each thread.
constexpr u32 kRunThreads = 256;
constexpr u32 kRunEach = 8;
constexpr u32 kRunTile = kRunThreads * kRunEach;

struct RunSearch {
    const void* keys;
    u64 count;
    // For each tile: how many runs begin in it; after an exclusive scan, how many begin before it.
    u32* counts;
    // The position of the first key of each run.
    u32* begins;
};

// The keys of a thread, 32 neighbouring ones for each round of its warp, and which of them begin runs.
template <class Key> struct RunTile {
    u32 begins[kRunEach];
    u64 first;

    WK_DEVICE explicit RunTile(const RunSearch& p)
        : first(block_index() * (u64)kRunTile + warp_in_block() * (kRunEach * kWarp)) {
        const Key* column = (const Key*)p.keys;
        Warp warp;
        Key keys[kRunEach], last{};
        // All reads are in flight at once.
        for (u32 i = 0; i < kRunEach; i++) {
            u64 at = first + i * kWarp + lane();
            keys[i] = at < p.count ? load(column + at) : Key{};
        }
        if (first > 0 && first < p.count) last = load(column + first - 1);
        for (u32 i = 0; i < kRunEach; i++) {
            u64 at = first + i * kWarp + lane();
            Key before = warp.shfl(keys[i], lane() - 1), carried = warp.shfl(keys[i], kWarp - 1);
            if (lane() == 0) before = last;
            last = carried;
            begins[i] = warp.ballot(at < p.count && (at == 0 || keys[i] != before));
        }
    }

    // How many runs begin in the tile of this warp, in one lane of it.
    WK_DEVICE u32 count() const {
        u32 all = 0;
        for (u32 i = 0; i < kRunEach; i++) all += popc(begins[i]);
        return lane() == 0 ? all : 0;
    }
};

// A block for each tile.
template <class Key> WK_DEVICE void count_runs(const RunSearch& p) {
    WK_SHARED(u32, sums, kRunThreads / kWarp);
    BlockScan scan(RunTile<Key>(p).count(), sums);
    if (thread_index() == 0) store(p.counts + block_index(), scan.all);
}

// A block for each tile, when the counts are scanned.
template <class Key> WK_DEVICE void list_runs(const RunSearch& p) {
    WK_SHARED(u32, sums, kRunThreads / kWarp);
    RunTile<Key> tile(p);
    u32 own = tile.count();
    BlockScan scan(own, sums);
    // Of the warps before: what the lane that counts has before it.
    u32 number = load(p.counts + block_index()) + Warp().shfl(scan.before, 0), below = (1u << lane()) - 1;
    for (u32 i = 0; i < kRunEach; i++) {
        u32 begins = tile.begins[i];
        if (begins >> lane() & 1) store(p.begins + number + popc(begins & below), (u32)(tile.first + i * kWarp + lane()));
        number += popc(begins);
    }
}

// Items that a thread merges: it finds where they begin by a binary search, and then compares once an item.
constexpr u32 kMergeEach = 16;

struct SortedMerge {
    const void* first_keys;
    const void* first_values;
    u64 first_count;
    const void* second_keys;
    const void* second_values;
    u64 second_count;
    void* keys;
    void* values;
};

// A thread for each kMergeEach items of the result. Of equal keys those of the first column come first, each column's in its order.
template <class Key, class Value> WK_DEVICE void merge_sorted(const SortedMerge& p) {
    constexpr bool kHasValues = sizeof(Value) > 1;
    u64 begin = global_index() * kMergeEach, total = p.first_count + p.second_count;
    if (begin >= total) return;
    const Key *one = (const Key*)p.first_keys, *two = (const Key*)p.second_keys;
    // How many of the `begin` items before are of the first column: the least number with one[low] > two[begin - 1 - low].
    u64 low = begin > p.second_count ? begin - p.second_count : 0, high = begin < p.first_count ? begin : p.first_count;
    while (low < high) {
        u64 middle = (low + high) / 2;
        if (load(one + middle) <= load(two + begin - 1 - middle)) low = middle + 1;
        else high = middle;
    }
    u64 a = low, b = begin - low, end = begin + kMergeEach < total ? begin + kMergeEach : total;
    for (u64 at = begin; at < end; at++) {
        bool from_first = a < p.first_count && (b == p.second_count || load(one + a) <= load(two + b));
        u64 from = from_first ? a++ : b++;
        store((Key*)p.keys + at, load((from_first ? one : two) + from));
        if constexpr (kHasValues) store((Value*)p.values + at, load((const Value*)(from_first ? p.first_values : p.second_values) + from));
    }
}

}  // namespace wk
