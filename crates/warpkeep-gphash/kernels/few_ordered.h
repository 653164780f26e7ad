// Reading a small batch through the mirror, in one launch, with the values in about the order of their addresses: each block locates some
// keys, puts what it has found in order, and copies in that order. Reads over the link wait for translations of addresses; those of one
// block share them, and blocks go through the image side by side.
#pragma once
#include "few.h"

namespace gphash {

// Keys of a block, at the most: a power of two.
constexpr u32 kFewOrdered = 1024;
// What has no value to copy, behind all others.
constexpr u64 kNoFetching = ~0ull;

// Keys of a block: as many as it takes for so many blocks to have all of them, a power of two.
WK_DEVICE u32 keys_of_block(u64 count) {
    u64 each = (count + grid_size() - 1) / grid_size();
    u32 keys = kWarp;
    while (keys < each && keys < kFewOrdered) keys *= 2;
    return keys;
}

// Orders so many, a power of two, by comparing places that are further and further apart. All threads of the block.
WK_DEVICE void sort_block(const Shared<u64>& list, u32 count) {
    sync_block();
    for (u32 size = 2; size <= count; size *= 2) {
        for (u32 apart = size / 2; apart; apart /= 2) {
            for (u32 pair = thread_index(); pair < count / 2; pair += block_size()) {
                u32 low = (pair & ~(apart - 1)) * 2 | (pair & (apart - 1));
                u64 one = list.load(low), other = list.load(low + apart);
                // Every second run falls, so that two of them make one to merge.
                bool rises = (low & size) == 0;
                if (one != other && (one > other) == rises) {
                    list.store(low, other);
                    list.store(low + apart, one);
                }
            }
            sync_block();
        }
    }
}

}  // namespace gphash

// Blocks of whole warps, as many as it takes for each to have kFewOrdered keys or fewer.
WK_KERNEL(gphash_few_ordered, gphash::LookupParams) {
    using namespace gphash;
    const GetParams& get = p.get;
    const Table& t = get.table;
    WK_SHARED(u64, records, kFewOrdered);
    WK_SHARED(u64, order, kFewOrdered);
    u32 keys = keys_of_block(get.count);
    u64 begin = (u64)block_index() * keys;
    for (u32 place = thread_index(); place < keys; place += block_size()) {
        u64 index = begin + place, first = index - lane();
        u64 record = 0;
        if (first < get.count) {
            FewFound found = locate_few(get, index);
            if (found.there) record = found.record;
            if (get.values) tally_rows(t.mirror.values, record);
            if (index < get.count && !found.asks) {
                store(get.statuses + index, (u8)(found.there ? kOk : kNotFound));
                // Those of values that are copied come with them.
                bool now = !found.there || !get.values;
                if (get.versions && now) store(get.versions + index, found.there ? version_behind(t, record) : 0);
            }
            ask_image(get, first, found.hash, Warp().ballot(found.asks));
        }
        records.store(place, record);
        // An address has fewer bits than are left. What is in a row is here, wherever its record lies.
        order.store(place, !record ? kNoFetching : (in_row(record) ? 0 : record * kFewOrdered) | place);
    }
    if (!get.values) return;
    sort_block(order, keys);
    for (u32 place = thread_index(); place < keys; place += block_size()) {
        u64 mine = order.load(place);
        bool some = mine != kNoFetching;
        if (!Warp().any(some)) return;
        u32 which = mine % kFewOrdered;
        u64 record = some ? records.load(which) : 0, index = begin + which;
        bool versioned = some && get.versions;
        u64 version = versioned ? version_behind(t, record) : 0;
        copy_located(p, some ? value_behind(t, record) : 0, index);
        if (versioned) store(get.versions + index, version);
    }
}
