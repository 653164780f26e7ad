// Memory that kernels may touch.
#pragma once
#include <map>
#include <vector>

#include "warpkeep/simt.h"

namespace wk::sim {

// The numbers are known to the Rust side; Shared is the simulator's own.
enum class Memory : u32 { Device = 0, Host = 1, Image = 2, Shared = 3 };

struct Region {
    u64 base = 0;
    u64 size = 0;
    Memory kind = Memory::Device;
    u32 id = 0;
    bool freed = false;
    // One byte a byte, 1 where something was written. Empty if all of it counts as written.
    std::vector<u8> known;

    bool holds(u64 address, u64 bytes) const {
        return address >= base && bytes <= size && address - base <= size - bytes;
    }
    bool is_known(u64 address, u32 byte) const {
        return known.empty() || __atomic_load_n(&known[address - base + byte], __ATOMIC_RELAXED) != 0;
    }
    // Workers may do this at the same time.
    void note_written(u64 address, u64 bytes) {
        if (known.empty()) return;
        for (u64 i = 0; i < bytes; i++) __atomic_store_n(&known[address - base + i], (u8)1, __ATOMIC_RELAXED);
    }
};

// All registered memory, and what was registered once.
class RegionTable {
  public:
    // The id of the new region, or 0 if it overlaps a live one or wraps around. `tracked` keeps what was written.
    u32 add(u64 base, u64 size, Memory kind, bool initialised, bool tracked);
    // Says whether a live region began there. It is remembered as freed if anybody will look.
    bool remove(u64 base, bool remember);
    // Counts the bytes as written by the host. Says whether they lie in live regions: memory that grew is several, side by side.
    bool note_written(u64 base, u64 size);
    // The region, live or freed, that the address falls into; null if none.
    Region* find(u64 address);

  private:
    std::map<u64, Region> regions_;
    u32 last_id_ = 0;
};

}  // namespace wk::sim
