// Batches that change an ordered map. A batch is sorted by key; a thread works all operations on one key; then every leaf that changes is written anew, under
// another handle, and so is the directory: the version before the batch stays as it is for those who read it. Each launch reads what the ones before it have
// written and no thread waits for another one. The host's side is src/ordered_map.
#pragma once
#include "ordered_read.h"
#include "warpkeep/scan.h"

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

// How many of some runs change their key, add it and remove it: ten bits each.
struct ChangeCounts {
    static_assert(kThreads < 1024, "ten bits hold a count of a block's threads");
    u32 word;

    WK_DEVICE static ChangeCounts of(Change change) { return {(u32)(change != kNone) | (u32)(change == kInsert) << 10 | (u32)(change == kRemove) << 20}; }
    WK_DEVICE u32 changes() const { return word & 1023; }
    // How many keys there are more, modulo 2^32.
    WK_DEVICE u32 delta() const { return (word >> 10 & 1023) - (word >> 20); }
};

// For each block of work() how many of its runs change their key; then for each how many keys they add; and an end.
// After a scan both of the blocks before, but the second with the sum of the first.
struct ChangeSums {
    u32* sums;
    u64 blocks;

    WK_DEVICE u32 changes() const { return load(sums + blocks); }
    WK_DEVICE u32 delta() const { return load(sums + 2 * blocks) - changes(); }
    WK_DEVICE u32 changes_before(u64 block) const { return load(sums + block); }
    WK_DEVICE u32 delta_before(u64 block) const { return load(sums + blocks + block) - changes(); }
};

template <class K, class V> struct Work {
    OrderedMapRef<K, V> map;
    SortedBatch<K, V> batch;
    // By number: what the operations do (`code` if there is no column), their operands and answers.
    const u8* codes;
    const V* operands;
    u8* statuses;
    V* before;
    // For each run: the number of its leaf, the slot and the change, and the value after the batch.
    u32* leaves;
    u32* slots;
    V* finals;
    ChangeSums sums;
    u32 code;
    // The status that the answers have already, and 0 if they have none: answers lie scattered, and each store of one
    // costs as much as that of 32 bytes. With `Inserted` `before` is 0 already, too.
    u32 usual;
};

// What becomes of the key of a run.
template <class K, class V> WK_DEVICE Change work_run(const Work<K, V>& p, u64 run, u64 begin, u64 end) {
    K key = load(p.batch.keys + begin);
    u32 number = p.map.locate(key);
    auto leaf = p.map.leaf(number);
    SortedPlace place = leaf.search(key);
    bool was_there = place.is_there, there = was_there;
    V old = there ? leaf.value(place.below) : 0, value = old;
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
            if (p.statuses && (u32)status != p.usual) store(p.statuses + at, (u8)status);
            if (p.before && (p.usual != (u32)OrderedStatus::Inserted || before != 0)) store(p.before + at, before);
        }
        if (p.batch.present) {
            store(p.batch.owners + i, (u32)run);
            store(p.batch.present + i, (u8)there);
            store(p.batch.values + i, value);
        }
    }
    Change change = kNone;
    if (there != was_there) change = there ? kInsert : kRemove;
    else if (there && value != old) change = kReplace;
    store(p.leaves + run, number);
    store(p.slots + run, place.below | change << 8 | (was_there ? kWasThere : 0));
    store(p.finals + run, value);
    return change;
}

// A thread for each run.
template <class K, class V> WK_DEVICE void work(const Work<K, V>& p) {
    WK_SHARED(u32, of_warps, kThreads / kWarp);
    SortedBatch<K, V> batch = p.batch.counted();
    u64 run = global_index();
    Change change = run < batch.runs ? work_run(p, run, batch.begin(run), batch.end(run)) : kNone;
    ChangeCounts all{BlockScan(ChangeCounts::of(change).word, of_warps).all};
    if (thread_index() != 0) return;
    store(p.sums.sums + block_index(), all.changes());
    store(p.sums.sums + p.sums.blocks + block_index(), all.delta());
    if (block_index() == 0) store(p.sums.sums + 2 * p.sums.blocks, 0u);
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
    ChangeSums sums;
    // Of as many changes as there can be.
    Changes<K, V> changes;
};

