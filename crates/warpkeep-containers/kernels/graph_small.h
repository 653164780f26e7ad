// A batch with few runs in two kernels: a block sums the effects up and gives every segment its place, then a warp
// works each segment. The host's side is src/graph/apply.rs.
#pragma once
#include "graph_lists.h"
#include "warpkeep/scan.h"

namespace graph_small {

using namespace wk;
using namespace graph_batch;

// Threads of the one block, at most, and runs that it takes.
constexpr u32 kPlanThreads = 1024;
constexpr u32 kMostRuns = 4096;

// One block: what the sums of a larger batch do. Each thread has some runs side by side, then some segments.
WK_DEVICE void plan(const Update& p) {
    WK_SHARED(u32, adding, kPlanThreads / kWarp);
    WK_SHARED(u32, removing, kPlanThreads / kWarp);
    WK_SHARED(u32, starting, kPlanThreads / kWarp);
    u32 count = (u32)runs_of(p), each = count / block_size() + 1, first = thread_index() * each;
    u32 end = first + each < count + 1 ? first + each : count + 1;
    auto starts = [&](u32 r) { return r < count && (r == 0 || load(p.sources + r) != load(p.sources + r - 1)); };
    auto effect = [&](u32 r) { return r < count ? load(p.effects + r) : kNothing; };
    if (thread_index() == 0) {
        for (u32 word = kMediums; word <= kLongs; word++) store(p.control + word, 0ull);
        for (u32 word = kNeeded; word <= kFrozenDead; word++) store(p.control + word, 0ull);
    }
    u32 adds = 0, removes = 0, segments = 0;
    for (u32 r = first; r < end; r++) {
        adds += effect(r) == kAdd;
        removes += effect(r) == kRemove;
        segments += starts(r);
    }
    BlockScan added(adds, adding), removed(removes, removing), started(segments, starting);
    u32 segment = started.before;
    adds = added.before;
    removes = removed.before;
    for (u32 r = first; r < end; r++) {
        u32 its = effect(r);
        store(p.added + r, adds);
        store(p.removed + r, removes);
        adds += its == kAdd;
        removes += its == kRemove;
        if (r == count || starts(r)) store(p.firsts + segment++, r);
        if (r == count) continue;
        store(p.owners + r, segment - 1);
        if (p.touched && its == kReplace) store<Scope::Device, Order::Relaxed>(p.touched + segment - 1, 1);
    }
    if (!WK_FAULT_POINT("graph.plan")) sync_block();
    each = started.all / block_size() + 1;
    first = thread_index() * each;
    end = first + each < started.all ? first + each : started.all;
    Needs sum;
    u64 longs = 0;
    for (u32 i = first; i < end; i++) {
        Needs its(p, i);
        sum.add(its);
        longs += its.what_works_it == kLong;
        store(p.classes + i, (u32)its.what_works_it);
    }
    // Places wrap around only if there are too few slots, and then nothing is placed.
    BlockScan needed((u32)sum.slots, adding), moved((u32)sum.moved, removing);
    u32 slots = needed.before, moves = moved.before;
    for (u32 i = first; i < end; i++) {
        Needs its(p, i);
        store(p.needs + i, slots);
        store(p.moves + i, moves);
        slots += (u32)its.slots;
        moves += (u32)its.moved;
    }
    add_by_warp(p.control + kNeeded, sum.slots);
    add_by_warp(p.control + kMoved, sum.moved);
    add_by_warp(p.control + kDead, sum.dead);
    add_by_warp(p.control + kFrozenDead, sum.frozen_dead);
    add_by_warp(p.control + kLongs, longs);
    if (thread_index() != 0) return;
    store(p.needs + started.all, needed.all);
    store(p.moves + started.all, moved.all);
    store(p.control + kRuns, (u64)count);
    store(p.control + kAdded, (u64)added.all);
    store(p.control + kRemoved, (u64)removed.all);
    store(p.control + kSegments, (u64)started.all);
}

// A warp for each segment that is not long.
WK_DEVICE void finish(const Update& p) {
    u64 number = global_warp();
    if (number < p.segments && load(p.classes + number) != kLong) finish_list<kWarp>(p, number);
}

}  // namespace graph_small
