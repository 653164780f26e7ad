// The leaves of an ordered map that no version uses any more, and whether all leaves and a directory are sound. The host's side is src/ordered_map.
#pragma once
#include "ordered_fill.h"
#include "ordered_finish.h"
#include "ordered_mixed.h"
#include "ordered_range.h"
#include "warpkeep/append.h"

namespace ordered_map {

// Leaves that a batch replaced: they go to the end of a list of such leaves.
struct Retire {
    const u32* from;
    // Where they go, and for each the version from which on it is not in use.
    u32* handles;
    u64* ends;
    u64 count;
    u64 end;
};

// A thread for each leaf.
WK_DEVICE void retire(const Retire& p) {
    u64 i = global_index();
    if (i >= p.count) return;
    store(p.handles + i, load(p.from + i));
    store(p.ends + i, p.end);
}

// Leaves that batches replaced. One that was written for version `begin` and replaced for version `end` is needed while a version from `begin` up to, but
// not including, `end` is pinned.
struct Sweep {
    const u8* leaves;
    const u32* retired;
    const u64* ends;
    u64 count;
    // Versions that are pinned, in ascending order.
    const u64* pins;
    u64 pin_count;
    // What becomes of the leaves: lists, and how many are on each. They stay on the list of retired ones if there are none.
    u32* free;
    u32* kept;
    u64* kept_ends;
    u64* listed;
    // For each pin, leaves that it needs and the pin before does not, minus those that the pin before needs and it does not.
    u64* held;
    u64 leaf_bytes;

    WK_DEVICE u64 first_pin(u64 version) const {
        u64 low = 0, high = pin_count;
        while (low < high) {
            u64 middle = (low + high) / 2;
            if (load(pins + middle) < version) low = middle + 1;
            else high = middle;
        }
        return low;
    }
};

// A thread for each retired leaf.
WK_DEVICE void sweep(const Sweep& p) {
    u64 i = global_index();
    bool mine = i < p.count;
    u32 handle = mine ? load(p.retired + i) : 0;
    u64 begin = mine ? load((const u64*)(p.leaves + handle * p.leaf_bytes) + 1) : 0, end = mine ? load(p.ends + i) : 0;
    u64 first = p.first_pin(begin), last = p.first_pin(end);
    bool is_needed = first < last;
    if (p.held && mine && is_needed) {
        fetch_add(p.held + first, 1ull);
        fetch_add(p.held + last, ~0ull);
    }
    if (!p.free) return;
    u64 freed = append_by_warp(p.listed, mine && !is_needed), kept = append_by_warp(p.listed + 1, mine && is_needed);
    if (!mine) return;
    if (!is_needed) {
        store(p.free + freed, handle);
        return;
    }
    store(p.kept + kept, handle);
    store(p.kept_ends + kept, end);
}

// What verify() counts.
enum Wrong : u32 { kUnordered, kMisplaced, kMiscounted, kMislevelled, kUsedTwice, kUsed, kWrongWords };

template <class K, class V> struct Verify {
    OrderedMapRef<K, V> map;
    u64 version;
    // A bit for each handle.
    u32* used;
    u64 handles;
    // Handles that no leaf of the version may have.
    const u32* list;
    u64 listed;
    u64* wrong;

    WK_DEVICE void use(u32 handle) const {
        bool is_new = handle < handles && !(fetch_or(used + handle / 32, 1u << handle % 32) >> handle % 32 & 1);
        fetch_add(wrong + (is_new ? kUsed : kUsedTwice), 1ull);
    }
    WK_DEVICE void expect(bool right, Wrong what) const {
        if (!right) fetch_add(wrong + what, 1ull);
    }
};

// A thread for each leaf, or for each handle of the list if there is one.
template <class K, class V> WK_DEVICE void verify(const Verify<K, V>& p) {
    u64 i = global_index();
    if (p.list) {
        if (i < p.listed) p.use(load(p.list + i));
        return;
    }
    const OrderedMapRef<K, V>& map = p.map;
    if (i >= map.leaf_count) return;
    u32 number = (u32)i;
    p.use(load(map.handles + i));
    auto leaf = map.leaf(number);
    u32 before = load(map.before + i), after = load(map.before + i + 1);
    p.expect(leaf.count > 0 && leaf.count <= kLeafPairs && after - before == leaf.count, kMiscounted);
    p.expect(load((const u64*)leaf.at + 1) <= p.version, kMiscounted);
    if (leaf.count == 0 || leaf.count > kLeafPairs) return;
    for (u32 slot = 1; slot < leaf.count; slot++) p.expect(leaf.key(slot - 1) < leaf.key(slot), kUnordered);
    // A search does not read how many pairs there are.
    for (u32 slot = leaf.count; slot < kLeafPairs; slot++) p.expect(leaf.key(slot) == largest_key<K>(), kUnordered);
    K separator = load(map.separators + i);
    p.expect(i > 0 || separator == K{}, kMisplaced);
    p.expect(leaf.key(0) >= separator, kMisplaced);
    if (i + 1 < map.leaf_count) p.expect(leaf.key(leaf.count - 1) < load(map.separators + i + 1), kMisplaced);
    for (u32 slot = 0; slot < leaf.count; slot++) p.expect(map.locate(leaf.key(slot)) == number, kMislevelled);
}

// The parameters of the kernels for one type of keys and of values.
template <class K, class V> struct Params {
    using Ref = OrderedMapRef<K, V>;
    using Find = ordered_map::Find<K, V>;
    using Near = ordered_map::Near<K, V>;
    using Reads = ordered_map::Reads<K, V>;
    using Ranks = ordered_map::Ranks<K, V>;
    using Retrieve = ordered_map::Retrieve<K, V>;
    using Plan = ordered_map::Plan<K>;
    using Work = ordered_map::Work<K, V>;
    using Gather = ordered_map::Gather<K, V>;
    using Size = ordered_map::Size<K, V>;
    using Rewrite = ordered_map::Rewrite<K, V>;
    using Keep = ordered_map::Keep<K, V>;
    using Merge = ordered_map::Merge<K, V>;
    using Retire = ordered_map::Retire;
    using Sweep = ordered_map::Sweep;
    using Verify = ordered_map::Verify<K, V>;
    using Fill = ordered_map::Fill<K, V>;
    using KeyOrder = ordered_map::KeyOrder<K>;
    using Finish = ordered_map::Finish<K, V>;
    using WriterRef = OrderedWriterRef<K, V>;
};

}  // namespace ordered_map

