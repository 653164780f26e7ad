// Mega-KV's index as its paper lays it out: signatures of a bucket apart from their locations, and a processing unit of several lanes for each job. It is
// measured beside ours to see what the number of cells, of lanes and of partitions changes.
//
// A signature of 0 marks an empty cell: signatures of 0 become 1. An entry's signature and location are two words, so searches and insertions run in
// different launches.
#include "warpkeep/hash.h"
#include "words.h"

namespace bench {

constexpr u32 kNoEntry = ~0u;
constexpr u32 kUnitCells = 8;

struct UnitSearchParams {
    const u32* table;
    // The number of buckets, less one.
    u64 mask;
    const u64* hashes;
    // The location of each job's entry; all ones before.
    u32* found;
    u64 count;
};

struct UnitInsertParams {
    u32* table;
    // The number of buckets of a partition, less one. A block has one partition.
    u64 mask;
    // The jobs, those of a partition side by side, and where each partition's begin.
    const u64* hashes;
    const u32* locations;
    const u64* begins;
    // Sums of the jobs that found no cell.
    u64* failed;
};

WK_DEVICE u32 unit_signature(u64 hash) { return (u32)(hash >> 32) ? (u32)(hash >> 32) : 1; }
// Both buckets of an entry differ by these bits; the same for both.
WK_DEVICE u64 unit_distance(u32 signature, u64 mask) { return (signature * 0x9E3779B97F4A7C15ull >> 32 | 1) & mask; }

template <u32 Lanes> WK_DEVICE bool any_of_unit(bool yes) {
    if constexpr (Lanes == 1) return yes;
    else return Tile<Lanes>().any(yes);
}

template <u32 Cells, u32 Lanes> WK_DEVICE void unit_search(const UnitSearchParams& p) {
    u64 job = global_index() / Lanes;
    u32 rank = thread_index() % Lanes;
    bool has_job = job < p.count;
    u64 hash = has_job ? load(p.hashes + job) : 0;
    u32 signature = unit_signature(hash), location = kNoEntry;
    u64 bucket = hash & p.mask;
    for (u32 side = 0; side < 2; side++) {
        const u32* cells = p.table + bucket * (2 * Cells);
        for (u32 i = rank; i < Cells; i += Lanes) {
            if (has_job && load(cells + i) == signature) location = load(cells + Cells + i);
        }
        if (any_of_unit<Lanes>(location != kNoEntry)) break;
        bucket ^= unit_distance(signature, p.mask);
    }
    if (location != kNoEntry) store(p.found + job, location);
}

// The cell of a set, one bit each, that is the first to the left of the preferred one.
WK_DEVICE u32 unit_cell(u32 set, u32 preferred) {
    u32 turned = (set << kUnitCells | set) >> (preferred + 1) & 0xff;
    return (preferred + 32 - clz(turned)) % kUnitCells;
}

// One entry by eight lanes; false if both buckets are full.
WK_DEVICE bool unit_insert(u32* partition, u64 mask, u64 hash, u32 location) {
    Tile<kUnitCells> unit;
    u32 signature = unit_signature(hash);
    u32* sides[2];
    sides[0] = partition + (hash & mask) * (2 * kUnitCells);
    sides[1] = partition + ((hash & mask) ^ unit_distance(signature, mask)) * (2 * kUnitCells);
    for (;;) {
        u32 mine[2], same[2], empty[2];
        for (u32 side = 0; side < 2; side++) {
            mine[side] = load<Scope::Device, Order::Relaxed>(sides[side] + unit.rank());
            same[side] = unit.ballot(mine[side] == signature);
            empty[side] = unit.ballot(mine[side] == 0);
        }
        // The same signature in either bucket: its location is replaced.
        if (same[0] | same[1]) {
            u32 side = same[0] ? 0 : 1;
            if (unit.rank() == ffs(same[side]) - 1) store<Scope::Device, Order::Relaxed>(sides[side] + kUnitCells + unit.rank(), location);
            return true;
        }
        if (!(empty[0] | empty[1])) return false;
        u32 side = empty[0] ? 0 : 1, at = unit_cell(empty[side], signature >> 29), there = 0;
        if (unit.rank() == at) {
            there = cas<Scope::Device, Order::Relaxed>(sides[side] + at, 0u, signature);
            if (there == 0) store<Scope::Device, Order::Relaxed>(sides[side] + kUnitCells + at, location);
        }
        // Another unit may have taken the cell.
        if (unit.shfl(there, at) == 0) return true;
    }
}

}  // namespace bench

#define WK_UNIT_SEARCH(cells, lanes) \
    WK_KERNEL(bench_unit_search_##cells##_##lanes, bench::UnitSearchParams) { bench::unit_search<cells, lanes>(p); }
WK_UNIT_SEARCH(8, 1)
WK_UNIT_SEARCH(8, 4)
WK_UNIT_SEARCH(8, 8)
WK_UNIT_SEARCH(16, 1)
WK_UNIT_SEARCH(16, 4)
WK_UNIT_SEARCH(16, 8)
WK_UNIT_SEARCH(16, 16)
WK_UNIT_SEARCH(32, 1)
WK_UNIT_SEARCH(32, 4)
WK_UNIT_SEARCH(32, 8)
WK_UNIT_SEARCH(32, 16)
WK_UNIT_SEARCH(32, 32)
#undef WK_UNIT_SEARCH

// A block for each partition, eight lanes for each job.
WK_KERNEL(bench_unit_insert, bench::UnitInsertParams) {
    using namespace bench;
    u64 buckets = p.mask + 1, begin = load(p.begins + block_index()), end = load(p.begins + block_index() + 1);
    u32* partition = p.table + block_index() * buckets * (2 * kUnitCells);
    u64 failed = 0;
    for (u64 job = begin + thread_index() / kUnitCells; job < end; job += block_size() / kUnitCells) {
        bool placed = unit_insert(partition, p.mask, load(p.hashes + job), load(p.locations + job));
        if (!placed && thread_index() % kUnitCells == 0) failed++;
    }
    sync_warp();
    add_up(p.failed, failed);
}

WK_AGREE(bench_unit_sums, bench::kSums)
WK_AGREE(bench_unit_cells, bench::kUnitCells)
