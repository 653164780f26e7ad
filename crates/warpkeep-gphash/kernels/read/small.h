// Fused small get: locate, fetch and fallback in one launch. The fallback takes registers, and a small batch leaves
// enough of them.
#pragma once
#include "read/index_get.h"

namespace gphash {

// The result of looking up a key in the device index.
struct SmallLookup {
    u64 hash;
    // Its record or its row, if it exists.
    u64 target;
    bool exists;
    // Whether the key is to be looked up in the image.
    bool falls_back;
};

// Looks up the key of each lane of a warp; lanes behind the end of the batch have none.
WK_DEVICE SmallLookup locate_small(const GetParams& get, u64 index) {
    const Table& t = get.table;
    bool active = index < get.count;
    Key key{get.keys + index * t.key_words(), t.key_len()};
    SmallLookup lookup{active ? key.hash(t.seed) : 0, 0, false, false};
    lookup.target = find_target(t, lookup.hash, key, active);
    lookup.exists = active && lookup.target > kBusy;
    // Other keys can have the same hash.
    bool other = lookup.exists && !is_exact(t) && !record_has_key(t, target_key_at(t, lookup.target), key);
    lookup.falls_back = active && (lookup.target == kBusy || other);
    lookup.exists = lookup.exists && !other;
    return lookup;
}

// Gets the keys of the lanes in `lanes` from the image.
WK_DEVICE void get_from_image(const GetParams& get, u64 first, u64 hash, u32 lanes) {
    Warp warp;
    const Table& t = get.table;
    for (; lanes; lanes &= lanes - 1) {
        u32 i = ffs(lanes) - 1;
        Key key{get.keys + (first + i) * t.key_words(), t.key_len()};
        answer_key(get, first + i, find(t, warp.shfl(hash, i), key));
    }
}

}  // namespace gphash

// One thread per key, in blocks of any size.
WK_KERNEL(gphash_get_small, gphash::LookupParams) {
    using namespace gphash;
    const GetParams& get = p.get;
    const Table& t = get.table;
    u64 index = global_index(), first = index - lane();
    if (first >= get.count) return;
    SmallLookup lookup = locate_small(get, index);
    u64 target = lookup.exists ? lookup.target : 0;
    u64 version = lookup.exists && get.versions ? target_version(t, target) : 0;
    if (get.values) {
        count_hits(t.index.value_cache, target);
        copy_located(p, lookup.exists ? target_value_at(t, target) : 0, index);
    }
    if (index < get.count && !lookup.falls_back) {
        store(get.statuses + index, (u8)(lookup.exists ? kOk : kNotFound));
        if (get.versions) store(get.versions + index, version);
    }
    get_from_image(get, first, lookup.hash, Warp().ballot(lookup.falls_back));
}