// No leaf has this number: it stands behind the leaves of the changes.
constexpr u32 kNoLeaf = ~0u;

// The grid of work(). A thread for each run, and for each change that there could be.
template <class K, class V> WK_DEVICE void gather(const Gather<K, V>& p) {
    WK_SHARED(u32, of_warps, kThreads / kWarp);
    SortedBatch<K, V> batch = p.batch.counted();
    u64 run = global_index();
    u32 slot = run < batch.runs ? load(p.slots + run) : 0, all = p.sums.changes();
    Change change = (Change)(slot >> 8 & 0xff);
    ChangeCounts before{BlockScan(ChangeCounts::of(change).word, of_warps).before};
    if (run >= all && run < p.changes.count) store(p.changes.leaves + run, kNoLeaf);
    if (run == 0) store(p.changes.deltas + all, p.sums.delta());
    if (change == kNone) return;
    u32 at = p.sums.changes_before(block_index()) + before.changes();
    store(p.changes.keys + at, batch.key(run));
    store(p.changes.values + at, load(p.finals + run));
    store(p.changes.leaves + at, load(p.leaves + run));
    store(p.changes.slots + at, slot);
    store(p.changes.deltas + at, p.sums.delta_before(block_index()) + before.delta());
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
    // Pairs after the batch, of a group whose leaf has this number. The directory says how many there were.
    WK_DEVICE u32 pairs(u64 group, u32 leaf) const {
        u32 were = map.leaf_count ? load(map.before + leaf + 1) - load(map.before + leaf) : 0;
        return were + load(changes.deltas + end(group)) - load(changes.deltas + begin(group));
    }

    // How many keys the groups before this one add, modulo 2^32; of the one behind the last, how many all add.
    WK_DEVICE u32 added_before(u64 group) const { return load(changes.deltas + (group < count ? begin(group) : changes.count)); }

    // How many groups have a leaf with a smaller number. All lanes of a warp search together: each round leaves one
    // part in 33.
    WK_DEVICE u64 before_by_warp(u64 number) const {
        Warp warp;
        u64 low = 0, high = count;
        while (low < high) {
            u64 step = (high - low) / (kWarp + 1) + 1, at = low + step * (lane() + 1) - 1;
            low += step * popc(warp.ballot(at < high && leaf(at) < number));
            high = low + step - 1 < high ? low + step - 1 : high;
        }
        return low;
    }
};

// As many groups and changes as there can be, and how many there are.
template <class K, class V> struct Size {
    Groups<K, V> groups;
    ChangeSums sums;
    // Runs of equal leaves of changes, of which the last is no leaf's if there are fewer changes than there can be.
    const u32* runs;
};

// What the host reads of a batch, behind the numbers of leaves that each group becomes; the first is their sum, after a
// scan.
enum BatchTotal : u32 { kOuts, kGroups, kChanges, kDelta, kBatchTotals };

