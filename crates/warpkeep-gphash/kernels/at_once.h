// A small batch that is written straight through, by one launch: keys are enrolled, operations decided, records and words written. To launch a kernel takes the host
// longer than any of these steps takes the device, so the blocks of one launch wait for each other instead.
#pragma once
#include "decide.h"

namespace gphash {

// Threads of a block, and blocks that a multiprocessor has registers for.
constexpr u32 kAtOnceThreads = 256;
constexpr u32 kAtOnceBlocks = 2;
// How long a block waits before it looks again who has come.
constexpr u32 kMeetingNanoseconds = 32;

// Counts of blocks that have come to a meeting, in `sent`, behind the count of those that have finished.
enum class Meeting : u32 { Enrolled = 1, Decided = 2 };

// What all blocks have done, before what any of them does next. All threads of a launch whose blocks run at the same time.
WK_DEVICE void meet(const StraightParams& p, Meeting meeting) {
    sync_block();
    if (thread_index() == 0) {
        u32* came = p.sent + (u32)meeting;
        fetch_add<Scope::Device, Order::AcqRel>(came, 1u);
        while (load<Scope::Device, Order::Acquire>(came) < grid_size()) backoff(kMeetingNanoseconds);
    }
    sync_block();
}

}  // namespace gphash

// A block for as many operations as a warp has lanes, or fewer blocks, which take several: as many as run at the same time. Its first warp decides; all of it writes.
WK_KERNEL_AT_ONCE(gphash_write_at_once, gphash::StraightParams, gphash::kAtOnceThreads, gphash::kAtOnceBlocks) {
    using namespace gphash;
    u64 stride = (u64)grid_size() * kWarp, first = (u64)block_index() * kWarp;
    bool decides = warp_in_block() == 0;
    for (u64 i = first; decides && i < p.count; i += stride) enrol_lanes(p, i + lane());
    meet(p, Meeting::Enrolled);
    for (u64 i = first; decides && i < p.count; i += stride) {
        u64 hash;
        Act act = no_act();
        bool acts = decide_lanes(p, (u32)(i + lane()), i + lane() < p.count, hash, act);
        u64 number = take_number(&p.came->acts, acts);
        if (acts) list_act(p, hash, act, number);
    }
    meet(p, Meeting::Decided);
    u64 acts = load(&p.came->acts);
    for (u64 group = block_index(); group == 0 || group * kWarp < acts; group += grid_size()) finish(p, group);
}
