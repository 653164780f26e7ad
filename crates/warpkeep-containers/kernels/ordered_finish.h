// What kernels did to an ordered map through warpkeep/ordered_writer.h becomes a version: nodes that have pairs become leaves, in order, and a directory
// lists them beside the leaves that were not changed. The host's side is src/ordered_map/finish.rs.
#pragma once
#include "ordered_write.h"
#include "warpkeep/ordered_writer.h"

namespace ordered_map {

template <class K, class V> struct Finish {
    OrderedWriterRef<K, V> writer;
    NewDirectory<K> to;
    u64 version;
    // Nodes from the first to the last that was taken; not all between them were.
    u64 nodes;
    // Leaves of the version that will be there.
    u64 leaves;
    // For each node whether it becomes a leaf, and after a scan how many before it do; and the smallest key of those that do.
    u32* live;
    K* lows;
    // The same for leaves: the smallest keys and the numbers of their nodes, in any order, and the handles of other nodes; then sorted.
    K* leaf_lows;
    u32* leaf_nodes;
    u32* dead;
    const K* sorted;
    const u32* numbers;
    // For each leaf of the version before, whether it was changed; after a scan, how many before it were. And their handles.
    u32* changed;
    u32* retired;
    // Pairs of the leaves that nodes become, and of those that were changed.
    u64* pairs;

    WK_DEVICE bool is_leaf(u64 node) const { return load(live + node + 1) != load(live + node); }
    // Leaves that nodes become whose keys are less than `key`.
    WK_DEVICE u64 leaves_below(K key) const {
        u64 low = 0, high = leaves;
        while (low < high) {
            u64 middle = (low + high) / 2;
            if (load(sorted + middle) < key) low = middle + 1;
            else high = middle;
        }
        return low;
    }
};

// Adds up what the lanes of each warp have. All of them take part.
WK_DEVICE void add_up(u64* to, u64 sum) { add_pairs(to, sum); }

// Sixteen threads for a node at a time: sorts its pairs and makes a leaf of it.
template <class K, class V> WK_DEVICE void settle(const Finish<K, V>& p) {
    Tile<kOrderedFanout> tile;
    u32 place = tile.rank();
    u64 pairs = 0;
    for (u64 i = global_index() / kOrderedFanout; i < p.nodes; i += global_size() / kOrderedFanout) {
        bool is_taken = p.writer.is_taken(i);
        u32 handle = p.writer.handle(i);
        u8* at = p.writer.at(handle);
        NodeState state{is_taken ? load((const u64*)at) : 0};
        u32 present = is_taken && !state.is_replaced() && state.level() == 0 ? state.present() : 0, count = popc(present);
        if (place == 0) store(p.live + i, (u32)(count > 0));
        // The same for all lanes of the tile.
        if (count == 0) continue;
        bool has = present >> place & 1;
        K key = has ? load(p.writer.keys(handle) + place) : K{};
        V value = has ? load(p.writer.values(handle) + place) : (V)0;
        u32 rank = count + popc(~present & ((1u << place) - 1));
        if (has) {
            rank = 0;
            p.writer.each_key(handle, [&](u32 slot, K its) { rank += present >> slot & 1 && its < key; });
        }
        // All have read before one writes.
        tile.sync();
        write_slot(at, place < kLeafPairs ? rank : place, count, key, value, p.version);
        if (has && rank == 0) store(p.lows + i, key);
        pairs += has;
    }
    if (global_index() == 0) store(p.live + p.nodes, 0u);
    add_up(p.pairs, pairs);
}

// A thread for each node: lists those that become leaves, and those that are free.
template <class K, class V> WK_DEVICE void list_nodes(const Finish<K, V>& p) {
    u64 i = global_index();
    if (i >= p.nodes) return;
    u32 before = load(p.live + i);
    if (p.is_leaf(i)) {
        store(p.leaf_lows + before, load(p.lows + i));
        store(p.leaf_nodes + before, (u32)i);
    } else {
        store(p.dead + i - before, p.writer.handle(i));
    }
}

// Threads for all leaves of the version before: which were changed.
template <class K, class V> WK_DEVICE void find_changed(const Finish<K, V>& p) {
    const OrderedMapRef<K, V>& map = p.writer.map;
    u64 pairs = 0;
    for (u64 i = global_index(); i <= map.leaf_count; i += global_size()) {
        bool is_changed = i < map.leaf_count && load(p.writer.heads + i) >= kFirstNode;
        store(p.changed + i, (u32)is_changed);
        if (is_changed) pairs += load(map.before + i + 1) - load(map.before + i);
    }
    add_up(p.pairs + 1, pairs);
}

// A thread for each leaf of the version before: those that stay go to the new directory, which gets the number of pairs
// of each leaf: a scan makes of it the number of those before it.
template <class K, class V> WK_DEVICE void keep_unchanged(const Finish<K, V>& p) {
    u64 i = global_index();
    const OrderedMapRef<K, V>& map = p.writer.map;
    if (block_index() == 0) p.to.end(thread_index(), 0);
    if (i >= map.leaf_count) return;
    u32 before = load(p.changed + i), handle = load(map.handles + i);
    if (load(p.changed + i + 1) != before) {
        store(p.retired + before, handle);
        return;
    }
    K separator = load(map.separators + i);
    p.to.set(i - before + p.leaves_below(separator), separator, handle, load(map.before + i + 1) - load(map.before + i));
}

// A thread for each node that becomes a leaf.
template <class K, class V> WK_DEVICE void list_leaves(const Finish<K, V>& p) {
    u64 i = global_index();
    if (i >= p.leaves) return;
    K low = load(p.sorted + i);
    u32 handle = p.writer.handle(load(p.leaf_nodes + load(p.numbers + i))), number = p.writer.map.locate(low);
    u32 count = (u32)load((const u64*)p.writer.at(handle));
    p.to.set(i + number - load(p.changed + number), low, handle, count);
}

}  // namespace ordered_map
