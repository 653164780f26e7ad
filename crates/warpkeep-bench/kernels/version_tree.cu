// Operations on the paper's multiversion B-tree, and its build from the bottom up.
#include "version_tree.h"

namespace bench {

struct VersionCalls {
    VersionTree tree;
    OrderedColumns calls;
    EpochsRef epochs;
};

// A tile works the operations of its lanes, from the one of this thread on, one after the other; one that did not get a latch comes again after the others.
// Answers have, in place of a found key, the timestamp of a change or the snapshot of a range.
// Ranges and lookups have kernels of their own, which need fewer registers.
template <Form F, bool Ranges> WK_DEVICE void work(const VersionTile<F>& tree, const OrderedColumns& calls, u64 own) {
    const Tile<16>& tile = tree.tile;
    u64 first = own - tile.rank();
    u32 pending = tile.ballot(own < calls.count), at = 0;
    while (pending) {
        u32 above = pending >> at << at;
        u32 lane = ffs(above ? above : pending) - 1;
        at = lane + 1;
        u64 i = first + lane;
        OrderedOp op = calls.op(i);
        u32 key = load(calls.keys + i), value = 0, time = 0;
        OrderedStatus status = OrderedStatus::Absent;
        Attempt attempt = Attempt::Done;
        if (F != Form::Alone && inserts(op)) {
            attempt = tree.insert(key, load(calls.values + i), status, time);
        } else if (F != Form::Alone && op == OrderedOp::Erase) {
            attempt = tree.erase(key, status, value, time);
        } else if (Ranges && op == OrderedOp::Range) {
            u32 room = (u32)calls.stride;
            time = tree.take_snapshot();
            u32 count = tree.range(key, load(calls.ends + i), calls.pair_keys + i * room, calls.pair_values + i * room, room, time);
            status = count > room ? OrderedStatus::Truncated : count ? OrderedStatus::Found : OrderedStatus::Absent;
            if (tile.rank() == 0 && calls.counts) store(calls.counts + i, count);
        } else if (!Ranges && op == OrderedOp::Find) {
            bool there;
            tree.find(key, there, value);
            if (!there) value = 0;
            status = there ? OrderedStatus::Found : OrderedStatus::Absent;
        }
        if (attempt == Attempt::Again) continue;
        pending &= ~(1u << lane);
        if (tile.rank() == 0) calls.answer(i, status, value, time);
    }
}

// Without epochs: nothing is given back.
template <Form F, bool Ranges> WK_DEVICE void work_once(const VersionCalls& p) {
    NodeEpochs none{p.epochs, p.tree.nodes, {}};
    work<F, Ranges>(VersionTile<F>(p.tree, none), p.calls, global_index());
}

// A block works group after group, and says between them that it reads nothing.
template <bool Ranges> WK_DEVICE void work_in_epochs(const VersionCalls& p, Shared<u32> words) {
    u32 blocks = grid_size() < p.epochs.blocks ? grid_size() : p.epochs.blocks;
    if (block_index() >= blocks || block_size() > kGroup) return;
    NodeEpochs epochs{p.epochs, p.tree.nodes, words};
    VersionTile<Form::OutOfPlace> tree(p.tree, epochs);
    epochs.load_ring();
    for (u64 group = block_index(); group * block_size() < p.calls.count; group += blocks) {
        epochs.enter();
        work<Form::OutOfPlace, Ranges>(tree, p.calls, group * block_size() + thread_index());
        epochs.leave();
    }
    epochs.store_ring();
}

}  // namespace bench

// Eight blocks at once, which 64 registers allow: without a number of blocks the compiler uses fewer registers and spills.
WK_KERNEL_AT_ONCE(bench_version_tree_read, bench::VersionCalls, 128, 8) { bench::work_once<bench::Form::Alone, false>(p); }
WK_KERNEL_AT_ONCE(bench_version_tree_run_in_place, bench::VersionCalls, 128, 8) { bench::work_once<bench::Form::InPlace, false>(p); }
WK_KERNEL_AT_ONCE(bench_version_tree_run_in_place_ranges, bench::VersionCalls, 128, 8) { bench::work_once<bench::Form::InPlace, true>(p); }
WK_KERNEL_AT_ONCE(bench_version_tree_run_out_of_place, bench::VersionCalls, 128, 8) {
    WK_SHARED(wk::u32, words, bench::NodeEpochs::Words);
    bench::work_in_epochs<false>(p, words);
}
WK_KERNEL_AT_ONCE(bench_version_tree_run_out_of_place_ranges, bench::VersionCalls, 128, 8) {
    WK_SHARED(wk::u32, words, bench::NodeEpochs::Words);
    bench::work_in_epochs<true>(p, words);
}

// Sixteen threads for each node.
WK_KERNEL_OF(bench_version_tree_build, bench::TreeLevel, 128) {
    using namespace bench;
    u64 node = global_index() / kTreeWords, lane = global_index() % kTreeWords;
    if (node >= p.nodes_here) return;
    u64 word = lane == kVersionWord ? Version::of(0, kNoRight).word : p.word(node, lane);
    store(p.nodes + (p.first + node) * kTreeWords + lane, word);
}

WK_AGREE(bench_version_tree_pairs, bench::kVersionPairs)
WK_AGREE(bench_version_tree_words, bench::kTreeWords)
WK_AGREE(bench_version_tree_no_right, bench::kNoRight)
WK_AGREE(bench_version_tree_newest, bench::kNewest)
WK_AGREE(bench_version_tree_group, bench::kGroup)
WK_AGREE(bench_version_tree_ring, bench::kRing)
WK_AGREE(bench_version_tree_ring_bytes, sizeof(bench::EpochRing))
WK_AGREE(bench_version_tree_traced_epochs, bench::kTracedEpochs)
