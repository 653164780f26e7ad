// The stores to image memory, in the order in which each byte got them.
#pragma once
#include <vector>

#include "warpkeep/simt.h"

namespace wk::sim {

constexpr u64 kNever = ~0ull;

// Laid out for the Rust side.
struct StoreRecord {
    u64 offset;
    u8 bytes[16];
    // The step at which the lane stored; at which it reached the image; at which a system fence had it behind it.
    u64 issued;
    u64 arrived;
    u64 fenced;
    // System fences that were over, in all lanes together, when the lane stored.
    u64 epoch;
    const char* file;
    u32 line;
    u32 region;
    u32 size;
    u32 block;
    u32 thread;
    u32 unused;
};

struct StoreLog {
    std::vector<StoreRecord> records;
};

}  // namespace wk::sim
