// The block pool: free blocks for records of later batches. The host reserves runs of adjacent blocks, and
// gphash_expand_runs lists their offsets. Freed blocks are sorted by address, with the partition of
// warpkeep/partition.h, so that records written together lie together.
#pragma once
#include "read/index_get.h"

namespace gphash {

// Adjacent blocks.
struct BlockRun {
    u64 offset;
    // Blocks in the runs before it.
    u64 before;
};

struct ExpandParams {
    const BlockRun* runs;
    u64 run_count;
    u64 count;
    u64 block_len;
    // Blocks of a tile, and bytes of a value in it; 1 and 0 if blocks do not lie in tiles.
    u32 tile_blocks;
    u32 value_len;
    u64* blocks;
};

struct SortParams {
    const u64* blocks;
    u64 count;
    // The rank of each block in its bucket of the partition.
    u32* ranks;
    Partition partition;
    u64* sorted;
};

}  // namespace gphash

// Counts blocks by address range. One thread per block.
WK_KERNEL(gphash_sort_count, gphash::SortParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i >= p.count) return;
    if (i == 0) store(p.partition.total(), (u32)p.count);
    store(p.ranks + i, p.partition.rank(load(p.blocks + i)));
}

// Moves blocks to their positions in address order. One thread per block.
WK_KERNEL(gphash_sort, gphash::SortParams) {
    using namespace gphash;
    u64 i = global_index();
    if (i >= p.count) return;
    u64 block = load(p.blocks + i);
    store(p.sorted + p.partition.position(block, load(p.ranks + i)), block);
}

WK_KERNEL_OF(gphash_scan, wk::Partition, wk::kScanThreads) { wk::scan_buckets(p); }
