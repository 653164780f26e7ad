// Lanes, the warps they form and the blocks these form.
#pragma once
#include <memory>
#include <vector>

#include "context.h"
#include "region.h"
#include "warpkeep/simt.h"

namespace wk::sim {

class Worker;
struct Warp;
struct Block;

// One thread of the grid: a fiber. What every switch touches is in one line of the cache.
struct alignas(64) Lane : LaneFace {
    u32 index = 0;
    Context context;
    Warp* warp = nullptr;
    Worker* worker = nullptr;
    // Operations it has done, for the watchdog.
    u64 steps = 0;
    // Where it last asked for something other than a collective.
    Site at = {"", 0};
    void* fiber = nullptr;

    u32 bit() const { return 1u << index; }
};

// Lanes that are at one collective.
struct Gathering {
    // 0 if no lane has come.
    u32 mask = 0;
    u32 arrived = 0;
    u32 yes = 0;
    Kind kind = Kind::Sync;
    Site at = {"", 0};
};

// 32 lanes, and what they hand to each other.
struct Warp {
    Block* block = nullptr;
    u32 index = 0;
    // As bits: lanes that have not returned; that wait for others; of these, the ones at the block's barrier; that have
    // had their turn.
    u32 live = 0;
    u32 blocked = 0;
    u32 at_barrier = 0;
    u32 spent = 0;
    // Gatherings that some lane has come to.
    u32 open = 0;
    // Whether a lane that waits may hand over to the next one itself, with nothing to note.
    bool hands_over = false;
    u64 given[kWarp];
    u64 got[kWarp];
    u32 from[kWarp];
    Gathering gatherings[kWarp];
    Lane lanes[kWarp];
    // The stacks of all lanes, each above pages that must not be touched.
    char* stacks = nullptr;

    u32 runnable() const { return live & ~(blocked | spent); }
};

// Block-shared memory: the launch's dynamic bytes first, then what WK_SHARED declared as it was met.
struct SharedMemory {
    static constexpr u32 kLimit = 227 * 1024;
    struct Declared {
        const void* tag;
        u32 offset;
    };
    std::unique_ptr<u8[]> bytes;
    u32 dynamic = 0;
    u32 used = 0;
    std::vector<Declared> declared;
    Region region;
};

struct Block {
    u32 index = 0;
    u32 live = 0;
    u32 at_barrier = 0;
    Site barrier = {"", 0};
    u32 barrier_first = 0;
    std::vector<std::unique_ptr<Warp>> warps;
    SharedMemory shared;
};

}  // namespace wk::sim
