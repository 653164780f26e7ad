// Partition by address: a counting sort of items into buckets of neighbouring addresses.
//
// Three steps: each item counts itself in its bucket and learns its rank there (rank, or rank_of_warp); a kernel turns the counts into the
// positions at which buckets begin (scan_buckets); each item goes to its position. src/partition.rs is the host's side.
#pragma once
#include "warpkeep/scan.h"

namespace wk {

// Buckets that one block scans, and its threads.
constexpr u32 kScannedBuckets = 8192;
constexpr u32 kScanThreads = 1024;
// Nanoseconds between two looks at the sum of another block.
constexpr u32 kScanBackoff = 100;
// Words before the counts. The word in the middle is the number of items; the first two are free for counters of the caller.
constexpr u32 kPartitionHead = 8;

struct Partition {
    // How many items each bucket has; after scan_buckets, the position at which it begins. Before the counts lies the head, behind them a
    // word for each block that scans.
    u32* counts;
    // The last bucket. To be scanned, there are a multiple of kScannedBuckets of them, and at most kScanThreads times that.
    u32 last;
    // A bucket has the items of 2^shift addresses.
    u32 shift;

    WK_DEVICE u32 bucket(u64 address) const {
        u64 number = address >> shift;
        return number < last ? (u32)number : last;
    }
    WK_DEVICE u32* count_of(u64 address) const { return counts + bucket(address); }
    // The number of all items, which the counting kernel stores here before the scan.
    WK_DEVICE u32* total() const { return counts - kPartitionHead / 2; }
    // One more than the number of items in the buckets of a block that scans; 0 until it is known.
    WK_DEVICE u32* scanned(u32 block) const { return counts + last + 1 + block; }
    // Counts an item; its rank among those of the same bucket.
    WK_DEVICE u32 rank(u64 address) const { return fetch_add(count_of(address), 1u); }
    // The same for all lanes of a warp, with one atomic operation for each bucket that they have in common: where many items are in one bucket,
    // thousands of operations on one word would wait for each other.
    WK_DEVICE u32 rank_of_warp(u64 address, bool wants) const {
        Warp warp;
        // A lane that wants nothing matches only itself.
        u32 same = warp.match_any(wants ? bucket(address) : ~lane());
        u32 first = ffs(same) - 1, begin = 0;
        if (wants && first == lane()) begin = fetch_add(count_of(address), popc(same));
        return warp.shfl(begin, first) + popc(same & ((1u << lane()) - 1));
    }
    // The position of an item with that rank, after the scan.
    WK_DEVICE u64 position(u64 address, u64 rank) const { return load(count_of(address)) + rank; }
};

// The body of a kernel WK_KERNEL_OF(name, wk::Partition, wk::kScanThreads), with a block for each kScannedBuckets: stores where each bucket begins
// in place of how many items it has. Each block needs the sums of the blocks before it, and publishes its own as soon as it has counted. Blocks
// start in order, so no block waits for one that waits for a multiprocessor.
WK_DEVICE void scan_buckets(const Partition& p) {
    if (load(p.total()) == 0) return;
    WK_SHARED(u32, sums, kScanThreads / kWarp);
    WK_SHARED(u32, others, kScanThreads / kWarp);
    // Two counts in a word, four in an access.
    constexpr u32 kEach = kScannedBuckets / kScanThreads / 4;
    u32 me = thread_index(), block = block_index(), sum = 0;
    U128* mine = (U128*)(p.counts + block * kScannedBuckets) + me * kEach;
    U128 counts[kEach];
    for (u32 i = 0; i < kEach; i++) counts[i] = load(mine + i);
    for (u32 i = 0; i < kEach; i++) {
        sum += (u32)counts[i].lo + (u32)(counts[i].lo >> 32) + (u32)counts[i].hi + (u32)(counts[i].hi >> 32);
    }
    BlockScan own(sum, sums);
    if (me == 0) store<Scope::Device, Order::Relaxed>(p.scanned(block), own.all + 1);
    u32 its = 0;
    // One thread for each block before this one.
    while (me < block && (its = load<Scope::Device, Order::Relaxed>(p.scanned(me))) == 0) backoff(kScanBackoff);
    BlockScan before(me < block ? its - 1 : 0, others);
    u32 begin = before.all + own.before;
    for (u32 i = 0; i < kEach; i++) {
        u64 one = begin, two = begin += (u32)counts[i].lo;
        u64 three = begin += (u32)(counts[i].lo >> 32), four = begin += (u32)counts[i].hi;
        begin += (u32)(counts[i].hi >> 32);
        store(mine + i, U128{one | two << 32, three | four << 32});
    }
}

}  // namespace wk