// A thread for each group that there can be, and one for the totals.
template <class K, class V> WK_DEVICE void size(const Size<K, V>& p) {
    u64 group = global_index(), most = p.groups.count;
    if (group > most) return;
    Groups<K, V> groups = p.groups;
    groups.changes.count = p.sums.changes();
    groups.count = load(p.runs) - (groups.changes.count < p.groups.changes.count);
    u32* totals = groups.outs + most;
    if (group == most) {
        store(totals + kGroups, (u32)groups.count);
        store(totals + kChanges, (u32)groups.changes.count);
        store(totals + kDelta, p.sums.delta());
    }
    if (group >= groups.count) {
        store(groups.outs + group, 0u);
        return;
    }
    u32 leaf = load(groups.changes.leaves + groups.begin(group)), pairs = groups.pairs(group, leaf);
    store(groups.leaves + group, leaf);
    store(groups.outs + group, pairs > kLeafPairs ? (pairs - 1) / kSplitPairs + 1 : pairs > 0 ? 1 : 0);
    if (p.groups.map.leaf_count) store(groups.retired + group, load(p.groups.map.handles + leaf));
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
    WK_DEVICE void set(u64 at, K separator, u32 handle, u32 keys_before) const {
        K its = at == 0 ? K{} : separator;
        store(separators + at, its);
        store(handles + at, handle);
        store(before + at, keys_before);
        if (at % kOrderedFanout) return;
        // Unrolled, so that the parameters are not copied to the stack.
        for (u32 level = 1; level < kOrderedLevels; level++) {
            if (level < depth && at % (1ull << 4 * level) == 0) store(separators + levels[level] + (at >> 4 * level), its);
        }
    }

    // Copies of the largest key at the end of each level, and the number of all keys. By the first kThreads threads of
    // a kernel.
    WK_DEVICE void end(u64 thread, u32 keys) const {
        static_assert(kThreads >= kOrderedFanout * kOrderedLevels, "there is a thread for each copy of each level");
        if (thread == 0 && leaf_count) store(before + leaf_count, keys);
        for (u32 level = 0; level < kOrderedLevels; level++) {
            if (level >= depth || thread / kOrderedFanout != level) continue;
            u64 entries = (leaf_count + (1ull << 4 * level) - 1) >> 4 * level, at = entries + thread % kOrderedFanout;
            if (at < (entries + kOrderedFanout - 1) / kOrderedFanout * kOrderedFanout) store(separators + levels[level] + at, largest_key<K>());
        }
    }
};

template <class K, class V> struct Rewrite {
    Groups<K, V> groups;
    NewLeaves fresh;
    NewDirectory<K> to;
    // New leaves, and the group that each comes from.
    u64 count;
    u32* sources;
};

// The pairs of a group after the batch.
template <class K, class V> struct Merged {
    using Leaf = typename OrderedMapRef<K, V>::Leaf;

    const Changes<K, V>& changes;
    u64 begin, end;
    u32 base;
    Leaf leaf;

    WK_DEVICE Merged(const Groups<K, V>& groups, u64 group, u32 number)
        : changes(groups.changes), begin(groups.begin(group)), end(groups.end(group)), base(load(groups.changes.deltas + begin)),
          leaf{groups.map.leaf_count ? groups.map.leaves + (u64)load(groups.map.handles + number) * OrderedMapRef<K, V>::kLeafBytes : nullptr, kLeafPairs} {}

    // How many keys the changes of the group before this one add, modulo 2^32.
    WK_DEVICE u32 added(u64 change) const { return load(changes.deltas + change) - base; }

    // The pair with `rank` pairs before it.
    WK_DEVICE void pair(u32 rank, K& key, V& value) const {
        u64 low = begin, high = end;
        // The changes whose key has at most `rank` pairs before it: ranks do not decrease from one change to the next.
        while (low < high) {
            u64 middle = (low + high) / 2;
            if (changes.slot(middle) + added(middle) <= rank) low = middle + 1;
            else high = middle;
        }
        if (low > begin) {
            u64 last = low - 1;
            if (changes.slot(last) + added(last) == rank && changes.change(last) != kRemove) {
                key = load(changes.keys + last);
                value = load(changes.values + last);
                return;
            }
        }
        // A pair that was there: the changes before it have moved it.
        u32 slot = rank - added(low);
        key = leaf.key(slot);
        value = leaf.value(slot);
    }
};

// Threads that write a leaf: each writes two neighbouring slots, and the last one the header.
constexpr u32 kLeafWriters = kLeafPairs / 2 + 1;

// What a thread writes of a leaf: two slots.
template <class K, class V> struct TwoSlots {
    K keys[2] = {};
    V values[2] = {};
};

