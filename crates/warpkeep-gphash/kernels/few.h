// Reading a small batch through the mirror, in one launch: what the image has to be asked for is asked at once, not by a kernel that
// comes after. That takes registers, of which a small batch leaves enough.
#pragma once
#include "lookup.h"

namespace gphash {

// Answers for the keys of a warp whose bits are set, from the image.
WK_DEVICE void ask_image(const GetParams& get, u64 first, u64 hash, u32 which) {
    Warp warp;
    const Table& t = get.table;
    Tally tally{0, 0, 1};
    for (; which; which &= which - 1) {
        u32 i = ffs(which) - 1;
        Key key{get.keys + (first + i) * t.key_words(), t.key_len()};
        answer_key(get, first + i, find(t, warp.shfl(hash, i), key, tally));
    }
}

}  // namespace gphash

// A thread a key, in blocks of any size.
WK_KERNEL(gphash_few, gphash::LookupParams) {
    using namespace gphash;
    Warp warp;
    const GetParams& get = p.get;
    const Table& t = get.table;
    u64 index = global_index(), first = index - lane();
    if (first >= get.count) return;
    bool wanted = index < get.count;
    Key key{get.keys + index * t.key_words(), t.key_len()};
    u64 hash = wanted ? key.hash(t.seed) : 0;
    u64 record = locate_own(t, hash, key, wanted);
    bool there = wanted && record > kVeiled;
    bool asks = wanted && record == kVeiled;
    // Other keys can have the same hash.
    if (there && !tells_keys_apart(t) && !record_has_key(t, key_behind(t, record), key)) {
        there = false;
        asks = true;
    }
    u64 version = there && get.versions ? version_behind(t, record) : 0;
    if (get.values) {
        tally_rows(t.mirror.values, there ? record : 0);
        copy_located(p, there ? value_behind(t, record) : 0, index);
    }
    if (wanted && !asks) {
        store(get.statuses + index, (u8)(there ? kOk : kNotFound));
        if (get.versions) store(get.versions + index, version);
    }
    ask_image(get, first, hash, warp.ballot(asks));
}
