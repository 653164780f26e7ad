// A batch with many runs: sums of runs and of segments in three launches each, a block's part, the parts of all blocks,
// and what each thread has before it. Warps do not add to one word. The host's side is src/graph/apply.rs.
#pragma once
#include "graph_lists.h"
#include "warpkeep/scan.h"

namespace graph_large {

using namespace wk;
using namespace graph_batch;

// Threads of a block that sums up, and numbers of each.
constexpr u32 kSumThreads = 1024;
constexpr u32 kSumEach = 4;
// Lanes that work a short segment.
constexpr u32 kShortLanes = 8;

// Sums over the threads before this one, and over the block, in 64 bits. All threads construct it, with shared memory
// of one number a warp, which nothing else uses until the next sync_block.
struct WideScan {
    u64 before;
    u64 all;

    WK_DEVICE WideScan(u64 own, const Shared<u64>& sums) : before(0), all(0) {
        u64 reached = own;
        for (u32 reach = 1; reach < kWarp; reach *= 2) {
            u64 other = Warp().shfl(reached, lane() - reach);
            if (lane() >= reach) reached += other;
        }
        if (lane() == kWarp - 1) sums.store(warp_in_block(), reached);
        sync_block();
        for (u32 i = 0; i < warps_per_block(); i++) {
            u64 its = sums.load(i);
            all += its;
            if (i < warp_in_block()) before += its;
        }
        before += reached - own;
    }
};

// A block for each column: the sums of its first `count` blocks become what lies before each, and `total` is all of it.
WK_DEVICE void sum_column(u64* column, u64 count, u64* total) {
    WK_SHARED(u64, even, kSumThreads / kWarp);
    WK_SHARED(u64, odd, kSumThreads / kWarp);
    u64 carry = 0;
    bool is_odd = false;
    for (u64 begin = 0; begin < count; begin += block_size() * (u64)kSumEach) {
        u64 first = begin + thread_index() * (u64)kSumEach, own[kSumEach], all = 0;
        for (u32 i = 0; i < kSumEach; i++) own[i] = first + i < count ? load(column + first + i) : 0;
        for (u32 i = 0; i < kSumEach; i++) all += own[i];
        // Shared memory of the round before may still be read by other warps.
        WideScan scan(all, is_odd ? odd : even);
        u64 before = carry + scan.before;
        for (u32 i = 0; i < kSumEach; i++) {
            if (first + i < count) store(column + first + i, before);
            before += own[i];
        }
        carry += scan.all;
        is_odd = !is_odd;
    }
    if (thread_index() == 0) store(total, carry);
}

WK_DEVICE void sum_runs(const Update& p) { sum_column(p.sums + block_index() * p.stride, blocks_for(runs_of(p) + 1), p.control + kAdded + block_index()); }

// What lies before the block in a column.
WK_DEVICE u32 before_block(const Update& p, u32 column) { return (u32)load(p.sums + column * p.stride + block_index()); }

// A thread for each run, and one more: how many runs before it add an edge or remove one, and which segment it is of.
WK_DEVICE void place(const Update& p) {
    u64 r = global_index(), runs = runs_of(p);
    if (block_index() * (u64)kThreads > runs) return;
    u32 effect = r < runs ? load(p.effects + r) : kNothing;
    bool starts = r < runs && (r == 0 || load(p.sources + r) != load(p.sources + r - 1));
    BlockCounts<kRunSums> counts((u32)(effect == kAdd) | (u32)(effect == kRemove) << 1 | (u32)starts << 2);
    if (r > runs) return;
    store(p.added + r, before_block(p, 0) + counts.rank(0));
    store(p.removed + r, before_block(p, 1) + counts.rank(1));
    u32 segment = before_block(p, 2) + counts.rank(2);
    if (starts || r == runs) store(p.firsts + segment, (u32)r);
    if (r == runs) {
        store(p.control + kRuns, runs);
        return;
    }
    segment += starts;
    store(p.owners + r, segment - 1);
    if (p.touched && effect == kReplace) store<Scope::Device, Order::Relaxed>(p.touched + segment - 1, 1);
}

// A thread for each segment, and one more: what its list needs, and the sums of each block.
WK_DEVICE void measure(const Update& p) {
    WK_SHARED(u64, slots, kThreads / kWarp);
    WK_SHARED(u64, moved, kThreads / kWarp);
    WK_SHARED(u64, dead, kThreads / kWarp);
    WK_SHARED(u64, frozen_dead, kThreads / kWarp);
    u64 i = global_index(), segments = load(p.control + kSegments);
    if (block_index() * (u64)kThreads > segments) return;
    Needs its;
    if (i < segments) its = Needs(p, i);
    if (i <= segments) {
        store(p.needs + i, (u32)its.slots);
        store(p.moves + i, (u32)its.moved);
    }
    if (i < segments) store(p.classes + i, (u32)its.what_works_it);
    bool is_medium = its.what_works_it == kMedium;
    BlockCounts<2> counts((u32)is_medium | (u32)(its.what_works_it == kLong) << 1);
    BlockPositions<2, u64> positions(counts, p.control + kMediums);
    if (is_medium) store(p.listed + positions.begin[0] + counts.rank(0), (u32)i);
    u64 all[kSegmentSums] = {WideScan(its.slots, slots).all, WideScan(its.moved, moved).all, WideScan(its.dead, dead).all,
                             WideScan(its.frozen_dead, frozen_dead).all};
    if (thread_index() != 0) return;
    for (u32 column = 0; column < kSegmentSums; column++) store(p.sums + column * p.stride + block_index(), all[column]);
}

WK_DEVICE void sum_segments(const Update& p) {
    sum_column(p.sums + block_index() * p.stride, blocks_for(load(p.control + kSegments) + 1), p.control + kNeeded + block_index());
}

// A thread for each segment, and one more: where its new block begins, and which edges of long lists are its own.
WK_DEVICE void settle(const Update& p) {
    WK_SHARED(u32, slots, kThreads / kWarp);
    WK_SHARED(u32, moved, kThreads / kWarp);
    u64 i = global_index(), segments = load(p.control + kSegments);
    if (block_index() * (u64)kThreads > segments) return;
    // Places wrap around only if there are too few slots, and then nothing is placed.
    BlockScan needed(i <= segments ? load(p.needs + i) : 0, slots), moving(i <= segments ? load(p.moves + i) : 0, moved);
    if (i > segments) return;
    store(p.needs + i, before_block(p, 0) + needed.before);
    store(p.moves + i, before_block(p, 1) + moving.before);
}

// Some lanes for each segment, of which they work the short ones.
WK_DEVICE void finish_short(const Update& p) {
    u64 number = global_index() / kShortLanes;
    if (number < p.segments && load(p.classes + number) == kShort) finish_list<kShortLanes>(p, number);
}

// A warp for each segment that is listed.
WK_DEVICE void finish_medium(const Update& p) {
    u64 at = global_warp();
    if (at < p.mediums) finish_list<kWarp>(p, load(p.listed + at));
}

}  // namespace graph_large
