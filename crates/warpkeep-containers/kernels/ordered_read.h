// Reads of an ordered map: of one of its versions alone, and in a mixed batch, where a read sees the version before the batch and the batch's operations
// before its own. The host's side is src/ordered_map.
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
    // Whether the key is there after an operation, and its value.
    u8* present;
    V* values;
    // For each run, what work() says of its key: kWasThere is set if the key was there before the batch.
    const u32* slots;
    u64 runs;
    u64 count;

    WK_DEVICE u64 begin(u64 run) const { return load(begins + run); }
    WK_DEVICE u64 end(u64 run) const { return run + 1 < runs ? load(begins + run + 1) : count; }
    WK_DEVICE K key(u64 run) const { return load(keys + begin(run)); }

    // The first run whose key is not less than `key`, or, with `or_equal`, is more.
    WK_DEVICE u64 bound(K key, bool or_equal) const {
        u64 low = 0, high = runs;
        while (low < high) {
            u64 middle = (low + high) / 2;
            K its = this->key(middle);
            if (its < key || (or_equal && its == key)) low = middle + 1;
            else high = middle;
        }
        return low;
    }

    // What the key of a run has before the operation `number` of the batch: changes what it had before the batch.
    WK_DEVICE void look(u64 run, u32 number, bool& there, V& value) const {
        u64 first = begin(run), low = first, high = end(run);
        while (low < high) {
            u64 middle = (low + high) / 2;
            if (load(numbers + middle) < number) low = middle + 1;
            else high = middle;
        }
        if (low == first) return;
        there = load(present + low - 1);
        value = load(values + low - 1);
    }

    // How many keys between two bounds the operations before `number` have added, modulo 2^32.
    WK_DEVICE u32 added(K low, K high, u32 number) const {
        u32 more = 0;
        for (u64 run = bound(low, false); run < runs && key(run) <= high; run++) {
            bool was_there = load(slots + run) & kWasThere, there = was_there;
            V value = 0;
            look(run, number, there, value);
            more += (u32)there - (u32)was_there;
        }
        return more;
    }
};

// The pairs of a version in order, overlaid with what the operations of a batch before `number` did. Without a batch, `runs` is 0.
template <class K, class V> struct Walk {
    using Cursor = typename OrderedMapRef<K, V>::Cursor;

    const SortedBatch<K, V>& batch;
    u32 number;
    Cursor at;
    // Upwards the next run; downwards the one after the next.
    u64 run;

    K key;
    V value;

    // The next pair upwards, if its key is not more than `high`.
    WK_DEVICE bool next(K high) {
        for (;;) {
            bool in_map = at.is_valid(), in_batch = run < batch.runs;
            K ours = in_map ? at.key() : K{}, theirs = in_batch ? batch.key(run) : K{};
            in_map = in_map && ours <= high;
            in_batch = in_batch && theirs <= high;
            if (!in_map && !in_batch) return false;
            bool from_map = in_map && (!in_batch || ours <= theirs), from_batch = in_batch && (!in_map || theirs <= ours);
            if (take(from_map, from_batch ? run++ : batch.runs, ours, theirs)) {
                if (from_map) at.next();
                return true;
            }
            if (from_map) at.next();
        }
    }

    // The next pair downwards, if its key is not less than `low`.
    WK_DEVICE bool previous(K low) {
        for (;;) {
            bool in_map = at.is_valid(), in_batch = run > 0;
            K ours = in_map ? at.key() : K{}, theirs = in_batch ? batch.key(run - 1) : K{};
            in_map = in_map && ours >= low;
            in_batch = in_batch && theirs >= low;
            if (!in_map && !in_batch) return false;
            bool from_map = in_map && (!in_batch || ours >= theirs), from_batch = in_batch && (!in_map || theirs >= ours);
            if (take(from_map, from_batch ? --run : batch.runs, ours, theirs)) {
                if (from_map) at.previous();
                return true;
            }
            if (from_map) at.previous();
        }
    }

private:
    // Whether the key is there before the operation. `its_run` is `batch.runs` if the batch has no operation on it.
    WK_DEVICE bool take(bool from_map, u64 its_run, K ours, K theirs) {
        bool there = from_map;
        key = from_map ? ours : theirs;
        value = from_map ? at.value() : 0;
        if (its_run < batch.runs) batch.look(its_run, number, there, value);
        return there;
    }
};

template <class K, class V> WK_DEVICE Walk<K, V> walk_up(const OrderedMapRef<K, V>& map, const SortedBatch<K, V>& batch, u32 number, K from, bool or_equal) {
    return Walk<K, V>{batch, number, map.nearest(from, false, or_equal), batch.runs ? batch.bound(from, !or_equal) : 0, K{}, 0};
}
template <class K, class V> WK_DEVICE Walk<K, V> walk_down(const OrderedMapRef<K, V>& map, const SortedBatch<K, V>& batch, u32 number, K from, bool or_equal) {
    return Walk<K, V>{batch, number, map.nearest(from, true, or_equal), batch.runs ? batch.bound(from, or_equal) : 0, K{}, 0};
}

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
            u32 at = first + (u32)node * kNodeParts, below = 0;
            for (u32 i = 0; i < kNodeParts; i++) below += keys_below<true>(is_cached ? parts.load(at + i) : load(from + i), key);
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
        auto leaf = p.map.leaf(levels.locate(key));
        u32 slot = leaf.lower_bound(key);
        bool there = leaf.has(slot, key);
        if (p.statuses) store(p.statuses + i, (u8)(there ? OrderedStatus::Found : OrderedStatus::Absent));
        if (p.values) store(p.values + i, there ? leaf.value(slot) : (V)0);
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