// The kernels for one type of keys and of values.
#define WK_ORDERED_KERNELS(prefix, Params)                                                                       \
    WK_KERNEL_OF(prefix##_find, Params::Find, ordered_map::kThreads) { ordered_map::find(p); }                   \
    WK_KERNEL_OF(prefix##_find_cached, Params::Find, ordered_map::kCachingThreads) { ordered_map::find_cached(p); }\
    WK_KERNEL_OF(prefix##_near, Params::Near, ordered_map::kThreads) { ordered_map::near(p); }                   \
    WK_KERNEL_OF(prefix##_near_cached, Params::Near, ordered_map::kCachingThreads) { ordered_map::near_cached(p); }\
    WK_KERNEL_OF(prefix##_ranges, Params::Reads, ordered_map::kThreads) { ordered_map::ranges(p); }              \
    WK_KERNEL_OF(prefix##_ranges_cached, Params::Reads, ordered_map::kCachingThreads) { ordered_map::ranges_cached(p); }\
    WK_KERNEL_AT_ONCE(prefix##_read, Params::Reads, ordered_map::kThreads, 8) { ordered_map::read(p); }          \
    WK_KERNEL_OF(prefix##_rank, Params::Ranks, ordered_map::kThreads) { ordered_map::rank(p); }                  \
    WK_KERNEL_OF(prefix##_select, Params::Ranks, ordered_map::kThreads) { ordered_map::select(p); }              \
    WK_KERNEL_OF(prefix##_retrieve, Params::Retrieve, ordered_map::kThreads) { ordered_map::retrieve(p); }       \
    WK_KERNEL_OF(prefix##_plan, Params::Plan, ordered_map::kThreads) { ordered_map::plan(p); }                   \
    WK_KERNEL_OF(prefix##_work, Params::Work, ordered_map::kThreads) { ordered_map::work(p); }                   \
    WK_KERNEL_OF(prefix##_gather, Params::Gather, ordered_map::kThreads) { ordered_map::gather(p); }             \
    WK_KERNEL_OF(prefix##_size, Params::Size, ordered_map::kThreads) { ordered_map::size(p); }                 \
    WK_KERNEL_OF(prefix##_rewrite, Params::Rewrite, ordered_map::kThreads) { ordered_map::rewrite(p); }          \
    WK_KERNEL_OF(prefix##_keep, Params::Keep, ordered_map::kThreads) { ordered_map::keep(p); }                   \
    WK_KERNEL_OF(prefix##_find_merges, Params::Merge, ordered_map::kThreads) { ordered_map::find_merges(p); }    \
    WK_KERNEL_OF(prefix##_merge, Params::Merge, ordered_map::kThreads) { ordered_map::merge(p); }                \
    WK_KERNEL_OF(prefix##_retire, Params::Retire, ordered_map::kThreads) { ordered_map::retire(p); }              \
    WK_KERNEL_OF(prefix##_sweep, Params::Sweep, ordered_map::kThreads) { ordered_map::sweep(p); }                \
    WK_KERNEL_OF(prefix##_verify, Params::Verify, ordered_map::kThreads) { ordered_map::verify(p); }             \
    WK_KERNEL_OF(prefix##_fill, Params::Fill, ordered_map::kThreads) { ordered_map::fill(p); }                   \
    WK_KERNEL_OF(prefix##_check_order, Params::KeyOrder, ordered_map::kThreads) { ordered_map::check_order(p); } \
    WK_KERNEL_OF(prefix##_settle, Params::Finish, ordered_map::kThreads) { ordered_map::settle(p); }             \
    WK_KERNEL_OF(prefix##_list_nodes, Params::Finish, ordered_map::kThreads) { ordered_map::list_nodes(p); }     \
    WK_KERNEL_OF(prefix##_find_changed, Params::Finish, ordered_map::kThreads) { ordered_map::find_changed(p); } \
    WK_KERNEL_OF(prefix##_keep_unchanged, Params::Finish, ordered_map::kThreads) { ordered_map::keep_unchanged(p); } \
    WK_KERNEL_OF(prefix##_list_leaves, Params::Finish, ordered_map::kThreads) { ordered_map::list_leaves(p); }   \
    WK_AGREE(prefix##_split_pairs, ordered_map::kSplitPairs)                                                     \
    WK_AGREE(prefix##_leaf_writers, ordered_map::kLeafWriters)                                                   \
    WK_AGREE(prefix##_keep_leaves, ordered_map::kKeepLeaves)                                                     \
    WK_AGREE(prefix##_batch_totals, ordered_map::kBatchTotals)                                                   \
    WK_AGREE(prefix##_order_each, ordered_map::kOrderEach)                                                       \
    WK_AGREE(prefix##_writer_ref_bytes, sizeof(Params::WriterRef))                                               \
    WK_AGREE(prefix##_node_stripes, wk::kNodeStripes)                                                            \
    WK_AGREE(prefix##_stripe_words, wk::kStripeWords)                                                            \
    WK_AGREE(prefix##_ref_bytes, sizeof(Params::Ref))                                                            \
    WK_AGREE(prefix##_leaf_bytes, Params::Ref::kLeafBytes)                                                       \
    WK_AGREE(prefix##_leaf_pairs, wk::kLeafPairs)                                                                \
    WK_AGREE(prefix##_fanout, wk::kOrderedFanout)                                                                \
    WK_AGREE(prefix##_levels, wk::kOrderedLevels)                                                                \
    WK_AGREE(prefix##_merge_pairs, ordered_map::kMergePairs)                                                     \
    WK_AGREE(prefix##_caching_threads, ordered_map::kCachingThreads)                                             \
    WK_AGREE(prefix##_wrong_words, ordered_map::kWrongWords)
