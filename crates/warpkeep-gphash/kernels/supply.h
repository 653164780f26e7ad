// Blocks for records to come: runs of them spelt out, and blocks that are used again put in the order of their addresses.
#pragma once
#include "lookup.h"

namespace gphash {

// Blocks side by side.
struct BlockRun {
    u64 offset;
    // Blocks in the runs before it.
    u64 before;
};

struct SpellParams {
    const BlockRun* runs;
    u64 run_count;
    u64 count;
    u64 block_len;
    // In tiles of so many blocks, whose values have so many bytes; otherwise 1 and 0.
    u32 tile_blocks;
    u32 value_len;
    u64* blocks;
};

struct SortParams {
    const u64* blocks;
    u64 count;
    // The place of each among those of the same region.
    u32* ranks;
    Regions regions;
    u64* sorted;
};

}  // namespace gphash

// Counts blocks by region. A thread a block.
WK_KERNEL(gphash_sort_count, gphash::SortParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i >= p.count) return;
    if (i == 0) store(p.regions.all(), (u32)p.count);
    store(p.ranks + i, p.regions.take(load(p.blocks + i)));
}

// Puts them in order. A thread a block.
WK_KERNEL(gphash_sort, gphash::SortParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i >= p.count) return;
    u64 block = load(p.blocks + i);
    store(p.sorted + p.regions.place(block, load(p.ranks + i)), block);
}
