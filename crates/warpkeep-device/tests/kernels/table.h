// A warp-cooperative hash table: the kind of kernel the simulator is for. Buckets of 16 keys and 16 values, open addressing.
#pragma once
#include "warpkeep/simt.h"

namespace table {

using namespace wk;

constexpr u64 kEmpty = 0;
constexpr u32 kSlots = 16;

struct Params {
    u64* slots;
    const u64* keys;
    u64* values;
    u64 buckets;
    u64 count;
};

WK_DEVICE u64 mix(u64 x) {
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    return x * 0xc4ceb9fe1a85ec53ull;
}

// The warp serves its lanes' items one by one; `active` lanes have one.
WK_DEVICE void insert(const Params& p, u64 key, u64 value, bool active) {
    Warp warp;
    for (u32 work = warp.ballot(active); work != 0; work = warp.ballot(active)) {
        u32 source = ffs(work) - 1;
        u64 k = warp.shfl(key, source);
        u64 v = warp.shfl(value, source);
        u64 bucket = mix(k) % p.buckets;
        for (;;) {
            u64* base = p.slots + bucket * 2 * kSlots;
            u64 seen = warp.read<Scope::Device, Order::Relaxed>(base, kSlots, ~0ull);
            u32 same = warp.ballot(lane() < kSlots && seen == k);
            u32 free = warp.ballot(lane() < kSlots && seen == kEmpty);
            u32 slot = ffs(same ? same : free);
            if (slot == 0) {
                bucket = bucket + 1 == p.buckets ? 0 : bucket + 1;
                continue;
            }
            u64 old = k;
            if (!same && lane() == source) old = cas(base + slot - 1, kEmpty, k);
            old = warp.shfl(old, source);
            // Another thread may have taken it, perhaps for the same key.
            if (old != kEmpty && old != k) continue;
            if (lane() == source) {
                store<Scope::Device, Order::Release>(base + kSlots + slot - 1, v);
                active = false;
            }
            break;
        }
    }
}

WK_DEVICE u64 find(const Params& p, u64 key, bool active) {
    Warp warp;
    u64 found = 0;
    for (u32 work = warp.ballot(active); work != 0; work = warp.ballot(active)) {
        u32 source = ffs(work) - 1;
        u64 k = warp.shfl(key, source);
        u64 bucket = mix(k) % p.buckets;
        for (;;) {
            u64 seen = load<Scope::Device, Order::Relaxed>(p.slots + bucket * 2 * kSlots + lane());
            u32 same = warp.ballot(lane() < kSlots && seen == k);
            u32 free = warp.ballot(lane() < kSlots && seen == kEmpty);
            u64 value = warp.shfl(seen, same ? kSlots + ffs(same) - 1 : 0);
            if (same || free) {
                if (lane() == source) {
                    found = same ? value : 0;
                    active = false;
                }
                break;
            }
            bucket = bucket + 1 == p.buckets ? 0 : bucket + 1;
        }
    }
    return found;
}

}  // namespace table

// A thread an item.
WK_KERNEL(table_insert, table::Params) {
    wk::u64 i = wk::global_index();
    bool active = i < p.count;
    table::insert(p, active ? wk::load(p.keys + i) : 0, active ? wk::load(p.values + i) : 0, active);
}

// A thread an item; what is not there is 0.
WK_KERNEL(table_find, table::Params) {
    wk::u64 i = wk::global_index();
    bool active = i < p.count;
    wk::u64 found = table::find(p, active ? wk::load(p.keys + i) : 0, active);
    if (active) wk::store(p.values + i, found);
}
