// Ranges of a version alone, and their counts: without operations of a batch. The host's side is
// src/ordered_map/reads.rs.
#pragma once
#include "ordered_parts.h"
#include "ordered_read.h"

namespace ordered_map {

// A range that has room for all its pairs is counted while they are read, which takes one descent and not two.
template <class K, class V, class Levels> WK_DEVICE u32 range_alone(const Reads<K, V>& p, u64 i, bool writes, const Levels& levels) {
    K low = load(p.lows + i), high = load(p.highs + i);
    u64 first = 0, room = writes ? room_of(p, i, first) : 0;
    u32 count = 0;
    if (low <= high && p.map.leaf_count) {
        u32 number = levels.locate(low);
        auto leaf = p.map.leaf(number);
        u32 slot = leaf.search(low).below;
        bool is_counted = false;
        PartReader<K> keys;
        PartReader<V> values;
        PartWriter<K> to_keys{p.pair_keys + first};
        PartWriter<V> to_values{p.pair_values + first};
        while (room > 0) {
            if (slot >= leaf.count) {
                leaf = p.map.leaf(++number);
                slot = 0;
            }
            is_counted = leaf.count == 0;
            if (is_counted) break;
            K key = keys.read(leaf.keys() + slot);
            is_counted = key > high;
            if (is_counted || count == room) break;
            to_keys.write(key);
            if (p.pair_values) to_values.write(values.read(leaf.values() + slot));
            slot++;
            count++;
        }
        to_keys.end();
        to_values.end();
        // From the first pair that was not read on.
        if (!is_counted) count += p.map.rank_in(levels.locate(high), high, true) - load(p.map.before + number) - slot;
    }
    answer_range(p, i, count, writes && count > room);
    return count;
}

// Gives the number of pairs to add to those of all ranges.
template <class K, class V, class Levels> WK_DEVICE u64 read_alone(const Reads<K, V>& p, u64 i, const Levels& levels) {
    bool is_range = p.code == (u32)OrderedOp::Range;
    u32 count = range_alone(p, i, is_range && !p.total, levels);
    u64 length = is_range ? length_of(p, count) : 0;
    if (p.lengths) store(p.lengths + i, (u32)length);
    if (p.found_keys) store(p.found_keys + i, K{});
    if (p.found_values) store(p.found_values + i, (V)0);
    return length;
}

// Ranges alone, or counts: a thread for each.
template <class K, class V> WK_DEVICE void ranges(const Reads<K, V>& p) {
    u64 i = global_index();
    add_pairs(p.total, i < p.count ? read_alone(p, i, p.map) : 0);
}

// As ranges(), for many: see find_cached().
template <class K, class V> WK_DEVICE void ranges_cached(const Reads<K, V>& p) {
    WK_SHARED(U128, parts, kCachedParts);
    CachedLevels<K, V> levels(p.map, parts);
    u64 pairs = 0;
    for (u64 i = global_index(); i < p.count; i += global_size()) pairs += read_alone(p, i, levels);
    add_pairs(p.total, pairs);
}

}  // namespace ordered_map