// Two neighbouring words, written at once.
template <class T> WK_DEVICE void store_two(T* at, const T (&words)[2]) {
    if constexpr (sizeof(T) == 4) {
        store((u64*)at, (u64)words[0] | (u64)words[1] << 32);
    } else if constexpr (sizeof(T) == 8) {
        store((U128*)at, U128{words[0], words[1]});
    } else {
        store(at, words[0]);
        store(at + 1, words[1]);
    }
}

// Writes two slots of a leaf, from `slot` on, or the header.
template <class K, class V> WK_DEVICE void write_slots(u8* leaf, u32 slot, u32 pairs, TwoSlots<K, V> two, u64 version) {
    if (slot == kLeafPairs) {
        store((U128*)leaf, U128{pairs, version});
        return;
    }
    for (u32 i = 0; i < 2; i++) {
        if (slot + i < pairs) continue;
        two.keys[i] = largest_key<K>();
        two.values[i] = 0;
    }
    store_two((K*)(leaf + kLeafHeader) + slot, two.keys);
    store_two((V*)(leaf + OrderedMapRef<K, V>::kValuesAt) + slot, two.values);
}

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

// kLeafWriters threads for each new leaf.
template <class K, class V> WK_DEVICE void rewrite(const Rewrite<K, V>& p) {
    u64 i = global_index() / kLeafWriters;
    u32 slot = global_index() % kLeafWriters * 2;
    if (i >= p.count) return;
    const Groups<K, V>& groups = p.groups;
    u64 group = load(p.sources + i), first = load(groups.outs + group);
    u32 number = groups.leaf(group), pairs = groups.pairs(group, number);
    // Its leaves have the same number of pairs, or one more.
    u64 part = i - first, parts = load(groups.outs + group + 1) - first;
    u32 begin = (u32)(pairs * part / parts), end = (u32)(pairs * (part + 1) / parts), count = end - begin;
    u32 handle = p.fresh.handle(i);
    Merged<K, V> merged(groups, group, number);
    TwoSlots<K, V> two;
    for (u32 j = 0; j < 2; j++) {
        if (slot + j < count) merged.pair(begin + slot + j, two.keys[j], two.values[j]);
    }
    write_slots(p.fresh.leaves + (u64)handle * OrderedMapRef<K, V>::kLeafBytes, slot, count, two, p.fresh.version);
    if (slot == 0) {
        K separator = part == 0 && groups.map.leaf_count ? load(groups.map.separators + number) : two.keys[0];
        u32 before = groups.map.leaf_count ? load(groups.map.before + number) : 0;
        p.to.set(number - group + i, separator, handle, before + groups.added_before(group) + begin);
    }
}

// Leaves that a thread and a block of `keep` work.
constexpr u32 kKeepEach = 4;
constexpr u32 kKeepLeaves = kKeepEach * kThreads;
// New leaves of a group that one thread lists: a warp lists more.
constexpr u32 kListedAlone = 4;

template <class K, class V> struct Keep {
    Groups<K, V> groups;
    NewDirectory<K> to;
    // For each new leaf the group that it comes from, for rewrite(): to search for it there takes more than twenty
    // reads that depend on each other.
    u32* sources;
};

// Lists the new leaves of a group. All lanes of a warp take part; not all of them have a group.
template <class K, class V> WK_DEVICE void list_sources(const Keep<K, V>& p, u32 group, bool has_one) {
    Warp warp;
    u32 begin = has_one ? load(p.groups.outs + group) : 0, end = has_one ? load(p.groups.outs + group + 1) : 0;
    for (u32 i = begin; i < end && i < begin + kListedAlone; i++) store(p.sources + i, group);
    for (u32 left = warp.ballot(end - begin > kListedAlone); left; left &= left - 1) {
        u32 from = ffs(left) - 1, its = warp.shfl(group, from), its_end = warp.shfl(end, from);
        for (u32 i = warp.shfl(begin, from) + kListedAlone + lane(); i < its_end; i += kWarp) store(p.sources + i, its);
    }
}

