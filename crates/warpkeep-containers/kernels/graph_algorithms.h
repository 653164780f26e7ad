// Algorithms on a graph, by the iterator and the lookups that all kernels have: warpkeep/graph.h. The host's side is src/graph/algorithms.rs.
#pragma once
#include "graph_batch.h"
#include "warpkeep/hash.h"

namespace graph_algorithms {

using namespace wk;
using graph_batch::add_by_warp;

// A level of a search: vertices that were reached by the level before.
struct Level {
    GraphRef graph;
    u32* levels;
    const u32* frontier;
    u64 count;
    u32* next;
    u64* found;
    u64 level;
};

struct Join {
    GraphRef graph;
    // A smaller or equal vertex of the same component, for each vertex.
    u32* parents;
    u64* changes;
};

// PageRank in units of 2^-60: sums of whole numbers do not depend on their order.
struct Rank {
    GraphRef graph;
    u64* ranks;
    // What edges bring to each vertex.
    u64* sums;
    // The ranks of vertices without edges.
    u64* dangling;
    // The sum of the differences between the ranks of this round and those before.
    u64* change;
    // The damping factor in units of 2^-64, and the rank that every vertex has at least.
    u64 damping;
    u64 base;
};

// A warp for each vertex of the frontier. Each vertex is reached first by one lane, whose compare-and-swap succeeds.
WK_DEVICE void advance(const Level& p) {
    Warp warp;
    u64 number = global_warp();
    if (number >= p.count) return;
    u32 own = load(p.frontier + number), rounds = (p.graph.degree(own) + kWarp - 1) / kWarp;
    auto edge = p.graph.neighbours(own, lane(), kWarp);
    for (u32 round = 0; round < rounds; round++, edge.next()) {
        u32 target = edge.valid() ? edge.target() : 0;
        bool first = edge.valid() && load<Scope::Device, Order::Relaxed>(p.levels + target) == ~0u &&
                     cas<Scope::Device, Order::Relaxed>(p.levels + target, ~0u, (u32)p.level) == ~0u;
        u64 at = append_by_warp(p.found, first);
        if (first) store(p.next + at, target);
    }
    warp.sync();
}

// The smallest vertex that parents lead to from here.
WK_DEVICE u32 root_of(const Join& p, u32 v) {
    u32 parent = load<Scope::Device, Order::Relaxed>(p.parents + v);
    while (parent != v) {
        v = parent;
        parent = load<Scope::Device, Order::Relaxed>(p.parents + v);
    }
    return v;
}

// A warp for each vertex: the roots of both ends of each edge get the smaller one of the two as their parent. Parents only become smaller, so nothing waits, and
// a round without a change ends it.
WK_DEVICE void join(const Join& p) {
    u64 number = global_warp();
    if (number >= p.graph.vertices) return;
    u64 changes = 0;
    for (auto edge = p.graph.neighbours((u32)number, lane(), kWarp); edge.valid(); edge.next()) {
        u32 one = root_of(p, (u32)number), two = root_of(p, edge.target());
        if (one == two) continue;
        u32 larger = one > two ? one : two, smaller = one > two ? two : one;
        fetch_min(p.parents + larger, smaller);
        changes++;
    }
    sync_warp();
    add_by_warp(p.changes, changes);
}

// A thread for each vertex: its parent is the root.
WK_DEVICE void shorten(const Join& p) {
    u64 v = global_index();
    if (v < p.graph.vertices) store<Scope::Device, Order::Relaxed>(p.parents + v, root_of(p, (u32)v));
}

// A warp for each vertex: each of its edges brings an equal share of its rank to the target.
WK_DEVICE void spread(const Rank& p) {
    u64 v = global_warp();
    if (v >= p.graph.vertices) return;
    u64 rank = load(p.ranks + v);
    u32 degree = p.graph.degree((u32)v);
    if (degree == 0) {
        if (lane() == 0) fetch_add(p.dangling, rank);
        return;
    }
    u64 share = rank / degree;
    for (auto edge = p.graph.neighbours((u32)v, lane(), kWarp); edge.valid(); edge.next()) fetch_add(p.sums + edge.target(), share);
}

// A thread for each vertex: its rank of the next round. What vertices without edges have is shared by all.
WK_DEVICE void settle(const Rank& p) {
    u64 v = global_index(), change = 0;
    if (v < p.graph.vertices) {
        u64 sum = load(p.sums + v) + load(p.dangling) / p.graph.vertices, before = load(p.ranks + v);
        u64 rank = p.base + mul_hi(p.damping, sum);
        store(p.ranks + v, rank);
        store(p.sums + v, 0);
        change = rank > before ? rank - before : before - rank;
    }
    add_by_warp(p.change, change);
}

}  // namespace graph_algorithms
