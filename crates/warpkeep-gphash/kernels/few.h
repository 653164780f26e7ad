// Reading a small batch through the mirror, in one launch: what the image has to be asked for is asked at once, not by a kernel that
// comes after. That takes registers, of which a small batch leaves enough.
#pragma once
#include "lookup.h"

namespace gphash {

// What the mirror has for a key of a small batch.
struct FewFound {
    u64 hash;
    // Its record, or its row, if it is there.
    u64 record;
    bool there;
    // Whether the image is to be asked.
    bool asks;
};

// For each lane of a warp, of keys that there are.
WK_DEVICE FewFound locate_few(const GetParams& get, u64 index) {
    const Table& t = get.table;
    bool wanted = index < get.count;
    Key key{get.keys + index * t.key_words(), t.key_len()};
    FewFound found{wanted ? key.hash(t.seed) : 0, 0, false, false};
    found.record = locate_own(t, found.hash, key, wanted);
    found.there = wanted && found.record > kVeiled;
    // Other keys can have the same hash.
    bool other = found.there && !tells_keys_apart(t) && !record_has_key(t, key_behind(t, found.record), key);
    found.asks = wanted && (found.record == kVeiled || other);
    found.there = found.there && !other;
    return found;
}

// Answers for the keys of a warp whose bits are set, from the image.
WK_DEVICE void ask_image(const GetParams& get, u64 first, u64 hash, u32 which) {
    Warp warp;
    const Table& t = get.table;
    for (; which; which &= which - 1) {
        u32 i = ffs(which) - 1;
        Key key{get.keys + (first + i) * t.key_words(), t.key_len()};
        answer_key(get, first + i, find(t, warp.shfl(hash, i), key));
    }
}

}  // namespace gphash

// A thread a key, in blocks of any size.
WK_KERNEL(gphash_few, gphash::LookupParams) {
    using namespace gphash;
    const GetParams& get = p.get;
    const Table& t = get.table;
    u64 index = global_index(), first = index - lane();
    if (first >= get.count) return;
    FewFound found = locate_few(get, index);
    u64 record = found.there ? found.record : 0;
    u64 version = found.there && get.versions ? version_behind(t, record) : 0;
    if (get.values) {
        tally_rows(t.mirror.values, record);
        copy_located(p, found.there ? value_behind(t, record) : 0, index);
    }
    if (index < get.count && !found.asks) {
        store(get.statuses + index, (u8)(found.there ? kOk : kNotFound));
        if (get.versions) store(get.versions + index, version);
    }
    ask_image(get, first, found.hash, Warp().ballot(found.asks));
}
