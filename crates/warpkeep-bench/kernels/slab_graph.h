// The dynamic graph of "Efficient Dynamic Data Structures on the GPU", chapter 5: a slab hash for each vertex, in slabs of 128 bytes with 15 pairs of target and weight, or 30 targets. A warp works one
// request after the other. The first slabs of all lists lie side by side; further ones come from a SlabAlloc. Deleted items leave tombstones, which are not used again.
//
// An insertion takes the first empty item of a chain after it has passed all items before it, so that a target is in a list once.
#pragma once
#include "warpkeep/append.h"
#include "warpkeep/slab_alloc.h"
#include "words.h"

namespace bench {

constexpr u32 kGraphSlabBytes = 128;
// An empty item or link is all ones. Vertices from the first of these on cannot be stored.
constexpr u32 kNoVertex = ~0u;
constexpr u32 kDeletedVertex = ~0u - 1;

// As the graph of the library answers, and 0 if there was no slab.
enum class EdgeAnswer : u8 { OutOfSlabs = 0, Inserted = 1, Updated = 2, Deleted = 3, Absent = 4, Loop = 5 };

struct SlabGraphRef {
    u8* base;
    // For each vertex: its first slab, and in the upper half how many buckets it has.
    const u64* lists;
    u32* degrees;
    SlabAllocRef pool;
    u64 seed;
    u64 vertices;
};

struct SlabGraphParams {
    SlabGraphRef graph;
    const u32* sources;
    const u32* targets;
    const u32* weights;
    u8* statuses;
    u64 count;
    // Bits of vertices that are deleted.
    const u32* doomed;
    u64* sums;
    // Where the edges of all lists go.
    u64* edges;
    u32 deletes;
    // 1 if each edge leads both ways.
    u32 mirrored;
};

template <class Word> struct SlabGraph {
    static constexpr u32 kWords = kGraphSlabBytes / sizeof(Word);
    static constexpr u32 kItems = sizeof(Word) == 8 ? 15 : 30;
    static constexpr Word kEmpty = (Word)~0ull;

    SlabGraphRef graph;
    SlabAllocator slabs;

    WK_DEVICE explicit SlabGraph(const SlabGraphRef& of) : graph(of), slabs(of.pool) {}

    WK_DEVICE static u32 target_of(Word item) { return (u32)item; }
    WK_DEVICE Word* base(u32 slab) const { return (Word*)graph.base + (u64)slab * kWords; }
    WK_DEVICE Word* unit(u32 handle) const { return graph.pool.as<Word>(handle); }
    WK_DEVICE static Word read(const Word* slab) { return load<Scope::Device, Order::Relaxed>(slab + lane() % kWords); }

    // The first slab of the bucket that the target belongs to.
    WK_DEVICE Word* bucket_of(u32 source, u32 target) const {
        u64 list = load(graph.lists + source);
        return base((u32)list + (u32)reduce(mix64(graph.seed, target), list >> 32));
    }

    // The answers to the requests of all lanes, one after the other.
    WK_DEVICE EdgeAnswer serve(bool wants, bool deletes, u32 source, u32 target, u32 weight) {
        Warp warp;
        EdgeAnswer answer = EdgeAnswer::Loop;
        u32 queue = warp.ballot(wants && source != target);
        Word* slab = nullptr;
        while (queue) {
            u32 turn = ffs(queue) - 1, its_source = warp.shfl(source, turn), its_target = warp.shfl(target, turn);
            Word item = its_target;
            if constexpr (sizeof(Word) == 8) item |= (Word)warp.shfl(weight, turn) << 32;
            if (!slab) slab = bucket_of(its_source, its_target);
            bool is_done = false;
            EdgeAnswer its = step(slab, deletes, its_target, item, is_done);
            if (!is_done) continue;
            if (lane() == turn) {
                answer = its;
                if (its == EdgeAnswer::Inserted) fetch_add(graph.degrees + source, 1);
                if (its == EdgeAnswer::Deleted) fetch_add(graph.degrees + source, ~0u);
            }
            queue &= queue - 1;
            slab = nullptr;
        }
        return answer;
    }

    // Which edges are there, of all lanes, one after the other.
    WK_DEVICE bool has(bool wants, u32 source, u32 target) const {
        Warp warp;
        bool answer = false;
        for (u32 queue = warp.ballot(wants); queue; queue &= queue - 1) {
            u32 turn = ffs(queue) - 1, its_target = warp.shfl(target, turn);
            Word* slab = bucket_of(warp.shfl(source, turn), its_target);
            for (;;) {
                Word item = read(slab);
                bool found = warp.any(lane() < kItems && target_of(item) == its_target);
                Word link = warp.shfl(item, kWords - 1);
                if (lane() == turn) answer = found;
                if (found || link == kEmpty) break;
                slab = unit((u32)link);
            }
        }
        return answer;
    }

    // Calls `visit` with an item of the list in each lane, or with kNoVertex, until there are no more. All lanes of the warp take part.
    template <class Visit> WK_DEVICE void each(u32 source, const Visit& visit) const {
        Warp warp;
        u64 list = load(graph.lists + source);
        for (u32 bucket = 0; bucket < (u32)(list >> 32); bucket++) {
            Word* slab = base((u32)list + bucket);
            for (;;) {
                Word item = read(slab);
                Word link = warp.shfl(item, kWords - 1);
                bool is_item = lane() < kItems && target_of(item) < kDeletedVertex;
                visit(is_item ? target_of(item) : kNoVertex);
                if (link == kEmpty) break;
                slab = unit((u32)link);
            }
        }
    }

    // Empties a list, and gives its further slabs back.
    WK_DEVICE void clear(u32 source) {
        Warp warp;
        u64 list = load(graph.lists + source);
        for (u32 bucket = 0; bucket < (u32)(list >> 32); bucket++) {
            Word* slab = base((u32)list + bucket);
            Word link = warp.shfl(read(slab), kWords - 1);
            warp.sync();
            fill(slab);
            while (link != kEmpty) {
                u32 handle = (u32)link;
                link = warp.shfl(read(unit(handle)), kWords - 1);
                warp.sync();
                slabs.release(handle, lane() == 0);
            }
        }
        if (lane() == 0) store(graph.degrees + source, 0);
    }

private:
    WK_DEVICE static void fill(Word* slab) {
        for (u32 at = lane(); at < kWords; at += kWarp) store<Scope::Device, Order::Relaxed>(slab + at, kEmpty);
    }

    // One look at a slab: the answer, or on to another slab, or to be called again.
    WK_DEVICE EdgeAnswer step(Word*& slab, bool deletes, u32 target, Word item, bool& is_done) {
        Warp warp;
        Word there = read(slab);
        bool is_item = lane() < kItems;
        u32 hits = warp.ballot(is_item && target_of(there) == target), empty = warp.ballot(is_item && there == kEmpty);
        Word link = warp.shfl(there, kWords - 1);
        if (hits) {
            u32 at = ffs(hits) - 1;
            Word seen = warp.shfl(there, at);
            is_done = swap(slab + at, seen, deletes ? (Word)kDeletedVertex : item);
            return deletes ? EdgeAnswer::Deleted : EdgeAnswer::Updated;
        }
        if (empty || link == kEmpty) {
            is_done = deletes;
            if (deletes) return EdgeAnswer::Absent;
            if (empty) {
                is_done = swap(slab + ffs(empty) - 1, kEmpty, item);
                return EdgeAnswer::Inserted;
            }
            u32 fresh = warp.shfl(slabs.allocate(lane() == 0), 0);
            if (fresh == kNoUnit) {
                is_done = true;
                return EdgeAnswer::OutOfSlabs;
            }
            fill(unit(fresh));
            // The lane that links the slab orders what the others have stored.
            warp.sync();
            Word first = kEmpty;
            if (lane() == 0) first = cas<Scope::Device, Order::AcqRel>(slab + kWords - 1, kEmpty, (Word)fresh);
            first = warp.shfl(first, 0);
            // Another warp linked a slab first.
            slabs.release(fresh, first != kEmpty && lane() == 0);
            link = first == kEmpty ? (Word)fresh : first;
        }
        slab = unit((u32)link);
        // The lane that read the link orders what the others read behind it.
        fence();
        warp.sync();
        return EdgeAnswer::Absent;
    }

    WK_DEVICE static bool swap(Word* at, Word seen, Word wanted) {
        Word there = 0;
        if (lane() == 0) there = cas<Scope::Device, Order::Relaxed>(at, seen, wanted);
        return Warp().shfl(there, 0) == seen;
    }
};

// A thread for each operation, or for each direction of one.
template <class Word> WK_DEVICE void apply_edges(const SlabGraphParams& p) {
    SlabGraph<Word> graph(p.graph);
    u64 i = global_index(), op = i >> p.mirrored;
    bool is_there = op < p.count, is_back = p.mirrored && i % 2;
    u32 source = is_there ? load(p.sources + op) : 0, target = is_there ? load(p.targets + op) : 0;
    u32 weight = is_there && p.weights ? load(p.weights + op) : 0;
    EdgeAnswer answer = graph.serve(is_there, p.deletes, is_back ? target : source, is_back ? source : target, weight);
    if (is_there && !is_back) store(p.statuses + op, (u8)answer);
}

WK_DEVICE bool is_doomed(const SlabGraphParams& p, u32 v) { return load(p.doomed + v / 32) >> v % 32 & 1; }

// A warp for each vertex that is deleted: its neighbours lose their edges to it. Each edge is two entries, or the same one of two vertices that are deleted.
template <class Word> WK_DEVICE void unlink(const SlabGraphParams& p) {
    SlabGraph<Word> graph(p.graph);
    u64 number = global_warp();
    if (number >= p.count) return;
    u32 own = load(p.sources + number);
    u64 entries = 0;
    graph.each(own, [&](u32 target) {
        bool is_edge = target != kNoVertex, stays = is_edge && !is_doomed(p, target);
        graph.serve(stays, true, target, own, 0);
        entries += is_edge + stays;
    });
    add_up(p.sums, entries);
}

template <class Word> WK_DEVICE void clear(const SlabGraphParams& p) {
    SlabGraph<Word> graph(p.graph);
    u64 number = global_warp();
    if (number < p.count) graph.clear(load(p.sources + number));
}

// A warp for each edge: for every item of the shorter list that is larger than both ends, whether it is in the other list.
template <class Word> WK_DEVICE void count_triangles(const SlabGraphParams& p) {
    SlabGraph<Word> graph(p.graph);
    u64 number = global_warp(), found = 0;
    if (number >= p.count) return;
    u32 one = load(p.sources + number), two = load(p.targets + number);
    bool is_longer = load(p.graph.degrees + one) > load(p.graph.degrees + two);
    u32 listed = is_longer ? two : one, asked = is_longer ? one : two, above = one > two ? one : two;
    graph.each(listed, [&](u32 third) { found += graph.has(third != kNoVertex && third > above, asked, third); });
    add_up(p.sums, found);
}

// A warp for each vertex: its edges, source and target in a word, in any order. The first sum counts them.
template <class Word> WK_DEVICE void collect(const SlabGraphParams& p) {
    SlabGraph<Word> graph(p.graph);
    u64 number = global_warp();
    if (number >= p.graph.vertices) return;
    graph.each((u32)number, [&](u32 target) {
        u64 at = append_by_warp(p.sums, target != kNoVertex);
        if (target != kNoVertex) store(p.edges + at, number << 32 | target);
    });
}

}  // namespace bench
