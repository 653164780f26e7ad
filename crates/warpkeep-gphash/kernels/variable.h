// Gets in tables whose values have any length, or whose keys have and lie in no cells: keys are found and values measured, the host lines the answers up, values are copied.
#pragma once
#include "find.h"
#include "get.h"

namespace gphash {

struct MeasureParams {
    Table table;
    u64 count;
    // Keys of whole words with zeros behind their bytes: the words of all of them, where each begins among these, and its bytes.
    const u64* keys;
    const u64* begins;
    const u32* lengths;
    // For each: status, version, where its value lies in the image, and how many bytes that has.
    u8* statuses;
    u64* versions;
    u64* values_at;
    u64* value_lengths;
};

struct CopyParams {
    Table table;
    u64 count;
    const u64* values_at;
    const u64* value_lengths;
    // Where each goes, in words.
    const u64* to;
    u64* values;
};

}  // namespace gphash

// A warp for every 32 keys; it serves them one by one, with all its lanes.
WK_KERNEL(gphash_measure, gphash::MeasureParams) {
    using namespace gphash;
    Warp warp;
    u64 mine = global_index(), first = mine - lane();
    if (first >= p.count) return;
    bool inside = mine < p.count;
    u64 begin = inside ? load(p.begins + mine) : 0;
    u32 length = inside ? load(p.lengths + mine) : 0;
    u64 own_hash = inside ? Key{p.keys + begin, length}.hash(p.table.seed) : 0;
    for (u32 i = 0; i < kWarp && first + i < p.count; i++) {
        Key key{p.keys + warp.shfl(begin, i), warp.shfl(length, i)};
        Found found = find(p.table, warp.shfl(own_hash, i), key);
        if (lane() != 0) continue;
        store(p.statuses + first + i, (u8)(found.there ? kOk : kNotFound));
        store(p.versions + first + i, found.version);
        store(p.values_at + first + i, found.value_at);
        store(p.value_lengths + first + i, found.word);
    }
}

// A warp a value.
WK_KERNEL(gphash_copy, gphash::CopyParams) {
    using namespace gphash;
    u64 which = global_index() / kWarp;
    if (which >= p.count) return;
    u64 from = load(p.values_at + which), to = load(p.to + which);
    u64 words = (load(p.value_lengths + which) + 7) / 8;
    // Blocks are whole words, so the last one is there.
    for (u64 i = lane(); i < words; i += kWarp) store(p.values + to + i, record_word(p.table, from + 8 * i));
}
