// Planning a two-phase write: operations whose key occurs several times in the batch are left to the CPU, which applies
// them in order. Each operation enters its hash in a table; an operation that finds its hash there marks both as
// fallbacks.
#pragma once
#include "find.h"
#include "warpkeep/duplicates.h"

namespace gphash {

struct PlanParams {
    Table table;
    u64 count;
    const u64* keys;
    // An open-addressing table of operations by key hash, all kNoThread before the launch; a power of two of slots, at
    // least twice the number of operations.
    u32* hash_slots;
    u64 hash_mask;
    // Not 0 for each operation that is left to the CPU; all 0 before the launch.
    u32* is_fallback;
};

WK_DEVICE u64 planned_hash(const PlanParams& p, u64 index) {
    return Key{p.keys + index * p.table.key_words(), p.table.key_len()}.hash(p.table.seed);
}

WK_DEVICE void leave_to_cpu(const PlanParams& p, u64 index) {
    store<Scope::Device, Order::Relaxed>(p.is_fallback + index, 1u);
}

}  // namespace gphash
