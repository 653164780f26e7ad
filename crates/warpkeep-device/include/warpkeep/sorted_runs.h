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

template <class Key> WK_DEVICE bool begins_run(const RunSearch& p, u64 at) {
    const Key* keys = (const Key*)p.keys;
    return at < p.count && (at == 0 || load(keys + at) != load(keys + at - 1));
}

// How many runs begin at the keys of this thread, and in the threads before it.
template <class Key> WK_DEVICE u32 runs_of_thread(const RunSearch& p, u64 first) {
    u32 own = 0;
    for (u32 i = 0; i < kRunEach; i++) own += begins_run<Key>(p, first + i);
    return own;
}

// A block for each tile.
template <class Key> WK_DEVICE void count_runs(const RunSearch& p) {
    WK_SHARED(u32, sums, kRunThreads / kWarp);
    u64 first = block_index() * (u64)kRunTile + thread_index() * (u64)kRunEach;
    BlockScan scan(runs_of_thread<Key>(p, first), sums);
    if (thread_index() == 0) store(p.counts + block_index(), scan.all);
}

// A block for each tile, when the counts are scanned.
template <class Key> WK_DEVICE void list_runs(const RunSearch& p) {
    WK_SHARED(u32, sums, kRunThreads / kWarp);
    u64 first = block_index() * (u64)kRunTile + thread_index() * (u64)kRunEach;
    BlockScan scan(runs_of_thread<Key>(p, first), sums);
    u32 number = load(p.counts + block_index()) + scan.before;
    for (u32 i = 0; i < kRunEach; i++) {
        if (begins_run<Key>(p, first + i)) store(p.begins + number++, (u32)(first + i));
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