template <class K, class V> WK_DEVICE void near(const Near<K, V>& p) {
    u64 i = global_index();
    if (i >= p.count) return;
    K key = load(p.keys + i);
    auto at = p.map.nearest(key, p.is_down, p.or_equal);
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
    // Pairs of ranges: those of range i from offsets[i] on, or from i * stride on. None if there are no columns.
    K* pair_keys;
    V* pair_values;
    const u32* offsets;
    u64 stride;
    // Pairs that the columns have room for.
    u64 room;
    // To find offsets: the number of pairs of each range, 0 for other operations, and of all ranges together. Then no pairs are written.
    u32* lengths;
    u64* total;
    u32 code;
    u32 reserved;
};

template <class K, class V> WK_DEVICE void read_nearest(const Reads<K, V>& p, u64 i, OrderedOp op) {
    K key = load(p.lows + i);
    bool down = op == OrderedOp::Predecessor || op == OrderedOp::Floor, or_equal = op == OrderedOp::Ceiling || op == OrderedOp::Floor;
    Walk<K, V> walk = down ? walk_down(p.map, p.batch, (u32)i, key, or_equal) : walk_up(p.map, p.batch, (u32)i, key, or_equal);
    bool there = down ? walk.previous(K{}) : walk.next(largest_key<K>());
    store(p.statuses + i, (u8)(there ? OrderedStatus::Found : OrderedStatus::Absent));
    if (p.found_keys) store(p.found_keys + i, there ? walk.key : K{});
    if (p.found_values) store(p.found_values + i, there ? walk.value : (V)0);
}

// Where the pairs of range i go, and how many there is room for.
template <class K, class V> WK_DEVICE u64 room_of(const Reads<K, V>& p, u64 i, u64& first) {
    if (!p.pair_keys) return 0;
    first = p.offsets ? load(p.offsets + i) : i * p.stride;
    u64 left = first < p.room ? p.room - first : 0;
    return p.offsets || left < p.stride ? left : p.stride;
}

template <class K, class V> WK_DEVICE void write_pair(const Reads<K, V>& p, u64 at, K key, V value) {
    store(p.pair_keys + at, key);
    if (p.pair_values) store(p.pair_values + at, value);
}

// The directory has the number of keys, so only pairs that there is room for are read.
template <bool kAlone, class K, class V> WK_DEVICE u32 read_range(const Reads<K, V>& p, u64 i, bool writes) {
    K low = load(p.lows + i), high = load(p.highs + i);
    u64 first = 0, room = writes ? room_of(p, i, first) : 0;
    u32 count = p.map.count(low, high);
    if constexpr (!kAlone) {
        if (low <= high) count += p.batch.added(low, high, (u32)i);
    }
    u64 shown = count < room ? count : room;
    if constexpr (kAlone) {
        auto at = p.map.first_at_least(low);
        for (u64 read = 0; read < shown; read++, at.next()) write_pair(p, first + read, at.key(), at.value());
    } else if (shown) {
        Walk<K, V> walk = walk_up(p.map, p.batch, (u32)i, low, true);
        for (u64 read = 0; read < shown && walk.next(high); read++) write_pair(p, first + read, walk.key, walk.value);
    }
    if (p.counts) store(p.counts + i, count);
    OrderedStatus status = writes && count > room ? OrderedStatus::Truncated : count ? OrderedStatus::Found : OrderedStatus::Absent;
    if (p.statuses) store(p.statuses + i, (u8)status);
    return count;
}

// Adds to the number of all pairs. All lanes of a warp take part.
WK_DEVICE void add_pairs(u64* total, u64 count) {
    if (!total) return;
    Warp warp;
    for (u32 bits = 1; bits < kWarp; bits <<= 1) count += warp.shfl_xor(count, bits);
    if (lane() == 0 && count) fetch_add(total, count);
}

// Ranges alone, or counts: a thread for each.
template <class K, class V> WK_DEVICE void ranges(const Reads<K, V>& p) {
    u64 i = global_index();
    bool is_range = p.code == (u32)OrderedOp::Range;
    u32 count = i < p.count ? read_range<true>(p, i, is_range && !p.total) : 0;
    if (p.lengths && i < p.count) store(p.lengths + i, is_range ? count : 0u);
    if (p.found_keys && i < p.count) store(p.found_keys + i, K{});
    if (p.found_values && i < p.count) store(p.found_values + i, (V)0);
    add_pairs(p.total, is_range ? count : 0);
}

// A thread for each operation.
template <class K, class V> WK_DEVICE void read(const Reads<K, V>& p) {
    u64 i = global_index(), count = 0;
    if (i < p.count) {
        OrderedOp op = p.codes ? (OrderedOp)load(p.codes + i) : (OrderedOp)p.code;
        bool is_range = op == OrderedOp::Range || op == OrderedOp::Count;
        if (p.found_keys && (is_range || !looks_around(op))) store(p.found_keys + i, K{});
        if (p.found_values && is_range) store(p.found_values + i, (V)0);
        if (is_range) {
            u32 its = read_range<false>(p, i, op == OrderedOp::Range && !p.total);
            count = op == OrderedOp::Range ? its : 0;
        } else {
            if (p.counts) store(p.counts + i, 0u);
            if (looks_around(op)) read_nearest(p, i, op);
        }
        if (p.lengths) store(p.lengths + i, (u32)count);
    }
    add_pairs(p.total, count);
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
