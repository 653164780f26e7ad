// Reads of a mixed batch that concern other keys than their own: they see the version before the batch, and what the
// batch's operations before their own did. The host's side is src/ordered_map/reads.rs.
#pragma once
#include "ordered_parts.h"
#include "ordered_read.h"

namespace ordered_map {

// What the key of a run has before the operation `number` of the batch: changes what it had before the batch.
template <class K, class V> WK_DEVICE void look(const SortedBatch<K, V>& batch, u64 run, u32 number, bool& there, V& value) {
    u64 first = batch.begin(run), low = first, high = batch.end(run);
    while (low < high) {
        u64 middle = (low + high) / 2;
        if (load(batch.numbers + middle) < number) low = middle + 1;
        else high = middle;
    }
    if (low == first) return;
    there = load(batch.present + low - 1);
    value = load(batch.values + low - 1);
}

// How many keys from that of a run up to `high` the operations before `number` have added, modulo 2^32.
template <class K, class V> WK_DEVICE u32 added(const SortedBatch<K, V>& batch, u64 run, K high, u32 number) {
    u32 more = 0;
    for (; run < batch.runs && batch.key(run) <= high; run++) {
        bool was_there = load(batch.slots + run) & kWasThere, there = was_there;
        V value = 0;
        look(batch, run, number, there, value);
        more += (u32)there - (u32)was_there;
    }
    return more;
}

// Where an operation stands: its key has a run of its own, and work() has found the key's place in the map, so nothing
// is searched for.
template <class K, class V> struct Stand {
    using Map = OrderedMapRef<K, V>;

    u64 run;
    u32 number;
    u32 leaf;
    SortedPlace place;

    WK_DEVICE Stand(const SortedBatch<K, V>& batch, u64 i) : run(load(batch.owners + i)), number(load(batch.numbers + i)), leaf(load(batch.leaves + run)) {
        u32 slot = load(batch.slots + run);
        place = {slot & 0xff, (slot & kWasThere) != 0};
    }

    WK_DEVICE typename Map::Cursor cursor(const Map& map, bool is_down, bool or_equal) const {
        return map.nearest_at(leaf, map.leaf(leaf), place, is_down, or_equal);
    }
    // How many keys of the map are less than that of the operation.
    WK_DEVICE u32 rank(const Map& map) const { return map.leaf_count ? load(map.before + leaf) + place.below : 0; }
};

// The pairs upwards from where an operation stands.
template <class K, class V> struct WalkUp {
    const SortedBatch<K, V>& batch;
    u32 number;
    typename OrderedMapRef<K, V>::Cursor at;
    // The next run.
    u64 run;
    // The next keys of the map and of the batch, if there are any.
    bool in_map, in_batch;
    K ours, theirs;

    K key;
    V value;

    WK_DEVICE WalkUp(const OrderedMapRef<K, V>& map, const SortedBatch<K, V>& of, const Stand<K, V>& from, bool or_equal)
        : batch(of), number(from.number), at(from.cursor(map, false, or_equal)), run(from.run + !or_equal), ours{}, theirs{}, key{}, value(0) {
        look_at_map();
        look_at_batch();
    }

    // The next pair, if its key is not more than `high`.
    WK_DEVICE bool next(K high) {
        for (;;) {
            bool from_map = in_map && ours <= high && (!in_batch || ours <= theirs);
            bool from_batch = in_batch && theirs <= high && (!in_map || theirs <= ours);
            if (!from_map && !from_batch) return false;
            bool there = from_map;
            key = from_map ? ours : theirs;
            value = from_map ? at.value() : 0;
            if (from_batch) {
                look(batch, run++, number, there, value);
                look_at_batch();
            }
            if (from_map) {
                at.next();
                look_at_map();
            }
            if (there) return true;
        }
    }

private:
    WK_DEVICE void look_at_map() {
        in_map = at.is_valid();
        if (in_map) ours = at.key();
    }
    WK_DEVICE void look_at_batch() {
        in_batch = run < batch.runs;
        if (in_batch) theirs = batch.key(run);
    }
};

// The first pair downwards from where an operation stands.
template <class K, class V>
WK_DEVICE bool find_below(const OrderedMapRef<K, V>& map, const SortedBatch<K, V>& batch, const Stand<K, V>& from, bool or_equal, K& key, V& value) {
    auto at = from.cursor(map, true, or_equal);
    // The run after the next.
    u64 run = from.run + or_equal;
    for (;;) {
        bool in_map = at.is_valid(), in_batch = run > 0;
        if (!in_map && !in_batch) return false;
        K ours = in_map ? at.key() : K{}, theirs = in_batch ? batch.key(run - 1) : K{};
        bool from_map = in_map && (!in_batch || ours >= theirs), from_batch = in_batch && (!in_map || theirs >= ours);
        bool there = from_map;
        key = from_map ? ours : theirs;
        value = from_map ? at.value() : 0;
        if (from_batch) look(batch, --run, from.number, there, value);
        if (there) return true;
        if (from_map) at.previous();
    }
}

template <class K, class V> WK_DEVICE void read_nearest(const Reads<K, V>& p, const SortedBatch<K, V>& batch, const Stand<K, V>& from, OrderedOp op) {
    bool or_equal = op == OrderedOp::Ceiling || op == OrderedOp::Floor, there;
    K key{};
    V value = 0;
    if (op == OrderedOp::Predecessor || op == OrderedOp::Floor) {
        there = find_below(p.map, batch, from, or_equal, key, value);
    } else {
        WalkUp<K, V> walk(p.map, batch, from, or_equal);
        there = walk.next(largest_key<K>());
        key = walk.key;
        value = walk.value;
    }
    store(p.statuses + from.number, (u8)(there ? OrderedStatus::Found : OrderedStatus::Absent));
    if (!there) return;
    if (p.found_keys) store(p.found_keys + from.number, key);
    if (p.found_values) store(p.found_values + from.number, value);
}

// A range that has room for all its pairs is counted while they are read. For others the directory has the number of
// keys.
template <class K, class V> WK_DEVICE u32 read_range(const Reads<K, V>& p, const SortedBatch<K, V>& batch, const Stand<K, V>& from, K low, bool writes) {
    K high = load(p.highs + from.number);
    u64 first = 0, room = writes ? room_of(p, from.number, first) : 0;
    u32 count = 0;
    if (low <= high) {
        bool is_counted = false;
        if (room > 0) {
            WalkUp<K, V> walk(p.map, batch, from, true);
            PartWriter<K> to_keys{p.pair_keys + first};
            PartWriter<V> to_values{p.pair_values + first};
            for (;;) {
                is_counted = !walk.next(high);
                if (is_counted || count == room) break;
                to_keys.write(walk.key);
                if (p.pair_values) to_values.write(walk.value);
                count++;
            }
            to_keys.end();
            to_values.end();
        }
        if (!is_counted) count = p.map.rank(high, true) - from.rank(p.map) + added(batch, from.run, high, from.number);
    }
    answer_range(p, from.number, count, writes && count > room);
    return count;
}

// A thread for each operation, in the order of their keys: neighbours read the same leaves and runs. The columns of
// keys, counts and lengths have zeros before, and so have values where an operation is not of its own key.
template <class K, class V> WK_DEVICE void read(const Reads<K, V>& p) {
    u64 i = global_index(), count = 0;
    SortedBatch<K, V> batch = p.batch.counted();
    if (i < p.count) {
        u32 number = load(batch.numbers + i);
        OrderedOp op = p.codes ? (OrderedOp)load(p.codes + number) : (OrderedOp)p.code;
        if (looks_around(op)) {
            Stand<K, V> from(batch, i);
            if (op != OrderedOp::Range && op != OrderedOp::Count) {
                read_nearest(p, batch, from, op);
            } else {
                u32 its = read_range(p, batch, from, load(batch.keys + i), op == OrderedOp::Range && !p.total);
                count = op == OrderedOp::Range ? length_of(p, its) : 0;
                if (p.lengths && count) store(p.lengths + number, (u32)count);
            }
        }
    }
    add_pairs(p.total, count);
}

}  // namespace ordered_map
