// Batches that change an ordered map. A batch is sorted by key; a thread works all operations on one key; then every leaf that changes is written anew, under
// another handle, and so is the directory: the version before the batch stays as it is for those who read it. Each launch reads what the ones before it have
// written and no thread waits for another one. The host's side is src/ordered_map.
#pragma once
#include "ordered_read.h"

namespace ordered_map {

// Pairs of the leaves that one that overflows becomes, at most: room for more to come.
constexpr u32 kSplitPairs = 11;
// Neighbours become one leaf if they have no more pairs together.
constexpr u32 kMergePairs = 11;

// Steps of a plan. Keys of 4 and 8 bytes are copied and sorted as they are. Those of 16 bytes are sorted by their lower words, then by their upper words, which
// keeps the order of the lower ones; then where runs of equal keys begin is found.
enum PlanStep : u32 { kCopyKeys, kLowerWords, kUpperWords, kTakeKeys, kMarkRuns, kListRuns };

// The columns that a batch is sorted by.
template <class K> struct Plan {
    const K* keys;
    K* sorted;
    u32* numbers;
    // What keys of 16 bytes are sorted by.
    u64* words;
    // For each key, whether a run begins; after a scan, how many begin before it.
    u32* marks;
    u32* begins;
    u64 count;
    u32 step;
    u32 reserved;
};

template <class K> WK_DEVICE void plan_wide(const Plan<K>& p, u64 i) {
    if (p.step == kMarkRuns && i == p.count) store(p.marks + i, 0u);
    if (i >= p.count) return;
    if (p.step == kLowerWords) {
        store(p.words + i, load(p.keys + i).lo);
        store(p.numbers + i, (u32)i);
    } else if (p.step == kUpperWords) {
        store(p.words + i, load(p.keys + load(p.numbers + i)).hi);
    } else if (p.step == kTakeKeys) {
        store(p.sorted + i, load(p.keys + load(p.numbers + i)));
    } else {
        bool begins = i == 0 || load(p.sorted + i) != load(p.sorted + i - 1);
        if (p.step == kMarkRuns) store(p.marks + i, (u32)begins);
        else if (begins) store(p.begins + load(p.marks + i), (u32)i);
    }
}

template <class K> WK_DEVICE void plan(const Plan<K>& p) {
    u64 i = global_index();
    if constexpr (sizeof(K) == 16) {
        if (p.step != kCopyKeys) return plan_wide(p, i);
    }
    if (i >= p.count) return;
    store(p.sorted + i, load(p.keys + i));
    store(p.numbers + i, (u32)i);
}

// What becomes of a key: the numbers that work() leaves for it, above the slot that it has or would have in its leaf.
enum Change : u32 { kNone, kInsert, kReplace, kRemove };

template <class K, class V> struct Work {
    OrderedMapRef<K, V> map;
    SortedBatch<K, V> batch;
    // By number: what the operations do (`code` if there is no column), their operands and answers.
    const u8* codes;
    const V* operands;
    u8* statuses;
    V* before;
    // For each run: the number of its leaf, the slot and the change, the value after the batch, and whether there is a change.
    u32* leaves;
    u32* slots;
    V* finals;
    u32* changed;
    u32 code;
    u32 reserved;
};

// A thread for each run, and one for the end of `changed`.
template <class K, class V> WK_DEVICE void work(const Work<K, V>& p) {
    u64 run = global_index();
    if (run == p.batch.runs) store(p.changed + run, 0u);
    if (run >= p.batch.runs) return;
    u64 begin = p.batch.begin(run), end = p.batch.end(run);
    K key = load(p.batch.keys + begin);
    u32 number = p.map.locate(key);
    auto leaf = p.map.leaf(number);
    u32 slot = leaf.lower_bound(key);
    bool was_there = leaf.has(slot, key), there = was_there;
    V old = there ? leaf.value(slot) : 0, value = old;
    for (u64 i = begin; i < end; i++) {
        u32 at = load(p.batch.numbers + i);
        OrderedOp op = (OrderedOp)(p.codes ? load(p.codes + at) : (u8)p.code);
        if (!looks_around(op)) {
            OrderedStatus status = there ? OrderedStatus::Found : OrderedStatus::Absent;
            V before = there && op != OrderedOp::Contains ? value : 0;
            if (op == OrderedOp::Erase) {
                if (there) status = OrderedStatus::Erased;
                there = false;
            } else if (inserts(op)) {
                V operand = p.operands ? load(p.operands + at) : 0;
                if (!there) status = OrderedStatus::Inserted;
                else if (op != OrderedOp::Insert) status = OrderedStatus::Updated;
                value = there ? updated(op, value, operand) : operand;
                there = true;
            }
            if (p.statuses) store(p.statuses + at, (u8)status);
            if (p.before) store(p.before + at, before);
        }
        if (p.batch.present) {
            store(p.batch.present + i, (u8)there);
            store(p.batch.values + i, value);
        }
    }
    Change change = kNone;
    if (there != was_there) change = there ? kInsert : kRemove;
    else if (there && value != old) change = kReplace;
    store(p.leaves + run, number);
    store(p.slots + run, slot | change << 8 | (was_there ? kWasThere : 0));
    store(p.finals + run, value);
    store(p.changed + run, (u32)(change != kNone));
}

// The changes alone, in the order of their keys.
template <class K, class V> struct Changes {
    K* keys;
    V* values;
    u32* leaves;
    u32* slots;
    // How many keys the changes before add, modulo 2^32; behind the last, how many all add.
    u32* deltas;
    u64 count;

    WK_DEVICE u32 slot(u64 i) const { return load(slots + i) & 0xff; }
    WK_DEVICE Change change(u64 i) const { return (Change)(load(slots + i) >> 8 & 0xff); }
};

template <class K, class V> struct Gather {
    SortedBatch<K, V> batch;
    const u32* leaves;
    const u32* slots;
    const V* finals;
    // For each run, the number of changes before it.
    const u32* places;
    Changes<K, V> changes;
};

// A thread for each run, and one for the end of the deltas.
template <class K, class V> WK_DEVICE void gather(const Gather<K, V>& p) {
    u64 run = global_index();
    if (run == p.batch.runs) store(p.changes.deltas + p.changes.count, 0u);
    if (run >= p.batch.runs) return;
    u32 slot = load(p.slots + run);
    Change change = (Change)(slot >> 8 & 0xff);
    if (change == kNone) return;
    u32 at = load(p.places + run);
    store(p.changes.keys + at, p.batch.key(run));
    store(p.changes.values + at, load(p.finals + run));
    store(p.changes.leaves + at, load(p.leaves + run));
    store(p.changes.slots + at, slot);
    store(p.changes.deltas + at, change == kInsert ? 1u : change == kRemove ? ~0u : 0u);
}

// The changes of one leaf are a group.
template <class K, class V> struct Groups {
    OrderedMapRef<K, V> map;
    Changes<K, V> changes;
    // The first change of each, and the number of its leaf.
    const u32* begins;
    u32* leaves;
    u64 count;
    // How many leaves each becomes; after a scan, how many those before it become.
    u32* outs;
    // The handles of the leaves that are no longer used.
    u32* retired;

    WK_DEVICE u64 begin(u64 group) const { return load(begins + group); }
    WK_DEVICE u64 end(u64 group) const { return group + 1 < count ? load(begins + group + 1) : changes.count; }
    WK_DEVICE u32 leaf(u64 group) const { return load(leaves + group); }
    // Pairs after the batch, of a group whose leaf has this number.
    WK_DEVICE u32 pairs(u64 group, u32 leaf) const {
        return map.leaf(leaf).count + load(changes.deltas + end(group)) - load(changes.deltas + begin(group));
    }

    // How many groups have a leaf with a smaller number.
    WK_DEVICE u64 before(u32 number) const {
        u64 low = 0, high = count;
        while (low < high) {
            u64 middle = (low + high) / 2;
            if (leaf(middle) < number) low = middle + 1;
            else high = middle;
        }
        return low;
    }

    // The group that a new leaf comes from: the last with no more new leaves before it.
    WK_DEVICE u64 of_new(u64 out) const {
        u64 low = 0, high = count;
        while (low < high) {
            u64 middle = (low + high) / 2;
            if (load(outs + middle) <= out) low = middle + 1;
            else high = middle;
        }
        return low - 1;
    }
};

// A thread for each group, and one for the end of `outs`.
template <class K, class V> WK_DEVICE void size(const Groups<K, V>& p) {
    u64 group = global_index();
    if (group == p.count) store(p.outs + group, 0u);
    if (group >= p.count) return;
    u32 leaf = load(p.changes.leaves + p.begin(group)), pairs = p.pairs(group, leaf);
    store(p.leaves + group, leaf);
    store(p.outs + group, pairs > kLeafPairs ? (pairs - 1) / kSplitPairs + 1 : pairs > 0 ? 1 : 0);
    if (p.map.leaf_count) store(p.retired + group, load(p.map.handles + leaf));
}

// Handles for new leaves: those that were given back last, then those that were never used.
struct NewLeaves {
    u8* leaves;
    const u32* free;
    u64 free_count;
    u64 fresh;
    u64 version;

