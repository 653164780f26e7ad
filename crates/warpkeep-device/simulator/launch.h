// One run of a kernel, and how it is to be run.
#pragma once
#include <atomic>
#include <mutex>

#include "fault.h"
#include "warpkeep/simt.h"

namespace wk::sim {

using Entry = void (*)(const void* params);

// Laid out for the Rust side.
struct Options {
    u64 seed;
    // Operations a lane may do before it counts as running away.
    u64 step_limit;
    // The step at which the power goes; kNever for not at all.
    u64 crash_at;
    u32 seeded;
    u32 workers;
    u32 checked;
    // Blocks that run at the same time, if they must: on each worker, or in all if seeded.
    u32 resident;
    // Out of 1024: that a lane is interrupted at a memory operation; that a store moves on (0: drawn for each launch).
    u32 switch_chance;
    u32 drain_chance;
    // 1 if stores are delayed, 2 if weak loads may be stale, 3 if both.
    u32 weak;
    // Whether each step is recorded.
    u32 trace;
};

struct Grid {
    u32 blocks;
    u32 threads;
    u32 shared_bytes;
};

struct Launch {
    Launch(Entry entry, Grid grid, const Options& options) : entry(entry), grid(grid), options(options) {}

    Entry entry;
    Grid grid;
    const Options& options;
    alignas(16) u8 params[kMaxParams];
    std::size_t params_size = 0;

    std::atomic<u32> next_block{0};
    // Set when no lane shall run on: a fault, or the power has gone.
    std::atomic<bool> stop{false};
    std::atomic<u64> switches{0};
    std::atomic<u64> lane_steps{0};
    bool crashed = false;

    std::mutex fault_lock;
    Fault fault;
};

}  // namespace wk::sim
