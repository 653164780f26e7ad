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

struct Count {
    GraphRef graph;
    u64* triangles;
};

// PageRank in units of 2^-60: sums of whole numbers do not depend on their order.
struct Rank {
    GraphRef graph;
    u64* ranks;
    // What edges bring to each vertex.
    u64* sums;
    // The ranks of vertices without edges.
    u64* dangling;
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

// A warp for each vertex: of each edge to a larger vertex, the common neighbours that are larger than both. Every triangle is counted once.
WK_DEVICE void triangles(const Count& p) {
    u64 number = global_warp();
    if (number >= p.graph.vertices) return;
    u32 own = (u32)number;
    u64 count = 0;
    for (auto edge = p.graph.neighbours(own, lane(), kWarp); edge.valid(); edge.next()) {
        u32 other = edge.target();
        if (other <= own) continue;
        GraphVertex one = p.graph.vertex(own), two = p.graph.vertex(other);
        // The neighbours of both that are larger than the other vertex.
        u32 a = one.begin + lower_bound(p.graph.targets + one.begin, one.degree, other + 1), a_end = one.begin + one.degree;
        u32 b = two.begin + lower_bound(p.graph.targets + two.begin, two.degree, other + 1), b_end = two.begin + two.degree;
        // The longer list is searched for each of a much shorter one; lists of similar lengths are merged.
        if (a_end - a > b_end - b) {
            u32 begin = a, end = a_end;
            a = b, a_end = b_end, b = begin, b_end = end;
        }
        bool searches = (u64)(a_end - a) * kWarp < b_end - b;
        while (a < a_end && b < b_end) {
            u32 wanted = load(p.graph.targets + a);
            if (searches) b += lower_bound(p.graph.targets + b, b_end - b, wanted);
            else
                while (b < b_end && load(p.graph.targets + b) < wanted) b++;
            count += b < b_end && load(p.graph.targets + b) == wanted;
            a++;
        }
    }
    sync_warp();
    add_by_warp(p.triangles, count);
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
    u64 v = global_index();
    if (v >= p.graph.vertices) return;
    u64 sum = load(p.sums + v) + load(p.dangling) / p.graph.vertices;
    store(p.ranks + v, p.base + mul_hi(p.damping, sum));
    store(p.sums + v, 0);
}

}  // namespace graph_algorithms