    WK_DEVICE u32 handle(u64 i) const { return i < free_count ? load(free + free_count - 1 - i) : (u32)(fresh + i - free_count); }
};

// A directory that is being written.
template <class K> struct NewDirectory {
    K* separators;
    u32* handles;
    u32* before;
    u64 levels[kOrderedLevels];
    u64 leaf_count;
    u32 depth;
    u32 reserved;

    // The first leaf has all keys below those of the second.
    WK_DEVICE void set(u64 at, K separator, u32 handle, u32 pairs) const {
        store(separators + at, at == 0 ? K{} : separator);
        store(handles + at, handle);
        store(before + at, pairs);
    }
};

template <class K, class V> struct Rewrite {
    Groups<K, V> groups;
    NewLeaves fresh;
    NewDirectory<K> to;
    // New leaves.
    u64 count;
};

// One pair of a group, by its rank among those after the batch.
template <class K, class V> struct Ranked {
    K key;
    V value;

    WK_DEVICE Ranked(const Groups<K, V>& groups, u64 group, u32 rank) {
        const Changes<K, V>& changes = groups.changes;
        u64 begin = groups.begin(group), low = begin, high = groups.end(group);
        u32 base = load(changes.deltas + begin);
        // The changes whose key has at most `rank` pairs before it: ranks do not decrease from one change to the next.
        while (low < high) {
            u64 middle = (low + high) / 2;
            if (changes.slot(middle) + load(changes.deltas + middle) - base <= rank) low = middle + 1;
            else high = middle;
        }
        if (low > begin) {
            u64 last = low - 1;
            bool is_it = changes.slot(last) + load(changes.deltas + last) - base == rank;
            if (is_it && changes.change(last) != kRemove) {
                key = load(changes.keys + last);
                value = load(changes.values + last);
                return;
            }
        }
        // A pair that was there: the changes before it have moved it.
        auto leaf = groups.map.leaf(groups.leaf(group));
        u32 slot = rank - (load(changes.deltas + low) - base);
        key = leaf.key(slot);
        value = leaf.value(slot);
    }
};

// Writes one slot of a leaf; the header belongs to the slot after the last.
template <class K, class V> WK_DEVICE void write_slot(u8* leaf, u32 slot, u32 pairs, K key, V value, u64 version) {
    using Ref = OrderedMapRef<K, V>;
    if (slot < kLeafPairs) {
        store((K*)(leaf + kLeafHeader) + slot, slot < pairs ? key : largest_key<K>());
        store((V*)(leaf + Ref::kValuesAt) + slot, slot < pairs ? value : (V)0);
    } else if (slot == kLeafPairs) {
        store((U128*)leaf, U128{pairs, version});
    }
}

// Sixteen threads for each new leaf.
template <class K, class V> WK_DEVICE void rewrite(const Rewrite<K, V>& p) {
    u64 i = global_index() / kOrderedFanout;
    u32 slot = global_index() % kOrderedFanout;
    if (i >= p.count) return;
    const Groups<K, V>& groups = p.groups;
    u64 group = groups.of_new(i), first = load(groups.outs + group);
    u32 number = groups.leaf(group), pairs = groups.pairs(group, number);
    // Its leaves have the same number of pairs, or one more.
    u64 part = i - first, parts = load(groups.outs + group + 1) - first;
    u32 begin = (u32)(pairs * part / parts), end = (u32)(pairs * (part + 1) / parts), count = end - begin;
    u32 handle = p.fresh.handle(i);
    K key{};
    V value = 0;
    if (slot < count) {
        Ranked<K, V> pair(groups, group, begin + slot);
        key = pair.key;
        value = pair.value;
    }
    write_slot(p.fresh.leaves + (u64)handle * OrderedMapRef<K, V>::kLeafBytes, slot, count, key, value, p.fresh.version);
    if (slot == 0) {
        K separator = part == 0 && groups.map.leaf_count ? load(groups.map.separators + number) : key;
        p.to.set(number - group + i, separator, handle, count);
    }
}

template <class K, class V> struct Keep {
    Groups<K, V> groups;
    NewDirectory<K> to;
};

// A thread for each leaf before the batch: those that stay go to the new directory. One more for the end.
template <class K, class V> WK_DEVICE void keep(const Keep<K, V>& p) {
    u64 i = global_index();
    const OrderedMapRef<K, V>& map = p.groups.map;
    if (i == map.leaf_count) store(p.to.before + p.to.leaf_count, 0u);
    if (i >= map.leaf_count) return;
    u32 number = (u32)i;
    u64 before = p.groups.before(number);
    if (before < p.groups.count && p.groups.leaf(before) == number) return;
    u32 pairs = load(map.before + i + 1) - load(map.before + i);
    p.to.set(i - before + load(p.groups.outs + before), load(map.separators + i), load(map.handles + i), pairs);
}

template <class K> struct Levels {
    NewDirectory<K> to;
    // Of all levels together.
    u64 entries;
};

// A thread for each separator of every level: those above the lowest, and those at the ends.
template <class K> WK_DEVICE void raise_levels(const Levels<K>& p) {
    u64 i = global_index();
    if (i >= p.entries) return;
    u32 level = 0;
    u64 begin = 0;
    // Unrolled, so that the parameters are not copied to the stack.
    for (u32 above = 1; above < kOrderedLevels; above++) {
        if (above < p.to.depth && i >= p.to.levels[above]) {
            level = above;
            begin = p.to.levels[above];
        }
    }
    u64 from = (i - begin) << 4 * level;
    bool exists = from < p.to.leaf_count;
    if (!exists) store(p.to.separators + i, largest_key<K>());
    else if (level > 0) store(p.to.separators + i, load(p.to.separators + from));
}

// Two neighbours of which the first has an even number, as one leaf.
template <class K, class V> struct Merge {
    OrderedMapRef<K, V> map;
    // For each two: whether they become one; after a scan, how many before do.
    u32* merged;
    u64 twos;
    NewLeaves fresh;
    NewDirectory<K> to;
    u32* retired;

    WK_DEVICE u32 pairs(u64 leaf) const { return leaf < map.leaf_count ? load(map.before + leaf + 1) - load(map.before + leaf) : 0; }
};

// A thread for every two, and one for the end.
template <class K, class V> WK_DEVICE void find_merges(const Merge<K, V>& p) {
    u64 i = global_index();
    if (i > p.twos) return;
    bool fits = 2 * i + 1 < p.map.leaf_count && p.pairs(2 * i) + p.pairs(2 * i + 1) <= kMergePairs;
    store(p.merged + i, (u32)(i < p.twos && fits));
}

// Sixteen threads for every two.
template <class K, class V> WK_DEVICE void merge(const Merge<K, V>& p) {
    u64 i = global_index() / kOrderedFanout;
    u32 slot = global_index() % kOrderedFanout;
    if (i == 0 && slot == kOrderedFanout - 1) store(p.to.before + p.to.leaf_count, 0u);
    if (i >= p.twos) return;
    u32 before = load(p.merged + i);
    u64 one = 2 * i, to = one - before;
    if (load(p.merged + i + 1) == before) {
        u64 its = one + slot;
        if (slot < 2 && its < p.map.leaf_count) p.to.set(to + slot, load(p.map.separators + its), load(p.map.handles + its), p.pairs(its));
        return;
    }
    u32 handle = p.fresh.handle(before), in_first = p.pairs(one), count = in_first + p.pairs(one + 1);
    K key{};
    V value = 0;
    if (slot < count) {
        auto leaf = p.map.leaf((u32)(slot < in_first ? one : one + 1));
        u32 from = slot < in_first ? slot : slot - in_first;
        key = leaf.key(from);
        value = leaf.value(from);
    }
    write_slot(p.fresh.leaves + (u64)handle * OrderedMapRef<K, V>::kLeafBytes, slot, count, key, value, p.fresh.version);
    if (slot == 0) p.to.set(to, load(p.map.separators + one), handle, count);
    if (slot < 2) store(p.retired + 2 * (u64)before + slot, load(p.map.handles + one + slot));
}

}  // namespace ordered_map
