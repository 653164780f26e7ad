// Exclusive scan of an array in device memory, in three launches: the sum of each tile, the scan of these sums by one block, and the scan of each tile on
// top of its sum. No block waits for another one.
#pragma once
#include "warpkeep/scan.h"

namespace wk {

// Threads of a block that scans, and items of each.
constexpr u32 kScanTileThreads = 256;
constexpr u32 kScanEach = 16;
constexpr u32 kScanTile = kScanTileThreads * kScanEach;

struct DeviceScan {
    u32* items;
    u64 count;
    // One for each tile, and the sum of all items behind the last one.
    u32* sums;
    u64 tiles;
};

// Launch 1: a block for each tile.
WK_DEVICE void sum_tiles(const DeviceScan& p) {
    WK_SHARED(u32, sums, kScanTileThreads / kWarp);
    u64 first = block_index() * (u64)kScanTile;
    u32 own = 0;
    for (u32 i = 0; i < kScanEach; i++) {
        u64 at = first + i * kScanTileThreads + thread_index();
        if (at < p.count) own += load(p.items + at);
    }
    BlockScan scan(own, sums);
    if (thread_index() == 0) store(p.sums + block_index(), scan.all);
}

// Launch 2: one block.
WK_DEVICE void scan_sums(const DeviceScan& p) {
    WK_SHARED(u32, even, kScanTileThreads / kWarp);
    WK_SHARED(u32, odd, kScanTileThreads / kWarp);
    u32 carry = 0;
    bool is_odd = false;
    for (u64 first = 0; first < p.tiles; first += kScanTileThreads) {
        u64 at = first + thread_index();
        u32 own = at < p.tiles ? load(p.sums + at) : 0;
        // Shared memory of the round before may still be read by other warps.
        BlockScan scan(own, is_odd ? odd : even);
        if (at < p.tiles) store(p.sums + at, carry + scan.before);
        carry += scan.all;
        is_odd = !is_odd;
    }
    if (thread_index() == 0) store(p.sums + p.tiles, carry);
}

// Launch 3: a block for each tile. Each thread has neighbouring items.
WK_DEVICE void scan_tiles(const DeviceScan& p) {
    WK_SHARED(u32, sums, kScanTileThreads / kWarp);
    u64 first = block_index() * (u64)kScanTile + thread_index() * (u64)kScanEach;
    u32 items[kScanEach], own = 0;
    for (u32 i = 0; i < kScanEach; i++) {
        items[i] = first + i < p.count ? load(p.items + first + i) : 0;
        own += items[i];
    }
    BlockScan scan(own, sums);
    u32 before = load(p.sums + block_index()) + scan.before;
    for (u32 i = 0; i < kScanEach; i++) {
        if (first + i < p.count) store(p.items + first + i, before);
        before += items[i];
    }
}

}  // namespace wk
