// Gets from tables with values of variable length, or with keys of variable length that are not in cells.
// gphash_measure finds the keys and the lengths of their values, the host assigns positions in the output, and
// gphash_copy copies the values.
#pragma once
#include "find.h"
#include "read/get.h"

namespace gphash {

struct MeasureParams {
    Table table;
    u64 count;
    // Keys in whole words, padded with zeros: the words of all keys, where each key begins among them, and its length
    // in bytes.
    const u64* keys;
    const u64* begins;
    const u32* lengths;
    // Results per key: status, version, offset of the value in the image, and its length in bytes.
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
    // The position of each value in the output, in words.
    const u64* to;
    u64* values;
};

}  // namespace gphash

// One warp per 32 keys, which it serves one by one with all its lanes.
WK_KERNEL(gphash_measure, gphash::MeasureParams) {
    using namespace gphash;
    Warp warp;
    u64 own_index = global_index(), first = own_index - lane();
    if (first >= p.count) return;
    bool inside = own_index < p.count;
    u64 begin = inside ? load(p.begins + own_index) : 0;
    u32 length = inside ? load(p.lengths + own_index) : 0;
    u64 own_hash = inside ? Key{p.keys + begin, length}.hash(p.table.seed) : 0;
    for (u32 i = 0; i < kWarp && first + i < p.count; i++) {
        Key key{p.keys + warp.shfl(begin, i), warp.shfl(length, i)};
        Item item = find(p.table, warp.shfl(own_hash, i), key);
        if (lane() != 0) continue;
        store(p.statuses + first + i, (u8)(item.exists ? kOk : kNotFound));
        store(p.versions + first + i, item.version);
        store(p.values_at + first + i, item.value_at);
        store(p.value_lengths + first + i, item.word);
    }
}

// One warp per value.
WK_KERNEL(gphash_copy, gphash::CopyParams) {
    using namespace gphash;
    u64 index = global_index() / kWarp;
    if (index >= p.count) return;
    u64 from = load(p.values_at + index), to = load(p.to + index);
    u64 words = (load(p.value_lengths + index) + 7) / 8;
    // Blocks are whole words, so the last word is readable.
    for (u64 i = lane(); i < words; i += kWarp) store(p.values + to + i, record_word(p.table, from + 8 * i));
}
