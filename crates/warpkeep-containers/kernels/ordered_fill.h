// Pairs with different keys, sorted, become the leaves of an empty map. The host's side is src/ordered_map/fill.rs.
#pragma once
#include "ordered_write.h"

namespace ordered_map {

template <class K, class V> struct Fill {
    // Without numbers if the keys came in order.
    SortedBatch<K, V> batch;
    // By number: the values, and the answers.
    const V* operands;
    u8* statuses;
    V* before;
    NewLeaves fresh;
    NewDirectory<K> to;
};

// kLeafWriters threads for each leaf. Leaves have the same number of pairs, or one more.
template <class K, class V> WK_DEVICE void fill(const Fill<K, V>& p) {
    u64 i = global_index() / kLeafWriters, leaves = p.to.leaf_count;
    u32 slot = global_index() % kLeafWriters * 2;
    if (block_index() == 0) p.to.end(thread_index(), (u32)p.batch.count);
    if (i >= leaves) return;
    u64 begin = p.batch.count * i / leaves, end = p.batch.count * (i + 1) / leaves;
    u32 count = (u32)(end - begin), handle = p.fresh.handle(i);
    TwoSlots<K, V> two;
    for (u32 j = 0; j < 2; j++) {
        u64 at = begin + slot + j;
        if (at >= end) break;
        two.keys[j] = load(p.batch.keys + at);
        if (p.operands) two.values[j] = load(p.operands + (p.batch.numbers ? load(p.batch.numbers + at) : at));
        // All are answered alike, so that the order of the answers does not matter.
        if (p.statuses) store(p.statuses + at, (u8)OrderedStatus::Inserted);
        if (p.before) store(p.before + at, (V)0);
    }
    write_slots(p.fresh.leaves + (u64)handle * OrderedMapRef<K, V>::kLeafBytes, slot, count, two, p.fresh.version);
    if (slot == 0) p.to.set(i, two.keys[0], handle, (u32)begin);
}

// Whether keys are in ascending order.
template <class K> struct KeyOrder {
    const K* keys;
    u64 count;
    // The position of the first key that is less than the one before it.
    u64* disorder;
    // Not 0 if a key is equal to the one before it.
    u64* repeats;
};

// Keys that a thread looks at.
constexpr u32 kOrderEach = 8;

template <class K> WK_DEVICE void check_order(const KeyOrder<K>& p) {
    u64 first = (u64)block_index() * (kOrderEach * kThreads) + thread_index() + 1;
    K before[kOrderEach], keys[kOrderEach];
    bool repeats = false;
    // All reads are in flight at once.
    for (u32 j = 0; j < kOrderEach; j++) {
        u64 i = first + j * kThreads;
        keys[j] = i < p.count ? load(p.keys + i) : K{};
        before[j] = i < p.count ? load(p.keys + i - 1) : K{};
    }
    for (u32 j = 0; j < kOrderEach; j++) {
        u64 i = first + j * kThreads;
        if (i >= p.count) break;
        if (keys[j] < before[j]) fetch_min(p.disorder, i);
        repeats |= keys[j] == before[j];
    }
    // One of those that say so is enough.
    bool tells = Warp().any(repeats) && lane() == 0;
    if (tells && !load<Scope::Device, wk::Order::Relaxed>(p.repeats)) store<Scope::Device, wk::Order::Relaxed>(p.repeats, 1ull);
}

}  // namespace ordered_map
