// Planning a batch that writes: operations on a key that the batch has more than once are left to the CPU, which takes them in order.
#pragma once
#include "twins.h"

namespace gphash {

struct PlanParams {
    Table table;
    u64 count;
    const u64* keys;
    // A table of operations by the hashes of their keys, all kNobody at first; at least twice as many as operations, a power of two.
    u32* places;
    u64 place_mask;
    // Not 0 for each operation that is left; all 0 at first.
    u32* left;
};

WK_DEVICE u64 planned_hash(const PlanParams& p, u64 index) {
    return Key{p.keys + index * p.table.key_words(), p.table.key_len()}.hash(p.table.seed);
}

WK_DEVICE void leave(const PlanParams& p, u64 index) { store<Scope::Device, Order::Relaxed>(p.left + index, 1u); }

}  // namespace gphash