// A block for each kKeepLeaves leaves before the batch: those that stay go to the new directory. One block at least,
// for the ends.
template <class K, class V> WK_DEVICE void keep(const Keep<K, V>& p) {
    constexpr u32 kWords = kKeepLeaves / 32;
    WK_SHARED(u32, changed, kWords);
    WK_SHARED(u64, groups_before, 1);
    Warp warp;
    const Groups<K, V>& groups = p.groups;
    const OrderedMapRef<K, V>& map = groups.map;
    u64 first = (u64)block_index() * kKeepLeaves;
    if (block_index() == 0) p.to.end(thread_index(), (map.leaf_count ? load(map.before + map.leaf_count) : 0) + groups.added_before(groups.count));
    if (thread_index() < kWords) changed.store(thread_index(), 0);
    if (warp_in_block() == 0) {
        u64 before = groups.before_by_warp(first);
        if (lane() == 0) groups_before.store(0, before);
    }
    sync_block();
    // The groups whose leaves are the block's.
    for (u64 group = groups_before.load(0) + thread_index();; group += block_size()) {
        u64 at = group < groups.count ? groups.leaf(group) - first : kKeepLeaves;
        bool is_ours = at < kKeepLeaves;
        if (!warp.any(is_ours)) break;
        if (is_ours) changed.fetch_or((u32)at / 32, 1u << at % 32);
        list_sources(p, (u32)group, is_ours);
    }
    sync_block();
    for (u32 j = 0; j < kKeepEach; j++) {
        u32 at = j * kThreads + thread_index();
        u64 i = first + at, before = groups_before.load(0);
        if (i >= map.leaf_count) break;
        u32 its = changed.load(at / 32);
        if (its >> at % 32 & 1) continue;
        before += popc(its & ((1u << at % 32) - 1));
        for (u32 word = 0; word < at / 32; word++) before += popc(changed.load(word));
        u32 keys_before = load(map.before + i) + groups.added_before(before);
        p.to.set(i - before + load(groups.outs + before), load(map.separators + i), load(map.handles + i), keys_before);
    }
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

// kLeafWriters threads for every two.
template <class K, class V> WK_DEVICE void merge(const Merge<K, V>& p) {
    u64 i = global_index() / kLeafWriters;
    u32 thread = global_index() % kLeafWriters, slot = 2 * thread;
    if (block_index() == 0) p.to.end(thread_index(), load(p.map.before + p.map.leaf_count));
    if (i >= p.twos) return;
    u32 before = load(p.merged + i);
    u64 one = 2 * i, to = one - before;
    if (load(p.merged + i + 1) == before) {
        u64 its = one + thread;
        if (thread < 2 && its < p.map.leaf_count) p.to.set(to + thread, load(p.map.separators + its), load(p.map.handles + its), load(p.map.before + its));
        return;
    }
    u32 handle = p.fresh.handle(before), in_first = p.pairs(one), count = in_first + p.pairs(one + 1);
    TwoSlots<K, V> two;
    for (u32 j = 0; j < 2; j++) {
        u32 at = slot + j;
        if (at >= count) break;
        auto leaf = p.map.leaf((u32)(at < in_first ? one : one + 1));
        u32 from = at < in_first ? at : at - in_first;
        two.keys[j] = leaf.key(from);
        two.values[j] = leaf.value(from);
    }
    write_slots(p.fresh.leaves + (u64)handle * OrderedMapRef<K, V>::kLeafBytes, slot, count, two, p.fresh.version);
    if (slot == 0) p.to.set(to, load(p.map.separators + one), handle, load(p.map.before + one));
    if (thread < 2) store(p.retired + 2 * (u64)before + thread, load(p.map.handles + one + thread));
}

}  // namespace ordered_map
