// Reads of one version of an ordered map, and what a mixed batch has for its reads. The host's side is src/ordered_map.
#pragma once
#include "warpkeep/ordered_map.h"

namespace ordered_map {

using namespace wk;

// Threads of a block.
constexpr u32 kThreads = 128;

// A bit of SortedBatch::slots.
constexpr u32 kWasThere = 1u << 16;

// A sorted batch: its operations by key, those on one key in the batch's order, and what the key has after each.
template <class K, class V> struct SortedBatch {
    const K* keys;
    // The number of each operation in the batch.
    const u32* numbers;
    // Where the runs of operations on one key begin.
    const u32* begins;
    // Of each operation the number of its run, and whether the key is there after it, with which value. Null if no
    // operation concerns other keys.
    u32* owners;
    u8* present;
    V* values;
    // For each run, what work() says of its key: the number of its leaf, and the slot, with kWasThere if the key was
    // there before the batch.
    const u32* leaves;
    const u32* slots;
    // How many runs there are, or null if `runs` says it. Otherwise there are no more than that.
    const u32* runs_at;
    u64 runs;
    u64 count;

    // The same with the number of its runs.
    WK_DEVICE SortedBatch counted() const {
        SortedBatch its = *this;
        if (runs_at) its.runs = load(runs_at);
        return its;
    }

    WK_DEVICE u64 begin(u64 run) const { return load(begins + run); }
    WK_DEVICE u64 end(u64 run) const { return run + 1 < runs ? load(begins + run + 1) : count; }
    WK_DEVICE K key(u64 run) const { return load(keys + begin(run)); }
};

template <class K, class V> struct Find {
    OrderedMapRef<K, V> map;
    const K* keys;
    u8* statuses;
    V* values;
    u64 count;
};

template <class K, class V> WK_DEVICE void find(const Find<K, V>& p) {
    u64 i = global_index();
    if (i >= p.count) return;
    V value = 0;
    bool there = p.map.find(load(p.keys + i), value);
    if (p.statuses) store(p.statuses + i, (u8)(there ? OrderedStatus::Found : OrderedStatus::Absent));
    if (p.values) store(p.values + i, value);
}

WK_DEVICE U128 wide(const U128& key) { return key; }
WK_DEVICE U128 wide(u64 key) { return U128{key, 0}; }

// Whether two keys differ in the lowest `bits` bits alone.
WK_DEVICE bool in_group(const U128& a, const U128& b, u32 bits) {
    u64 low = a.lo ^ b.lo, high = a.hi ^ b.hi;
    if (bits >= 64) return bits >= 128 || high >> (bits - 64) == 0;
    return high == 0 && low >> bits == 0;
}

// Threads of a block that keeps the upper levels of separators in shared memory, and parts of 16 bytes that these have at most.
constexpr u32 kCachingThreads = 512;
constexpr u32 kCachedParts = 1024;

// The upper levels in shared memory, as far as they fit: the top one first.
template <class K, class V> struct CachedLevels {
    static constexpr u32 kNodeParts = kOrderedFanout * sizeof(K) / 16;

    const OrderedMapRef<K, V>& map;
    Shared<U128> parts;
    // Levels from this one on are in shared memory.
    u32 lowest;

    WK_DEVICE static u64 nodes_of(const OrderedMapRef<K, V>& map, u32 level) {
        return ((u64)map.leaf_count + (1ull << (4 * level + 4)) - 1) >> (4 * level + 4);
    }

    // All threads of a block construct it.
    WK_DEVICE CachedLevels(const OrderedMapRef<K, V>& of, const Shared<U128>& to) : map(of), parts(to), lowest(of.depth) {
        u64 used = 0;
        while (lowest > 0 && used + nodes_of(of, lowest - 1) * kNodeParts <= kCachedParts) {
            u64 its = nodes_of(of, --lowest) * kNodeParts;
            const U128* from = (const U128*)(of.separators + of.levels[lowest]);
            for (u64 i = thread_index(); i < its; i += block_size()) parts.store((u32)(used + i), load(from + i));
            used += its;
        }
        sync_block();
    }

    // As OrderedMapRef::locate.
    WK_DEVICE u32 locate(K key) const {
        u64 node = 0;
        u32 first = 0;
        for (u32 level = map.depth; level-- > 0;) {
            bool is_cached = level >= lowest;
            const U128* from = (const U128*)(map.separators + map.levels[level]) + node * kNodeParts;
            u32 at = first + (u32)node * kNodeParts;
            u32 below = search_sorted<true>(kNodeParts, key, [&](u32 i) { return is_cached ? parts.load(at + i) : load(from + i); }).below;
            u64 left = map.entries(level) - node * kOrderedFanout;
            if (is_cached) first += (u32)nodes_of(map, level) * kNodeParts;
            if (below > left) below = (u32)left;
            node = node * kOrderedFanout + (below ? below - 1 : 0);
        }
        return (u32)node;
    }
};

// As find(), for many keys: each block keeps the upper levels and looks up keys until there are no more.
template <class K, class V> WK_DEVICE void find_cached(const Find<K, V>& p) {
    WK_SHARED(U128, parts, kCachedParts);
    CachedLevels<K, V> levels(p.map, parts);
    for (u64 i = global_index(); i < p.count; i += global_size()) {
        K key = load(p.keys + i);
        V value = 0;
        bool there = p.map.find_in(levels.locate(key), key, value);
        if (p.statuses) store(p.statuses + i, (u8)(there ? OrderedStatus::Found : OrderedStatus::Absent));
        if (p.values) store(p.values + i, value);
    }
}

// The nearest key on one side.
template <class K, class V> struct Near {
    OrderedMapRef<K, V> map;
    const K* keys;
    u8* statuses;
    K* found_keys;
    V* found_values;
    u64 count;
    // How far away a key may be: the lower and the upper half.
    u64 tolerance[2];
    // Keys that differ in a bit from this one on belong to other groups; 128 if all are one group.
    u32 group_bits;
    u32 is_down;
    u32 or_equal;
    u32 reserved;
};

// `levels` locates keys: the map itself, or its upper levels in shared memory.
template <class K, class V, class Levels> WK_DEVICE void near_one(const Near<K, V>& p, u64 i, const Levels& levels) {
    K key = load(p.keys + i);
    auto at = p.map.nearest_in(levels.locate(key), key, p.is_down, p.or_equal);
    bool there = at.is_valid();
    K found = there ? at.key() : K{};
    if (there) {
        U128 larger = wide(p.is_down ? key : found), smaller = wide(p.is_down ? found : key);
        U128 distance{larger.lo - smaller.lo, larger.hi - smaller.hi - (larger.lo < smaller.lo)};
        there = distance <= U128{p.tolerance[0], p.tolerance[1]} && in_group(larger, smaller, p.group_bits);
    }
    store(p.statuses + i, (u8)(there ? OrderedStatus::Found : OrderedStatus::Absent));
    if (p.found_keys) store(p.found_keys + i, there ? found : K{});
    if (p.found_values) store(p.found_values + i, there ? at.value() : (V)0);
}

template <class K, class V> WK_DEVICE void near(const Near<K, V>& p) {
    u64 i = global_index();
    if (i < p.count) near_one(p, i, p.map);
}

// As near(), for many keys: see find_cached().
template <class K, class V> WK_DEVICE void near_cached(const Near<K, V>& p) {
    WK_SHARED(U128, parts, kCachedParts);
    CachedLevels<K, V> levels(p.map, parts);
    for (u64 i = global_index(); i < p.count; i += global_size()) near_one(p, i, levels);
}

// Reads of a batch that concern other keys than their own. Without `codes` all do what `code` says.
template <class K, class V> struct Reads {
    OrderedMapRef<K, V> map;
    SortedBatch<K, V> batch;
    const u8* codes;
    const K* lows;
    const K* highs;
    u64 count;
    u8* statuses;
    K* found_keys;
    V* found_values;
    u32* counts;
    // Pairs of ranges: those of range i from offsets[i] on, or from i * stride on, and at most `stride` of each. None if there are no columns.
    K* pair_keys;
    V* pair_values;
    const u32* offsets;
    u64 stride;
    // Pairs that the columns have room for.
    u64 room;
    // To find offsets: the number of pairs of each range, at most `stride`, 0 for other operations, and of all ranges together. Then no pairs are
    // written.
    u32* lengths;
    u64* total;
    u32 code;
    u32 reserved;
};

// Where the pairs of range i go, and how many there is room for.
template <class K, class V> WK_DEVICE u64 room_of(const Reads<K, V>& p, u64 i, u64& first) {
    if (!p.pair_keys) return 0;
    if (p.offsets) {
        first = load(p.offsets + i);
    } else {
        // The number of a range has 31 bits, the stride can be anything. No columns have room for 2^63 pairs.
        u64 upper = (p.stride >> 32) * i;
        if (upper >> 31) return 0;
        first = (upper << 32) + (u32)p.stride * i;
    }
    u64 left = first < p.room ? p.room - first : 0;
    return left < p.stride ? left : p.stride;
}

// The number of pairs of a range of `count` keys, to find offsets.
template <class K, class V> WK_DEVICE u64 length_of(const Reads<K, V>& p, u32 count) { return count < p.stride ? count : p.stride; }

template <class K, class V> WK_DEVICE void answer_range(const Reads<K, V>& p, u64 i, u32 count, bool is_truncated) {
    if (p.counts) store(p.counts + i, count);
    OrderedStatus status = is_truncated ? OrderedStatus::Truncated : count ? OrderedStatus::Found : OrderedStatus::Absent;
    if (p.statuses) store(p.statuses + i, (u8)status);
}

// Adds to the number of all pairs. All lanes of a warp take part.
WK_DEVICE void add_pairs(u64* total, u64 count) {
    if (!total) return;
    Warp warp;
    for (u32 bits = 1; bits < kWarp; bits <<= 1) count += warp.shfl_xor(count, bits);
    if (lane() == 0 && count) fetch_add(total, count);
}

// The number of keys below each key, or the pair with a number of keys below it.
template <class K, class V> struct Ranks {
    OrderedMapRef<K, V> map;
    const K* keys;
    u32* ranks;
    u8* statuses;
    K* found_keys;
    V* found_values;
    u64 count;
};

template <class K, class V> WK_DEVICE void rank(const Ranks<K, V>& p) {
    u64 i = global_index();
    if (i < p.count) store(p.ranks + i, p.map.rank(load(p.keys + i), false));
}

template <class K, class V> WK_DEVICE void select(const Ranks<K, V>& p) {
    u64 i = global_index();
    if (i >= p.count) return;
    auto at = p.map.nth(load(p.ranks + i));
    bool there = at.is_valid();
    store(p.statuses + i, (u8)(there ? OrderedStatus::Found : OrderedStatus::Absent));
    store(p.found_keys + i, there ? at.key() : K{});
    store(p.found_values + i, there ? at.value() : (V)0);
}

// All pairs of some leaves, in order.
template <class K, class V> struct Retrieve {
    OrderedMapRef<K, V> map;
    K* keys;
    V* values;
    // The number of the first leaf, and how many.
    u64 first;
    u64 leaves;
};

// Sixteen threads for each leaf.
template <class K, class V> WK_DEVICE void retrieve(const Retrieve<K, V>& p) {
    u64 i = global_index() / kOrderedFanout;
    u32 slot = global_index() % kOrderedFanout;
    if (i >= p.leaves) return;
    u32 number = (u32)(p.first + i);
    auto leaf = p.map.leaf(number);
    if (slot >= leaf.count) return;
    u64 at = load(p.map.before + number) - load(p.map.before + p.first) + slot;
    store(p.keys + at, leaf.key(slot));
    store(p.values + at, leaf.value(slot));
}

}  // namespace ordered_map
