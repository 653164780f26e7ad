// Exclusive scan of an array in device memory, in three launches: the sum of each tile, the scan of these sums by one block, and the scan of each tile on
// top of its sum. Few items are scanned by one block in one launch. No block waits for another one.
#pragma once
#include "warpkeep/scan.h"

namespace wk {

// Threads of a block that scans a tile, and items of each.
constexpr u32 kScanTileThreads = 256;
constexpr u32 kScanEach = 8;
constexpr u32 kScanTile = kScanTileThreads * kScanEach;
// Threads of a block that scans all items alone, at most, and items of each in a round.
constexpr u32 kScanAloneThreads = 1024;
constexpr u32 kScanAloneEach = 4;

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
    u32 items[kScanEach], own = 0;
    for (u32 i = 0; i < kScanEach; i++) {
        u64 at = first + i * kScanTileThreads + thread_index();
        items[i] = at < p.count ? load(p.items + at) : 0;
    }
    for (u32 i = 0; i < kScanEach; i++) own += items[i];
    BlockScan scan(own, sums);
    if (thread_index() == 0) store(p.sums + block_index(), scan.all);
}

// Scans `count` items by one block, and stores their sum.
WK_DEVICE void scan_alone(u32* items, u64 count, u32* sum) {
    WK_SHARED(u32, even, kScanAloneThreads / kWarp);
    WK_SHARED(u32, odd, kScanAloneThreads / kWarp);
    u32 carry = 0;
    bool is_odd = false;
    for (u64 begin = 0; begin < count; begin += block_size() * (u64)kScanAloneEach) {
        u64 first = begin + thread_index() * (u64)kScanAloneEach;
        u32 own[kScanAloneEach], total = 0;
        for (u32 i = 0; i < kScanAloneEach; i++) own[i] = first + i < count ? load(items + first + i) : 0;
        for (u32 i = 0; i < kScanAloneEach; i++) total += own[i];
        // Shared memory of the round before may still be read by other warps.
        BlockScan scan(total, is_odd ? odd : even);
        u32 before = carry + scan.before;
        for (u32 i = 0; i < kScanAloneEach; i++) {
            if (first + i < count) store(items + first + i, before);
            before += own[i];
        }
        carry += scan.all;
        is_odd = !is_odd;
    }
    if (thread_index() == 0) store(sum, carry);
}

// Launch 2: one block.
WK_DEVICE void scan_sums(const DeviceScan& p) { scan_alone(p.sums, p.tiles, p.sums + p.tiles); }

// The only launch for few items: one block.
WK_DEVICE void scan_items(const DeviceScan& p) { scan_alone(p.items, p.count, p.sums + p.tiles); }

// Launch 3: a block for each tile. Each thread has neighbouring items.
WK_DEVICE void scan_tiles(const DeviceScan& p) {
    WK_SHARED(u32, sums, kScanTileThreads / kWarp);
    u64 first = block_index() * (u64)kScanTile + thread_index() * (u64)kScanEach;
    u32 items[kScanEach], own = 0;
    for (u32 i = 0; i < kScanEach; i++) items[i] = first + i < p.count ? load(p.items + first + i) : 0;
    for (u32 i = 0; i < kScanEach; i++) own += items[i];
    u32 before = load(p.sums + block_index());
    BlockScan scan(own, sums);
    before += scan.before;
    for (u32 i = 0; i < kScanEach; i++) {
        if (first + i < p.count) store(p.items + first + i, before);
        before += items[i];
    }
}

}  // namespace wk
