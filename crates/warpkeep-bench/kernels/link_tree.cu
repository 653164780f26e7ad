// Operations on the paper's B-tree, and its build from the bottom up.
#include "link_tree.h"

namespace bench {

struct TreeCalls {
    LinkTree tree;
    OrderedColumns calls;
};

// A tile works the operations of its lanes, one after the other; one that did not get a latch comes again after the others.
// Beside writers, ranges and operations on single keys have kernels of their own, which need fewer registers.
template <bool BesideWriters, bool Ranges, bool Points> WK_DEVICE void work(const TreeCalls& p) {
    TreeTile<BesideWriters> tree{p.tree, {}};
    const Tile<16>& tile = tree.tile;
    const OrderedColumns& calls = p.calls;
    u64 own = global_index(), first = own - tile.rank();
    u32 pending = tile.ballot(own < calls.count), at = 0;
    while (pending) {
        u32 above = pending >> at << at;
        u32 lane = ffs(above ? above : pending) - 1;
        at = lane + 1;
        u64 i = first + lane;
        OrderedOp op = calls.op(i);
        u32 key = load(calls.keys + i), value = 0, found = 0;
        OrderedStatus status = OrderedStatus::Absent;
        Attempt attempt = Attempt::Done;
        if (BesideWriters && inserts(op)) {
            attempt = tree.insert(key, load(calls.values + i), status);
        } else if (BesideWriters && Points && op == OrderedOp::Erase) {
            attempt = tree.erase(key, status, value);
        } else if (Ranges && op == OrderedOp::Range) {
            u32 room = (u32)calls.stride;
            u32 count = tree.range(key, load(calls.ends + i), calls.pair_keys + i * room, calls.pair_values + i * room, room);
            status = count > room ? OrderedStatus::Truncated : count ? OrderedStatus::Found : OrderedStatus::Absent;
            if (tile.rank() == 0 && calls.counts) store(calls.counts + i, count);
        } else if (Points) {
            bool there;
            if (op == OrderedOp::Successor) {
                u64 pair;
                tree.successor(key, there, pair);
                found = there ? key_of(pair) : 0;
                value = there ? (u32)pair : 0;
            } else {
                tree.find(key, there, value);
                if (!there) value = 0;
            }
            status = there ? OrderedStatus::Found : OrderedStatus::Absent;
        }
        if (attempt == Attempt::Again) continue;
        pending &= ~(1u << lane);
        if (tile.rank() == 0) calls.answer(i, status, value, found);
    }
}

}  // namespace bench

WK_KERNEL_OF(bench_link_tree_read, bench::TreeCalls, 128) { bench::work<false, true, true>(p); }
WK_KERNEL_OF(bench_link_tree_run, bench::TreeCalls, 128) { bench::work<true, false, true>(p); }
WK_KERNEL_OF(bench_link_tree_run_ranges, bench::TreeCalls, 128) { bench::work<true, true, false>(p); }

// Insertions with latch coupling.
WK_KERNEL_OF(bench_link_tree_insert_coupled, bench::TreeCalls, 128) {
    using namespace bench;
    TreeTile<true> tree{p.tree, {}};
    const Tile<16>& tile = tree.tile;
    u64 own = global_index(), first = own - tile.rank();
    u32 pending = tile.ballot(own < p.calls.count);
    while (pending) {
        u32 lane = ffs(pending) - 1;
        u64 i = first + lane;
        OrderedStatus status;
        if (tree.insert_coupled(load(p.calls.keys + i), load(p.calls.values + i), status) == Attempt::Again) {
            // All begin at the root: who has it must come to its end.
            backoff(256);
            continue;
        }
        pending &= ~(1u << lane);
        if (tile.rank() == 0) p.calls.answer(i, status, 0, 0);
    }
}

// Sixteen threads for each node.
WK_KERNEL_OF(bench_link_tree_build, bench::TreeLevel, 128) {
    using namespace bench;
    u64 node = global_index() / kTreeWords, lane = global_index() % kTreeWords;
    if (node >= p.nodes_here) return;
    store(p.nodes + (p.first + node) * kTreeWords + lane, p.word(node, lane));
}

WK_AGREE(bench_link_tree_pairs, bench::kTreePairs)
WK_AGREE(bench_link_tree_words, bench::kTreeWords)
WK_AGREE(bench_link_tree_no_right, bench::kNoRight)
