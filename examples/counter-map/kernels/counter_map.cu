// Counters by key, in a hash table with open addressing.
#include "warpkeep/fault_point.h"
#include "warpkeep/hash.h"

namespace counter_map {

using namespace wk;

struct Params {
    // Slots of two words: a key, 0 if the slot is free, and its count.
    u64* slots;
    u64 capacity;
    // For each item its key, what is added to its count, and the answer.
    const u64* keys;
    const u64* amounts;
    u64* counts;
    u64 items;
};

// What is answered if there is no slot left.
constexpr u64 kFull = ~0ull;

// The count of a key. Where there is none, a slot is claimed for it, or null is returned. Slots never become free again, so a key is between its first
// slot and the next free one.
WK_DEVICE u64* count_of(const Params& p, u64 key, bool claims) {
    u64 at = reduce(mix64(0, key), p.capacity);
    for (u64 tried = 0; tried < p.capacity; tried++) {
        u64* slot = p.slots + 2 * at;
        u64 there = load<Scope::Device, Order::Relaxed>(slot);
        if (there == 0 && !claims) return nullptr;
        if (there == 0 && WK_FAULT_POINT("counter_map.atomic_claim")) {
            store<Scope::Device, Order::Relaxed>(slot, key);
            return slot + 1;
        }
        if (there == 0) there = cas<Scope::Device, Order::Relaxed>(slot, 0, key);
        if (there == 0 || there == key) return slot + 1;
        at = at + 1 == p.capacity ? 0 : at + 1;
    }
    return nullptr;
}

}  // namespace counter_map

// Adds to the counts of keys; answers with each count after that.
WK_KERNEL(counter_map_add, counter_map::Params) {
    using namespace counter_map;
    u64 i = global_index();
    if (i >= p.items) return;
    u64 amount = load(p.amounts + i);
    u64* count = count_of(p, load(p.keys + i), true);
    store(p.counts + i, count ? fetch_add(count, amount) + amount : kFull);
}

// Answers with the counts of keys; 0 for a key that has none.
WK_KERNEL(counter_map_get, counter_map::Params) {
    using namespace counter_map;
    u64 i = global_index();
    if (i >= p.items) return;
    u64* count = count_of(p, load(p.keys + i), false);
    store(p.counts + i, count ? load<Scope::Device, Order::Relaxed>(count) : 0);
}

WK_AGREE(counter_map_full, counter_map::kFull)
